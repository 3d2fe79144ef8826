"""Micromodels of empathy: how near a reply comes to what annotators marked in others, and a sum of steps on top.

Lee, Kummerfeld, An and Mihalcea 2023, "Empathy Identification Systems are not Accurately Accounting for Context"; code:
MichiganNLP/micromodels. The rationales of the training rows are seeds, of every mechanism its own: of the task itself,
and of its ``siblings``. A feature of a reply is the largest cosine of any of its sentences to any seed of a mechanism,
and an explainable boosting machine predicts the level from these.

A training row's own rationales are left out of its features. The public code matches training rows with themselves,
and test rows with their own gold rationales, which nobody has of a new text: ``leak = "published"`` repeats that. Such
cells are flagged and never ranked. Rationales are predicted without it: sentences near enough to a seed of the task.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from harness.study.backbone import Backbone
from harness.study.device import Device
from harness.study.systems import NO_LEAK, Fit, Fitted, Kind, Place, Predicted, Reads, Settings, Source, Span
from harness.systems.micromodels.parts import (
    Floats,
    Machine,
    Seeds,
    SentenceVectors,
    chosen_threshold,
    encoder_of,
    feature,
    nearest,
    read,
    seeds_of,
)
from tasks.errors import BadInput
from tasks.fields import Range
from tasks.task import Example

OWN = "own"  # the mechanism of the task itself, beside those of siblings
Cosine = Annotated[float, Range(-1, 1)]
Thresholds = Annotated[tuple[Cosine, ...], lambda values: "" if values else "names no cosine"]


@dataclass(frozen=True)
class MicromodelsSettings(Settings):
    """``encoder`` is named as a backbone is: ``minilm``, or a folder of sentence-transformers.

    ``siblings`` are tasks of the same rows whose rationales are seeds, too; the task itself may be among them.
    ``thresholds`` are cosines from which on a sentence is marked; of several, validation chooses. The paper says .7,
    its code .75. ``bags`` is how many machines are averaged. ``leak`` is ``none``, or ``published``: see above.
    """

    encoder: str = "minilm"
    siblings: tuple[str, ...] = ()
    thresholds: Thresholds = (0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)
    bags: Annotated[int, Range(1, 1000)] = 14
    leak: Literal["none", "published"] = NO_LEAK


@dataclass(frozen=True)
class Micromodels(Fitted):
    """Seeds of every mechanism, the task's own first, a machine on their features, and the threshold of rationales."""

    config: MicromodelsSettings
    encoder: Backbone
    device: Device
    mechanisms: Mapping[str, Seeds]
    machine: Machine
    threshold: float

    def predict(self, rows: Sequence[Example]) -> Predicted:
        """Levels by the training rows' seeds, and the sentences that are near enough to one of the task's own."""
        return self._predicted(rows, self.mechanisms)

    def leaked(self, rows: Sequence[Example], siblings: Mapping[str, Sequence[Example]]) -> Predicted:
        """The same with levels by the rationales of these rows themselves, as in the public code."""
        every = {OWN: rows, **siblings}
        seeds = {name: seeds_of(every[name], self.encoder, self.device) for name in self.mechanisms}
        return self._predicted(rows, seeds)

    def _predicted(self, rows: Sequence[Example], mechanisms: Mapping[str, Seeds]) -> Predicted:
        sentences, seeds = read(rows, self.encoder, self.device), self.mechanisms[OWN]
        logits = self.machine.logits(features(len(rows), sentences, mechanisms)).astype(np.float32)
        near, spans = nearest(sentences, seeds), []
        for number in np.flatnonzero(near.cosines >= self.threshold).tolist():
            seed, (start, end) = int(near.seeds[number]), sentences.places[number]
            source = Source(seeds.ids[seed], int(seeds.places[seed, 0]), int(seeds.places[seed, 1]))
            spans.append(Span(int(sentences.rows[number]), start, end, float(near.cosines[number]), source))
        return Predicted(logits, spans)

    def save(self, folder: Path) -> None:
        """Write the seeds' vectors, rows and places, the machine and the threshold."""
        folder.mkdir(parents=True, exist_ok=True)
        arrays: dict[str, NDArray[Any]] = {}
        for number, seeds in enumerate(self.mechanisms.values()):
            arrays |= {f"vectors_{number}": seeds.vectors, f"places_{number}": seeds.places}
        save_file(arrays, folder / "seeds.safetensors")
        facts = {
            "config": asdict(self.config),
            "encoder": self.encoder.identity(),
            "mechanisms": {name: seeds.ids for name, seeds in self.mechanisms.items()},
            "threshold": self.threshold,
            "machine": self.machine.as_json(),
        }
        (folder / "micromodels.json").write_text(json.dumps(facts), encoding="utf-8")


