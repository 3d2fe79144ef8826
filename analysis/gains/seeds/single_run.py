"""How often a single training run makes a count of gains wrong, in a sentence beside such counts.

With one seed an interval and a p hold for that run. Another run would give another score, so where an intermediate does
nothing some gains are "significant" all the same. How many depends on how far runs differ, which one seed of everything
cannot say; the sentence gives the simulated case of ``docs/gains_calibration.csv`` (a test compares them).
"""

from __future__ import annotations

import pandas as pd

RUNS_DIFFER_BY = 3.4  # points, standard deviation of a cell's score
TRANSFERS = 6  # to the one target of a simulated study
WRONG = {"macro_f1": 0.357, "pearson_r": 0.351}  # share of such studies with a gain or harm by p_bh where there is none


def luck_of_a_run(gains: pd.DataFrame) -> str:
    """What the counts of a frame of gains leave out, where some of them hold for one training run; else nothing."""
    tested = gains[gains.p.notna()]
    single = int((tested.seed_error == 0).sum())
    if not single:
        return ""
    which = "All of them hold" if single == len(tested) else f"Of them {single} hold{'s' * (single == 1)}"
    low, high = sorted(f"{100 * share:.0f}" for share in WRONG.values())
    share = low if low == high else f"{low} to {high}"
    return (
        f"{which} for one training run, and another run would give others: simulated without any effect, where runs"
        f" differ by {RUNS_DIFFER_BY} points, {share} % of studies with {TRANSFERS} transfers to a target had a"
        " significant gain or harm, not 5 % (docs/significance.md); more seeds tell."
    )
