"""Ridge regression of gains that are centred by target, tested on families of tasks that were left out.

A grid stands as an array [intermediate, target]; what is not there, the diagonal too, is masked. Several outcomes
(simulated grids) may be fitted at once: they share features and weights.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.importance.grid import Grid

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
    """A ridge regression on one fold: fixed columns, and further ones that are exchanged by the batch.

    Further columns Z beside the fixed X are solved for by block elimination (Boyd and Vandenberghe 2004, Convex
    Optimization, C.4): with A = X'WX + penalty, only Z'WZ + penalty - Z'WX A^-1 X'WZ differs from draw to draw.
    """

    def __init__(self, fold: Fold, outcomes: Array, weights: Array, fixed: Sequence[Array]) -> None:
        """``outcomes`` [tasks, tasks, grids], ``weights`` [tasks, tasks], ``fixed`` blocks [tasks, tasks, width]."""
        self._fold, self._weights = fold, weights[fold.train] / weights[fold.train].sum()
        self._trained, self._tested = self._centred(outcomes)
        self._test_weights = weights[fold.test]
        below, above = self._joined(fixed)
        self._below, self._above = below[0], above[0]
        self._weighted = self._below.T * self._weights
        self._gram, self._moment = self._weighted @ self._below, self._weighted @ self._trained

    def errors(self, further: Sequence[Array], penalties: Array) -> Array:
        """Weighted squared errors [draws, grids] on the test pairs, with the fixed blocks and the further ones.

        ``further`` blocks are [draws, tasks, tasks, width], or [tasks, tasks, width] for one draw; ``penalties``
        [grids] may differ from grid to grid.
        """
        above, cross, gram, moment = self._with(further)
        found = np.empty((len(above), len(penalties)))
        for penalty in np.unique(penalties):
            grids = penalties == penalty
            found[:, grids] = self._errors(float(penalty), grids, above, cross, gram, moment)
        return found

    def errors_of_each(self, further: Sequence[Array], penalties: Sequence[float]) -> Array:
        """The errors [penalties, grids] of one draw under each of several penalties, to choose among them."""
        above, cross, gram, moment = self._with(further)
        grids = np.ones(self._moment.shape[1], dtype=bool)
        return np.stack([self._errors(one, grids, above, cross, gram, moment)[0] for one in penalties])

    def _with(self, further: Sequence[Array]) -> tuple[Array, Array, Array, Array]:
        """Test rows of the further blocks; products of their training rows with the fixed, themselves, the outcomes."""
        below, above = self._joined(further)
        weighted = (below * self._weights[:, None]).swapaxes(1, 2)
        return above, self._weighted @ below, weighted @ below, weighted @ self._trained

    def _errors(self, penalty: float, grids: Array, above: Array, cross: Array, gram: Array, moment: Array) -> Array:
        """Errors [draws, grids] of those grids, from the further test rows and the products of the training rows.

        A block has a variance of 1 and the penalty is at least .1, so inverting A costs no digits.
        """
        inverse = np.linalg.inv(self._gram + penalty * np.eye(len(self._gram)))
        alone = inverse @ self._moment[:, grids]
        missed = self._tested[:, grids] - self._above @ alone  # by the fixed columns on their own
        onto = cross.swapaxes(1, 2) @ inverse
        schur = gram + penalty * np.eye(gram.shape[1]) - onto @ cross
        slopes = np.linalg.solve(schur, moment[:, :, grids] - onto @ self._moment[:, grids])
        left = above - self._above @ inverse @ cross
        weighted = (left * self._test_weights[:, None]).swapaxes(1, 2)
        quadratic = (weighted @ left) @ slopes - 2 * (weighted @ missed)
        errors: Array = self._test_weights @ missed**2 + (slopes * quadratic).sum(1)
        return errors

    def training_error(self, further: Sequence[Array], penalty: float) -> Array:
        """Weighted mean squared error [grids] on the training pairs themselves."""
        below = np.hstack([self._below, self._joined(further)[0][0]])
        weighted = below.T * self._weights
        slopes = np.linalg.solve(weighted @ below + penalty * np.eye(len(weighted)), weighted @ self._trained)
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

    def _joined(self, blocks: Sequence[Array]) -> tuple[Array, Array]:
        """Training and test rows [draws, rows, width] of all blocks side by side."""
        scaled = [self._scaled(block.reshape(-1, *block.shape[-3:])) for block in blocks]
        if not scaled:
            return np.empty((1, len(self._trained), 0)), np.empty((1, len(self._tested), 0))
        below, above = (np.concatenate(rows, axis=2) for rows in zip(*scaled, strict=True))
        return below, above

    def _centred(self, block: Array) -> tuple[Array, Array]:
        """The rows of the training and of the test pairs, each less the mean of its target's reference pairs."""
        fold = self._fold
        return _less_means(block, fold.train, fold.train), _less_means(block, fold.test, fold.reference)

    def _scaled(self, block: Array) -> tuple[Array, Array]:
        """Training and test rows in units of the block's standard deviation over the training pairs."""
        below, above = self._centred(block)
        spread = np.sqrt(np.einsum("r,drw,drw->d", self._weights, below, below))[:, None, None]
        factor = np.where(spread > ALMOST_ZERO, 1 / np.maximum(spread, ALMOST_ZERO), 0.0)
        return below * factor, above * factor


