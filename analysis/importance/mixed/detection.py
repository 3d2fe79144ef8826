"""Which effects of ratings a study could have seen: grids with a planted effect, put to the test of the analysis.

Simulated grids have the study's own tasks, families, ratings and missing pairs, and its own noise
(``own_noise`` in the module ``detectable``). Two further backgrounds are those of the module ``backgrounds`` in which
tasks or families differ more.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from analysis.gains.corrections import exact_interval
from analysis.gains.power import POWER
from analysis.gains.significance import LEVEL
from analysis.importance.grid import Grid
from analysis.importance.mixed.backgrounds import BACKGROUNDS, effect_sizes
from analysis.importance.mixed.detectable import own_noise
from analysis.importance.mixed.tested import SIGNED, MixedTest
from analysis.tables import Declared, framed

Array = np.ndarray
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
