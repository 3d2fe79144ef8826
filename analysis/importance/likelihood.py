"""Effects of intermediates, what they differ by, and the likelihood ratio of a slope on each rating.

*Effects.* A gain is the mean of its target, plus the effect of its intermediate, plus noise whose variance is that of
its weight. Means of targets say nothing of a rating of the intermediate, so they go first; of n effects only n - 1
contrasts can be estimated, since a constant added to all of them belongs to the targets as well. Where missing pairs
divide intermediates into sets that share no target, that holds of each set. An intermediate without a pair takes no
part.

*Components of variance.* Tasks that differ each in its own way, data sets, families, and all features but the ratings
together: as one component they take one degree of freedom where as columns of a regression they would take nine of
seventeen.

*Likelihood.* Contrasts u of effects of intermediates are normal with covariance S + sum v_c K_c: S from the weights of
pairs, K_c the components of variance. For every rating the statistic is twice the log likelihood ratio of a slope on
it, the variances maximised with and without it over the same points. Its null distribution depends on the variances,
which are not known, so that at every point it is simulated (parametric bootstrap), and the p is the mean over the
points, each weighing as much as its likelihood without a slope. At the maximum alone the test alarms in .054 instead of
.047 of grids with task effects; averaged, the variances are not taken as known.

The null hypothesis is that tasks differ each in its own way and not by their rating, so that points at which single
tasks do not differ at all have no part in a p. They have the smallest null ratios, and a few contrasts cannot tell a
variance of 0 from a small one: counted, they make p too small wherever single tasks differ a little.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import product

import numpy as np
from scipy.linalg import helmert, null_space
from scipy.sparse.csgraph import connected_components

from analysis.importance.grid import CATEGORY, DIFFERENCE, SIZE, Grid

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

    def orthogonal_to(self, facts: Array) -> Effects:
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
        return self.of_facts(self.inverse @ (self.weights[..., None] * centred).sum(1))

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


# Variances in units of the mean sampling variance of a contrast. A list that ends too low finds effects that are not
# there (in 10 of 100 grids with heavy tails where it ends at 64), so single tasks may differ by 512 of these units.
OF_TASKS, OF_OTHERS = (0.0, 2.0, 8.0, 32.0, 128.0, 512.0), (0.0, 4.0, 16.0, 64.0)
TASKS, DATA_SETS, FAMILIES, FEATURES = "tasks", "data sets", "families", "other features"
SAME = 1e-9  # of two kernels, relative: the one cannot be told from the other


@dataclass(frozen=True)
class Component:
    """A covariance [tasks, tasks] of effects of intermediates for a variance of 1, and the variances to try."""

    name: str
    kernel: Array
    variances: tuple[float, ...]


def components(grid: Grid) -> list[Component]:
    """The components of a grid; one that says the same as an earlier one, or nothing, is left out."""
    kept: list[Component] = []
    for component in _candidates(grid):
        centred = _centre(component.kernel)
        if np.abs(centred).max() < SAME:
            continue
        if not any(_is_same(centred, _centre(other.kernel)) for other in kept):
            kept.append(component)
    return kept


def points(parts: list[Component]) -> Array:
    """Every combination of variances, [points, components]; the first is none of any."""
    return np.array(list(product(*(part.variances for part in parts))))


def differs(parts: list[Component], tried: Array) -> Array:
    """Points [points] of those tried [points, components] at which tasks differ each in its own way."""
    return np.asarray(tried[:, [part.name for part in parts].index(TASKS)] > 0)


def _candidates(grid: Grid) -> Iterator[Component]:
    yield Component(TASKS, np.eye(len(grid.tasks)), OF_TASKS)
    yield Component(DATA_SETS, _of_groups(grid.data_set), OF_OTHERS)
    yield Component(FAMILIES, _of_groups(grid.family), OF_OTHERS)
    columns = _other_features(grid)
    if columns.shape[1]:
        yield Component(FEATURES, columns @ columns.T / columns.shape[1], OF_OTHERS)


def _of_groups(codes: Array) -> Array:
    """1 for two tasks of the same group."""
    return np.asarray((codes[:, None] == codes[None, :]) * 1.0)


def _other_features(grid: Grid) -> Array:
    """Standardised columns [tasks, width]; a category has the variance of one column in all. Similarities have none."""
    columns = [np.empty((len(grid.tasks), 0))]
    for name in grid.others:
        facts = np.asarray(grid.facts[name], "float64")
        if grid.kinds[name] in (SIZE, DIFFERENCE):
            columns.append(standardised(facts[:, None]))
        elif grid.kinds[name] == CATEGORY:
            codes = (facts[:, None] == np.unique(facts)[None, :]) * 1.0
            codes -= codes.mean(0)
            columns.append(codes / np.sqrt((codes**2).mean(0).sum()))
    return np.hstack(columns)


def standardised(facts: Array) -> Array:
    """Facts [tasks, ...] with mean 0 and standard deviation 1 over tasks; zeros where all are equal."""
    centred = facts - facts.mean(0)
    deviation = centred.std(0)
    return np.asarray(centred / np.where(deviation > 0, deviation, 1.0))


def _centre(kernel: Array) -> Array:
    """The covariance of contrasts, as a matrix of the same shape."""
    return np.asarray(kernel - kernel.mean(0) - kernel.mean(1)[:, None] + kernel.mean())


def _is_same(first: Array, second: Array) -> bool:
    """Whether one is a multiple of the other."""
    first, second = first / np.linalg.norm(first), second / np.linalg.norm(second)
    return float(np.abs(first - second).max()) < SAME


DRAWS = 499  # of contrasts, at every point of variances
NEGLIGIBLE = 1e-4  # weight of a point, below which it has no part in a p


@dataclass(frozen=True)
class Likelihoods:
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
    scores of slopes, whose ``information`` is [constructs, points]; ``roots`` [points, n - 1, contrasts of the grid]
    take standard normal numbers to contrasts.
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
    def of(cls, grid: Grid, constructs: Array, draws: int = DRAWS, seed: int = 0, others: Array | None = None) -> Model:
        """The model of a grid for standardised ratings [tasks, constructs], ``others`` [tasks, k] beside them."""
        whole, parts = Effects.of(grid), components(grid)
        effects = whole if others is None else whole.orthogonal_to(others)
        tried = points(parts)
        unit = float(np.trace(effects.covariance)) / max(effects.count, 1)
        kernels = np.stack([whole.kernel(part.kernel) for part in parts])
        of_whole = whole.covariance + unit * np.einsum("pc,cij->pij", tried, kernels)
        # The basis beside others is one of many, and the processor decides which: numbers are drawn before it is taken.
        kept = np.eye(whole.count) if others is None else whole.basis.T @ effects.basis
        covariances = kept.T @ of_whole @ kept
        inverses, facts = np.linalg.inv(covariances), effects.of_facts(constructs)
        weighted = inverses @ facts  # [points, n - 1, constructs]
        # Symmetric matrices [points, k, k] as rows [points, k (k + 1) / 2] whose product with x_i x_j is x'Ax.
        rows, columns = np.tril_indices(inverses.shape[1])
        return cls(
            effects,
            parts,
            tried,
            unit,
            np.asarray(inverses[:, rows, columns] * np.where(rows == columns, 1.0, 2.0)),
            np.ascontiguousarray(weighted.transpose(2, 0, 1)),
            np.einsum("ic,pic->cp", facts, weighted),
            np.linalg.slogdet(covariances)[1],
            kept.T @ np.linalg.cholesky(of_whole),
            draws,
            seed,
        )

    def fitted(self, contrasts: Array) -> Likelihoods:
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
        # Weights [points, grids] of points in a p, by their log likelihoods without a slope.
        differing = differs(self.parts, self.points)
        weight = np.zeros(without.shape)
        weight[differing] = np.exp(without[differing] - without[differing].max(0))
        return Likelihoods(np.asarray(weight / weight.sum(0)), without.argmax(0), *shaped)

    def largest(self, contrasts: Array) -> Array:
        """The largest log likelihood [grids] over all points, without a slope."""
        return np.asarray(self._without_slope(contrasts).max(0))

    def corrected(self, fit: Likelihoods) -> Array:
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
            drawn = self.roots[point] @ rng.normal(size=(self.roots.shape[2], self.draws))
            # The largest ratio of the constructs [grids], alone.
            without = self._without_slope(drawn)
            best = without.max(0)
            largest = best
            for projection, information in zip(self.projections, self.information, strict=True):
                scores = (projection / np.sqrt(2 * information)[:, None]) @ drawn
                np.square(scores, out=scores)
                scores += without
                largest = np.maximum(largest, scores.max(0))
            self._nulls[point] = np.sort(np.asarray(2 * (largest - best)))
        return self._nulls[point]

    def _without_slope(self, contrasts: Array) -> Array:
        """Log likelihoods [points, grids] without a slope."""
        rows, columns = np.tril_indices(len(contrasts))
        values: Array = self.forms @ (contrasts[rows] * contrasts[columns])
        values += self.log_determinants[:, None]
        values *= -0.5
        return values


def share_reaching(null: Array, observed: Array) -> Array:
    """Share of sorted null draws [draws], and the observation itself, that reach each observed value [...]."""
    reached = len(null) - np.searchsorted(null, observed.ravel(), "left").reshape(observed.shape)
    return np.asarray((1 + reached) / (1 + len(null)))
