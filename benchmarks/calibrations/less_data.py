"""How often less data are called as good as all data where they are not, and where they are.

``python -m benchmarks.calibrations.less_data FILE.csv`` simulates losses of pairs in which intermediates, targets
and pairs differ, and puts their mean to the bound of ``analysis.ratings.themes``.
"""

from __future__ import annotations

import argparse
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.gains.corrections import exact_interval
from analysis.ratings.themes import MARGIN, lower_bound
from analysis.tables import write_csv

STUDIES, SEED = 1000, 20_261_123
SHAPES = ((2, 17), (4, 17), (6, 17), (18, 17))  # tasks of a theme as targets, and intermediates
SPREADS = {"pairs alone": (0.0, 0.0), "intermediates": (2.0, 0.0), "targets": (0.0, 2.0), "both": (2.0, 2.0)}
OF_PAIRS = 4.0  # points, standard deviation of a pair beside its two tasks
LOSSES = {"as large as the margin": MARGIN, "none": 0.0}


def less_data_calibration(studies: int = STUDIES, seed: int = SEED) -> pd.DataFrame:
    """One row per number of targets, of what differs and true loss: how often the bound rules the margin out."""
    rows = []
    for number, ((targets, others), (name, spreads)) in enumerate(product(SHAPES, SPREADS.items())):
        rng = np.random.default_rng((seed, number))
        of_intermediates = spreads[0] * rng.normal(size=(studies, others, 1))
        of_targets = spreads[1] * rng.normal(size=(studies, 1, targets))
        points = OF_PAIRS * rng.normal(size=(studies, others, targets)) + of_intermediates + of_targets
        for loss, size in LOSSES.items():
            passes = int(sum(lower_bound(own.mean(axis=1), own.mean(axis=0)) > -MARGIN for own in points - size))
            shares = (passes / studies, *exact_interval(passes, studies))
            rows.append((targets, others, name, loss, studies, passes, *shares))
    names = ["targets", "intermediates", "differ", "loss", "studies", "non_inferior", "rate", "low", "high"]
    return pd.DataFrame(rows, columns=names)


def main() -> None:
    """Simulate and write the rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--studies", type=int, default=STUDIES)
    options = parser.parse_args()
    write_csv(less_data_calibration(options.studies), options.file.with_suffix(""))


if __name__ == "__main__":
    main()
