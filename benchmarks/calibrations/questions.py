"""How often the tests of declared questions alarm where nothing is there, and what they find beside an oracle.

``python -m benchmarks.calibrations.questions FILE.csv`` simulates the layout of the wide study: its intermediates and
targets, of twelve families of unequal size. One row per background, question and planted effect: ``rate`` of ``grids``
with p at most 5 %, with its exact 95 % interval; ``covered`` is the share of intervals that hold the truth, ``oracle``
what a test finds that knows all variances.
"""

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtr, ndtri

from analysis.gains.corrections import exact_interval
from analysis.gains.significance import LEVEL
from analysis.importance import questions
from analysis.tables import write_csv
from harness.study.file import load_study
from tasks.registry import Registry

STUDY = "wide"
GRIDS, SEED = 1000, 20_261_128
NOISE, RUNS, ROLES, PAIRS = 1.2, 1.5, 1.5, 1.0  # points: items of a gain, runs of a cell, tasks, pairs
PLANTED = {"unrelated": 2.5, "controls": 2.0, "alike": 0.8, "family": 2.0, "pair": 1.0}


@dataclass(frozen=True)
class Background:
    """Standard deviations in points of what gains differ by beside noise, and whether that is heavy-tailed.

    ``slopes`` is by how much targets differ in the share of an intermediate's effect that they take, 1 on average.
    """

    tasks: float = 0.0
    families: float = 0.0
    pairs: float = 0.0
    pairs_of_families: float = 0.0
    slopes: float = 0.0
    unequal: bool = False
    heavy: bool = False


BACKGROUNDS = {
    "independent noise": Background(),
    "task effects": Background(tasks=ROLES),
    "family effects": Background(tasks=ROLES / 2, families=ROLES),
    "pairs": Background(tasks=ROLES, pairs=PAIRS),
    "pairs of families": Background(tasks=ROLES, pairs_of_families=PAIRS),
    "unequal shares": Background(tasks=4 * ROLES, slopes=0.9),
    "targets of unequal error": Background(tasks=ROLES, unequal=True),
    "heavy tails": Background(tasks=ROLES, heavy=True),
}


def tasks_of() -> tuple[tuple[str, ...], tuple[str, ...], dict[str, str], dict[str, str]]:
    """Intermediates, targets, and family and theme by task, of a study."""
    study, registry = load_study(STUDY), Registry.load()
    tasks = [registry.task(name) for name in study.tasks]
    intermediates = tuple(task.id for task in tasks if task.role in ("both", "intermediate"))
    targets = tuple(name for name in intermediates if not study.targets or name in study.targets)
    return (
        intermediates,
        targets,
        {task.id: task.dataset.family for task in tasks},
        {task.id: task.theme or "" for task in tasks},
    )


@dataclass(frozen=True)
class Simulated:
    """Layouts of a study's tasks under one background, with effects planted or none."""

    intermediates: tuple[str, ...]
    targets: tuple[str, ...]
    family: Mapping[str, str]
    theme: Mapping[str, str]
    background: Background
    seeds: int = 3
    of_runs: float = RUNS
    of_items: float = NOISE

    def layout(self, rng: np.random.Generator, planted: str = "") -> questions.Rectangle:
        """One layout; ``planted`` is the question whose effect is there."""
        rows, columns = len(self.intermediates), len(self.targets)
        shape, known = (rows, columns), self.background
        mask = np.array([[i != j for j in self.targets] for i in self.intermediates])
        sizes = np.where(np.arange(columns) % 3 == 0, 3.0, 0.7) if known.unequal else np.ones(columns)
        truth = known.tasks * rng.normal(size=(rows, 1)) + known.pairs * rng.normal(size=shape)
        if known.slopes:
            truth *= 1 + known.slopes * rng.normal(size=columns)
        of_rows, of_columns = (
            np.unique([self.family[t] for t in side], return_inverse=True)[1]
            for side in (self.intermediates, self.targets)
        )
        truth += known.families * rng.normal(size=of_rows.max() + 1)[of_rows][:, None]
        blocks = rng.normal(size=(of_rows.max() + 1, of_columns.max() + 1))
        truth += known.pairs_of_families * blocks[of_rows][:, of_columns]
        similarity = rng.normal(size=shape) + rng.normal(size=(rows, 1))
        size = PLANTED.get(planted, 0.0)
        themes = np.array([self.theme[task] for task in self.intermediates])
        if planted == "unrelated":
            truth += size * np.isin(themes, questions.ABOUT_EMPATHY)[:, None]
        if planted == "alike":
            truth += size * (similarity - similarity[mask].mean()) / similarity[mask].std()
        if planted == "family":
            truth += size * np.array(
                [[self.family[i] == self.family[j] for j in self.targets] for i in self.intermediates]
            )
        if planted == "pair":
            truth += size * rng.normal(size=shape)
        runs = self.of_runs * (
            rng.standard_t(3, (self.seeds, *shape)) / np.sqrt(3)
            if known.heavy
            else rng.normal(size=(self.seeds, *shape))
        )
        alone = self.of_runs * rng.normal(size=(self.seeds, 1, columns))
        # Items of a half have twice the variance of all; halves are independent, and their mean is what all items show.
        items = self.of_items * np.sqrt(2) * sizes * rng.normal(size=(1, 2, 1, *shape))
        halves = truth + items + runs * sizes
        points = halves.mean(axis=(0, 1, 2)) - (alone * sizes).mean(axis=0)
        controls = {
            name: -(alone * sizes).mean(axis=0)[0]
            + sizes * rng.normal(size=columns) * np.sqrt(self.of_items**2 + self.of_runs**2 / self.seeds)
            - (size if planted == "controls" else 0.0)
            for name in ("self", "shuffled", "random")
        }
        error = np.broadcast_to(sizes * np.sqrt(self.of_items**2 + 2 * self.of_runs**2 / self.seeds), shape)
        return questions.Rectangle(
            self.intermediates,
            self.targets,
            np.where(mask, points, np.nan),
            np.where(mask, error, np.nan),
            self.family,
            self.theme,
            np.where(mask, similarity, np.nan),
            controls,
            np.where(mask, halves, np.nan),
        )


