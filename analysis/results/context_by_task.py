"""How far tasks hang on their contexts, beside what they teach others and learn from them.

A task's sensitivity is the drop of its adapter alone when contexts are swapped (``analysis.results.probes``). What it
teaches is the mean of its gains as an intermediate over targets, what it learns that of the gains on it over
intermediates.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from adapters_store.measures import SWAPPED
from adapters_store.roles import BASELINE
from analysis.tables import Declared, framed

FULL = "full"
LEVEL = 0.95
TEACHES, LEARNS = "teaches", "learns"
ENDS = {TEACHES: "intermediate", LEARNS: "target"}  # the end of a gain at which a task stands
FEWEST = 5  # tasks that a correlation is given of

BY_TASK = {
    "part": Declared("str", "teaches: its gains as an intermediate; learns: those of others on it"),
    "task": Declared("str", "a task whose adapter alone was probed"),
    "sensitivity": Declared("float64", "points that its adapter alone loses when contexts are swapped"),
    "sensitivity_low": Declared("float64", "lower end of its 95 % interval, over groups and seeds"),
    "sensitivity_high": Declared("float64", "its upper end"),
    "mean": Declared("float64", "mean gain in points, over the other tasks"),
    "low": Declared(
        "float64", "lower end of its 95 % interval, Student's t over the other tasks; none of fewer than two"
    ),
    "high": Declared("float64", "its upper end"),
    "n": Declared("int64", "other tasks behind the mean; contaminated gains are left out"),
    "rho": Declared("float64", "Spearman's correlation of sensitivity and mean over the part's tasks; none below five"),
}


def context_by_task(probed: pd.DataFrame, gains: pd.DataFrame) -> pd.DataFrame:
    """Two rows a task that has a probe and a finished gain, with the columns ``BY_TASK``.

    ``probed`` has the columns ``PROBED`` of analysis.results.probes, ``gains`` those of analysis.gains.gains.
    """
    swapped = probed[(probed.role == BASELINE) & (probed.operation == SWAPPED)]
    is_kept = (gains.setting == FULL) & gains.points.notna() & ~gains.contaminated.fillna(value=False).astype(bool)
    parts = [_part(part, swapped, gains[is_kept]) for part in ENDS]
    return framed(pd.concat(parts, ignore_index=True), BY_TASK)


def _part(part: str, swapped: pd.DataFrame, gains: pd.DataFrame) -> pd.DataFrame:
    rows = []
    for row in swapped.itertuples():
        own = gains.loc[gains[ENDS[part]] == row.target, "points"].to_numpy(float)
        if not len(own):
            continue
        low, high = mean_interval(own)
        lost = {"sensitivity": row.drop, "sensitivity_low": row.drop_low, "sensitivity_high": row.drop_high}
        gained = {"mean": own.mean(), "low": low, "high": high, "n": len(own)}
        rows.append({"part": part, "task": row.target, **{name: 100 * x for name, x in lost.items()}, **gained})
    frame = pd.DataFrame(rows, columns=[name for name in BY_TASK if name != "rho"])
    rho = frame["sensitivity"].rank().corr(frame["mean"].rank()) if len(frame) >= FEWEST else np.nan
    return frame.assign(rho=rho)


def mean_interval(values: np.ndarray) -> tuple[float, float]:
    """The 95 % interval of a mean of ``values [n]`` by Student's t; undefined of fewer than two."""
    if len(values) <= 1:
        return np.nan, np.nan
    half = stdtrit(len(values) - 1, (1 + LEVEL) / 2) * values.std(ddof=1) / np.sqrt(len(values))
    return float(values.mean() - half), float(values.mean() + half)
