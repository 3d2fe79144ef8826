"""How often gains alarm where there are none, cover a gain that is there, and find it: simulated item by item.

``python -m benchmarks.calibrations.gains FILE.csv`` simulates a target with six transfers and some 300 test items in
groups, trained with one to five seeds, gives every gain to the functions that judge those of a study, and writes one
row per design. Where nothing is there, the baseline and its transfers differ by chance alone.

A cell answers every item with q truth + errors. Errors are its own for the item and its group, partly the same in all
seeds and partly anew in each; q, the quality of the run, varies between seeds, and is larger where a gain is planted.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.gains.corrections import GainTest, corrections_of, reaches
from analysis.gains.pairs import Peers
from analysis.gains.significance import LEVEL, Evidence, FloatArray, Groups, difference_evidence, score_draws
from analysis.tables import Declared, framed, write_csv
from tasks.metrics import MEASURES

STUDIES, TRANSFERS, DRAWS, SEED, ITEMS = 1000, 6, 499, 20_261_123, 300
METRICS = ("macro_f1", "pearson_r")
QUALITY_SD = {"macro_f1": 0.20, "pearson_r": 0.10}  # between runs: 3.4 points of the score
PLANTED = {"gain": {"macro_f1": 0.69, "pearson_r": 0.283}, "harm": {"macro_f1": -0.37, "pearson_r": -0.19}}
OF_ALL_SEEDS, OF_EACH_SEED, OF_GROUP = 0.8, 0.48, 0.6  # standard deviations of errors; a group's beside an item's
EDGES = (-0.53, 0.53)  # between three classes, about equally frequent
POPULATION = 400_000
CALIBRATION = {
    "effect": Declared("str", "none, gain or harm; planted in every transfer"),
    "metric": Declared("str", "as tasks.metrics names it"),
    "groups": Declared("int64", "of test items"),
    "sizes": Declared("str", "of groups: equal, or unequal (lognormal)"),
    "seeds": Declared("int64", "of every transfer"),
    "baseline_seeds": Declared("int64", "of the baseline, the transfers' among them"),
    "run_sd": Declared("float64", "standard deviation of a cell's score between runs, in points; 0: they are alike"),
    "studies": Declared("int64", "simulated targets, each with six transfers"),
    "points": Declared("float64", "the true gain"),
    "rejected": Declared("float64", "share of gains with p of .05 or less"),
    "covered": Declared("float64", "share of 95 % intervals that hold the true gain"),
    "bh": Declared("float64", "studies with any gain that p_bh finds; of a planted gain, the share of gains found"),
    "holm": Declared("float64", "the same of p_holm"),
    "max_target": Declared("float64", "the same of p_max_target"),
}
DESIGN = list(CALIBRATION)[:7]  # columns that tell designs apart
CORRECTED = {"bh": "p_bh", "holm": "p_holm", "max_target": "p_max_target"}


@dataclass(frozen=True)
class Design:
    """What is simulated; with ``quality_sd`` 0 runs do not differ in quality, as if conditional on one."""

    effect: str
    metric: str
    groups: int
    sizes: str
    seeds: int
    baseline_seeds: int
    quality_sd: float

    @property
    def shift(self) -> float:
        """What is added to the quality of transfers."""
        return PLANTED[self.effect][self.metric] if self.effect in PLANTED else 0.0


def designs() -> Iterator[Design]:
    """34 without an effect; 4 without, where one run is all that is known; 16 with an effect."""
    for metric in METRICS:
        sd = QUALITY_SD[metric]
        for groups in (60, 10):
            for sizes in ("equal", "unequal"):
                yield Design("none", metric, groups, sizes, 1, 1, 0.0)
                for seeds, of_baseline in ((3, 3), (5, 5), (3, 6)):
                    yield Design("none", metric, groups, sizes, seeds, of_baseline, sd)
            yield Design("none", metric, groups, "equal", 1, 1, sd)
            for seeds in (3, 5):
                yield Design("gain", metric, groups, "equal", seeds, seeds, sd)
        for seeds in (3, 5):
            yield Design("harm", metric, 60, "equal", seeds, seeds, sd)
    yield from _of_few_seeds()


def _of_few_seeds() -> Iterator[Design]:
    """What a second seed buys; behind the other designs, whose draws hang on their number."""
    for metric in METRICS:
        for effect, seeds in (("gain", 1), ("none", 2), ("gain", 2)):
            yield Design(effect, metric, 60, "equal", seeds, seeds, QUALITY_SD[metric])


def calibration(numbers: Sequence[int], studies: int = STUDIES, seed: int = SEED) -> Iterator[pd.DataFrame]:
    """One row for each of the designs with these numbers, counted from 0: the columns CALIBRATION."""
    known = list(designs())
    for number in numbers:
        yield framed(pd.DataFrame([_row(known[number], studies, np.random.default_rng((seed, number)))]), CALIBRATION)


def replaced(rows: pd.DataFrame, row: pd.DataFrame) -> pd.DataFrame:
    """The rows with one that replaces that of its design, in the order of ``designs``."""
    every = pd.concat([rows, row]).drop_duplicates(DESIGN, keep="last")
    order = {tuple(_facts(design).values()): place for place, design in enumerate(designs())}
    places = [order[tuple(values)] for values in every[DESIGN].itertuples(index=False)]
    return every.iloc[np.argsort(places)].reset_index(drop=True)


def _facts(design: Design) -> dict[str, object]:
    """A design's part of its row, by which rows are told apart."""
    facts = {name: getattr(design, name) for name in DESIGN[:-1]}
    return {**facts, "run_sd": float(f"{100 * run_sd(design.metric, design.quality_sd):.10g}")}


