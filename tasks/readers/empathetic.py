"""Readers for EmpatheticDialogues in the form of EmpatheticIntents: one CSV per grounding emotion.

Columns are Dialog_ID, Type (situation or utterance), Actor (none, speaker or listener), Text and Label; the
emotion is the file's name. A dialogue's rows follow one another in order.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import groupby
from pathlib import Path

from tasks.errors import BadRow
from tasks.readers.formats.cells import Raw
from tasks.readers.raw import CACHED_FILES, read_raw
from tasks.readers.rows import RawRow, data_files, required_column
from tasks.task import Task, Turn

EMOTION = "emotion"
ACTORS = ("speaker", "listener")


def empathetic_intents(task: Task, data: Path) -> list[RawRow]:
    """Utterances of either person whose label is one of the task's classes; context is every earlier turn."""
    classes = task.label.classes
    return [row for row in _turns(task, data) if not classes or row.label in classes]


def empathetic_pairs(task: Task, data: Path) -> list[RawRow]:
    """Every turn from the second of its dialogue on; the label is a column's, or the grounding ``emotion``."""
    return [row for row in _turns(task, data) if row.context]


def _turns(task: Task, data: Path) -> Iterator[RawRow]:
    """Yield every utterance of every file, dialogue by dialogue, with all earlier turns as context."""
    dialogue, text = required_column(task, "group"), required_column(task, "text")
    for path in data_files(task, data):
        raw = read_raw(path)
        label = None if task.label.column == EMOTION else raw.column(task.label.column)
        for i, row in _utterances(raw, dialogue, text):
            yield RawRow(*row[:6], raw.path.stem if label is None else raw.rows[i][label])


@lru_cache(maxsize=CACHED_FILES)
def _utterances(raw: Raw, dialogue: str, text: str) -> list[tuple[int, RawRow]]:
    """One file's utterances still without a label, each with its row in the file: the same for every task.

    They are named by dialogue and turn (counted from 1); situations are no turns.
    """
    dialogue_at, kind, actor, text_at = (raw.column(name) for name in (dialogue, "Type", "Actor", text))
    found = []
    for id, indices in groupby(range(len(raw.rows)), key=lambda i: raw.rows[i][dialogue_at]):
        context: tuple[Turn, ...] = ()
        for i in indices:
            cells = raw.rows[i]
            if cells[kind] != "utterance":
                continue
            if cells[actor] not in ACTORS:
                raise BadRow(f"{raw.where(i)}: Actor of an utterance must be {' or '.join(ACTORS)}; mend the row")
            found.append((i, RawRow(raw.where(i), f"{id}:{len(context) + 1}", id, id, context, cells[text_at], "")))
            context = (*context, Turn(cells[actor], cells[text_at]))
    return found
