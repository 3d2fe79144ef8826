"""One line per feature: supported or not supported for families that were not seen, and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from analysis.guarded_design import Grid
from analysis.guarded_gate import LEVEL, Tested
from analysis.markdown import signed

SUPPORTED, NOT_SUPPORTED, NOT_TESTED = "supported", "not supported", "not tested"
COLUMNS = [
    "feature",
    "title",
    "kind",
    "added",
    "low",
    "high",
    "null_mean",
    "p_tasks",
    "p_families",
    "p_corrected",
    "verdict",
    "against",
    "why",
]


def verdicts(
    grid: Grid,
    titles: Mapping[str, str],
    gate: Tested,
    tests: Mapping[str, Tested],
    corrected: np.ndarray,
    intervals: Mapping[str, tuple[float, float]],
) -> pd.DataFrame:
    """One row per feature, tested or not; ``added`` is the Q2 that is lost when it alone is dropped.

    ``against`` is what speaks against support, ``why`` the same after the numbers, ``low`` to ``high`` the
    interval, ``null_mean`` what it adds on average when it belongs to other tasks, and
    ``p_corrected`` the larger p of both nulls after correction for all features.
    """
    rows: list[dict[str, Any]] = []
    for (name, one), p in zip(tests.items(), corrected, strict=True):
        found: dict[str, Any] = {
            "feature": name,
            "title": titles[name],
            "kind": grid.kinds[name],
            "added": float(one.added[0]),
            "low": intervals[name][0],
            "high": intervals[name][1],
            "null_mean": float(one.by_tasks[:, 0].mean()),
            "p_tasks": float(one.p_tasks[0]),
            "p_families": float(one.p_families[0]),
            "p_corrected": float(p),
        }
        against = _against(found, one, gate if name in grid.constructs else None)
        verdict = NOT_SUPPORTED if against else SUPPORTED
        rows.append({**found, "verdict": verdict, "against": "; ".join(against), "why": _why(found, against)})
    rows += [
        {"feature": name, "title": titles[name], "verdict": NOT_TESTED, "why": why}
        for name, why in grid.left_out.items()
    ]
    return pd.DataFrame(rows, columns=COLUMNS)


def not_estimable(titles: Mapping[str, str], reason: str) -> pd.DataFrame:
    """The same frame where nothing could be tested."""
    rows = [{"feature": name, "title": title, "verdict": NOT_TESTED, "why": reason} for name, title in titles.items()]
    return pd.DataFrame(rows, columns=COLUMNS)


def _against(found: Mapping[str, Any], one: Tested, gate: Tested | None) -> list[str]:
    """What speaks against support."""
    reasons = {
        "dropping it loses no Q2": found["added"] <= 0,
        "with all features the gains are predicted no better than by their mean": one.full_q2 <= 0,
        "it adds as much when it belongs to other tasks or families": found["p_corrected"] > LEVEL,
        "the constructs together do not pass": gate is not None and not gate.passes[0],
    }
    return [reason for reason, holds in reasons.items() if holds]


def _why(found: Mapping[str, Any], against: list[str]) -> str:
    numbers = (
        f"adds {signed(found['added'], 4)} to Q2 (p = {found['p_tasks']:.3f} over tasks, {found['p_families']:.3f} over"
        f" families, {found['p_corrected']:.3f} corrected)"
    )
    if np.isfinite(found["low"]):
        numbers += f", interval {signed(found['low'], 3)} to {signed(found['high'], 3)}"
    return "; ".join([numbers, *against])
