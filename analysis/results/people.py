"""What scored texts say of the people who wrote them: levels over time, by group, and by what is expressed.

The questions on levels are those of Sharma et al. 2020 (EMNLP, section 7 and appendix C). Every answer is a relative
change: the ratio of two means less 1. Its interval takes authors as the units that were drawn, since texts of one
author resemble each other, and is formed on the logarithm of the ratio by linearisation (Cochran 1977, Sampling
Techniques, 6.3).

Expressed against perceived is the question of Xu and Jiang ("Multi-dimensional Evaluation of Empathetic Dialog
Responses", Table 2): for every intent and every rating, the mean rating where the intent appears and where it does not.
There one utterance of each dialogue was rated by a person who is no part of it; here rows may share a dialogue and then
its level, so that errors, tests and corrections take groups as the units that were drawn. The error of a mean and of a
difference of two is the bias-reduced sandwich (Bell and McCaffrey 2002, "CR2"), which for two means is a sum over
groups in closed form. Student's t has Satterthwaite's degrees of freedom under the working model that rows of a group
share an effect (Imbens and Kolesar 2016): what few groups show, or a few large groups decide, has few of them, whatever
its rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtri, stdtr, stdtrit

from analysis.gains.corrections import GainTest, as_normal, corrections_of, reaches
from analysis.gains.significance import DRAWS, LEVEL, FloatArray
from analysis.tables import Declared, framed, interval_columns
from tasks.errors import BadInput
from tasks.plain_text import counted, nearest

WITH, WITHOUT = 0, 1
SIGNS = np.array([[1.0], [-1.0]])  # of the two means in their difference
DRAWS_AT_A_TIME = 1_000


@dataclass(frozen=True)
class TwoMeans:
    """Means of rows with and without something, each ``[2]``: rows, groups, means and their standard errors.

    ``terms`` ``[groups]`` are what each group adds to the difference of the two: its squared error is the sum of their
    squares. What is not defined is NaN: the error of a mean whose rows are all of one group, and so the difference's.
    """

    rows: NDArray[np.int64]
    groups: NDArray[np.int64]
    means: FloatArray
    errors: FloatArray
    terms: FloatArray
    df: float

    @classmethod
    def of(cls, values: FloatArray, is_with: NDArray[np.bool_], group: NDArray[np.int64], count: int) -> TwoMeans:
        """From rows ``[n]``: values, whether a row is with it, and the number of its group, below ``count``."""
        # 1. Per side and group ``[2, groups]``: rows, and the sum of what is left of values beyond their side's mean.
        sides = np.stack([is_with, ~is_with])
        sizes = np.stack([np.bincount(group[side], minlength=count) for side in sides])
        rows = sizes.sum(axis=1)
        means = np.array([values[side].mean() if side.any() else np.nan for side in sides])
        left = values - np.where(is_with, means[WITH], means[WITHOUT])
        sums = np.stack([np.bincount(group[side], left[side], count) for side in sides])
        # 2. A group pulls the mean of its side towards itself: what is left is too small, by the root of 1 - its share.
        share = sizes / np.maximum(rows, 1)[:, None]
        stretch = 1 / np.sqrt(np.where(share < 1, 1 - share, np.nan))
        weights = SIGNS * stretch / np.maximum(rows, 1)[:, None]
        terms = weights * sums
        errors = np.where(rows > 0, np.sqrt((terms**2).sum(axis=1)), np.nan)
        shared = _shared_part(left, group, count)
        df = _degrees(sizes, weights, shared) if np.isfinite(errors).all() else float("nan")
        return cls(rows, (sizes > 0).sum(axis=1), means, errors, terms.sum(axis=0), df)

    @property
    def difference(self) -> float:
        """Mean with less mean without."""
        return float(self.means[WITH] - self.means[WITHOUT])

    @property
    def error(self) -> float:
        """The standard error of the difference."""
        return float(np.sqrt((self.terms**2).sum()))

    @property
    def is_testable(self) -> bool:
        """Whether the difference has an error above 0 by which to measure it."""
        return bool(np.isfinite(self.df) and self.error > 0)

    @property
    def p(self) -> float:
        """Two-sided p of no difference; NaN where it cannot be tested."""
        return float(2 * stdtr(self.df, -abs(self.difference) / self.error)) if self.is_testable else float("nan")

    @property
    def half_width(self) -> float:
        """Half of the 95 % interval of the difference; NaN where it cannot be tested."""
        return float(stdtrit(self.df, 1 - LEVEL / 2) * self.error) if self.is_testable else float("nan")


def _shared_part(left: FloatArray, group: NDArray[np.int64], count: int) -> float:
    """The share of a rating's variance that rows of a group have in common: mean product of two rows over mean square.

    From 0 to 1 (Imbens and Kolesar 2016, section 3); 0 where no group has two rows, or nothing varies.
    """
    sizes, sums, squares = (np.bincount(group, weights, count) for weights in (None, left, left**2))
    pairs, whole = float((sizes * (sizes - 1)).sum()), float(np.mean(left**2))
    if pairs == 0 or not whole > 0:
        return 0.0
    return float(np.clip((sums**2 - squares).sum() / pairs / whole, 0.0, 1.0))


def _degrees(sizes: NDArray[np.int64], weights: FloatArray, shared: float) -> float:
    """Degrees of freedom of the difference's squared error: 2 E^2 / Var, of a quadratic form in normal variables.

    With sizes and weights ``[2, groups]``. The form's matrix ``[groups, groups]`` has the products of the groups' terms
    expected under the working model. It is a diagonal and four columns, so that its trace and its squares cost no more
    than the groups are many.
    """
    rows = sizes.sum(axis=1)
    pull, portion = (sizes * weights).T, (sizes / rows[:, None]).T  # [groups, 2]
    total = pull.sum(axis=1)
    diagonal = (1 - shared) * (sizes * weights**2).sum(axis=0) + shared * total**2
    columns = np.hstack([pull, total[:, None] * portion])
    core = np.zeros((4, 4))
    core[:2, :2] = shared * portion.T @ portion - (1 - shared) * np.diag(1 / rows)
    core[:2, 2:] = core[2:, :2] = -shared * np.eye(2)
    products = core @ (columns.T @ columns)
    trace = diagonal.sum() + np.trace(products)
    squares = (
        (diagonal**2).sum()
        + 2 * np.trace(core @ (columns.T @ (diagonal[:, None] * columns)))
        + np.trace(products @ products)
    )
    return float(trace**2 / squares) if squares > 0 else float("nan")


def joint_tests(
    tests: Sequence[TwoMeans], columns: Sequence[str], draws: int, rng: np.random.Generator
) -> list[tuple[int, GainTest]]:
    """Those of these tests that can be made, by place, with joint draws for the step-down maximum.

    The tests have the same groups. A draw gives every group a standard normal weight (Chernozhukov, Chetverikov and
    Kato 2013), the same for all tests: draws are normal deviates that depend on each other as the tests do.
    """
    places = [index for index, test in enumerate(tests) if test.is_testable]
    if not places:
        return []
    scaled = np.stack([tests[index].terms / tests[index].error for index in places], axis=1)
    drawn = np.concatenate(
        [
            np.abs(rng.standard_normal((min(DRAWS_AT_A_TIME, draws - start), len(scaled))) @ scaled).astype(np.float32)
            for start in range(0, draws, DRAWS_AT_A_TIME)
        ]
    )
    made = []
    for index, sizes in zip(places, drawn.T, strict=True):
        test = tests[index]
        deviate = float(as_normal(np.array([abs(test.difference) / test.error]), test.df)[0])
        made.append((index, GainTest((columns[index], ""), "table", deviate, np.ascontiguousarray(sizes))))
    return made


DECIDES = "p_max_table"
RENAMED = {"p_max_target": "p_max_rating", "p_max_grid": DECIDES}
FEWEST_GROUPS = 4  # below which a correlation has no interval
EXPRESSED = {
    "intent": Declared("str", "what a row expresses or does not"),
    "rating": Declared("str", "how a row was rated"),
    "rows_with": Declared("int64", "rated rows with the intent"),
    "groups_with": Declared("int64", "groups (dialogues) that have such rows"),
    "mean_with": Declared("float64", "mean rating of these rows"),
    "error_with": Declared("float64", "its standard error, clustered by group; undefined where they are of one group"),
    "rows_without": Declared("int64", "rated rows without it"),
    "groups_without": Declared("int64", "groups that have such rows"),
    "mean_without": Declared("float64", "mean rating of these"),
    "error_without": Declared("float64", "its standard error"),
    "difference": Declared("float64", "mean with less mean without"),
    "error": Declared("float64", "standard error of the difference, clustered by group"),
    "df": Declared("float64", "its degrees of freedom: how many independent groups it rests on, about"),
    "low": Declared("float64", "lower end of the difference's 95 % interval"),
    "high": Declared("float64", "upper end"),
    "p": Declared("float64", "two-sided p that there is no difference"),
    "p_bh": Declared("float64", "p after Benjamini and Hochberg over the table"),
    "p_by": Declared("float64", "p after Benjamini and Yekutieli over the table"),
    "p_holm": Declared("float64", "p after Holm over the table"),
    "p_max_rating": Declared("float64", "p after the step-down maximum over the intents of this rating"),
    DECIDES: Declared("float64", "p after the step-down maximum over the table: it decides what is called different"),
}
CORRELATIONS = {
    "rating": Declared("str", "a rating"),
    "other": Declared("str", "another rating, or the same"),
    "rho": Declared("float64", "Spearman's correlation of the groups' means of both; undefined where one never varies"),
    **interval_columns("{}", " (Bonett and Wright 2000); undefined below 4 groups"),
    "groups": Declared("int64", "groups that have both"),
    "rho_rows": Declared("float64", "Spearman's correlation over the rows that have both"),
    "rows": Declared("int64", "these rows"),
}


@dataclass(frozen=True)
class Rated:
    """Rows with the name of their group, intents (1, 0, or NaN where unknown) and ratings (NaN where not rated).

    BadInput for fewer than two groups, and for an intent that no row or every row has.
    """

    group: pd.Series
    intents: pd.DataFrame
    ratings: pd.DataFrame

    def __post_init__(self) -> None:
        """Refuse what cannot be compared."""
        groups = self.group.nunique()
        if groups < 2:
            raise BadInput(f"--group: {counted(groups, 'group')} with ratings; errors need two, and want thirty")
        for name in self.intents:
            defined = self.intents[name].dropna()
            if not (defined == 1).any():
                raise BadInput(f"intent {name!r}: nobody has it in {counted(len(defined), 'rated row')}; leave it out")
            if (defined == 1).all():
                raise BadInput(f"intent {name!r}: all {counted(len(defined), 'rated row')} have it; leave it out")


def expressed(rated: Rated, *, draws: int = DRAWS, seed: int = 0) -> pd.DataFrame:
    """The frame EXPRESSED, one row per rating and intent, in their order; ``draws`` are those of the maxima.

    A row without a test takes part in no correction: one side has no rows, or all of its rows are of one group, or no
    rating varies.
    """
    names, group = np.unique(rated.group.to_numpy(str), return_inverse=True)
    places = list(product(rated.ratings, rated.intents))
    means = [_means(rated, rating, intent, group, len(names)) for rating, intent in places]
    p = np.array([pair.p for pair in means])
    joint = joint_tests(means, [rating for rating, _ in places], draws, np.random.default_rng(seed))
    corrected = corrections_of(p, *reaches(joint)).rename(columns=RENAMED)
    rows = [_row(rating, intent, pair) for (rating, intent), pair in zip(places, means, strict=True)]
    return framed(pd.DataFrame(rows).assign(p=p).join(corrected), EXPRESSED)


def _means(rated: Rated, rating: str, intent: str, group: np.ndarray, count: int) -> TwoMeans:
    values, has = rated.ratings[rating].to_numpy(np.float64), rated.intents[intent].to_numpy(np.float64)
    defined = np.isfinite(values) & np.isfinite(has)
    return TwoMeans.of(values[defined], has[defined] == 1, group[defined], count)


def _row(rating: str, intent: str, pair: TwoMeans) -> dict[str, Any]:
    sides = {
        f"{noun}_{side}": values[index]
        for side, index in (("with", WITH), ("without", WITHOUT))
        for noun, values in (("rows", pair.rows), ("groups", pair.groups), ("mean", pair.means), ("error", pair.errors))
    }
    ends = {"low": pair.difference - pair.half_width, "high": pair.difference + pair.half_width}
    return {
        **{"intent": intent, "rating": rating, **sides, "difference": pair.difference},
        **{"error": pair.error, "df": pair.df, **ends},
    }


def correlations(rated: Rated) -> pd.DataFrame:
    """The frame CORRELATIONS: how ratings go together, over groups and over rows, every two of them both ways.

    Groups are what was drawn, and what two ratings may share that never stand on one row: marks within a dialogue, and
    a judgement at its end. Where every group is one row, both are the same.
    """
    of_groups = rated.ratings.groupby(rated.group.to_numpy()).mean()
    rows = []
    for rating, other in product(rated.ratings, repeat=2):
        rho, groups = _spearman(of_groups[rating], of_groups[other])
        rho_rows, both = _spearman(rated.ratings[rating], rated.ratings[other])
        low, high = _interval(rho, groups) if rating != other else (np.nan, np.nan)
        row = {"rating": rating, "other": other, "rho": rho, "low": low, "high": high, "groups": groups}
        rows.append({**row, "rho_rows": rho_rows, "rows": both})
    return framed(pd.DataFrame(rows), CORRELATIONS)


def _spearman(one_side: pd.Series, other: pd.Series) -> tuple[float, int]:
    """Spearman's correlation of what both have, and of how many; NaN where a side does not vary."""
    both = np.isfinite(one_side.to_numpy()) & np.isfinite(other.to_numpy())
    ranks = [side[both].rank().to_numpy() for side in (one_side, other)]
    varies = both.sum() > 1 and all(np.ptp(side) > 0 for side in ranks)
    return (float(np.corrcoef(*ranks)[0, 1]) if varies else float("nan")), int(both.sum())


