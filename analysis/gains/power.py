"""What a study could have seen: the smallest true gain that its tests find in four of five repeats.

With a standard error e of a gain and its degrees of freedom v, a two-sided t test at level a finds a true gain g with
the probability P(|T| > t(1 - a/2, v)), T having Student's noncentral distribution with v degrees of freedom and
noncentrality g / e (Johnson and Welch 1940). The smallest visible gain solves it for .80; with many degrees of freedom
it is (1.960 + 0.842) e. A single gain's own few seeds are tested by a sum of such t, so there this is an approximation.

e is that of a gain of g, not of the pair as it is: the variance through groups that the pair's answers have when gains
of g are put into them (``analysis.gains.gains``), and the seeds' part as it is. What test rows show at best, before
anything is trained, is the same of a transfer that changes nothing but what it gains, in one training run.

With S seeds of a transfer and N >= S of its baseline, e^2 is V + s2(T - B S / N) / S + s2(B) (N - S) / N^2, in the
terms of ``analysis.gains.significance``: V comes from the study's gains, the variances between seeds and their
covariance from its scores, pooled over a target's transfers that did not collapse, of which the part of a transfer
about their mean has (T - 1) (S - 1) degrees of freedom (``analysis.gains.pairs``; their covariance is taken to be that
with the baseline).
With one seed of a transfer e^2 is V + s2(B) (1 + 1 / N), and its test is a sum of two t, whose bound lies between those
of either: the fewer degrees of freedom are taken. Variances between few seeds promise too much, since one that is too
small adds more to what is found than one that is too large takes away: they are multiplied by what makes their root
right in the mean, 1.57 for one degree of freedom (Holtzman 1950).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.special import gammaincinv, gammaln, ndtr, ndtri, stdtrit

from adapters_store.roles import BASELINE, TRANSFER
from analysis.gains.gains import ERRORS, FEWEST_GROUPS, Growth, best_growth
from analysis.gains.significance import LEVEL, Groups, Spread
from analysis.tables import Declared, framed, number

POWER = 0.8
NOT_DETECTABLE = "not detectable with this design"
MANY = 1000  # degrees of freedom from which on t is normal
MOST = 200.0  # points; a gain that large is beyond any score
STEPS = 2000  # of the integral over the standard error
DESIGNS = ((1, 5), (1, 10), (2, 2), (2, 10), (3, 3), (3, 10), (5, 5), (5, 20), (10, 10), (20, 20))
WHERE = ["target", "setting"]

VISIBLE = {
    "target": Declared("str", "id of the target"),
    "setting": Declared("str", "share of its training data"),
    "metric": Declared("str", "as tasks.metrics names it"),
    "n_pairs": Declared("int64", "gains that have a p"),
    "n_groups": Declared("Int64", "groups of test rows"),
    "standard_error": Declared("float64", "of the study's own gains in points, median over the pairs"),
    "visible": Declared(
        "float64", "smallest visible gain in points of one test at 5 %, median over pairs that have it"
    ),
    "visible_in_grid": Declared("float64", "the same at 5 % over the gains of the whole grid: what Holm surely passes"),
    "room": Declared("float64", "points from the target alone to a perfect score; a larger gain there cannot be"),
    "is_detectable": Declared("boolean", "visible is within that room; where it is not, visible is undefined"),
    "is_detectable_in_grid": Declared("boolean", "the same of visible_in_grid"),
    "target_has_learned": Declared("boolean", "as ``analysis.gains.baselines`` has it; undefined: not known"),
}
SPREADS = {
    "target": Declared("str", "id of the target"),
    "setting": Declared("str", "share of its training data"),
    "n_pairs": Declared("int64", "finished transfers"),
    "groups": Declared(
        "float64", "variance V of a gain through groups of test rows, points squared, median over pairs"
    ),
    **{name: Declared("float64", f"median over pairs: {column.meaning}") for name, column in ERRORS.items()},
    "groups_df": Declared("float64", "its degrees of freedom"),
    "n_seeds": Declared("int64", "seeds of baseline and transfer that variances between seeds come from"),
    "baseline": Declared("float64", "variance of the baseline's score between seeds, points squared"),
    "transfer": Declared("float64", "that of a transfer's, mean over pairs"),
    "shared": Declared("float64", "covariance of the two, mean over pairs"),
}
SEEDS = {
    "target": Declared("str", "id of the target"),
    "setting": Declared("str", "share of its training data"),
    "seeds": Declared("int64", "seeds of every transfer"),
    "baseline_seeds": Declared("int64", "seeds of the baseline, the transfers' among them"),
    "standard_error": Declared("float64", "of a gain in points, as large as those of the study"),
    "df": Declared("float64", "its degrees of freedom"),
    "visible": Declared("float64", "smallest visible gain in points of a single test at 5 %"),
    "is_detectable": Declared("boolean", "it is within the room above the target alone; where not, it is undefined"),
}


@dataclass(frozen=True)
class Error:
    """The standard error of a gain by its size: its variance through groups, and variances between training runs.

    ``groups_df`` are the degrees of freedom through groups, ``seeds`` the variances between runs with theirs, all in
    points squared. A test has at most ``most_df``.
    """

    groups: Growth
    groups_df: float
    seeds: Sequence[Spread] = ()
    most_df: float = np.inf

    @classmethod
    def of(cls, gain: Any) -> Error:  # noqa: ANN401 - a row of a frame
        """That of a row of a frame of gains; of printed scores, which know nothing of answers, it has one size."""
        of_seeds, total = getattr(gain, "seed_error", 0.0) ** 2, gain.standard_error**2
        if not hasattr(gain, "effective_groups"):
            return cls(Growth.constant(total), gain.df)
        through, df = total - of_seeds, gain.effective_groups - 1
        inverse = max(total**2 / gain.df - through**2 / df, 0.0) if of_seeds else 0.0
        seeds = [(of_seeds, of_seeds**2 / inverse if inverse else np.inf)] if of_seeds else []
        return cls(Growth.of(gain), df, seeds)

    def at(self, points: float) -> tuple[float, float]:
        """The standard error of a gain of so many points, and its degrees of freedom (Satterthwaite 1946)."""
        parts = [(self.groups.variance(points), self.groups_df), *self.seeds]
        variance = sum(part for part, _ in parts)
        inverse = sum(part**2 / df for part, df in parts)
        df = variance**2 / inverse if inverse > 0 else np.nan
        return float(np.sqrt(variance)), float(min(df, self.most_df))

    def smallest(self, *, level: float = LEVEL, limit: float = MOST) -> float:
        """The smallest true gain in points that a test at ``level`` finds with a probability of .80.

        Infinite if no gain up to ``limit`` is; NaN where the error is undefined or no answer changes.
        """

        def lacks(points: float) -> float:
            error, df = self.at(points)
            return POWER - chance_to_find(points / error if error else np.inf, df, level=level)

        if not np.isfinite(self.at(1.0)).all() or self.at(1.0)[0] == 0:
            return float("nan")
        if lacks(limit) > 0:
            return float("inf")
        from scipy.optimize import brentq  # a quarter of a second, which a report whose gains are kept needs not

        return float(brentq(lacks, 1e-9, limit, xtol=1e-6))


def smallest_at_best(metric: str, labels: ArrayLike, names: ArrayLike) -> float:
    """The smallest gain, in points, that test rows with these labels and groups could show in four of five repeats.

    It is that of one training run where no answer changes but those that the gain needs; infinite where no gain is
    large enough, NaN with fewer than FEWEST_GROUPS effective groups.
    """
    groups = Groups.of(names)
    if groups.effective < FEWEST_GROUPS:
        return float("nan")
    return Error(best_growth(metric, labels, groups), groups.effective - 1).smallest(limit=100.0)


def chance_to_find(errors: float, df: float, *, level: float = LEVEL) -> float:
    """The probability that a test at ``level`` with these degrees of freedom finds a true gain of so many ``errors``.

    NaN where either is undefined.
    """
    if np.isnan([errors, df]).any():
        return float("nan")
    if df >= MANY:
        bound, spread = float(ndtri(1 - level / 2)), np.ones(1)
    else:
        bound, spread = float(stdtrit(df, 1 - level / 2)), _spread_of_error(float(f"{df:.3g}"))
    return float((ndtr(errors - bound * spread) + ndtr(-bound * spread - errors)).mean())


@lru_cache(maxsize=1024)
def _spread_of_error(df: float) -> np.ndarray:
    """Values ``[STEPS]``, all as likely, of an estimated standard error whose true value is 1: roots of chi-square."""
    chances = (np.arange(STEPS) + 0.5) / STEPS
    return np.asarray(np.sqrt(2 * gammaincinv(df / 2, chances) / df))


def visible_gains(gains: pd.DataFrame) -> pd.DataFrame:
    """One row per target and setting of a frame of gains: the columns VISIBLE."""
    n_tests = int(gains.p.notna().sum())
    rows, unknown = [], pd.Series([pd.NA])  # of printed scores
    for (target, setting), part in gains.groupby(WHERE, sort=False):
        tested = part[part.p.notna()]
        errors = [Error.of(gain) for gain in tested.itertuples()]
        sizes = {
            name: [error.smallest(level=level) for error in errors]
            for name, level in (("visible", LEVEL), ("visible_in_grid", LEVEL / max(n_tests, 1)))
        }
        medians = {name: pd.Series(values, dtype=float).median() for name, values in sizes.items()}
        room = 100 * (1 - part.baseline.median())
        facts = {"target": target, "setting": setting, "metric": part.metric.iloc[0], "n_pairs": len(tested)}
        facts |= {"n_groups": part.n_groups.max(), "standard_error": tested.standard_error.median()}
        facts |= {"room": room, "target_has_learned": part.get("target_has_learned", unknown).iloc[0]}
        rows.append(facts | _within_room(medians, room))
    return framed(pd.DataFrame(rows, columns=list(VISIBLE)), VISIBLE)


def in_words(size: float, is_detectable: Any) -> str:  # noqa: ANN401 - True, False or nothing
    """A smallest visible gain in points, or that no possible gain is large enough to be seen."""
    return number(size, 1) if pd.isna(is_detectable) or is_detectable else NOT_DETECTABLE


def _within_room(sizes: Mapping[str, float], room: float) -> dict[str, Any]:
    """Sizes that fit into the room above the target alone, others undefined, and beside each whether it fits."""
    row: dict[str, Any] = {}
    for name, size in sizes.items():
        is_known = not np.isnan(size)
        row[name] = size if is_known and not size > room else np.nan
        row[name.replace("visible", "is_detectable")] = not size > room if is_known else pd.NA
    return row


def spreads(gains: pd.DataFrame, cells: pd.DataFrame) -> pd.DataFrame:
    """One row per target and setting of finished transfers: the columns SPREADS.

    What needs two seeds of the baseline, or of a transfer, is undefined where there are not.
    """
    done = cells[(cells.status == "done") & cells.role.isin((BASELINE, TRANSFER))]
    scores = {where: part for where, part in done.groupby(WHERE, sort=False)}
    rows = []
    for where, part in gains[gains.p.notna()].groupby(WHERE, sort=False):
        through_groups = part.standard_error**2 - part.seed_error**2
        facts = dict(zip(WHERE, where, strict=True))
        alone = part.df[part.seed_error == 0]  # of the groups alone, else they less 1
        groups = part.get("effective_groups", part.n_groups).fillna(part.n_groups)
        groups_df = float(alone.median() if len(alone) else groups.median() - 1)
        facts |= {"n_pairs": len(part), "groups": through_groups.median(), "groups_df": groups_df}
        # Printed or made-up gains know of no answers: their error through groups is the same for every size.
        alike = np.sqrt(max(facts["groups"], 0.0))
        facts |= {name: part[name].median() if name in part else alike for name in ERRORS}
        rows.append(facts | _between_seeds(scores[where]))
    return framed(pd.DataFrame(rows, columns=list(SPREADS)), SPREADS)


def visible_by_seeds(spread: pd.DataFrame, visible: pd.DataFrame) -> pd.DataFrame:
    """One row per row of ``spreads`` whose seeds are known and per design of DESIGNS: the columns SEEDS.

    ``visible`` is the frame of ``visible_gains``, for the room above each target alone.
    """
    rows, rooms = [], visible.set_index(WHERE).room
    for row in spread[spread.baseline.notna()].itertuples():
        for seeds, baseline_seeds in DESIGNS:
            parts = _seed_parts(row, seeds, baseline_seeds)
            most = baseline_seeds - 1.0 if seeds == 1 else np.inf
            error, df = Error(Growth.constant(row.groups), row.groups_df, parts, most).at(0.0)
            visible_size = Error(Growth.of(row), row.groups_df, parts, most).smallest()
            size = _within_room({"visible": visible_size}, float(rooms[row.target, row.setting]))
            rows.append((row.target, row.setting, seeds, baseline_seeds, error, df, *size.values()))
    return framed(pd.DataFrame(rows, columns=list(SEEDS)), SEEDS)


def _between_seeds(scores: pd.DataFrame) -> dict[str, Any]:
    """Variances of scores between seeds, in points squared, and the covariance of baseline and transfer."""
    points = scores.assign(points=100 * scores.score).pivot_table(
        index="seed", columns=scores.intermediate.fillna(""), values="points", dropna=False
    )
    collapsed = scores[scores.collapsed.fillna(False).astype(bool)].intermediate.dropna().unique()
    alone, transfers = points[""].dropna(), points.drop(columns=["", *collapsed])
    facts: dict[str, Any] = {"n_seeds": len(alone), "baseline": alone.var(ddof=1) if len(alone) > 1 else np.nan}
    both = [pd.concat([points[""], transfer], axis=1).dropna().to_numpy() for _, transfer in transfers.items()]
    pooled = [np.cov(pair, rowvar=False) for pair in both if len(pair) > 1]
    if not pooled:
        return {**facts, "transfer": np.nan, "shared": np.nan}
    return {
        **facts,
        "transfer": np.mean([covariance[1, 1] for covariance in pooled]),
        "shared": np.mean([covariance[0, 1] for covariance in pooled]),
    }


def _seed_parts(row: Any, seeds: int, baseline_seeds: int) -> list[tuple[float, float]]:  # noqa: ANN401 - a row
    """The seeds' part of the variance of a gain with its degrees of freedom, term by term.

    Where no transfer has two seeds, transfers are taken to vary as their baseline does, independently of it.
    """
    few, many = (_unbiased(df) for df in (row.n_seeds - 1.0, (row.n_pairs - 1) * (row.n_seeds - 1.0)))
    if seeds == 1:  # the test has the baseline's runs alone to go by, whatever a transfer's would say
        return [(few * row.baseline * (1 + 1 / baseline_seeds), baseline_seeds - 1)]
    transfer, shared = (row.baseline, 0.0) if np.isnan(row.transfer) else (row.transfer, row.shared)
    share = seeds / baseline_seeds
    paired = max(transfer + share**2 * row.baseline - 2 * share * shared, 0.0) / seeds
    part = min(max(transfer - shared, 0.0) * (1 - 1 / row.n_pairs) / seeds, paired)  # about the mean of the transfers
    rest = (few * (paired - part), seeds - 1.0)
    parts = [(many * part, (row.n_pairs - 1) * (seeds - 1.0)), rest] if part else [rest]
    further = few * row.baseline * (baseline_seeds - seeds) / baseline_seeds**2
    return parts + ([(further, baseline_seeds - 1.0)] if further else [])


def _unbiased(df: float) -> float:
    """What a variance with so many degrees of freedom is multiplied by, so that its root is right in the mean."""
    return float(df / 2 * np.exp(2 * (gammaln(df / 2) - gammaln((df + 1) / 2)))) if df > 0 else 1.0