def features(
    rows: int, sentences: SentenceVectors, mechanisms: Mapping[str, Seeds], left_out: Sequence[str] = ()
) -> Floats:
    """A cosine per mechanism ``[rows, mechanisms]``; ``left_out`` as ``nearest`` has it."""
    columns = [nearest(sentences, seeds, left_out).cosines for seeds in mechanisms.values()]
    return np.stack([feature(sentences, cosines, rows) for cosines in columns], axis=1)


class MicromodelsKind(Kind[MicromodelsSettings]):
    """Rationales of training rows, and a machine on what comes near to them."""

    reads = Reads(
        rationales=True,
        siblings=True,
        labels=("binary", "multiclass", "ordinal"),
        package="interpret",
        extra="micromodels",
    )
    config = MicromodelsSettings
    packages = ("adapters", "torch", "transformers", "tokenizers", "numpy", "interpret-core")
    smoke: Mapping[str, Any] = {"thresholds": (-1.0,)}

    def identity(self, config: MicromodelsSettings) -> dict[str, Any]:
        """The encoder's hashes, which enter the keys; BadBackbone where it cannot be had."""
        return {"encoder": encoder_of(config.encoder).identity()}

    def fit(self, fit: Fit) -> Micromodels:
        """Seeds of the training rows of the task and its siblings, and what they teach; BadInput without any."""
        if absent := set(range(fit.label.n_outputs)) - {int(row.label) for row in fit.train}:  # type: ignore[arg-type]
            raise BadInput(
                f"micromodels: no training row has the class {fit.label.classes[min(absent)]!r}; give more rows"
            )
        config, device, encoder = fit.config, fit.place.device, encoder_of(fit.config.encoder)
        siblings = {name: other.train for name, other in fit.siblings.items() if tuple(other.train) != tuple(fit.train)}
        mechanisms = {name: seeds_of(rows, encoder, device) for name, rows in {OWN: fit.train, **siblings}.items()}
        for name, seeds in mechanisms.items():
            if not seeds.ids:
                of = "the task" if name == OWN else f"sibling {name!r}"
                raise BadInput(
                    f"micromodels: none of the {len(fit.train)} training rows of {of} has a rationale, and"
                    " rationales are what it learns from; give more rows, or leave the system out"
                    " (docs/systems-beside-adapters.md)"
                )
        left_out = [row.id for row in fit.train] if config.leak == NO_LEAK else ()
        cosines = features(len(fit.train), read(fit.train, encoder, device), mechanisms, left_out)
        levels = np.array([row.label for row in fit.train])
        machine = Machine.fitted(cosines, levels, bags=config.bags, seed=fit.seed)
        sentences = read(fit.validation, encoder, device)
        near = nearest(sentences, mechanisms[OWN]).cosines
        threshold = chosen_threshold(config.thresholds, fit.validation, sentences, near)
        fit.watch(1, 1)
        return Micromodels(config, encoder, device, mechanisms, machine, threshold)

    def load(self, folder: Path, place: Place) -> Micromodels:
        """What ``save`` has written; BadInput if the encoder is another here."""
        facts = json.loads((folder / "micromodels.json").read_text(encoding="utf-8"))
        config = self.configured(facts["config"], str(folder))
        encoder = encoder_of(config.encoder)
        if odd := encoder.unlike(facts["encoder"]):
            raise BadInput(
                f"{folder}: micromodels of another encoder than {config.encoder!r} is here ({odd}); get its own"
            )
        arrays = load_file(folder / "seeds.safetensors")
        mechanisms = {
            name: Seeds(arrays[f"vectors_{number}"], tuple(ids), arrays[f"places_{number}"])
            for number, (name, ids) in enumerate(facts["mechanisms"].items())
        }
        machine = Machine.of_json(facts["machine"])
        return Micromodels(config, encoder, place.device, mechanisms, machine, facts["threshold"])
