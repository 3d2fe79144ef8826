"""What classes of tasks give and take, tested, and whether less data and an intermediate do as well as all data.

A count of significant pairs depends on the sizes of test sets and counts every task up to 34 times. Beside the paper's
counts stand contrasts of mean gains between themes, in which a task counts once in each role. Tasks of one family are
alike for reasons of their own: were they taken as exchangeable, families that differ as much as tasks do would make
every tenth to fifth set of contrasts look real (docs/themes_calibration.csv). So effects e of tasks are modelled as
e = X m + Z f + r: X says the class of a task and Z its family, f of variance ``ratio`` s2 and r of variance s2 are
normal.

- The statistic of a contrast is the likelihood ratio of two classes having one mean or two, the other classes being
  free, with the ratio of variances that is likeliest in either case, from a grid (maximum likelihood).
- Its p is that of a parametric bootstrap: effects without any difference of classes are drawn with the ratio that the
  observed effects have if there is none (restricted likelihood, Patterson and Thompson 1971), and tested alike. From
  few families that ratio often comes out too small, so the next larger one of the grid is asked too, and the larger p
  counts. Nothing hangs on mean or scale, so the draws for a ratio serve every set of effects.
- Corrected is the largest statistic of all contrasts in each draw.

V = I + ratio Z Z' has one number per family to invert: V^-1 = I - Z w Z', w = ratio / (1 + ratio n) for a family of n.
So sums over classes and over families say all that is needed.

Less data: that a difference is not significant does not make two scores equal, since a small test set finds no
difference at all. In this test of non-inferiority a margin is named before, and the question is whether the data rule
out a loss as large as it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import stdtrit

from analysis.gains.corrections import benjamini_hochberg
from analysis.gains.significance import DRAWS, LEVEL, FloatArray
from analysis.results.results import Results
from analysis.tables import Declared, framed
from tasks.errors import BadInput
from tasks.ratings import constructs, themes

RATIOS = np.concatenate([[0.0], 2.0 ** np.arange(-4, 9)])  # of the variance between families to that of tasks
ROUNDING = 1e-9  # likelihoods and statistics that differ by no more are equal


class Fits(NamedTuple):
    """Of sets of effects: sizes and statistics of every contrast ``[contrasts, sets]``, and what holds without any.

    ``ratio`` ``[sets]`` is the position in RATIOS, ``variance`` that of tasks, both as if all classes had one mean.
    """

    differences: FloatArray
    statistics: FloatArray
    ratio: NDArray[np.int64]
    variance: FloatArray


class Chance(NamedTuple):
    """Of contrasts ``[contrasts, sets]``: p, p of the largest, and what 95 % of differences by chance stay below."""

    p: FloatArray
    p_max: FloatArray
    differences: FloatArray


@dataclass(frozen=True)
class Classes:
    """Which class and which family ``[tasks]`` every task is of, as numbers from 0 without a gap."""

    of_class: NDArray[np.int64]
    of_family: NDArray[np.int64]

    @property
    def contrasts(self) -> list[tuple[int, int]]:
        """All pairs of classes."""
        return list(combinations(range(int(self.of_class.max()) + 1), 2))

    @property
    def is_testable(self) -> bool:
        """Whether tasks vary within classes at all: there are more tasks than classes, and two classes."""
        return len(self.contrasts) > 0 and self.of_class.size > self.of_class.max() + 1

    def fits(self, effects: FloatArray) -> Fits:
        """The model of sets of effects ``[tasks, sets]``, of which any number is fitted at once."""
        members, families = (
            np.asarray(number == np.arange(number.max() + 1)[:, None], dtype=np.float64)
            for number in (self.of_class, self.of_family)
        )
        together = members @ families.T
        squares, of_class, of_family = (effects**2).sum(axis=0), members @ effects, families @ effects
        floor = ROUNDING * squares + np.finfo(float).tiny
        free, equal, restricted, differences, variances = [], [], [], [], []
        for ratio in RATIOS:
            sizes = families.sum(axis=1)
            lost = ratio / (1 + ratio * sizes)
            information = np.diag(members.sum(axis=1)) - (together * lost) @ together.T
            adjusted = of_class - (together * lost) @ of_family
            left = squares - lost @ of_family**2  # e' V^-1 e
            inverse = np.linalg.inv(information)
            means = inverse @ adjusted
            rest = np.maximum(left - (adjusted * means).sum(axis=0), floor)
            gaps = np.stack([means[first] - means[second] for first, second in self.contrasts])
            widths = np.array([inverse[a, a] + inverse[b, b] - 2 * inverse[a, b] for a, b in self.contrasts])
            common = np.maximum(left - adjusted.sum(axis=0) ** 2 / information.sum(), floor)
            determinant = np.log1p(ratio * sizes).sum()
            n_tasks = self.of_class.size
            free.append(-(determinant + n_tasks * np.log(rest)) / 2)
            equal.append(-(determinant + n_tasks * np.log(rest + gaps**2 / widths[:, None])) / 2)
            restricted.append(-(determinant + np.log(information.sum()) + (n_tasks - 1) * np.log(common)) / 2)
            differences.append(gaps)
            variances.append(common / (n_tasks - 1))
        likeliest, at_null = _likeliest(np.stack(free)), _likeliest(np.stack(restricted))
        sets = np.arange(squares.size)
        return Fits(
            differences=np.stack(differences)[likeliest, :, sets].T,
            statistics=2 * (np.max(free, axis=0) - np.max(equal, axis=0)),
            ratio=at_null,
            variance=np.stack(variances)[at_null, sets],
        )

    def chance(self, observed: Fits, draws: int, seed: int) -> Chance:
        """What effects without a difference of classes give, with the ratios that the observed have or the next."""
        result = Chance(*(np.zeros_like(observed.statistics) for _ in range(3)))
        sd, larger = np.sqrt(observed.variance), np.minimum(observed.ratio + 1, len(RATIOS) - 1)
        for ratio in np.union1d(observed.ratio, larger):
            # Fits of effects without a difference of classes, whose variances have the ratio at this position.
            rng = np.random.default_rng(seed)
            effects = rng.normal(size=(self.of_class.size, draws))
            effects += np.sqrt(RATIOS[ratio]) * rng.normal(size=(self.of_family.max() + 1, draws))[self.of_family]
            drawn = self.fits(effects)
            is_near = (observed.ratio == ratio) | (larger == ratio)
            reach = np.quantile(np.abs(drawn.differences), 1 - LEVEL, axis=1)
            parts = *_bootstrap_p(observed.statistics[:, is_near], drawn.statistics), reach[:, None] * sd[is_near]
            for kept, values in zip(result, parts, strict=True):
                kept[:, is_near] = np.maximum(kept[:, is_near], values)
        return result


def numbers_of(names: Sequence[str]) -> NDArray[np.int64]:
    """Names as numbers from 0, in the order of their first appearance."""
    places = {name: number for number, name in enumerate(dict.fromkeys(names))}
    return np.array([places[name] for name in names], dtype=np.int64)


def _bootstrap_p(observed: FloatArray, chance: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The p of statistics ``[contrasts, sets]`` in draws ``[contrasts, draws]``, and that of the largest contrast.

    The observation counts as a draw, so no p is 0.
    """
    draws = chance.shape[1]
    limits = observed - ROUNDING
    counts = [draws - np.searchsorted(np.sort(row), limit) for row, limit in zip(chance, limits, strict=True)]
    largest = draws - np.searchsorted(np.sort(chance.max(axis=0)), limits)
    return (1 + np.stack(counts)) / (draws + 1), (1 + largest) / (draws + 1)


