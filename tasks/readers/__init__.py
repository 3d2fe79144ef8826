"""Raw files -> examples: each reader knows one format and answers the same question for every dataset."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from tasks.errors import BadRow
from tasks.readers.chats import motivational, parlai
from tasks.readers.empathetic import empathetic_intents, empathetic_pairs
from tasks.readers.esconv import esconv
from tasks.readers.joined import joined
from tasks.readers.questions import questions
from tasks.readers.rows import RawRow, class_names, column_names, examples, relabelled, uses_fallback
from tasks.readers.table import table
from tasks.readers.wassa import wassa_essays, wassa_turns
from tasks.task import Example, Task

MOST_FOUND_CLASSES = 100

READERS: Mapping[str, Callable[[Task, Path], Iterable[RawRow]]] = {
    "table": table,
    "joined": joined,
    "wassa_essays": wassa_essays,
    "wassa_turns": wassa_turns,
    "empathetic_intents": empathetic_intents,
    "empathetic_pairs": empathetic_pairs,
    "questions": questions,
    "motivational": motivational,
    "esconv": esconv,
    "parlai": parlai,
}


class Found(NamedTuple):
    """What a task's files hold: the task with its classes known, its examples, and what a reader should know."""

    task: Task
    rows: list[Example]
    notes: tuple[str, ...]


def found(task: Task, data: Path) -> Found:
    """Every example of the task from the files below ``data``, in file order; MissingData or BadRow if it cannot."""
    raw_rows: Iterable[RawRow] = relabelled(task, READERS[task.reader](task, data))
    if not task.label.is_complete:
        raw_rows = list(raw_rows)
        task = _with_classes(task, raw_rows)
    rows, skipped = examples(task, raw_rows)
    notes = []
    if uses_fallback(task, data):
        notes.append(f"read from {', '.join(column_names(task, 'fallback_files'))}: {', '.join(task.files)} not there")
    if skipped:
        notes.append(f"{skipped} of {skipped + len(rows)} rows have no text; left out")
    return Found(task, rows, tuple(notes))


def read(task: Task, data: Path) -> list[Example]:
    """Every example of the task from the files below ``data``, in file order; MissingData or BadRow if it cannot."""
    return found(task, data).rows


def resolved(task: Task, data: Path) -> Task:
    """Return the task with its classes filled in: the sorted distinct labels, where the entry names none."""
    if task.label.is_complete:
        return task
    return _with_classes(task, relabelled(task, READERS[task.reader](task, data)))


def _with_classes(task: Task, rows: Iterable[RawRow]) -> Task:
    """The task with the distinct labels of its rows as classes; BadRow where they are too few or too many."""
    values = {name for row in rows for name in class_names(task.label, row.label)}
    most = 2 if task.label.kind == "binary" else MOST_FOUND_CLASSES
    if not 2 <= len(values) <= most:
        raise BadRow(
            f"{task.files[0]}: task {task.id}: column {task.label.column!r} has {len(values)} distinct labels, which "
            f"suits no {task.label.kind} label; name the `classes` in the entry or change `kind`"
        )
    return replace(task, label=replace(task.label, classes=_in_order(task, values)))


def _in_order(task: Task, values: Collection[str]) -> tuple[str, ...]:
    """Classes in the order of their index: by name, or by number for an ordinal label, whose order matters."""
    if task.label.kind != "ordinal":
        return tuple(sorted(values))
    try:
        return tuple(sorted(values, key=float))
    except ValueError:
        raise BadRow(
            f"{task.files[0]}: task {task.id}: the order of the labels in column {task.label.column!r} is not known, "
            "because they are no numbers; name the `classes` in the entry, lowest first"
        ) from None
