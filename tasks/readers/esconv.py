"""ESConv: emotional-support conversations with a strategy on every turn of a supporter.

Upstream has them as JSON and, for training, flattened to one line per supporter's turn with at most the five turns
that end there, joined with `` EOS ``; each turn is ``weight who number [strategy] text``, who being 0 for the seeker
and 1 for the supporter:

    1.0 0 0 I lost my job. EOS 1.0 1 1 [Question] When did it happen?

What follows a turn is read from the later lines of its conversation, as far as these tell every turn, each in one way.
The context stays what the line itself holds: it is in the content of the splits, and so in the keys of cells.
"""

import re
from collections.abc import Generator, Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from tasks.errors import BadRow
from tasks.readers.raw import CACHED_FILES, json_value, text_lines
from tasks.readers.rows import RawRow, data_files
from tasks.task import Task, Turn

ROLES = {"seeker": "speaker", "speaker": "speaker", "supporter": "listener", "listener": "listener"}
FLAT_TURN = re.compile(r"[0-9.]+ ([01]) ([0-9]+) (?:\[([^\]]*)\] ?)?(.*)")
FLAT_ROLES = {"0": "speaker", "1": "listener"}


class _Line(NamedTuple):
    """A line of a flat file: where it is, its turns and their numbers, the last a supporter's with a strategy."""

    where: str
    numbers: tuple[int, ...]
    turns: tuple[Turn, ...]
    strategy: str

    @property
    def last(self) -> int:
        """The number of the turn that the line is about."""
        return self.numbers[-1]


class Gaps(NamedTuple):
    """Of how many conversations flat files tell some turns not at all (counted from 0) or in several ways."""

    conversations: int = 0
    broken: int = 0
    absent: int = 0
    differing: int = 0

    def __str__(self) -> str:
        """In words, for people."""
        return (
            f"{self.broken} of {self.conversations} conversations cannot be rebuilt whole from their overlapping lines:"
            f" {self.absent} turns are in no line, {self.differing} read differently in several; what follows a row"
            " ends before the first of these"
        )


def esconv(task: Task, data: Path) -> Generator[RawRow, None, list[str]]:
    """Yield every turn of a supporter that has a strategy, with the turns around it that its file holds.

    A note counts the conversations of flat files that cannot be rebuilt whole.
    """
    every = []
    for path in data_files(task, data):
        state = path.stat()
        rows, gaps = _rows(path, state.st_mtime_ns, state.st_size)
        every.append(gaps)
        yield from rows
    total = Gaps(*map(sum, zip(*every, strict=True)))
    return [str(total)] if total.broken else []


@lru_cache(maxsize=CACHED_FILES)
def _rows(path: Path, mtime_ns: int, size: int) -> tuple[tuple[RawRow, ...], Gaps]:
    """One file's rows, the same for every task; ``mtime_ns`` and ``size`` tell the cache that it has changed."""
    return (tuple(_from_json(path)), Gaps()) if path.suffix == ".json" else _from_flat(path)


def _from_json(path: Path) -> Iterator[RawRow]:
    """Yield the turns of a list of conversations, each with a list ``dialog`` of speaker, annotation and content."""
    value = json_value(path)
    for position, conversation in enumerate(value if isinstance(value, list) else [value]):
        id = f"{path.stem}:{position}"
        turns = conversation.get("dialog") if isinstance(conversation, dict) else None
        if not isinstance(turns, list):
            raise BadRow(f"{path}: conversation {position} (from 0) has no list `dialog`; get the file again")
        parts = []
        for number, turn in enumerate(turns, start=1):
            where = f"{path}: conversation {position}, turn {number}"
            role = isinstance(turn, dict) and ROLES.get(str(turn.get("speaker")))
            annotation = turn.get("annotation", {}) if role else None
            if not role or not isinstance(turn.get("content"), str) or not isinstance(annotation, dict):
                need = f"needs a speaker ({', '.join(ROLES)}), an annotation and a content; get the file again"
                raise BadRow(f"{where}: {need}")
            parts.append((where, Turn(role, turn["content"].strip()), str(annotation.get("strategy") or "")))
        spoken = tuple([turn for _, turn, _ in parts])
        for number, (where, turn, strategy) in enumerate(parts):
            if turn.speaker == "listener" and strategy:
                before, after = spoken[:number], spoken[number + 1 :]
                yield RawRow(where, f"{id}:{number + 1}", id, id, before, turn.text, strategy, after=after)


# Flat files.


def _from_flat(path: Path) -> tuple[tuple[RawRow, ...], Gaps]:
    """The last turn of each line; a conversation ends where the turn's number does not grow."""
    rows: list[RawRow] = []
    gaps = []
    for number, lines in enumerate(_conversations(path)):
        id = f"{path.stem}:{number}"
        readings: dict[int, dict[Turn, None]] = {}  # every turn by its number, in each way in which a line holds it
        for line in lines:
            for of_turn, turn in zip(line.numbers, line.turns, strict=True):
                readings.setdefault(of_turn, {})[turn] = None
        # The turns after each turn, up to a turn that is not known for certain.
        follows: dict[int, tuple[Turn, ...]] = {}
        later: tuple[Turn, ...] = ()
        for of_turn in sorted(readings, reverse=True):
            follows[of_turn] = later if of_turn + 1 in readings else ()
            later = (*readings[of_turn], *follows[of_turn]) if len(readings[of_turn]) == 1 else ()
        for line in lines:
            parts = (line.where, f"{id}:{line.last}", id, id, line.turns[:-1], line.turns[-1].text, line.strategy)
            rows.append(RawRow(*parts, after=follows[line.last]))
        absent = max(readings) + 1 - len(readings)
        differing = sum(len(turns) > 1 for turns in readings.values())
        gaps.append(Gaps(1, int(absent + differing > 0), absent, differing))
    return tuple(rows), Gaps(*map(sum, zip(*gaps, strict=True)))


def _conversations(path: Path) -> Iterator[list[_Line]]:
    """Yield the lines of each conversation of a flat file; equal turns are one object."""
    lines: list[_Line] = []
    distinct: dict[Turn, Turn] = {}
    for number, content in enumerate(text_lines(path), start=1):
        if not content.strip():
            continue
        line = _flat_line(f"{path}:{number}", content)
        if lines and line.last <= lines[-1].last:
            yield lines
            lines, distinct = [], {}
        lines.append(line._replace(turns=tuple([distinct.setdefault(turn, turn) for turn in line.turns])))
    if lines:
        yield lines


def _flat_line(where: str, content: str) -> _Line:
    """A line's turns; BadRow where it has another form."""
    parts = [FLAT_TURN.fullmatch(part.strip()) for part in content.split(" EOS ")]
    turns = [part for part in parts if part]
    if len(turns) < len(parts) or turns[-1][1] != "1" or turns[-1][3] is None:
        raise BadRow(f"{where}: not turns of the form `1.0 1 4 [Strategy] text` up to a supporter's; get it again")
    numbers = tuple([int(part[2]) for part in turns])
    return _Line(where, numbers, tuple([Turn(FLAT_ROLES[part[1]], part[4].strip()) for part in turns]), turns[-1][3])
