"""What training runs add to the error of a gain, from the spread of all transfers of a column, or from one run alone.

Three seeds know a variance from two degrees of freedom, but the transfers of a target are trained alike, and their runs
differ by similar amounts. With T transfers and their mean P in every seed, a gain over the baseline B falls into

    T_j - B = (T_j - P) + (P - B),

which are uncorrelated where all transfers have one variance. The first is the transfer's own: its variance s_j^2 is
moved towards the mean of all T, as far as they are alike (empirical Bayes, Smyth 2004, "Linear models and empirical
Bayes methods for assessing differential expression in microarray experiments", section 6). The second belongs to all
gains of the column and holds the baseline, which keeps what it alone has shown, with S - 1 degrees of freedom: a
baseline may vary more than its transfers, and does where they help. What a seed does to all cells alike cancels in
both. The sum has the degrees of freedom of Satterthwaite (1946).

With one seed an interval and a p hold for that run, so where an intermediate does nothing some gains are "significant"
all the same. How many depends on how far runs differ, which one seed cannot say; the sentence beside such counts gives
the simulated case of ``docs/gains_calibration.csv`` (a test compares them). Several seeds say it themselves: a single
run would have had a standard error i through test items, and varies with variance v through items and runs together, so
that it is significant in a share 2 Phi(-z i / sqrt(v)) of gains where nothing is there.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from scipy.special import ndtr, ndtri, polygamma

from analysis.gains.significance import LEVEL, FloatArray, Spread, seed_spreads

FLOOR = 1e-5  # of the mean variance: logarithms of smaller ones would decide how alike they are


@dataclass(frozen=True)
class Peers:
    """Scores of the transfers of a column, by name and seed; an undefined one takes no part."""

    scores: Mapping[Hashable, Mapping[int, float]]
    known: dict[tuple[tuple[int, ...], bytes], Mapping[Hashable, Sequence[Spread]]] = field(default_factory=dict)

    def spreads(self, name: Hashable, seeds: Sequence[int], base: FloatArray) -> Sequence[Spread]:
        """The seeds' parts of a gain's variance over ``base`` ``[N]``, whose first runs are of the transfer's seeds.

        None without two seeds, or without another transfer of all these seeds.
        """
        key = (tuple(seeds), base.tobytes())
        if key not in self.known:
            rows = {peer: [runs.get(seed, np.nan) for seed in seeds] for peer, runs in self.scores.items()}
            complete = {peer: row for peer, row in rows.items() if np.isfinite(row).all()}
            enough = len(seeds) > 1 and len(complete) > 1 and np.isfinite(base).all()
            parts = pooled_spreads(np.array(list(complete.values())), base) if enough else []
            self.known[key] = dict(zip(complete, parts, strict=False))
        return self.known[key].get(name, ())


def pooled_spreads(tops: FloatArray, base: FloatArray) -> list[Sequence[Spread]]:
    """Of each of ``tops`` ``[T >= 2, S >= 2]`` over ``base`` ``[N >= S]``: variances of the gain, and their freedom."""
    n_tops, n_seeds = tops.shape
    mean = tops.mean(axis=0)
    variances = (tops - mean).var(axis=1, ddof=1) * n_tops / (n_tops - 1)
    moderate, freedom = moderated(variances, n_seeds - 1)
    shared = seed_spreads(mean, base)
    return [[(float(own), freedom), *shared] for own in moderate * (1 - 1 / n_tops) / n_seeds]


def moderated(variances: FloatArray, freedom: int) -> tuple[FloatArray, float]:
    """Variances ``[T]``, each with so much ``freedom`` and all about one mean, as each other's evidence; and its df.

    Each is (d0 mean + d s^2) / (d0 + d), with d0 + d degrees of freedom, and never more than (T - 1) d. The prior's d0
    solves trigamma(d0 / 2) = Var(log s^2) - trigamma(d / 2); where the right side is not positive, all are the mean.
    Smyth's own scale in place of the mean rejects slightly more (``docs/significance.md``).
    """
    mean, most = float(variances.mean()), float((variances.size - 1) * freedom)
    if mean == 0:
        return np.zeros(variances.size), most
    logs = np.log(np.maximum(variances, FLOOR * mean))
    excess = float(logs.var(ddof=1) - polygamma(1, freedom / 2))
    if excess <= 0:
        return np.full(variances.size, mean), most
    # The x whose trigamma is ``value`` > 0; trigamma(x) lies between 1 / x and 1 / x + 1 / x^2.
    from scipy.optimize import brentq  # a quarter of a second, which a report whose gains are kept needs not

    bounds = 1 / excess, (1 + np.sqrt(1 + 4 * excess)) / (2 * excess)
    inverse_trigamma = float(brentq(lambda x: polygamma(1, x) - excess, *bounds, rtol=1e-12))
    prior = 2 * inverse_trigamma
    return (prior * mean + freedom * variances) / (prior + freedom), min(prior + freedom, most)


RUNS_DIFFER_BY = 3.4  # points, standard deviation of a cell's score
TRANSFERS = 6  # to the one target of a simulated study
WRONG = {"macro_f1": 0.357, "pearson_r": 0.351}  # share of such studies with a gain or harm by p_bh where there is none


def luck_of_a_run(gains: pd.DataFrame) -> str:
    """What the counts of a frame of gains leave out, where some of them hold for one training run; else nothing."""
    tested = gains[gains.p.notna()]
    single = int((tested.seed_error == 0).sum())
    if not single:
        # What a single run of these gains would have been worth; nothing where runs cannot be counted in pairs.
        own = tested[(tested.seed_error > 0) & (tested.n_seeds == tested.n_baseline_seeds)]
        if own.empty:
            return ""
        through = np.sqrt((own.run_error**2).mean())
        varies = np.sqrt(variance_of_a_run(own).mean())
        return (
            f"A single run of these gains would have had p <= {LEVEL} where there is no effect in about"
            f" {100 * false_share(own).mean():.0f} % of them, not 5 %: it would have told of a standard error of"
            f" {through:.1f} points, through test items alone, where runs and items together make {varies:.1f}. What is"
            " counted here allows for both (docs/significance.md)."
        )
    which = "All of them hold" if single == len(tested) else f"Of them {single} hold{'s' * (single == 1)}"
    low, high = sorted(f"{100 * share:.0f}" for share in WRONG.values())
    share = low if low == high else f"{low} to {high}"
    return (
        f"{which} for one training run, and another run would give others: simulated without any effect, where runs"
        f" differ by {RUNS_DIFFER_BY} points, {share} % of studies with {TRANSFERS} transfers to a target had a"
        " significant gain or harm, not 5 % (docs/significance.md); more seeds tell."
    )


def variance_of_a_run(gains: pd.DataFrame) -> np.ndarray:
    """Of every gain of several seeds, the variance of a single run of it through items and runs, in points squared."""
    of_seeds = gains.seed_error.to_numpy("float64") ** 2
    of_items = gains.standard_error.to_numpy("float64") ** 2 - of_seeds
    return np.asarray(of_items + of_seeds * gains.n_seeds.to_numpy("float64"))


def false_share(gains: pd.DataFrame) -> np.ndarray:
    """The share of gains of nothing that a single run would call significant by an uncorrected p, for every gain."""
    ratio = gains.run_error.to_numpy("float64") / np.sqrt(variance_of_a_run(gains))
    share: np.ndarray = 2 * ndtr(-ndtri(1 - LEVEL / 2) * ratio)
    return share
