"""Features whose blocks are exchanged by the batch, beside others that stay: Q2 of hundreds of arrangements at once.

The columns X of the features that stay are fitted once for every fold. Columns Z in the place of the others are solved
for by block elimination (Boyd and Vandenberghe 2004, Convex Optimization, C.4): with A = X'WX + penalty, only
Z'WZ + penalty - Z'WX A^-1 X'WZ differs from arrangement to arrangement, and it is as small as Z is narrow. All
products of a fold are sums over families, so that the pairs are gone through once and not once for every fold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.importance.family_sums import Sums, TargetMeans, TargetSums, off_products
from analysis.importance.ridge import PENALTIES, Families, FamilyFits, saved, units

Array = np.ndarray


@dataclass(frozen=True)
class _Fixed:
    """What a fold needs of the columns that stay.

    Of the training pairs the inverses of A [penalties, width, width] and the moments [width, grids], of the tested
    ones the products X'WX, X'Wy and y'Wy, and the pairs without a mean; the means are those of columns and outcomes.
    """

    left: Families
    inverses: Array
    moment: Array
    test_gram: Array
    test_moment: Array
    test_squares: Array
    trained: TargetMeans | None
    tested: TargetMeans | None
    untested: Array


class Exchange:
    """Q2 of some features and of blocks in the place of the others, over the folds and penalties of their fits."""

    def __init__(self, fits: FamilyFits, staying: Sequence[str]) -> None:
        """``staying`` name the features that stay."""
        self._fits = fits
        self._columns, self._widths = fits.columns_of(staying)
        self._both = np.concatenate([fits.x[self._columns], fits.y])
        self._weighted = (self._both * fits.layout.weights).reshape(len(self._both), fits.layout.mask.size)
        self._both_sums = TargetSums(fits.layout, self._both)
        self._fixed = [self._of_fold(left) for left in fits.folds]

    @property
    def n_grids(self) -> int:
        """Grids of outcomes that are fitted at once."""
        return len(self._fits.y)

    def _of_fold(self, left: Families) -> _Fixed:
        fits, chosen, width = self._fits, self._columns, len(self._columns)
        gram, moment = (part[0] for part in fits.products(np.array([left])))
        gram, moment = gram[np.ix_(chosen, chosen)], moment[chosen]
        unit = units(np.diag(gram), self._widths, np.diag(fits.gram.whole)[chosen] / fits.weight.whole)
        scaled = gram * unit[:, None] * unit
        inverses = np.stack([np.linalg.inv(scaled + penalty * np.eye(width)) for penalty in PENALTIES])
        pairs = fits.tested_pairs(left, left)
        trained = tested = None
        untested = np.empty(0, dtype="int64")
        own = self._both.reshape(len(self._both), fits.layout.mask.size)[:, pairs]
        if fits.layout.has_own_means:
            trained = self._both_sums.trained(np.array([left]))
        if trained is not None and fits.layout.scheme == "intermediate":
            tested = self._both_sums.tested(left[0], trained.means)
            own = own - trained.means[0][:, pairs % len(fits.layout.mask)]
            untested = np.setdiff1d(fits.groups[left[0]], pairs)
        weighted = own * fits.layout.weights.ravel()[pairs]
        products = weighted @ own[:width].T
        squares = (weighted[width:] * own[width:]).sum(1)
        return _Fixed(
            left,
            inverses * unit[:, None] * unit,
            moment,
            products[:width],
            products[width:].T,
            squares,
            trained,
            tested,
            untested,
        )

    def q2(self, further: Sequence[Array]) -> Array:
        """Q2 [draws, grids] of the columns that stay with further blocks [draws, tasks, tasks, width]."""
        widths = [block.shape[-1] for block in further]
        z = np.concatenate([np.moveaxis(block, -1, 1) for block in further], axis=1)
        batch = _Batch(self._fits, self._weighted, self._fits.layout.centred(z), widths)
        missed = np.zeros((len(z), len(self._fits.y)))
        for place, fixed in enumerate(self._fixed):
            train, test = batch.products(fixed)
            for penalty in np.unique(self._fits.penalties[place]):
                grids = self._fits.penalties[place] == penalty
                missed[:, grids] += self._errors(fixed, int(penalty), grids, train, test, batch)
        return saved(missed, self._fits.total)

    def _errors(
        self, fixed: _Fixed, penalty: int, grids: Array, train: _Products, test: _Products, batch: _Batch
    ) -> Array:
        """Errors [draws, grids] of those grids on the tested pairs of a fold."""
        # 1. The columns X that stay alone: slopes A^-1 X'Wy, and the products of what they miss of the tested pairs.
        inverse, width = fixed.inverses[penalty], len(self._columns)
        alone = inverse @ fixed.moment[:, grids]
        explained = fixed.test_gram @ alone
        missed = (
            fixed.test_squares[grids] - 2 * (alone * fixed.test_moment[:, grids]).sum(0) + (alone * explained).sum(0)
        )
        # 2. The slopes b of the further columns Z, in units of their blocks, by the Schur complement of A:
        #    (Z'WZ + penalty - Z'WX A^-1 X'WZ) b = Z'Wy - Z'WX A^-1 X'Wy.
        unit = batch.units(train)
        cross = train.cross[..., :width] * unit[..., None]
        onto = cross @ inverse
        gram = train.gram * unit[..., None] * unit[..., None, :]
        schur = gram + PENALTIES[penalty] * np.eye(gram.shape[-1]) - onto @ cross.swapaxes(1, 2)
        moment = train.cross[..., width:][..., grids] * unit[..., None] - onto @ fixed.moment[:, grids]
        slopes = np.linalg.solve(schur, moment)
        # 3. With b the slopes of X change, too: together Z moves the prediction of the tested pairs by L b with
        #    L = Z - X A^-1 X'WZ, of which the products with itself and with what X alone misses are needed.
        test_cross = test.cross[..., :width] * unit[..., None]
        turned = onto @ test_cross.swapaxes(1, 2)
        squares = (
            test.gram * unit[..., None] * unit[..., None, :]
            - (turned + turned.swapaxes(1, 2))
            + onto @ fixed.test_gram @ onto.swapaxes(1, 2)
        )
        of_y = test.cross[..., width:][..., grids] * unit[..., None]
        of_missed = of_y - test_cross @ alone - onto @ (fixed.test_moment[:, grids] - explained)
        # 4. Squares of (missed - L b), multiplied out.
        errors: Array = missed + (slopes * (squares @ slopes - 2 * of_missed)).sum(1)
        return errors


@dataclass(frozen=True)
class _Products:
    """Of further columns: ``gram`` Z'WZ [draws, width, width], ``cross`` [draws, width, columns and grids]."""

    gram: Array
    cross: Array


