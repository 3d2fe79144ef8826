"""What one training of a cell leaves, whichever way it was trained, and the rows that go into it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from harness.study.backbones.backbone import Backbone
from harness.study.cell import Cell
from harness.study.systems import Span
from harness.training.inputs import Encoded, InputFormat, Rows, cut_counts, rows_of
from harness.training.tokens.tokenizer import Tokenizer, load_tokenizer
from tasks import metrics
from tasks.rationales import Marks
from tasks.splits.loading import Splits

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
class Fitted:
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
    fitted: Fitted
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
