"""Answers of a server to prompts: which option each names, votes of repeats, and what a record says of them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.study.systems import Place, Predicted
from harness.systems.prompting.answers import FREE, Answer, Answers, Prices
from harness.systems.prompting.asking import Asker, Question
from harness.systems.prompting.prompts import Shot, option_of, prompt_of
from harness.systems.prompting.server import ADDRESS, FORMAT, Server
from tasks.errors import BadInput
from tasks.task import Example, Instruction

if TYPE_CHECKING:
    from harness.systems.kinds.prompted import Config

SCHEMA = "schema"  # a way to answer: by a JSON schema, where TEXT is in words
TEXT = "text"
ANSWER = "answer"  # the only field of an answer by a schema
SMOOTHING = 0.5  # votes added to every class, so that one that no repeat names has a logarithm
FIRST = 1e-3  # of a vote that the first repeat counts more, so that it decides where votes are equal


class Asked:
    """A model behind a server; BadInput where no address or folder of answers is known."""

    def __init__(self, config: Config, instruction: Instruction, place: Place) -> None:
        """Nothing is opened or asked yet."""
        self.config, self.instruction, self.asker = config, instruction, _asker(config, instruction, place)

    def predicted(
        self, rows: Sequence[Example], template: str, shots: Sequence[Shot], *, is_trial: bool = False
    ) -> Predicted:
        """The option that most repeats name, as logarithms of shares of votes; a trial asks once."""
        prompts = [prompt_of(template, self.instruction, shots, row) for row in rows]
        each = self.asker.ask(prompts, 1 if is_trial else self.config.repeats)
        options, by_schema = self.instruction.options, self.config.answers == SCHEMA
        said = [[spoken(answer.text) if by_schema else answer.text for answer in own] for own in each]
        places = [[option_of(text, options) for text in own] for own in said]
        logits = np.stack([_logits(own, len(options)) for own in places]) if places else np.zeros((0, len(options)))
        nameless = np.array([all(place is None for place in own) for own in places], dtype=bool)
        answers = [answer for own in each for answer in own]
        cost = _cost(answers, self.config.prices)
        return Predicted(logits.astype(np.float32), cost=cost, unanswered=nameless, notes=_notes(answers, places))


def _asker(config: Config, instruction: Instruction, place: Place) -> Asker:
    if not config.address:
        raise BadInput(f"no server to ask {config.model!r}: set url of the system, or the variable {ADDRESS}")
    if place.answers is None:
        raise BadInput("a prompted model needs a folder in which its answers are kept (Place.answers)")
    return Asker(
        Server(config.address, config.timeout),
        Answers(place.answers),
        Question(config.model, settings_of(config, instruction), config.answer_tokens),
        prices=config.prices,
        most_cost=config.most_cost,
        in_flight=config.in_flight,
    )


def settings_of(config: Config, instruction: Instruction) -> dict[str, Any]:
    """What a call says beside model and prompt: how it is to be answered, by a schema where that is asked for."""
    settings: dict[str, Any] = {"temperature": config.temperature, config.limit: config.answer_tokens}
    return settings | ({FORMAT: schema_of(instruction.options)} if config.answers == SCHEMA else {})


def schema_of(options: Sequence[str]) -> dict[str, Any]:
    """The format of an answer that can be nothing but an object whose only field is an option, as OpenAI takes it."""
    schema = {
        "type": "object",
        "properties": {ANSWER: {"type": "string", "enum": list(options)}},
        "required": [ANSWER],
        "additionalProperties": False,
    }
    return {"type": "json_schema", "json_schema": {"name": ANSWER, "strict": True, "schema": schema}}


def spoken(text: str) -> str:
    """The words of an answer that a schema was asked for; empty where its object is cut or has no such field.

    A server may overlook the schema and answer in words: these are taken as they are.
    """
    if not text.lstrip().startswith("{"):
        return text
    try:
        answer = json.loads(text)[ANSWER]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    return answer if isinstance(answer, str) else ""


def _logits(places: Sequence[int | None], options: int) -> Any:  # noqa: ANN401 - an array
    """Logarithms of the shares of votes ``[options]``; all equal where no repeat names an option."""
    votes = np.full(options, SMOOTHING)
    for number, place in enumerate(places):
        if place is not None:
            votes[place] += 1 + FIRST * (number == 0)
    return np.log(votes / votes.sum())


def _notes(answers: Sequence[Answer], places: Sequence[Sequence[int | None]]) -> dict[str, Any]:
    """By which model, when, and how well repeats agree: the share of pairs of answers to a row that name the same."""
    pairs = [first == second for own in places for first, second in combinations(own, 2)]
    days = sorted({answer.day for answer in answers})
    return {
        "models": dict(Counter(answer.model for answer in answers)),
        "fingerprints": dict(Counter(answer.fingerprint for answer in answers if answer.fingerprint)),
        "days": [days[0], days[-1]] if days else [],
        "calls": len(answers),
        **({"agreement": sum(pairs) / len(pairs)} if pairs else {}),
    }


def _cost(answers: Sequence[Answer], prices: Prices) -> dict[str, float]:
    """Tokens, and dollars where prices are set, of these answers, whenever they were paid for."""
    counts = [sum(getattr(answer, side) or 0 for answer in answers) for side in ("tokens_in", "tokens_out")]
    money = {"money": prices.of(*counts)} if prices != FREE else {}
    return {"tokens_in": float(counts[0]), "tokens_out": float(counts[1]), **money}