def rates(simulated: Simulated, name: str, grids: int, seed: int, planted: str = "") -> list[dict[str, Any]]:
    """One row per part of a question: how many grids have a p of 5 % or less, and how many intervals hold the truth."""
    rng = np.random.default_rng(seed)
    frames = [questions.answers(simulated.layout(rng, planted), [name]) for _ in range(grids)]
    whole = pd.concat(frames, ignore_index=True)
    truth = {"same theme": 0.0}
    rows = []
    for part, of_part in whole[whole.p.notna()].groupby("part", sort=False):
        real = truth.get(str(part), PLANTED.get(planted, 0.0)) if planted == name else 0.0
        if name == "pair":  # the background's own effects of pairs are there, too
            real = float(np.hypot(real, np.hypot(simulated.background.pairs, simulated.background.pairs_of_families)))
        p = of_part.p_corrected if name == "controls" else of_part.p
        rate, low, high = _rate(p <= LEVEL)
        rows.append(
            {
                "question": name,
                "part": part,
                "planted": PLANTED[planted] if planted else 0.0,
                "grids": grids,
                "rate": rate,
                "low": low,
                "high": high,
                "covered": float(((of_part.low <= real) & (of_part.high >= real)).mean()),
                "estimate": of_part.estimate.mean(),
                "spread": of_part.estimate.std(),
                "smallest": of_part.smallest.median(),
                "oracle": float(oracle(of_part.estimate.std(), real)),
            }
        )
    if name == "controls":
        any_part = whole.assign(grid=np.repeat(np.arange(grids), len(frames[0]))).groupby("grid").p_corrected.min()
        rate, low, high = _rate(any_part <= LEVEL)
        rows.append({"question": name, "part": "any", "grids": grids, "rate": rate, "low": low, "high": high})
    return rows


def _rate(is_found: pd.Series) -> tuple[float, float, float]:
    low, high = exact_interval(int(is_found.sum()), len(is_found))
    return float(is_found.mean()), float(low), float(high)


def oracle(spread: float, effect: float) -> float:
    """The chance that a normal test which knows the estimate's standard deviation finds the effect."""
    bound = ndtri(1 - LEVEL / 2)
    return float(ndtr(effect / spread - bound) + ndtr(-effect / spread - bound))


def main() -> None:
    """Simulate every background, without and with each effect, and write the rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--grids", type=int, default=GRIDS)
    parser.add_argument("--only", nargs="*", default=list(PLANTED))
    options = parser.parse_args()
    given, rows = tasks_of(), list[dict[str, Any]]()
    for number, (background, known) in enumerate(BACKGROUNDS.items()):
        for name in options.only:
            for planted in ("", name):
                if name == "pair" and planted == "" and (known.pairs or known.pairs_of_families):
                    continue  # there it is no alarm
                simulated = Simulated(*given, known)
                parts = rates(simulated, name, options.grids, SEED + number, planted)
                rows += [{"background": background, **row} for row in parts]
                print(background, name, planted or "nothing", *(f"{row['rate']:.3f}" for row in parts), flush=True)
    write_csv(pd.DataFrame(rows), options.file.with_suffix(""))


if __name__ == "__main__":
    main()
