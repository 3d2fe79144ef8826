"""Losses: class weights, the weighted loss of one cell, and the summed losses of all lanes."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional


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