def _interval(rho: float, n: int) -> tuple[float, float]:
    """95 % interval of Spearman's correlation by Fisher's z with the variance (1 + rho^2 / 2) / (n - 3)."""
    if n < FEWEST_GROUPS or not abs(rho) < 1:
        return float("nan"), float("nan")
    half = ndtri(1 - LEVEL / 2) * np.sqrt((1 + rho**2 / 2) / (n - 3))
    return float(np.tanh(np.arctanh(rho) - half)), float(np.tanh(np.arctanh(rho) + half))


Array = np.ndarray
TOTAL = "total"  # of all tasks of a text, as the paper adds up its three mechanisms
ALL = "all"
DAYS = 365.25  # of a period
FEWEST_TEXTS, FEWEST_DAYS = 10, 365.0  # of an author whose texts count in time (appendix C there)
MOST_GROUPS = 24
MOST_CLASSES = 7  # levels that are told apart by themselves; of more, quarters of the texts
QUARTERS = 4

OF_LEVELS = {
    "scale": Declared("str", "a task, or the total of all tasks of a text"),
    "authors": Declared("Int64", "authors behind the comparison, or of the row where nothing is compared"),
    "texts": Declared("Int64", "texts of the row"),
}
CHANGE = {
    "change": Declared("float64", "relative change (%): the ratio of the two means less 1, times 100"),
    **interval_columns("{}", ", clustered by author; undefined below two authors"),
}
OVER_TIME = {
    **OF_LEVELS,
    "joined": Declared("str", "the year of the authors' first text, or all of them"),
    "period": Declared("int64", "whole years since an author's first text"),
    "everyone": Declared("float64", "mean over all texts of the period: it moves when authors leave, too"),
    "mean": Declared("float64", "mean over authors, of authors with texts in this period and in their first"),
    "first": Declared("float64", "mean over the same authors in their first period"),
    **CHANGE,
}
BY_GROUP = {
    **OF_LEVELS,
    "group": Declared("str", "a group of texts"),
    "mean": Declared("float64", "mean level of the group's texts"),
    "reference": Declared("str", "the largest group, with which the others are compared"),
    **CHANGE,
}
BY_LEVEL = {
    **OF_LEVELS,
    "level": Declared("str", "a level, or the range of a quarter of the texts"),
    "outcome": Declared("float64", "mean outcome of these texts"),
    "reference": Declared("str", "the lowest level, with which the others are compared"),
    **CHANGE,
}


