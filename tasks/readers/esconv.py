"""The reader for ESConv: emotional-support conversations with a strategy on every turn of the supporter.

Upstream has them as JSON and, for training, flattened to one line per supporter's turn with at most the five turns
that end there, joined with `` EOS ``; each turn is ``weight who number [strategy] text``, who being 0 for the seeker
and 1 for the supporter:

    1.0 0 0 I lost my job. EOS 1.0 1 1 [Question] When did it happen?
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from tasks.errors import BadRow
from tasks.readers.raw import CACHED_FILES, json_value, text_lines
from tasks.readers.rows import RawRow, data_files
from tasks.task import Task, Turn

ROLES = {"seeker": "speaker", "speaker": "speaker", "supporter": "listener", "listener": "listener"}
FLAT_TURN = re.compile(r"[0-9.]+ ([01]) ([0-9]+) (?:\[([^\]]*)\] ?)?(.*)")
FLAT_ROLES = {"0": "speaker", "1": "listener"}


def esconv(task: Task, data: Path) -> Iterator[RawRow]:
    """Yield every turn of a supporter that has a strategy, with the earlier turns that its file holds as context."""
    for path in data_files(task, data):
        state = path.stat()
        yield from _rows(path, state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=CACHED_FILES)
def _rows(path: Path, mtime_ns: int, size: int) -> tuple[RawRow, ...]:
    """One file's rows, the same for every task; ``mtime_ns`` and ``size`` tell the cache that it has changed."""
    return tuple(_from_json(path) if path.suffix == ".json" else _from_flat(path))


def _from_json(path: Path) -> Iterator[RawRow]:
    """Yield the turns of a list of conversations, each with a list ``dialog`` of speaker, annotation and content."""
    value = json_value(path)
    for number, conversation in enumerate(value if isinstance(value, list) else [value]):
        context: tuple[Turn, ...] = ()
        id = f"{path.stem}:{number}"
        turns = conversation.get("dialog") if isinstance(conversation, dict) else None
        if not isinstance(turns, list):
            raise BadRow(f"{path}: conversation {number} (from 0) has no list `dialog`; get the file again")
        for position, turn in enumerate(turns, start=1):
            where = f"{path}: conversation {number}, turn {position}"
            role, text, strategy = _json_turn(where, turn)
            if role == "listener" and strategy:
                yield RawRow(where, f"{id}:{position}", id, id, context, text, strategy)
            context = (*context, Turn(role, text))


def _json_turn(where: str, turn: Any) -> tuple[str, str, str]:  # noqa: ANN401  (whatever the file holds)
    """Role, text and strategy (may be empty) of one turn; BadRow when it has another shape."""
    known = isinstance(turn, dict) and ROLES.get(str(turn.get("speaker")))
    annotation = turn.get("annotation", {}) if known else None
    if not known or not isinstance(turn.get("content"), str) or not isinstance(annotation, dict):
        raise BadRow(f"{where}: needs a speaker ({', '.join(ROLES)}), an annotation and a content; get the file again")
    return known, turn["content"].strip(), str(annotation.get("strategy") or "")


def _from_flat(path: Path) -> Iterator[RawRow]:
    """Yield the last turn of each line; a conversation ends where the turn's number does not grow."""
    conversation, last = -1, -1
    for line, content in enumerate(text_lines(path), start=1):
        if not content.strip():
            continue
        where = f"{path}:{line}"
        parts = [FLAT_TURN.fullmatch(part.strip()) for part in content.split(" EOS ")]
        turns = [part for part in parts if part]
        if len(turns) < len(parts) or turns[-1][1] != "1" or turns[-1][3] is None:
            raise BadRow(f"{where}: not turns of the form `1.0 1 4 [Strategy] text` up to a supporter's; get it again")
        conversation += int(turns[-1][2]) <= last or last < 0
        last = int(turns[-1][2])
        id = f"{path.stem}:{conversation}"
        context = tuple(Turn(FLAT_ROLES[part[1]], part[4].strip()) for part in turns[:-1])
        yield RawRow(where, f"{id}:{last}", id, id, context, turns[-1][4].strip(), turns[-1][3])
