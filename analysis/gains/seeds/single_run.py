"""How often a single training run makes a count of gains wrong, in a sentence beside such counts.

With one seed an interval and a p hold for that run. Another run would give another score, so where an intermediate does
nothing some gains are "significant" all the same. How many depends on how far runs differ, which one seed of everything
cannot say; the sentence gives the simulated case of ``docs/gains_calibration.csv`` (a test compares them). Where gains
have several seeds, these say it themselves: a single run would have had a standard error i through test items, and
varies with variance v through items and runs together, so that it is significant in a share 2 Phi(-z i / sqrt(v)) of
gains where nothing is there.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.special import ndtr, ndtri

from analysis.gains.significance import LEVEL

RUNS_DIFFER_BY = 3.4  # points, standard deviation of a cell's score
TRANSFERS = 6  # to the one target of a simulated study
WRONG = {"macro_f1": 0.357, "pearson_r": 0.351}  # share of such studies with a gain or harm by p_bh where there is none


def luck_of_a_run(gains: pd.DataFrame) -> str:
    """What the counts of a frame of gains leave out, where some of them hold for one training run; else nothing."""
    tested = gains[gains.p.notna()]
    single = int((tested.seed_error == 0).sum())
    if not single:
        return _of_own_seeds(tested)
    which = "All of them hold" if single == len(tested) else f"Of them {single} hold{'s' * (single == 1)}"
    low, high = sorted(f"{100 * share:.0f}" for share in WRONG.values())
    share = low if low == high else f"{low} to {high}"
    return (
        f"{which} for one training run, and another run would give others: simulated without any effect, where runs"
        f" differ by {RUNS_DIFFER_BY} points, {share} % of studies with {TRANSFERS} transfers to a target had a"
        " significant gain or harm, not 5 % (docs/significance.md); more seeds tell."
    )


def _of_own_seeds(gains: pd.DataFrame) -> str:
    """What a single run of these gains would have been worth; nothing where runs cannot be counted in pairs."""
    own = gains[(gains.seed_error > 0) & (gains.n_seeds == gains.n_baseline_seeds)]
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
