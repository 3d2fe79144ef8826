"""Grids of made-up gains for the tests of the mixed model."""

from dataclasses import replace

import numpy as np

from analysis.importance.grid import CONSTRUCT, SIZE, Grid

NAMES = ("definition", "link")


def small_grid(seed=0, sizes=(3, 2, 2, 1), missing=4):
    """Families of these sizes, two ratings, unequal weights, some pairs missing, data sets within the first family."""
    rng = np.random.default_rng(seed)
    family = np.repeat(np.arange(len(sizes)), sizes)
    count = len(family)
    mask = ~np.eye(count, dtype=bool)
    chosen = rng.choice(np.flatnonzero(mask.ravel()), missing, replace=False)
    mask.ravel()[chosen] = False
    weights = np.where(mask, rng.uniform(0.02, 0.2, size=mask.shape), 0.0)
    data_set = np.arange(count)
    data_set[1] = 0
    facts = {name: np.round(rng.uniform(1, 5, size=count), 1) for name in NAMES}
    return Grid(
        tasks=tuple(f"t{k}" for k in range(count)),
        family=family,
        families=tuple(f"f{k}" for k in range(len(sizes))),
        mask=mask,
        outcome=np.zeros(mask.shape),
        weights=weights,
        facts={"samples": rng.normal(size=count), **facts},
        kinds={"samples": SIZE, **dict.fromkeys(NAMES, CONSTRUCT)},
        left_out={},
        notes=(),
        heterogeneity=0.0,
        data_set=data_set,
    )


def noise_of(grid, grids, seed=1, intermediates=0.0):
    """Gains [tasks, tasks, grids] that vary as the weights say, and by intermediates."""
    rng = np.random.default_rng(seed)
    deviations = np.where(grid.mask, 1 / np.sqrt(np.where(grid.mask, grid.weights, 1)), 0)
    noise = rng.normal(size=(*grid.mask.shape, grids)) * deviations[..., None]
    noise += rng.normal(size=(len(grid.tasks), 1, grids)) * intermediates * grid.mask[..., None]
    return noise + rng.normal(size=(1, len(grid.tasks), grids)) * 20 * grid.mask[..., None]


def with_outcome(grid, outcome):
    """The grid with these gains [tasks, tasks]."""
    return replace(grid, outcome=outcome)
