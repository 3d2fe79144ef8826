"""The figure of context: tasks by how far they hang on it, beside what they teach and learn, a row a task."""

from __future__ import annotations

from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from analysis.figures.drawing import COLOUR, PALE, FigureFiles, figure_of, make_plain, shortened, write_figure_files
from analysis.figures.planned.plan import title_of, titles_of
from analysis.gains.cells import Manifest
from analysis.kept import NOWHERE, Kept
from analysis.results.context_by_task import FULL, LEARNS, TEACHES, context_by_task
from analysis.tables import signed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SENSITIVITY = "sensitivity"
PANELS = {
    SENSITIVITY: "lost alone when contexts are swapped (points)",
    TEACHES: "taught: mean gain of other tasks (points)",
    LEARNS: "learned: mean gain from other tasks (points)",
}
CONTEXT = "context_sensitivity"
WHAT = "Context sensitivity of tasks, the most sensitive on top, beside what they teach and learn"
INTERVALS = "95 % intervals: of what is lost over groups of test items and seeds, of mean gains over the other tasks"


def write_context(
    probed: pd.DataFrame, gains: pd.DataFrame, manifest: Manifest, out: Path, kept: Kept = NOWHERE
) -> list[FigureFiles]:
    """Draw the tasks that have a probe and a gain, beside their CSV; nothing where there is none.

    ``probed`` and ``gains`` are as ``context_by_task`` takes them.
    """
    frame = context_by_task(probed, gains)
    if frame.empty:
        return []
    out.mkdir(parents=True, exist_ok=True)
    titles = titles_of(manifest)
    frame = frame.assign(title=[titles[task] for task in frame["task"]])
    title = title_of(WHAT, manifest, FULL, INTERVALS)
    return [write_figure_files(frame, out / CONTEXT, title, draw_context, kept=kept)]


def draw_context(frame: pd.DataFrame, title: str) -> Figure:
    """Three panels with the same rows; above those of gains, Spearman's correlation with the first."""
    tasks = frame.drop_duplicates("task").sort_values(SENSITIVITY, kind="stable").reset_index(drop=True)
    places = {task: place for place, task in enumerate(tasks["task"])}
    figure = figure_of(11, 1.9 + 0.3 * len(tasks), title)
    panels = figure.subplots(1, len(PANELS), sharey=True)
    for axes, (part, label) in zip(panels, PANELS.items(), strict=True):
        axes.axvline(0, color=PALE, lw=0.8, zorder=0)
        if part == SENSITIVITY:
            _marks(axes, tasks, places, (SENSITIVITY, "sensitivity_low", "sensitivity_high"))
            axes.set_yticks(range(len(tasks)), [shortened(name) for name in tasks["title"]])
        else:
            rows = frame[frame["part"] == part]
            _marks(axes, rows, places, ("mean", "low", "high"))
            axes.set_title(_correlation(rows), fontsize=8.5)
        axes.set_xlabel(label, fontsize=8.5)
        axes.set_ylim(-0.6, len(tasks) - 0.4)
        make_plain(axes)
    return figure


def _marks(axes: Axes, rows: pd.DataFrame, places: dict[str, int], names: tuple[str, str, str]) -> None:
    """A mark per task with its interval, if it has any."""
    value, low, high = (rows[name].to_numpy(float) for name in names)
    spread = np.nan_to_num(np.array([value - low, high - value]))
    axes.errorbar(value, [places[task] for task in rows["task"]], xerr=spread, fmt="o", ms=4, lw=1, color=COLOUR)


def _correlation(rows: pd.DataFrame) -> str:
    rho = rows["rho"].iloc[0] if len(rows) else float("nan")
    few = f"{len(rows)} tasks: too few for a correlation"
    return f"Spearman's rho with what is lost: {signed(rho, 2)}, {len(rows)} tasks" if isfinite(rho) else few
