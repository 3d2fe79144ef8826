"""What all readers share: where files are, and how a raw row becomes a checked example."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from tasks.errors import BadEntry, BadRow, MissingData
from tasks.task import Answer, Example, Label, Task, Turn
from tasks.toml_file import is_folder

LONGEST_SHOWN = 40
BESIDE = "../"  # how the name of a file begins that lies beside the folder of its entry
MOST_LISTED = 6  # files of a folder
UNIT = "\x1f"  # between the class names of a row whose classes are columns
TRUTH = {"1": True, "1.0": True, "true": True, "0": False, "0.0": False, "false": False}


class RawRow(NamedTuple):
    """One row as a reader found it: ``where`` is its ``file:line``, the label is still text."""

    where: str
    id: str
    group: str
    block: str
    context: tuple[Turn, ...]
    text: str
    label: str
    rationale: tuple[str, ...] = ()


def data_files(task: Task, data: Path) -> list[Path]:
    """Paths of the task's files below ``data``, or of its fallback files where those are not all there.

    MissingData names the first that is absent and how to get it.
    """
    missing = _absent(task, task.files, data)
    for path in missing:
        refuse_folder(path)
    if not missing:
        return [data_path(task, name, data) for name in task.files]
    if uses_fallback(task, data):
        return [data_path(task, name, data) for name in column_names(task, "fallback_files")]
    how = task.dataset.access or "put the file there or correct `files` in the entry"
    more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
    raise MissingData(f"{task.id}: no file {missing[0]}{more}; {how}")


def refuse_folder(path: Path) -> None:
    """Say which files of a folder to name: one that the library `datasets` has saved holds Arrow files."""
    if not is_folder(path):
        return
    names = sorted(file.relative_to(path).as_posix() for file in islice(path.rglob("*.arrow"), MOST_LISTED))
    what = f"name its Arrow files: {', '.join(f'{path.name}/{name}' for name in names)}" if names else "name its files"
    raise BadEntry(f"{path}: a folder, not a file; {what}")


def uses_fallback(task: Task, data: Path) -> bool:
    """Whether the task is read from its fallback files: they are all there, and its ``files`` are not."""
    fallback = column_names(task, "fallback_files")
    return bool(fallback) and bool(_absent(task, task.files, data)) and not _absent(task, fallback, data)


def data_path(task: Task, name: str, data: Path) -> Path:
    """Path of a file that an entry names: below ``data`` or, where it is not there, beside the entry or its folder.

    BadEntry for a link beside the entry that leads elsewhere: entries are handed round, data folders are one's own.
    """
    home = Path(task.entry_file).parent
    beside = home / name
    if not name.startswith(BESIDE) and ((data / name).is_file() or not (task.entry_file and beside.is_file())):
        return data / name
    if not beside.resolve().is_relative_to(home.resolve().parent):
        raise BadEntry(f"{beside}: a link that leads elsewhere; put the file itself there, or below the data folder")
    return beside


def _absent(task: Task, names: Iterable[str], data: Path) -> list[Path]:
    """Paths of the named files that are not there."""
    return [path for name in names if not (path := data_path(task, name, data)).is_file()]


def column_name(task: Task, name: str) -> str:
    """Return the raw column that plays a part (text, group, ...) in this task, or an empty string."""
    return str(task.columns.get(name, ""))


def column_names(task: Task, name: str) -> tuple[str, ...]:
    """Return the entry's list of that name; an empty one when it gives none."""
    value = task.columns.get(name)
    return tuple(str(item) for item in value) if isinstance(value, tuple) else ()


def relabelled(task: Task, rows: Iterable[RawRow]) -> Iterator[RawRow]:
    """Yield the rows with the labels that the entry's ``relabel`` asks for, less those in ``drop_labels``.

    A label that ``relabel`` does not list becomes ``relabel_rest``, or stays as it is where the entry has none.
    """
    given = task.columns.get("relabel")
    table = {str(old): str(new) for old, new in given.items()} if isinstance(given, Mapping) else {}
    rest, dropped = column_name(task, "relabel_rest"), column_names(task, "drop_labels")
    for row in rows:
        if row.label not in dropped:
            label = table.get(row.label, rest or row.label)
            yield row if label is row.label else row._replace(label=label)


