"""How often contrasts of themes alarm where themes do not differ, as families differ more, and what they find.

``python -m benchmarks.calibrations.themes FILE.csv`` simulates effects of the targets of the published study, with
their themes and families, and writes one row per size of family effects and difference.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.gains.corrections import exact_interval
from analysis.gains.significance import LEVEL, FloatArray
from analysis.ratings.themes import Classes, numbers_of
from analysis.results.published import results
from analysis.tables import write_csv

GRIDS, DRAWS, SEED = 1000, 4999, 17
FAMILY_SDS = (0.0, 0.5, 1.0, 2.0, 4.0)  # in standard deviations of a task within its family
PLANTED = 2.0  # of the first theme, in the same unit
PERMUTATIONS = 499


def theme_calibration(classes: Classes, *, grids: int = GRIDS, draws: int = DRAWS, seed: int = SEED) -> pd.DataFrame:
    """One row per standard deviation of families and planted difference of the first class from all others.

    In ``alarms`` of ``grids`` any contrast has a ``p_max`` of 5 % or less, ``low`` to ``high`` is the exact 95 %
    interval of their ``rate``; ``rate_permuted`` is that of permuting classes over tasks, which knows no families.
    """
    rows = []
    for planted in (0.0, PLANTED):
        for number, sd in enumerate(FAMILY_SDS):
            effects = _effects(classes, sd, grids, np.random.default_rng((seed, number)))
            effects += planted * (classes.of_class == 0)[:, None]
            p_max = classes.chance(classes.fits(effects), draws, seed).p_max
            alarms = int((p_max <= LEVEL).any(axis=0).sum())
            permuted = _is_alarmed_by_permuting(classes, effects, np.random.default_rng((seed, number, 1))).mean()
            rows.append((sd, planted, grids, draws, alarms, alarms / grids, *exact_interval(alarms, grids), permuted))
    names = ["family_sd", "planted", "grids", "draws", "alarms", "rate", "low", "high", "rate_permuted"]
    return pd.DataFrame(rows, columns=names)


def _effects(classes: Classes, family_sd: float, grids: int, rng: np.random.Generator) -> FloatArray:
    """Effects [tasks, grids] of tasks that differ by 1 and families that differ by ``family_sd``."""
    of_family = family_sd * rng.normal(size=(classes.of_family.max() + 1, grids))
    effects: FloatArray = rng.normal(size=(classes.of_class.size, grids)) + of_family[classes.of_family]
    return effects


def _is_alarmed_by_permuting(classes: Classes, effects: FloatArray, rng: np.random.Generator) -> NDArray[np.bool_]:
    """The same by permuting classes over tasks, the largest difference in units of its spread deciding."""
    permuted = rng.permuted(np.tile(classes.of_class, (PERMUTATIONS, 1)), axis=1)
    labels = np.concatenate([classes.of_class[None], permuted])
    largest = np.zeros((len(labels), effects.shape[1]))
    for first, second in classes.contrasts:
        ours, others = (labels == number for number in (first, second))
        counts = ours[0].sum(), others[0].sum()
        gaps = (ours / counts[0] - others / counts[1]) @ effects
        largest = np.maximum(largest, np.abs(gaps) / np.sqrt(1 / counts[0] + 1 / counts[1]))
    is_alarmed: NDArray[np.bool_] = (largest >= largest[0] - 1e-9).mean(axis=0) <= LEVEL
    return is_alarmed


def main() -> None:
    """Calibrate on the targets of the published study and write the rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--grids", type=int, default=GRIDS)
    options = parser.parse_args()
    tasks = results().tasks
    classes = Classes(numbers_of(tasks.theme.tolist()), numbers_of(tasks.family.tolist()))
    write_csv(theme_calibration(classes, grids=options.grids), options.file.with_suffix(""))


if __name__ == "__main__":
    main()
