"""Cells that came to nothing: how they are told, and the one further attempt that a study may allow them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from harness.cell import Cell
from harness.training.trained import Trained
from tasks import metrics

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
