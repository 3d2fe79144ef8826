"""Whether less data and an intermediate do as well as all data alone: a test of non-inferiority.

That a difference is not significant does not make two scores equal: a small test set finds no difference at all. Here
a margin is named before, and the question is whether the data rule out a loss as large as it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from analysis.gains.corrections import benjamini_hochberg
from analysis.gains.significance import LEVEL
from analysis.ratings.themes import ROLES
from analysis.results.results import Results
from analysis.tables import Declared, framed
from tasks.errors import BadInput
from tasks.ratings import themes

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
            rows.append(where | _mean(part, role, margin) | _pair_counts(part, margin))
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
    lower = _bound(pairs)
    verdict = pd.NA if np.isnan(lower) else lower > -margin
    counts = {"n_tasks": pairs[role].nunique(), "n_pairs": len(pairs)}
    mean = 100 * pairs.gain_over_full.mean()
    return {**counts, "points_over_full": mean, "lower": lower, "non_inferior": verdict}


def _bound(pairs: pd.DataFrame) -> float:
    """One-sided lower 95 % bound of the mean of pairs, in points."""
    first, second = ((100 * pairs.groupby(side).gain_over_full.mean()).to_numpy() for side in ROLES)
    return lower_bound(first, second, 100 * pairs.gain_over_full.mean())


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


def _pair_counts(pairs: pd.DataFrame, margin: float) -> dict[str, int]:
    """How many pairs, each taken by itself, are non-inferior, inferior, undecided, and not significant."""
    points = 100 * pairs.gain_over_full
    reach = 100 * stdtrit(pairs.df_over_full, 1 - LEVEL) * pairs.standard_error_over_full
    good, bad = int((points - reach > -margin).sum()), int((points + reach < -margin).sum())
    holds_0 = (pairs.low_over_full <= 0) & (pairs.high_over_full >= 0)
    counts = {"pairs_non_inferior": good, "pairs_inferior": bad, "pairs_undecided": len(pairs) - good - bad}
    return counts | {"pairs_not_significant": int(holds_0.sum())}
