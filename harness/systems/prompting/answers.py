"""What was paid for is kept: answers of models in a folder beside the store, and a journal of what they cost.

An answer is kept the moment it arrives, under the sha256 of model, prompt, settings and repeat, so that no cell, run or
study asks the same twice. The file holds the answer and what the server counted, never the prompt. The folder is the
user's alone (mode 700): a model that repeats a text repeats it there, too. It is no part of the store, of an archive or
of a report; removing it loses nothing but money.
"""

from __future__ import annotations

import fcntl
import json
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from hashlib import sha256
from math import fsum
from pathlib import Path
from threading import Condition
from typing import Any

from adapters_store import disk
from tasks.errors import BadInput


@dataclass(frozen=True)
class Answer:
    """An answer: its text, the model and fingerprint that the server gave, tokens, and the day (UTC) it arrived.

    ``tokens_in`` and ``tokens_out`` are None where the server counted none.
    """

    text: str
    model: str
    fingerprint: str
    tokens_in: int | None
    tokens_out: int | None
    day: str


@dataclass(frozen=True)
class Answers:
    """A folder of answers; nothing is made before the first one is kept."""

    folder: Path

    @staticmethod
    def key(model: str, prompt: str, settings: Mapping[str, Any], repeat: int) -> str:
        """The name of the answer to a prompt: 64 hexadecimal digits."""
        asked = {"model": model, "prompt": prompt, "settings": dict(settings), "repeat": repeat}
        return sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()

    def get(self, key: str) -> Answer | None:
        """The answer with this name; None where it is not kept, or not whole, as after a fault of the disk."""
        try:
            return Answer(**json.loads(disk.content(self._path(key))))
        except (OSError, ValueError, TypeError):
            return None

    def put(self, key: str, answer: Answer) -> None:
        """Keep an answer: whole under its name, or not at all."""
        self._make()
        disk.write_text(self._path(key), json.dumps(asdict(answer)))

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Ask alone: processes of one machine that would ask the same wait for each other, and then find it kept."""
        self._make()
        with (self.folder / "lock").open("a") as lock:
            with disk.output(self.folder):  # some network file systems have no locks
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def journal(self, model: str) -> Path:
        """The file that says what answers of a model have cost."""
        return self.folder / f"spent-{sha256(model.encode()).hexdigest()[:16]}.jsonl"

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}.json"

    def _make(self) -> None:
        if not self.folder.is_dir():
            disk.new_folder(self.folder.parent)
            self.folder.mkdir(mode=0o700, exist_ok=True)


@dataclass(frozen=True)
class Prices:
    """Dollars per 1,000 tokens of a prompt and of an answer; 0 where nobody has set them."""

    tokens_in: float = 0.0
    tokens_out: float = 0.0

    def of(self, tokens_in: float, tokens_out: float) -> float:
        """Dollars of a call."""
        return (tokens_in * self.tokens_in + tokens_out * self.tokens_out) / 1000


FREE = Prices()


def cost_of(answers: Sequence[Answer], prices: Prices) -> dict[str, float]:
    """Tokens, and dollars where prices are set, of these answers, whenever they were paid for."""
    counts = [sum(getattr(answer, side) or 0 for answer in answers) for side in ("tokens_in", "tokens_out")]
    money = {"money": prices.of(*counts)} if prices != FREE else {}
    return {"tokens_in": float(counts[0]), "tokens_out": float(counts[1]), **money}


class Purse:
    """What a model has cost in dollars, by a journal that survives a kill, and the most that it may.

    A call is entered with the most that it can cost before it is made, and with what it did cost after it. Whatever is
    killed between the two counts as paid in full, so the sum is never less than what was spent, and no number of calls
    in flight passes the cap. Entries are whole lines; a line that a kill has cut is of a call that was not made, or of
    one whose first entry still stands.
    """

    def __init__(self, journal: Path, most: float) -> None:
        """Read the journal; ``most`` 0 is no cap."""
        self.journal, self.most = journal, most
        self._changed = Condition()
        self._in_flight: dict[str, float] = {}
        self.spent = fsum(_read(journal).values())  # calls in flight counted with the most that they can cost

    def reserve(self, dollars: float) -> str:
        """Enter a call that can cost this much, once the cap has room for it; BadInput where it will have none."""
        with self._changed:
            while self._is_too_much(dollars):
                if not self._in_flight:
                    raise BadInput(self._refusal(dollars))
                self._changed.wait()
            call = uuid.uuid4().hex
            self._write(call, dollars)
            self._in_flight[call] = dollars
            self.spent += dollars
            return call

    def settle(self, call: str, dollars: float) -> None:
        """Enter what a call has cost."""
        with self._changed:
            self._write(call, dollars)
            self.spent += dollars - self._in_flight.pop(call)
            self._changed.notify_all()

    def _is_too_much(self, dollars: float) -> bool:
        return self.most > 0 and self.spent + dollars > self.most

    def _refusal(self, dollars: float) -> str:
        return (
            f"most_cost {self.most:g} dollars: {self.spent:.6g} are spent and the next call may cost {dollars:.6g};"
            " raise it and run again (answers are kept, none is paid twice)"
        )

    def _write(self, call: str, dollars: float) -> None:
        """Append an entry; it is on the disk before the call is made."""
        line = json.dumps({"call": call, "dollars": dollars}) + "\n"
        with disk.output(self.journal):
            self.journal.parent.mkdir(parents=True, exist_ok=True)
            with self.journal.open("ab") as file:
                file.write((b"\n" if file.tell() and not _ends_whole(self.journal) else b"") + line.encode())
                file.flush()
                os.fsync(file.fileno())


def _ends_whole(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


def _read(journal: Path) -> dict[str, float]:
    """Dollars by call, the last entry of each."""
    if not journal.is_file():
        return {}
    entries: dict[str, float] = {}
    for line in journal.read_text(encoding="utf-8").splitlines():
        try:
            entry = json.loads(line)
            entries[str(entry["call"])] = float(entry["dollars"])
        except (ValueError, KeyError, TypeError):  # cut by a kill
            continue
    return entries
