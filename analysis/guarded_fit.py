"""Ridge regression of gains that are centred by target, tested on families of tasks that were left out.

A grid stands as an array [intermediate, target]; what is not there, the diagonal too, is masked. Several outcomes
(simulated grids) may be fitted at once: they share features and weights.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

Array = np.ndarray
SCHEMES = ("target", "intermediate", "both")
PENALTIES = (0.1, 1.0, 10.0, 100.0)  # in units of a block's variance
FEWEST_TRAINING_PAIRS = 10
ALMOST_ZERO = 1e-9


@dataclass(frozen=True)
class Fold:
    """Masks [tasks, tasks]: the pairs to fit on, those to test on, and those whose mean per target is taken off.

    A target that was trained on with other intermediates keeps the mean of those; a target that was not is centred by
    all of its own pairs, which tells nothing about which intermediate is better.
    """

    train: Array
    test: Array
    reference: Array


def folds(mask: Array, family: Array, scheme: str) -> list[Fold]:
    """Every family left out once as target or as intermediate; ``both``: every pair of families, in whatever role.

    ``mask`` [tasks, tasks] says which pairs there are, ``family`` [tasks] counts from 0. Folds without enough to fit
    or without anything to test are left out.
    """
    made = list(_folds(mask, family, scheme))
    return [one for one in made if one.test.any() and one.train.sum() >= FEWEST_TRAINING_PAIRS]


def _folds(mask: Array, family: Array, scheme: str) -> Iterator[Fold]:
    for one in range(family.max() + 1):
        below, above = (family == one)[:, None], (family == one)[None, :]
        if scheme == "target":
            yield Fold(mask & ~above, mask & above, mask & above)
        elif scheme == "intermediate":
            yield Fold(mask & ~below, mask & below & (mask & ~below).any(0), mask & ~below)
        else:
            for other in range(one, family.max() + 1):
                lower, upper = (family == other)[:, None], (family == other)[None, :]
                free = mask & ~(below | lower | above | upper)
                yield Fold(free, mask & ((below & upper) | (lower & above)), mask)


class FoldFit:
    """A ridge regression on one fold: fixed columns, and further ones that may be exchanged at little cost."""

    def __init__(self, fold: Fold, outcomes: Array, weights: Array, fixed: Sequence[Array]) -> None:
        """``outcomes`` [tasks, tasks, grids], ``weights`` [tasks, tasks], ``fixed`` blocks [tasks, tasks, width]."""
        self._fold, self._weights = fold, weights[fold.train] / weights[fold.train].sum()
        self._trained, self._tested = self._centred(outcomes)
        self._test_weights = weights[fold.test]
        pairs = [self._scaled(block) for block in fixed]
        self._below = np.hstack([one[0] for one in pairs]) if pairs else np.empty((len(self._trained), 0))
        self._above = np.hstack([one[1] for one in pairs]) if pairs else np.empty((len(self._tested), 0))
        self._weighted = self._below.T * self._weights
        self._gram, self._moment = self._weighted @ self._below, self._weighted @ self._trained

    def errors(self, further: Sequence[Array], penalties: Array) -> Array:
        """Weighted squared errors [grids] on the test pairs, with the fixed blocks and the further ones.

        ``penalties`` [grids] may differ from grid to grid.
        """
        gram, moment, above = self._with(further)
        found = np.empty(moment.shape[1])
        for penalty in np.unique(penalties):
            grids = penalties == penalty
            slopes = np.linalg.solve(gram + penalty * np.eye(len(gram)), moment[:, grids])
            found[grids] = self._test_weights @ (self._tested[:, grids] - above @ slopes) ** 2
        return found

    def training_error(self, further: Sequence[Array], penalty: float) -> Array:
        """Weighted mean squared error [grids] on the training pairs themselves."""
        below = np.hstack([self._below, *(self._scaled(block)[0] for block in further)])
        gram, moment, _ = self._with(further)
        slopes = np.linalg.solve(gram + penalty * np.eye(len(gram)), moment)
        left: Array = self._weights @ (self._trained - below @ slopes) ** 2
        return left

    def training_total(self) -> Array:
        """Weighted mean squares [grids] of the training pairs about their mean."""
        squares: Array = self._weights @ self._trained**2
        return squares

    def total(self) -> Array:
        """Weighted squares [grids] of the test pairs about the training mean, which is 0 after centring."""
        squares: Array = self._test_weights @ self._tested**2
        return squares

    def _with(self, further: Sequence[Array]) -> tuple[Array, Array, Array]:
        """Cross products of all columns, theirs with the outcomes, and the test rows."""
        if not further:
            return self._gram, self._moment, self._above
        scaled = [self._scaled(block) for block in further]
        below, above = np.hstack([one[0] for one in scaled]), np.hstack([one[1] for one in scaled])
        cross, weighted = self._weighted @ below, below.T * self._weights
        gram = np.vstack([np.hstack([self._gram, cross]), np.hstack([cross.T, weighted @ below])])
        moment = np.vstack([self._moment, weighted @ self._trained])
        return gram, moment, np.hstack([self._above, above])

    def _centred(self, block: Array) -> tuple[Array, Array]:
        """The rows of the training and of the test pairs, each less the mean of its target's reference pairs."""
        fold = self._fold
        return (block - _means(block, fold.train))[fold.train], (block - _means(block, fold.reference))[fold.test]

    def _scaled(self, block: Array) -> tuple[Array, Array]:
        """Training and test rows in units of the block's standard deviation over the training pairs."""
        below, above = self._centred(block)
        spread = np.sqrt((self._weights @ below**2).sum())
        factor = 1 / spread if spread > ALMOST_ZERO else 0.0
        return below * factor, above * factor


def _means(block: Array, mask: Array) -> Array:
    """Mean per target [1, tasks, width] of the masked pairs; 0 where there are none."""
    counted = np.maximum(mask.sum(0), 1)[:, None]
    means: Array = (block * mask[..., None]).sum(0) / counted
    return means[None]
