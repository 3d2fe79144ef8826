"""Which slopes a study could have seen: grids with its own noise and a planted slope, put to its own test."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from analysis.gains.power import POWER
from analysis.gains.significance import LEVEL
from analysis.importance.mixed.backgrounds import noise_sizes
from analysis.importance.mixed.tested import SIGNED, MixedTest

Array = np.ndarray
GRIDS, SEED = 200, 20_261_123
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
    noise = own_noise(test, GRIDS, np.random.default_rng(SEED))
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
