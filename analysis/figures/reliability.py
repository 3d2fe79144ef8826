"""Reliability of probabilities as a figure: for every target a small panel per system, its bins around the diagonal.

``reliability_plan`` draws it from the frame of ``reliability_frame``, which lies beside the figure as CSV.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from adapters_store.roles import SYSTEM
from analysis.figures.boards import OTHERS, OWN, board_frame
from analysis.figures.drawing import FigureFiles
from analysis.figures.layout import EDGE, GAP, GRID, NARROW, Panelled, parts_of, write_panels
from analysis.figures.plan import (
    INK,
    LEGEND,
    PAGE,
    POINTS_PER_CM,
    SMALLEST,
    SOFT,
    Box,
    Dot,
    Item,
    Label,
    Line,
    Mark,
    Plan,
    described,
    entries,
    fitting,
    legend,
    rounded,
    title_of,
    with_texts,
)
from analysis.figures.uncertainty_map import heading
from analysis.gains.cells import Manifest
from analysis.kept import NOWHERE, Kept
from analysis.results.leaderboard import Leaderboard
from analysis.tables import Declared, bare, framed
from tasks.plain_text import counted

RELIABILITY = "reliability"
COLUMNS = {
    "target": Declared("str", "task that was trained and tested: a band of panels"),
    "panel": Declared("str", "its title"),
    "system": Declared("str", "contestant with probabilities, as of the leaderboard: a panel"),
    "row": Declared("str", "its name in the figure"),
    "role": Declared("str", "system, or what of the adapters it is"),
    "error": Declared("float64", "expected calibration error"),
    "if_calibrated": Declared("float64", "its mean where the same probabilities are exactly right"),
    "bin": Declared("int64", "from the least probable, from 1"),
    "probability": Declared("float64", "mean probability of what was decided"),
    "right": Declared("float64", "share that is right"),
    "low": Declared("float64", "lower end of its 95 % interval"),
    "high": Declared("float64", "its upper end"),
    "n": Declared("int64", "answers of the bin"),
}
ACROSS, ACROSS_NARROW = 5, 2  # panels side by side, on a page and in a column of it
HEAD, NAME, FOOT = 13.0, 17.0, 10.0  # points of a target's title, of what stands above a panel, and below it
AXIS = 7.0  # points of the numbers beside the first panel of a line
HIGHEST = 585.0  # points of all panels of a page
DEPTHS: list[type] = [Box, Line, Dot]
BELOW = "share of right answers by the probability of what was decided, in ten bins, with 95 % intervals"


def reliability_frame(board: Leaderboard, manifest: Manifest, setting: str) -> pd.DataFrame:
    """A row per bin of every contestant of a setting, in COLUMNS, with the names that the leaderboard's figure has."""
    where = ["target", "system"]
    named = board_frame(board.board, manifest, setting)[[*where, "panel", "row", "role"]]
    errors = board.calibration.loc[board.calibration.setting == setting, [*where, "error", "if_calibrated"]]
    bins = board.reliability[board.reliability.setting == setting]
    return framed(named.merge(errors, on=where).merge(bins, on=where), COLUMNS).reset_index(drop=True)


def write_reliability(
    board: Leaderboard, manifest: Manifest, out: Path, kept: Kept = NOWHERE, *, prints: bool = False
) -> list[FigureFiles]:
    """Draw a band of panels per target for every setting in which a system has probabilities."""
    settings = (
        (
            setting,
            reliability_frame(board, manifest, setting),
            title_of("Reliability of probabilities", manifest, setting, BELOW),
        )
        for setting in dict.fromkeys(board.reliability.setting)
    )
    return write_panels(Panelled(RELIABILITY, reliability_parts, reliability_plan), settings, out, kept, prints=prints)


def reliability_parts(frame: pd.DataFrame, name: str, *, width: float = PAGE) -> Iterator[tuple[str, pd.DataFrame]]:
    """The frame in parts of so many targets as stand on a page of ``width`` cm, with their names."""
    across, side = _panels(width)
    highest = max(_height(own.system.nunique(), across, side) for _, own in frame.groupby("target", sort=False))
    yield from parts_of(frame, name, max(1, int(HIGHEST / highest)))


def _panels(width: float) -> tuple[int, float]:
    """How many panels stand side by side on ``width`` cm, and the points of a side of each."""
    points = width * POINTS_PER_CM
    across = ACROSS if points > NARROW else ACROSS_NARROW
    return across, (points - 2 * EDGE - across * (AXIS + GAP)) / across


def _height(systems: int, across: int, side: float) -> float:
    return HEAD + ceil(systems / across) * (NAME + side + FOOT) + GAP


