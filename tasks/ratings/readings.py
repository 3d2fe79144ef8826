"""What a model answered where people rate: its readings of a task on a construct, as a file of ratings.

task,construct,rater,value,reading_1,reading_2
epitome_er,definition,some-model 2026-11-24,3.5,3,4

The value is the mean of the readings that are there; the columns behind it are further columns to whoever reads
ratings. A reading that could not be had is empty, and a value without any reading is a gap.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from tasks.errors import BadRow
from tasks.readers.raw import read_raw

COLUMN = re.compile(r"reading_([1-9][0-9]{0,2})")


class Reading(NamedTuple):
    """A model's readings of a task on a construct, one for each repeat; None where an answer names none."""

    task: str
    construct: str
    values: tuple[float | None, ...]

    @property
    def value(self) -> float | None:
        """The mean of those that are there; None without any."""
        there = [value for value in self.values if value is not None]
        return fmean(there) if there else None

    @property
    def missing(self) -> int:
        """How many are not there."""
        return self.values.count(None)


class Repeat(NamedTuple):
    """A reading as a file of ratings has it: ``repeat`` counts a rater's readings of the same thing from 1."""

    task: str
    construct: str
    rater: str
    value: float
    repeat: int


def rows_of(readings: Sequence[Reading], rater: str) -> list[dict[str, str]]:
    """The rows of a file of ratings by this rater, whose columns of readings are as many as there were repeats."""
    return [
        {
            "task": reading.task,
            "construct": reading.construct,
            "rater": rater,
            "value": _cell(reading.value),
            **{f"reading_{place}": _cell(value) for place, value in enumerate(reading.values, start=1)},
        }
        for reading in readings
    ]


def readings_in(file: Path) -> list[Repeat]:
    """Every reading of a file of ratings; none where it has no column of them, BadRow for what is no number."""
    raw = read_raw(file)
    task, construct, rater = (raw.column(name) for name in Repeat._fields[:3])
    columns = {int(name[1]): place for place, head in enumerate(raw.header) if (name := COLUMN.fullmatch(head))}
    return [
        Repeat(cells[task], cells[construct], cells[rater], _number(raw.where(i), cells[place]), repeat)
        for i, cells in enumerate(raw.rows)
        for repeat, place in sorted(columns.items())
        if cells[place].strip()
    ]


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"


def _number(where: str, cell: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise BadRow(f"{where}: reading {cell!r} is not a number; leave it empty where there is none")
    return value
