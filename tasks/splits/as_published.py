"""As-published splits: what is known of the sets that a paper used, including what leaks.

Ids of published sets are in a CSV file (``<dataset>.csv``, ``<dataset>_val_test.csv`` or ``<dataset>_test.csv``) with a
column ``split`` or ``in_sets``; a row in several sets names them all, as in ``train+val``:

    id,split
    hit:1_conv:2,train
    hit:3_conv:4,train+val

What no file names is drawn with the published shares, by a stable hash, and marked approximate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress, pairwise
from pathlib import Path
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from tasks.errors import BadEntry, BadInput, BadRow
from tasks.fields import OneOf, check_table, record_of, written_fields
from tasks.readers.raw import read_raw
from tasks.readers.rows import SETS, data_files
from tasks.readers.table import read_table
from tasks.splits.clean import NAMES, Parts, block_hashes, check_filled, clean, missing_classes
from tasks.task import Example, Task

ENDINGS = ("", "_val_test", "_test")
SET_COLUMNS = ("split", "in_sets")
TRAIN_SHARE = 0.9  # of a published training set, where no validation set is published
COMPLETE = 0.99  # share of a set's ids that must be in the data for the set to count as known


def _is_rising(part: tuple[float, float]) -> str:
    return "" if 0 <= part[0] < part[1] <= 1 else f"{part!r} must rise and lie within 0 and 1"


Part = Annotated[tuple[float, float] | None, _is_rising, "its part of all units in shuffled order, from and to"]


@dataclass(frozen=True)
class Published:
    """How the rows of a dataset's published sets are recognised; sets that leak overlap."""

    key: Annotated[tuple[str, ...], "columns of the id file that name a row, joined by colons"] = ("id",)
    rows: Annotated[tuple[str, ...], "the raw file's columns of the same meaning, where that is no row's id"] = ()
    unit: Annotated[str, OneOf(("group", "row")), "what was split"] = "group"
    train: Part = None
    validation: Part = None
    test: Part = None

    @property
    def ranges(self) -> dict[str, tuple[float, float]]:
        """The parts of the sets, where they are known."""
        return {name: part for name in NAMES if (part := getattr(self, name))}

    @classmethod
    def of(cls, task: Task) -> Published:
        """Read the entry's `published` table; BadEntry for an unknown or wrong field."""
        check_table(task.dataset.published, written_fields(cls), BadEntry, f"{task.entry_file}: published")
        published = record_of(cls, task.dataset.published)
        if published.ranges and len(published.ranges) < len(NAMES):
            named = ", ".join(published.ranges)
            raise BadEntry(f"{task.entry_file}: `published` gives {named}; it needs all of {', '.join(NAMES)}")
        return published


def as_published(task: Task, data: Path, rows: Sequence[Example], ids: Path | None) -> Parts:
    """The published sets of a task whose classes are known, as far as ids or shares are known; else the clean split.

    Sets that the data themselves name (`split_files`, `split_column`) come first. Ids are looked for in the folder
    ``ids``, by default ``data/splits``. Sets may overlap: nothing is dropped, and the warnings say what leaks.
    BadInput, BadRow or BadEntry when the files cannot be used.
    """
    published = Published.of(task)
    if any(row.split for row in rows):
        return _official(task, rows)
    if ids is not None and not ids.is_dir():
        raise BadInput(f"--splits {ids}: no such folder; give the one that holds the id files")
    paths = ((ids or data / "splits") / f"{task.dataset.id}{ending}.csv" for ending in ENDINGS)
    file = next((path for path in paths if path.is_file()), None)
    if file is None and not published.ranges:
        parts = clean(task, rows)
        return replace(parts, warnings=("no published split is known; this is the clean one", *parts.warnings))
    named, complete, warnings = _named_sets(task, data, rows, published, file) if file else ({}, (), [])
    filled, more = _with_the_rest(task, rows, published, named)
    sets = {name: tuple(row for row in rows if name in filled.get(row.id, ())) for name in NAMES}
    return _parts(task, sets, [*warnings, *more], complete)


def _parts(task: Task, sets: dict[str, tuple[Example, ...]], warnings: list[str], complete: tuple[str, ...]) -> Parts:
    """The sets, with warnings of what leaks and what classes they lack; BadInput for an empty one."""
    cure = "the published sets have none: name its file or value in the entry, or take the clean split"
    check_filled(task, list(sets.values()), cure)
    warnings += _leaks(sets["train"], sets["test"]) + missing_classes(task, sets)
    return Parts(sets["train"], sets["validation"], sets["test"], tuple(warnings), complete)


def _official(task: Task, rows: Sequence[Example]) -> Parts:
    """The sets that files or a column of the data name; without a validation set, a tenth of train's groups drawn."""
    sets = {name: tuple(row for row in rows if row.split == name) for name in NAMES}
    warnings = []
    complete = tuple(name for name in NAMES if sets[name])
    if not sets["validation"] and sets["train"]:
        is_kept = _positions(task, [row.group for row in sets["train"]]) < TRAIN_SHARE
        sets["validation"] = tuple(compress(sets["train"], ~is_kept))
        sets["train"] = tuple(compress(sets["train"], is_kept))
        complete = ("test",)
        warnings.append("approximate: the data name no validation set; a tenth of train's groups is drawn for it")
    left_out = len(rows) - sum(map(len, sets.values()))
    warnings += [f"{left_out} rows are in no published set; left out"] if left_out else []
    return _parts(task, sets, warnings, complete)


