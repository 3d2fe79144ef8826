"""A model that is asked: an instruction, perhaps some exemplars, and the row, by a server or by weights of a folder.

Xu and Jiang 2024, "Multi-dimensional Evaluation of Empathetic Dialog Responses", section 4.4: GPT-4 zero-shot, or with
one exemplar per class, drawn from the training rows once and the same for every row; three templates, of which 100
validation rows choose; three turns before and after the text. Nothing is trained.

To an OpenAI-compatible server texts leave the machine. A private task, and one whose licence says that its data are not
passed on, is refused unless ``allow`` names it. What was answered is kept beside the store and never asked again
(harness/systems/prompted). Weights of a folder rank the options instead, and nothing leaves.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.study.systems import Fit, Fitted, Kind, Leaving, Place, Predicted, Reads, counted_wrong
from harness.systems.prompted.asked import PromptedSettings, ServedModel, form_of
from harness.systems.prompted.asking import LOCAL_SETTINGS, Answers, likely_tokens
from harness.systems.prompted.prompts import TEMPLATES, Shot, checked_template, prompt_of
from harness.systems.prompted.server import is_this_machine
from harness.systems.weights import asked_identity, resolve_answering
from tasks import metrics
from tasks.errors import BadInput, BadStudy
from tasks.task import ASKED, Example, Instruction, Task

if TYPE_CHECKING:
    from harness.systems.prompted.ranked import Ranked

LOCAL = ("weights", *LOCAL_SETTINGS)
TRIED_ROWS = 100  # validation rows on which a template is chosen


class Prompted(Fitted):
    """A model with the template and the exemplars that it is asked with."""

    def __init__(
        self,
        config: PromptedSettings,
        instruction: Instruction,
        shots: Sequence[Shot],
        place: Place,
        template: str = "",
    ) -> None:
        """A model that nothing has been asked; BadInput where it cannot be, for want of an address or of weights."""
        self.instruction: Instruction
        self.config, self.instruction, self.shots, self.template = config, instruction, shots, template
        self.model: ServedModel | Ranked
        if not config.weights:
            self.model = ServedModel(config, instruction, place.answers)
            return
        from harness.systems.prompted.ranked import Ranked  # which loads torch

        self.model = Ranked(config, instruction, place)

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
        name, every = self.template, self.config.templates
        name = name if name in TEMPLATES else f"own, number {every.index(name) + 1}"
        return replace(predicted, notes={"template": name, **predicted.notes})

    def asked_by(self, instruction: Instruction, classes: Sequence[int]) -> Prompted:
        """The same model, template and exemplars, with other words or another order of options."""
        option_of_class = {place: option for place, option in zip(classes, instruction.options, strict=True)}
        places = {option: place for place, option in enumerate(self.instruction.options)}
        shots = [shot._replace(option=option_of_class[places[shot.option]]) for shot in self.shots]
        other = copy.copy(self)
        other.instruction, other.shots, other.model = instruction, shots, self.model.asked_by(instruction)
        return other

    def save(self, folder: Path) -> None:
        """Write settings, instruction, template and the ids of exemplars: no text of a row, no address, no key."""
        folder.mkdir(parents=True, exist_ok=True)
        own = {"weights": self.config.weights} if self.config.weights else {}
        facts = {
            "config": {name: value for name, value in asdict(self.config).items() if name not in LOCAL} | own,
            "instruction": asdict(self.instruction),
            "template": self.template,
            "shots": [shot.row.id for shot in self.shots],
            **_identity(self.config),
        }
        (folder / "prompted.json").write_text(json.dumps(facts), encoding="utf-8")


class PromptedKind(Kind[PromptedSettings]):
    """A model that is asked, by a server or by weights of a folder."""

    reads = Reads(labels=ASKED, instructions=True)
    config = PromptedSettings
    packages = ("torch", "transformers", "tokenizers", "numpy")
    local = LOCAL
    added = ("answers", "ranking", "chat")

    def check(self, config: PromptedSettings, name: str, task: Task) -> None:
        """BadStudy where a task's texts may not leave the machine, and the study does not allow it by name."""
        if config.weights or task.id in config.allow:
            return
        if reason := task.dataset.why_kept():
            raise BadStudy(
                f"system {name!r} sends texts to a server, and task {task.id!r} may not leave: {reason}; leave it out"
                f" (system.{name}.tasks), or name it in system.{name}.allow if you may send it there"
            )

    def leaving(
        self,
        config: PromptedSettings,
        instruction: Instruction,
        parts: Mapping[str, Sequence[Example]],
        seed: int,
        answers: Path,
    ) -> Leaving | None:
        """What a cell sends at most, None of weights; the longest template stands for that which is chosen."""
        if config.weights:
            return None
        shots = _shots(config, instruction, parts["train"], seed)
        kept = Answers(answers)
        form = form_of(config, instruction)
        rows = [*parts["validation"], *parts["test"]]
        texts = [checked_template(name) for name in config.templates]
        longest = max(texts, key=lambda text: sum(len(prompt_of(text, instruction, shots, row)) for row in rows))
        asked = [(longest, row, repeat) for row in rows for repeat in range(config.repeats)]
        asked += [(text, row, 0) for text in texts for row in _tried(config, parts["validation"], seed)]
        calls, ids = {}, set()
        for text, row, repeat in asked:
            prompt = prompt_of(text, instruction, shots, row)
            key = kept.key(config.model, prompt, form, repeat)
            if key not in calls and kept.get(key) is None:
                tokens = likely_tokens(prompt, form)
                calls[key] = tokens, config.dollars(tokens, config.answer_tokens)
                ids |= {row.id, *(shot.row.id for shot in shots)}
        return Leaving(config.host, is_this_machine(config.host), frozenset(ids), calls)

    def identity(self, config: PromptedSettings) -> dict[str, Any]:
        """The hashes of weights that answer here; BadBackbone where they cannot be used."""
        return _identity(config)

    def fit(self, fit: Fit) -> Prompted:
        """Draw exemplars from the training rows, and choose the template by validation rows."""
        assert fit.instruction is not None  # a study is refused without (harness.study.systems)
        shots = _shots(fit.config, fit.instruction, fit.train, fit.seed)
        prompted = Prompted(fit.config, fit.instruction, shots, fit.place)
        prompted.choose(fit)
        fit.watch(1, 1)
        return prompted

    def load(self, folder: Path, place: Place) -> Prompted:
        """What ``save`` has written; BadInput for other weights, or for exemplars, whose texts no store has."""
        facts = json.loads((folder / "prompted.json").read_text(encoding="utf-8"))
        if facts["shots"]:
            raise BadInput(
                f"{folder}: this model is asked with exemplars, whose texts no store has; take a system with shots = 0"
            )
        config = self.configured({**facts["config"], **place.local}, str(folder))
        table = facts["instruction"]
        instruction = Instruction(**{**table, "options": tuple(table["options"])})
        if any(facts.get(part) != value for part, value in _identity(config).items()):
            raise BadInput(f"{folder}: other weights answered than are in {config.weights} now; bring them back there")
        return Prompted(config, instruction, (), place, facts["template"])


def _identity(config: PromptedSettings) -> dict[str, Any]:
    return asked_identity(resolve_answering(config.weights), chat=config.chat) if config.weights else {}


def _tried(config: PromptedSettings, rows: Sequence[Example], seed: int) -> list[Example]:
    """The validation rows on which a template is chosen; none where there is nothing to choose."""
    if len(config.templates) == 1:
        return []
    order = np.random.default_rng(seed).permutation(len(rows))[:TRIED_ROWS]
    return [rows[place] for place in sorted(order.tolist())]


def _shots(config: PromptedSettings, instruction: Instruction, rows: Sequence[Example], seed: int) -> tuple[Shot, ...]:
    """``shots`` training rows of every class, as many as there are, in a drawn order."""
    if not config.shots:
        return ()
    rng, drawn = np.random.default_rng(seed), []
    for place, option in enumerate(instruction.options):
        own = [row for row in rows if row.label == place]
        drawn += [Shot(own[i], option) for i in rng.permutation(len(own))[: config.shots].tolist()]
    return tuple(drawn[i] for i in rng.permutation(len(drawn)).tolist())