def _likeliest(likelihoods: FloatArray) -> NDArray[np.int64]:
    """The first of the ratios ``[ratios, sets]`` that is as likely as any; data may not tell ratios apart."""
    places: NDArray[np.int64] = np.argmax(likelihoods >= likelihoods.max(axis=0) - ROUNDING, axis=0)
    return places


SEED = 20_240_906
ROLES = ("intermediate", "target")
LARGER = 0.02  # of a score: twice the smallest step in print, asked of a gain or harm where nothing can be tested
TIE = 1e-9
ALL, NOT_COLLAPSED, NOT_CONTAMINATED, WITHOUT = "all", "not collapsed", "not contaminated", "without "
CLASSIFIED = "targets of classes"  # points of F1 and of a correlation are not the same

_ROLE = Declared("str", "which of the pair's two tasks is of the theme")
_THEME = Declared("str", "class of tasks")
COUNTS = {
    "role": _ROLE,
    "theme": _THEME,
    "n_tasks": Declared("int64", "tasks of the theme in this role"),
    "n_pairs": Declared("int64", "finished pairs"),
    "n_tested": Declared("int64", "pairs that have a p"),
    "gains": Declared("int64", f"pairs above the baseline with p <= {LEVEL}, uncorrected"),
    "harms": Declared("int64", f"pairs below the baseline with p <= {LEVEL}, uncorrected"),
    "gains_bh": Declared("int64", f"gains with p <= {LEVEL} after Benjamini and Hochberg over all pairs"),
    "harms_bh": Declared("int64", f"harms with p <= {LEVEL} after Benjamini and Hochberg over all pairs"),
    "larger_gains": Declared("int64", f"pairs at least {LARGER} of a score above the baseline, tested or not"),
    "larger_harms": Declared("int64", f"pairs at least {LARGER} of a score below the baseline, tested or not"),
}
EFFECTS = {
    "cells": Declared("str", "which pairs are used"),
    "role": Declared("str", "intermediate: what the task gives; target: what it takes"),
    "task": Declared("str", "id of the task"),
    "theme": _THEME,
    "family": Declared("str", "family of the task"),
    "n_pairs": Declared("int64", "finished pairs of the task in this role"),
    "points": Declared("float64", "its gain in points (x 100) beyond the role's mean, free of its partners' effects"),
}
CONTRASTS = {
    "cells": Declared("str", "which pairs are used"),
    "role": _ROLE,
    "theme_a": Declared("str", "first theme"),
    "theme_b": Declared("str", "second theme"),
    "n_a": Declared("int64", "tasks of the first"),
    "n_b": Declared("int64", "tasks of the second"),
    "difference": Declared("float64", "points of the first theme's tasks less the second's, families being random"),
    "by_chance": Declared("float64", "size that 95 % of the differences stay below where themes do not differ"),
    "p": Declared("float64", "share of such draws in which the likelihood ratio of the contrast is as large"),
    "p_max": Declared("float64", "the same for the largest of all contrasts in this role"),
    "between_families": Declared("float64", "share of the variance that is between families, if themes are alike"),
}


