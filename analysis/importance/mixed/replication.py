"""The replication guard: whether a slope holds for families of targets that were not seen.

The likelihood ratio asks whether gains follow a rating more than tasks and families of intermediates differ anyway. It
takes the slope to be the same for all targets; where every family of targets has a slope of its own around 0, it alarms
in two of three grids. So the slope is estimated within each family of targets, and their mean is tested against how
much they differ: a random-effects meta-analysis (DerSimonian and Laird 1986) with the variance of Hartung and Knapp
(2001), never below that of a fixed effect (Jackson et al. 2017), and Student's t of families - 1 degrees of freedom.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri, stdtr

from analysis.importance.grid import Grid
from analysis.importance.mixed.components import SAME
from analysis.importance.mixed.effects import Effects
from analysis.importance.mixed.likelihood import Model

Array = np.ndarray
COPULA_DRAWS, COPULA_SEED = 20_000, 20_261_123


@dataclass(frozen=True)
class Replication:
    """Slopes by family of targets put together, all [constructs, grids]: mean, its error, p alone and corrected.

    ``slopes`` and ``variances`` are [families, constructs, grids], ``df`` the degrees of freedom of the error.
    """

    slopes: Array
    variances: Array
    mean: Array
    error: Array
    df: int
    alone: Array
    corrected: Array


def replication(slopes: Array, variances: Array, correlation: Array) -> Replication:
    """The meta-analysis of slopes [families, constructs, grids], corrected for constructs that are tested together.

    ``correlation`` [constructs, constructs] is that of the slopes' errors: the corrected p is that of the smallest of
    as many p with a normal copula of this correlation. Fewer than two families say nothing: p is 1.
    """
    count = len(slopes)
    if count < 2:
        nothing = np.full(slopes.shape[1:], np.nan)
        return Replication(slopes, variances, nothing, nothing, 0, np.ones_like(nothing), np.ones_like(nothing))
    mean, error = pooled(slopes, variances)
    alone = 2 * stdtr(count - 1, -np.abs(mean) / error)
    return Replication(slopes, variances, mean, error, count - 1, alone, _smallest_of_several(alone, correlation))


def pooled(slopes: Array, variances: Array) -> tuple[Array, Array]:
    """Mean [...] over families [families, ...] and its standard error."""
    weights = 1 / variances
    total = weights.sum(0)
    mean = (weights * slopes).sum(0) / total
    excess = (weights * (slopes - mean) ** 2).sum(0) - (len(slopes) - 1)
    between = np.maximum(0.0, excess / (total - (weights**2).sum(0) / total))
    weights = 1 / (variances + between)
    mean = (weights * slopes).sum(0) / weights.sum(0)
    ratio = (weights * (slopes - mean) ** 2).sum(0) / (len(slopes) - 1)
    return mean, np.sqrt(np.maximum(1.0, ratio) / weights.sum(0))


def _smallest_of_several(alone: Array, correlation: Array) -> Array:
    """P that the smallest of several p, as correlated as this, is at most each p [constructs, grids]."""
    rng = np.random.default_rng(COPULA_SEED)
    count = len(correlation)
    drawn = rng.multivariate_normal(np.zeros(count), correlation, size=COPULA_DRAWS, method="eigh")
    largest = np.sort(np.abs(drawn).max(1))
    observed = -ndtri(np.clip(alone, 1e-300, 1.0) / 2)
    reached = COPULA_DRAWS - np.searchsorted(largest, observed.ravel(), "left").reshape(observed.shape)
    return np.asarray(np.maximum(alone, (1 + reached) / (1 + COPULA_DRAWS)))


@dataclass(frozen=True)
class _Family:
    """The targets [tasks] of a family, and the effects on them with facts [n - 1, constructs] and kernels."""

    targets: Array
    effects: Effects
    facts: Array
    kernels: Array

    def weights(self, variances: Array) -> tuple[Array, Array]:
        """Weights [n - 1, constructs] of contrasts in each slope, and its variance from the noise of pairs."""
        noise = self.effects.covariance
        solved = np.linalg.solve(noise + np.tensordot(variances, self.kernels, 1), self.facts)
        weights = solved / (self.facts * solved).sum(0)
        return weights, np.einsum("ic,ij,jc->c", weights, noise, weights)


@dataclass(frozen=True)
class FamilySlopes:
    """What the slopes of signed differences within families of targets need: effects on the targets of each family."""

    model: Model
    families: list[_Family]

    @classmethod
    def of(cls, grid: Grid, model: Model, constructs: Array, beside: Array | None = None) -> FamilySlopes:
        """Families whose targets have pairs with at least three intermediates that differ in every construct.

        ``beside`` are ratings [tasks, k] whose slopes are in the model of every family as well.
        """
        families = []
        for family in range(len(grid.families)):
            targets = grid.family == family
            whole = Effects.of(grid, targets)
            effects = whole if beside is None else whole.beside(beside)
            facts = effects.of_facts(constructs)
            if effects.count >= 2 and (np.abs(facts).max(0) > SAME).all():
                kernels = np.stack([effects.kernel(part.kernel) for part in model.parts])
                families.append(_Family(targets, effects, facts, kernels))
        return cls(model, families)

    def replication(self, gains: Array, at: Array) -> Replication:
        """The guard for gains [tasks, tasks, grids], slopes weighted as at the points ``at`` [constructs, grids].

        Within a family of targets a slope is that of generalised least squares: where families of intermediates
        differ, tasks of one family are compared with each other rather than with those of another.
        """
        shape = (len(self.families), *at.shape)
        slopes, variances = np.empty(shape), np.empty(shape)
        for row, family in enumerate(self.families):
            contrasts = family.effects.estimated(gains[:, family.targets])
            for point in np.unique(at):
                weights, variance = family.weights(self.model.points[point] * self.model.unit)
                for construct in range(len(at)):
                    grids = np.flatnonzero(at[construct] == point)
                    slopes[row, construct, grids] = weights[:, construct] @ contrasts[:, grids]
                    variances[row, construct, grids] = variance[construct]
        return replication(slopes, variances, self._correlation())

    def _correlation(self) -> Array:
        """Correlation [constructs, constructs] of the slopes' errors from the noise of pairs, mean over families."""
        correlations = []
        for family in self.families:
            solved = np.linalg.solve(family.effects.covariance, family.facts)
            covariance = family.facts.T @ solved
            scale = np.sqrt(np.diag(covariance))
            correlations.append(covariance / np.outer(scale, scale))
        return np.mean(correlations, axis=0) if correlations else np.eye(1)
