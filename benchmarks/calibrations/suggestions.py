"""How often ``suggest`` names a ranking as evidence where nothing is there, and how good its first intermediates are.

``python -m benchmarks.calibrations.suggestions FILE.csv`` simulates grids with the tasks, families and weights of
the published study, or with every second of its tasks, and measures of similarity that know nothing of gains, or that
gains follow. A task that is not trained yet is advised by the functions of ``suggest``, and its intermediates are then
judged by their true gains, which are the simulated ones without the noise of pairs.

Of a measure, a third each differs by intermediate, by pair of families, and by pair; half of it is shared by all.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.gains.corrections import exact_interval
from analysis.gains.significance import LEVEL
from analysis.importance.choosing import (
    FEWEST_CANDIDATES,
    FUSION,
    MODEL,
    RANKINGS,
    SIZE,
    best_of_first,
    p_of_orders,
    rankings,
)
from analysis.importance.detection import effect_sizes, independent
from analysis.importance.grid import PRIMARY, Grid, grid_of
from analysis.results.published import results
from analysis.results.results import Results
from analysis.results.similarity import HEURISTICS, PAIR, SIMILARITIES
from analysis.tables import Declared, framed, write_csv
from benchmarks.grids.backgrounds import BACKGROUNDS

Array = np.ndarray
GRIDS, SEED = 300, 20_261_124  # a quarter as many where gains follow a measure
EVERY = (1, 2)  # so-many-th task of the published study
KINDS = ("independent noise", "task effects", "family and task effects")
SHARES = (0.15, 0.4)  # of the variance of gains within targets, that a measure explains
MEASURED = tuple(
    name for name in HEURISTICS if name != "task_similarity_vu"
)  # what is measured unless others are named
MEASURE = "logme"  # that gains follow, where they follow a single one
NOTHING, ALL, SINGLE = "", "what all measures share", "one measure"
ROUNDED = 9  # decimals of true gains, beyond which they are equal
PLANTED = ((NOTHING, 0.0), *((what, share) for what in (ALL, SINGLE) for share in SHARES))
SUGGESTED, NAMED, RANDOM = "suggested", "named, else suggested", "random"
ORDERS = {SUGGESTED: FUSION, "model": MODEL, "size": SIZE, "measure": MEASURE}
CHOICES = {
    "tasks": Declared("int64", "of the study, the new one among them"),
    "background": Declared("str", "what gains differ by beside the effect"),
    "planted": Declared("str", "what gains follow; empty: nothing that is measured"),
    "share_planted": Declared("float64", "of the weighted variance of gains within targets"),
    "order": Declared("str", "by which the new task's intermediates are tried"),
    "grids": Declared("int64", "simulated grids"),
    "named": Declared("float64", "share in which this order is called better than a random one, p <= .05, corrected"),
    "low": Declared("float64", "lower end of its exact 95 % interval"),
    "high": Declared("float64", "its upper end"),
    "measure_named": Declared("float64", "share in which any order but the model's is called better"),
    "first": Declared("float64", "share in which the best intermediate is the first"),
    "of_three": Declared("float64", "share in which it is among the first three"),
    "rank": Declared("float64", "mean rank of the first intermediate by its gain, 1 for the best"),
    "regret": Declared("float64", "points by which the first falls short of the best, mean"),
    "regret_error": Declared("float64", "its standard error"),
    "regret_of_three": Declared("float64", "points by which the best of the first three falls short"),
}


def calibration(published: Results, grids: int = GRIDS, seed: int = SEED) -> Iterator[pd.DataFrame]:
    """For each number of tasks, background and planted effect the rows of all orders: the columns CHOICES."""
    for every in EVERY:
        study = _part(published, every)
        grid = grid_of(study, PRIMARY)
        for number, background in enumerate(KINDS):
            for place, (planted, share) in enumerate(PLANTED):
                rng, same = (np.random.default_rng((seed, every, number, place)) for _ in range(2))
                count = grids // 4 if share else grids
                drawn = BACKGROUNDS[background](grid, count, rng)
                lasting = drawn - independent(grid, count, same)  # every background draws the noise of pairs first
                both = zip(np.moveaxis(drawn, 2, 0), np.moveaxis(lasting, 2, 0), strict=True)
                choices = [_chosen(study, grid, whole, part, planted, share, rng) for whole, part in both]
                facts = {"tasks": len(grid.tasks), "background": background, "planted": planted}
                yield _rows({**facts, "share_planted": share, "grids": count}, pd.concat(choices))


def _part(published: Results, every: int) -> Results:
    """The study with every so-many-th of its tasks alone."""
    tasks = published.tasks.iloc[::every].reset_index(drop=True)
    inside = published.gains[list(PAIR)].isin(set(tasks.task)).all(axis=1)
    return replace(published, tasks=tasks, gains=published.gains[inside].reset_index(drop=True))


def _chosen(
    study: Results, grid: Grid, drawn: Array, lasting: Array, planted: str, share: float, rng: np.random.Generator
) -> pd.DataFrame:
    """How a new task of one grid was advised: a row per order, with what ``CHOICES`` has means of.

    Of gains that were ``drawn`` [tasks, tasks] a part is ``lasting``: what further runs would give again.
    """
    shared = _surface(grid, rng)
    measures = {name: np.sqrt(0.5) * (shared + _surface(grid, rng)) for name in MEASURED}
    effect = {NOTHING: np.zeros_like(drawn), ALL: shared, SINGLE: measures[MEASURE]}[planted] * grid.mask
    size = effect_sizes(grid, effect, drawn[..., None], share)[0] if share else 0.0
    new = int(rng.integers(len(grid.tasks)))
    ranked, p = advice(_with_gains(study, grid, drawn + size * effect, new), _frame(study, grid, measures))
    own = ranked[ranked.target == grid.tasks[new]]
    teachers = own.intermediate.map(grid.tasks.index).to_numpy()
    true = np.round((lasting + size * effect)[teachers, new], ROUNDED)
    best = p.idxmin() if p.min() <= LEVEL else FUSION
    orders = {title: own[name].to_numpy() for title, name in ORDERS.items()} | {NAMED: own[best].to_numpy()}
    orders |= {RANDOM: np.zeros(len(true))}
    is_named = {title: p[name] <= LEVEL for title, name in ORDERS.items()} | {NAMED: p.min() <= LEVEL}
    rows = [{"order": title, **_judged(order, true)} for title, order in orders.items()]
    frame = pd.DataFrame(rows)
    of_measures = p.drop(MODEL).min() <= LEVEL
    return frame.assign(named=frame.order.map(is_named).astype("float64"), measure_named=float(of_measures))


def advice(study: Results, similarities: pd.DataFrame) -> tuple[pd.DataFrame, pd.Series]:
    """What ``suggest`` says: pairs with a column for each ranking, and each ranking's corrected p."""
    ranked = rankings(study, similarities)
    family = study.tasks.set_index("task").family
    return ranked, p_of_orders(ranked, study.gains, RANKINGS, FEWEST_CANDIDATES, family).p_corrected.dropna()


