"""Losses: class weights, the weighted loss of one cell, and the summed losses of all lanes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from harness.training.tensors import lanes_of


def balanced_weights(labels: NDArray[np.int64] | NDArray[np.float64]) -> Tensor:
    """Weights n / (C n_c) of classes ``[classes]``, or with several labels a row of each label's 0 and 1 ``[2, C]``."""
    if labels.ndim == 1:
        counts = np.bincount(labels.astype(np.int64))
        return torch.tensor(len(labels) / (len(counts) * counts), dtype=torch.float32)
    ones = labels.sum(axis=0)
    counts = np.stack([len(labels) - ones, ones])
    return torch.tensor(len(labels) / (2 * np.maximum(counts, 1)), dtype=torch.float32)


def weighted_loss(logits: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
    """Cross-entropy, the mean weighted by class; with several labels the plain mean of weighted binary ones."""
    if labels.ndim == 1:
        return functional.cross_entropy(logits, labels, weight=weights)
    of_each = torch.where(labels > 0, weights[1], weights[0])
    return functional.binary_cross_entropy_with_logits(logits, labels, weight=of_each)


def total_weight(labels: Tensor, weights: Tensor | None) -> float:
    """What the summed loss of a batch is divided by: its rows, or with class weights the sum of the rows' weights."""
    return float(weights[labels].sum()) if weights is not None and labels.ndim == 1 else float(len(labels))


def summed_losses(logits: Tensor, labels: Tensor, weights: Tensor | None = None) -> Tensor:
    """Each lane's loss ``[K]``, summed over rows: squared error, cross-entropy, or binary ones (mean over labels)."""
    lanes = logits.shape[0]
    if labels.is_floating_point():
        return (logits[..., 0] - labels.to(logits.dtype)).square().sum(dim=1)
    if labels.ndim == 2:
        of_each = None if weights is None else torch.where(labels > 0, weights[1], weights[0]).to(logits.dtype)
        every = labels.to(logits.dtype).expand(lanes, -1, -1)
        losses = functional.binary_cross_entropy_with_logits(logits, every, weight=of_each, reduction="none")
        return losses.mean(dim=2).sum(dim=1)
    repeated = labels.expand(lanes, -1).flatten()
    of_class = None if weights is None else weights.to(logits.dtype)
    losses = functional.cross_entropy(logits.flatten(0, 1), repeated, weight=of_class, reduction="none")
    return losses.view(lanes, -1).sum(dim=1)


# Which epoch of each lane is kept: the best on validation, the earliest of equals.


class Best:
    """The best epoch of every lane, kept in memory."""

    def __init__(self, weights: dict[str, Tensor], count: int) -> None:
        """Nothing is kept yet."""
        self.kept = {name: value.detach().clone() for name, value in weights.items()}
        self.scores = [-math.inf] * count
        self.epochs = [0] * count

    def keep(self, weights: dict[str, Tensor], scores: Sequence[float], epoch: int) -> None:
        """Keep the weights of the lanes whose score is better than before, or first."""
        better = [
            lane
            for lane, score in enumerate(scores)
            if self.epochs[lane] == 0 or (math.isfinite(score) and score > self.scores[lane])
        ]
        for lane in better:
            self.scores[lane] = scores[lane] if math.isfinite(scores[lane]) else -math.inf
            self.epochs[lane] = epoch
        if better:
            index = torch.tensor(better, device=next(iter(weights.values())).device)
            for name, value in weights.items():
                self.kept[name].index_copy_(0, index, value.detach().index_select(0, index))

    def only(self, lanes: Sequence[int]) -> None:
        """Forget all lanes but these."""
        self.kept = {name: lanes_of(value, lanes) for name, value in self.kept.items()}
        self.scores = [self.scores[lane] for lane in lanes]
        self.epochs = [self.epochs[lane] for lane in lanes]

    def restore(self, weights: dict[str, Tensor]) -> None:
        """Put the kept weights back."""
        with torch.no_grad():
            for name, value in weights.items():
                value.copy_(self.kept[name])

    def score(self, lane: int) -> float:
        """The kept validation score, NaN where none was defined."""
        return self.scores[lane] if math.isfinite(self.scores[lane]) else math.nan
