"""An entry file: TOML on disk -> validated Task records, one per ``[[task]]`` table."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import GenericAlias, UnionType
from typing import Any

from tasks.errors import BadEntry
from tasks.names import why_taken
from tasks.plain_text import commanding
from tasks.readers import READERS
from tasks.readers.rows import BESIDE
from tasks.readers.sets import sets_of_files
from tasks.task import Dataset, Download, Label, Task
from tasks.toml_file import is_inside, nearest, read_toml

FieldType = type | UnionType | GenericAlias
TEXT_OR_LIST: FieldType = str | list
TEXT_OR_NUMBER: FieldType = str | int
TABLES: FieldType = list[dict[str, object]]

DATASET_FIELDS: Mapping[str, FieldType] = {
    "family": str,
    "version": str,
    "data_source": str,
    "language": str,
    "setting": str,
    "licence": str,
    "citation": str,
    "url": str,
    "access": str,
    "private": bool,
    "downloads": TABLES,
    "published": dict,
    "checksums": dict,
}
LABEL_FIELDS: Mapping[str, FieldType] = {
    "kind": str,
    "classes": list,
    "names": list,
    "minimum": float,
    "maximum": float,
    "separator": str,
    "combine": str,
    "decimal": str,
}
COLUMN_FIELDS: Mapping[str, FieldType] = {
    "text": str,
    "context": str,
    "group": str,
    "block": str,
    "row_id": str,
    "rationale": str,
    "encoding": str,
    "delimiter": str,
    "escape": str,
    "unique_by": list,
    "fallback_files": list,
    "relabel": dict,
    "relabel_rest": str,
    "drop_labels": list,
    "label_sources": list,
    "split_column": str,
    "split_files": dict,
    "skip_empty": bool,
}
TASK_FIELDS: Mapping[str, FieldType] = {
    "id": str,
    "title": str,
    "files": list,
    "reader": str,
    "description": str,
    "theme": str,
    "metric": str,
    "role": str,
    "history": TEXT_OR_NUMBER,
    "truncation": str,
    "tags": str,
    "class_weights": str,
    "split": str,
    "repeats": str,
    "training": dict,
    "split_salt": int,
}
NAME_FIELDS: Mapping[str, FieldType] = {"label": TEXT_OR_LIST, "dataset": str, "dataset_title": str}
FIELDS: Mapping[str, FieldType] = {
    **NAME_FIELDS,
    **DATASET_FIELDS,
    **LABEL_FIELDS,
    **COLUMN_FIELDS,
    **TASK_FIELDS,
}
MANDATORY = ("id", "files", "text", "label", "kind")
TYPE_NAMES: Mapping[FieldType, str] = {
    str: "a string",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    list: "a list of strings",
    dict: "a table",
    TEXT_OR_LIST: "a string or a list of strings",
    TEXT_OR_NUMBER: "a string or a whole number",
    TABLES: "a list of tables",
}
DOWNLOAD_FIELDS: Mapping[str, FieldType] = {
    "url": str,
    "path": str,
    "sha256": str,
    "bytes": int,
    "git_blob": str,
    "archive_member": str,
}
SAID = (  # to people, on terminals, in figures and on pages
    *("title", "description", "names", "theme", "dataset_title", "family", "language", "setting", "data_source"),
    *("licence", "access", "version", "url", "citation"),
)
ID_PATTERN = re.compile(r"[a-z0-9_]{1,100}")


def tasks_of(file: Path) -> list[Task]:
    """Every task of one entry file, in file order; BadEntry says file, field and what is allowed instead.

    A file is one dataset: its ``[[task]]`` tables share the file's name as dataset where they give none.
    """
    table = read_toml(file, BadEntry)
    shared = {name: value for name, value in table.items() if name != "task"}
    if "task" in table:
        shared.setdefault("dataset", file.stem)
    own = table.get("task", [{}])
    if not isinstance(own, list) or not all(isinstance(one, dict) for one in own):
        raise BadEntry(f"{file}: `task` must be a list of tables; write [[task]] above each task")
    untitled = sum("title" not in table for table in own)
    if "title" in shared and untitled > 1:
        raise BadEntry(f"{file}: `title` above [[task]] would name {untitled} tasks alike; write one below each")
    return [_task(shared | one, str(file)) for one in own]


def _task(entry: Mapping[str, Any], file: str) -> Task:
    """Build one task from its merged fields."""
    _check_fields(entry, file)
    try:
        task = Task(
            dataset=_dataset(entry),
            label=_label(entry),
            columns=_picked(entry, COLUMN_FIELDS),
            entry_file=file,
            **{"title": entry["id"], "reader": "table"} | _picked(entry, TASK_FIELDS),
        )
    except BadEntry as error:
        raise BadEntry(f"{file}: task {entry['id']}: {error}") from None
    sets_of_files(task)
    return task


def _label(entry: Mapping[str, Any]) -> Label:
    """The label of one column, or of a list of 0/1 columns."""
    columns = entry["label"]
    given = _picked(entry, LABEL_FIELDS)
    if isinstance(columns, str):
        return Label(column=columns, **given)
    return Label(column=", ".join(columns), columns=tuple(columns), **given)


def _dataset(entry: Mapping[str, Any]) -> Dataset:
    """Fill the dataset's record; id, title and family fall back on the task's id."""
    name = entry.get("dataset", entry["id"])
    given = {"family": name} | _picked(entry, DATASET_FIELDS)
    given["downloads"] = tuple(_download(one) for one in given.get("downloads", ()))
    return Dataset(id=name, title=entry.get("dataset_title", name), **given)


def _download(table: Mapping[str, Any]) -> Download:
    """One download; BadEntry for an unknown, missing or wrongly typed field of its table."""
    for name, value in table.items():
        if name not in DOWNLOAD_FIELDS:
            raise BadEntry(f"unknown field `downloads.{name}`{nearest(name, DOWNLOAD_FIELDS)}")
        if not _fits(value, DOWNLOAD_FIELDS[name]):
            raise BadEntry(f"`downloads.{name}` must be {TYPE_NAMES[DOWNLOAD_FIELDS[name]]}, got {value!r}")
    if not (table.get("url") and table.get("path")):
        raise BadEntry("a download needs `url` and `path`")
    return Download(**table)


def _picked(entry: Mapping[str, Any], fields: Mapping[str, FieldType]) -> dict[str, Any]:
    """Return the fields of one record, with lists as tuples so that records stay immutable."""
    return {
        name: tuple(entry[name]) if isinstance(entry[name], list) else entry[name] for name in fields if name in entry
    }


def _check_fields(entry: Mapping[str, Any], file: str) -> None:
    """Refuse unknown and missing fields, values of the wrong type, odd ids and unknown readers."""
    for name, value in entry.items():
        if name not in FIELDS:
            raise BadEntry(f"{file}: unknown field `{name}`{nearest(name, FIELDS)}")
        if not _fits(value, FIELDS[name]):
            raise BadEntry(f"{file}: `{name}` must be {TYPE_NAMES[FIELDS[name]]}, got {value!r}")
    _check_texts(entry, file)
    missing = [f"`{name}`" for name in MANDATORY if not entry.get(name)]
    if missing:
        raise BadEntry(f"{file}: {', '.join(missing)} missing; an entry needs at least {', '.join(MANDATORY)}")
    if not ID_PATTERN.fullmatch(entry["id"]):
        raise BadEntry(f"{file}: id {entry['id']!r} may hold only small letters, digits and _, at most 100")
    if reason := why_taken(entry["id"]):
        raise BadEntry(f"{file}: id {entry['id']!r} {reason}; call the task otherwise, say {entry['id']}_task")
    _check_paths(entry, file)
    reader = entry.get("reader", "table")
    if reader not in READERS:
        raise BadEntry(f"{file}: unknown reader {reader!r}; the readers are {', '.join(sorted(READERS))}")


def _check_texts(entry: Mapping[str, Any], file: str) -> None:
    """Refuse texts for people that would command a terminal or turn what follows them round."""
    for name in SAID:
        text = entry.get(name, "")
        if letter := commanding("".join(map(str, text)) if isinstance(text, list) else str(text)):
            raise BadEntry(f"{file}: `{name}` has the control character {letter}; remove it")


def _check_paths(entry: Mapping[str, Any], file: str) -> None:
    """Refuse names of files that lead elsewhere than below the data folder, or beside the entry or its folder."""
    dataset = entry.get("dataset", "")
    if dataset and (not is_inside(dataset) or "/" in dataset):
        raise BadEntry(f"{file}: dataset {dataset!r} must be a plain name: files of split ids are called by it")
    for name in ("files", "fallback_files"):
        for path in entry.get(name, []):
            if not is_inside(path.removeprefix(BESIDE)):
                place = "below the data folder (--data), or beside the entry or its folder"
                raise BadEntry(f"{file}: `{name}` {path!r} leads elsewhere; put the file {place}")


def _fits(value: object, kind: FieldType) -> bool:
    """Whether a TOML value has the type that its field asks for."""
    if kind == TEXT_OR_LIST:
        return _fits(value, str) or _fits(value, list)
    if kind == TEXT_OR_NUMBER:
        return _fits(value, str) or _fits(value, int)
    if kind == TABLES:
        return isinstance(value, list) and all(isinstance(item, dict) for item in value)
    if kind is list:
        return isinstance(value, list) and all(isinstance(item, str) for item in value)
    if kind in (int, float):
        return isinstance(value, int if kind is int else (int, float)) and not isinstance(value, bool)
    return isinstance(value, kind if isinstance(kind, type) else ())
