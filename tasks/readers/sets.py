"""Published sets that the data themselves name: by a file for each, or by a column.

``split_files = { train = "a.csv", test = ["b.csv", "c.csv"] }`` does the former, ``split_column = "part"`` the latter;
``val``, ``valid`` and ``dev`` are the validation set.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tasks.errors import BadEntry, BadRow
from tasks.plain_text import nearest
from tasks.readers.rows import column_name, quote
from tasks.task import Task

SETS = {
    "train": "train",
    "training": "train",
    "val": "validation",
    "valid": "validation",
    "validation": "validation",
    "dev": "validation",
    "test": "test",
}


def sets_of_files(task: Task) -> Sequence[str]:
    """The set of each of the task's files, empty without ``split_files``; BadEntry where they do not fit ``files``."""
    table = task.columns.get("split_files")
    if not isinstance(table, Mapping):
        return [""] * len(task.files)
    if column_name(task, "split_column"):
        raise BadEntry(f"{task.entry_file}: `split_files` and `split_column` both name sets; keep one of them")
    named: dict[object, str] = {}
    for name, file in _files_of(task, table):
        if file not in task.files:
            raise BadEntry(f"{task.entry_file}: `split_files.{name}` {file!r} is not one of `files`")
        if named.setdefault(file, SETS[name]) != SETS[name]:
            raise BadEntry(f"{task.entry_file}: `split_files` puts {file!r} into two sets")
    missing = [file for file in task.files if file not in named]
    if missing:
        raise BadEntry(f"{task.entry_file}: `split_files` names no set for {missing[0]!r}; sets are {_names()}")
    return [named[file] for file in task.files]


def _files_of(task: Task, table: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """Yield each set that the table names with each of its files; BadEntry for what is no set."""
    for name, files in table.items():
        if name not in SETS:
            raise BadEntry(
                f"{task.entry_file}: `split_files.{name}` is no set{nearest(name, SETS)}; sets are {_names()}"
            )
        for file in files if isinstance(files, list | tuple) else [files]:
            yield name, file


def set_of_cell(task: Task, where: str, cell: str) -> str:
    """The set that a cell of ``split_column`` names, in upper or lower case; an empty cell names none; else BadRow."""
    name = cell.strip().casefold()
    if name and name not in SETS:
        column = column_name(task, "split_column")
        raise BadRow(f"{where}: {column} {quote(cell.strip())} is no set; sets are {_names()}, or empty for none")
    return SETS.get(name, "")


def _names() -> str:
    return ", ".join(SETS)
