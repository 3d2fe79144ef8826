"""Other tests of ratings that were tried, on the very grids on which the one that is kept was calibrated.

``python -m benchmarks.grids.alternatives FILE.csv`` simulates the grids of ``benchmarks.calibrations.mixed``
with the same seeds, and writes one row per test, background and planted effect: how often some rating has a p of at
most .05, by the larger of a test and the replication guard, and by the test alone. In place of the likelihood ratio:

- **restricted slope**: variances at the restricted maximum with the slope, and the square of the slope over its error;
- **restricted ratio**: the restricted maximum with the slope over the maximum without it;
- **permutation in families**: the same ratio, its null by permuting the ratings of intermediates of a family;
- **crossed pairs**: the likelihood of pairs, effects of both roles random, correlated within a task, errors of i on j
  and of j on i correlated, families of intermediates and pairs of families; its null is simulated, as that of the kept
  test. It compares targets, too; **targets free** lets them differ as they like, as the kept test does;
- **product removed** (one, two): products of a number of the intermediate and one of the target, as additive and
  multiplicative models have them, are taken from the gains first, and the kept test is put to what they leave;
- **second setting**, **three times the seeds**: the kept test itself, where noise falls as that of a mean of two
  settings whose noises correlate by .5, or of three times as many runs;
- variants of the kept test (``benchmarks.grids.variants``).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.gains.significance import LEVEL
from analysis.importance.detection import independent, noise_sizes
from analysis.importance.grid import PRIMARY, Grid, grid_of
from analysis.importance.likelihood import NEGLIGIBLE, Model, share_reaching
from analysis.importance.mixed_test import SIGNED, MixedTest
from analysis.results.published import results
from analysis.tables import framed, write_csv
from benchmarks.calibrations import mixed as calibration
from benchmarks.grids.backgrounds import BACKGROUNDS, SLOPE_SPREAD
from benchmarks.grids.variants import Nulls, averaged, variants

Array = np.ndarray
GRIDS, SEED = calibration.GRIDS, calibration.SEED
KINDS = (*calibration.OF_SHAPES, "data sets in families", "slopes differ by family of targets")
PERMUTATIONS, DRAWS = 199, 199
KEPT, PERMUTED, CROSSED, FREE = "kept", "permutation in families", "crossed pairs", "crossed pairs, targets free"
SLOPE, RATIO = "restricted slope", "restricted ratio"
REMOVED = {"one product removed": 1, "two products removed": 2}
NOISES = {"second setting": 0.75, "three times the seeds": 1 / 3}  # what is left of the noise's variance
TASKS, REVERSED, TARGETS = (0.0, 0.1, 0.3, 1.0, 3.0), (0.0, 0.3), (1.0, 5.0)  # variances in units of the noise
SHARED, FAMILIES, BOTH = (0.0, 0.5), (0.0, 0.3, 1.0), (0.0, 0.3, 1.0)
BLOCK = 250  # grids at a time
WIDE, APART = (100.0,), (0.0,)  # variances of targets that may be anything
FOLLOWED, STEEP = "task effects, targets follow their own rating", 2.0  # slope of targets in units of the noise
DIFFERING, LITTLE = "slopes of all ratings differ a little", 0.4  # of what one rating's slopes differ by elsewhere
MEND = 8  # rounds in which cells without a gain get what products say of them
ALONE = "alone"
ALTERNATIVES = {name: declared for name, declared in calibration.CALIBRATION.items() if name != "design"}


def alternatives(grid: Grid, grids: int = GRIDS, seed: int = SEED) -> Iterator[pd.DataFrame]:
    """Rows of every test for one background and planted effect after the other: the columns ALTERNATIVES."""
    tests = Tests.of(grid)
    simulated = calibration._simulated(tests.kept, SIGNED, KINDS, grids, seed)
    for background, name, gains in simulated:
        rows = [_row(test, background, name, alarms) for test, alarms in tests.alarms(gains).items()]
        for harder, own in _harder(tests.kept, background, name, gains, seed):
            rows += [_row(test, harder, name, alarms) for test, alarms in tests.alarms(own).items()]
        rng = np.random.default_rng((seed, list(BACKGROUNDS).index(background)))
        noise = independent(grid, grids, rng) * grid.mask[..., None]  # the background drew it first
        for title, left in NOISES.items():
            quiet = gains - (1 - np.sqrt(left)) * noise
            part = tests.kept.answer(SIGNED, quiet)
            rows += _both(title, background, name, part.ratio_p, part.guard.corrected)
        yield framed(pd.DataFrame(rows), ALTERNATIVES)


def _harder(test: MixedTest, background: str, name: str, gains: Array, seed: int) -> Iterator[tuple[str, Array]]:
    """Backgrounds without an effect that are made of another one: their names, and gains [tasks, tasks, grids]."""
    grid, mask = test.grid, test.grid.mask[..., None]
    unit = np.median(noise_sizes(grid)[grid.mask])
    if (background, name) == ("task effects", ""):
        yield FOLLOWED, gains + (STEEP * unit * test.ratings[:, 0])[None, :, None] * mask
    if (background, name) == ("independent noise", ""):
        size = (len(grid.families), test.ratings.shape[1], gains.shape[2])
        slopes = np.random.default_rng((seed, len(BACKGROUNDS))).normal(size=size)[grid.family]
        little = LITTLE * SLOPE_SPREAD * unit
        yield DIFFERING, gains + little * np.einsum("ic,jcg->ijg", test.ratings, slopes) * mask


def _both(title: str, background: str, name: str, p: Array, guard: Array) -> list[dict[str, Any]]:
    tests = {title: np.maximum(p, guard), f"{title}, {ALONE}": p}
    return [_row(test, background, name, own.min(0) <= LEVEL) for test, own in tests.items()]


def _row(test: str, background: str, name: str, alarms: Array) -> dict[str, Any]:
    row = calibration._row("published", test, background, name, alarms)
    return {column: row[column] for column in ALTERNATIVES}


@dataclass(frozen=True)
class Tests:
    """The kept test of a grid, and those beside it."""

    kept: MixedTest
    crossed: Mapping[str, Crossed]
    arranged: tuple[Array, Array]
    nulls: Nulls = field(default_factory=dict)

    @classmethod
    def of(cls, grid: Grid) -> Tests:
        """All tests of one grid."""
        kept, rng = MixedTest.of(grid), np.random.default_rng(SEED)
        orders = [kept.ratings[_within(grid.family, rng)] for _ in range(PERMUTATIONS)]
        crossed = {
            CROSSED: Crossed.of(grid, kept.ratings, TARGETS, SHARED),
            FREE: Crossed.of(grid, kept.ratings, WIDE, APART),
        }
        return cls(kept, crossed, projections(kept.model, np.hstack(orders)))

    def alarms(self, gains: Array) -> dict[str, Array]:
        """By test [grids], whether some construct has a p of at most .05."""
        kept, model = self.kept, self.kept.model
        part = kept.answer(SIGNED, gains)
        contrasts = model.effects.estimated(gains / kept.unit(gains))
        p = {KEPT: part.ratio_p, PERMUTED: self._permuted(contrasts)}
        p |= {title: crossed.p(gains) for title, crossed in self.crossed.items()}
        p |= {title: averaged(model, contrasts, statistic, self.nulls) for title, statistic in RESTRICTED.items()}
        guarded = {title: (own, part.guard.corrected) for title, own in p.items()}
        guarded |= variants(kept, part, contrasts, self.nulls)
        for title, count in REMOVED.items():
            again = kept.answer(SIGNED, without_products(kept.grid, gains, count))
            guarded[title] = again.ratio_p, again.guard.corrected
        both = {title: np.maximum(own, guard) for title, (own, guard) in guarded.items()}
        both |= {f"{title}, {ALONE}": own for title, (own, _) in guarded.items()}
        return {title: own.min(0) <= LEVEL for title, own in both.items()}

    def _permuted(self, contrasts: Array) -> Array:
        """P [constructs, grids] of the ratios, by the largest under permuted ratings."""
        model, (weighted, information) = self.kept.model, self.arranged
        observed, without = model.fitted(contrasts).ratio, model._without_slope(contrasts)
        largest = np.zeros((PERMUTATIONS, contrasts.shape[1]))
        for place in range(information.shape[1]):
            scores = weighted[:, place] @ contrasts
            ratio = 2 * ((without + 0.5 * scores**2 / information[:, [place]]).max(0) - without.max(0))
            order = place // len(observed)
            largest[order] = np.maximum(largest[order], ratio)
        return np.asarray((1 + (largest[:, None] >= observed).sum(0)) / (1 + PERMUTATIONS))


def _within(family: Array, rng: np.random.Generator) -> Array:
    """An order of tasks [tasks] in which each stays in its family."""
    order = np.arange(len(family))
    for code in np.unique(family):
        members = np.flatnonzero(family == code)
        order[members] = rng.permutation(members)
    return order


def projections(model: Model, ratings: Array) -> tuple[Array, Array]:
    """What takes contrasts to scores of slopes on ratings [tasks, k]: [points, k, n - 1], and their information."""
    inverses = np.linalg.inv(model.roots @ model.roots.transpose(0, 2, 1))
    facts = model.effects.of_facts(ratings)
    weighted = inverses @ facts
    return weighted.transpose(0, 2, 1), np.einsum("ik,pik->pk", facts, weighted)


def _restricted(model: Model, contrasts: Array) -> Iterator[tuple[Array, Array, Array]]:
    """By construct the squares of its slope over its error, restricted likelihoods with it [points, grids], without."""
    without = model._without_slope(contrasts)
    for projection, information in zip(model.projections, model.information, strict=True):
        squares = (projection @ contrasts) ** 2 / information[:, None]
        yield squares, without + 0.5 * squares - 0.5 * np.log(information / information[0])[:, None], without


def _restricted_slope(model: Model, contrasts: Array) -> Array:
    rows = [
        np.take_along_axis(squares, full.argmax(0)[None], 0)[0] for squares, full, _ in _restricted(model, contrasts)
    ]
    return np.stack(rows)


def _restricted_ratio(model: Model, contrasts: Array) -> Array:
    return np.stack([2 * (full.max(0) - without.max(0)) for _, full, without in _restricted(model, contrasts)])


RESTRICTED: dict[str, Callable[[Model, Array], Array]] = {SLOPE: _restricted_slope, RATIO: _restricted_ratio}


def without_products(grid: Grid, gains: Array, count: int) -> Array:
    """Gains [tasks, tasks, grids] less the ``count`` largest products of what means of both roles leave.

    Cells without a gain hold what products say of them (MEND rounds), so that they do not count.
    """
    mask = grid.mask[..., None]
    filled = np.where(mask, gains, np.nan)
    left = _without_roles(np.where(mask, gains, np.nanmean(filled, axis=0)[None]))
    for _ in range(MEND):
        u, sizes, v = np.linalg.svd(np.moveaxis(left, 2, 0))
        products = np.moveaxis((u[..., :count] * sizes[:, None, :count]) @ v[:, :count], 0, 2)
        left = _without_roles(np.where(mask, left, products))
    return np.asarray(np.where(mask, gains - products, 0.0))


def _without_roles(values: Array) -> Array:
    return np.asarray(values - values.mean(0)[None] - values.mean(1)[:, None] + values.mean((0, 1)))


@dataclass(frozen=True)
class Crossed:
    """The likelihood of pairs at points of variances: ``forms`` [points, pairs (pairs + 1) / 2] and what follows.

    ``ones`` [points, pairs] and ``slopes`` [constructs, points, pairs] take gains to the scores of the mean and, beside
    it, of slopes; ``information`` and ``of_slopes`` are theirs. The scale of all variances is profiled. ``centre``
    takes means of targets from gains, where these are free to vary, which saves the digits of small differences.
    """

    pairs: tuple[Array, Array]
    centre: Array
    forms: Array
    ones: Array
    information: Array
    slopes: Array
    of_slopes: Array
    log_determinants: Array
    roots: Array
    nulls: dict[int, Array] = field(default_factory=dict)

    @classmethod
    def of(cls, grid: Grid, ratings: Array, targets: Sequence[float], shared: Sequence[float]) -> Crossed:
        """At every combination of the variances above, those of targets and the correlations within a task given."""
        i, j = np.nonzero(grid.mask)
        pairs = i, j
        rows, columns = np.tril_indices(len(pairs[0]))
        twice = np.where(rows == columns, 1.0, 2.0)
        same = (j[:, None] == j) * 1.0
        centre = np.eye(len(j)) - (same / same.sum(1) if targets == WIDE else 0.0)
        facts = np.stack([rating[pairs[0]] - rating[pairs[1]] for rating in ratings.T])
        parts = [
            _at_a_point(covariance, facts, (rows, columns), twice)
            for covariance in _covariances(grid, pairs, targets, shared)
        ]
        forms, ones, information, slopes, of_slopes, determinants, roots = (
            np.stack(part) for part in zip(*parts, strict=True)
        )
        return cls(pairs, centre, forms, ones, information, slopes.swapaxes(0, 1), of_slopes.T, determinants, roots)

    def p(self, gains: Array) -> Array:
        """[constructs, grids], by the largest ratio in draws, mean over points by their likelihood without a slope."""
        blocks = np.array_split(self.centre @ gains[self.pairs], -(-gains.shape[2] // BLOCK), axis=1)
        without, ratios = (np.hstack(parts) for parts in zip(*map(self._fitted, blocks), strict=True))
        weight = np.exp(without - without.max(0))
        weight /= weight.sum(0)
        p, total = np.zeros(ratios.shape), np.zeros(ratios.shape[1])
        for point in np.flatnonzero((weight > 10 * NEGLIGIBLE).any(1)):
            used = weight[point] > 10 * NEGLIGIBLE
            p[:, used] += weight[point, used] * share_reaching(self._null(int(point)), ratios[:, used])
            total[used] += weight[point, used]
        return np.asarray(p / total)

    def _fitted(self, values: Array) -> tuple[Array, Array]:
        """Log likelihoods [points, grids] without a slope, and ratios [constructs, grids]."""
        count, (rows, columns) = len(values), np.tril_indices(len(values))
        scaled = values / values.std(0)
        packed = (scaled[rows] * scaled[columns]).astype("float32")
        squares = self.forms @ packed - (self.ones @ scaled) ** 2 / self.information[:, None]
        determinants = 0.5 * self.log_determinants[:, None]
        without = -0.5 * count * np.log(squares) - determinants
        ratios = []
        for slopes, information in zip(self.slopes, self.of_slopes, strict=True):
            left = squares - (slopes @ scaled) ** 2 / information[:, None]
            ratios.append(2 * ((-0.5 * count * np.log(left) - determinants).max(0) - without.max(0)))
        return without, np.stack(ratios)

    def _null(self, point: int) -> Array:
        """Sorted largest ratios in draws at a point."""
        if point not in self.nulls:
            rng = np.random.default_rng((SEED, point))
            drawn = self.centre @ (self.roots[point] @ rng.normal(size=(len(self.pairs[0]), DRAWS)))
            self.nulls[point] = np.sort(self._fitted(drawn)[1].max(0))
        return self.nulls[point]


def _at_a_point(covariance: Array, facts: Array, places: tuple[Array, Array], twice: Array) -> tuple[Array, ...]:
    """One point's part of every field of ``Crossed`` but the pairs."""
    inverse = np.linalg.inv(covariance)
    ones = inverse.sum(1)
    beside = (
        facts - (facts @ ones / ones.sum())[:, None]
    )  # of differences of ratings [constructs, pairs], about the mean
    weighted = beside @ inverse
    root = np.linalg.cholesky(covariance).astype("float32")
    determinant = 2 * np.log(np.diag(root).astype("float64")).sum()
    forms = (inverse[places] * twice).astype("float32")
    return forms, ones, ones.sum(), weighted, (weighted * beside).sum(1), determinant, root