def rating_means(results: Results) -> pd.DataFrame:
    """One row per task, by theme and falling overall mean: raters, mean of every construct over raters, and overall.

    ``overall`` is the mean of the constructs' means, if each of them is declared with its scale.
    A task without ratings has a row without means.
    """
    means = results.ratings.pivot_table(index="task", columns="construct", values="value", aggfunc="mean")
    rated = results.constructs
    frame = results.tasks[["task", "title", "theme"]].merge(means[rated], left_on="task", right_index=True, how="left")
    raters = results.ratings.groupby("task").rater.nunique()
    frame.insert(3, "n_raters", frame.task.map(raters).fillna(0).astype("int64"))
    frame["overall"] = frame[rated].mean(axis=1) if rated and set(rated) <= set(constructs()) else np.nan
    order = {name: position for position, name in enumerate(themes())}
    frame["place"] = frame.theme.map(order).fillna(len(order))
    frame = frame.sort_values(["place", "overall"], ascending=[True, False], kind="stable")
    return frame.drop(columns="place").reset_index(drop=True)


def theme_counts(results: Results) -> pd.DataFrame:
    """One row per role and theme: the columns of COUNTS; every theme that a task of the results has is there."""
    of_task = _themes_of(results)
    rows = []
    for role in ROLES:
        # Themes that tasks have, in the order of their declaration.
        for theme in [name for name in themes() if (results.tasks.theme == name).any()]:
            tasks = [task for task, theme_of_task in of_task.items() if theme_of_task == theme]
            part = results.gains[results.gains[role].isin(tasks) & results.gains.gain.notna()]
            counted = (part.p <= LEVEL, part.p_bh <= LEVEL, part.gain.abs() >= LARGER - TIE)
            signs = [int((some & side).sum()) for some in counted for side in (part.gain > 0, part.gain < 0)]
            rows.append((role, theme, part[role].nunique(), len(part), int(part.p.notna().sum()), *signs))
    return framed(pd.DataFrame(rows, columns=list(COUNTS)), COUNTS)


def task_effects(results: Results) -> pd.DataFrame:
    """One row per choice of pairs, role and task: the columns of EFFECTS.

    Gains are taken apart by least squares into what the intermediate gives and what the target takes, so that missing
    pairs bias no effect. Points are undefined where the pairs fall into parts that share no task.
    """
    rows = []
    of_task, family = _themes_of(results), dict(zip(results.tasks.task, results.tasks.family, strict=True))
    for name, kept in _pair_choices(results):
        for role, effects in zip(ROLES, _side_effects(kept), strict=True):
            counts = kept[role].value_counts()
            rows += [
                (name, role, task, of_task.get(task, ""), family.get(task, task), counts[task], points)
                for task, points in effects.items()
            ]
    return framed(pd.DataFrame(rows, columns=list(EFFECTS)), EFFECTS)


