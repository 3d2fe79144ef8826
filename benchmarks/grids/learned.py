"""How often a target is said to be below words that is not, and how often one is that is .05 below: item by item.

``python -m benchmarks.grids.learned FILE.csv`` simulates a target with its baseline and words, gives both to the test
of ``analysis.gains.baselines``, and writes one row per design. Items, errors and runs are those of
``benchmarks.calibrations.gains``; words are one run, as good as the baseline or better by DIFFERENCE of the score:
as the mean of the runs that were trained (``of`` is "these runs"), which is what the test is about, or as the mean of
all runs that might have been ("all runs"), which few seeds miss by chance.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.gains.baselines import below
from analysis.gains.significance import LEVEL, FloatArray, Groups, score_draws
from benchmarks.calibrations.gains import (
    METRICS,
    OF_ALL_SEEDS,
    OF_EACH_SEED,
    OF_GROUP,
    QUALITY_SD,
    _answers,
    _over_runs,
    _score_of_quality,
)
from tasks.metrics import MEASURES

STUDIES, DRAWS, SEED = 1000, 999, 20_261_127
ROWS, ITEMS_OF_A_GROUP = (300, 600, 1000, 2000), 5
SEEDS = (1, 3, 5)
DIFFERENCE = 0.05
THESE, ALL = "these runs", "all runs"
GRID = np.linspace(-0.2, 2.8, 601)  # qualities, by whose scores that of words is found


@dataclass(frozen=True)
class Design:
    """A target's test rows, the seeds of its baseline, and by how much of the score it is truly below words."""

    metric: str
    rows: int
    seeds: int
    of: str
    difference: float

    def quality_of_words(self, qualities: FloatArray) -> float:
        """The quality at which words are better by the difference than the mean of these runs, or of all."""
        score = _score_of_quality(self.metric)
        over_all = _over_runs(self.metric, 1.0, QUALITY_SD[self.metric])[0]
        aim = (score(qualities).mean() if self.of == THESE else over_all) + self.difference
        return float(np.interp(aim, score(GRID), GRID))


def designs() -> Iterator[Design]:
    """Every metric, number of rows and of seeds, without a difference and with one."""
    for of, difference in ((THESE, 0.0), (THESE, DIFFERENCE), (ALL, 0.0)):
        for metric in METRICS:
            for seeds in SEEDS:
                yield from (Design(metric, rows, seeds, of, difference) for rows in ROWS)


def share_below(design: Design, studies: int, rng: np.random.Generator) -> float:
    """The share of simulated targets that are called below words."""
    group = np.repeat(np.arange(design.rows // ITEMS_OF_A_GROUP), ITEMS_OF_A_GROUP)
    groups = Groups.of(group)
    return float(np.mean([_p(design, groups, rng) <= LEVEL for _ in range(studies)]))


def _p(design: Design, groups: Groups, rng: np.random.Generator) -> float:
    """The one-sided p of one simulated target."""

    def errors(*shape: int) -> FloatArray:
        of_group: FloatArray = OF_GROUP * rng.normal(size=(*shape, groups.count))[..., groups.index]
        return of_group + rng.normal(size=(*shape, design.rows))

    truth = 0.7 * rng.normal(size=groups.count)[groups.index] + rng.normal(size=design.rows)
    quality = 1 + QUALITY_SD[design.metric] * rng.normal(size=(design.seeds, 1))
    words = design.quality_of_words(quality)
    alone = quality * truth + OF_ALL_SEEDS * errors(1) + OF_EACH_SEED * errors(design.seeds)
    said = np.concatenate([alone, words * truth + OF_ALL_SEEDS * errors(1) + OF_EACH_SEED * errors(1)])
    labels, answers = _answers(design.metric, truth, said)
    scores = np.array([MEASURES[design.metric](labels, lane) for lane in answers])
    draws = score_draws(design.metric, labels, groups, answers, draws=DRAWS, rng=rng)
    return below(scores[:-1] - scores[-1], draws[:, :-1] - draws[:, -1:], groups, rng)[1]


def main() -> None:
    """Simulate every design, and write the rows as they come."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--studies", type=int, default=STUDIES)
    options = parser.parse_args()
    rows = []
    for number, design in enumerate(designs()):
        share = share_below(design, options.studies, np.random.default_rng((SEED, number)))
        facts = {"metric": design.metric, "rows": design.rows, "groups": design.rows // ITEMS_OF_A_GROUP}
        facts |= {"seeds": design.seeds, "of": design.of, "points": 0 - round(100 * design.difference)}
        rows.append(facts | {"studies": options.studies, "below": round(share, 4)})
        pd.DataFrame(rows).to_csv(options.file, index=False, lineterminator="\n")


if __name__ == "__main__":
    main()
