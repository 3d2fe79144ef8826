"""Readers for the files of the WASSA 2023 shared task: labelled train, unlabelled dev, headerless gold.

Essays and conversations are about news articles. The rows of dev and gold belong together by their number: row 3 of
the gold file is the empathy, distress and emotion of row 3 of dev.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from tasks.errors import BadEntry, BadRow
from tasks.readers.raw import read_raw
from tasks.readers.rows import RawRow, data_files, required_column, whole_number
from tasks.task import Task, Turn

ESSAY_GOLD = {"empathy": 0, "distress": 1, "emotion": 2}
TURN_GOLD = {"EmotionalPolarity": 0, "Emotion": 1, "Empathy": 2}


class _Turn(NamedTuple):
    """One turn of a conversation, before its context is known."""

    conversation: str
    turn: int
    block: str
    text: str
    label: str
    where: str


def wassa_essays(task: Task, data: Path) -> list[RawRow]:
    """A row per essay, grouped by article; of an emotion such as ``A/B`` the first part is the label."""
    group = required_column(task, "group")
    rows = []
    for where, cells, label in _labelled(task, data, ESSAY_GOLD):
        article = str(whole_number(where, group, cells[group]))
        essay = str(whole_number(where, "essay_id", cells["essay_id"]))
        text = cells[required_column(task, "text")]
        rows.append(RawRow(where, essay, article, article, (), text, label.split("/")[0].strip()))
    return rows


def wassa_turns(task: Task, data: Path) -> list[RawRow]:
    """A row per turn, in the order of conversation and turn, with every earlier and later turn of the conversation.

    In the files the rows are in no order. Two people take turns, the speaker first, whatever number a conversation
    starts with.
    """
    group, block = required_column(task, "group"), required_column(task, "block")
    turns = [
        _Turn(
            conversation=str(whole_number(where, group, cells[group])),
            turn=whole_number(where, "turn_id", cells["turn_id"]),
            block=str(whole_number(where, block, cells[block])),
            text=cells[required_column(task, "text")],
            label=label.strip(),
            where=where,
        )
        for where, cells, label in _labelled(task, data, TURN_GOLD)
    ]
    turns.sort(key=lambda turn: (int(turn.conversation), turn.turn))
    return [row for _, said in groupby(turns, key=lambda turn: turn.conversation) for row in _conversation(list(said))]


def _conversation(turns: Sequence[_Turn]) -> Iterator[RawRow]:
    """Yield the rows of one conversation, whose turns are in order."""
    said = tuple(Turn(("speaker", "listener")[place % 2], turn.text) for place, turn in enumerate(turns))
    for place, turn in enumerate(turns):
        id, after = f"{turn.conversation}:{turn.turn}", said[place + 1 :]
        parts = (turn.where, id, turn.conversation, turn.block, said[:place], turn.text, turn.label)
        yield RawRow(*parts, after=after)


def wassa_people(task: Task, data: Path) -> dict[str, str]:
    """Who wrote each row of these tasks, by row id: people wrote essays and took part in several conversations."""
    is_turn = task.label.column in TURN_GOLD
    ids = (task.columns["group"], "turn_id") if is_turn else ("essay_id",)
    gold = TURN_GOLD if is_turn else ESSAY_GOLD
    return {
        ":".join(str(whole_number(where, str(name), cells[str(name)])) for name in ids): cells["speaker_id"].strip()
        for where, cells, _ in _labelled(task, data, gold)
    }


def _labelled(task: Task, data: Path, gold_columns: Mapping[str, int]) -> Iterator[tuple[str, dict[str, str], str]]:
    """Yield ``file:line``, cells by column and label of train's rows, then of dev joined with gold by row number."""
    if task.label.column not in gold_columns or len(task.files) != 3:
        raise BadEntry(
            f"{task.entry_file}: reader {task.reader!r} needs files = [train, dev, gold of dev] and a label out of "
            f"{', '.join(gold_columns)}"
        )
    paths = data_files(task, data)
    train, dev = read_raw(paths[0]), read_raw(paths[1])
    gold = read_raw(paths[2], has_header=False)
    if len(dev.rows) != len(gold.rows):
        raise BadRow(
            f"{gold.path}:{len(gold.rows)}: {len(gold.rows)} gold rows for {len(dev.rows)} rows of {dev.path.name}; "
            "the two are joined row by row, so get both from the same release"
        )
    train_label, gold_label = train.column(task.label.column), gold_columns[task.label.column]
    if gold_label >= len(gold.header):
        raise BadRow(f"{gold.path}:1: no column number {gold_label + 1}, which holds {task.label.column!r}")
    for i, cells in enumerate(train.rows):
        yield train.where(i), dict(zip(train.header, cells, strict=True)), cells[train_label]
    for i, cells in enumerate(dev.rows):
        where = f"{dev.where(i)} with {gold.path.name}:{gold.lines[i]}"
        yield where, dict(zip(dev.header, cells, strict=True)), gold.rows[i][gold_label]
