"""The same test for distances: whether two tasks teach each other less the further apart their ratings are.

A distance has no sign, so that it is no effect of an intermediate: means of targets and effects of intermediates both
go first. What is left varies by the noise of pairs and by pairs of families (of intermediate and target), whose
variance is unknown; the slope on |difference of ratings| is tested by the likelihood ratio, its null simulated as in
``analysis.importance.mixed.likelihood``, and has to hold over families of targets.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from analysis.importance.grid import Grid
from analysis.importance.mixed.likelihood import DRAWS, share_reaching
from analysis.importance.mixed.replication import Replication, replication

Array = np.ndarray
VARIANCES = (0.0, 0.2, 0.6, 1.5, 4.0)  # between pairs of families, in units of the noise of a pair
SMALLEST = 1e-9


@dataclass(frozen=True)
class Distances:
    """Pairs after means of targets and effects of intermediates went: everything is times the root of the weight.

    ``basis`` [pairs, rank] spans what went; ``facts`` [pairs, constructs] are distances without it, ``axes`` [pairs, k]
    with ``sizes`` [k] the principal axes of pairs of families; ``family`` [pairs] is that of the target.
    """

    pairs: tuple[Array, Array]
    roots: Array
    basis: Array
    facts: Array
    axes: Array
    sizes: Array
    family: Array
    draws: int
    seed: int
    _nulls: dict[int, Array] = field(default_factory=dict)

    @classmethod
    def of(cls, grid: Grid, constructs: Array, draws: int = DRAWS, seed: int = 0) -> Distances:
        """The distances of standardised ratings [tasks, constructs]."""
        intermediate, target = np.nonzero(grid.mask)
        roots = np.sqrt(grid.weights[grid.mask])[:, None]
        tasks = np.eye(len(grid.tasks))
        basis = _span(roots * np.hstack([tasks[intermediate], tasks[target]]))
        family = grid.family[target]
        of_pair = grid.family[intermediate] * len(grid.families) + family
        axes, sizes = _axes(_without(basis, roots * (of_pair[:, None] == np.unique(of_pair))))
        sizes = sizes * np.median(1 / grid.weights[grid.mask])  # so that a variance of 1 is that of a typical pair
        apart = roots * np.abs(constructs[intermediate] - constructs[target])
        facts = _without(basis, apart)
        facts = np.where((facts**2).sum(0) > SMALLEST * (apart**2).sum(0), facts, 0.0)
        return cls((intermediate, target), roots, basis, facts, axes, sizes, family, draws, seed)

    @property
    def estimable(self) -> Array:
        """[constructs], whether anything of a distance is left when both roles went; without it a p is 1."""
        return np.asarray((self.facts**2).sum(0) > 0)

    @property
    def left(self) -> int:
        """Degrees of freedom of what is left."""
        return len(self.roots) - int(self.basis.shape[1])

    def tested(self, gains: Array) -> tuple[Array, Array, Array, Replication]:
        """Slopes, errors, p corrected for the largest, all [constructs, grids], and the guard, of gains."""
        values = _without(self.basis, self.roots * gains[self.pairs])
        without, ratio, slopes, errors = self._ratios(values)
        weight = np.exp(without - without.max(0))
        weight /= weight.sum(0)
        corrected = np.zeros(ratio.shape)
        for point, variance in enumerate(VARIANCES):
            corrected += weight[point] * share_reaching(self._null(point, variance), ratio)
        return slopes, errors, corrected, self._guard(values)

    def _ratios(self, values: Array) -> tuple[Array, Array, Array, Array]:
        """Log likelihoods without a slope [points, grids]; ratios, slopes, errors [constructs, grids]."""
        squares, on_axes = (values**2).sum(0), self.axes.T @ values
        own, own_on_axes = (self.facts**2).sum(0), self.axes.T @ self.facts
        product = self.facts.T @ values
        without, with_slope, slopes, errors = [], [], [], []
        for variance in VARIANCES:
            shrunk = variance * self.sizes / (1 + variance * self.sizes)
            base = -0.5 * np.log1p(variance * self.sizes).sum()
            form = squares - (shrunk[:, None] * on_axes**2).sum(0)
            score = product - (shrunk[:, None] * own_on_axes).T @ on_axes
            information = (own - (shrunk[:, None] * own_on_axes**2).sum(0))[:, None]
            information = np.where(self.estimable[:, None], information, np.inf)
            without.append(base - 0.5 * self.left * np.log(form))
            with_slope.append(base - 0.5 * self.left * np.log(form - score**2 / information))
            slopes.append(score / information)
            errors.append(np.broadcast_to(1 / np.sqrt(information), score.shape))
        null, full = np.stack(without), np.stack(with_slope)
        best = full.argmax(0)[None]
        own_slopes, own_errors = (np.take_along_axis(np.stack(kind), best, 0)[0] for kind in (slopes, errors))
        return null, 2 * (full.max(0) - null.max(0)), own_slopes, own_errors

    def _null(self, point: int, variance: float) -> Array:
        """Sorted largest ratios [draws] without a slope."""
        if point not in self._nulls:
            rng = np.random.default_rng((self.seed, 1, point))
            noise = _without(self.basis, rng.normal(size=(len(self.roots), self.draws)))
            between = rng.normal(size=(len(self.sizes), self.draws)) * np.sqrt(variance * self.sizes)[:, None]
            self._nulls[point] = np.sort(self._ratios(noise + self.axes @ between)[1].max(0))
        return self._nulls[point]

    def _guard(self, values: Array) -> Replication:
        """The slope within each family of targets, and their mean against how much they differ."""
        slopes, variances, correlations = [], [], []
        for family in np.unique(self.family):
            own = self.family == family
            facts = self.facts[own]
            information = np.where(self.estimable, (facts**2).sum(0), 1.0)
            if (information > SMALLEST * (self.facts**2).sum(0)).all():
                slopes.append((facts.T @ values[own]) / information[:, None])
                variances.append(np.broadcast_to(1 / information[:, None], slopes[-1].shape))
                between = facts.T @ facts / np.sqrt(np.outer(information, information))
                np.fill_diagonal(between, 1.0)
                correlations.append(between)
        if not slopes:
            empty = np.empty((0, self.facts.shape[1], values.shape[1]))
            return replication(empty, empty, np.eye(self.facts.shape[1]))
        return replication(np.stack(slopes), np.stack(variances), np.mean(correlations, axis=0))


def _span(columns: Array) -> Array:
    """An orthonormal basis of what columns [pairs, width] span."""
    left, sizes, _ = np.linalg.svd(columns, full_matrices=False)
    return np.asarray(left[:, sizes > SMALLEST * sizes.max(initial=1.0)])


def _without(basis: Array, columns: Array) -> Array:
    """Columns without their part in the span of a basis."""
    return np.asarray(columns - basis @ (basis.T @ columns))


def _axes(columns: Array) -> tuple[Array, Array]:
    """Principal axes [pairs, k] of columns [pairs, width], and the squares of their lengths."""
    left, sizes, _ = np.linalg.svd(columns, full_matrices=False)
    kept = sizes > 1e-8 * sizes.max(initial=1.0)
    return left[:, kept], sizes[kept] ** 2
