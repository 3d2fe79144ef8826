"""Ridge regression of gains that are centred by target, and how much better features predict families left out.

A grid is an array [intermediate, target]; pairs that it lacks, the diagonal too, are masked. Several outcomes
(simulated grids) may be fitted at once: they share features and weights. Q2 is the share of squares of the pairs left
out that a prediction saves, over all folds; what features add to it is the Q2 with them less that without them.
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
USUAL_PENALTY = 10.0  # where too few families are left to tune on


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
    return [fold for fold in made if fold.test.any() and fold.train.sum() >= FEWEST_TRAINING_PAIRS]


def _folds(mask: Array, family: Array, scheme: str) -> Iterator[Fold]:
    for number in range(family.max() + 1):
        intermediate, target = (family == number)[:, None], (family == number)[None, :]
        if scheme == "target":
            yield Fold(mask & ~target, mask & target, mask & target)
        elif scheme == "intermediate":
            yield Fold(mask & ~intermediate, mask & intermediate & (mask & ~intermediate).any(0), mask & ~intermediate)
        else:
            for other in range(number, family.max() + 1):
                other_intermediate, other_target = (family == other)[:, None], (family == other)[None, :]
                free = mask & ~(intermediate | other_intermediate | target | other_target)
                yield Fold(free, mask & ((intermediate & other_target) | (other_intermediate & target)), mask)


class FoldFit:
    """A ridge regression on one fold: fixed columns, and further ones that are exchanged by the batch.

    Further columns Z beside the fixed X are solved for by block elimination (Boyd and Vandenberghe 2004, Convex
    Optimization, C.4): with A = X'WX + penalty, only Z'WZ + penalty - Z'WX A^-1 X'WZ differs from draw to draw.
    """

    def __init__(self, fold: Fold, outcomes: Array, weights: Array, fixed: Sequence[Array]) -> None:
        """``outcomes`` [tasks, tasks, grids], ``weights`` [tasks, tasks], ``fixed`` blocks [tasks, tasks, width]."""
        self._fold, self._weights = fold, weights[fold.train] / weights[fold.train].sum()
        self._train_outcomes, self._test_outcomes = self._centred(outcomes)
        self._test_weights = weights[fold.test]
        train, test = self._joined(fixed)
        self._train_columns, self._test_columns = train[0], test[0]
        self._weighted = self._train_columns.T * self._weights
        self._gram, self._moment = self._weighted @ self._train_columns, self._weighted @ self._train_outcomes

    def errors(self, further: Sequence[Array], penalties: Array) -> Array:
        """Weighted squared errors [draws, grids] on the test pairs, with the fixed blocks and the further ones.

        ``further`` blocks are [draws, tasks, tasks, width], or [tasks, tasks, width] for one draw; ``penalties``
        [grids] may differ from grid to grid.
        """
        test, cross, gram, moment = self._products(further)
        squares = np.empty((len(test), len(penalties)))
        for penalty in np.unique(penalties):
            grids = penalties == penalty
            squares[:, grids] = self._errors(float(penalty), grids, test, cross, gram, moment)
        return squares

    def errors_of_each(self, further: Sequence[Array], penalties: Sequence[float]) -> Array:
        """The errors [penalties, grids] of one draw under each of several penalties, to choose among them."""
        test, cross, gram, moment = self._products(further)
        grids = np.ones(self._moment.shape[1], dtype=bool)
        return np.stack([self._errors(penalty, grids, test, cross, gram, moment)[0] for penalty in penalties])

    def _products(self, further: Sequence[Array]) -> tuple[Array, Array, Array, Array]:
        """Test rows of the further blocks; products of their training rows with the fixed, themselves, the outcomes."""
        train, test = self._joined(further)
        weighted = (train * self._weights[:, None]).swapaxes(1, 2)
        return test, self._weighted @ train, weighted @ train, weighted @ self._train_outcomes

    def _errors(self, penalty: float, grids: Array, test: Array, cross: Array, gram: Array, moment: Array) -> Array:
        """Errors [draws, grids] of those grids, from the further test rows and the products of the training rows.

        A block has a variance of 1 and the penalty is at least .1, so inverting A costs no digits.
        """
        # 1. The fixed columns X alone: slopes A^-1 X'Wy, with A = X'WX + penalty, and what they miss of the test pairs.
        inverse = np.linalg.inv(self._gram + penalty * np.eye(len(self._gram)))
        alone = inverse @ self._moment[:, grids]
        missed = self._test_outcomes[:, grids] - self._test_columns @ alone
        # 2. The slopes b of the further columns Z: what they explain beside X, by the Schur complement of A,
        #    (Z'WZ + penalty - Z'WX A^-1 X'WZ) b = Z'Wy - Z'WX A^-1 X'Wy. It is as small as Z is narrow.
        onto = cross.swapaxes(1, 2) @ inverse
        schur = gram + penalty * np.eye(gram.shape[1]) - onto @ cross
        slopes = np.linalg.solve(schur, moment[:, :, grids] - onto @ self._moment[:, grids])
        # 3. With b the slopes of X change, too: together Z moves the prediction of the test pairs by
        #    (Z - X A^-1 X'WZ) b, in the rows of the test pairs.
        left = test - self._test_columns @ inverse @ cross
        weighted = (left * self._test_weights[:, None]).swapaxes(1, 2)
        # 4. Squares of (missed - left b), multiplied out: the products are [width, width], whatever the number of rows.
        quadratic = (weighted @ left) @ slopes - 2 * (weighted @ missed)
        errors: Array = self._test_weights @ missed**2 + (slopes * quadratic).sum(1)
        return errors

    def training_error(self, further: Sequence[Array], penalty: float) -> Array:
        """Weighted mean squared error [grids] on the training pairs themselves."""
        train = np.hstack([self._train_columns, self._joined(further)[0][0]])
        weighted = train.T * self._weights
        slopes = np.linalg.solve(weighted @ train + penalty * np.eye(len(weighted)), weighted @ self._train_outcomes)
        left: Array = self._weights @ (self._train_outcomes - train @ slopes) ** 2
        return left

    def training_total(self) -> Array:
        """Weighted mean squares [grids] of the training pairs about their mean."""
        squares: Array = self._weights @ self._train_outcomes**2
        return squares

    def total(self) -> Array:
        """Weighted squares [grids] of the test pairs about the training mean, which is 0 after centring."""
        squares: Array = self._test_weights @ self._test_outcomes**2
        return squares

    def _joined(self, blocks: Sequence[Array]) -> tuple[Array, Array]:
        """Training and test rows [draws, rows, width] of all blocks side by side."""
        scaled = [self._scaled(block.reshape(-1, *block.shape[-3:])) for block in blocks]
        if not scaled:
            return np.empty((1, len(self._train_outcomes), 0)), np.empty((1, len(self._test_outcomes), 0))
        train, test = (np.concatenate(rows, axis=2) for rows in zip(*scaled, strict=True))
        return train, test

    def _centred(self, block: Array) -> tuple[Array, Array]:
        """The rows of the training and of the test pairs, each less the mean of its target's reference pairs."""
        # Training pairs are centred among themselves. A test pair is centred by pairs of the same target: by training
        # pairs where the target has some, else by its own, so that only the order of intermediates is predicted.
        fold = self._fold
        return _less_means(block, fold.train, fold.train), _less_means(block, fold.test, fold.reference)

    def _scaled(self, block: Array) -> tuple[Array, Array]:
        """Training and test rows in units of the block's standard deviation over the training pairs."""
        train, test = self._centred(block)
        spread = np.sqrt(np.einsum("r,drw,drw->d", self._weights, train, train))[:, None, None]
        factor = np.where(spread > ALMOST_ZERO, 1 / np.maximum(spread, ALMOST_ZERO), 0.0)
        return train * factor, test * factor


