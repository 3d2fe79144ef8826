"""Frames of gains as a study of many tasks would have them, drawn without a store: noise, and planted effects."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import t as student

from analysis.gains.corrections import benjamini_hochberg

FAMILIES = ("epitome", "empathetic_dialogues", "news_and_conv", "condolence", "mi")
GROUPS, SEEDS = 100, 3


def made_up_manifest(
    n: int, *, title: str = "Task", metrics: Sequence[str] = ("macro_f1", "pearson_r")
) -> dict[str, Any]:
    """A manifest of ``n`` tasks in five families, their metrics by turns."""
    tasks = {
        f"task_{place:02}": {
            "title": f"{title} {place}",
            "family": FAMILIES[place * len(FAMILIES) // n],
            "metric": metrics[place % len(metrics)],
        }
        for place in range(n)
    }
    return {"name": "made-up", "synthetic": True, "tasks": tasks}


def made_up_gains(
    manifest: dict[str, Any], rng: np.random.Generator, *, planted: Sequence[float] = (), missing: int = 0
) -> pd.DataFrame:
    """All pairs of a study whose true gains are 0, but for the ``planted`` ones, in points.

    Scores are means over GROUPS groups and SEEDS seeds. Gains of a column share the errors of their baseline, and their
    intervals are Student's t of the differences over groups, with the spread between seeds added, as in
    ``analysis.gains.significance``. ``missing`` gains each are not finished, not defined, collapsed and contaminated.
    """
    tasks = list(manifest["tasks"])
    rows = [row for target in tasks for row in _column(manifest, target, rng)]
    frame = pd.DataFrame(rows)
    where = rng.choice(len(frame), len(planted), replace=False)
    for place, points in zip(where, planted, strict=True):
        frame.loc[place, ["points", "low", "high"]] += points
    frame["is_planted"] = frame.index.isin(where)
    half_width = (frame.high - frame.low) / 2
    frame["p"] = 2 * student.sf(np.abs(frame.points / half_width) * student.ppf(0.975, frame.df), frame.df)
    frame["p_bh"] = benjamini_hochberg(frame.p)
    frame["significant"] = frame.p_bh <= 0.05
    others = rng.permutation(frame.index[~frame.is_planted])
    frame.loc[others[: 2 * missing], ["points", "low", "high", "p", "p_bh"]] = np.nan
    frame.loc[others[: 2 * missing], "significant"] = False
    frame.loc[others[:missing], "n_seeds"] = 0
    frame.loc[others[2 * missing : 3 * missing], "collapsed"] = True
    frame.loc[others[3 * missing : 4 * missing], "contaminated"] = True
    return frame


def _column(manifest: dict[str, Any], target: str, rng: np.random.Generator) -> list[dict[str, Any]]:
    """The gains of one target: errors of 8 points per group, of 0.5 points per training run."""
    below = [task for task in manifest["tasks"] if task != target]
    groups, seeds = rng.normal(0, 8, (len(below) + 1, GROUPS)), rng.normal(0, 0.5, (len(below) + 1, SEEDS))
    by_group, by_seed = groups[1:] - groups[0], seeds[1:] - seeds[0]
    parts = np.stack([by_group.var(axis=1, ddof=1) / GROUPS, by_seed.var(axis=1, ddof=1) / SEEDS])
    df = parts.sum(axis=0) ** 2 / (parts**2 / np.array([[GROUPS - 1], [SEEDS - 1]])).sum(axis=0)
    points = by_group.mean(axis=1) + by_seed.mean(axis=1)
    half = student.ppf(0.975, df) * np.sqrt(parts.sum(axis=0))
    shared = {"target": target, "setting": "full", "metric": manifest["tasks"][target]["metric"]}
    shared |= {"n_seeds": SEEDS, "conditional": f"{SEEDS} seeds", "collapsed": False, "contaminated": False}
    return [
        {"intermediate": task, **shared, "points": gain, "low": gain - width, "high": gain + width, "df": freedom}
        for task, gain, width, freedom in zip(below, points, half, df, strict=True)
    ]
