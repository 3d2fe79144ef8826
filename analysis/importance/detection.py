"""Which effects of ratings a study could have seen: grids with a planted effect, tested by the gate of the analysis.

Simulated grids have the study's own tasks, families, ratings and missing pairs, and its own noise: the squared standard
errors of its gains (test items and seeds) and the variance between pairs beyond them. Of the latter, as much is the
same for all pairs of an intermediate as in the study; see ``own_noise``. Two further backgrounds are those of
``analysis.importance.calibration``, in which tasks or families differ more.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from analysis.gains.power import POWER
from analysis.importance.calibration import BACKGROUNDS, effect_sizes, exact_interval
from analysis.importance.grid import Grid
from analysis.importance.null_tests import Arrangements, against_nulls
from analysis.tables import Declared, framed

Array = np.ndarray
GRIDS, DRAWS, SEED = 100, 199, 20_240_908
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
    "draws": Declared("int64", "arrangements of each null"),
    "found": Declared("int64", "grids that pass the gate at 5 %; without an effect these are false alarms"),
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
    grid: Grid,
    left_out: str,
    *,
    grids: int = GRIDS,
    draws: int = DRAWS,
    seed: int = SEED,
    progress: Progress = lambda done, of, what: None,
) -> pd.DataFrame:
    """One row per background without an effect, and per background, construct and share of SHARES: DETECTION.

    ``left_out`` is the role in which the gate leaves families out. Its verdicts rest on ``draws`` arrangements of tasks
    and, where there are as many, of families. Weights are taken as known.
    """
    planted = [("", 0.0), *((name, share) for name in grid.constructs for share in SHARES)]
    kinds = [(background, *pair) for background in (OWN, *HARDER) for pair in planted]
    arrangements = _fewer_family_orders(Arrangements.of(grid, draws, seed), draws, seed)
    rows = []
    for number, (background, name, share) in enumerate(kinds):
        rng = np.random.default_rng((seed, number))
        noise = background_noise(grid, background, grids, rng) * grid.mask[..., None]
        sizes = effect_sizes(grid, name, noise, share) if name else np.zeros(grids)
        effect = sizes * grid.blocks(name)[0] * grid.mask[..., None] if name else 0.0
        gate = against_nulls(grid, left_out, grid.constructs, arrangements, noise + effect)
        passes = int(gate.passes.sum())
        points = sizes.mean() if np.isfinite(grid.heterogeneity) else np.nan
        counts = (grids, draws, passes, passes / grids, *exact_interval(passes, grids))
        rows.append((background, name, share, points, *counts))
        progress(number + 1, len(kinds), f"grids with {background}")
    return framed(pd.DataFrame(rows, columns=list(DETECTION)), DETECTION)


def background_noise(grid: Grid, background: str, grids: int, rng: np.random.Generator) -> Array:
    """Gains ``[tasks, tasks, grids]`` without an effect."""
    return own_noise(grid, grids, rng) if background == OWN else BACKGROUNDS[background](grid, grids, rng)


def own_noise(grid: Grid, grids: int, rng: np.random.Generator) -> Array:
    """Gains ``[tasks, tasks, grids]`` as noisy as the study's, intermediates differing as much as its own do.

    The weights' variance v of a pair contains the variance a between intermediates. Of n pairs of an intermediate,
    each less its target's mean, the mean has the variance a + (v - a) / n, which is solved for a (method of moments)
    and kept between 0 and the variance beyond standard errors.
    """
    variance = np.where(grid.mask, 1 / np.where(grid.mask, grid.weights, 1.0), 0.0)
    between = intermediate_variance(grid, variance)
    of_pairs = np.sqrt(np.maximum(variance - between, 0.0))[..., None] * rng.normal(size=(*grid.mask.shape, grids))
    of_intermediates = np.sqrt(between) * rng.normal(size=(len(grid.tasks), 1, grids))
    return np.asarray(of_pairs + of_intermediates)


def intermediate_variance(grid: Grid, variance: Array) -> float:
    """Variance between intermediates of a grid whose pairs vary by ``variance`` ``[tasks, tasks]`` in all."""
    if not np.isfinite(grid.heterogeneity):
        return 0.0
    counts = np.maximum(grid.mask.sum(0), 1)
    centred = np.where(grid.mask, grid.outcome - np.where(grid.mask, grid.outcome, 0.0).sum(0) / counts, 0.0)
    n_pairs = grid.mask.sum(1)
    means = centred[n_pairs > 1].sum(1) / n_pairs[n_pairs > 1]
    if means.size < 2:
        return 0.0
    # Var(mean of n pairs) = a + (v - a) / n, solved for a: (n Var(mean) - v) / (n - 1).
    n, typical = n_pairs[n_pairs > 1].mean(), variance[grid.mask].mean()
    between = (n * means.var(ddof=1) - typical) / (n - 1)
    return float(np.clip(between, 0.0, grid.heterogeneity))


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


def _fewer_family_orders(arrangements: Arrangements, draws: int, seed: int) -> Arrangements:
    """At most so many of the arrangements of families, chosen at random: 719 of six would take most of the time."""
    if len(arrangements.families) <= draws:
        return arrangements
    chosen = np.random.default_rng(seed).choice(len(arrangements.families), draws, replace=False)
    return Arrangements(arrangements.tasks, arrangements.families[chosen])
