"""The mixed-model test of a grid: per rating, whether gains follow it, and whether they do so for unseen targets.

For the signed difference of ratings (the primary question) and for their distance, the p of a rating is the larger of
two, both corrected for all ratings: that of the likelihood ratio, and that of the replication guard.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.importance.grid import Grid
from analysis.importance.mixed.components import SAME, standardised
from analysis.importance.mixed.distance import Distances
from analysis.importance.mixed.effects import Effects
from analysis.importance.mixed.likelihood import DRAWS, Fit, Model
from analysis.importance.mixed.replication import FamilySlopes, Replication
from tasks.plain_text import counted

Array = np.ndarray
FEWEST_TASKS, FEWEST_FAMILIES = 5, 3
SIGNED, DISTANCE = "signed", "distance"
SMALLEST = 1e-12  # rounding


@dataclass(frozen=True)
class Part:
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
    def beside(cls, test: MixedTest, construct: int, others: Array) -> MixedTest | None:
        """The test of a construct with the slopes of other constructs [k] in the model; None where nothing is left."""
        own, beside = test.ratings[:, [construct]], test.ratings[:, others]
        effects = test.model.effects
        if np.abs(effects.beside(beside).of_facts(own)).max(initial=0.0) < SAME:
            return None
        model = Model.of(test.grid, own, test.model.draws, test.model.seed, beside)
        families = FamilySlopes.of(test.grid, model, own, beside)
        names, deviations = (test.constructs[construct],), test.deviations[[construct]]
        return cls(test.grid, names, own, deviations, model, families, test.distances)

    def scale(self, gains: Array) -> Array:
        """Variance [grids] of the noise of gains in units of what weights promise."""
        return self.model.effects.scale(gains)

    def unit(self, gains: Array) -> Array:
        """Its root [grids]: what gains are divided by, so that their noise is as weights promise."""
        return np.asarray(np.sqrt(self.scale(gains)))

    def fit(self, scaled: Array) -> Fit:
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

    def asked(self, question: str, gains: Array) -> Part:
        """Either question, put to gains [tasks, tasks, grids].

        SIGNED is the primary one: do intermediates that are rated higher than their target teach it more, or less?
        DISTANCE: do tasks whose ratings are further apart teach each other more, or less?
        """
        unit = self.unit(gains)
        if question == SIGNED:
            fit = self.fit(gains / unit)
            guard = self.families.replication(gains / unit, fit.with_slope)
            return Part(fit.slope * unit, fit.error * unit, self.model.corrected(fit), guard)
        slope, error, corrected, guard = self.distances.tested(gains / unit)
        return Part(slope * unit, error * unit, corrected, guard)


def why_not(grid: Grid) -> str | None:
    """Why the gains of a grid cannot be tested; None if they can."""
    counts = len(grid.tasks), len(grid.families)
    if not grid.constructs:
        return "no task has ratings"
    if counts[0] < FEWEST_TASKS or counts[1] < FEWEST_FAMILIES:
        has = counted(max(0, counts[1] - 1), "degree of freedom", "degrees of freedom")
        return (
            f"{counted(counts[0], 'task')} in {counted(counts[1], 'family')}, whose slopes leave {has} for a test over"
            f" families of targets; it needs {FEWEST_TASKS} tasks and {FEWEST_FAMILIES} families, which leave"
            f" {FEWEST_FAMILIES - 1}"
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
