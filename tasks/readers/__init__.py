"""From raw files to examples: each reader knows the format of some datasets, and all give the same rows.

A reader is a function of the task and the data folder that yields a ``RawRow`` for every row and may return notes on
what it left out; the entry names it. What follows is the same for all: labels are renamed or combined, classes filled
in, and every row is checked.

    task, rows, notes = read_task(registry.task("support"), Path("data"))
    rows[0].text, task.label.classes[rows[0].label]
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from tasks.errors import BadRow
from tasks.plain_text import counted
from tasks.readers.esconv import esconv
from tasks.readers.labels import Annotators, class_names, examples, names_in_list, relabel, spelling_note, unread
from tasks.readers.published import (
    empathetic_intents,
    empathetic_pairs,
    motivational,
    parlai,
    questions,
    wassa_essays,
    wassa_turns,
)
from tasks.readers.rows import RawRow, uses_fallback
from tasks.readers.table import aligned, joined, numbered, table
from tasks.readers.turns import turns
from tasks.task import COMBINED, Example, Task

MOST_CLASSES = 100
NO_TEXT = ("nan", "n/a", "#n/a", "<na>", "null", "nat")
CONTROL, ROUNDED = re.compile(r"[\x80-\x9f]"), re.compile(r"\b[0-9]([.,][0-9]+)?E\+[0-9]+$", re.IGNORECASE)
NEXT_STEP = "name the `classes` in the entry or change `kind`"

READERS: Mapping[str, Callable[[Task, Path], Iterable[RawRow]]] = {
    "table": table,
    "turns": turns,
    "joined": joined,
    "aligned": aligned,
    "numbered": numbered,
    "wassa_essays": wassa_essays,
    "wassa_turns": wassa_turns,
    "empathetic_intents": empathetic_intents,
    "empathetic_pairs": empathetic_pairs,
    "questions": questions,
    "motivational": motivational,
    "esconv": esconv,
    "parlai": parlai,
}


class TaskRows(NamedTuple):
    """What a task's files hold: the task with its classes known, its examples, and notes for people."""

    task: Task
    rows: list[Example]
    notes: tuple[str, ...]


def read_task(task: Task, data: Path) -> TaskRows:
    """Every example of the task from the files below ``data``, in file order; MissingData or BadRow if it cannot."""
    notes, of_reader, read = list[str](), list[str](), Counter[str]()
    rows, annotators = noted(READERS[task.reader](task, data), of_reader), None
    if task.label.combine in COMBINED.values():
        annotators = Annotators(task)
        rows = annotators.combine(rows)
    else:
        rows = relabel(task, rows, read)
    if not task.label.is_complete:
        kept = list(rows)
        notes += filter(None, [spelling_note(task.label, kept)])
        task = _fill_classes(task, kept)
        if gaps := [name for name in task.label.classes if name.casefold() in ("na", *NO_TEXT)]:
            notes.append(f"the class {gaps[0]!r} may mean that there is no label; then name it in `drop_labels`")
        rows = _consumed(kept)
    checked, skipped = examples(task, rows)
    if uses_fallback(task, data):
        fallback = ", ".join(task.columns.get("fallback_files", ()))
        notes.append(f"read from {fallback}: {', '.join(task.files)} not there")
    if skipped:
        notes.append(f"{skipped} of {skipped + len(checked)} rows have no text; left out")
    if read[""] and "" in task.columns.get("drop_labels", ()):
        notes.append(f"{read['']} of {read[''] + len(checked)} rows have no label; left out by `drop_labels`")
    notes += [*of_reader, *_doubts(task, checked)]
    if annotators:
        notes += annotators.notes(task.label.classes)
    elif read:
        notes += unread(task, read)
    return TaskRows(task, checked, tuple(notes))


def _doubts(task: Task, rows: Sequence[Example]) -> Iterator[str]:
    """Notes on texts that stand for none or are no prose, and on names of groups that a program has written anew."""
    texts, earlier = [row.text for row in rows], (turn.text for row in rows for turn in row.context)
    none = [sum(len(text) <= 4 and text.casefold() in NO_TEXT for text in each) for each in (texts, earlier)]
    if any(none):
        both = f"{counted(none[0], 'text')} and {counted(none[1], 'earlier turn')}"
        yield f"{both} read 'nan' or the like; if there is none, empty these cells"
    for what, each in (("text", texts), ("context", [row.context[0].text for row in rows if len(row.context) == 1])):
        if each and all(names_in_list(text.strip()) for text in each[:MOST_CLASSES]):
            yield f"each {what} is a list as Python or JSON writes it, and is read with its marks"
    is_latin = task.columns.get("encoding", "").lower() in ("latin-1", "latin1", "iso-8859-1")
    if is_latin and (odd := sum(CONTROL.search(text) is not None for text in texts)):
        yield f'{counted(odd, "text")} with control characters, as of another encoding; try encoding = "cp1252"'
    is_tsv = any(".tsv" in name for name in task.files)
    if is_tsv and (swallowed := sum("\t" in text and "\n" in text for text in texts)):
        which = f"{counted(swallowed, 'text')} with tabs and ends of lines"
        yield f'{which}, as where a quote that is a letter opens a cell; then write escape = "none"'
    names = {name for row in rows for name in (row.group, row.block)}
    if rounded := sum(ROUNDED.search(name) is not None for name in names):
        yield f"{counted(rounded, 'group')} as a spreadsheet rounds numbers (1.2E+17): several may be called alike"
    if twice := sum(name.endswith(".0") and name[:-2] in names for name in names):
        yield f"{counted(twice, 'group')} with and without .0 (12, 12.0), which are different groups; write them alike"


def _consumed(rows: list[RawRow]) -> Iterator[RawRow]:
    """Yield the rows and forget each, so that they and what is made of them do not fill the memory together."""
    rows.reverse()
    while rows:
        yield rows.pop()


def noted(rows: Iterable[RawRow], notes: list[str]) -> Iterator[RawRow]:
    """Yield a reader's rows, and keep the notes that it returns after the last."""
    notes += (yield from rows) or ()  # type: ignore[func-returns-value]  # some return a list


def read(task: Task, data: Path) -> list[Example]:
    """Every example of the task from the files below ``data``, in file order; MissingData or BadRow if it cannot."""
    return read_task(task, data).rows


def _fill_classes(task: Task, rows: Sequence[RawRow]) -> Task:
    """The task with the distinct labels of its rows as classes; BadRow where they are too few or too many."""
    values = {name for row in rows for name in class_names(task.label, row.label)}
    most = 2 if task.label.kind == "binary" else MOST_CLASSES
    if not 2 <= len(values) <= most:
        raise BadRow(
            f"{task.files[0]}: task {task.id}: column {task.label.column!r} has {len(values)} distinct labels, which "
            f"suits no {task.label.kind} label; {spelling_note(task.label, rows) or NEXT_STEP}"
        )
    try:  # by name, or by number for an ordinal label, whose order matters
        classes = tuple(sorted(values, key=float if task.label.kind == "ordinal" else str))
    except ValueError:
        raise BadRow(
            f"{task.files[0]}: task {task.id}: the order of the labels in column {task.label.column!r} is not known, "
            "because they are no numbers; name the `classes` in the entry, lowest first"
        ) from None
    return replace(task, label=replace(task.label, classes=classes))
