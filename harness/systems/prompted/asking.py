"""Calls to a model behind a server: what each says, what it may cost, and the answers that were paid for and are kept.

An answer is kept the moment it arrives, in a folder beside the store, under the sha256 of model, prompt, settings and
repeat, so that no cell, run or study asks the same twice. The file holds the answer and what the server counted, never
the prompt. The folder is the user's alone (mode 700): a model that repeats a text repeats it there, too. It is no part
of the store, of an archive or of a report; removing it loses nothing but money.

Many prompts are asked at a time: cache first, so many calls in flight, faults waited out, and the cap kept by a journal
of costs.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from hashlib import sha256
from math import fsum
from pathlib import Path
from threading import Condition, Event, Lock
from typing import Annotated, Any, Literal

from adapters_store import disk
from harness.study.systems import Settings
from harness.systems.prompted.server import ADDRESS, FORMAT, NoAnswer, Reply, Server, checked_address
from tasks.errors import BadInput
from tasks.fields import Range


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


def cost_of(answers: Sequence[Answer], settings: CallSettings) -> dict[str, float]:
    """Tokens, and dollars where prices are set, of these answers, whenever they were paid for."""
    counts = [sum(getattr(answer, side) or 0 for answer in answers) for side in ("tokens_in", "tokens_out")]
    money = {"money": settings.dollars(*counts)} if settings.has_prices else {}
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
        entries: dict[str, float] = {}  # dollars by call, the last entry of each
        for line in journal.read_text(encoding="utf-8").splitlines() if journal.is_file() else ():
            with suppress(ValueError, KeyError, TypeError):  # cut by a kill
                entry = json.loads(line)
                entries[str(entry["call"])] = float(entry["dollars"])
        self.spent = fsum(entries.values())  # calls in flight with the most that they can cost

    def reserve(self, dollars: float) -> str:
        """Enter a call that can cost this much, once the cap has room for it; BadInput where it will have none."""
        with self._changed:
            while 0 < self.most < self.spent + dollars:
                if not self._in_flight:
                    raise BadInput(
                        f"most_cost {self.most:g} dollars: {self.spent:.6g} are spent and the next call may cost"
                        f" {dollars:.6g}; raise it and run again (answers are kept, none is paid twice)"
                    )
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

    def _write(self, call: str, dollars: float) -> None:
        """Append an entry; it is on the disk before the call is made."""
        line = json.dumps({"call": call, "dollars": dollars}) + "\n"
        with disk.output(self.journal):
            self.journal.parent.mkdir(parents=True, exist_ok=True)
            with self.journal.open("a+b") as file:
                if file.tell():
                    file.seek(-1, os.SEEK_END)
                    line = line if file.read(1) == b"\n" else f"\n{line}"
                file.write(line.encode())
                file.flush()
                os.fsync(file.fileno())


CALLS = 6  # of one prompt, before its last fault is the reason why a cell fails
FIRST_WAIT = 1.0  # seconds after a fault of which the server does not say how long it lasts, doubled each time
LONGEST_WAIT = 600.0  # seconds; a server that asks for more is left alone
AROUND = 64  # tokens that a server may put around a prompt
BYTES_OF_TOKEN = 4  # of English text, for plans
DATED = "-:@"  # what parts a model's name from its date or version: gpt-4o, gpt-4o-2024-08-06


def most_tokens(prompt: str, form: Mapping[str, Any]) -> int:
    """More tokens than a call can have: no tokenizer of bytes or pieces makes more than one of a byte."""
    return len(prompt.encode("utf-8", "surrogatepass")) + AROUND + schema_bytes(form)


def likely_tokens(prompt: str, form: Mapping[str, Any]) -> float:
    """About how many tokens a prompt has, with the ``form`` of its call, for plans."""
    return (len(prompt.encode("utf-8", "replace")) + schema_bytes(form)) / BYTES_OF_TOKEN


def schema_bytes(settings: Mapping[str, Any]) -> int:
    """Bytes of the schema that settings of a call hold answers to; 0 without."""
    return len(json.dumps(settings[FORMAT])) if FORMAT in settings else 0


@dataclass(frozen=True)
class Clock:
    """Seconds as they pass; ``wait`` goes on at once when the event is set."""

    now: Callable[[], float] = time.monotonic
    wait: Callable[[Event, float], object] = Event.wait


CLOCK = Clock()


class Asker:
    """Asks a server what the folder of answers does not have.

    All that arrives is kept before anything else is done with it. The first fault that does not pass stops the others;
    calls in flight are waited for and kept.
    """

    def __init__(self, settings: CallSettings, answers: Answers, form: Mapping[str, Any], clock: Clock = CLOCK) -> None:
        """Nothing is opened or asked yet; the ``form`` goes into every call and into the names of answers."""
        self.settings, self.answers, self.form, self.clock = settings, answers, form, clock
        self.server = Server(settings.address, settings.timeout)
        self.model = ""  # as the server calls it, once an answer has said so
        self._stop, self._lock, self._not_before = Event(), Lock(), 0.0
        self._has_answered = False
        self._purse: Purse | None = None

    def ask(self, prompts: Sequence[str], repeats: int = 1) -> list[list[Answer]]:
        """The answers to every prompt ``[prompts][repeats]``; BadInput, in one line, where one cannot be had."""
        model = self.settings.model
        keys = [[self.answers.key(model, prompt, self.form, n) for n in range(repeats)] for prompt in prompts]
        kept = {key: self.answers.get(key) for row in keys for key in row}
        if any(answer is None for answer in kept.values()):
            wanted = {key: prompt for row, prompt in zip(keys, prompts, strict=True) for key in row if not kept[key]}
            kept |= self._asked(wanted)
        answers = [[answer for key in row if (answer := kept[key])] for row in keys]
        for row in answers:
            for answer in row:
                self.model = self.model or answer.model
                if answer.model and answer.model != self.model:
                    raise BadInput(
                        f"answers of two versions of model {model!r} would be one score: {self.model!r} and"
                        f" {answer.model!r}; set model to a dated name"
                    )
        return answers

    def _asked(self, wanted: Mapping[str, str]) -> dict[str, Answer]:
        """Answers by their keys of prompts that were not kept when this was called."""
        with self.answers.alone():
            self._stop.clear()
            if self.settings.has_prices:
                self._purse = Purse(self.answers.journal(self.settings.model), self.settings.most_cost)
            kept = {key: self.answers.get(key) for key in wanted}  # another process may have asked meanwhile
            with ThreadPoolExecutor(self.settings.in_flight) as pool:
                open_keys = [key for key, answer in kept.items() if not answer]
                calls = {key: pool.submit(self._answer, key, wanted[key]) for key in open_keys}
                try:
                    for call in as_completed(calls.values()):
                        call.result()
                finally:
                    self._stop.set()
                    pool.shutdown(wait=False, cancel_futures=True)
        kept |= {key: call.result() for key, call in calls.items()}
        return {key: answer for key, answer in kept.items() if answer}

    def _answer(self, key: str, prompt: str) -> Answer | None:
        """The answer to a prompt, kept; None if all was stopped, BadInput after the last call that gave none."""
        reason = ""
        try:
            for call in range(CALLS):
                if (left := self._not_before - self.clock.now()) > 0:  # wait until the server may be asked
                    self.clock.wait(self._stop, left)
                if self._stop.is_set():
                    return None
                try:
                    return self._call(key, prompt)
                except NoAnswer as problem:
                    reason = str(problem)
                    self._hold(problem, FIRST_WAIT * 2**call)
            raise BadInput(
                f"server {self.server.name}: no answer in {CALLS} calls ({reason}); run again once it answers, what it"
                " has answered is kept"
            )
        except BaseException:  # a fault stops all
            self._stop.set()
            raise

    def _call(self, key: str, prompt: str) -> Answer:
        """Make one call and keep its answer."""
        most = self.settings.dollars(most_tokens(prompt, self.form), self.settings.answer_tokens)
        paid, call = 0.0, self._purse.reserve(most) if self._purse else ""
        try:
            messages = [{"role": "user", "content": prompt}]
            reply = self.server.post({"model": self.settings.model, "messages": messages, **self.form})
            paid = most  # where the server did not count its tokens
            if reply.tokens_in is not None and reply.tokens_out is not None:
                paid = self.settings.dollars(reply.tokens_in, reply.tokens_out)
            self._check_model(reply)
            day = datetime.now(UTC).date().isoformat()
            answer = Answer(reply.text, reply.model, reply.fingerprint, reply.tokens_in, reply.tokens_out, day)
            self.answers.put(key, answer)
            return answer
        except NoAnswer as problem:
            paid = max(paid, most if problem.is_paid else 0.0)
            raise
        finally:
            if self._purse:
                self._purse.settle(call, paid)

    def _check_model(self, reply: Reply) -> None:
        """NoAnswer where another model has answered than was asked, or than answered before."""
        asked = self.settings.model
        self._has_answered = True
        is_dated = reply.model.startswith(asked) and reply.model[len(asked) : len(asked) + 1] in DATED
        if reply.model and reply.model != asked and not is_dated:
            raise NoAnswer(f"model {asked!r} was asked and another answered; set model to the name that it has there")
        with self._lock:
            self.model = self.model or reply.model
            if reply.model and reply.model != self.model:
                raise NoAnswer(f"another version of model {asked!r} answered than before; set model to a dated name")

    def _hold(self, problem: NoAnswer, wait: float) -> None:
        """Let no call begin before the server's own delay is over, or ours where it names none."""
        if not problem.is_reached and not self._has_answered:
            raise BadInput(f"server {self.server.name} {problem}; start it, or set url to its address") from None
        wait = wait if problem.wait is None else problem.wait
        if wait > LONGEST_WAIT:
            raise BadInput(f"server {self.server.name} asks to wait {wait:.0f} s ({problem}); run again after that")
        with self._lock:
            self._not_before = max(self._not_before, self.clock.now() + wait)


