"""How often the guarded gate alarms on grids without an effect, and finds one that was planted.

``python -m analysis.importance.calibration FILE.csv`` simulates grids with the tasks, ratings, weights and families
of the published study and writes one row per kind of grid.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import beta

from analysis.importance.grid import Grid, grid_of
from analysis.importance.null_tests import LEVEL, Arrangements, against_nulls
from analysis.importance.specification import PRIMARY, Specification
from analysis.results.published import results
from analysis.tables import write_csv

Array = np.ndarray
GRIDS, DRAWS, SEED = 200, 199, 7
SHARE = 0.15  # of the variance of gains within targets, that a planted effect explains
TAIL_DEGREES = 2.5  # of Student's t: a finite variance, hardly
COLLAPSED_SHARE, COLLAPSED_POINTS = 0.015, (20.0, 50.0)


def _independent(grid: Grid, n_grids: int, rng: np.random.Generator) -> Array:
    """Every pair on its own, as noisy as its weight says."""
    noise: Array = rng.normal(size=(*grid.mask.shape, n_grids)) * _noise(grid)[..., None]
    return noise


def _task_effects(grid: Grid, n_grids: int, rng: np.random.Generator) -> Array:
    """Intermediates differ as much as the noise, targets twice as much."""
    size, n_tasks = np.median(_noise(grid)[grid.mask]), len(grid.tasks)
    intermediates = rng.normal(size=(n_tasks, 1, n_grids)) * size
    targets = rng.normal(size=(1, n_tasks, n_grids)) * 2 * size
    return np.asarray(_independent(grid, n_grids, rng) + intermediates + targets)


def _family_effects(grid: Grid, n_grids: int, rng: np.random.Generator) -> Array:
    """Families of intermediates differ as much as the noise, and so do pairs of families."""
    size, count = np.median(_noise(grid)[grid.mask]), len(grid.families)
    intermediates = rng.normal(size=(count, 1, n_grids))[grid.family] * size
    both = rng.normal(size=(count, count, n_grids))[grid.family][:, grid.family] * size
    targets = rng.normal(size=(1, len(grid.tasks), n_grids)) * size
    return np.asarray(_independent(grid, n_grids, rng) + intermediates + both + targets)


def _heavy_tails(grid: Grid, n_grids: int, rng: np.random.Generator) -> Array:
    """Student's t, and some collapsed cells that lose 20 to 50 points."""
    shape = (*grid.mask.shape, n_grids)
    noise = rng.standard_t(TAIL_DEGREES, size=shape) * _noise(grid)[..., None]
    return np.where(rng.random(shape) < COLLAPSED_SHARE, -rng.uniform(*COLLAPSED_POINTS, size=shape), noise)


BACKGROUNDS: dict[str, Callable[[Grid, int, np.random.Generator], Array]] = {
    "independent noise": _independent,
    "task effects": _task_effects,
    "family effects": _family_effects,
    "heavy tails and collapsed cells": _heavy_tails,
}


def calibration(
    grid: Grid,
    specification: Specification = PRIMARY,
    *,
    grids: int = GRIDS,
    draws: int = DRAWS,
    seed: int = SEED,
    planted: bool = True,
) -> pd.DataFrame:
    """One row per background without an effect, and (``planted``) per background and construct with one.

    ``alarms`` of ``grids`` pass the gate at 5 %, ``low`` to ``high`` is the exact 95 % interval of their ``rate``;
    ``alarms_tasks`` and ``alarms_families`` refute the one or the other null. Weights are taken as known.
    """
    # All simulated grids are outcomes of the one grid of features, so they share its folds, its permutations and every
    # product of features; only the products with outcomes are their own.
    kinds = [(background, name) for background in BACKGROUNDS for name in ("", *grid.constructs * planted)]
    outcomes = np.concatenate(list(_simulated_gains(grid, kinds, grids, seed)), axis=2)
    arrangements = Arrangements.of(grid, draws, seed)
    gate = against_nulls(grid, specification.left_out, grid.constructs, arrangements, outcomes)
    rows = []
    for number, (background, name) in enumerate(kinds):
        own = slice(number * grids, (number + 1) * grids)
        alarms = int(gate.passes[own].sum())
        low, high = exact_interval(alarms, grids)
        rows.append(
            {
                "background": background,
                "planted": name,
                "share_planted": SHARE if name else 0.0,
                "grids": grids,
                "draws": draws,
                "alarms": alarms,
                "rate": alarms / grids,
                "low": low,
                "high": high,
                "alarms_tasks": int((gate.p_tasks[own] <= LEVEL).sum()),
                "alarms_families": int((gate.p_families[own] <= LEVEL).sum()),
                "median_added": float(np.median(gate.added[own])),
            }
        )
    return pd.DataFrame(rows)


def _simulated_gains(grid: Grid, kinds: list[tuple[str, str]], grids: int, seed: int) -> Iterator[Array]:
    """Gains [tasks, tasks, grids] of every kind of grid, each with randomness of its own."""
    for number, (background, name) in enumerate(kinds):
        noise = BACKGROUNDS[background](grid, grids, np.random.default_rng((seed, number))) * grid.mask[..., None]
        if name:
            noise = noise + effect_sizes(grid, name, noise, SHARE) * grid.blocks(name)[0] * grid.mask[..., None]
        yield noise


def effect_sizes(grid: Grid, name: str, noise: Array, share: float) -> Array:
    """Points [grids] per step of a construct's signed difference that explain a share beside ``noise`` of each grid."""
    # An effect b x beside noise e explains the share s of the squares where b^2 [x'x] / (b^2 [x'x] + [e'e]) = s.
    of_effect, of_noise = (_spread(grid, part) for part in (grid.blocks(name)[0], noise))
    sizes: Array = np.sqrt(share / (1 - share) * of_noise / of_effect)
    return sizes


def _spread(grid: Grid, values: Array) -> Array:
    """Weighted squares [grids] about the means of targets."""
    means = (values * grid.mask[..., None]).sum(0) / np.maximum(grid.mask.sum(0), 1)[:, None]
    squares: Array = (grid.weights[..., None] * (values - means) ** 2).sum((0, 1))
    return squares


def _noise(grid: Grid) -> Array:
    """Standard deviation of every pair by its weight."""
    return np.where(grid.mask, 1 / np.sqrt(np.where(grid.mask, grid.weights, 1.0)), 0.0)


def exact_interval(count: int, of: int) -> tuple[float, float]:
    """Clopper and Pearson's 95 % interval of a share."""
    low = beta.ppf(0.025, count, of - count + 1) if count else 0.0
    high = beta.ppf(0.975, count + 1, of - count) if count < of else 1.0
    return float(low), float(high)


def main() -> None:
    """Calibrate on the published study and write the rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--grids", type=int, default=GRIDS)
    parser.add_argument("--draws", type=int, default=DRAWS)
    options = parser.parse_args()
    frame = calibration(grid_of(results(), PRIMARY), grids=options.grids, draws=options.draws)
    write_csv(frame, options.file.with_suffix(""))


if __name__ == "__main__":
    main()
