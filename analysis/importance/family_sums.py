"""Products of the columns of a grid, summed by family, from which those of every fold follow by taking families away.

A fold differs from the whole grid by the pairs of a few families. So the pairs are gone through once, and the products
X'WX of the pairs that a fold trains on are those of all pairs less those of the families it leaves out. Columns are
centred by target first, over all pairs; where a fold trains on some intermediates of a target only, the means of its
own pairs are taken off the products: with s = sum of w x, W = sum of w and m the mean of a target's training pairs,
sum of w (x - m)(x - m)' = sum of w x x' - v m' - m v' with v = s - W m / 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

Array = np.ndarray


@dataclass(frozen=True)
class Layout:
    """Which pairs ``mask`` [tasks, tasks] there are, with their ``weights``, the tasks' ``family`` and the scheme.

    Pairs belong to a group: the family of their target or of their intermediate, or (``both``) the two families.
    """

    mask: Array
    weights: Array
    family: Array
    scheme: str

    @property
    def n_families(self) -> int:
        """Families that tasks may be of; some may have no pair."""
        return int(self.family.max()) + 1

    @property
    def has_own_means(self) -> bool:
        """Whether the means of targets differ from fold to fold, since intermediates are left out."""
        return self.scheme != "target"

    def groups(self) -> list[Array]:
        """The places of the pairs of every group in a flat grid; for ``both`` by intermediate, then by target."""
        intermediate, target = np.nonzero(self.mask)
        of = {"target": self.family[target], "intermediate": self.family[intermediate]}
        of["both"] = self.family[intermediate] * self.n_families + self.family[target]
        flat = intermediate * len(self.mask) + target
        count = self.n_families ** (2 if self.scheme == "both" else 1)
        return [flat[of[self.scheme] == group] for group in range(count)]

    def centred(self, block: Array) -> Array:
        """Columns [..., tasks, tasks] less the mean of each target's pairs, and 0 where there is no pair."""
        own = np.where(self.mask, block, 0.0)
        own -= (own.sum(-2) / np.maximum(self.mask.sum(0), 1))[..., None, :]
        own *= self.mask
        return own

    def by_family(self, values: Array) -> Array:
        """Sums [families, ..., tasks] over the intermediates of every family, of values [..., tasks, tasks]."""
        members = (self.family == np.arange(self.n_families)[:, None]).astype("float64")
        sums: Array = np.moveaxis(members @ values, -2, 0)
        return sums


class Sums:
    """Sums [groups, ...] of a layout's groups of pairs, of which those of some families can be taken away."""

    def __init__(self, layout: Layout, by_group: Array) -> None:
        """``by_group`` in the order of the layout's groups."""
        self._is_crossed = layout.scheme == "both"
        self.by_group = by_group
        if self._is_crossed:
            self.by_group = by_group.reshape(layout.n_families, layout.n_families, *by_group.shape[1:])
            self._touching = self.by_group.sum(0) + self.by_group.sum(1)
            self.whole = self._touching.sum(0) / 2
        else:
            self.whole = by_group.sum(0)

    def without(self, left: Array) -> Array:
        """The sums [sets, ...] over the pairs that a fold trains on which leaves out sets of families [sets, size]."""
        if not self._is_crossed:
            return np.asarray(self.whole - sum(self.by_group[families] for families in left.T))
        kept: Array = self.whole - sum(self._touching[families] for families in left.T)
        for first in left.T:
            for other in left.T:  # pairs of two families that are both left out were taken away twice
                kept += self.by_group[first, other]
        return kept

    def of(self, families: Sequence[int]) -> Array:
        """The sums [...] over the pairs that a fold tests on which leaves out these families."""
        if not self._is_crossed:
            return np.asarray(self.by_group[families[0]])
        first, other = families[0], families[-1]
        tested: Array = self.by_group[first, other] + (self.by_group[other, first] if first != other else 0.0)
        return tested


@dataclass(frozen=True)
class TargetMeans:
    """Means, weighted sums of columns, and weights over pairs of every target, all [sets, ..., tasks]."""

    means: Array
    sums: Array
    weights: Array

    @property
    def moved(self) -> Array:
        """What was called v = s - W m / 2, with which the means are taken off products."""
        moved: Array = self.sums - self.weights * self.means / 2
        return moved


def off_products(first: TargetMeans, other: TargetMeans) -> Array:
    """What the means take off products [..., columns of the first, columns of the other]."""
    off: Array = first.moved @ other.means.swapaxes(-1, -2) + first.means @ other.moved.swapaxes(-1, -2)
    return off


class TargetSums:
    """Sums of columns by family of intermediates and target, which give the means of any fold's training pairs."""

    def __init__(self, layout: Layout, columns: Array) -> None:
        """``columns`` [..., tasks, tasks] are centred."""
        self._layout = layout
        self._plain, self._weighted = (layout.by_family(values) for values in (columns, columns * layout.weights))
        self._counts, self._weights = (layout.by_family(values) for values in (layout.mask * 1.0, layout.weights))

    def counts(self, left: Array) -> Array:
        """Training pairs [sets, tasks] of every target, apart from whether the target is left out."""
        counts: Array = np.rint(self._counts.sum(0) - sum(self._counts[families] for families in left.T))
        return counts

    def trained(self, left: Array) -> TargetMeans:
        """Means and sums over the training pairs of folds that leave out sets of families [sets, size]."""
        extra = (slice(None), *([None] * (self._plain.ndim - 2)))
        counts = self.counts(left)[extra]
        # Columns are centred, so that what is left of a target's sum is what was taken away, with the other sign.
        means = -sum(self._plain[families] for families in left.T) / np.maximum(counts, 1.0)
        means = np.where(counts > 0, means, 0.0)
        sums = self._weighted.sum(0) - sum(self._weighted[families] for families in left.T)
        weights = self._weights.sum(0) - sum(self._weights[families] for families in left.T)
        weights = weights[extra]
        if self._layout.scheme == "both":  # nor do pairs of targets that are left out train
            stays = (self._layout.family != left[:, :, None]).all(1)[extra]
            means, sums, weights = means * stays, sums * stays, weights * stays
        return TargetMeans(means, sums, weights)

    def tested(self, family: int, means: Array) -> TargetMeans:
        """The sums over the pairs of the intermediates of a family, beside means that are not their own."""
        weights = self._weights[family][*([None] * (self._plain.ndim - 2)), :]
        return TargetMeans(means, self._weighted[family][None], weights[None])
