"""Readers for dialogues with a label per turn or sentence: motivational interviewing, and ParlAI's chat format.

Interviews are a table with a sentence per row (dialogue, author, text, code). A chat in ParlAI's format is numbered
lines, personas first, each later one with two turns and a tab between them:

    1 your persona: i like to swim .
    2 hi , how are you ?	i am fine , and you ?
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from tasks.errors import BadEntry, BadRow
from tasks.readers.raw import text_lines
from tasks.readers.rows import RawRow, data_files, required_column
from tasks.readers.table import read_table
from tasks.task import Task, Turn

AUTHORS = ("speaker", "listener")
PARLAI_LABELS = ("is_reply", "is_question")
PARLAI_LINE = re.compile(r"([1-9][0-9]*) (.+)")
PERSONAS = ("your persona:", "partner's persona:")


class _Pair(NamedTuple):
    """Two turns of a chat, and their ``file:line``."""

    where: str
    utterance: str
    reply: str


def motivational(task: Task, data: Path) -> Iterator[RawRow]:
    """Yield the listeners' sentences, with the latest of the speaker's before them in the dialogue as context.

    What follows is every later sentence of either, each a turn of its own as in the file.
    """
    dialogue, text = required_column(task, "group"), required_column(task, "text")
    for path in data_files(task, data):
        raw = read_table(task, path, (dialogue, "author", text, task.label.column))
        for id, indices in groupby(range(len(raw.rows)), key=lambda i: raw.rows[i][0]):
            lines = list(indices)
            context: tuple[Turn, ...] = ()
            for i in lines:
                if raw.rows[i][1] not in AUTHORS:
                    raise BadRow(f"{raw.where(i)}: author must be {' or '.join(AUTHORS)}; mend the row")
            said = tuple(Turn(raw.rows[i][1], raw.rows[i][2]) for i in lines)
            for place, i in enumerate(lines):
                if said[place].speaker == "speaker":
                    context = (said[place],)
                    continue
                parts = (raw.where(i), f"{id}:{place + 1}", id, id, context, said[place].text, raw.rows[i][3].strip())
                yield RawRow(*parts, after=said[place + 1 :])


def parlai(task: Task, data: Path) -> Iterator[RawRow]:
    """Yield a row per pair of turns, with a label that the file itself supplies.

    ``is_reply``: "1" where the text is the reply to its context. Every second reply is exchanged for the one at the
    same turn of a neighbouring dialogue, and is "0"; the two dialogues share a block. What follows is the own
    dialogue's, whosever the reply is.
    ``is_question``: "1" where the reply asks something, by its question marks, which are taken out of the text.
    """
    if task.label.column not in PARLAI_LABELS:
        raise BadEntry(f"{task.entry_file}: reader 'parlai' needs label = {' or '.join(map(repr, PARLAI_LABELS))}")
    for path in data_files(task, data):
        chats = list(_chats(path))
        for number, chat in enumerate(chats):
            other = number ^ 1
            said = tuple(Turn(*turn) for pair in chat for turn in zip(AUTHORS, pair[1:], strict=True))
            for turn, pair in enumerate(chat):
                if task.label.column == "is_question":
                    text, label = pair.reply.replace("?", " "), "?" in pair.reply
                else:
                    partner = chats[other] if other < len(chats) else ()
                    label = turn % 2 == 0 or turn >= len(partner)
                    text = pair.reply if label else partner[turn].reply
                context, after = said[2 * turn : 2 * turn + 1], said[2 * turn + 2 :]
                id = f"{path.stem}:{number}:{turn}"
                group = f"{path.stem}:{number}"
                block = f"{path.stem}:{number // 2}"
                if text.strip():
                    parts = (pair.where, id, group, block, context, " ".join(text.split()), str(int(label)))
                    yield RawRow(*parts, after=after)


def _chats(path: Path) -> Iterator[Sequence[_Pair]]:
    """Yield the dialogues of a file in ParlAI's format: numbered lines, from 1 for each dialogue."""
    chat: list[_Pair] = []
    for line, content in enumerate(text_lines(path), start=1):
        if not content.strip():
            continue
        match = PARLAI_LINE.fullmatch(content)
        if not match:
            raise BadRow(f"{path}:{line}: the line does not start with its number in the dialogue; get the file again")
        if match[1] == "1" and chat:
            yield chat
            chat = []
        if match[2].startswith(PERSONAS):
            continue
        utterance, tab, reply = match[2].partition("\t")
        if not tab or not utterance.strip() or not reply.strip():
            raise BadRow(f"{path}:{line}: no utterance and reply with a tab between them; get the file again")
        chat.append(_Pair(f"{path}:{line}", utterance, reply.split("\t")[0]))
    if chat:
        yield chat