def _row(design: Design, studies: int, rng: np.random.Generator) -> dict[str, object]:
    true = population_gain(design.metric, design.shift, design.quality_sd)
    judged = [simulated(design, rng) for _ in range(studies)]
    p, low, high = (
        np.array([[getattr(gain, name) for gain in gains] for gains, _, _ in judged]) for name in ("p", "low", "high")
    )
    corrected = np.array([frame[list(CORRECTED.values())].to_numpy() for _, frame, _ in judged]) <= LEVEL
    shares = corrected.mean(axis=(0, 1)) if design.shift else corrected.any(axis=1).mean(axis=0)
    return {
        **_facts(design),
        "studies": studies,
        "points": 100 * true,
        "rejected": (p <= LEVEL).mean(),
        "covered": ((low <= true) & (true <= high)).mean(),
        **dict(zip(CORRECTED, shares, strict=True)),
    }


def simulated(design: Design, rng: np.random.Generator) -> tuple[list[Evidence], pd.DataFrame, FloatArray]:
    """The evidence of every gain of one target, their corrected p, and the scores ``[1 + transfers, seeds]``."""
    groups = Groups.of(_group_of_items(design, rng))
    labels, answers = cells(design, groups.index, rng)
    flat = answers.reshape(-1, labels.size)
    scores = np.array([MEASURES[design.metric](labels, lane) for lane in flat]).reshape(answers.shape[:2])
    draws = score_draws(design.metric, labels, groups, flat, draws=DRAWS, rng=rng).reshape(DRAWS, *answers.shape[:2])
    tops, base = scores[1:, : design.seeds], scores[0]
    peers = Peers({place: dict(enumerate(runs)) for place, runs in enumerate(tops.tolist())})
    gains = []
    for place, top in enumerate(tops):
        pooled = peers.spreads(place, range(design.seeds), base)
        drawn = draws[:, 1 + place, : design.seeds], draws[:, 0]
        gains.append(difference_evidence(top, base, *drawn, groups, rng, pooled))
    points = tops.mean(axis=1) - base.mean()
    tests = [GainTest.of(float(value), gain, ("", ""), 0) for value, gain in zip(points, gains, strict=True)]
    columns, blocks = reaches(enumerate(tests))
    return gains, corrections_of(np.array([gain.p for gain in gains]), columns, blocks), scores


