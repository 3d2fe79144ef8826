"""Where the places of an uncertainty map stand, so that 2 to 60 tasks are legible on a page."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

import numpy as np
import pandas as pd

from analysis.figures.planned.plan import SMALLEST, fitting, text_width

WIDEST_PLACE, NARROWEST = 40.0, 6.6  # points of a square's place at most, and at least for a name beside each
SLANTED = 10.6  # points of a place from which on labels of columns are slanted and not upright
LONGEST_NAME, SHORT_NAME, MANY = 96.0, 66.0, 36  # points of a task's name, and of a name among more tasks than these
STRIP, LEAST_WIDTH = 34.0, 300.0  # points of the marginal above, and of the whole figure
SIDE_STRIP = (50.0, 110.0)  # points of the marginal at the right, at least and at most
METRIC_GAP, FAMILY_GAP, EDGE, AXIS = 7.0, 2.5, 4.0, 34.0  # AXIS: the words beside the marginal above
BRACKET, BRACKET_LINE = 11.0, 6.6  # points of a bracket with a line of its name, and of each further line
BESIDE = 2.0  # points of a bracket that its name leaves free
LONGEST_TURNED, ENDS = 42.0, 6.0  # points of a name across its bracket, and those that it leaves free at its ends
TITLES = {"intermediate": "row", "target": "column"}  # columns of a map's frame that have the titles of a role's tasks
FEWEST_LETTERS, MOST_LINES = 6, 2  # of a bracket's name: letters that still say something, and lines


@dataclass(frozen=True)
class Layout:
    """Where the places of a map stand: left sides of columns, tops of rows, and the sizes of a place."""

    columns: Mapping[str, float]
    rows: Mapping[str, float]
    across: float
    down: float
    name_size: float
    width: float
    bottom: float  # of the map
    longest: float  # of the columns' labels
    slant: float  # of them: 45 or 90 degrees
    is_staggered: bool
    top: float  # of the strip above the map
    tier: float  # of the labels above the strip; 0 without
    families: tuple[float, float]  # of the families' brackets: above the map, and at its left; 0 without

    @property
    def right(self) -> float:
        """The right side of the map."""
        return max(self.columns.values()) + self.across

    @property
    def side(self) -> float:
        """The shorter side of a place."""
        return min(self.across, self.down)

    @property
    def left(self) -> float:
        """The left side of the map."""
        return min(self.columns.values())

    @property
    def head(self) -> float:
        """The top of the map."""
        return min(self.rows.values())

    def middle(self, row: str, column: str) -> tuple[float, float]:
        """The middle of a place."""
        return self.columns[column] + self.across / 2, self.rows[row] + self.down / 2


def layout_of(frame: pd.DataFrame, width: float, top: float) -> Layout:
    """The layout of a map at most ``width`` wide whose strip, or what stands above it, begins at ``top``."""
    rows, columns = frame.drop_duplicates("intermediate"), frame.drop_duplicates("target")
    has_rows, has_columns = (bool((part != "").any()) for part in (rows.row_family, columns.column_family))
    gaps_across = _gaps(columns, ["metric", "column_family"])
    gaps_down = _gaps(rows, ["row_family"])
    longest = min(LONGEST_NAME if len(columns) <= MANY else SHORT_NAME, 0.24 * width)
    beside = (BRACKET + 1.0) * has_rows
    gutter = max(min(max(text_width(name, 7.0) for name in rows.row), longest), AXIS) + 8.0 + beside
    for _ in range(3):  # names of families, and labels that slant to the left, may ask for more room at the left
        room = width - gutter - SIDE_STRIP[0] - 3 * EDGE - sum(gaps_across)
        across = min(room / len(columns), WIDEST_PLACE)
        down = max(across, NARROWEST)
        more = BRACKET + 1.0 + _further(runs_of(rows, "intermediate", ["row_family"]), down) - beside
        if has_rows and more > 0:
            gutter, beside = gutter + more, beside + more
        slant = 45.0 if across >= SLANTED else 90.0
        lefts = gutter + np.cumsum([0.0, *gaps_across[1:]]) + across * np.arange(len(columns))
        lengths = [min(text_width(name, 7.0), longest) for name in columns.column]
        if slant == 45.0:
            starts = [x + across / 2 - 0.72 * length for x, length in zip(lefts, lengths, strict=True)]
            gutter += max(0.0, EDGE - min(starts))
    is_staggered = slant == 90.0 and across < NARROWEST
    tier = max(lengths) + 3.0 if is_staggered else 0.0
    above = (BRACKET + _further(runs_of(columns, "target", ["metric", "column_family"]), across)) * has_columns
    strip = top + BRACKET + above + tier
    tops = strip + STRIP + 4.0 + np.cumsum([0.0, *gaps_down[1:]]) + down * np.arange(len(rows))
    side = min(max(width - lefts[-1] - across - 3 * EDGE, SIDE_STRIP[0]), SIDE_STRIP[1])
    return Layout(
        dict(zip(columns.target, lefts, strict=True)),
        dict(zip(rows.intermediate, tops, strict=True)),
        across,
        down,
        min(max(0.62 * min(across * (2 if is_staggered else 1), down), SMALLEST), 7.0),
        max(lefts[-1] + across + side + 3 * EDGE, min(LEAST_WIDTH, width)),
        float(tops[-1] + down),
        longest,
        slant,
        is_staggered,
        strip,
        tier,
        (above, beside),
    )


class Run(NamedTuple):
    """Tasks side by side of one family: the first and the last, how many, and the name of their bracket."""

    first: str
    last: str
    size: int
    name: str


def runs_of(tasks: pd.DataFrame, role: str, fields: Sequence[str]) -> list[Run]:
    """The runs of tasks in a role that agree in these fields, the last of which names them.

    A bracket over a single task that is called as its family has no name: it would say the same word twice.
    """
    titles, values = TITLES[role], tasks[list(fields)].itertuples(index=False, name=None)
    runs = []
    for own, run in groupby(zip(values, tasks[role], tasks[titles], strict=True), itemgetter(0)):
        members = [(str(task), str(title)) for _, task, title in run]
        is_plain = len(members) == 1 and members[0][1].casefold() == str(own[-1]).casefold()
        runs.append(Run(members[0][0], members[-1][0], len(members), "" if is_plain else str(own[-1])))
    return runs


def _further(runs: Sequence[Run], place: float) -> float:
    """The room that names of families take beyond a line, in points."""
    needed = [0.0]
    for run in runs:
        lines, is_turned = bracket_name(run.name, run.size * place - BESIDE)
        widths = [text_width(line, SMALLEST) for line in lines]
        needed.append(max(widths) + ENDS - BRACKET if is_turned else BRACKET_LINE * (len(lines) - 1))
    return max(needed)


def bracket_name(name: str, room: float) -> tuple[list[str], bool]:
    """The lines of a family's name, and whether they stand across their bracket because along it one would be cut."""
    along = _broken(name, SMALLEST, room, MOST_LINES)
    if along or not name:
        return along, False
    across = name_lines(name, LONGEST_TURNED, most=int((room + BESIDE) / BRACKET_LINE))
    return (across, True) if across else (name_lines(name, room), False)


