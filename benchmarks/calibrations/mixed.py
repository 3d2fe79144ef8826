"""How often the tests of ratings alarm on grids without an effect, and find one that was planted.

``python -m benchmarks.calibrations.mixed FILE.csv`` simulates grids with the tasks, ratings, weights and
families of the published study, and grids of other shapes, and writes one row per test and kind of grid.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.gains.corrections import exact_interval
from analysis.gains.significance import LEVEL
from analysis.importance.detection import effect_sizes
from analysis.importance.grid import CONSTRUCT, PRIMARY, SIZE, Grid, grid_of
from analysis.importance.likelihood import standardised
from analysis.importance.mixed_test import DISTANCE, SIGNED, MixedTest, Overlaps
from analysis.results.published import results
from analysis.tables import Declared, framed, write_csv
from benchmarks.grids.backgrounds import BACKGROUNDS

Array = np.ndarray
GRIDS, SEED = 1000, 20_261_124
REPEATS = 20  # of as many grids without an effect
MANY = "published, more grids"
SHARE = 0.15  # of the variance of gains within targets, that a planted effect explains
RATIO_ALONE, MIXED, MIXED_DISTANCE = "likelihood ratio alone", "mixed model", "mixed model, distance"
CORRELATIONS = (0.8, 0.9, 0.95)  # of a rating that gains follow and one that they do not
SUPPORTED_ALONE, NAMED, TOGETHER = "supported without the other", "named alone", "only together"
SHAPES = ((4, 3), (6, 2), (10, 2), (6, 5))  # families, and tasks in each
OF_SHAPES = ("independent noise", "task effects", "family effects", "family and task effects")
RATINGS_PER_SHAPE = 4

CALIBRATION = {
    "design": Declared(
        "str",
        "whose tasks and ratings: the published ones (or more grids of them), or so many families of so many tasks",
    ),
    "test": Declared("str", "which test"),
    "background": Declared("str", "what gains differ by beside the effect"),
    "planted": Declared("str", "construct whose difference was planted, of distances its size; empty: none"),
    "share_planted": Declared("float64", "of the weighted variance of gains within targets"),
    "grids": Declared("int64", "simulated grids"),
    "alarms": Declared("int64", "of them with a p of at most .05 for some construct"),
    "rate": Declared("float64", "alarms / grids"),
    "low": Declared("float64", "lower end of its exact 95 % interval"),
    "high": Declared("float64", "its upper end"),
}
OVERLAPS = {
    "correlation": Declared("float64", "of the first rating with the other one, over tasks"),
    "background": CALIBRATION["background"],
    "planted": Declared("str", "first: gains follow the first rating; empty: none"),
    "rating": Declared("str", "of which of the two the verdict is: first or other"),
    "verdict": Declared("str", f"{SUPPORTED_ALONE}, {NAMED} beside the other, or {TOGETHER}"),
    **{name: CALIBRATION[name] for name in ("grids", "alarms", "rate", "low", "high")},
}


def calibration(
    grid: Grid, backgrounds: Sequence[str] = tuple(BACKGROUNDS), *, grids: int = GRIDS, seed: int = SEED
) -> pd.DataFrame:
    """Columns CALIBRATION: every test on grids of each background without an effect, and with each construct planted.

    Signed differences are planted for all tests but that of distances, for which distances are. Weights are taken as
    known.
    """
    test, rows = MixedTest.of(grid), []
    for background, name, gains in _simulated(test, SIGNED, backgrounds, grids, seed):
        for what, alarms in _signed_alarms(test, gains).items():
            rows.append(_row("published", what, background, name, alarms))
    for background, name, gains in _simulated(test, DISTANCE, backgrounds, grids, seed):
        alarms = test.answer(DISTANCE, gains).p.min(0) <= LEVEL
        rows.append(_row("published", MIXED_DISTANCE, background, name, alarms))
    return framed(pd.DataFrame(rows), CALIBRATION)


def of_sizes(
    grid: Grid, backgrounds: Sequence[str] = tuple(BACKGROUNDS), *, grids: int = GRIDS, seed: int = SEED
) -> pd.DataFrame:
    """False alarms of the mixed model alone on REPEATS times as many grids of each background."""
    test, rows = MixedTest.of(grid), []
    for background in backgrounds:
        alarms: dict[str, list[Array]] = {}
        for repeat in range(REPEATS):
            rng = np.random.default_rng((seed, list(BACKGROUNDS).index(background), 1 + repeat))
            noise = BACKGROUNDS[background](grid, grids, rng) * grid.mask[..., None]
            for what, own in _signed_alarms(test, noise).items():
                alarms.setdefault(what, []).append(own)
        rows += [_row(MANY, what, background, "", np.concatenate(parts)) for what, parts in alarms.items()]
    return framed(pd.DataFrame(rows), CALIBRATION)


def of_shapes(grids: int = GRIDS, seed: int = SEED) -> pd.DataFrame:
    """The same of the mixed model for grids of other shapes; alarms of several drawings of ratings are put together."""
    rows = []
    for shape in SHAPES:
        alarms: dict[tuple[str, str, str], list[Array]] = {}
        for drawing in range(RATINGS_PER_SHAPE):
            grid = drawn_grid(*shape, np.random.default_rng((seed, *shape, drawing)))
            test, share = MixedTest.of(grid), grids // RATINGS_PER_SHAPE
            for background, name, gains in _simulated(test, SIGNED, OF_SHAPES, share, seed + 1 + drawing):
                for what, own in _signed_alarms(test, gains).items():
                    alarms.setdefault((what, background, name), []).append(own)
        design = f"{shape[0]} families of {shape[1]}"
        rows += [_row(design, *key, np.concatenate(parts)) for key, parts in alarms.items()]
    return framed(pd.DataFrame(rows), CALIBRATION)


def of_overlaps(grid: Grid, grids: int = GRIDS, seed: int = SEED) -> pd.DataFrame:
    """Columns OVERLAPS: verdicts where another rating overlaps with the first construct, which gains follow or not.

    The other one is drawn anew RATINGS_PER_SHAPE times, so that it correlates exactly so much with the first, and
    replaces the second construct.
    """
    first, second = grid.constructs[:2]
    rows, share = [], grids // RATINGS_PER_SHAPE
    for r in CORRELATIONS:
        verdicts: dict[tuple[str, str], list[Array]] = {}
        for drawing in range(RATINGS_PER_SHAPE):
            rng = np.random.default_rng((seed, round(100 * r), drawing))
            other = _overlapping(standardised(grid.facts[first]), r, rng)
            test = MixedTest.of(replace(grid, facts={**grid.facts, second: other}))
            overlaps = Overlaps.of(test)
            for background, planted, gains in _simulated(test, SIGNED, OF_SHAPES, share, seed + 1 + drawing):
                if planted in ("", first):
                    p, p_beside = test.answer(SIGNED, gains).p[:2], overlaps.p_beside(gains)[:2]
                    both = Overlaps(overlaps.partners[:2, :2], {})
                    parts = np.stack([p <= LEVEL, both.named(p, p_beside), both.together(p, p_beside)])
                    verdicts.setdefault((background, planted), []).append(parts)
        for (background, planted), drawings in verdicts.items():
            counts = np.concatenate(drawings, axis=2)  # [verdicts, two ratings, grids]
            for what, own in zip((SUPPORTED_ALONE, NAMED, TOGETHER), counts, strict=True):
                for rating, alarms in zip(("first", "other"), own, strict=True):
                    row = _row("published", what, background, planted and "first", alarms)
                    rows.append({**row, "correlation": r, "rating": rating, "verdict": what})
    return framed(pd.DataFrame(rows), OVERLAPS)


def _overlapping(rating: Array, r: float, rng: np.random.Generator) -> Array:
    """A rating [tasks] that correlates by exactly r with a standardised one."""
    drawn = standardised(rng.normal(size=rating.size))
    return np.asarray(r * rating + np.sqrt(1 - r**2) * standardised(drawn - (drawn @ rating) / rating.size * rating))


def drawn_grid(families: int, tasks: int, rng: np.random.Generator) -> Grid:
    """A grid without gains: three ratings that correlate by .5, half of their variance between families."""
    count = families * tasks
    family = np.repeat(np.arange(families), tasks)
    root = np.linalg.cholesky(0.5 * np.eye(3) + 0.5)
    of_families, of_tasks = (rng.normal(size=(size, 3)) @ root.T * np.sqrt(0.5) for size in (families, count))
    ratings = np.round(2 * (3 + of_families[family] + of_tasks)) / 2
    names = ("definition", "link", "conduciveness")
    mask = ~np.eye(count, dtype=bool)
    facts = {"samples": rng.normal(size=count) * 2, **{name: ratings[:, k] for k, name in enumerate(names)}}
    return Grid(
        tasks=tuple(f"task{number}" for number in range(count)),
        family=family,
        families=tuple(f"family{number}" for number in range(families)),
        mask=mask,
        outcome=np.zeros(mask.shape),
        weights=mask / 25.0,
        facts=facts,
        kinds={"samples": SIZE, **dict.fromkeys(names, CONSTRUCT)},
        left_out={},
        notes=(),
        heterogeneity=0.0,
        data_set=np.arange(count),
    )


def _simulated(
    test: MixedTest, question: str, backgrounds: Sequence[str], grids: int, seed: int
) -> Iterator[tuple[str, str, Array]]:
    """Gains [tasks, tasks, grids] of every background, without an effect and with each construct planted."""
    grid = test.grid
    for background in backgrounds:
        number = list(BACKGROUNDS).index(background)
        noise = BACKGROUNDS[background](grid, grids, np.random.default_rng((seed, number))) * grid.mask[..., None]
        yield background, "", noise
        for construct, name in enumerate(test.constructs):
            effect = test.effect(question, construct)
            yield background, name, noise + effect_sizes(grid, effect, noise, SHARE) * effect[..., None]


def _signed_alarms(test: MixedTest, gains: Array) -> dict[str, Array]:
    """[grids], whether some construct has a p of at most .05, with the guard and without it."""
    signed = test.answer(SIGNED, gains)
    return {MIXED: signed.p.min(0) <= LEVEL, RATIO_ALONE: signed.ratio_p.min(0) <= LEVEL}


def _row(design: str, test: str, background: str, name: str, alarms: Array) -> dict[str, Any]:
    count, of = int(alarms.sum()), len(alarms)
    low, high = exact_interval(count, of)
    return {
        "design": design,
        "test": test,
        "background": background,
        "planted": name,
        "share_planted": SHARE if name else 0.0,
        "grids": of,
        "alarms": count,
        "rate": count / of,
        "low": low,
        "high": high,
    }


def main() -> None:
    """Calibrate on the published study and on other shapes, and write the rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--grids", type=int, default=GRIDS)
    parser.add_argument("--overlaps", action="store_true", help="verdicts on ratings that overlap instead")
    options = parser.parse_args()
    grid = grid_of(results(), PRIMARY)
    if options.overlaps:
        write_csv(of_overlaps(grid, options.grids), options.file.with_suffix(""))
        return
    parts = calibration(grid, grids=options.grids), of_sizes(grid, grids=options.grids), of_shapes(options.grids)
    write_csv(pd.concat(parts, ignore_index=True), options.file.with_suffix(""))


if __name__ == "__main__":
    main()