def levels(scored: pd.DataFrame, order: Sequence[str] = ()) -> pd.DataFrame:
    """One row per text and one column per task, and their total where there are several: levels as numbers.

    ``scored`` has one row per text and task (``task``, ``value``, ``prediction``), the tasks of a text together; a
    class counts by its place in ``order``, or as the number that it is. BadInput for a class that is neither.
    """
    tasks = list(dict.fromkeys(scored.task))
    columns = {task: _numbers(task, scored[scored.task == task], order) for task in tasks}
    lengths = {len(column) for column in columns.values()}
    if len(lengths) > 1:
        raise BadInput(f"the tasks {', '.join(tasks)} have scored different numbers of texts; name one with --task")
    wide = pd.DataFrame(columns)
    return wide.assign(**{TOTAL: wide.sum(axis=1)}) if len(tasks) > 1 else wide


def _numbers(task: str, rows: pd.DataFrame, order: Sequence[str]) -> Array:
    values: Array = rows.value.to_numpy("float64")
    if np.isfinite(values).all():
        return values
    classes = rows.prediction.astype(str)
    if order:
        if unknown := sorted(set(classes) - set(order)):
            near = nearest(unknown[0], order)
            raise BadInput(f"--levels {','.join(order)}: class {unknown[0]!r} of task {task!r} is not there{near}")
        places: Array = classes.map({name: level for level, name in enumerate(order)}).to_numpy("float64")
        return places
    numbers: Array = pd.to_numeric(classes, errors="coerce").to_numpy("float64")
    if not np.isfinite(numbers).all():
        names = ",".join(sorted(set(classes))[:MOST_CLASSES])
        raise BadInput(f"classes of task {task!r} are no numbers; name them from low to high, as in --levels {names}")
    return numbers


