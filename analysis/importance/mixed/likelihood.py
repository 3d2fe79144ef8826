"""The likelihood of contrasts with and without a slope, and the p of the largest likelihood ratio.

Contrasts u of effects of intermediates are normal with covariance S + sum v_c K_c: S from the weights of pairs, K_c the
components of variance. For every rating the statistic is twice the log likelihood ratio of a slope on it, the variances
maximised with and without it over the same points. Its null distribution depends on the variances,
which are not known, so that at every point it is simulated (parametric bootstrap), and the p is the mean over the
points, each weighing as much as its likelihood without a slope. At the maximum alone the test alarms in .054 instead of
.047 of grids with task effects; averaged, the variances are not taken as known.

The null hypothesis is that tasks differ each in its own way and not by their rating, so that points at which single
tasks do not differ at all have no part in a p. They have the smallest null ratios, and a few contrasts cannot tell a
variance of 0 from a small one: counted, they make p too small wherever single tasks differ a little.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from analysis.importance.grid import Grid
from analysis.importance.mixed.components import Component, components, differs, points
from analysis.importance.mixed.effects import Effects

Array = np.ndarray
DRAWS = 499  # of contrasts, at every point of variances
NEGLIGIBLE = 1e-4  # weight of a point, below which it has no part in a p


@dataclass(frozen=True)
class Fit:
    """The likelihoods of points without a slope, and the ratios with a slope on each construct.

    ``weight`` [points, grids] sums to 1 over points, 0 where tasks do not differ each in its own way; ``without``
    [grids] is the point of the maximum without a slope;
    ``ratio``, the point of the maximum ``with_slope``, ``slope`` and ``error`` per standard deviation of the rating
    there are [constructs, grids].
    """

    weight: Array
    without: Array
    ratio: Array
    with_slope: Array
    slope: Array
    error: Array


@dataclass(frozen=True)
class Model:
    """The mixed model of a grid: points of variances [points, parts], in ``unit``, and what follows from them.

    ``forms`` are the packed inverses of covariances, ``projections`` [constructs, points, n - 1] take contrasts to the
    scores of slopes, whose ``information`` is [constructs, points]; ``roots`` are Cholesky factors.
    """

    effects: Effects
    parts: list[Component]
    points: Array
    unit: float
    forms: Array
    projections: Array
    information: Array
    log_determinants: Array
    roots: Array
    draws: int
    seed: int
    _nulls: dict[int, Array] = field(default_factory=dict)

    @classmethod
    def of(cls, grid: Grid, constructs: Array, draws: int = DRAWS, seed: int = 0, beside: Array | None = None) -> Model:
        """The model of a grid for standardised ratings [tasks, constructs], ``beside`` others [tasks, k] if any."""
        whole, parts = Effects.of(grid), components(grid)
        effects = whole if beside is None else whole.beside(beside)
        tried = points(parts)
        unit = float(np.trace(effects.covariance)) / max(effects.count, 1)
        kernels = np.stack([effects.kernel(part.kernel) for part in parts])
        covariances = effects.covariance + unit * np.einsum("pc,cij->pij", tried, kernels)
        inverses, facts = np.linalg.inv(covariances), effects.of_facts(constructs)
        weighted = inverses @ facts  # [points, n - 1, constructs]
        return cls(
            effects,
            parts,
            tried,
            unit,
            _packed(inverses),
            np.ascontiguousarray(weighted.transpose(2, 0, 1)),
            np.einsum("ic,pic->cp", facts, weighted),
            np.linalg.slogdet(covariances)[1],
            np.linalg.cholesky(covariances),
            draws,
            seed,
        )

    def fitted(self, contrasts: Array) -> Fit:
        """The fit of contrasts [n - 1, grids] whose pairs vary as their weights promise."""
        without = self._without_slope(contrasts)
        top = without.max(0)
        ratios, points, slopes, errors = [], [], [], []
        for projection, information in zip(self.projections, self.information, strict=True):
            scores = projection @ contrasts  # [points, grids]
            full = without + 0.5 * scores**2 / information[:, None]
            best = full.argmax(0)
            at = (best, np.arange(len(best)))
            ratios.append(2 * (full[at] - top))
            points.append(best)
            slopes.append(scores[at] / information[best])
            errors.append(1 / np.sqrt(information[best]))
        shaped = (np.stack(rows) for rows in (ratios, points, slopes, errors))
        return Fit(self._weight(without), without.argmax(0), *shaped)

    def _weight(self, without: Array) -> Array:
        """Weights [points, grids] of points in a p, by their log likelihoods without a slope."""
        differing = differs(self.parts, self.points)
        weight = np.zeros(without.shape)
        weight[differing] = np.exp(without[differing] - without[differing].max(0))
        return np.asarray(weight / weight.sum(0))

    def largest(self, contrasts: Array) -> Array:
        """The largest log likelihood [grids] over all points, without a slope."""
        return np.asarray(self._without_slope(contrasts).max(0))

    def corrected(self, fit: Fit) -> Array:
        """P [constructs, grids] of every construct's ratio, corrected for the largest of all constructs."""
        p, total = np.zeros(fit.ratio.shape), np.zeros(fit.ratio.shape[1])
        for point in np.flatnonzero((fit.weight > NEGLIGIBLE).any(1)):
            used = fit.weight[point] > NEGLIGIBLE
            weight = fit.weight[point, used]
            p[:, used] += weight * share_reaching(self._null(int(point)), fit.ratio[:, used])
            total[used] += weight
        return p / total

    def _null(self, point: int) -> Array:
        """Sorted null ratios [draws] at a point, each the largest of the constructs."""
        if point not in self._nulls:
            rng = np.random.default_rng((self.seed, point))
            drawn = self.roots[point] @ rng.normal(size=(self.effects.count, self.draws))
            self._nulls[point] = np.sort(self._largest_ratio(drawn))
        return self._nulls[point]

    def _largest_ratio(self, contrasts: Array) -> Array:
        """The largest ratio of the constructs [grids], alone."""
        without = self._without_slope(contrasts)
        best = without.max(0)
        largest = best
        for projection, information in zip(self.projections, self.information, strict=True):
            scores = (projection / np.sqrt(2 * information)[:, None]) @ contrasts
            np.square(scores, out=scores)
            scores += without
            largest = np.maximum(largest, scores.max(0))
        return np.asarray(2 * (largest - best))

    def _without_slope(self, contrasts: Array) -> Array:
        """Log likelihoods [points, grids] without a slope."""
        rows, columns = np.tril_indices(len(contrasts))
        values: Array = self.forms @ (contrasts[rows] * contrasts[columns])
        values += self.log_determinants[:, None]
        values *= -0.5
        return values


def _packed(matrices: Array) -> Array:
    """Symmetric matrices [points, k, k] as rows [points, k (k + 1) / 2] whose product with x_i x_j is x'Ax."""
    rows, columns = np.tril_indices(matrices.shape[1])
    return np.asarray(matrices[:, rows, columns] * np.where(rows == columns, 1.0, 2.0))


def share_reaching(null: Array, observed: Array) -> Array:
    """Share of sorted null draws [draws], and the observation itself, that reach each observed value [...]."""
    reached = len(null) - np.searchsorted(null, observed.ravel(), "left").reshape(observed.shape)
    return np.asarray((1 + reached) / (1 + len(null)))
