"""What the cells of a pack share, read from their specs once, and the attempt to train them.

A cell's ``spec`` names it: plain JSON that is hashed and stored. What trains a pack reads that JSON here and nowhere
else, into a record with a type for every field, and hands the record down.

For example, the recipe of three transfers onto one target has one ``metric`` and one number of ``epochs``, and three
``learning_rates``.

`Trained` is what one training of a cell leaves, whichever way it was trained; `parts_of` makes the rows that go into
it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adapters_store import Store
from harness.study.backbone import Backbone
from harness.study.cell import Cell
from harness.study.config import Loss, Training
from harness.study.device import Device
from harness.study.intermediates import FUSED, JOINT, WIDE, most_parents
from harness.study.systems import Span
from harness.training.inputs import Encoded, InputFormat, Rows, cut_counts, rows_of
from harness.training.tokenizer import Tokenizer, load_tokenizer
from tasks import metrics
from tasks.rationales import Marks
from tasks.splits.loading import Splits

if TYPE_CHECKING:
    from harness.training.objective import Objective

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

    def objective(self, labels: Labels, epoch: int) -> Objective:
        """What an epoch (from 1) minimises on training rows with these labels."""
        from harness.training.objective import Objective  # here, so that costs are planned without torch

        return Objective.of(self.loss, labels, self.outputs, class_weights=self.class_weights, epoch=epoch)

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
        attempts = []
        for number, fold in enumerate(self.splits.folds or (self.splits,)):
            siblings = {name: other.folds[number] if other.folds else other for name, other in self.siblings.items()}
            attempts.append(replace(self, splits=fold, run=f"fold-{number + 1}{self.run}", siblings=siblings))
        return attempts

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


PARTS = ("train", "validation", "test")
Labels = NDArray[np.int64] | NDArray[np.float64]


@dataclass(frozen=True)
class Part:
    """The encoded rows of one split, each as one or more windows, with their labels.

    Labels are class indices or real numbers ``[rows]``, or a 0 or 1 per class ``[rows, classes]``.
    """

    rows: Sequence[tuple[Encoded, ...]]
    labels: Labels

    def draw_windows(self, seed: int) -> list[Encoded]:
        """One window of every row, drawn where a row has more than one."""
        return [windows[i] for windows, i in zip(self.rows, self.draw_places(seed), strict=True)]

    def draw_places(self, seed: int) -> list[int]:
        """Which of its windows (from 0) is drawn of every row."""
        counts = np.array([len(windows) for windows in self.rows])
        if counts.max() == 1:
            return [0] * len(counts)
        chosen: list[int] = np.random.default_rng(seed).integers(counts).tolist()
        return chosen


def encoded(
    cell: Cell, backbone: Backbone, splits: Splits, names: Sequence[str] = PARTS
) -> tuple[Rows, dict[str, Part], Tokenizer]:
    """The rows of a cell, those of the named splits as token ids and labels too, and the tokenizer that made them."""
    rows, tokenizer = rows_of(cell, splits), load_tokenizer(backbone)
    form = InputFormat.of(cell.spec, tokenizer)
    parts = {}
    for name in names:
        examples = getattr(rows, name)
        parts[name] = Part(form.encode_all(examples), np.array([row.label for row in examples]))
    return rows, parts, tokenizer


def cuts_of(parts: Mapping[str, Part]) -> dict[str, dict[str, int]]:
    """How many rows of every split the backbone's length has cut."""
    return {name: cut_counts(part.rows) for name, part in parts.items()}


@dataclass(frozen=True)
class KeptEpoch:
    """What training leaves: the epoch that was kept (from 1), its validation score, and the history per epoch.

    A system without epochs has none that was kept, and no history.
    """

    best_epoch: int | None
    validation: float
    history: list[dict[str, float | int | None]]


@dataclass(frozen=True)
class Trained:
    """One training of a cell by whatever system: its rows, predictions and history, and how to save what it learned.

    ``logits`` are of the validation and test rows, ``[rows, outputs]``. ``cut`` counts per split what a length limit
    took from its rows, and ``proofs`` are facts that a record keeps of how it was trained; systems without tokens or
    without adapters leave them empty. ``spans`` are predicted rationales by split, and ``marks`` say of every test row
    which tokens of the backbone people mark and which the system. ``unanswered`` are ids, by split, of rows that count
    as wrong for want of an answer. ``lanes`` is how many cells were trained at once, ``earlier`` the wall and CPU
    seconds of interrupted runs.
    """

    save: Callable[[Path], None] | None
    rows: Rows
    logits: dict[str, NDArray[np.float32]]
    fitted: KeptEpoch
    cut: dict[str, dict[str, int]] = field(default_factory=dict)
    proofs: dict[str, Any] = field(default_factory=dict)
    spans: Mapping[str, Sequence[Span]] = field(default_factory=dict)
    marks: Sequence[tuple[Marks, Marks]] = ()
    unanswered: Mapping[str, Sequence[str]] = field(default_factory=dict)
    lanes: int = 1
    earlier: tuple[float, float] = (0.0, 0.0)

    def labels(self, part: str) -> Labels:
        """The labels of a split, as a Part has them."""
        return np.array([row.label for row in getattr(self.rows, part)])


def finite(number: float) -> float | None:
    """The number, or None where it is not finite: JSON has no NaN."""
    return number if math.isfinite(number) else None


# Collapsed cells: how they are recognised, without a look at test rows.


def is_constant(metric: str, logits: NDArray[np.float32]) -> bool:
    """Whether every row gets the same answer, or an answer that is no number."""
    answers = metrics.decisions(metric, logits)
    return bool((answers == answers[0]).all()) or not bool(np.isfinite(answers).all())


def collapsed_on_validation(metric: str, training: Trained) -> bool:
    """Whether a training diverged, as far as training and validation rows tell; test rows are never asked.

    A loss or a logit is no number, all validation rows get one answer, or their score is not above the floor: that of
    always giving the commonest answer of the training rows (0 for r).
    """
    labels, logits = training.labels("validation"), training.logits["validation"]
    losses_hold = all(epoch["train_loss"] is not None for epoch in training.fitted.history)
    if not losses_hold or not np.isfinite(logits).all() or is_constant(metric, logits):
        return True
    answer: ArrayLike | None = metrics.commonest(metric, training.labels("train"))
    return not metrics.score(metric, labels, logits) > metrics.floor(metric, labels, answer)
