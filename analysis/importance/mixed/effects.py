"""Effects of intermediates within targets: weighted least squares estimates, and how they vary together.

A gain is the mean of its target, plus the effect of its intermediate, plus noise whose variance is that of its weight.
Means of targets say nothing of a rating of the intermediate, so they go first; of n effects only n - 1 contrasts can be
estimated, since a constant added to all of them belongs to the targets as well. Where missing pairs divide
intermediates into sets that share no target, that holds of each set. An intermediate without a pair takes no part.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import helmert, null_space
from scipy.sparse.csgraph import connected_components

from analysis.importance.grid import Grid

Array = np.ndarray


@dataclass(frozen=True)
class Effects:
    """Least squares of the effects of intermediates on some targets of a grid.

    ``present`` [tasks] marks intermediates with a pair, n of them; ``basis`` [n, n - 1] is orthonormal and orthogonal
    to a constant (to one for each set that shares no target with another: there are fewer contrasts then);
    ``covariance`` [n - 1, n - 1] is that of contrasts, for weights that are inverse variances. ``removed`` counts the
    contrasts that facts beside which others are tested took.
    """

    weights: Array
    totals: Array
    inverse: Array
    present: Array
    basis: Array
    covariance: Array
    removed: int = 0

    @classmethod
    def of(cls, grid: Grid, targets: Array | None = None) -> Effects:
        """The effects on the targets [tasks] that are marked, or on all."""
        weights = np.where(grid.mask, grid.weights, 0.0)
        if targets is not None:
            weights = weights[:, targets]
        totals = weights.sum(0)
        safe = np.where(totals > 0, totals, 1.0)
        # The normal equations of effects after the means of targets: a weighted Laplacian of the pairs.
        laplacian = np.diag(weights.sum(1)) - (weights / safe) @ weights.T
        present = weights.sum(1) > 0
        inverse = np.zeros_like(laplacian)
        inverse[np.ix_(present, present)] = np.linalg.pinv(laplacian[np.ix_(present, present)])
        basis = contrasts(connected_components(laplacian[np.ix_(present, present)] != 0, directed=False)[1])
        covariance = basis.T @ inverse[np.ix_(present, present)] @ basis
        return cls(weights, safe, inverse, present, basis, covariance)

    def beside(self, facts: Array) -> Effects:
        """The same with contrasts that are orthogonal to those of facts [tasks, k]: nothing follows the facts there."""
        kept = null_space(self.of_facts(facts).T)
        covariance = kept.T @ self.covariance @ kept
        removed = self.removed + self.count - kept.shape[1]
        return replace(self, basis=self.basis @ kept, covariance=covariance, removed=removed)

    @property
    def count(self) -> int:
        """Number of contrasts."""
        return int(self.basis.shape[1])

    @property
    def left(self) -> int:
        """Degrees of freedom of what means of targets and effects of intermediates leave."""
        return int((self.weights > 0).sum()) - int((self.weights.sum(0) > 0).sum()) - self.count - self.removed

    def of_facts(self, facts: Array) -> Array:
        """Contrasts [n - 1, ...] of facts of tasks [tasks, ...]."""
        return np.asarray(self.basis.T @ facts[self.present])

    def kernel(self, kernel: Array) -> Array:
        """Covariance [n - 1, n - 1] of contrasts whose effects have this covariance [tasks, tasks]."""
        return np.asarray(self.basis.T @ kernel[np.ix_(self.present, self.present)] @ self.basis)

    def estimated(self, gains: Array) -> Array:
        """Contrasts [n - 1, grids] of gains [tasks, targets, grids]."""
        centred = gains - self._means(gains)
        moments = (self.weights[..., None] * centred).sum(1)
        return self.of_facts(self.inverse @ moments)

    def scale(self, gains: Array) -> Array:
        """Residual variance [grids] of gains [tasks, targets, grids] in units of the variance that weights promise.

        1 where they promise the truth, and where no degree of freedom is left to tell.
        """
        effects = self.inverse @ (self.weights[..., None] * (gains - self._means(gains))).sum(1)
        without = gains - effects[:, None, :]
        squares = (self.weights[..., None] * (without - self._means(without)) ** 2).sum((0, 1))
        return np.asarray(squares / self.left) if self.left > 0 else np.ones(gains.shape[2])

    def _means(self, gains: Array) -> Array:
        """Weighted means [1, targets, grids]."""
        return np.asarray(((self.weights[..., None] * gains).sum(0) / self.totals[:, None])[None])


def contrasts(sets: Array) -> Array:
    """An orthonormal basis [n, n - number of sets] of what is orthogonal to a constant in each set [n] (Helmert's)."""
    blocks = []
    for label in range(int(sets.max(initial=-1)) + 1):
        members = np.flatnonzero(sets == label)
        block = np.zeros((len(sets), len(members) - 1))
        block[members] = helmert(len(members)).T if len(members) > 1 else block[members]
        blocks.append(block)
    return np.hstack(blocks) if blocks else np.zeros((0, 0))
