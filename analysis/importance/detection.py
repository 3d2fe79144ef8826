"""Which effects of ratings a study could have seen: simulated grids with a planted slope, put to the study's own test.

Simulated grids have the study's own tasks, families, ratings and missing pairs, and its own noise (``own_noise``).
Backgrounds, in which ratings explain nothing, have differences of their own beside the noise: each takes a grid, a
number of grids and a generator, and returns gains in points ``[tasks, tasks, grids]``. Sizes are in units of the median
standard deviation of a pair, as its weight gives it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from analysis.gains.corrections import exact_interval
from analysis.gains.power import POWER
from analysis.gains.significance import LEVEL
from analysis.importance.grid import CATEGORY, Grid
from analysis.importance.likelihood import standardised
from analysis.importance.mixed_test import SIGNED, MixedTest
from analysis.tables import Declared, framed

Array = np.ndarray
Background = Callable[[Grid, int, np.random.Generator], Array]
TAIL_DEGREES = 2.5  # of Student's t: a finite variance, hardly
COLLAPSED_SHARE, COLLAPSED_POINTS = 0.015, (20.0, 50.0)
HARM = 7.5  # by which one intermediate lowers every target
SLOPE_SPREAD = 0.7  # of slopes over families of targets, per standard deviation of a rating
NUISANCE_SHARE = 0.3  # of the variance of gains within targets, that another feature explains


def noise_sizes(grid: Grid) -> Array:
    """Standard deviation ``[tasks, tasks]`` of every pair by its weight, in points."""
    return np.where(grid.mask, 1 / np.sqrt(np.where(grid.mask, grid.weights, 1.0)), 0.0)


def spread(grid: Grid, values: Array) -> Array:
    """Weighted squares ``[grids]`` of values ``[tasks, tasks, grids]`` about the means of targets."""
    inside = values * grid.mask[..., None]
    means = inside.sum(0) / np.maximum(grid.mask.sum(0), 1)[:, None]
    squares: Array = (grid.weights[..., None] * (inside - means) ** 2).sum((0, 1))
    return squares


def effect_sizes(grid: Grid, effect: Array, noise: Array, share: float) -> Array:
    """Points ``[grids]`` per unit of ``effect`` ``[tasks, tasks]`` that explain a share beside ``noise`` of each grid.

    An effect b x beside noise e explains the share s of the squares where b^2 [x'x] / (b^2 [x'x] + [e'e]) = s.
    """
    sizes: Array = np.sqrt(share / (1 - share) * spread(grid, noise) / spread(grid, effect[..., None]))
    return sizes


def independent(grid: Grid, grids: int, rng: np.random.Generator) -> Array:
    """Every pair on its own, as noisy as its weight says."""
    noise: Array = rng.normal(size=(*grid.mask.shape, grids)) * noise_sizes(grid)[..., None]
    return noise


def task_effects(grid: Grid, grids: int, rng: np.random.Generator, size: float = 1.0) -> Array:
    """Intermediates differ as much as the noise, targets twice as much."""
    unit, n_tasks = _unit(grid), len(grid.tasks)
    noise = independent(grid, grids, rng)
    intermediates = rng.normal(size=(n_tasks, 1, grids)) * unit * size
    return np.asarray(noise + intermediates + rng.normal(size=(1, n_tasks, grids)) * 2 * unit)


def family_effects(grid: Grid, grids: int, rng: np.random.Generator) -> Array:
    """Families of intermediates differ as much as the noise, and so do pairs of families."""
    unit, count = _unit(grid), len(grid.families)
    noise = independent(grid, grids, rng)
    intermediates = rng.normal(size=(count, 1, grids))[grid.family] * unit
    both = rng.normal(size=(count, count, grids))[grid.family][:, grid.family] * unit
    targets = rng.normal(size=(1, len(grid.tasks), grids)) * unit
    return np.asarray(noise + intermediates + both + targets)


def family_and_task_effects(grid: Grid, grids: int, rng: np.random.Generator) -> Array:
    """Families as above, and single intermediates .7 times as much."""
    gains = family_effects(grid, grids, rng)
    return np.asarray(gains + rng.normal(size=(len(grid.tasks), 1, grids)) * _unit(grid) * 0.7)


def data_sets_in_families(grid: Grid, grids: int, rng: np.random.Generator) -> Array:
    """Families as above, data sets within them as much as the noise, and single intermediates half as much."""
    gains, unit = family_effects(grid, grids, rng), _unit(grid)
    data_sets = rng.normal(size=(grid.data_set.max() + 1, 1, grids))[grid.data_set] * unit
    return np.asarray(gains + data_sets + rng.normal(size=(len(grid.tasks), 1, grids)) * unit * 0.5)


def heavy_tails(grid: Grid, grids: int, rng: np.random.Generator) -> Array:
    """Student's t, and some collapsed cells that lose 20 to 50 points."""
    shape = (*grid.mask.shape, grids)
    noise = rng.standard_t(TAIL_DEGREES, size=shape) * noise_sizes(grid)[..., None]
    return np.where(rng.random(shape) < COLLAPSED_SHARE, -rng.uniform(*COLLAPSED_POINTS, size=shape), noise)


def heavy_tailed_intermediates(grid: Grid, grids: int, rng: np.random.Generator) -> Array:
    """Intermediates differ by Student's t, targets twice as much as the noise."""
    unit, n_tasks = _unit(grid), len(grid.tasks)
    noise = independent(grid, grids, rng)
    intermediates = rng.standard_t(TAIL_DEGREES, size=(n_tasks, 1, grids)) * unit
    return np.asarray(noise + intermediates + rng.normal(size=(1, n_tasks, grids)) * 2 * unit)


def harmful_intermediate(grid: Grid, grids: int, rng: np.random.Generator) -> Array:
    """Intermediates differ half as much as the noise, and one of them harms every target."""
    gains = task_effects(grid, grids, rng, 0.5)
    gains[rng.integers(len(grid.tasks), size=grids), :, np.arange(grids)] -= HARM * _unit(grid)
    return gains


def slopes_by_family(grid: Grid, grids: int, rng: np.random.Generator) -> Array:
    """Noise, and a slope on the first construct that differs by family of targets, around 0."""
    rating = standardised(grid.facts[grid.constructs[0]])
    slopes = rng.normal(size=(len(grid.families), grids))[grid.family] * _unit(grid) * SLOPE_SPREAD
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
            return np.asarray(gains + rng.normal(size=(int(fact.max()) + 1, 1, grids))[fact] * _unit(grid) * 1.5)
        effect = (fact[:, None] - fact[None, :]) * grid.mask
        return np.asarray(gains + effect_sizes(grid, effect, gains, NUISANCE_SHARE) * effect[..., None])

    background.__doc__ = f"Intermediates differ half as much as the noise, and by {kind}."
    return background


BACKGROUNDS: dict[str, Background] = {
    "independent noise": independent,
    "task effects": task_effects,
    "family effects": family_effects,
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


def _unit(grid: Grid) -> float:
    return float(np.median(noise_sizes(grid)[grid.mask]))


SLOPE_GRIDS, SLOPE_SEED = 200, 20_261_123
LADDER = 1.4 ** np.arange(-2, 11)  # slopes that are tried, times the error of the slope


def own_noise(test: MixedTest, grids: int, rng: np.random.Generator) -> Array:
    """Gains [tasks, tasks, grids] without a slope that vary as the study's do, by the model's own fit of them."""
    unit = test.unit(test.grid.outcome[..., None])[0]
    kernel = np.sum([v * part.kernel for v, part in zip(test.variances(), test.model.parts, strict=True)], axis=0)
    values, vectors = np.linalg.eigh(kernel)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    intermediates = root @ rng.normal(size=(len(kernel), grids))
    pairs = unit * noise_sizes(test.grid)[..., None] * rng.normal(size=(*test.grid.mask.shape, grids))
    return np.asarray(test.grid.mask[..., None] * (pairs + intermediates[:, None]))


def smallest_slopes(test: MixedTest, progress: Callable[[int], None] = lambda done: None) -> Array:
    """The slope [constructs] per standard deviation that is found in four of five grids; NaN where none tried is.

    Between the slopes of a ladder by straight lines; a rate that falls counts as that of the smaller slope.
    """
    noise = own_noise(test, SLOPE_GRIDS, np.random.default_rng(SLOPE_SEED))
    errors = test.asked(SIGNED, test.grid.outcome[..., None]).error[:, 0]
    smallest = np.full(len(test.constructs), np.nan)
    for construct in range(len(test.constructs)):
        effect = test.effect(SIGNED, construct)[..., None]
        before = (0.0, 0.0)
        for slope in LADDER * errors[construct]:
            rate = max(before[1], float((test.asked(SIGNED, noise + effect * slope).p[construct] <= LEVEL).mean()))
            if rate >= POWER:
                smallest[construct] = before[0] + (slope - before[0]) * (POWER - before[1]) / (rate - before[1])
                break
            before = (float(slope), rate)
        progress(construct + 1)
    return smallest


GRIDS, SEED = 100, 20_240_908
SHARES = (0.03, 0.07, 0.15, 0.3, 0.5)
OWN = "the study's own noise"
HARDER = ("task effects", "family effects")
Progress = Callable[[int, int, str], None]

DETECTION = {
    "background": Declared("str", "what pairs differ by beside the effect"),
    "planted": Declared("str", "construct whose signed difference was planted; empty: none"),
    "share": Declared("float64", "of the weighted variance of gains within targets that the effect explains"),
    "points_per_step": Declared("float64", "the effect in points per step of the rating, mean over grids"),
    "grids": Declared("int64", "simulated grids"),
    "found": Declared("int64", "grids in which some p is at most .05; without an effect these are false alarms"),
    "rate": Declared("float64", "found / grids"),
    "low": Declared("float64", "lower end of its exact 95 % interval"),
    "high": Declared("float64", "its upper end"),
}
SMALLEST = {
    "background": Declared("str", "what pairs differ by beside the effect"),
    "construct": Declared("str", "what was planted"),
    "share": Declared(
        "float64", "smallest share of the variance found in 80 % of grids, between those tried; undefined: none"
    ),
    "points_per_step": Declared("float64", "the same in points per step of the rating"),
}


def detection(
    grid: Grid, *, grids: int = GRIDS, seed: int = SEED, progress: Progress = lambda done, of, what: None
) -> pd.DataFrame:
    """One row per background without an effect, and per background, construct and share of SHARES: DETECTION.

    Weights are taken as known.
    """
    test = MixedTest.of(grid)
    planted = [("", 0.0), *((name, share) for name in test.constructs for share in SHARES)]
    kinds = [(background, *pair) for background in (OWN, *HARDER) for pair in planted]
    rows = []
    for number, (background, name, share) in enumerate(kinds):
        noise = background_noise(test, background, grids, np.random.default_rng((seed, number)))
        effect = _difference(grid, name) if name else np.zeros(grid.mask.shape)
        sizes = effect_sizes(grid, effect, noise, share) if name else np.zeros(grids)
        seen = int((test.asked(SIGNED, noise + effect[..., None] * sizes).p.min(0) <= LEVEL).sum())
        points = sizes.mean() if np.isfinite(grid.heterogeneity) else np.nan
        rows.append((background, name, share, points, grids, seen, seen / grids, *exact_interval(seen, grids)))
        progress(number + 1, len(kinds), f"grids with {background}")
    return framed(pd.DataFrame(rows, columns=list(DETECTION)), DETECTION)


def _difference(grid: Grid, name: str) -> Array:
    """How much higher the intermediate of every pair is rated than its target [tasks, tasks]."""
    facts = grid.facts[name]
    return np.asarray((facts[:, None] - facts[None, :]) * grid.mask)


def background_noise(test: MixedTest, background: str, grids: int, rng: np.random.Generator) -> Array:
    """Gains ``[tasks, tasks, grids]`` without an effect."""
    if background == OWN:
        return own_noise(test, grids, rng)
    return np.asarray(BACKGROUNDS[background](test.grid, grids, rng) * test.grid.mask[..., None])


def smallest_detected(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per background and construct of ``detection``: the columns SMALLEST, by straight lines between shares.

    A rate that falls although the share is larger counts as the rate of the smaller share.
    """
    rows = []
    for (background, name), part in frame[frame.planted != ""].groupby(["background", "planted"], sort=False):
        rates = np.maximum.accumulate(part.rate.to_numpy())
        if rates[-1] < POWER:
            rows.append((background, name, np.nan, np.nan))
            continue
        last = int(np.argmax(rates >= POWER))
        if last == 0:
            rows.append((background, name, part.share.iloc[0], part.points_per_step.iloc[0]))
            continue
        part_way = (POWER - rates[last - 1]) / (rates[last] - rates[last - 1])
        sizes = part[["share", "points_per_step"]].to_numpy()
        rows.append((background, name, *(sizes[last - 1] + part_way * (sizes[last] - sizes[last - 1]))))
    return framed(pd.DataFrame(rows, columns=list(SMALLEST)), SMALLEST)
