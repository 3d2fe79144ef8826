"""How often equal systems are told apart over repeated splits, of two systems or of many.

``python -m benchmarks.calibrations.repeats FILE.csv`` simulates systems that are equally good: each sees a noisy
feature of its own of the same rows and learns the threshold between the means of two classes. Rows are cut anew ten
times into 75 % training, 5 % validation and 20 % test, so that training and test sets of repeats overlap.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.gains.corrections import exact_interval, holm
from analysis.gains.significance import LEVEL, FloatArray
from analysis.results.comparisons import pairwise
from analysis.tables import write_csv

STUDIES, DRAWS, SEED = 2000, 999, 20_261_123
ROWS, N_TRAIN, N_TEST, REPEATS = 300, 225, 60, 10
NOISE = 1.2  # of a feature, beside classes that lie 1 apart
ALIKE = 0.5  # share of the noise's variance that all systems share, where they are alike
SYSTEMS = (2, 4, 8)


def repeats_calibration(studies: int = STUDIES, seed: int = SEED, *, draws: int = DRAWS) -> pd.DataFrame:
    """A row per number of systems and share of common noise: how many of the studies name a difference, by test.

    Tests: all pairs by the step-down maximum, all by Holm's correction, and the first pair alone without any; with the
    variance of Nadeau and Bengio each, and of the first pair with the plain one, too.
    """
    rows = []
    for number, (systems, alike) in enumerate((systems, alike) for systems in SYSTEMS for alike in (0.0, ALIKE)):
        rng = np.random.default_rng((seed, number))
        alarms = np.sum([_alarms(systems, alike, draws, rng) for _ in range(studies)], axis=0)
        for test, count in zip(TESTS, alarms, strict=True):
            low, high = exact_interval(int(count), studies)
            row = {"systems": systems, "alike": alike, "repeats": REPEATS, "test": test, "studies": studies}
            rows.append({**row, "alarms": int(count), "rate": count / studies, "low": low, "high": high})
    return pd.DataFrame(rows)


TESTS = ("maximum", "Holm", "first pair", "first pair, plain variance")


def _alarms(systems: int, alike: float, draws: int, rng: np.random.Generator) -> list[bool]:
    """Whether any pair of a simulated study is named different, by each of TESTS."""
    scores = simulated_scores(systems, alike, rng)
    pairs, p_max = pairwise(scores, N_TEST / N_TRAIN, draws=draws, rng=rng)
    p = np.array([pair.p for pair in pairs])
    (plain, *_), _ = pairwise(scores[:2], 0.0, draws=1, rng=rng)
    return [bool(least <= LEVEL) for least in (p_max.min(), holm(p).min(), p[0], plain.p)]


def simulated_scores(systems: int, alike: float, rng: np.random.Generator) -> FloatArray:
    """Accuracies ``[systems, repeats]`` of systems that are equally good, over random splits of the same rows."""
    labels = rng.integers(0, 2, ROWS)
    noise = np.sqrt(alike) * rng.normal(size=(ROWS, 1)) + np.sqrt(1 - alike) * rng.normal(size=(ROWS, systems))
    features = labels[:, None] + NOISE * noise
    scores = []
    for _ in range(REPEATS):
        order = rng.permutation(ROWS)
        train, test = order[:N_TRAIN], order[ROWS - N_TEST :]
        middle = np.mean([features[train][labels[train] == value].mean(axis=0) for value in (0, 1)], axis=0)
        scores.append(((features[test] > middle) == (labels[test] == 1)[:, None]).mean(axis=0))
    return np.array(scores).T


def main() -> None:
    """Simulate and write the rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--studies", type=int, default=STUDIES)
    options = parser.parse_args()
    write_csv(repeats_calibration(options.studies), options.file.with_suffix(""))


if __name__ == "__main__":
    main()
