"""Around an uncertainty map: names and brackets of tasks, and beside each row and column every gain as a dot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from analysis.figures.heatmaps import METRIC_NAMES
from analysis.figures.planned.layout import (
    BESIDE,
    BRACKET_LINE,
    EDGE,
    STRIP,
    Layout,
    bracket_name,
    name_lines,
    runs_of,
)
from analysis.figures.planned.plan import CAPITAL, INK, SMALLEST, SOFT, Box, Dot, Label, Line, Mark, fitting, outline
from analysis.figures.planned.uncertainty import LIMIT, is_sure
from analysis.tables import signed

MINUS, GRID, PALE = "\u2212", "#e4e4e2", "#a3a8ae"


def names(frame: pd.DataFrame, layout: Layout) -> list[Label]:
    """The rows' names at the left; the columns' below, or by turns below and above."""
    rows, columns = frame.drop_duplicates("intermediate"), frame.drop_duplicates("target")
    size, room = layout.name_size, layout.left - 8.0 - layout.families[1]
    names = []
    for task, title in zip(rows.intermediate, rows.row, strict=True):
        y = layout.rows[task] + layout.down / 2 + CAPITAL * size
        names.append(Label(layout.left - 4.0, y, fitting(title, size, room), size, "end"))
    for place, (task, title) in enumerate(zip(columns.target, columns.column, strict=True)):
        names.append(_column_name(title, layout.columns[task] + layout.across / 2, layout, place))
    return [name for name in names if name.text]


def _column_name(title: str, x: float, layout: Layout, place: int) -> Label:
    size, text = layout.name_size, fitting(title, layout.name_size, layout.longest)
    if layout.slant == 45.0:
        return Label(x + 0.5 * size, layout.bottom + 4.0 + 0.5 * size, text, size, "end", 45.0)
    if layout.is_staggered and place % 2:
        return Label(x + CAPITAL * size, layout.top - 3.0, text, size, "start", 90.0)
    return Label(x + CAPITAL * size, layout.bottom + 3.0, text, size, "end", 90.0)


def brackets(frame: pd.DataFrame, layout: Layout) -> list[Mark]:
    """What belongs together: targets by metric and family above, intermediates by family at the left."""
    rows, columns = frame.drop_duplicates("intermediate"), frame.drop_duplicates("target")
    marks: list[Mark] = []
    y = layout.top - layout.tier - 3.0
    if layout.families[0]:
        for run in runs_of(columns, "target", ["metric", "column_family"]):
            marks += _across(layout.columns[run.first], layout.columns[run.last] + layout.across, y, run.name)
        y -= layout.families[0]
    for run in runs_of(columns, "target", ["metric"]):
        x, to_x = layout.columns[run.first], layout.columns[run.last] + layout.across
        marks += _across(x, to_x, y, METRIC_NAMES[run.name], is_bold=True)
    if layout.families[1]:
        x = EDGE + layout.families[1] - 3.0
        for run in runs_of(rows, "intermediate", ["row_family"]):
            marks += _along(layout.rows[run.first], layout.rows[run.last] + layout.down, x, run.name)
    return marks


def _across(x: float, to_x: float, y: float, name: str, *, is_bold: bool = False) -> list[Mark]:
    """A line above columns with its name; one of a family stands upright where it would be cut."""
    marks: list[Mark] = [Line(x + 0.8, y, to_x - 0.8, y, SOFT, 0.8)]
    middle, room = (x + to_x) / 2, to_x - x - BESIDE
    lines, is_turned = (name_lines(name, room, is_bold=True, most=1), False) if is_bold else bracket_name(name, room)
    for place, text in enumerate(lines):
        if is_turned:
            marks.append(Label(_line_at(middle, place, lines), y - 2.0, text, SMALLEST, "start", 90.0))
        else:
            above = y - 2.0 - BRACKET_LINE * (len(lines) - 1 - place)
            marks.append(Label(middle, above, text, SMALLEST, "middle", 0.0, INK, is_bold))
    return marks


def _along(y: float, to_y: float, x: float, name: str) -> list[Mark]:
    """A line beside rows with its name, likewise: level where it would be cut upright."""
    marks: list[Mark] = [Line(x, y + 0.8, x, to_y - 0.8, SOFT, 0.8)]
    middle = (y + to_y) / 2
    lines, is_turned = bracket_name(name, to_y - y - BESIDE)
    for place, text in enumerate(lines):
        if is_turned:
            marks.append(Label(x - 2.5, _line_at(middle, place, lines), text, SMALLEST, "end"))
        else:
            beside = x - 2.5 - BRACKET_LINE * (len(lines) - 1 - place)
            marks.append(Label(beside, middle, text, SMALLEST, "middle", 90.0))
    return marks


def _line_at(middle: float, place: int, lines: Sequence[str]) -> float:
    """Where a line of several stands that lie around a middle."""
    return middle + CAPITAL * SMALLEST + BRACKET_LINE * (place - (len(lines) - 1) / 2)


def _at(points: float, low: float, high: float) -> float:
    """Where a gain stands on an axis from -LIMIT at ``low`` to LIMIT at ``high``; what is beyond stands at its end."""
    return low + (high - low) * (min(max(points, -LIMIT), LIMIT) / LIMIT + 1) / 2


def strip_above(frame: pd.DataFrame, layout: Layout) -> list[Mark]:
    """Every gain as a dot above its column, its median as a bar."""
    low, high = layout.top + STRIP - 3.0, layout.top + 3.0
    marks: list[Mark] = []
    for _, part in frame.groupby(["metric"], sort=False):
        targets = [layout.columns[task] for task in part.target]
        x, to_x = min(targets), max(targets) + layout.across
        marks.append(Box(x, layout.top, to_x - x, STRIP, "#ffffff", GRID, 0.6))
        marks.append(Line(x, (low + high) / 2, to_x, (low + high) / 2, SOFT, 0.5))
    for task, part in _by_certainty(frame).groupby("target", sort=False):
        middle = layout.columns[str(task)] + layout.across / 2
        marks += [_dot(middle, _at(pair.points, low, high), pair) for pair in part.itertuples()]
        y, half = _at(part.points.median(), low, high), min(0.36 * layout.across, 5.0)
        marks.append(Line(middle - half, y, middle + half, y, INK, 1.1))
    for points, y in ((LIMIT, high), (0.0, (low + high) / 2), (-LIMIT, low)):
        text = f"{whole(points)} points" if points > 0 else whole(points)
        marks.append(Label(layout.left - 4.0, y + CAPITAL * SMALLEST, text, SMALLEST, "end", 0.0, SOFT))
    return marks


def strip_beside(frame: pd.DataFrame, layout: Layout) -> list[Mark]:
    """Every gain as a dot beside its row, its median as a bar."""
    x, to_x = layout.right + 2 * EDGE, layout.width - EDGE
    low, high = x + 3.0, to_x - 3.0
    middle = (low + high) / 2
    marks: list[Mark] = [Box(x, layout.head, to_x - x, layout.bottom - layout.head, "#ffffff", GRID, 0.6)]
    marks.append(Line(middle, layout.head, middle, layout.bottom, SOFT, 0.5))
    for task, part in _by_certainty(frame).groupby("intermediate", sort=False):
        y = layout.rows[str(task)] + layout.down / 2
        marks += [_dot(_at(pair.points, low, high), y, pair) for pair in part.itertuples()]
        at, half = _at(part.points.median(), low, high), min(0.36 * layout.down, 5.0)
        marks.append(Line(at, y - half, at, y + half, INK, 1.1))
    for points, at in ((-LIMIT, low), (0.0, middle), (LIMIT, high)):
        marks.append(Label(at, layout.bottom + 8.0, whole(points), SMALLEST, "middle", 0.0, SOFT))
    marks.append(Label(middle, layout.bottom + 15.5, "gain, points", SMALLEST, "middle", 0.0, SOFT))
    return marks


def whole(points: float) -> str:
    """Points without decimals, with their sign."""
    return signed(points, 0).replace("-", MINUS)


def _by_certainty(frame: pd.DataFrame) -> pd.DataFrame:
    """The finished pairs, those last whose interval excludes 0, so that they are drawn above the others."""
    done = frame[frame.status == "done"]
    return done.assign(is_sure=is_sure(done)).sort_values("is_sure", kind="stable")


def _dot(x: float, y: float, pair: Any) -> Dot:  # noqa: ANN401 - a row of the frame
    if abs(pair.points) > LIMIT:
        return Dot(x, y, 1.5, "#ffffff", INK, 0.7)
    return Dot(x, y, 1.3, INK if pair.is_sure else PALE, "#ffffff", 0.2)


def labels_below(frame: pd.DataFrame, layout: Layout) -> float:
    """How far the columns' names, or the axis beside them, reach below the map."""
    turned = (name for name in names(frame, layout) if name.turn)
    return max([18.0, *(float(outline(name)[:, 1].max()) - layout.bottom for name in turned)]) + 6.0