def examples(task: Task, rows: Iterable[RawRow]) -> tuple[list[Example], int]:
    """Checked examples of a task whose classes are known, and how many rows without a text were left out.

    BadRow for a bad label, a repeated id, or an empty text unless the entry says ``skip_empty``.
    """
    answer, kept = _answers(task.label), kept_turns(task.history)
    first: dict[str, str] = {}
    found, skipped = [], 0
    for row in rows:
        if not row.text.strip():
            if not task.columns.get("skip_empty"):
                raise BadRow(f"{row.where}: the text is empty; mend the row, or set `skip_empty = true` in the entry")
            skipped += 1
            continue
        if not (row.id and row.group and row.block):
            raise BadRow(f"{row.where}: the row's id, group or block is empty; fill it in")
        if first.setdefault(row.id, row.where) is not row.where:
            id = "the row's id" if task.dataset.private else f"id {shown(row.id)}"
            raise BadRow(f"{row.where}: {id} was used at {first[row.id]}; make ids unique")
        found.append(Example(row.id, row.group, row.block, row.context[kept], row.text, answer(row), row.rationale))
    return found, skipped


def _answers(label: Label) -> Callable[[RawRow], Answer]:
    """The function that turns the text of a row's label into a number, or into one 0 or 1 per class."""
    indices = {name: index for index, name in enumerate(label.classes)}
    if label.kind == "continuous":
        return partial(_number, label)
    if label.kind == "multilabel":
        return partial(_members, label, indices)
    return partial(_index, label, indices)


def _members(label: Label, indices: Mapping[str, int], row: RawRow) -> tuple[int, ...]:
    """One 0 or 1 per class of a multilabel row."""
    named = {_index(label, indices, row._replace(label=name)) for name in class_names(label, row.label)}
    return tuple(int(index in named) for index in range(len(indices)))


def class_names(label: Label, text: str) -> list[str]:
    """Class names in the label of a raw row: one, or for a multilabel label any number; an empty text has none."""
    names = text.split(label.separator or UNIT) if label.kind == "multilabel" else [text]
    return [name.strip() for name in names if name.strip()]


def label_text(label: Label, where: str, cells: Sequence[str]) -> str:
    """The label of a raw row: its cell, or the names of the classes whose 0/1 columns hold a 1; BadRow otherwise."""
    if not label.columns:
        return cells[0].strip()
    for column, cell in zip(label.columns, cells, strict=True):
        if cell.strip().lower() not in TRUTH:
            raise BadRow(f"{where}: {column} {shown(cell)} is neither 0 nor 1; mend the row")
    return UNIT.join(name for name, cell in zip(label.classes, cells, strict=True) if TRUTH[cell.strip().lower()])


def kept_turns(history: str | int) -> slice:
    """The part of the earlier turns that a history keeps: none, the previous one, all, or so many last ones."""
    if isinstance(history, int):
        return slice(-history, None)
    return {"none": slice(0, 0), "previous": slice(-1, None), "all": slice(None)}[history]


def _index(label: Label, indices: Mapping[str, int], row: RawRow) -> int:
    """Index of the row's class; BadRow lists the classes when it is none of them."""
    if row.label not in indices:
        raise BadRow(f"{row.where}: {label.column} {shown(row.label)} is not one of {', '.join(label.classes)}")
    return indices[row.label]


def _number(label: Label, row: RawRow) -> float:
    """Value of a continuous label; BadRow when it is no finite number or outside the declared range."""
    try:
        value = float(row.label)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise BadRow(f"{row.where}: {label.column} {shown(row.label)} is not a number; mend or remove the row")
    low = -math.inf if label.minimum is None else label.minimum
    high = math.inf if label.maximum is None else label.maximum
    if not low <= value <= high:
        raise BadRow(f"{row.where}: {label.column} {value} is outside {low} to {high}; mend the row or the entry")
    return value


def whole_number(where: str, column: str, cell: str) -> int:
    """Return a cell such as ``35`` or ``35.0`` as an int; BadRow otherwise."""
    try:
        value = float(cell)
        if value != int(value):
            raise ValueError
    except (ValueError, OverflowError):
        raise BadRow(f"{where}: {column} {shown(cell)} is not a whole number") from None
    return int(value)


def required_column(task: Task, name: str) -> str:
    """Like column_name, but BadEntry when the entry does not name it."""
    if name not in task.columns:
        raise BadEntry(f"{task.entry_file}: reader {task.reader!r} needs `{name}`; add it to the entry")
    return column_name(task, name)


def shown(value: str) -> str:
    """Return a value for a message; a long one could be raw text and is not repeated."""
    return repr(value) if len(value) <= LONGEST_SHOWN else f"({len(value)} characters)"
