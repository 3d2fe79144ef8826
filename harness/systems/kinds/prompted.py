"""A model that is asked: an instruction, perhaps some exemplars, and the row, sent to an OpenAI-compatible server.

Xu and Jiang 2024, "Multi-dimensional Evaluation of Empathetic Dialog Responses", section 4.4: GPT-4 zero-shot, or with
one exemplar per class, drawn from the training rows once and the same for every row; three templates, of which 100
validation rows choose; three turns before and after the text. Nothing is trained.

Texts leave the machine. A private task, and one whose licence says that its data are not passed on, is refused unless
``allow`` names it. What was answered is kept beside the store and never asked again (harness/systems/prompting).
"""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.study.systems import Fit, Fitted, Leaving, Place, Predicted, Reads, check_fields, counted_wrong
from harness.systems.prompting.answers import Answer, Answers, cost_of
from harness.systems.prompting.asking import likely_tokens
from harness.systems.prompting.prompts import TEMPLATES, Shot, checked_template, option_of, prompt_of
from harness.systems.prompting.server import is_this_machine
from harness.systems.prompting.settings import LOCAL_SETTINGS, CallSettings
from tasks import metrics
from tasks.errors import BadInput, BadStudy
from tasks.task import ASKED, Example, Instruction

if TYPE_CHECKING:
    from tasks.task import Task

VERSION = 1
READS = Reads(labels=ASKED, instructions=True)
LOCAL = LOCAL_SETTINGS
TRIED_ROWS = 100  # validation rows on which a template is chosen
SMOOTHING = 0.5  # votes added to every class, so that one that no repeat names has a logarithm
FIRST = 1e-3  # of a vote that the first repeat counts more, so that it decides where votes are equal


@dataclass(frozen=True)
class Config(CallSettings):
    """What is asked, of whom, and what it may cost (CallSettings).

    ``shots`` is how many exemplars each class has. ``templates`` are names (harness/systems/prompting/prompts.py) or
    texts with fields; of several, validation rows choose. Of several repeats the commonest answer counts, and how often
    answers agree is in the record.
    """

    shots: int = 0
    window: tuple[int, int] = (3, 3)
    templates: tuple[str, ...] = tuple(TEMPLATES)

    def __post_init__(self) -> None:
        """Check ranges, templates and address; ValueError naming the field."""
        super().__post_init__()
        check_fields(self, {}, {"shots": (0, 100)})
        if not self.templates:
            raise ValueError(f"templates is empty; name some of {', '.join(TEMPLATES)}, or write one")
        for template in self.templates:
            checked_template(template)


def check(config: Config, name: str, task: Task) -> None:
    """BadStudy where a task's texts may not leave the machine, and the study does not allow it by name."""
    if task.id in config.allow:
        return
    if reason := task.dataset.why_kept():
        raise BadStudy(
            f"system {name!r} sends texts to a server, and task {task.id!r} may not leave: {reason}; leave it out"
            f" (system.{name}.tasks), or name it in system.{name}.allow if you may send it there"
        )


def leaving(
    config: Config, instruction: Instruction, parts: Mapping[str, Sequence[Example]], seed: int, answers: Path
) -> Leaving:
    """What a cell sends at most; the longest template stands for that which is chosen."""
    shots, kept = _shots(config, instruction, parts["train"], seed), Answers(answers)
    rows, texts = [*parts["validation"], *parts["test"]], [checked_template(name) for name in config.templates]
    longest = max(texts, key=lambda text: sum(len(prompt_of(text, instruction, shots, row)) for row in rows))
    asked = [(longest, row, repeat) for row in rows for repeat in range(config.repeats)]
    asked += [(text, row, 0) for text in texts for row in _tried(config, parts["validation"], seed)]
    calls, ids = {}, set()
    for text, row, repeat in asked:
        prompt = prompt_of(text, instruction, shots, row)
        key = kept.key(config.model, prompt, config.said, repeat)
        if key not in calls and kept.get(key) is None:
            tokens = likely_tokens(prompt)
            calls[key] = tokens, config.prices.of(tokens, config.answer_tokens)
            ids |= {row.id, *(shot.row.id for shot in shots)}
    return Leaving(config.host, is_this_machine(config.host), frozenset(ids), calls)


