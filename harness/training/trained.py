"""What one training of a cell leaves, whichever way it was trained, and the rows that go into it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from harness.study.backbones.backbone import Backbone
from harness.study.cell import Cell
from harness.training.inputs import Encoded, InputFormat, Rows, rows_of
from harness.training.model import load_tokenizer
from tasks import metrics
from tasks.splits.loading import Splits

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True)
class Part:
    """The encoded rows of one split, each as one or more windows, with their labels.

    Labels are class indices or real numbers ``[rows]``, or a 0 or 1 per class ``[rows, classes]``.
    """

    rows: Sequence[tuple[Encoded, ...]]
    labels: NDArray[np.int64] | NDArray[np.float64]

    def one_window(self, seed: int) -> list[Encoded]:
        """One window of every row, drawn where a row has more than one."""
        counts = np.array([len(windows) for windows in self.rows])
        if counts.max() == 1:
            return [windows[0] for windows in self.rows]
        chosen = np.random.default_rng(seed).integers(counts)
        return [windows[i] for windows, i in zip(self.rows, chosen, strict=True)]


@dataclass(frozen=True)
class Fitted:
    """What training leaves: the epoch that was kept (from 1), its validation score, and the history per epoch."""

    best_epoch: int
    validation: float
    history: list[dict[str, float | int | None]]


def finite(value: float) -> float | None:
    """The value, or None where it is not a number: JSON has no NaN."""
    return value if math.isfinite(value) else None


PARTS = ("train", "validation", "test")
Watch = Callable[[str, int, int], None]  # what is trained, epoch, epochs


@dataclass(frozen=True)
class Trained:
    """One training of a cell: how to save its adapter and head, its rows, predictions, history and proofs.

    ``lanes`` is how many cells were trained at once, ``earlier`` the wall and CPU seconds of interrupted runs.
    """

    save: Callable[[Path], None] | None
    rows: Rows
    parts: dict[str, Part]
    logits: dict[str, NDArray[np.float32]]
    fitted: Fitted
    checked: dict[str, Any]
    lanes: int = 1
    earlier: tuple[float, float] = (0.0, 0.0)


def encoded(
    cell: Cell, backbone: Backbone, splits: Splits, names: Sequence[str] = PARTS
) -> tuple[Rows, dict[str, Part], PreTrainedTokenizerBase]:
    """The rows of a cell, those of the named splits as token ids and labels too, and the tokenizer that made them."""
    rows, spec = rows_of(cell, splits), cell.spec
    tokenizer = load_tokenizer(backbone)
    form = InputFormat(tokenizer, spec["input_format"], spec["tags"] or "none", spec["max_tokens"], spec["truncation"])
    parts = {}
    for name in names:
        examples = getattr(rows, name)
        parts[name] = Part([form.encode(row) for row in examples], np.array([row.label for row in examples]))
    return rows, parts, tokenizer


# Cells that came to nothing: how they are told, and the one further attempt that a study may allow them.

SHARE_OF_RATE = 1 / 3  # of the learning rate of the first attempt


def is_constant(metric: str, logits: NDArray[np.float32]) -> bool:
    """Whether every row gets one and the same answer, or an answer that is no number."""
    answers = metrics.decisions(metric, logits)
    return bool((answers == answers[0]).all()) or not bool(np.isfinite(answers).all())


def collapsed_on_validation(metric: str, one: Trained) -> bool:
    """Whether a training diverged, as far as training and validation rows tell; test rows are never asked.

    A loss or a logit is no number, all validation rows get one answer, or their score is not above the floor: that of
    always giving the commonest answer of the training rows (0 for r).
    """
    labels, logits = one.parts["validation"].labels, one.logits["validation"]
    losses_hold = all(epoch["train_loss"] is not None for epoch in one.fitted.history)
    if not losses_hold or not np.isfinite(logits).all() or is_constant(metric, logits):
        return True
    answer: ArrayLike | None = metrics.commonest(metric, one.parts["train"].labels)
    return not metrics.score(metric, labels, logits) > metrics.floor(metric, labels, answer)


def with_smaller_rate(cell: Cell) -> Cell:
    """The same cell, by the same key, to be trained once more."""
    training: dict[str, Any] = dict(cell.spec["training"])
    return replace(
        cell,
        spec={**cell.spec, "training": {**training, "learning_rate": training["learning_rate"] * SHARE_OF_RATE}},
    )