def theme_contrasts(effects: pd.DataFrame, *, draws: int = DRAWS, seed: int = SEED) -> pd.DataFrame:
    """One row per choice of pairs, role and two themes, from ``task_effects``: the columns of CONTRASTS.

    Tasks without a theme take no part. Themes of one task each are compared too, without a p.
    """
    rows = [
        (cells, role, *row)
        for (cells, role), part in effects[effects.theme.isin(list(themes()))].groupby(["cells", "role"], sort=False)
        for row in _contrasts(part, draws, seed)
    ]
    return framed(pd.DataFrame(rows, columns=list(CONTRASTS)), CONTRASTS)


def _themes_of(results: Results) -> dict[str, str]:
    return dict(zip(results.tasks.task, results.tasks.theme, strict=True))


def _pair_choices(results: Results) -> Iterator[tuple[str, pd.DataFrame]]:
    """All finished pairs; those not collapsed, contaminated or scored by r, where some are; those without a family."""
    done = results.gains[results.gains.gain.notna()]
    yield ALL, done
    for name, mark in ((NOT_COLLAPSED, done.collapsed), (NOT_CONTAMINATED, done.contaminated)):
        marked = mark.fillna(False).astype(bool)
        if marked.any():
            yield name, done[~marked]
    is_classified = done.metric != "pearson_r"
    if is_classified.nunique() > 1:
        yield CLASSIFIED, done[is_classified]
    families = results.tasks.groupby("family", sort=False).task.agg(set)
    for family, members in families.items() if len(families) > 2 else ():
        yield f"{WITHOUT}{family}", done[~done[list(ROLES)].isin(members).any(axis=1)]