def _surface(grid: Grid, rng: np.random.Generator) -> Array:
    """A measure [tasks, tasks] with a variance of 1, a third each of intermediates, pairs of families, and pairs."""
    count, families = len(grid.tasks), len(grid.families)
    of_families = rng.normal(size=(families, families))[np.ix_(grid.family, grid.family)]
    parts = rng.normal(size=(count, 1)) + of_families + rng.normal(size=(count, count))
    return np.asarray(parts / np.sqrt(3))


def _with_gains(study: Results, grid: Grid, gains: Array, new: int) -> Results:
    """The study with gains in points [tasks, tasks], none of them of the new task."""
    pairs = study.gains
    rows, columns = (pairs[role].map(grid.tasks.index).to_numpy() for role in PAIR)
    known = np.where((rows == new) | (columns == new), np.nan, gains[rows, columns] / 100)
    return replace(study, gains=pairs.assign(gain=known, score=pairs.baseline + known))


def _frame(study: Results, grid: Grid, measures: Mapping[str, Array]) -> pd.DataFrame:
    """Measures [tasks, tasks] as the frame of similarities."""
    pairs = study.gains[list(PAIR)]
    places = tuple(pairs[role].map(grid.tasks.index).to_numpy() for role in PAIR)
    return framed(pairs.assign(**{name: measure[places] for name, measure in measures.items()}), SIMILARITIES)


def _judged(order: Array, true: Array) -> dict[str, float]:
    """What trying intermediates in this order brings, by true gains [candidates] in points; equal ones in any order.

    Undefined for the rank and the places of the best where all gains are equal.
    """
    better, best = (true > true[:, None]).sum(1), true.max()
    lost = {name: best - best_of_first(order, true, k) for name, k in (("regret", 1), ("regret_of_three", 3))}
    if not np.ptp(true):
        return {**dict.fromkeys(("first", "of_three", "rank"), np.nan), **lost}
    first, of_three = (best_of_first(order, (better == 0) * 1.0, k) for k in (1, 3))
    return {"first": first, "of_three": of_three, "rank": 1 - best_of_first(order, -1.0 * better, 1), **lost}


def _rows(facts: Mapping[str, object], choices: pd.DataFrame) -> pd.DataFrame:
    """Means over grids, a row per order."""
    rows = []
    for order, part in choices.groupby("order", sort=False):
        row = {**facts, "order": order, **part.drop(columns="order").mean()}
        row["regret_error"] = part.regret.sem()
        if order != RANDOM:
            row |= dict(zip(("low", "high"), exact_interval(int(part.named.sum()), len(part)), strict=True))
        rows.append(row)
    return framed(pd.DataFrame(rows, columns=list(CHOICES)), CHOICES)


def main() -> None:
    """Simulate, and write the rows as they come."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--grids", type=int, default=GRIDS)
    options = parser.parse_args()
    rows: list[pd.DataFrame] = []
    for row in calibration(results(), options.grids):
        rows.append(row)
        write_csv(pd.concat(rows, ignore_index=True), options.file.with_suffix(""))


if __name__ == "__main__":
    main()
