"""Which effects of ratings a study could have seen: simulated grids with a planted slope, put to the study's own test.

Simulated grids have the study's own tasks, families, ratings and missing pairs, and its own noise (``own_noise``).
Backgrounds, in which ratings explain nothing, have differences of their own beside the noise: each takes a grid, a
number of grids and a generator, and returns gains in points ``[tasks, tasks, grids]``. Sizes are in units of the median
standard deviation of a pair, as its weight gives it.
"""

from collections.abc import Callable

import numpy as np
import pandas as pd

from analysis.gains.corrections import exact_interval
from analysis.gains.power import POWER
from analysis.gains.significance import LEVEL
from analysis.importance.grid import Grid
from analysis.importance.mixed_test import SIGNED, MixedTest
from analysis.tables import Declared, framed

Array = np.ndarray
Background = Callable[[Grid, int, np.random.Generator], Array]


def noise_sizes(grid: Grid) -> Array:
    """Standard deviation ``[tasks, tasks]`` of every pair by its weight, in points."""
    return np.where(grid.mask, 1 / np.sqrt(np.where(grid.mask, grid.weights, 1.0)), 0.0)


def spread(grid: Grid, values: Array) -> Array:
    """Weighted squares ``[grids]`` of values ``[tasks, tasks, grids]`` about the means of targets."""
    inside = values * grid.mask[..., None]
    means = inside.sum(0) / np.maximum(grid.mask.sum(0), 1)[:, None]
    return np.asarray((grid.weights[..., None] * (inside - means) ** 2).sum((0, 1)))


def effect_sizes(grid: Grid, effect: Array, noise: Array, share: float) -> Array:
    """Points ``[grids]`` per unit of ``effect`` ``[tasks, tasks]`` that explain a share beside ``noise`` of each grid.

    An effect b x beside noise e explains the share s of the squares where b^2 [x'x] / (b^2 [x'x] + [e'e]) = s.
    """
    return np.asarray(np.sqrt(share / (1 - share) * spread(grid, noise) / spread(grid, effect[..., None])))


def independent(grid: Grid, grids: int, rng: np.random.Generator) -> Array:
    """Every pair on its own, as noisy as its weight says."""
    return np.asarray(rng.normal(size=(*grid.mask.shape, grids)) * noise_sizes(grid)[..., None])


def task_effects(grid: Grid, grids: int, rng: np.random.Generator, size: float = 1.0) -> Array:
    """Intermediates differ as much as the noise, targets twice as much."""
    unit, n_tasks = unit_of(grid), len(grid.tasks)
    noise = independent(grid, grids, rng)
    intermediates = rng.normal(size=(n_tasks, 1, grids)) * unit * size
    return np.asarray(noise + intermediates + rng.normal(size=(1, n_tasks, grids)) * 2 * unit)


def family_effects(grid: Grid, grids: int, rng: np.random.Generator) -> Array:
    """Families of intermediates differ as much as the noise, and so do pairs of families."""
    unit, count = unit_of(grid), len(grid.families)
    noise = independent(grid, grids, rng)
    intermediates = rng.normal(size=(count, 1, grids))[grid.family] * unit
    both = rng.normal(size=(count, count, grids))[grid.family][:, grid.family] * unit
    targets = rng.normal(size=(1, len(grid.tasks), grids)) * unit
    return np.asarray(noise + intermediates + both + targets)


def unit_of(grid: Grid) -> float:
    """The median standard deviation of a pair, in points."""
    return float(np.median(noise_sizes(grid)[grid.mask]))


SLOPE_GRIDS, SLOPE_SEED = 200, 20_261_123
LADDER = 1.4 ** np.arange(-2, 11)  # slopes that are tried, times the error of the slope


def own_noise(test: MixedTest, grids: int, rng: np.random.Generator) -> Array:
    """Gains [tasks, tasks, grids] without a slope that vary as the study's do, by the model's own fit of them."""
    unit = test.unit(test.grid.outcome[..., None])[0]
    kernel = np.sum([v * part.kernel for v, part in zip(test.variances(), test.model.parts, strict=True)], axis=0)
    values, vectors = np.linalg.eigh(kernel)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T  # the symmetric root, of which there is one
    intermediates = root @ rng.normal(size=(len(kernel), grids))
    pairs = unit * noise_sizes(test.grid)[..., None] * rng.normal(size=(*test.grid.mask.shape, grids))
    return np.asarray(test.grid.mask[..., None] * (pairs + intermediates[:, None]))


def smallest_slopes(test: MixedTest, progress: Callable[[int], None] = lambda done: None) -> Array:
    """The slope [constructs] per standard deviation that is found in four of five grids; NaN where none tried is.

    Between the slopes of a ladder by straight lines; a rate that falls counts as that of the smaller slope.
    """
    noise = own_noise(test, SLOPE_GRIDS, np.random.default_rng(SLOPE_SEED))
    errors = test.answer(SIGNED, test.grid.outcome[..., None]).error[:, 0]
    smallest = np.full(len(test.constructs), np.nan)
    for construct in range(len(test.constructs)):
        effect = test.effect(SIGNED, construct)[..., None]
        before = (0.0, 0.0)
        for slope in LADDER * errors[construct]:
            rate = max(before[1], float((test.answer(SIGNED, noise + effect * slope).p[construct] <= LEVEL).mean()))
            if rate >= POWER:
                smallest[construct] = before[0] + (slope - before[0]) * (POWER - before[1]) / (rate - before[1])
                break
            before = (float(slope), rate)
        progress(construct + 1)
    return smallest


GRIDS, SEED = 100, 20_240_908
SHARES = (0.03, 0.07, 0.15, 0.3, 0.5)
OWN = "the study's own noise"
HARDER: dict[str, Background] = {"task effects": task_effects, "family effects": family_effects}
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
    grid: Grid, *, grids: int = GRIDS, seed: int = SEED, progress: Progress = lambda done, of, stage: None
) -> pd.DataFrame:
    """One row per background without an effect, and per background, construct and share of SHARES: DETECTION.

    Weights are taken as known.
    """
    test = MixedTest.of(grid)
    planted = [("", 0.0), *((name, share) for name in test.constructs for share in SHARES)]
    kinds = [(background, *pair) for background in (OWN, *HARDER) for pair in planted]
    rows = []
    for number, (background, name, share) in enumerate(kinds):
        rng = np.random.default_rng((seed, number))
        if background == OWN:
            noise = own_noise(test, grids, rng)
        else:
            noise = np.asarray(HARDER[background](grid, grids, rng) * grid.mask[..., None])
        # How much higher the intermediate of every pair is rated than its target [tasks, tasks].
        facts = grid.facts[name] if name else np.zeros(len(grid.tasks))
        effect = (facts[:, None] - facts[None, :]) * grid.mask
        sizes = effect_sizes(grid, effect, noise, share) if name else np.zeros(grids)
        seen = int((test.answer(SIGNED, noise + effect[..., None] * sizes).p.min(0) <= LEVEL).sum())
        points = sizes.mean() if np.isfinite(grid.heterogeneity) else np.nan
        rows.append((background, name, share, points, grids, seen, seen / grids, *exact_interval(seen, grids)))
        progress(number + 1, len(kinds), f"grids with {background}")
    return framed(pd.DataFrame(rows, columns=list(DETECTION)), DETECTION)


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