def _less_means(block: Array, rows: Array, mask: Array) -> Array:
    """The masked ``rows`` [..., rows, width] of a block, each less the mean of its target's pairs in ``mask``."""
    shares = mask / np.maximum(mask.sum(0), 1)
    means = np.einsum("ij,...ijw->...jw", shares, block)
    intermediates, targets = np.nonzero(rows)
    centred: Array = block[..., intermediates, targets, :] - means[..., targets, :]
    return centred


class AddedQ2:
    """What further blocks add to fixed ones in Q2: the share of squares that a prediction saves, over all folds.

    Squares are weighted, pooled over the folds and taken about the mean of the training pairs. The penalty of each
    fold is tuned once, on families left out of its own training pairs, with the further blocks of the constructor; it
    is kept when permuted blocks take their place.
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
        self.fits = [FoldFit(fold, several, grid.weights, fixed) for fold in parts]
        self.penalties = [_tuned_penalties(grid, left_out, fold.train, fixed, further, several) for fold in parts]
        self.total = sum((fit.total() for fit in self.fits), np.zeros(several.shape[2]))
        self.q2_without = self.q2([]) if len(fixed) else np.zeros((1, several.shape[2]))

    def q2(self, further: Sequence[Array]) -> Array:
        """Q2 [draws, grids] of the fixed blocks with the further ones; NaN where nothing was left out.

        Blocks are [draws, tasks, tasks, width], or [tasks, tasks, width] for one draw.
        """
        pairs = zip(self.fits, self.penalties, strict=True)
        errors = sum((fit.errors(further, penalties) for fit, penalties in pairs), np.zeros((1, len(self.total))))
        with np.errstate(invalid="ignore", divide="ignore"):
            share: Array = 1 - errors / self.total
        return share

    def __call__(self, further: Sequence[Array]) -> Array:
        """Q2 [draws, grids] that the further blocks add."""
        added: Array = self.q2(further) - self.q2_without
        return added


def why_no_fold(grid: Grid, left_out: str) -> str | None:
    """Why no Q2 is defined when families are left out in this role; None if one is."""
    parts = folds(grid.mask, grid.family, left_out)
    if not parts:
        return f"leaving families out as {left_out} leaves too few pairs to train on"
    spread = sum(FoldFit(fold, grid.outcome[..., None], grid.weights, []).total()[0] for fold in parts)
    least = ALMOST_ZERO**2 * grid.weights[grid.mask].sum()  # what rounding leaves of equal gains is below it
    return None if spread > least else "the gains of each target are all the same"


def _tuned_penalties(
    grid: Grid,
    left_out: str,
    train: Array,
    fixed: Sequence[Array],
    further: Sequence[Array],
    outcomes: Array,
) -> Array:
    """The penalty [grids] with the least error on families left out of these training pairs."""
    # Nested folds: the families that a fold tests on have no part in the choice of its penalty.
    inner = [FoldFit(fold, outcomes, grid.weights, fixed) for fold in folds(train, grid.family, left_out)]
    if not inner:
        return np.full(outcomes.shape[2], USUAL_PENALTY)
    by_penalty = np.stack([fit.errors_of_each(further, PENALTIES) for fit in inner]).sum(0)
    chosen: Array = np.array(PENALTIES)[by_penalty.argmin(0)]
    return chosen
