"""Human ratings of tasks: a long table of task, construct, rater and value, with the constructs' scales.

task,construct,rater,value
epitome_er,definition,A,4

Where a model answers, its file has a further column for each of its readings, of which the value is the mean:

task,construct,rater,value,reading_1,reading_2
epitome_er,definition,some-model 2026-11-24,3.5,3,4

A reading that could not be had is empty, and a value without any reading is a gap.
"""

import math
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from tasks.errors import BadEntry, BadRow, MissingData
from tasks.plain_text import nearest, read_toml
from tasks.readers.raw import read_raw
from tasks.task import Task

FOLDER = Path(__file__).parent


class Rating(NamedTuple):
    """A rater's judgement of a task on a construct."""

    task: str
    construct: str
    rater: str
    value: float


@dataclass(frozen=True)
class Construct:
    """What raters were asked, the scale they answered on, and what its marked points mean."""

    id: str
    title: str
    description: str
    minimum: float
    maximum: float
    criteria: Mapping[str, str]


def ratings(extra: Sequence[Path] = ()) -> list[Rating]:
    """Every rating of the built-in table and of the extra csv files, in file order; an empty value is a gap.

    BadRow for an unknown construct, a value off its scale, or a second rating of the same thing by one rater.
    """
    return ratings_in((*sorted(FOLDER.glob("*.csv")), *extra))


def ratings_in(files: Sequence[Path]) -> list[Rating]:
    """Every rating of these files alone; the same errors as ``ratings``."""
    seen: dict[tuple[str, str, str], str] = {}
    judgements = []
    for file in files:
        if not file.is_file():
            raise MissingData(f"no file of ratings {file}; correct its path")
        raw = read_raw(file)
        columns = [raw.column(name) for name in Rating._fields]
        for row, cells in enumerate(raw.rows):
            task, construct, rater, value = (cells[column].strip() for column in columns)
            where = raw.where(row)
            if not value:
                continue
            if not rater:
                raise BadRow(f"{where}: the rater is empty; fill in a name or letter")
            rating = Rating(task, construct, rater, _value(where, construct, value))
            first = seen.setdefault(rating[:3], where)
            if first != where:
                raise BadRow(
                    f"{where}: {rating.rater} rated {rating.task} on {rating.construct} at {first} too; keep one"
                )
            judgements.append(rating)
    return judgements


def rating_files(folders: Sequence[str]) -> list[Path]:
    """Files of ratings that lie beside one's own entries: ``ratings*.csv`` of each folder, by name."""
    return [file for folder in folders for file in sorted(Path(folder).glob("ratings*.csv"))]


def of_no_task(files: Sequence[Path], known: Collection[str]) -> list[str]:
    """A line for each task that these files rate and that is none of those known."""
    strange = dict.fromkeys(rating.task for rating in ratings_in(files) if rating.task not in known)
    return [f"ratings of {name!r} count nowhere: there is no such task{nearest(name, known)}" for name in strange]


def form(tasks: Sequence[Task], rater: str) -> list[dict[str, str]]:
    """Rows of an empty rating form: one per task and construct, with what the rater must know and a blank value.

    Filled in and saved as csv it is a file of ratings; rows left blank are gaps.
    """
    return [
        {
            "task": task.id,
            "construct": construct.id,
            "rater": rater,
            "value": "",
            "title": task.title,
            "description": task.description,
            "labels": ", ".join(task.label.names or task.label.classes) or task.label.kind,
            "question": construct.description,
            "criteria": "; ".join(f"{point} = {meaning}" for point, meaning in construct.criteria.items()),
        }
        for task in tasks
        for construct in constructs().values()
    ]


@cache
def _declared() -> Mapping[str, Mapping[str, Any]]:
    return read_toml(FOLDER / "constructs.toml", BadEntry)


@cache
def constructs() -> Mapping[str, Construct]:
    """Declared constructs by id, in their order."""
    return {id: Construct(id=id, **entry) for id, entry in _declared()["construct"].items()}


