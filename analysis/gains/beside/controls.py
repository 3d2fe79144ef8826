"""What controls gain, apart from all pairs: whether a harm is of the transfer or of any second adapter.

``self`` is the target on itself, trained with another seed; ``shuffled`` the target on its own texts with permuted
labels; ``random`` the target on an untrained adapter; ``control`` the target on a task without empathy. Beside them
stands ``imported``, the target on an adapter that others have trained.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from adapters_store.roles import CONTROLS, NAMED_BY_INTERMEDIATE, TRANSFER
from adapters_store.store import Store
from analysis.gains.cells import Manifest
from analysis.gains.gains import SEED, TYPES, uncorrected_gains
from analysis.gains.growth import GROWTH_NAMES
from analysis.gains.significance import DRAWS, LEVEL

KEPT = ("intermediate_version", "p_bh", "significant", "target_has_learned", *GROWTH_NAMES)  # of gains alone
CONTROL_TYPES = {"control": "str", **{name: kind for name, kind in TYPES.items() if name not in KEPT}}
MEAN_TYPES = {
    "control": "str",
    "intermediate": "str",
    "metric": "str",
    "setting": "str",
    "n_targets": "int64",
    "liveness": "float64",
    "points": "float64",
    "low": "float64",
    "high": "float64",
    "transfer_points": "float64",
    "transfers_less_control": "float64",
    "low_less_control": "float64",
    "high_less_control": "float64",
}


def controls(store: Store, manifest: Manifest, *, draws: int = DRAWS, seed: int = SEED) -> pd.DataFrame:
    """One row per planned (control, intermediate, target, setting), in the terms of ``gains``; p is not corrected."""
    frame = uncorrected_gains(store, manifest, CONTROLS, draws=draws, seed=seed).rename(columns={"role": "control"})
    return frame[list(CONTROL_TYPES)].astype(CONTROL_TYPES)


def control_means(controls: pd.DataFrame, gains: pd.DataFrame) -> pd.DataFrame:
    """One row per control, metric and setting: its mean gain over targets, and that of their transfers less it.

    The first rows, named ``transfer``, are of the transfers themselves, over all targets that have one. Intervals are
    Student's t over targets (NaN with fewer than two), each counting once: its transfers enter by their mean. In a
    control's row only targets count where both it and a transfer are defined.
    """
    if controls.empty:
        return pd.DataFrame(columns=list(MEAN_TYPES)).astype(MEAN_TYPES)
    where = ["metric", "setting", "target"]
    transfers = gains.groupby(where, sort=False)[["points", "liveness"]].mean().reset_index()
    own = transfers.assign(control=TRANSFER, intermediate="", transfer_points=transfers.points)
    tasks = controls.intermediate.where(controls.control.isin(NAMED_BY_INTERMEDIATE), "")
    of_target = transfers.rename(columns={"points": "transfer_points"}).drop(columns="liveness")
    both = pd.concat([own, controls.assign(intermediate=tasks).merge(of_target, on=where, how="left")])
    both = both.dropna(subset=["points", "transfer_points"]).sort_values(["metric", "setting"], kind="stable")
    groups = both.groupby(["control", "intermediate", "metric", "setting"], sort=False)
    rows = [
        {**dict(zip(("control", "intermediate", "metric", "setting"), names, strict=True)), **_mean(part)}
        for names, part in groups
    ]
    return pd.DataFrame(rows, columns=list(MEAN_TYPES)).astype(MEAN_TYPES)


def _mean(part: pd.DataFrame) -> dict[str, Any]:
    """Means over the targets of one control."""
    less = (part.transfer_points - part.points).to_numpy(dtype=float)
    row = {"n_targets": len(part), "liveness": part.liveness.mean(), "transfer_points": part.transfer_points.mean()}
    row |= dict(zip(("points", "low", "high"), over_targets(part.points.to_numpy(dtype=float)), strict=True))
    if part.control.iloc[0] != TRANSFER:
        names = ("transfers_less_control", "low_less_control", "high_less_control")
        row |= dict(zip(names, over_targets(less), strict=True))
    return row


def over_targets(values: np.ndarray) -> tuple[float, float, float]:
    """Mean and 95 % interval, by Student's t over the values; NaN limits of fewer than two."""
    if len(values) < 2:
        return (float(values.mean()) if len(values) else np.nan, np.nan, np.nan)
    mean = float(values.mean())
    half = float(stdtrit(len(values) - 1, 1 - LEVEL / 2) * values.std(ddof=1) / np.sqrt(len(values)))
    return mean, mean - half, mean + half
