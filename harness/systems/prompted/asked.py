"""A model that is asked for options: its settings, how a server is to answer, and what several votes come to."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, Literal

from harness.study.systems import Predicted
from harness.systems.prompted.asking import CallSettings, cost_of
from harness.systems.prompted.prompts import TEMPLATES, Shot, checked_template, option_of, prompt_of, voted
from harness.systems.prompted.server import FORMAT
from tasks.fields import Range
from tasks.task import Example, Instruction

ANSWER = "answer"  # the only field of an answer by a schema
OF_WEIGHTS = ("chat", "ranking")  # settings that mean something where weights answer, and nowhere else
OF_BOTH = (*OF_WEIGHTS, "shots", "window", "templates", "weights", "answer_tokens")  # and that do there
OWN_WEIGHTS = "weights of a folder"  # the model, where no server has it
TEXT: Literal["text"] = "text"
SCHEMA: Literal["schema"] = "schema"  # a way to answer: by a JSON schema, where TEXT is in words


@dataclass(frozen=True)
class PromptedSettings(CallSettings):
    """What is asked, of whom, and what it may cost (CallSettings).

    ``weights`` is empty, or a folder of a causal language model or a T5 that answers here, in the place of a server's
    ``model``; its content is in the keys, its path is not. ``shots`` is how many exemplars each class has.
    ``templates`` are names (harness/systems/prompted/prompts.py) or texts with fields; of several, validation rows
    choose. ``answers`` is ``text``, or ``schema`` where the server is to hold answers to a JSON schema of the options.
    Of several repeats the commonest answer counts, and how often answers agree is in the record.

    Weights rank the options by ``ranking``: the log-probability of an option's tokens and its end (``sum``), which
    favours short ones; its mean over them (``mean``); or what the row adds to it (``prior``): the sum less that of the
    same prompt without text and turns (Holtzman et al. 2021, "Surface Form Competition"; Zhao et al. 2021, "Calibrate
    Before Use"). Or nothing is ranked, and an answer of at most ``answer_tokens`` is read as a server's
    (``generated``). Weights with a template of a chat are asked in it, unless ``chat`` is false.
    """

    weights: str = ""
    shots: Annotated[int, Range(0, 100)] = 0
    window: tuple[int, int] = (3, 3)
    answers: Literal["text", "schema"] = TEXT
    templates: tuple[str, ...] = tuple(TEMPLATES)
    ranking: Literal["sum", "mean", "prior", "generated"] = "sum"
    chat: bool = True

    def __post_init__(self) -> None:
        """Check every field, templates and address; ValueError naming the field."""
        for field in fields(self):
            if (value := getattr(self, field.name)) in (field.default, OWN_WEIGHTS):
                continue
            if self.weights and field.name not in OF_BOTH:
                raise ValueError(
                    f"{field.name} {value!r} is of a server, and weights {self.weights!r} answer here; leave one of"
                    " them out"
                )
            if not self.weights and self.model != OWN_WEIGHTS and field.name in OF_WEIGHTS:
                raise ValueError(f"{field.name} {value!r} is of weights that answer here, and none are named")
        if self.weights:
            object.__setattr__(self, "model", OWN_WEIGHTS)  # no other has answered
        super().__post_init__()
        if not self.templates:
            raise ValueError(f"templates is empty; name some of {', '.join(TEMPLATES)}, or write one")
        for template in self.templates:
            checked_template(template)


class ServedModel:
    """A model behind a server; BadInput where no address or folder of answers is known."""

    def __init__(self, config: PromptedSettings, instruction: Instruction, folder: Path | None) -> None:
        """Nothing is opened or asked yet; answers are kept in the ``folder``."""
        self.config, self.instruction, self.folder = config, instruction, folder
        self.asker = config.asker(folder, form_of(config, instruction))

    def asked_by(self, instruction: Instruction) -> ServedModel:
        """The same model, asked by other words."""
        return ServedModel(self.config, instruction, self.folder)

    def predicted(
        self, rows: Sequence[Example], template: str, shots: Sequence[Shot], *, is_trial: bool = False
    ) -> Predicted:
        """The option that most repeats name, as logarithms of shares of votes; a trial asks once."""
        prompts = [prompt_of(template, self.instruction, shots, row) for row in rows]
        each = self.asker.ask(prompts, 1 if is_trial else self.config.repeats)
        options, by_schema = self.instruction.options, self.config.answers == SCHEMA
        texts = [[spoken(answer.text) if by_schema else answer.text for answer in of_row] for of_row in each]
        places = [[option_of(text, options) for text in of_row] for of_row in texts]
        logits, unanswered = voted(places, len(options))
        answers = [answer for of_row in each for answer in of_row]
        cost = cost_of(answers, self.config)
        # by which model, when, and how well repeats agree: the share of pairs of answers to a row that name the same
        pairs = [first == second for of_row in places for first, second in combinations(of_row, 2)]
        days = sorted({answer.day for answer in answers})
        notes = {
            "models": dict(Counter(answer.model for answer in answers)),
            "fingerprints": dict(Counter(answer.fingerprint for answer in answers if answer.fingerprint)),
            "days": [days[0], days[-1]] if days else [],
            "calls": len(answers),
            **({"agreement": sum(pairs) / len(pairs)} if pairs else {}),
        }
        return Predicted(logits, cost=cost, unanswered=unanswered, notes=notes)


def form_of(config: PromptedSettings, instruction: Instruction) -> dict[str, Any]:
    """What a call says beside model and prompt: how it is to be answered, by a schema where that is asked for."""
    return config.form | ({FORMAT: schema_of(instruction.options)} if config.answers == SCHEMA else {})


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
