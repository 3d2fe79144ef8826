"""Panels of a figure side by side, one per target: how many on a page, how wide, in which part of a figure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import ceil
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from analysis.figures.drawing import FigureFiles
from analysis.figures.planned.layout import EDGE
from analysis.figures.planned.plan import POINTS_PER_CM, Planner, write_plan_files
from analysis.kept import Kept

GAP = 9.0  # points between panels
WIDEST_PANEL, PANELS = 330.0, 3  # points of a panel; panels side by side on a page
NARROW = 340.0  # points of a column of a page, in which panels stand below each other


class Panels(NamedTuple):
    """How many panels stand side by side, and in points the width of each and of the whole figure."""

    across: int
    width: float
    full: float


def panels_on(width: float, n_targets: int) -> Panels:
    """The panels of so many targets on ``width`` cm at most."""
    points = width * POINTS_PER_CM
    across = max(1, min(PANELS if points > NARROW else 1, n_targets))
    own = min((points - 2 * EDGE - GAP * (across - 1)) / across, WIDEST_PANEL)
    return Panels(across, own, 2 * EDGE + own * across + GAP * (across - 1))


class Panelled(NamedTuple):
    """A figure of panels: what its files are called, how a frame is cut into pages, and what plans one."""

    name: str
    parts: Callable[[pd.DataFrame, str], Iterable[tuple[str, pd.DataFrame]]]
    planner: Planner


def write_panels(
    figure: Panelled,
    settings: Iterable[tuple[str, pd.DataFrame, str]],
    out: Path,
    kept: Kept,
    *,
    prints: bool,
) -> list[FigureFiles]:
    """Draw the frame of every setting, which comes with its title, in as many parts as pages are needed, unless kept.

    As PDF, too, where it ``prints``.
    """
    return [
        write_plan_files(part, out / name, title, figure.planner, kept=kept, prints=prints)
        for setting, frame, title in settings
        for name, part in figure.parts(frame, f"{figure.name}-{setting.replace('%', 'pct')}")
    ]


def parts_of(frame: pd.DataFrame, name: str, most: int) -> Iterator[tuple[str, pd.DataFrame]]:
    """The frame in parts of at most so many targets, with their names."""
    targets = list(dict.fromkeys(frame.target))
    count = ceil(len(targets) / most)
    for number in range(count):
        chosen = frame.target.isin(targets[number * most : (number + 1) * most])
        yield name + (f"-part-{number + 1}" if count > 1 else ""), frame[chosen].reset_index(drop=True)
