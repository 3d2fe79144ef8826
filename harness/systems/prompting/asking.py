"""Many prompts to one server: cache first, so many calls in flight, faults waited out, and the cap kept."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import Event, Lock
from typing import Any

from harness.systems.prompting.answers import FREE, Answer, Answers, Prices, Purse
from harness.systems.prompting.server import FORMAT, NoAnswer, Reply, Server
from tasks.errors import BadInput

CALLS = 6  # of one prompt, before its last fault is the reason why a cell fails
FIRST_WAIT = 1.0  # seconds after a fault of which the server does not say how long it lasts, doubled each time
LONGEST_WAIT = 600.0  # seconds; a server that asks for more is left alone
AROUND = 64  # tokens that a server may put around a prompt
BYTES_OF_TOKEN = 4  # of English text, for plans
DATED = "-:@"  # what parts a model's name from its date or version: gpt-4o, gpt-4o-2024-08-06


def most_tokens(prompt: str) -> int:
    """More tokens than a prompt can have: no tokenizer of bytes or pieces makes more than one of a byte."""
    return len(prompt.encode("utf-8", "surrogatepass")) + AROUND


def likely_tokens(prompt: str, said: Mapping[str, Any]) -> float:
    """About how many tokens a prompt has, with what else is ``said`` of its answer, for plans."""
    return (len(prompt.encode("utf-8", "replace")) + schema_bytes(said)) / BYTES_OF_TOKEN


def schema_bytes(settings: Mapping[str, Any]) -> int:
    """Bytes of the schema that settings of a call hold answers to; 0 without."""
    return len(json.dumps(settings[FORMAT])) if FORMAT in settings else 0


@dataclass(frozen=True)
class Clock:
    """Seconds as they pass; ``wait`` goes on at once when the event is set."""

    now: Callable[[], float] = time.monotonic
    wait: Callable[[Event, float], object] = Event.wait


CLOCK = Clock()


@dataclass(frozen=True)
class Question:
    """What is asked of a model, without the prompt: ``settings`` go into the call and into the names of answers."""

    model: str
    settings: Mapping[str, Any]
    answer_tokens: int

    def most_tokens(self, prompt: str) -> int:
        """More tokens than a call can have, a schema of answers included."""
        return most_tokens(prompt) + schema_bytes(self.settings)

    def body(self, prompt: str) -> dict[str, Any]:
        """The JSON of a call."""
        return {"model": self.model, "messages": [{"role": "user", "content": prompt}], **self.settings}


class Asker:
    """Asks a server what the folder of answers does not have.

    All that arrives is kept before anything else is done with it. The first fault that does not pass stops the others;
    calls in flight are waited for and kept.
    """

    def __init__(
        self,
        server: Server,
        answers: Answers,
        question: Question,
        *,
        prices: Prices = FREE,
        most_cost: float = 0.0,
        in_flight: int = 32,
        clock: Clock = CLOCK,
    ) -> None:
        """Nothing is opened or asked yet."""
        self.server, self.answers, self.question = server, answers, question
        self.prices, self.most_cost, self.in_flight, self.clock = prices, most_cost, in_flight, clock
        self.model = ""  # as the server calls it, once an answer has said so
        self._stop, self._lock, self._not_before = Event(), Lock(), 0.0
        self._has_answered = False
        self._purse: Purse | None = None

    def ask(self, prompts: Sequence[str], repeats: int = 1) -> list[list[Answer]]:
        """The answers to every prompt ``[prompts][repeats]``; BadInput, in one line, where one cannot be had."""
        keys = [[self._key(prompt, repeat) for repeat in range(repeats)] for prompt in prompts]
        kept = {key: self.answers.get(key) for row in keys for key in row}
        if any(answer is None for answer in kept.values()):
            wanted = {key: prompt for row, prompt in zip(keys, prompts, strict=True) for key in row if not kept[key]}
            kept |= self._asked(wanted)
        answers = [[answer for key in row if (answer := kept[key])] for row in keys]
        for row in answers:
            for answer in row:
                self._check_same(answer.model)
        return answers

    def _key(self, prompt: str, repeat: int) -> str:
        return self.answers.key(self.question.model, prompt, self.question.settings, repeat)

    def _asked(self, wanted: Mapping[str, str]) -> dict[str, Answer]:
        """Answers by their keys of prompts that were not kept when this was called."""
        with self.answers.alone():
            self._stop.clear()
            if self.prices != FREE:
                self._purse = Purse(self.answers.journal(self.question.model), self.most_cost)
            kept = {key: self.answers.get(key) for key in wanted}  # another process may have asked meanwhile
            queue = iter([(key, prompt) for key, prompt in wanted.items() if not kept[key]])
            arrived: dict[str, Answer] = {}
            with ThreadPoolExecutor(self.in_flight) as pool:
                workers = [pool.submit(self._work, queue, arrived) for _ in range(min(self.in_flight, len(wanted)))]
                try:
                    for worker in as_completed(workers):
                        worker.result()
                finally:
                    self._stop.set()
        return {key: answer for key, answer in {**kept, **arrived}.items() if answer}

    def _work(self, queue: Iterator[tuple[str, str]], arrived: dict[str, Answer]) -> None:
        """Ask one prompt after another, until none is left or a fault stops all."""
        try:
            while not self._stop.is_set():
                with self._lock:
                    key, prompt = next(queue, ("", ""))
                if not key:
                    return
                if (answer := self._answer(key, prompt)) is not None:
                    arrived[key] = answer
        except BaseException:
            self._stop.set()
            raise

    def _answer(self, key: str, prompt: str) -> Answer | None:
        """The answer to a prompt, kept; None if all was stopped, BadInput after the last call that gave none."""
        reason = ""
        for call in range(CALLS):
            self._wait()
            if self._stop.is_set():
                return None
            try:
                return self._call(key, prompt)
            except NoAnswer as problem:
                reason = str(problem)
                self._hold(problem, FIRST_WAIT * 2**call)
        raise BadInput(
            f"server {self.server.name}: no answer in {CALLS} calls ({reason}); run again once it answers, what it has"
            " answered is kept"
        )

    def _call(self, key: str, prompt: str) -> Answer:
        """Make one call and keep its answer."""
        most = self.prices.of(self.question.most_tokens(prompt), self.question.answer_tokens)
        paid, call = 0.0, self._purse.reserve(most) if self._purse else ""
        try:
            reply = self.server.post(self.question.body(prompt))
            paid = self._price(reply, most)
            self._check_model(reply)
            answer = _answer_of(reply)
            self.answers.put(key, answer)
            return answer
        except NoAnswer as problem:
            paid = max(paid, most if problem.is_paid else 0.0)
            raise
        finally:
            if self._purse:
                self._purse.settle(call, paid)

    def _price(self, reply: Reply, most: float) -> float:
        """What an answer cost; the most that it can where the server did not count its tokens."""
        if reply.tokens_in is None or reply.tokens_out is None:
            return most
        return self.prices.of(reply.tokens_in, reply.tokens_out)

    def _check_model(self, reply: Reply) -> None:
        """NoAnswer where another model has answered than was asked, or than answered before."""
        asked, self._has_answered = self.question.model, True
        if reply.model and reply.model != asked and not _is_dated(reply.model, asked):
            raise NoAnswer(f"model {asked!r} was asked and another answered; set model to the name that it has there")
        with self._lock:
            self.model = self.model or reply.model
            if reply.model and reply.model != self.model:
                raise NoAnswer(f"another version of model {asked!r} answered than before; set model to a dated name")

    def _check_same(self, model: str) -> None:
        """BadInput where answers that are kept come from two versions of a model."""
        self.model = self.model or model
        if model and model != self.model:
            raise BadInput(
                f"answers of two versions of model {self.question.model!r} would be one score: {self.model!r} and"
                f" {model!r}; set model to a dated name"
            )

    def _hold(self, problem: NoAnswer, wait: float) -> None:
        """Let no call begin before the server's own delay is over, or ours where it names none."""
        if not problem.is_reached and not self._has_answered:
            raise BadInput(f"server {self.server.name} {problem}; start it, or set url to its address") from None
        wait = wait if problem.wait is None else problem.wait
        if wait > LONGEST_WAIT:
            raise BadInput(f"server {self.server.name} asks to wait {wait:.0f} s ({problem}); run again after that")
        with self._lock:
            self._not_before = max(self._not_before, self.clock.now() + wait)

    def _wait(self) -> None:
        """Wait until the server may be asked, or all is stopped."""
        left = self._not_before - self.clock.now()
        if left > 0:
            self.clock.wait(self._stop, left)


def _is_dated(name: str, model: str) -> bool:
    return name.startswith(model) and name[len(model) : len(model) + 1] in DATED


def _answer_of(reply: Reply) -> Answer:
    day = datetime.now(UTC).date().isoformat()
    return Answer(reply.text, reply.model, reply.fingerprint, reply.tokens_in, reply.tokens_out, day)
