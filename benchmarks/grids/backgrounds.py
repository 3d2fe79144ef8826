"""Backgrounds of simulated grids in which ratings explain nothing, on which tests of ratings are calibrated.

Each takes a grid, a number of grids and a generator, and returns gains in points ``[tasks, tasks, grids]``; sizes are
in units of the median standard deviation of a pair (``analysis.importance.detection``, which has the commonest three).
"""

from __future__ import annotations

import numpy as np

from analysis.importance.detection import (
    HARDER,
    Array,
    Background,
    effect_sizes,
    family_effects,
    independent,
    noise_sizes,
    task_effects,
    unit_of,
)
from analysis.importance.grid import CATEGORY, Grid
from analysis.importance.likelihood import standardised

TAIL_DEGREES = 2.5  # of Student's t: a finite variance, hardly
COLLAPSED_SHARE, COLLAPSED_POINTS = 0.015, (20.0, 50.0)
HARM = 7.5  # by which one intermediate lowers every target
SLOPE_SPREAD = 0.7  # of slopes over families of targets, per standard deviation of a rating
NUISANCE_SHARE = 0.3  # of the variance of gains within targets, that another feature explains


def family_and_task_effects(grid: Grid, grids: int, rng: np.random.Generator) -> Array:
    """Families as above, and single intermediates .7 times as much."""
    gains = family_effects(grid, grids, rng)
    return np.asarray(gains + rng.normal(size=(len(grid.tasks), 1, grids)) * unit_of(grid) * 0.7)


def data_sets_in_families(grid: Grid, grids: int, rng: np.random.Generator) -> Array:
    """Families as above, data sets within them as much as the noise, and single intermediates half as much."""
    gains, unit = family_effects(grid, grids, rng), unit_of(grid)
    data_sets = rng.normal(size=(grid.data_set.max() + 1, 1, grids))[grid.data_set] * unit
    return np.asarray(gains + data_sets + rng.normal(size=(len(grid.tasks), 1, grids)) * unit * 0.5)


def heavy_tails(grid: Grid, grids: int, rng: np.random.Generator) -> Array:
    """Student's t, and some collapsed cells that lose 20 to 50 points."""
    shape = (*grid.mask.shape, grids)
    noise = rng.standard_t(TAIL_DEGREES, size=shape) * noise_sizes(grid)[..., None]
    return np.where(rng.random(shape) < COLLAPSED_SHARE, -rng.uniform(*COLLAPSED_POINTS, size=shape), noise)


def heavy_tailed_intermediates(grid: Grid, grids: int, rng: np.random.Generator) -> Array:
    """Intermediates differ by Student's t, targets twice as much as the noise."""
    unit, n_tasks = unit_of(grid), len(grid.tasks)
    noise = independent(grid, grids, rng)
    intermediates = rng.standard_t(TAIL_DEGREES, size=(n_tasks, 1, grids)) * unit
    return np.asarray(noise + intermediates + rng.normal(size=(1, n_tasks, grids)) * 2 * unit)


def harmful_intermediate(grid: Grid, grids: int, rng: np.random.Generator) -> Array:
    """Intermediates differ half as much as the noise, and one of them harms every target."""
    gains = task_effects(grid, grids, rng, 0.5)
    gains[rng.integers(len(grid.tasks), size=grids), :, np.arange(grids)] -= HARM * unit_of(grid)
    return gains


def slopes_by_family(grid: Grid, grids: int, rng: np.random.Generator) -> Array:
    """Noise, and a slope on the first construct that differs by family of targets, around 0."""
    rating = standardised(grid.facts[grid.constructs[0]])
    slopes = rng.normal(size=(len(grid.families), grids))[grid.family] * unit_of(grid) * SLOPE_SPREAD
    return np.asarray(independent(grid, grids, rng) + rating[:, None, None] * slopes[None])


def collapsed_cells(grid: Grid, grids: int, rng: np.random.Generator) -> Array:
    """Intermediates differ half as much as the noise, and some cells lose 20 to 50 points."""
    gains = task_effects(grid, grids, rng, 0.5)
    lost = rng.uniform(*COLLAPSED_POINTS, size=gains.shape)
    return np.where(rng.random(gains.shape) < COLLAPSED_SHARE, -lost, gains)


def metrics_mixed(grid: Grid, grids: int, rng: np.random.Generator) -> Array:
    """Intermediates differ half as much as the noise; gains of every third target are twice as large in all."""
    larger = np.where(np.arange(len(grid.tasks)) % 3 == 0, 2.0, 1.0)
    return np.asarray(task_effects(grid, grids, rng, 0.5) * larger[None, :, None])


def _explained_by(kind: str) -> Background:
    """A background in which another feature explains 30 % of the variance, or a category differs."""

    def background(grid: Grid, grids: int, rng: np.random.Generator) -> Array:
        gains = task_effects(grid, grids, rng, 0.5)
        fact = grid.facts[kind]
        if grid.kinds[kind] == CATEGORY:
            return np.asarray(gains + rng.normal(size=(int(fact.max()) + 1, 1, grids))[fact] * unit_of(grid) * 1.5)
        effect = (fact[:, None] - fact[None, :]) * grid.mask
        return np.asarray(gains + effect_sizes(grid, effect, gains, NUISANCE_SHARE) * effect[..., None])

    background.__doc__ = f"Intermediates differ half as much as the noise, and by {kind}."
    return background


BACKGROUNDS: dict[str, Background] = {
    "independent noise": independent,
    **HARDER,
    "family and task effects": family_and_task_effects,
    "data sets in families": data_sets_in_families,
    "heavy tails and collapsed cells": heavy_tails,
    "heavy-tailed intermediates": heavy_tailed_intermediates,
    "one harmful intermediate": harmful_intermediate,
    "slopes differ by family of targets": slopes_by_family,
    "collapsed cells": collapsed_cells,
    "metrics mixed": metrics_mixed,
    "sample size explains 30 %": _explained_by("samples"),
    "number of labels explains 30 %": _explained_by("n_labels"),
    "data sources differ": _explained_by("data_source"),
}
