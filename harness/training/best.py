"""Which epoch of each lane is kept: the best on validation, the earliest of equals."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from harness.training.devices import lanes_of


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
            place = torch.tensor(better, device=next(iter(weights.values())).device)
            for name, value in weights.items():
                self.kept[name].index_copy_(0, place, value.detach().index_select(0, place))

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
