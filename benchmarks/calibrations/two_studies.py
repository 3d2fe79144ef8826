"""How often two equal gains of two studies are told apart, and how often two different ones are.

``python -m benchmarks.calibrations.two_studies FILE.csv`` simulates two studies on the same test items, each with
a target alone and a transfer, and puts the difference of their gains to the test of ``compare``, and to the one that
takes errors as independent.
"""

from __future__ import annotations

import argparse
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.gains.corrections import exact_interval
from analysis.gains.significance import LEVEL, FloatArray, Groups, difference_evidence, score_draws
from analysis.results.comparisons import covariance_through_groups, p_of_differences
from analysis.tables import write_csv
from tasks.metrics import MEASURES

STUDIES, DRAWS, SEED = 500, 400, 20_261_123
ITEMS = 5  # of a group
BETTER = 0.5  # by which the quality of the second study's transfer is higher, where gains differ
SEED_SPREAD = 0.1  # of the quality of a training run, where there are several
TESTS = ("shared items", "as independent")


class Design(NamedTuple):
    """Metric, groups of test items, training runs of every cell, and the share of errors that two studies share."""

    metric: str
    groups: int
    seeds: int
    alike: float


DESIGNS = [Design(*design) for design in product(("macro_f1", "pearson_r"), (60, 10), (1, 3), (0.0, 0.6))]


def two_studies_calibration(studies: int = STUDIES, seed: int = SEED) -> pd.DataFrame:
    """One row per design, difference and test: how many of the pairs of studies have a p of at most .05."""
    rows = []
    for number, (design, better) in enumerate(product(DESIGNS, (0.0, BETTER))):
        rng = np.random.default_rng((seed, number))
        gains = pd.DataFrame([_difference(design, better, rng) for _ in range(studies)])
        independent = gains.assign(covariance=np.nan)
        for test, frame in zip(TESTS, (gains, independent), strict=True):
            alarms = int((p_of_differences(frame) <= LEVEL).sum())
            row = {**design._asdict(), "quality": better, "points": gains.difference.mean(), "test": test}
            low, high = exact_interval(alarms, studies)
            shares = {"rate": alarms / studies, "low": low, "high": high}
            rows.append({**row, "studies": studies, "alarms": alarms, **shares})
    return pd.DataFrame(rows)


def _difference(design: Design, better: float, rng: np.random.Generator) -> dict[str, float]:
    """The difference of the gains of two simulated studies, and what its test needs, in points."""
    labels, groups, lanes = _cells(design, better, rng)
    flat = lanes.reshape(-1, lanes.shape[-1])
    scores = np.array([MEASURES[design.metric](labels, lane) for lane in flat])
    draws = score_draws(design.metric, labels, groups, flat, draws=DRAWS, rng=rng)
    scores, draws = scores.reshape(2, 2, -1), draws.reshape(DRAWS, 2, 2, -1)  # studies, alone or transfer, seeds
    row = {"group_df": groups.effective - 1}
    for study, side in enumerate("ab"):
        (alone, top), of_alone, of_top = scores[study], draws[:, study, 0], draws[:, study, 1]
        evidence = difference_evidence(top, alone, of_top, of_alone, groups, rng)
        row |= {f"points_{side}": 100 * (top.mean() - alone.mean()), f"df_{side}": evidence.df}
        errors = {"standard_error": evidence.standard_error, "seed_error": evidence.seed_error}
        row |= {f"{name}_{side}": 100 * error for name, error in errors.items()}
    gains = (draws[:, :, 1] - draws[:, :, 0]).mean(axis=2)
    row["covariance"] = 1e4 * covariance_through_groups(gains[:, 0], gains[:, 1], groups.count)
    return {**row, "difference": row["points_b"] - row["points_a"]}


def _cells(design: Design, better: float, rng: np.random.Generator) -> tuple[NDArray[Any], Groups, NDArray[Any]]:
    """Labels [n], groups, and predictions [studies, alone or transfer, seeds, n].

    Every cell errs on groups and items; of that a share is the same for both targets alone, and for both transfers.
    """
    index = np.repeat(np.arange(design.groups), ITEMS)

    def noise(*shape: int) -> FloatArray:
        return 0.6 * rng.normal(size=(*shape, design.groups))[..., index] + rng.normal(size=(*shape, index.size))

    truth = 0.7 * rng.normal(size=design.groups)[index] + rng.normal(size=index.size)
    quality = np.ones((2, 2, design.seeds, 1))
    quality[1, 1] += better
    if design.seeds > 1:
        quality += SEED_SPREAD * rng.normal(size=quality.shape)
    both, own = noise(1, 2, 1), noise(2, 2, 1)
    of_cell = np.sqrt(design.alike) * both + np.sqrt(1 - design.alike) * own
    latent = quality * truth + of_cell + (noise(2, 2, design.seeds) if design.seeds > 1 else 0.0)
    if design.metric == "pearson_r":
        return truth, Groups.of(index), latent
    edges = np.quantile(truth, [1 / 3, 2 / 3])
    return np.digitize(truth, edges), Groups.of(index), np.digitize(latent, edges)


def main() -> None:
    """Simulate and write the rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--studies", type=int, default=STUDIES)
    options = parser.parse_args()
    write_csv(two_studies_calibration(options.studies), options.file.with_suffix(""))


if __name__ == "__main__":
    main()