@cache
def themes() -> Mapping[str, str]:
    """Declared themes by id, each with its description, in their order."""
    return {id: str(entry["description"]) for id, entry in _declared()["theme"].items()}


def arguments() -> Mapping[str, str]:
    """Why a task has its theme, by task, where the paper has not given it one: the theme, a colon and the reason."""
    return _declared()["argument"]


def _value(where: str, name: str, cell: str) -> float:
    """Value of a cell, checked against its construct's scale."""
    construct = constructs().get(name)
    if construct is None:
        hint = nearest(name, constructs()) or f"; constructs are {', '.join(constructs())}"
        raise BadRow(f"{where}: unknown construct {name!r}{hint}")
    try:
        value = float(cell)
    except ValueError:
        raise BadRow(f"{where}: value {cell!r} is not a number; leave the row out for a gap") from None
    if not construct.minimum <= value <= construct.maximum:
        raise BadRow(f"{where}: value {value} is outside {construct.minimum} to {construct.maximum}; mend the row")
    return value


def criteria_page(tasks: Sequence[Task]) -> str:
    """The page that a rater reads first."""
    lines = [
        "# How to rate",
        "",
        f"Rate every one of the {len(tasks)} tasks on every construct below, from the papers that present their data. "
        "Write a number into the column `value`; leave it empty where you cannot tell. Rate alone, and without "
        "looking at the ratings of others.",
    ]
    for construct in constructs().values():
        scale = f"{construct.minimum:g} to {construct.maximum:g}"
        lines += ["", f"## {construct.title} ({scale})", "", construct.description, ""]
        lines += [f"- {point}: {meaning}." for point, meaning in construct.criteria.items()]
    lines += ["", "## Tasks", ""]
    lines += [
        f"- `{task.id}` ({task.title}): {task.description or 'see its entry'} {task.dataset.url}" for task in tasks
    ]
    return "\n".join(lines) + "\n"


COLUMN = re.compile(r"reading_([1-9][0-9]{0,2})")


class RatingReadings(NamedTuple):
    """A model's readings of a task on a construct, one for each repeat; None where an answer names none."""

    task: str
    construct: str
    values: tuple[float | None, ...]

    @property
    def value(self) -> float | None:
        """The mean of those that are there; None without any."""
        numbers = [value for value in self.values if value is not None]
        return fmean(numbers) if numbers else None

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


def rows_of(readings: Sequence[RatingReadings], rater: str) -> list[dict[str, str]]:
    """The rows of a file of ratings by this rater, whose columns of readings are as many as there were repeats."""
    return [
        {
            "task": reading.task,
            "construct": reading.construct,
            "rater": rater,
            "value": _cell(reading.value),
            **{f"reading_{number}": _cell(value) for number, value in enumerate(reading.values, start=1)},
        }
        for reading in readings
    ]


def readings_in(file: Path) -> list[Repeat]:
    """Every reading of a file of ratings; none where it has no column of them, BadRow for what is not on its scale."""
    raw = read_raw(file)
    task, construct, rater = (raw.column(name) for name in Repeat._fields[:3])
    columns = {int(name[1]): i for i, head in enumerate(raw.header) if (name := COLUMN.fullmatch(head))}
    repeats = []
    for row, cells in enumerate(raw.rows):
        for repeat, column in sorted(columns.items()):
            value = math.nan
            with suppress(ValueError):
                value = float(cells[column])
            if math.isfinite(value):
                of_task, of_construct, by = (cells[place].strip() for place in (task, construct, rater))
                value = _value(raw.where(row), of_construct, cells[column])
                repeats.append(Repeat(of_task, of_construct, by, value, repeat))
            elif cells[column].strip():
                odd = f"reading {cells[column]!r} is not a number; leave it empty where there is none"
                raise BadRow(f"{raw.where(row)}: {odd}")
    return repeats


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"
