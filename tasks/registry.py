"""The registry: entry files, from TOML on disk to validated Task records, one per ``[[task]]`` table, and all of them.

The smallest entry has five fields:

    id = "support"
    files = ["replies.csv"]
    text = "reply"
    label = "level"
    kind = "ordinal"

``FIELDS`` are those of an entry, as the records that it fills declare them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from tasks.errors import BadEntry, UnknownTask
from tasks.fields import Field, Text, as_kind, check_table, written_fields
from tasks.plain_text import is_folder, is_inside, nearest, read_toml
from tasks.ratings import themes
from tasks.readers import READERS
from tasks.readers.rows import BESIDE, sets_of_files
from tasks.task import COMBINED, ID_PATTERN, Columns, Dataset, Download, Instruction, Label, Task, why_taken

OF_LABEL = {
    "label": Field(
        str | tuple[str, ...],
        "column of the label, or a list: of 0/1 columns (multilabel), or of annotators' columns (`combine`)",
    )
}
OF_DATASET = {
    "dataset": Field(str, "its id; default: the task's, or the file's name where it has `[[task]]` tables"),
    "dataset_title": Field(Text, "its name"),
}
SECTIONS = {  # of the reference
    "The task": written_fields(Task),
    "The label": OF_LABEL | written_fields(Label),
    "Columns, and how files are read": written_fields(Columns),
    "The data set": OF_DATASET | written_fields(Dataset),
}
MANDATORY = ("id", "files", "text", "label", "kind")
FIELDS = {
    name: replace(field, is_needed=name in MANDATORY) for fields in SECTIONS.values() for name, field in fields.items()
}
REFERENCE = {
    **{section: {name: FIELDS[name] for name in fields} for section, fields in SECTIONS.items()},
    "An instruction": written_fields(Instruction),
    "A download": written_fields(Download),
}


def tasks_of(file: Path) -> list[Task]:
    """Every task of one entry file, in file order; BadEntry says file, field and what is allowed instead.

    A file is one dataset: its ``[[task]]`` tables share what is written above them, and the file's name as dataset
    where none is written. Of an ``[instruction]`` a task may replace single fields by its ``[task.instruction]``.
    """
    table = read_toml(file, BadEntry)
    shared = {name: value for name, value in table.items() if name != "task"}
    if "task" in table:
        shared.setdefault("dataset", file.stem)
    tables = table.get("task", [{}])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise BadEntry(f"{file}: `task` must be a list of tables; write [[task]] above each task")
    untitled = sum("title" not in table for table in tables)
    if "title" in shared and untitled > 1:
        raise BadEntry(f"{file}: `title` above [[task]] would name {untitled} tasks alike; write one below each")
    tasks = []
    for table in tables:
        entry = shared | table
        parts = (shared.get("instruction"), table.get("instruction"))
        if all(isinstance(part, dict) for part in parts):
            entry["instruction"] = parts[0] | parts[1]
        tasks.append(_task_of(entry, str(file)))
    return tasks


def _task_of(entry: Mapping[str, Any], file: str) -> Task:
    """Build one task from its merged fields."""
    _check_fields(entry, file)
    name = entry.get("dataset", entry["id"])
    column, of_label = entry["label"], dict[str, Any]()
    if not isinstance(column, str):
        column, of_label = ", ".join(column), {"columns": tuple(column)}
    elif entry.get("annotator"):
        of_label = {"columns": (column,), "combine": COMBINED[entry["kind"]]}
    of_dataset = {"id": name, "title": entry.get("dataset_title", name), "family": name}
    try:
        task = Task(
            dataset=Dataset(**of_dataset | _values(Dataset, entry)),
            label=Label(column, **of_label | _values(Label, entry)),
            columns=cast(Columns, _values(Columns, entry)),
            entry_file=file,
            **{"title": entry["id"], "reader": "table"} | _values(Task, entry),
        )
    except BadEntry as error:
        raise BadEntry(f"{file}: task {entry['id']}: {error}") from None
    sets_of_files(task)
    return task


def _values(record: type, entry: Mapping[str, Any]) -> dict[str, Any]:
    """What an entry says of the fields of a record, lists as tuples and tables of records as these."""
    fields = written_fields(record)
    return {name: as_kind(value, fields[name].kind) for name, value in entry.items() if name in fields}


def _check_fields(entry: Mapping[str, Any], file: str) -> None:
    """Refuse unknown and missing fields, values that do not fit theirs, names that are taken and unknown readers."""
    is_named = isinstance(entry.get("id"), str) and ID_PATTERN.fullmatch(entry["id"])
    check_table(entry, FIELDS, BadEntry, f"{file}: task {entry['id']}" if is_named else file)
    missing = [name for name in MANDATORY if not entry.get(name)]
    if missing:
        raise BadEntry(f"{file}: {', '.join(missing)} missing; an entry needs at least {', '.join(MANDATORY)}")
    if reason := why_taken(entry["id"]):
        raise BadEntry(f"{file}: id {entry['id']!r} {reason}; call the task otherwise, say {entry['id']}_task")
    dataset = entry.get("dataset", "")
    if dataset and (not is_inside(dataset) or "/" in dataset):
        raise BadEntry(f"{file}: dataset {dataset!r} must be a plain name: files of split ids are called by it")
    folder = "below the data folder (--data), or beside the entry or its folder"
    for name in ("files", "fallback_files"):
        for path in entry.get(name, []):
            if not is_inside(path.removeprefix(BESIDE)):
                raise BadEntry(f"{file}: {name} {path!r} leads elsewhere; put the file {folder}")
    reader = entry.get("reader", "table")
    if reader not in READERS:
        raise BadEntry(f"{file}: unknown reader {reader!r}; the readers are {', '.join(sorted(READERS))}")


BUILT_IN = Path(__file__).with_name("entries")


@dataclass(frozen=True)
class Registry:
    """All known tasks by id, sorted."""

    tasks: Mapping[str, Task]

    @classmethod
    def load(cls, extra: Sequence[Path] = ()) -> Registry:
        """Read the built-in entries and every ``*.toml`` of the extra folders; BadEntry when two entries clash."""
        by_id: dict[str, Task] = {}
        for folder in (BUILT_IN, *extra):
            if not is_folder(folder):
                raise BadEntry(f"{folder}: not a folder; give the one that holds your .toml entries")
            for task in (task for file in sorted(folder.glob("*.toml")) for task in tasks_of(file)):
                if task.theme and task.theme not in themes():
                    raise BadEntry(
                        f"{task.entry_file}: task {task.id}: theme {task.theme!r} is not one of {', '.join(themes())}"
                    )
                if task.id in by_id:
                    raise BadEntry(
                        f"task {task.id!r} is in two entries, {by_id[task.id].entry_file} and {task.entry_file}; "
                        "rename one of them"
                    )
                by_id[task.id] = task
        return cls(_with_family_salts(dict(sorted(by_id.items()))))

    def task(self, id: str) -> Task:
        """Return the task with this id, or raise UnknownTask with the nearest name."""
        if id not in self.tasks:
            hint = nearest(id, self.tasks) or f"; known tasks: {', '.join(self.tasks)}"
            raise UnknownTask(f"no task {id!r}{hint}")
        return self.tasks[id]


def _with_family_salts(tasks: Mapping[str, Task]) -> dict[str, Task]:
    """Give the tasks of a family one split salt: the pinned one, else 0 when there is more than one task.

    Siblings share texts and people, so a block must fall in the same split for all of them; salts that are searched
    for by task would let one task's test rows into another's training.
    """
    families: dict[str, list[Task]] = {}
    for task in tasks.values():
        families.setdefault(task.dataset.family, []).append(task)
    salts: dict[str, int | None] = {}
    for name, family in families.items():
        # What siblings join that keep equal texts together, the others would divide.
        by_rule = {task.repeats: task for task in family}
        if len(by_rule) > 1:
            together, other = by_rule["together"], by_rule["drop"]
            raise BadEntry(
                f'family {name!r}: `repeats` is "together" for {together.id} in {together.entry_file} and not for '
                f"{other.id} in {other.entry_file}; siblings must be split alike, so write it for all or none"
            )
        pinned = {task.split_salt: task for task in family if task.split_salt is not None}
        if len(pinned) > 1:
            first, second = sorted(pinned.values(), key=lambda task: task.id)[:2]
            raise BadEntry(
                f"family {name!r} has two split salts: {first.split_salt} in {first.entry_file} and "
                f"{second.split_salt} in {second.entry_file}; siblings must be split alike, so keep one"
            )
        salts[name] = next(iter(pinned), 0 if len(family) > 1 else None)
    return {id: replace(task, split_salt=salts[task.dataset.family]) for id, task in tasks.items()}