def _named_sets(
    task: Task, data: Path, rows: Sequence[Example], published: Published, file: Path
) -> tuple[dict[str, tuple[str, ...]], tuple[str, ...], list[str]]:
    """The sets of every row that the file names, by row id; which sets are complete; a warning about absent ids."""
    raw = read_raw(file)
    keys = [raw.column(name) for name in published.key]
    column = next((raw.header.index(name) for name in SET_COLUMNS if name in raw.header), None)
    if column is None:
        raise BadRow(f"{file}:1: no column {' or '.join(SET_COLUMNS)}; it has {', '.join(raw.header)}")
    sets = {}
    for row, cells in enumerate(raw.rows):
        words = cells[column].split("+")
        if unknown := [word for word in words if word not in SETS]:
            raise BadRow(f"{raw.where(row)}: set {unknown[0]!r} is not one of {', '.join(SETS)}")
        sets[":".join(cells[i] for i in keys)] = tuple(SETS[word] for word in words)
    key_of = _raw_keys(task, data, published.rows) if published.rows else {row.id: row.id for row in rows}
    named = {row.id: sets[key_of[row.id]] for row in rows if key_of[row.id] in sets}
    if not named:
        raise BadRow(f"{file}:2: none of its {len(sets)} ids is a row of {task.id}; check `published.key` in the entry")
    lost = len(sets) - len(named)
    published_rows = Counter(name for names in sets.values() for name in names)
    present = Counter(name for names in named.values() for name in names)
    complete = tuple(name for name in NAMES if present[name] > COMPLETE * published_rows[name])
    return named, complete, [f"{lost} of {len(sets)} published ids are not in the data"] if lost else []


def _raw_keys(task: Task, data: Path, columns: Sequence[str]) -> dict[str, str]:
    """The published key of every row of a ``table`` task, by row id, from columns of its raw files."""
    keys: dict[str, str] = {}
    id_column, number = task.columns.get("row_id", ""), 0
    for path in data_files(task, data):
        raw = read_table(task, path, (*columns, *filter(None, [id_column])))
        positions = [raw.column(name) for name in columns]
        ids = raw.cells(id_column) if id_column else map(str, range(number, number + len(raw.rows)))
        keys |= {id: ":".join(cells[i] for i in positions) for id, cells in zip(ids, raw.rows, strict=True)}
        number += len(raw.rows)
    return keys


def _with_the_rest(
    task: Task, rows: Sequence[Example], published: Published, named: Mapping[str, tuple[str, ...]]
) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    """Sets of all rows by id: the named rows', then the others', which go to train or are drawn; with warnings."""
    given = [name for name in NAMES if any(name in sets for sets in named.values())]
    taken = {row.group for row in rows if row.id in named} if published.unit == "group" else set()
    rest = [row for row in rows if row.id not in named and row.group not in taken]
    left_out = len(rows) - len(named) - len(rest)
    filled = dict(named)
    warnings = []
    if len(given) == len(NAMES):
        left_out += len(rest)
    elif given == ["validation", "test"]:
        filled.update((row.id, ("train",)) for row in rest)
    elif not published.ranges:
        raise BadEntry(f"{task.entry_file}: the id file names {', '.join(given)} only; give `published` shares")
    else:
        open_sets = [name for name in NAMES if name not in given]
        filled.update(_draw(task, rest, published, open_sets))
        warnings.append(f"approximate: ids of {', '.join(open_sets)} are unknown, drawn with the published shares")
    if left_out:
        warnings.append(f"{left_out} rows are in no published set; left out")
    return filled, warnings


def _draw(
    task: Task, rows: Sequence[Example], published: Published, names: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    """Sets drawn for rows without known ones: whole units in the order of their hash, by the published ranges."""
    ranges = published.ranges
    if len(names) < len(NAMES):  # the other sets are known: their ranges are divided among these
        ends = np.cumsum([0.0, *(ranges[name][1] - ranges[name][0] for name in names)])
        ends /= ends[-1]
        ranges = dict(zip(names, pairwise(ends.tolist()), strict=True))
    units = [row.group if published.unit == "group" else row.id for row in rows]
    positions = _positions(task, units)
    return {
        row.id: tuple(name for name in names if ranges[name][0] <= where < ranges[name][1])
        for row, where in zip(rows, positions, strict=True)
    }


def _positions(task: Task, units: Sequence[str]) -> NDArray[np.float64]:
    """The position of each row's unit among all rows, from 0 to below 1, when units are sorted by their hash."""
    names, unit_of, sizes = np.unique(np.array(units), return_inverse=True, return_counts=True)
    order = np.argsort(block_hashes(f"published {task.dataset.id}", names.tolist()), kind="stable")
    middle = np.empty(len(names))
    middle[order] = (np.cumsum(sizes[order]) - sizes[order] / 2) / len(units)
    return middle[unit_of]


def _leaks(train: Sequence[Example], test: Sequence[Example]) -> list[str]:
    """A warning for test rows that are training rows, or else for test groups that training has rows of."""
    ids = {row.id for row in train}
    if same := sum(row.id in ids for row in test):
        return [f"leak: {same} of {len(test)} test rows are training rows"]
    of_test = {row.group for row in test}
    shared = len(of_test & {row.group for row in train})
    return [f"leak: {shared} of {len(of_test)} test groups are in train"] if shared else []