def name_lines(name: str, room: float, *, is_bold: bool = False, most: int = MOST_LINES) -> list[str]:
    """A bracket's name in as few lines as fit, broken at its parts; else on one, cut, or none."""
    size = SMALLEST * (1.12 if is_bold else 1.0)
    if lines := _broken(name, size, room, most):
        return lines
    text = fitting(name, size, room, 0) if most > 0 else ""
    return [text] if text.strip() and len(text) >= min(len(name), FEWEST_LETTERS) else []


def _broken(name: str, size: float, room: float, most: int) -> list[str]:
    """A name in at most so many lines, broken at its parts; none where it would have to be cut."""
    lines = [""]
    for part in re.findall(r"[^\s_/-]+[\s_/-]*|[\s_/-]+", name):
        if text_width((lines[-1] + part).rstrip(), size) <= room or not lines[-1]:
            lines[-1] += part
        else:
            lines.append(part)
    lines = [line.strip() for line in lines]
    fits = len(lines) <= most and all(text_width(line, size) <= room for line in lines)
    return lines if fits and lines[0] else []


def _gaps(tasks: pd.DataFrame, fields: Sequence[str]) -> list[float]:
    """The room before each task: more where a metric begins, less where a family does, none else."""
    gaps, before = [0.0], None
    for values in tasks[list(fields)].itertuples(index=False):
        if before is not None:
            is_other = [value != other for value, other in zip(values, before, strict=True)]
            gaps.append(METRIC_GAP if len(fields) > 1 and is_other[0] else FAMILY_GAP if any(is_other) else 0.0)
        before = values
    return gaps