def reliability_plan(frame: pd.DataFrame, title: str, *, width: float = PAGE) -> Plan:
    """A band per target, in it a panel per contestant, all axes from 0 to 1."""
    frame, full = with_texts(frame, ["row"]), width * POINTS_PER_CM
    across, side = _panels(width)
    words, top = heading(title, full)
    layers: dict[str, list[Mark]] = {"marks": [], "names": [*words]}
    for _, band in frame.groupby("target", sort=False):
        name = fitting(band.panel.iloc[0], 7.4, full - 2 * EDGE)
        layers["names"].append(Label(EDGE, top + 8.0, name, 6.8, "start", 0.0, INK, True))
        for place, (_, own) in enumerate(band.groupby("system", sort=False)):
            x = EDGE + (place % across) * (side + AXIS + GAP) + AXIS
            y = top + HEAD + (place // across) * (NAME + side + FOOT) + NAME
            marks, names = _panel(own, x, y, side)
            layers["marks"] += marks
            layers["names"] += [label for label in names if label.text]
        top += _height(band.system.nunique(), across, side)
    layers["marks"].sort(key=lambda mark: DEPTHS.index(type(mark)))  # panels do not overlap
    # What the marks mean; those that do not occur are left out.
    is_system = frame.role == SYSTEM
    shown = [
        (is_system.any(), Item(_key(OTHERS), 16.0, "system: share of right answers of a bin")),
        ((~is_system).any(), Item(_key(OWN), 16.0, "adapters, or the whole model")),
        (True, Item(lambda x, y: [Line(x, y + 3.0, x + 8.0, y - 3.0, GRID, 0.8)], 8.0, "as often as said")),
        (True, Item(lambda x, y: [], 0.0, "error: how far bins lie from the line, on average over answers")),
    ]
    items = [item for occurs, item in shown if occurs]
    layers[LEGEND], bottom = legend(items, EDGE, top, full - 2 * EDGE)
    return rounded(Plan(full, bottom + EDGE, reliability_words(frame, title), layers, top, entries(items)))


def _panel(own: pd.DataFrame, x: float, y: float, side: float) -> tuple[list[Mark], list[Label]]:
    """The marks and the texts of a contestant's panel, whose square begins at (x, y)."""
    first, bottom = own.iloc[0], y + side

    def at(probability: float, share: float) -> tuple[float, float]:
        return x + side * probability, bottom - side * share

    colour = OTHERS if first.role == SYSTEM else OWN
    marks: list[Mark] = [Box(x, y, side, side, "", GRID, 0.6), Line(x, bottom, x + side, y, GRID, 0.8)]
    for row in own.itertuples():
        if np.isfinite([row.low, row.high]).all():
            marks.append(Line(*at(row.probability, row.low), *at(row.probability, row.high), colour, 0.9))
        marks.append(Dot(*at(row.probability, row.right), 1.5, colour))
    points = [at(row.probability, row.right) for row in own.itertuples()]
    marks += [Line(*start, *end, colour, 0.6) for start, end in pairwise(points)]
    error = f"error {bare(first.error)}, if calibrated {bare(first.if_calibrated)}"
    names = [
        Label(x, y - 10.2, fitting(first.row, SMALLEST, side), SMALLEST, "start", 0.0, INK),
        Label(x, y - 3.4, fitting(error, SMALLEST, side + AXIS), SMALLEST, "start", 0.0, SOFT),
    ]
    for value in (0.0, 1.0):
        across, down = at(value, value)
        names.append(Label(across, bottom + 6.6, f"{value:.0f}", SMALLEST, "middle", 0.0, SOFT))
        names.append(Label(x - 1.8, down + (5.0 if value else 0.0), f"{value:.0f}", SMALLEST, "end", 0.0, SOFT))
    return marks, names


def _key(colour: str) -> Any:  # noqa: ANN401 - a key
    return lambda x, y: [Line(x + 7.5, y - 4.0, x + 7.5, y + 4.0, colour, 0.9), Dot(x + 7.5, y, 1.5, colour)]


def reliability_words(frame: pd.DataFrame, title: str) -> str:
    """What the figure shows, for those who do not see it: of every target the least and the largest error."""
    said = []
    for _, band in frame.groupby("target", sort=False):
        errors = band.drop_duplicates("system").sort_values("error", kind="stable")
        least, most = errors.iloc[0], errors.iloc[-1]
        ends = [f"{row.row}, {bare(row.error)}" for row in ((least,) if len(errors) == 1 else (least, most))]
        said.append(f"{band.panel.iloc[0]}: calibration error from {' to '.join(ends)}")
    bands = counted(frame.target.nunique(), "target")
    shown = f"The figure has the share of right answers by probability of all systems on {bands}. {'; '.join(said)}."
    return described(title, shown)