LOCAL_SETTINGS = ("url", "in_flight", "timeout", "price_in", "price_out", "most_cost", "allow")


Price = Annotated[float, Range(0, 1000)]


@dataclass(frozen=True)
class CallSettings(Settings):
    """Whom to ask, how, how often, and at what price; whatever is asked.

    ``limit`` is the field in which the server takes ``answer_tokens``. ``repeats`` is how often everything is asked.

    The LOCAL_SETTINGS decide no answer: the address of the server (the same model elsewhere is the same model), calls
    ``in_flight``, ``timeout`` in seconds, prices in dollars per 1,000 tokens, the most that the model may cost in this
    store in dollars (0: no cap), and the tasks of which something may leave though nobody else may have it.
    """

    model: str = "gpt-4"
    temperature: Annotated[float, Range(0, 2)] = 0.0
    answer_tokens: Annotated[int, Range(1, 4096)] = 16
    limit: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    repeats: Annotated[int, Range(1, 100)] = 1
    url: str = ""
    in_flight: Annotated[int, Range(1, 256)] = 32
    timeout: Annotated[float, Range(0.001, 3600)] = 60.0
    price_in: Price = 0.0
    price_out: Price = 0.0
    most_cost: Annotated[float, Range(0, 1_000_000)] = 0.0
    allow: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check every field, prices and address; ValueError naming the field."""
        if not self.model or not self.model.isprintable():
            raise ValueError(f"model {self.model!r} is no name of a model")
        super().__post_init__()
        if self.most_cost and not self.has_prices:
            raise ValueError("most_cost needs price_in and price_out, in dollars per 1,000 tokens")
        if self.url:
            checked_address(self.url)

    @property
    def has_prices(self) -> bool:
        """Whether anybody has set them."""
        return bool(self.price_in or self.price_out)

    def dollars(self, tokens_in: float, tokens_out: float) -> float:
        """What so many tokens of prompts and of answers cost."""
        return (tokens_in * self.price_in + tokens_out * self.price_out) / 1000

    @property
    def address(self) -> str:
        """Of the server: the setting, or what the environment says; empty where neither does."""
        return self.url or os.environ.get(ADDRESS, "")

    @property
    def host(self) -> str:
        """Of the server; empty while nobody has named it."""
        return (checked_address(self.address).hostname or "") if self.address else ""

    @property
    def form(self) -> dict[str, Any]:
        """What a call says beside model and prompt."""
        return {"temperature": self.temperature, self.limit: self.answer_tokens}

    def asker(self, answers: Path | None, form: Mapping[str, Any]) -> Asker:
        """Who asks in this ``form``, and keeps what is answered in this folder.

        BadInput where no address or folder is known.
        """
        if not self.address:
            raise BadInput(f"no server to ask {self.model!r}: set url of the system, or the variable {ADDRESS}")
        if answers is None:
            raise BadInput("a prompted model needs a folder in which its answers are kept (Place.answers)")
        return Asker(self, Answers(answers), form)
