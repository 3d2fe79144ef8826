"""The mixed-model test of a grid: per rating, whether gains follow it, and whether they do so for unseen targets.

For the signed difference of ratings (the primary question) and for their distance, the p of a rating is the larger of
two, both corrected for all ratings: that of the likelihood ratio (``analysis.importance.likelihood``), and that of the
replication guard.

*Guard.* The likelihood ratio takes a slope to be the same for all targets; where every family of targets has a slope of
its own around 0, it alarms in two of three grids. So the slope is estimated within each family of targets, and their
mean is tested against how much they differ: a random-effects meta-analysis (DerSimonian and Laird 1986) with the
variance of Hartung and Knapp (2001), never below that of a fixed effect (Jackson et al. 2017), and Student's t of
families - 1 degrees of freedom.

*Distance.* It has no sign, so that it is no effect of an intermediate: means of targets and effects of intermediates
both go first. What is left varies by the noise of pairs and by pairs of families (of intermediate and target), whose
variance is unknown; the slope on |difference of ratings| is tested by the likelihood ratio with a simulated null, and
has to hold over families of targets.

*Overlap.* Every rating is tested without the others. Where two say nearly the same of tasks, gains that follow the one
follow the other as well, and a verdict on each would often name the wrong one. So a rating that is supported, and
correlates by .8 or more with others, is tested a second time beside them: contrasts are taken orthogonal to their
ratings, which makes its slope that of generalised least squares with all of them in the model. Where that test does not
reject as well, the verdict is one on the group: supported, but only together.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.special import ndtri, stdtr

from analysis.gains.significance import LEVEL
from analysis.importance.grid import FEATURES, SENSITIVITY, Grid
from analysis.importance.likelihood import DRAWS, SAME, Effects, Likelihoods, Model, share_reaching, standardised
from tasks.plain_text import counted

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
    mean, error = pool(slopes, variances)
    alone = 2 * stdtr(count - 1, -np.abs(mean) / error)
    return Replication(slopes, variances, mean, error, count - 1, alone, _smallest_of_several(alone, correlation))


def pool(slopes: Array, variances: Array) -> tuple[Array, Array]:
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
    def of(cls, grid: Grid, model: Model, constructs: Array, others: Array | None = None) -> FamilySlopes:
        """Families whose targets have pairs with at least three intermediates that differ in every construct.

        ``others`` are ratings [tasks, k] whose slopes are in the model of every family as well.
        """
        families = []
        for family in range(len(grid.families)):
            targets = grid.family == family
            whole = Effects.of(grid, targets)
            effects = whole if others is None else whole.orthogonal_to(others)
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


VARIANCES = (0.0, 0.2, 0.6, 1.5, 4.0)  # between pairs of families, in units of the noise of a pair
SMALLEST_PART = 1e-9


@dataclass(frozen=True)
class Distances:
    """Pairs after means of targets and effects of intermediates went: everything is times the root of the weight.

    ``basis`` [pairs, rank] spans what went; ``facts`` [pairs, constructs] are distances without it, as are ``between``
    [pairs, pairs of families], by which pairs of families differ, with its principal ``axes`` [pairs, k] of squared
    lengths ``sizes`` [k]; ``family`` [pairs] is that of the target.
    """

    pairs: tuple[Array, Array]
    roots: Array
    basis: Array
    facts: Array
    between: Array
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
        basis, _ = _axes(roots * np.hstack([tasks[intermediate], tasks[target]]))
        family = grid.family[target]
        of_pair = grid.family[intermediate] * len(grid.families) + family
        typical = np.sqrt(np.median(1 / grid.weights[grid.mask]))  # so that a variance of 1 is that of a typical pair
        between = _without(basis, typical * roots * (of_pair[:, None] == np.unique(of_pair)))
        apart = roots * np.abs(constructs[intermediate] - constructs[target])
        facts = _without(basis, apart)
        facts = np.where((facts**2).sum(0) > SMALLEST_PART * (apart**2).sum(0), facts, 0.0)
        return cls((intermediate, target), roots, basis, facts, between, *_axes(between), family, draws, seed)

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
            # Sorted largest ratios [draws] without a slope.
            if point not in self._nulls:
                rng = np.random.default_rng((self.seed, 1, point))
                noise = _without(self.basis, rng.normal(size=(len(self.roots), self.draws)))
                # Of pairs of families, not of axes: an axis has either sign, and which, the processor decides.
                noise += self.between @ (np.sqrt(variance) * rng.normal(size=(self.between.shape[1], self.draws)))
                self._nulls[point] = np.sort(self._ratios(noise)[1].max(0))
            corrected += weight[point] * share_reaching(self._nulls[point], ratio)
        return slopes, errors, corrected, self._guard(values)

    def _ratios(self, values: Array) -> tuple[Array, Array, Array, Array]:
        """Log likelihoods without a slope [points, grids]; ratios, slopes, errors [constructs, grids]."""
        squares, on_axes = (values**2).sum(0), self.axes.T @ values
        norms, facts_on_axes = (self.facts**2).sum(0), self.axes.T @ self.facts
        product = self.facts.T @ values
        without, with_slope, slopes, errors = [], [], [], []
        for variance in VARIANCES:
            shrunk = variance * self.sizes / (1 + variance * self.sizes)
            base = -0.5 * np.log1p(variance * self.sizes).sum()
            form = squares - (shrunk[:, None] * on_axes**2).sum(0)
            score = product - (shrunk[:, None] * facts_on_axes).T @ on_axes
            information = (norms - (shrunk[:, None] * facts_on_axes**2).sum(0))[:, None]
            information = np.where(self.estimable[:, None], information, np.inf)
            without.append(base - 0.5 * self.left * np.log(form))
            with_slope.append(base - 0.5 * self.left * np.log(form - score**2 / information))
            slopes.append(score / information)
            errors.append(np.broadcast_to(1 / np.sqrt(information), score.shape))
        null, full = np.stack(without), np.stack(with_slope)
        best = full.argmax(0)[None]
        own_slopes, own_errors = (np.take_along_axis(np.stack(kind), best, 0)[0] for kind in (slopes, errors))
        return null, 2 * (full.max(0) - null.max(0)), own_slopes, own_errors

    def _guard(self, values: Array) -> Replication:
        """The slope within each family of targets, and their mean against how much they differ."""
        slopes, variances, correlations = [], [], []
        for family in np.unique(self.family):
            is_member = self.family == family
            facts = self.facts[is_member]
            information = np.where(self.estimable, (facts**2).sum(0), 1.0)
            if (information > SMALLEST_PART * (self.facts**2).sum(0)).all():
                slopes.append((facts.T @ values[is_member]) / information[:, None])
                variances.append(np.broadcast_to(1 / information[:, None], slopes[-1].shape))
                between = facts.T @ facts / np.sqrt(np.outer(information, information))
                np.fill_diagonal(between, 1.0)
                correlations.append(between)
        if not slopes:
            empty = np.empty((0, self.facts.shape[1], values.shape[1]))
            return replication(empty, empty, np.eye(self.facts.shape[1]))
        return replication(np.stack(slopes), np.stack(variances), np.mean(correlations, axis=0))


def _without(basis: Array, columns: Array) -> Array:
    """Columns without their part in the span of a basis."""
    return np.asarray(columns - basis @ (basis.T @ columns))


def _axes(columns: Array) -> tuple[Array, Array]:
    """Principal axes [pairs, k] of columns [pairs, width], which span the same, and the squares of their lengths."""
    left, sizes, _ = np.linalg.svd(columns, full_matrices=False)
    kept = sizes > 1e-8 * sizes.max(initial=1.0)
    return left[:, kept], sizes[kept] ** 2


FEWEST_TASKS, FEWEST_FAMILIES = 5, 3
SIGNED, DISTANCE = "signed", "distance"
SMALLEST = 1e-12  # rounding


@dataclass(frozen=True)
class GridSlopes:
    """One question put to grids, all [constructs, grids]: slopes in points per standard deviation, errors, and p.

    ``ratio_p`` is that of the likelihood ratio, ``guard`` the replication, ``p`` the larger of their corrected p.
    """

    slope: Array
    error: Array
    ratio_p: Array
    guard: Replication

    @property
    def p(self) -> Array:
        """[constructs, grids], the larger of the two."""
        return np.asarray(np.maximum(self.ratio_p, self.guard.corrected))


@dataclass(frozen=True)
class MixedTest:
    """What every grid of gains with the same pairs, weights, families and ratings is tested with.

    ``constructs`` names the ratings that differ between tasks, ``ratings`` [tasks, constructs] are standardised, and
    ``deviations`` [constructs] are the standard deviations that were taken out.
    """

    grid: Grid
    constructs: tuple[str, ...]
    ratings: Array
    deviations: Array
    model: Model
    families: FamilySlopes
    distances: Distances

    @classmethod
    def of(cls, grid: Grid, draws: int = DRAWS, seed: int = 0) -> MixedTest:
        """The test of a grid, if ``why_not`` has no reason against it."""
        names = tuple(name for name in grid.constructs if np.ptp(grid.facts[name]) > 0)
        facts = np.stack([grid.facts[name] for name in names], axis=1)
        deviations, ratings = facts.std(0), standardised(facts)
        model = Model.of(grid, ratings, draws, seed)
        slopes = FamilySlopes.of(grid, model, ratings)
        return cls(grid, names, ratings, deviations, model, slopes, Distances.of(grid, ratings, draws, seed))

    @classmethod
    def joint(cls, test: MixedTest, construct: int, others: Array) -> MixedTest | None:
        """The test of a construct with the slopes of other constructs [k] in the model; None where nothing is left."""
        rating, rest = test.ratings[:, [construct]], test.ratings[:, others]
        effects = test.model.effects
        if np.abs(effects.orthogonal_to(rest).of_facts(rating)).max(initial=0.0) < SAME:
            return None
        model = Model.of(test.grid, rating, test.model.draws, test.model.seed, rest)
        families = FamilySlopes.of(test.grid, model, rating, rest)
        names, deviations = (test.constructs[construct],), test.deviations[[construct]]
        return cls(test.grid, names, rating, deviations, model, families, test.distances)

    def scale(self, gains: Array) -> Array:
        """Variance [grids] of the noise of gains in units of what weights promise."""
        return self.model.effects.scale(gains)

    def unit(self, gains: Array) -> Array:
        """Its root [grids]: what gains are divided by, so that their noise is as weights promise."""
        return np.asarray(np.sqrt(self.scale(gains)))

    def fit(self, scaled: Array) -> Likelihoods:
        """The fit of gains [tasks, tasks, grids] that were divided by their unit."""
        return self.model.fitted(self.model.effects.estimated(scaled))

    def variances(self) -> Array:
        """Variances [components] of effects of intermediates where the study's likelihood without a slope is largest.

        In the square of what gains are measured in.
        """
        gains = self.grid.outcome[..., None]
        unit = self.unit(gains)
        point = self.model.points[self.fit(gains / unit).without[0]]
        return np.asarray(point * self.model.unit * unit[0] ** 2)

    def log_likelihood(self, gains: Array) -> Array:
        """The largest log likelihood [grids] of gains in units of their noise, without a slope."""
        return self.model.largest(self.model.effects.estimated(gains / self.unit(gains)))

    def effect(self, question: str, construct: int) -> Array:
        """What a slope of 1 adds to gains [tasks, tasks]: the difference of standardised ratings, or its size."""
        rating = self.ratings[:, construct]
        difference = (rating[:, None] - rating[None, :]) * self.grid.mask
        return np.asarray(difference if question == SIGNED else np.abs(difference))

    def answer(self, question: str, gains: Array) -> GridSlopes:
        """Either question, put to gains [tasks, tasks, grids].

        SIGNED is the primary one: do intermediates that are rated higher than their target teach it more, or less?
        DISTANCE: do tasks whose ratings are further apart teach each other more, or less?
        """
        unit = self.unit(gains)
        if question == SIGNED:
            fit = self.fit(gains / unit)
            guard = self.families.replication(gains / unit, fit.with_slope)
            return GridSlopes(fit.slope * unit, fit.error * unit, self.model.corrected(fit), guard)
        slope, error, corrected, guard = self.distances.tested(gains / unit)
        return GridSlopes(slope * unit, error * unit, corrected, guard)


def why_not(grid: Grid) -> str | None:
    """Why the gains of a grid cannot be tested; None if they can."""
    counts = len(grid.tasks), len(np.unique(grid.family[grid.mask.any(axis=0)]))  # families of targets
    if not grid.constructs:
        is_rated = grid.left_out.keys() - {*FEATURES, SENSITIVITY}
        return "ratings do not differ between tasks" if is_rated else "no task has ratings"
    if counts[0] < FEWEST_TASKS or counts[1] < FEWEST_FAMILIES:
        has = counted(max(0, counts[1] - 1), "degree of freedom", "degrees of freedom")
        return (
            f"{counted(counts[0], 'rated task')}, with targets of {counted(counts[1], 'family')}, whose slopes leave"
            f" {has} for a test over families of targets; it needs {FEWEST_TASKS} tasks and targets of"
            f" {FEWEST_FAMILIES} families, which leave {FEWEST_FAMILIES - 1}"
        )
    effects = Effects.of(grid)
    if effects.count < FEWEST_TASKS - 1 or effects.left < 1:
        left = counted(max(0, effects.left), "degree of freedom", "degrees of freedom")
        pairs = counted(int(grid.mask.sum()), "pair")
        return (
            f"{pairs} can tell {counted(effects.count + 1, 'intermediate')} apart and leave {left} beside them and the"
            f" targets; a test of ratings needs {FEWEST_TASKS} and 1, from more tasks or the cells that are missing"
        )
    outcome = np.where(grid.mask, grid.outcome, 0.0)[..., None]
    if effects.scale(outcome)[0] <= SMALLEST * (grid.weights * outcome[..., 0] ** 2).sum():
        return "gains differ by nothing but their tasks"
    return None


OVERLAP, ROUNDING = 0.8, 1e-9  # correlation of two ratings over tasks


@dataclass(frozen=True)
class Overlaps:
    """``partners`` marks [constructs, constructs] ratings that overlap, ``tests`` theirs by construct."""

    partners: Array
    tests: dict[int, MixedTest]

    @classmethod
    def of(cls, test: MixedTest) -> Overlaps:
        """The overlaps of the ratings of a test."""
        count = len(test.constructs)
        correlations = np.corrcoef(test.ratings.T).reshape(count, count)
        partners: Array = np.asarray((np.abs(correlations) >= OVERLAP - ROUNDING) & ~np.eye(count, dtype=bool))
        tests = {
            construct: MixedTest.joint(test, construct, np.flatnonzero(partners[construct]))
            for construct in range(count)
            if partners[construct].any()
        }
        return cls(partners, {construct: joint for construct, joint in tests.items() if joint is not None})

    def p_beside(self, gains: Array) -> Array:
        """P [constructs, grids] beside all that overlap with it; 1 where nothing is left, NaN where nothing overlaps.

        ``gains`` are [tasks, tasks, grids].
        """
        p: Array = np.repeat(np.where(self.partners.any(1), 1.0, np.nan)[:, None], gains.shape[2], axis=1)
        for construct, test in self.tests.items():
            p[construct] = test.answer(SIGNED, gains).p[0]
        return p

    def named(self, p: Array, p_beside: Array) -> Array:
        """[constructs, grids], whether a rating is supported by itself, from its two p."""
        return np.asarray((p <= LEVEL) & ((p_beside <= LEVEL) | np.isnan(p_beside)))

    def together(self, p: Array, p_beside: Array) -> Array:
        """[constructs, grids], whether it is only with those that overlap: it or one of them, which nothing tells."""
        shared = (p <= LEVEL) & ~self.named(p, p_beside)
        return np.asarray(shared | ((p > LEVEL) & ((self.partners.astype(int) @ shared.astype(int)) > 0)))
