"""What the cells of a pack share, read from their specs once, and the attempt to train them.

A cell's ``spec`` names it: plain JSON that is hashed and stored. What trains a pack reads that JSON here and nowhere
else, into a record with a type for every field, and hands the record down.

For example, the recipe of three transfers onto one target has one ``metric`` and one number of ``epochs``, and three
``learning_rates``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from adapters_store import Store
from harness.study.backbones.backbone import Backbone
from harness.study.cell import Cell
from harness.study.config import Loss, Training
from harness.study.device import Device
from harness.study.intermediates.merged import FUSED, JOINT, WIDE, most_parents
from tasks.splits.loading import Splits

SHARE_OF_RATE = 1 / 3  # of the learning rate of the first attempt
Watch = Callable[[str, int, int], None]  # what is trained, epoch, epochs


@dataclass(frozen=True)
class Recipe:
    """What the cells of a pack share, and the learning rate, weight decay and dropout that each has of its own.

    ``noise`` names each cell's own stream of dropout; without it all cells share one. ``adapter`` is None where a whole
    model is trained, ``composition`` where nothing is stacked; ``outputs`` is the number of logits of a row.
    ``start`` says what an adapter's first weights are drawn for, ``below`` how many adapters lie side by side in the
    widest intermediate; ``rule`` says how a merged one is made, and ``fusion_rate`` how fast a fusion learns.
    ``planned_device`` is the family of device (``cpu``, ``cuda``) where that decides numbers, else None.
    """

    target: str
    seed: int
    metric: str
    epochs: int
    batch_size: int
    warmup: float
    clip: float
    class_weights: str
    learning_rates: Sequence[float]
    weight_decays: Sequence[float]
    noise: Sequence[str] = ()
    loss: Loss = field(default_factory=Loss)
    kind: str = "multiclass"
    outputs: int = 2
    adapter: Mapping[str, Any] | None = None
    composition: str | None = None
    start: str = "task"
    below: int = 1
    rule: str = ""
    fusion_rate: float | None = None
    precision: str = "fp32"
    retries_collapsed: bool = False
    planned_device: str | None = None

    @classmethod
    def of(cls, cells: Sequence[Cell]) -> Recipe:
        """The recipe of cells of one target, seed and setting; the first tells what all share.

        What the spec of a system that is no adapter leaves out has its default here.
        """
        first, spec = cells[0], cells[0].spec
        trainings = [Training(**cell.spec.get("training", {})) for cell in cells]
        shared, label = trainings[0], spec["label"]
        return cls(
            target=first.target,
            seed=first.seed,
            metric=spec["metric"],
            epochs=shared.epochs,
            batch_size=shared.batch_size,
            warmup=shared.warmup,
            clip=shared.clip,
            class_weights=spec.get("class_weights", "none"),
            learning_rates=[training.learning_rate for training in trainings],
            weight_decays=[training.weight_decay for training in trainings],
            loss=Loss(**spec.get("loss", {})),
            noise=() if spec.get("shared_noise", True) else [cell.noise for cell in cells],
            kind=label["kind"],
            outputs=len(label["classes"]) or 1,
            adapter=spec.get("adapter"),
            composition=spec.get("composition"),
            start=spec.get("start", "task"),
            below=max(side_by_side(cell.merge) for cell in cells),
            rule=first.rule or "",
            fusion_rate=(first.merge or {}).get("learning_rate"),
            precision=spec.get("precision", "fp32"),
            retries_collapsed=spec.get("retry_collapsed", False),
            planned_device=(spec.get("library") or {}).get("device"),
        )

    @property
    def is_stacked(self) -> bool:
        """True where the target's adapter stands on another one, frozen or trained with it."""
        return self.composition in ("stack", "stack-trainable")

    @property
    def trains_intermediate(self) -> bool:
        """True where the intermediate of a stack is trained with the target's adapter."""
        return self.composition == "stack-trainable"

    @property
    def fuses(self) -> bool:
        """True where parents that are adapters of their own are fused by attention."""
        return self.rule == FUSED

    @property
    def keeps_intermediate(self) -> bool:
        """True where no other record has the intermediate of a stack, for it was trained in the cell itself."""
        return self.trains_intermediate or self.rule == JOINT

    def only(self, lanes: Sequence[int]) -> Recipe:
        """The recipe of some of the cells, by their places."""
        return replace(
            self,
            learning_rates=[self.learning_rates[lane] for lane in lanes],
            weight_decays=[self.weight_decays[lane] for lane in lanes],
            noise=[self.noise[lane] for lane in lanes] if self.noise else (),
        )

    def at_smaller_rates(self) -> Recipe:
        """The same recipe for a second attempt."""
        of_fusion = None if self.fusion_rate is None else smaller(self.fusion_rate)
        return replace(self, learning_rates=[smaller(rate) for rate in self.learning_rates], fusion_rate=of_fusion)


def side_by_side(merge: Mapping[str, Any] | None) -> int:
    """How many adapters lie side by side in the intermediate of a cell."""
    return most_parents(merge) if merge and merge["rule"] in WIDE else 1


def smaller(rate: float) -> float:
    """The learning rate of a second attempt."""
    return rate * SHARE_OF_RATE


@dataclass(frozen=True)
class Attempt:
    """Cells of one target, seed and setting that are to be trained, and everything that this takes.

    ``splits`` are those of the task, or of one of its folds, and ``siblings`` those of tasks of the same rows that its
    system reads. ``run`` tells its checkpoints in the store from those of other folds and of a second attempt.
    """

    cells: Sequence[Cell]
    recipe: Recipe
    backbone: Backbone
    splits: Splits
    store: Store
    watch: Watch
    device: Device
    run: str = ""
    siblings: Mapping[str, Splits] = field(default_factory=dict)

    def folds(self) -> list[Attempt]:
        """An attempt for every fold of the task's splits, or for the splits themselves."""
        return [
            replace(self, splits=fold, run=f"fold-{number}{self.run}", siblings=self._siblings_in(number - 1))
            for number, fold in enumerate(self.splits.folds or (self.splits,), start=1)
        ]

    def _siblings_in(self, fold: int) -> Mapping[str, Splits]:
        return {name: splits.folds[fold] if splits.folds else splits for name, splits in self.siblings.items()}

    def only(self, lanes: Sequence[int]) -> Attempt:
        """The attempt at some of the cells, by their places."""
        return replace(self, cells=[self.cells[lane] for lane in lanes], recipe=self.recipe.only(lanes))

    def again(self, lanes: Sequence[int]) -> Attempt:
        """The second attempt at some of the cells, by their places, at smaller learning rates."""
        attempt = self.only(lanes)
        return replace(attempt, recipe=attempt.recipe.at_smaller_rates(), run="-again")

    @property
    def label(self) -> str:
        """The cells in words, for progress and messages."""
        first, *others = self.cells
        return first.label + (f" and {len(others)} more lanes" if others else "")