class Prompted(Fitted):
    """A model with the template and the exemplars that it is asked with."""

    def __init__(
        self, config: Config, instruction: Instruction, shots: Sequence[Shot], place: Place, template: str = ""
    ) -> None:
        """A model that nothing has been asked; BadInput where no address or folder of answers is known."""
        self.instruction: Instruction
        self.config, self.instruction, self.shots, self.template = config, instruction, shots, template
        self.asker = config.asker(place.answers)

    def choose(self, fit: Fit) -> None:
        """Take the only template, or that which does best on some validation rows; the first of equals."""
        self.template = self.config.templates[0]
        if not (rows := _tried(self.config, fit.validation, fit.seed)):
            return
        labels = np.array([row.label for row in rows])
        scores = {}
        for template in self.config.templates:
            predicted = self._predicted(rows, template, repeats=1)
            scores[template] = metrics.score(fit.metric, labels, counted_wrong(predicted, labels))
        self.template = max(self.config.templates, key=lambda template: scores[template])

    def predict(self, rows: Sequence[Example]) -> Predicted:
        """The option that most repeats name, as logarithms of shares of votes."""
        return self._predicted(rows, self.template, self.config.repeats)

    def _predicted(self, rows: Sequence[Example], template: str, repeats: int) -> Predicted:
        text = checked_template(template)
        prompts = [prompt_of(text, self.instruction, self.shots, row) for row in rows]
        answers = self.asker.ask(prompts, repeats)
        options = self.instruction.options
        places = [[option_of(answer.text, options) for answer in own] for own in answers]
        logits = np.stack([_logits(own, len(options)) for own in places]) if places else np.zeros((0, len(options)))
        nameless = np.array([all(place is None for place in own) for own in places], dtype=bool)
        notes = {"template": self._name(template), **_notes([answer for own in answers for answer in own], places)}
        cost = cost_of([answer for own in answers for answer in own], self.config.prices)
        return Predicted(logits.astype(np.float32), cost=cost, unanswered=nameless, notes=notes)

    def asked_by(self, instruction: Instruction, classes: Sequence[int]) -> Prompted:
        """The same model, template and exemplars, with other words or another order of options."""
        option_of_class = {place: option for place, option in zip(classes, instruction.options, strict=True)}
        places = {option: place for place, option in enumerate(self.instruction.options)}
        shots = [shot._replace(option=option_of_class[places[shot.option]]) for shot in self.shots]
        other = copy.copy(self)
        other.instruction, other.shots = instruction, shots
        return other

    def _name(self, template: str) -> str:
        return template if template in TEMPLATES else f"own, number {self.config.templates.index(template) + 1}"

    def save(self, folder: Path) -> None:
        """Write settings, instruction, template and the ids of exemplars: no text of a row, no address, no key."""
        folder.mkdir(parents=True, exist_ok=True)
        facts = {
            "config": {name: value for name, value in asdict(self.config).items() if name not in LOCAL},
            "instruction": asdict(self.instruction),
            "template": self.template,
            "shots": [shot.row.id for shot in self.shots],
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
    """What ``save`` has written; BadInput where it needs exemplars, whose texts are not stored."""
    facts = json.loads((folder / "prompted.json").read_text(encoding="utf-8"))
    if facts["shots"]:
        raise BadInput(
            f"{folder}: this model is asked with exemplars, whose texts no store has; take a system with shots = 0"
        )
    settings: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else v for n, v in facts["config"].items()}
    try:
        config = Config(**{**settings, **place.local})
    except ValueError as problem:
        raise BadInput(f"{folder}: {problem}") from None
    table = facts["instruction"]
    instruction = Instruction(**{**table, "options": tuple(table["options"])})
    return Prompted(config, instruction, (), place, facts["template"])


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