def _group_of_items(design: Design, rng: np.random.Generator) -> NDArray[np.int64]:
    mean = ITEMS / design.groups
    sizes = np.full(design.groups, mean)
    if design.sizes == "unequal":
        sizes = np.maximum(1, np.round(mean * rng.lognormal(-0.32, 0.8, design.groups)))
    return np.repeat(np.arange(design.groups), sizes.astype(int))


def cells(
    design: Design, group: NDArray[np.int64], rng: np.random.Generator
) -> tuple[NDArray[np.generic], NDArray[np.generic]]:
    """Labels ``[n]`` and answers ``[1 + transfers, baseline_seeds, n]``; the first lane is the baseline."""
    count = int(group.max()) + 1

    def errors(*shape: int) -> FloatArray:
        of_group: FloatArray = OF_GROUP * rng.normal(size=(*shape, count))[..., group]
        return of_group + rng.normal(size=(*shape, group.size))

    truth = 0.7 * rng.normal(size=count)[group] + rng.normal(size=group.size)
    shape = (1 + TRANSFERS, design.baseline_seeds)
    quality = 1 + design.quality_sd * rng.normal(size=(*shape, 1))
    quality[1:] += design.shift
    return _answers(
        design.metric,
        truth,
        quality * truth + OF_ALL_SEEDS * errors(shape[0], 1) + OF_EACH_SEED * errors(*shape),
    )


def _answers(metric: str, truth: FloatArray, said: FloatArray) -> tuple[NDArray[np.generic], NDArray[np.generic]]:
    if metric == "pearson_r":
        return truth, said
    return np.digitize(truth, EDGES), np.digitize(said, EDGES)


@cache
def _score_of_quality(metric: str) -> Callable[[FloatArray], FloatArray]:
    """The score of a cell of each quality in a population without end, by interpolation."""
    rng = np.random.default_rng(0)
    truth = np.hypot(0.7, 1.0) * rng.normal(size=POPULATION)
    noise = np.hypot(OF_ALL_SEEDS, OF_EACH_SEED) * np.hypot(OF_GROUP, 1.0) * rng.normal(size=POPULATION)
    grid = np.linspace(-0.5, 3.0, 71)
    values = [float(MEASURES[metric](*_answers(metric, truth, quality * truth + noise))) for quality in grid]
    return lambda quality: np.interp(quality, grid, values)


def _over_runs(metric: str, mean: float, quality_sd: float) -> tuple[float, float]:
    """Mean and standard deviation of the score over runs, by Gauss-Hermite quadrature."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(21)
    scores, weights = _score_of_quality(metric)(mean + quality_sd * nodes), weights / weights.sum()
    average = float(weights @ scores)
    return average, float(np.sqrt(weights @ (scores - average) ** 2))


def population_gain(metric: str, shift: float, quality_sd: float) -> float:
    """The true gain of transfers whose runs are better by ``shift`` than those of the baseline."""
    return _over_runs(metric, 1 + shift, quality_sd)[0] - _over_runs(metric, 1.0, quality_sd)[0]


def run_sd(metric: str, quality_sd: float) -> float:
    """The standard deviation of the baseline's score between runs, test items apart."""
    return _over_runs(metric, 1.0, quality_sd)[1] if quality_sd else 0.0


def main() -> None:
    """Calibrate, and write the rows as they come."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--studies", type=int, default=STUDIES)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--rows", help="numbers of designs from 1 on, e.g. 22,24; the file keeps its other rows")
    options = parser.parse_args()
    count = len(list(designs()))
    numbers = [int(number) - 1 for number in options.rows.split(",")] if options.rows else list(range(count))
    if not all(0 <= number < count for number in numbers):
        parser.error(f"--rows {options.rows}: designs are numbered from 1 to {count}")
    is_kept = options.rows and options.file.is_file()
    rows = pd.read_csv(options.file) if is_kept else pd.DataFrame()
    for row in calibration(numbers, options.studies, options.seed):
        rows = replaced(rows, row) if len(rows) else row
        write_csv(rows, options.file.with_suffix(""))


if __name__ == "__main__":
    main()
