"""Losses: of every row, weighed by class, of a cell's batch and summed for all lanes; and which epoch is kept.

The losses of rows are plain functions; ``Objective`` is a loss with what the training rows decide of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from harness.study.config import Loss
from harness.training.tensors import lanes_of, to_device

# The loss of every row, in the precision of the logits but at least fp32. Labels are a class a row ``[n]``, or a 0 or 1
# for each of several labels ``[n, classes]``, which are as many tasks of two classes.


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """-log p of every row's class ``[n]``, p its softmax among ``logits [n, classes]``.

    Of several labels ``[n, classes]``, p the sigmoid's share of what each label is, present or absent.
    """
    exact = logits.float() if logits.dtype in (torch.bfloat16, torch.float16) else logits
    if labels.ndim == 1:
        return functional.cross_entropy(exact, labels, reduction="none")
    return functional.binary_cross_entropy_with_logits(exact, labels.to(exact.dtype), reduction="none")


def focal(logits: Tensor, labels: Tensor, gamma: float) -> Tensor:
    """-(1 - p)^gamma log p, shaped as ``cross_entropy``, which it is at gamma 0 (Lin et al. 2017, equation 4)."""
    # With c = -log p, 1 - p is -expm1(-c), exact where p is almost 1. There a gamma below 1 has a slope without bound,
    # whose product with c is 0: the power's base stays a positive number.
    plain = cross_entropy(logits, labels)
    missed = (-torch.expm1(-plain)).clamp(min=torch.finfo(plain.dtype).tiny)
    return missed**gamma * plain


def ldam(logits: Tensor, labels: Tensor, margins: Tensor, scale: float) -> Tensor:
    """Cross-entropy ``[n]`` of ``scale`` times the logits, after each row's class had its margin taken off its logit.

    ``logits [n, classes]``, ``labels [n]``, ``margins [classes]`` (Cao et al. 2019, equations 12 and 13; the
    scale is their code's). With margins 0 and scale 1 it is cross-entropy.
    """
    exact = logits.float() if logits.dtype in (torch.bfloat16, torch.float16) else logits
    taken = torch.zeros_like(exact).scatter(1, labels[:, None], margins.to(exact.dtype)[labels][:, None])
    return cross_entropy(scale * (exact - taken), labels)


def margins_of(counts: NDArray[np.int64], largest: float) -> Tensor:
    """LDAM's margins C / n_c^(1/4) ``[classes]`` of the training ``counts``, the rarest class's being ``largest``.

    A class without a row has the margin 0, which no row asks for.
    """
    roots = np.where(counts > 0, np.maximum(counts, 1) ** -0.25, 0.0)
    return torch.tensor(roots * (largest / roots.max()), dtype=torch.float32)


def effective_weights(counts: NDArray[np.int64], beta: float) -> Tensor:
    """Weights (1 - beta) / (1 - beta^n_c) ``[classes]``, scaled to a mean of 1 over classes with rows.

    The inverse of each class's effective number of rows (Cui et al. 2019, section 4); 0 without a row.
    """
    present = counts > 0
    weights = np.where(present, (1 - beta) / (1 - np.power(beta, np.maximum(counts, 1))), 0.0)
    return torch.tensor(weights * (present.sum() / weights.sum()), dtype=torch.float32)


# Weights of classes, and the losses of a batch.


def balanced_weights(labels: NDArray[np.int64] | NDArray[np.float64]) -> Tensor:
    """Weights n / (C n_c) of classes ``[classes]``, or with several labels a row of each label's 0 and 1 ``[2, C]``."""
    if labels.ndim == 1:
        counts = np.bincount(labels.astype(np.int64))
        return torch.tensor(len(labels) / (len(counts) * counts), dtype=torch.float32)
    ones = labels.sum(axis=0)
    counts = np.stack([len(labels) - ones, ones])
    return torch.tensor(len(labels) / (2 * np.maximum(counts, 1)), dtype=torch.float32)


def total_weight(labels: Tensor, weights: Tensor | None) -> float:
    """What the summed loss of a batch is divided by: its rows, or with class weights the sum of the rows' weights."""
    return float(weights[labels].sum()) if weights is not None and labels.ndim == 1 else float(len(labels))


def row_losses(logits: Tensor, labels: Tensor, weights: Tensor | None = None) -> Tensor:
    """Each lane's loss of every row ``[K, n]``: squared error, cross-entropy, or binary ones (mean over labels)."""
    lanes = logits.shape[0]
    if labels.is_floating_point():
        return (logits[..., 0] - labels.to(logits.dtype)).square()
    if labels.ndim == 2:
        of_each = None if weights is None else torch.where(labels > 0, weights[1], weights[0]).to(logits.dtype)
        every = labels.to(logits.dtype).expand(lanes, -1, -1)
        losses = functional.binary_cross_entropy_with_logits(logits, every, weight=of_each, reduction="none")
        return losses.mean(dim=2)
    repeated = labels.expand(lanes, -1).flatten()
    of_class = None if weights is None else weights.to(logits.dtype)
    losses = functional.cross_entropy(logits.flatten(0, 1), repeated, weight=of_class, reduction="none")
    return losses.view(lanes, -1)


@dataclass(frozen=True)
class Objective:
    """What a training minimises in an epoch: a loss, with weights and margins that its training rows decide.

    ``weights`` are of classes ``[classes]``, or of each label's 0 and 1 ``[2, classes]``; ``margins [classes]`` are
    LDAM's.
    """

    loss: Loss
    weights: Tensor | None = None
    margins: Tensor | None = None

    @classmethod
    def of(
        cls,
        loss: Loss,
        labels: NDArray[np.int64] | NDArray[np.float64],
        outputs: int,
        *,
        class_weights: str = "none",
        epoch: int = 1,
    ) -> Objective:
        """The objective of an epoch (from 1) on training rows with these ``labels``, as a Part has them."""
        weights = balanced_weights(labels) if class_weights == "balanced" else None
        if loss.kind != "ldam":
            return cls(loss, weights)
        counts = np.bincount(labels.astype(np.int64), minlength=outputs)
        if loss.deferred_from and epoch >= loss.deferred_from:
            weights = effective_weights(counts, loss.beta)
        return cls(loss, weights, margins_of(counts, loss.largest_margin))

    def on(self, device: torch.device) -> Objective:
        """The same with its tensors on a device."""
        weights, margins = (
            None if value is None else to_device(value, device) for value in (self.weights, self.margins)
        )
        return replace(self, weights=weights, margins=margins)

    @property
    def is_plain(self) -> bool:
        """True for the loss that a head of the library has by itself: no weights, and not another than its own."""
        return self.loss.kind == "cross-entropy" and self.weights is None

    def losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The weighed loss of every row ``[n]`` by ``logits [n, outputs]``, of several labels their mean."""
        if labels.ndim == 1 and labels.is_floating_point():
            return (logits[:, 0] - labels.to(logits.dtype)).square()
        if self.loss.kind == "focal":
            each = focal(logits, labels, self.loss.gamma)
        elif self.margins is not None:
            each = ldam(logits, labels, self.margins, self.loss.scale)
        else:
            each = cross_entropy(logits, labels)
        if self.weights is not None:
            weights = self.weights.to(each.dtype)
            each = each * (weights[labels] if labels.ndim == 1 else torch.where(labels > 0, weights[1], weights[0]))
        return each if labels.ndim == 1 else each.mean(dim=1)

    def mean(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The loss of a batch: the mean over its rows, weighted where classes have weights."""
        if self.loss.kind == "cross-entropy" and self.weights is not None:
            # cross-entropy, the mean weighted by class; with several labels the plain mean of weighted binary ones
            if labels.ndim == 1:
                return functional.cross_entropy(logits, labels, weight=self.weights)
            of_each = torch.where(labels > 0, self.weights[1], self.weights[0])
            return functional.binary_cross_entropy_with_logits(logits, labels.to(logits.dtype), weight=of_each)
        losses = self.losses(logits, labels)
        if self.weights is None or labels.ndim == 2:
            return losses.mean()
        return losses.sum() / self.weights[labels].sum()

    def summed(self, logits: Tensor, labels: Tensor, counted: Tensor | None = None) -> Tensor:
        """Each lane's loss ``[K]`` by ``logits [K, n, outputs]``, summed over rows, or over those ``counted [n]``."""
        if self.loss.kind == "cross-entropy":
            losses = row_losses(logits, labels, self.weights)
        else:
            lanes = logits.shape[0]
            repeated = labels.expand(lanes, *labels.shape).flatten(0, 1)
            losses = self.losses(logits.flatten(0, 1), repeated).view(lanes, -1)
        return (losses if counted is None else losses.where(counted, losses.new_zeros(()))).sum(dim=1)


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