class _Batch:
    """Products of further columns Z [draws, width, tasks, tasks] with themselves and the others, by family."""

    def __init__(self, fits: FamilyFits, weighted: Array, z: Array, widths: Sequence[int]) -> None:
        self._fits, self._widths, self._weighted, layout = fits, widths, weighted, fits.layout
        self._z = np.ascontiguousarray(z).reshape(*z.shape[:2], -1)  # else each group's pairs would copy all of it
        parts = [self._of_pairs(group) for group in fits.groups]
        self._gram = Sums(layout, np.stack([part.gram for part in parts]))
        self._cross = Sums(layout, np.stack([part.cross for part in parts]))
        self._whole = np.einsum("dww->dw", self._gram.whole) / fits.weight.whole
        self._sums = TargetSums(layout, z) if layout.has_own_means else None

    def _of_pairs(self, pairs: Array) -> _Products:
        own = self._z.take(pairs, axis=2)
        draws, width, _ = own.shape
        weights = self._fits.layout.weights.ravel()[pairs]
        cross = own.reshape(draws * width, -1) @ self._weighted[:, pairs].T
        return _Products((own * weights) @ own.swapaxes(1, 2), cross.reshape(draws, width, -1))

    def products(self, fixed: _Fixed) -> tuple[_Products, _Products]:
        """The products of the pairs that a fold trains on, whose weights sum to 1, and of those that it tests."""
        left = np.array([fixed.left])
        gram, cross = (part.without(left)[0] for part in (self._gram, self._cross))
        tested = _Products(self._gram.of(fixed.left), self._cross.of(fixed.left))
        if self._sums is not None and fixed.trained is not None:
            own = self._sums.trained(left)
            tested = self._about_training_means(tested, fixed, self._sums, own.means)
            own = _first(own)
            gram = gram - off_products(own, own)
            cross = cross - off_products(own, fixed.trained)
        weight = self._fits.weight.without(left)[0]
        return _Products(gram / weight, cross / weight), tested

    def _about_training_means(self, tested: _Products, fixed: _Fixed, sums: TargetSums, means: Array) -> _Products:
        """Products of tested pairs that are centred by the training pairs of their targets, which have other means."""
        if fixed.tested is None:
            return tested
        own = _first(sums.tested(fixed.left[0], means))
        gram = tested.gram - off_products(own, own)
        cross = tested.cross - off_products(own, fixed.tested)
        if len(fixed.untested):
            dropped = self._of_pairs(fixed.untested)
            gram, cross = gram - dropped.gram, cross - dropped.cross
        return _Products(gram, cross)

    def units(self, train: _Products) -> Array:
        """One over the standard deviations [draws, width] of the blocks over the pairs trained on."""
        return units(np.einsum("dww->dw", train.gram), self._widths, self._whole)


def _first(means: TargetMeans) -> TargetMeans:
    """Those of the only set."""
    return TargetMeans(means.means[0], means.sums[0], means.weights[0])