def _covariances(
    grid: Grid, pairs: tuple[Array, Array], targets: Sequence[float], shared: Sequence[float]
) -> Iterator[Array]:
    """Covariances [pairs, pairs] of gains of intermediates on targets, at every combination of variances."""
    i, j = pairs
    noise, family = noise_sizes(grid)[i, j], grid.family
    unit = float(np.median(noise**2))
    teachers, learners = i[:, None] == i, j[:, None] == j
    crossed = (i[:, None] == j) * 1.0 + (j[:, None] == i)
    mutual = (i[:, None] == j) & (j[:, None] == i)
    of_families = family[i][:, None] == family[i]
    both = of_families & (family[j][:, None] == family[j])
    errors = np.diag(noise**2)
    for task, target, r, reverse, families, pair in product(TASKS, targets, shared, REVERSED, FAMILIES, BOTH):
        roles = task * teachers + target * learners + r * np.sqrt(task * target) * crossed
        effects = unit * (roles + families * of_families + pair * both)
        yield errors + reverse * mutual * np.outer(noise, noise) + effects


def main() -> None:
    """Simulate, and write the rows as they come."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--grids", type=int, default=GRIDS)
    options = parser.parse_args()
    rows: list[pd.DataFrame] = []
    for row in alternatives(grid_of(results(), PRIMARY), options.grids):
        rows.append(row)
        write_csv(pd.concat(rows, ignore_index=True), options.file.with_suffix(""))


if __name__ == "__main__":
    main()
