"""What training runs add to the error of a gain, where the transfers of a column tell of each other's spread.

Three seeds know a variance from two degrees of freedom, but the transfers of a target are trained alike, and their runs
differ by similar amounts. With T transfers and their mean P in every seed, a gain over the baseline B falls into

    T_j - B = (T_j - P) + (P - B),

which are uncorrelated where all transfers have one variance. The first is the transfer's own: its variance s_j^2 is
moved towards the mean of all T, as far as they are alike (empirical Bayes, Smyth 2004, "Linear models and empirical
Bayes methods for assessing differential expression in microarray experiments", section 6). The second belongs to all
gains of the column and holds the baseline, which keeps what it alone has shown, with S - 1 degrees of freedom: a
baseline may vary more than its transfers, and does where they help. What a seed does to all cells alike cancels in
both. The sum has the degrees of freedom of Satterthwaite (1946).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.special import polygamma

from analysis.gains.significance import FloatArray, Spread, seed_spreads

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
    prior = 2 * _inverse_trigamma(excess)
    return (prior * mean + freedom * variances) / (prior + freedom), min(prior + freedom, most)


def _inverse_trigamma(value: float) -> float:
    """The x whose trigamma is ``value`` > 0; trigamma(x) lies between 1 / x and 1 / x + 1 / x^2."""
    from scipy.optimize import brentq  # a quarter of a second, which a report whose gains are kept needs not

    bounds = 1 / value, (1 + np.sqrt(1 + 4 * value)) / (2 * value)
    return float(brentq(lambda x: polygamma(1, x) - value, *bounds, rtol=1e-12))