def _side_effects(pairs: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
    """Points by intermediate and by target, each with mean 0; NaN where the pairs do not tell them apart."""
    # Least squares on one column per intermediate and one per target. The columns of either side add up to 1, so that
    # effects are known but for a constant (rank: all columns less 1), which centring each side takes off.
    sides = [pd.get_dummies(pairs[role], dtype=float) for role in ROLES]
    design = np.concatenate([side.to_numpy() for side in sides], axis=1)
    if not len(pairs) or np.linalg.matrix_rank(design) < design.shape[1] - 1:
        return pd.Series(np.nan, sides[0].columns), pd.Series(np.nan, sides[1].columns)
    effects = 100 * np.linalg.lstsq(design, pairs.gain.to_numpy(), rcond=None)[0]
    parts = np.split(effects, [sides[0].shape[1]])
    first, second = (pd.Series(part - part.mean(), side.columns) for part, side in zip(parts, sides, strict=True))
    return first, second


def _contrasts(effects: pd.DataFrame, draws: int, seed: int) -> Iterator[tuple[object, ...]]:
    """Contrasts of one role: themes, numbers of tasks, difference, its size by chance, p and p of the largest."""
    order = {name: position for position, name in enumerate(themes())}
    rows = effects.sort_values("theme", key=lambda column: column.map(order), kind="stable")
    present, points = list(dict.fromkeys(rows.theme)), rows.points.to_numpy()[:, None]
    if len(present) < 2 or np.isnan(points).any():
        return
    classes = Classes(numbers_of(rows.theme.tolist()), numbers_of(rows.family.tolist()))
    observed = classes.fits(points - points.mean())
    unknown = np.full(observed.differences.shape, np.nan)
    chance = classes.chance(observed, draws, seed) if classes.is_testable else Chance(unknown, unknown, unknown)
    ratio = RATIOS[observed.ratio[0]]
    counts = rows.theme.value_counts()
    for number, (first, second) in enumerate((present[a], present[b]) for a, b in classes.contrasts):
        tested = (values[number, 0] for values in (observed.differences, chance.differences, chance.p, chance.p_max))
        yield first, second, int(counts[first]), int(counts[second]), *tested, ratio / (1 + ratio)


MARGIN = 2.0  # points; the smallest change that the paper's two printed digits can show for certain
EVERY_THEME = "all"
NON_INFERIORITY = {
    "role": Declared("str", "which of the pair's two tasks is of the theme"),
    "theme": Declared("str", "class of tasks; all: every task"),
    "setting": Declared("str", "share of the target's data that the transfer had"),
    "margin": Declared("float64", "loss in points that would count, named before"),
    "n_tasks": Declared("int64", "tasks of the theme in this role"),
    "n_pairs": Declared("int64", "finished pairs"),
    "points_over_full": Declared("float64", "mean over pairs of points above the baseline with all data"),
    "lower": Declared("float64", "one-sided 95 % bound of it by Student's t over intermediates and over targets"),
    "non_inferior": Declared("boolean", "whether the bound rules out a loss as large as the margin"),
    "pairs_non_inferior": Declared("int64", "pairs that each rule out such a loss at 5 %, one-sided"),
    "pairs_inferior": Declared("int64", "pairs that each lose more than the margin at 5 %, one-sided"),
    "pairs_undecided": Declared("int64", "pairs of which neither can be said"),
    "pairs_not_significant": Declared("int64", "pairs whose 95 % interval holds 0: not the same as non-inferior"),
}


def non_inferiority(results: Results, *, margin: float = MARGIN) -> pd.DataFrame:
    """One row per role and theme of results with less data than full: the columns of NON_INFERIORITY.

    BadInput unless the margin is above 0 points.
    """
    if not margin > 0:
        raise BadInput(f"a margin of {margin:g} points rules nothing out; give one above 0, such as {MARGIN:g}")
    pairs = results.gains[results.gains.gain_over_full.notna()]
    present = [name for name in themes() if (results.tasks.theme == name).any()]
    rows = []
    for role in ROLES:
        of_pair = pairs[role].map(dict(zip(results.tasks.task, results.tasks.theme, strict=True)))
        for theme in (*present, EVERY_THEME):
            part = pairs if theme == EVERY_THEME else pairs[of_pair == theme]
            where = {"role": role, "theme": theme, "setting": results.setting, "margin": margin}
            # How many pairs, each taken by itself, are non-inferior, inferior, undecided, and not significant.
            points = 100 * part.gain_over_full
            reach = 100 * stdtrit(part.df_over_full, 1 - LEVEL) * part.standard_error_over_full
            good, bad = int((points - reach > -margin).sum()), int((points + reach < -margin).sum())
            holds_0 = (part.low_over_full <= 0) & (part.high_over_full >= 0)
            counts = {"pairs_non_inferior": good, "pairs_inferior": bad, "pairs_undecided": len(part) - good - bad}
            pair_counts = counts | {"pairs_not_significant": int(holds_0.sum())}
            rows.append(where | _mean(part, role, margin) | pair_counts)
    return framed(pd.DataFrame(rows), NON_INFERIORITY)


def against_full(results: Results) -> Results:
    """The same with gains over the baseline that had all data, with their own standard errors and p."""
    frame = results.gains.assign(
        gain=results.gains.gain_over_full,
        standard_error=results.gains.standard_error_over_full,
        p=results.gains.p_over_full,
        p_bh=benjamini_hochberg(results.gains.p_over_full),
    )
    return replace(results, gains=frame)


def _mean(pairs: pd.DataFrame, role: str, margin: float) -> dict[str, Any]:
    """The mean over the pairs, its bound, and whether the bound rules out the margin."""
    first, second = ((100 * pairs.groupby(side).gain_over_full.mean()).to_numpy() for side in ROLES)
    mean = 100 * pairs.gain_over_full.mean()
    lower = lower_bound(first, second, mean)
    verdict = pd.NA if np.isnan(lower) else lower > -margin
    counts = {"n_tasks": pairs[role].nunique(), "n_pairs": len(pairs)}
    return {**counts, "points_over_full": mean, "lower": lower, "non_inferior": verdict}


def lower_bound(by_intermediate: np.ndarray, by_target: np.ndarray, mean: float | None = None) -> float:
    """One-sided lower 95 % bound of a mean of pairs; NaN with fewer than two tasks on either side.

    Means [intermediates] and [targets] of pairs, and the ``mean`` of all where pairs are missing. Pairs of one target
    share its test set and baseline, pairs of one intermediate its adapter, so the mean is known no better than either
    side varies: the variance of its mean over intermediates and that over targets are added, which counts what belongs
    to neither twice, and the side with fewer tasks gives the degrees of freedom.
    """
    fewest = min(len(by_intermediate), len(by_target))
    if fewest < 2:
        return float("nan")
    error = np.sqrt(sum(means.var(ddof=1) / len(means) for means in (by_intermediate, by_target)))
    middle = by_target.mean() if mean is None else mean
    return float(middle - stdtrit(fewest - 1, 1 - LEVEL) * error)
