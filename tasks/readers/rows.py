"""What all readers share: a raw row, where files are, which columns an entry names, and the published sets of rows.

``split_files = { train = "a.csv", test = ["b.csv", "c.csv"] }`` names sets by their files, ``split_column = "part"`` by
a column; ``val``, ``valid`` and ``dev`` are the validation set.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from tasks.errors import BadEntry, BadRow, MissingData
from tasks.plain_text import is_folder, nearest
from tasks.task import Task, Turn

LONGEST_SHOWN = 40
BESIDE = "../"  # how the name of a file begins that lies beside the folder of its entry
MOST_LISTED = 6  # files of a folder


class RawRow(NamedTuple):
    """A row as it is in the file: ``where`` is its ``file:line``, and the label is still text.

    ``split`` names the published set that the file or a column of it puts the row in; empty where neither does.
    ``after`` holds the turns that follow the text, nearest first, as far as the file tells them. ``marks`` are the
    labels of several annotators, an empty one where an annotator gave none.
    """

    where: str
    id: str
    group: str
    block: str
    context: tuple[Turn, ...]
    text: str
    label: str
    rationale: tuple[str, ...] = ()
    split: str = ""
    after: tuple[Turn, ...] = ()
    marks: tuple[str, ...] = ()


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
        return [data_path(task, name, data) for name in task.columns.get("fallback_files", ())]
    how = task.dataset.access or "put the file there or correct `files` in the entry"
    more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
    raise MissingData(f"{task.id}: no file {missing[0]}{more}; {how}")


def refuse_folder(path: Path) -> None:
    """Refuse a folder, and say which of its files to name: one saved by the library `datasets` holds Arrow files."""
    if not is_folder(path):
        return
    names = sorted(file.relative_to(path).as_posix() for file in islice(path.rglob("*.arrow"), MOST_LISTED))
    hint = f"name its Arrow files: {', '.join(f'{path.name}/{name}' for name in names)}" if names else "name its files"
    raise BadEntry(f"{path}: a folder, not a file; {hint}")


def uses_fallback(task: Task, data: Path) -> bool:
    """Whether the task is read from its fallback files: they are all there, and its ``files`` are not."""
    fallback = task.columns.get("fallback_files", ())
    return bool(fallback) and bool(_absent(task, task.files, data)) and not _absent(task, fallback, data)


def data_path(task: Task, name: str, data: Path) -> Path:
    """Path of a file that an entry names: below ``data`` or, where it is not there, beside the entry or its folder.

    BadEntry for a link beside the entry that leads elsewhere: entries may come from others, a data folder does not.
    """
    home = Path(task.entry_file).parent
    path = home / name
    if not name.startswith(BESIDE) and ((data / name).is_file() or not (task.entry_file and path.is_file())):
        return data / name
    if not path.resolve().is_relative_to(home.resolve().parent):
        raise BadEntry(f"{path}: a link that leads elsewhere; put the file itself there, or below the data folder")
    return path


def _absent(task: Task, names: Iterable[str], data: Path) -> list[Path]:
    """Paths of the named files that are not there."""
    return [path for name in names if not (path := data_path(task, name, data)).is_file()]


def column_of(task: Task, role: str) -> str:
    """The raw column with a role (text, group, ...) in this task, or an empty string."""
    return str(task.columns.get(role, ""))


def kept_turns(history: str | int) -> slice:
    """The part of the earlier turns that a history keeps: none, the previous one, all, or so many last ones."""
    if isinstance(history, int):
        return slice(-history, None)
    return {"none": slice(0, 0), "previous": slice(-1, None), "all": slice(None)}[history]


def whole_number(where: str, column: str, cell: str) -> int:
    """A cell such as ``35`` or ``35.0`` as an int; BadRow otherwise."""
    with suppress(ValueError, OverflowError):
        value = float(cell)
        if value == int(value):
            return int(value)
    raise BadRow(f"{where}: {column} {quote(cell)} is not a whole number")


def required_column(task: Task, name: str) -> str:
    """Like ``column_of``, but BadEntry when the entry does not name it."""
    if name not in task.columns:
        raise BadEntry(f"{task.entry_file}: reader {task.reader!r} needs `{name}`; add it to the entry")
    return column_of(task, name)


def quote(value: str) -> str:
    """A value as it is quoted in a message; a long one could be raw text and is not repeated."""
    return repr(value) if len(value) <= LONGEST_SHOWN else f"({len(value)} characters)"


SETS = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("val", "valid", "validation", "dev"), "validation"),
    "test": "test",
}


def sets_of_files(task: Task) -> Sequence[str]:
    """The set of each of the task's files, empty without ``split_files``; BadEntry where they do not fit ``files``."""
    table = task.columns.get("split_files")
    if table is None:
        return [""] * len(task.files)
    if task.columns.get("split_column"):
        raise BadEntry(f"{task.entry_file}: `split_files` and `split_column` both name sets; keep one of them")
    sets = ", ".join(SETS)
    named: dict[object, str] = {}
    for name, files in table.items():
        if name not in SETS:
            raise BadEntry(f"{task.entry_file}: `split_files.{name}` is no set{nearest(name, SETS)}; sets are {sets}")
        for file in files if isinstance(files, list | tuple) else [files]:
            if file not in task.files:
                raise BadEntry(f"{task.entry_file}: `split_files.{name}` {file!r} is not one of `files`")
            if named.setdefault(file, SETS[name]) != SETS[name]:
                raise BadEntry(f"{task.entry_file}: `split_files` puts {file!r} into two sets")
    missing = [file for file in task.files if file not in named]
    if missing:
        raise BadEntry(f"{task.entry_file}: `split_files` names no set for {missing[0]!r}; sets are {sets}")
    return [named[file] for file in task.files]


def set_of_cell(task: Task, where: str, cell: str) -> str:
    """The set that a cell of ``split_column`` names, in upper or lower case; an empty cell names none; else BadRow."""
    name = cell.strip().casefold()
    if name and name not in SETS:
        cell = f"{column_of(task, 'split_column')} {quote(cell.strip())}"
        raise BadRow(f"{where}: {cell} is no set; sets are {', '.join(SETS)}, or empty for none")
    return SETS.get(name, "")