def ratio(sums: Array, counts: Array) -> tuple[float, float, float]:
    """The ratio of two means with its interval, authors drawn: ``sums`` and ``counts`` [authors, 2] of its two sides.

    With means m = S / n of a side, an author moves the logarithm of the ratio m1 / m0 by (s1 - m1 n1) / S1
    - (s0 - m0 n0) / S0; the variance is that of these terms. The bounds are undefined for fewer than two authors, and
    where a mean is not above 0.
    """
    whole, n = sums.sum(0), counts.sum(0)
    means = np.divide(whole, n, out=np.full(2, np.nan), where=n > 0)
    if not (means > 0).all():
        value = float(means[0] / means[1]) if means[1] > 0 else np.nan
        return value, np.nan, np.nan
    moved = (sums - means * counts) / whole
    terms, authors = moved[:, 0] - moved[:, 1], len(sums)
    value = float(means[0] / means[1])
    if authors < 2:
        return value, np.nan, np.nan
    error = np.sqrt(authors / (authors - 1) * (terms**2).sum())
    half = float(stdtrit(authors - 1, 1 - LEVEL / 2) * error)
    return value, value * float(np.exp(-half)), value * float(np.exp(half))


def _change(sums: Array, counts: Array) -> dict[str, float]:
    value, low, high = ratio(sums, counts)
    return {"change": 100 * (value - 1), "low": 100 * (low - 1), "high": 100 * (high - 1)}