def _less_means(block: Array, rows: Array, mask: Array) -> Array:
    """The masked ``rows`` [..., rows, width] of a block, each less the mean of its target's pairs in ``mask``."""
    shares = mask / np.maximum(mask.sum(0), 1)
    means = np.einsum("ij,...ijw->...jw", shares, block)
    below, above = np.nonzero(rows)
    centred: Array = block[..., below, above, :] - means[..., above, :]
    return centred


# How much better families that were left out are predicted with some features than without them.

USUAL_PENALTY = 10.0  # where too few families are left to tune on


class Added:
    """What further blocks add to fixed ones in Q2: the share of squares that a prediction saves, over all folds.

    Squares are weighted, pooled over the folds and taken about the mean of the training pairs. The penalty of each
    fold is tuned once, on families left out of its own training pairs, with the further blocks as given here; it is
    kept when other blocks take their place.
    """

    def __init__(
        self,
        grid: Grid,
        left_out: str,
        fixed: Sequence[Array],
        further: Sequence[Array],
        outcomes: Array | None = None,
    ) -> None:
        """``outcomes`` [tasks, tasks, grids] stand for the grid's own, to test many at once."""
        several = grid.outcome[..., None] if outcomes is None else outcomes
        parts = folds(grid.mask, grid.family, left_out)
        self.fits = [FoldFit(one, several, grid.weights, fixed) for one in parts]
        self.penalties = [_tuned(grid, left_out, one.train, fixed, further, several) for one in parts]
        self.total = sum((one.total() for one in self.fits), np.zeros(several.shape[2]))
        self.q2_without = self.q2([]) if len(fixed) else np.zeros((1, several.shape[2]))

    def q2(self, further: Sequence[Array]) -> Array:
        """Q2 [draws, grids] of the fixed blocks with the further ones; NaN where nothing was left out.

        Blocks are [draws, tasks, tasks, width], or [tasks, tasks, width] for one draw.
        """
        pairs = zip(self.fits, self.penalties, strict=True)
        errors = sum((fit.errors(further, penalties) for fit, penalties in pairs), np.zeros((1, len(self.total))))
        with np.errstate(invalid="ignore", divide="ignore"):
            found: Array = 1 - errors / self.total
        return found

    def __call__(self, further: Sequence[Array]) -> Array:
        """Q2 [draws, grids] that the further blocks add."""
        added: Array = self.q2(further) - self.q2_without
        return added


def why_no_fold(grid: Grid, left_out: str) -> str | None:
    """Why no Q2 is defined when families are left out in this role; None if one is."""
    parts = folds(grid.mask, grid.family, left_out)
    if not parts:
        return f"leaving families out as {left_out} leaves too few pairs to train on"
    spread = sum(FoldFit(one, grid.outcome[..., None], grid.weights, []).total()[0] for one in parts)
    least = ALMOST_ZERO**2 * grid.weights[grid.mask].sum()  # what rounding leaves of equal gains is below it
    return None if spread > least else "the gains of each target are all the same"


def _tuned(
    grid: Grid,
    left_out: str,
    train: Array,
    fixed: Sequence[Array],
    further: Sequence[Array],
    outcomes: Array,
) -> Array:
    """The penalty [grids] with the least error on families left out of these training pairs."""
    inner = [FoldFit(one, outcomes, grid.weights, fixed) for one in folds(train, grid.family, left_out)]
    if not inner:
        return np.full(outcomes.shape[2], USUAL_PENALTY)
    by_penalty = np.stack([one.errors_of_each(further, PENALTIES) for one in inner]).sum(0)
    chosen: Array = np.array(PENALTIES)[by_penalty.argmin(0)]
    return chosen
