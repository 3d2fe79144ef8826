"""A model that is asked: an instruction, perhaps some exemplars, and the row, by a server or by weights of a folder.

Xu and Jiang 2024, "Multi-dimensional Evaluation of Empathetic Dialog Responses", section 4.4: GPT-4 zero-shot, or with
one exemplar per class, drawn from the training rows once and the same for every row; three templates, of which 100
validation rows choose; three turns before and after the text. Nothing is trained.

To an OpenAI-compatible server texts leave the machine. A private task, and one whose licence says that its data are not
passed on, is refused unless ``allow`` names it. What was answered is kept beside the store and never asked again
(harness/systems/prompting). Weights of a folder rank the options instead, and nothing leaves.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.study.systems import Fit, Fitted, Leaving, Place, Predicted, Reads, check_fields, counted_wrong
from harness.systems.prompting.answers import Answers, Prices
from harness.systems.prompting.asked import SCHEMA, TEXT, Asked, settings_of
from harness.systems.prompting.asking import schema_bytes
from harness.systems.prompting.prompts import TEMPLATES, Shot, checked_template, prompt_of
from harness.systems.prompting.server import ADDRESS, checked_address, is_this_machine
from tasks import metrics
from tasks.errors import BadInput, BadStudy
from tasks.task import ASKED, Example, Instruction

if TYPE_CHECKING:
    from harness.systems.prompting.ranked import Ranked
    from tasks.task import Task

VERSION = 1
READS = Reads(labels=ASKED, instructions=True)
PACKAGES = ("torch", "transformers", "tokenizers", "numpy")
LOCAL = ("weights", "url", "in_flight", "timeout", "price_in", "price_out", "most_cost", "allow")
TRIED_ROWS = 100  # validation rows on which a template is chosen
ADDED = ("answers",)
LIMITS = ("max_tokens", "max_completion_tokens")
BYTES_OF_TOKEN = 4  # of English text, for plans
RANGES = {
    "shots": (0, 100),
    "temperature": (0, 2),
    "answer_tokens": (1, 4096),
    "repeats": (1, 100),
    "in_flight": (1, 256),
    "timeout": (0.001, 3600),
    "price_in": (0, 1000),
    "price_out": (0, 1000),
    "most_cost": (0, 1_000_000),
}
OF_BOTH = ("shots", "window", "templates", "weights")  # settings that mean something where weights answer
OWN_WEIGHTS = "weights of a folder"  # the model, where no server has it


@dataclass(frozen=True)
class Config:
    """What is asked, of whom, and what it may cost.

    ``weights`` is empty, or a folder of a causal language model or a T5 that answers here, in the place of a server's
    ``model``; its content is in the keys, its path is not. ``shots`` is how many exemplars each class has.
    ``templates`` are names (harness/systems/prompting/prompts.py) or texts with fields; of several, validation rows
    choose. ``limit`` is the field in which the server takes ``answer_tokens``. ``answers`` is ``text``, or
    ``schema`` where the server is to hold answers to a JSON schema of the options. ``repeats`` is how often everything
    is asked: the commonest answer counts, and how often answers agree is in the record.

    The others decide no answer and are in no key: the address of the server (the same model elsewhere is the same
    model), calls ``in_flight``, ``timeout`` in seconds, prices in dollars per 1,000 tokens, the most that the model may
    cost in this store in dollars (0: no cap), and the tasks whose texts may leave though nobody else may have them.
    """

    model: str = "gpt-4"
    weights: str = ""
    shots: int = 0
    window: tuple[int, int] = (3, 3)
    temperature: float = 0.0
    answer_tokens: int = 16
    answers: str = TEXT
    limit: str = "max_tokens"
    templates: tuple[str, ...] = tuple(TEMPLATES)
    repeats: int = 1
    url: str = ""
    in_flight: int = 32
    timeout: float = 60.0
    price_in: float = 0.0
    price_out: float = 0.0
    most_cost: float = 0.0
    allow: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check ranges, templates and address; ValueError naming the field."""
        if self.weights:
            self._check_weights()
        if not self.model or not self.model.isprintable():
            raise ValueError(f"model {self.model!r} is no name of a model")
        check_fields(self, {"limit": LIMITS, "answers": (TEXT, SCHEMA)}, RANGES)
        self._check_texts()

    def _check_weights(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name not in OF_BOTH and value not in (field.default, OWN_WEIGHTS):
                raise ValueError(
                    f"{field.name} {value!r} is of a server, and weights {self.weights!r} answer here; leave one of"
                    " them out"
                )
        object.__setattr__(self, "model", OWN_WEIGHTS)  # no other has answered

    def _check_texts(self) -> None:
        if self.most_cost and not (self.price_in or self.price_out):
            raise ValueError("most_cost needs price_in and price_out, in dollars per 1,000 tokens")
        if not self.templates:
            raise ValueError(f"templates is empty; name some of {', '.join(TEMPLATES)}, or write one")
        for template in self.templates:
            checked_template(template)
        if self.url:
            checked_address(self.url)

    @property
    def prices(self) -> Prices:
        """Dollars per 1,000 tokens."""
        return Prices(self.price_in, self.price_out)

    @property
    def address(self) -> str:
        """Of the server: the setting, or what the environment says; empty where neither does."""
        return self.url or os.environ.get(ADDRESS, "")


def check(config: Config, name: str, task: Task) -> None:
    """BadStudy where a task's texts may not leave the machine, and the study does not allow it by name."""
    if config.weights or task.id in config.allow:
        return
    if reason := task.dataset.why_kept():
        raise BadStudy(
            f"system {name!r} sends texts to a server, and task {task.id!r} may not leave: {reason}; leave it out"
            f" (system.{name}.tasks), or name it in system.{name}.allow if you may send it there"
        )


def leaving(
    config: Config, instruction: Instruction, parts: Mapping[str, Sequence[Example]], seed: int, answers: Path
) -> Leaving | None:
    """What a cell sends at most, None of weights; the longest template stands for that which is chosen."""
    if config.weights:
        return None
    shots, kept, settings = (
        _shots(config, instruction, parts["train"], seed),
        Answers(answers),
        settings_of(config, instruction),
    )
    rows, texts = [*parts["validation"], *parts["test"]], [checked_template(name) for name in config.templates]
    longest = max(texts, key=lambda text: sum(len(prompt_of(text, instruction, shots, row)) for row in rows))
    asked = [(longest, row, repeat) for row in rows for repeat in range(config.repeats)]
    asked += [(text, row, 0) for text in texts for row in _tried(config, parts["validation"], seed)]
    calls, ids = {}, set()
    for text, row, repeat in asked:
        prompt = prompt_of(text, instruction, shots, row)
        key = kept.key(config.model, prompt, settings, repeat)
        if key not in calls and kept.get(key) is None:
            tokens = (len(prompt.encode("utf-8", "replace")) + schema_bytes(settings)) / BYTES_OF_TOKEN
            calls[key] = tokens, config.prices.of(tokens, config.answer_tokens)
            ids |= {row.id, *(shot.row.id for shot in shots)}
    host = (checked_address(config.address).hostname or "") if config.address else ""
    return Leaving(host, is_this_machine(host), frozenset(ids), calls)


def identity(config: Config) -> dict[str, Any]:
    """The hashes of weights that answer here; BadBackbone where they cannot be used."""
    from harness.systems.decoders.weights import resolve_answering

    return {"weights": resolve_answering(config.weights).identity()} if config.weights else {}


class Prompted(Fitted):
    """A model with the template and the exemplars that it is asked with."""

    def __init__(
        self, config: Config, instruction: Instruction, shots: Sequence[Shot], place: Place, template: str = ""
    ) -> None:
        """A model that nothing has been asked; BadInput where it cannot be, for want of an address or of weights."""
        self.config, self.instruction, self.shots, self.template = config, instruction, shots, template
        self.model = _model(config, instruction, place)

    def choose(self, fit: Fit) -> None:
        """Take the only template, or that which does best on some validation rows; the first of equals."""
        self.template = self.config.templates[0]
        if not (rows := _tried(self.config, fit.validation, fit.seed)):
            return
        labels = np.array([row.label for row in rows])
        scores = {}
        for template in self.config.templates:
            predicted = self.model.predicted(rows, checked_template(template), self.shots, is_trial=True)
            scores[template] = metrics.score(fit.metric, labels, counted_wrong(predicted, labels))
        self.template = max(self.config.templates, key=lambda template: scores[template])

    def predict(self, rows: Sequence[Example]) -> Predicted:
        """What the model answers; the record names the template."""
        predicted = self.model.predicted(rows, checked_template(self.template), self.shots)
        return replace(predicted, notes={"template": self._name(self.template), **predicted.notes})

    def _name(self, template: str) -> str:
        return template if template in TEMPLATES else f"own, number {self.config.templates.index(template) + 1}"

    def save(self, folder: Path) -> None:
        """Write settings, instruction, template and the ids of exemplars: no text of a row, no address, no key."""
        folder.mkdir(parents=True, exist_ok=True)
        own = {"weights": self.config.weights} if self.config.weights else {}
        facts = {
            "config": {name: value for name, value in asdict(self.config).items() if name not in LOCAL} | own,
            "instruction": asdict(self.instruction),
            "template": self.template,
            "shots": [shot.row.id for shot in self.shots],
            **identity(self.config),
        }
        (folder / "prompted.json").write_text(json.dumps(facts), encoding="utf-8")


def fit(fit: Fit) -> Prompted:
    """Draw exemplars from the training rows, and choose the template by validation rows."""
    assert fit.instruction is not None  # a study is refused without (harness.study.systems)
    shots = _shots(fit.config, fit.instruction, fit.train, fit.seed)
    prompted = Prompted(fit.config, fit.instruction, shots, fit.place)
    prompted.choose(fit)
    fit.watch(1, 1)
    return prompted


def load(folder: Path, place: Place) -> Prompted:
    """What ``save`` has written; BadInput for other weights, or where it needs exemplars, whose texts no store has."""
    facts = json.loads((folder / "prompted.json").read_text(encoding="utf-8"))
    if facts["shots"]:
        raise BadInput(
            f"{folder}: this model is asked with exemplars, whose texts no store has; take a system with shots = 0"
        )
    settings: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else v for n, v in facts["config"].items()}
    table = facts["instruction"]
    instruction = Instruction(**{**table, "options": tuple(table["options"])})
    config = Config(**settings)
    if identity(config).get("weights") != facts.get("weights"):
        raise BadInput(f"{folder}: other weights answered than are in {config.weights} now; bring them back there")
    return Prompted(config, instruction, (), place, facts["template"])


def _model(config: Config, instruction: Instruction, place: Place) -> Asked | Ranked:
    """The server's model, or the weights of a folder; torch is loaded for these alone."""
    if not config.weights:
        return Asked(config, instruction, place)
    from harness.systems.prompting.ranked import Ranked

    return Ranked(config.weights, instruction, place)


def _tried(config: Config, rows: Sequence[Example], seed: int) -> list[Example]:
    """The validation rows on which a template is chosen; none where there is nothing to choose."""
    if len(config.templates) == 1:
        return []
    order = np.random.default_rng(seed).permutation(len(rows))[:TRIED_ROWS]
    return [rows[place] for place in sorted(order.tolist())]


def _shots(config: Config, instruction: Instruction, rows: Sequence[Example], seed: int) -> tuple[Shot, ...]:
    """``shots`` training rows of every class, as many as there are, in a drawn order."""
    if not config.shots:
        return ()
    rng, drawn = np.random.default_rng(seed), []
    for place, option in enumerate(instruction.options):
        own = [row for row in rows if row.label == place]
        drawn += [Shot(own[i], option) for i in rng.permutation(len(own))[: config.shots].tolist()]
    return tuple(drawn[i] for i in rng.permutation(len(drawn)).tolist())