def over_time(
    scales: pd.DataFrame,
    author: pd.Series,
    time: pd.Series,
    *,
    fewest_texts: int = FEWEST_TEXTS,
    fewest_days: float = FEWEST_DAYS,
) -> pd.DataFrame:
    """Levels by years since an author's first text, among those who stay; one row per scale, stratum and period.

    A later period is compared with the first one of the same authors, so that nobody's leaving moves the answer.
    Authors with fewer texts, or a shorter time between first and last, than asked for are left out; BadInput
    if fewer than two are left.
    """
    first, last = (time.groupby(author).transform(end) for end in ("min", "max"))
    stays = (last - first).dt.total_seconds() >= 86400 * fewest_days
    kept = stays & (author.groupby(author).transform("size") >= fewest_texts)
    if author[kept].nunique() < 2:
        raise BadInput(
            f"--author: {counted(author[kept].nunique(), 'author')} of {author.nunique():,} with"
            f" {fewest_texts} texts over {fewest_days:g} days; ask less with --fewest-texts or"
            " --fewest-days"
        )
    period = ((time - first).dt.total_seconds() / 86400 // DAYS).astype("int64")
    joined = first.dt.year.astype(str)
    rows = []
    for stratum, name in product((ALL, *sorted(joined[kept].unique())), scales):
        is_there = kept & ((joined == stratum) | (stratum == ALL))
        texts = pd.DataFrame({"level": scales[name], "author": author, "period": period})[is_there]
        by_author = texts.groupby(["period", "author"])["level"].mean().unstack("period")
        for year, part in texts.groupby("period"):
            both = by_author[[0, year]].dropna().to_numpy()
            row = {"scale": name, "joined": stratum, "period": year, "authors": len(both), "texts": len(part)}
            row["everyone"] = part["level"].mean()
            means = {"mean": both[:, 1].mean(), "first": both[:, 0].mean()} if len(both) else {}
            compared = _change(both[:, ::-1], np.ones_like(both)) if year and len(both) else {}
            rows.append({**row, **means, **compared})
    return framed(pd.DataFrame(rows), OVER_TIME)


def by_group(scales: pd.DataFrame, author: pd.Series, group: pd.Series) -> pd.DataFrame:
    """Mean levels of groups of texts and how they differ from the largest group; BadInput outside 2 to 24 groups."""
    sizes = group.value_counts()
    if not 2 <= len(sizes) <= MOST_GROUPS:
        raise BadInput(f"--group: {counted(len(sizes), 'group')} where 2 to {MOST_GROUPS} can be compared")
    rows = [
        {"scale": name, "group": part, "mean": facts.pop("mean"), "reference": sizes.index[0], **facts}
        for name in scales
        for part, facts in _comparisons(scales[name], author, group.astype(str), [str(part) for part in sizes.index])
    ]
    return framed(pd.DataFrame(rows), BY_GROUP)


def by_level(scales: pd.DataFrame, author: pd.Series, outcome: pd.Series) -> pd.DataFrame:
    """Mean outcomes of texts of every level and how they differ from those of the lowest level."""
    rows = []
    for name in scales:
        level, names = _classes(scales[name])
        rows += [
            {"scale": name, "level": part, "outcome": facts.pop("mean"), "reference": names[0], **facts}
            for part, facts in _comparisons(outcome, author, level, names)
        ]
    return framed(pd.DataFrame(rows), BY_LEVEL)


def _classes(values: pd.Series) -> tuple[pd.Series, list[str]]:
    """The level of every text as a name, and the names from low to high: quarters where there are many levels."""
    steps, cut = np.sort(values.unique()), values
    parts: dict[Any, tuple[float, ...]] = {value: (value,) for value in steps}
    if len(steps) > MOST_CLASSES:
        cut = pd.qcut(values, QUARTERS, duplicates="drop")
        parts = {part: (part.left, part.right) for part in cut.cat.categories}
    for digits in range(3, 18):  # as few as tell them apart
        names = {part: " to ".join(f"{end:.{digits}g}" for end in ends) for part, ends in parts.items()}
        if len({*names.values()}) == len(names):
            break
    return cut.map(names).astype(str), list(names.values())


def _comparisons(
    values: pd.Series, author: pd.Series, part: pd.Series, order: Sequence[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """For every part of the texts its mean, and its relative change against the first part."""
    cells = values.groupby([author, part]).agg(["sum", "count"]).astype("float64")
    sums, counts = (cells[column].unstack(fill_value=0)[list(order)] for column in ("sum", "count"))
    base = order[0]
    for name in order:
        n = counts[name].sum()
        row = {"authors": int((counts[name] > 0).sum()), "texts": int(n), "mean": sums[name].sum() / n}
        if name != base:
            is_in = (counts[name] > 0) | (counts[base] > 0)
            sides = [part[[name, base]][is_in].to_numpy("float64") for part in (sums, counts)]
            row |= {"authors": int(is_in.sum()), **_change(*sides)}
        yield name, row


def followed(time: pd.Series, outcome: pd.Series, within_hours: float) -> pd.Series:
    """1 for a text whose outcome, a time or nothing, comes at most so many hours after it; else 0."""
    hours = (outcome - time).dt.total_seconds() / 3600
    return ((hours >= 0) & (hours <= within_hours)).astype("float64")
