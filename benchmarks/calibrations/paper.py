"""How often the paper's procedure names a rated construct first, or second, when ratings explain nothing.

``python -m benchmarks.calibrations.paper FILE.csv`` gives the paper's regression the published study with
simulated gains, one seed each, and writes one row per background.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.gains.corrections import exact_interval
from analysis.importance.grid import PRIMARY, Grid, grid_of
from analysis.importance.paper_mode import SETTINGS, paper_importances
from analysis.results.published import results
from analysis.results.results import Results
from analysis.tables import Declared, framed, write_csv
from benchmarks.grids.backgrounds import BACKGROUNDS

GRIDS, SEED, SETTING = 200, 20_261_124, "V1"
KINDS = ("independent noise", "task effects", "family effects", "family and task effects")
PAPER_CALIBRATION = {
    "background": Declared("str", "what gains differ by; ratings explain nothing"),
    "grids": Declared("int64", "simulated grids"),
    "first": Declared("int64", "of them with a construct as the most important feature"),
    "rate": Declared("float64", "first / grids"),
    "low": Declared("float64", "lower end of its exact 95 % interval"),
    "high": Declared("float64", "its upper end"),
    "above": Declared("int64", "grids in which some construct is as important as the first of the published scores"),
    "constructs": Declared("int64", "features that are constructs"),
    "features": Declared("int64", "features in all, random stand-ins for similarities left out"),
}


def paper_calibration(published: Results, grids: int = GRIDS, seed: int = SEED) -> pd.DataFrame:
    """One row per background of KINDS: columns PAPER_CALIBRATION."""
    grid, rows = grid_of(published, PRIMARY), []
    setting = SETTINGS[SETTING]
    observed = paper_importances(published, setting, [0]).mean().set_index("feature").importance
    largest = observed[grid.constructs].max()
    for number, background in enumerate(KINDS):
        noise = BACKGROUNDS[background](grid, grids, np.random.default_rng((seed, number)))
        first = above = 0
        for drawn in np.moveaxis(noise, 2, 0):
            made_up = _with_gains(published, grid, drawn)
            importances = paper_importances(made_up, setting, [0]).mean().set_index("feature").importance
            known = importances[[name for name in importances.index if name in grid.kinds]]
            first += known.idxmax() in grid.constructs
            above += bool((known[grid.constructs] >= largest).any())
        ends = exact_interval(first, grids)
        rows.append((background, grids, first, first / grids, *ends, above, len(grid.constructs), len(grid.kinds)))
    return framed(pd.DataFrame(rows, columns=list(PAPER_CALIBRATION)), PAPER_CALIBRATION)


def _with_gains(published: Results, grid: Grid, gains: np.ndarray) -> Results:
    """The published study with other gains in points [tasks, tasks]."""
    place = {task: row for row, task in enumerate(grid.tasks)}
    pairs = published.gains
    rows, columns = (pairs[role].map(place).to_numpy() for role in ("intermediate", "target"))
    points = gains[rows, columns]
    percent = points / pairs.baseline
    return replace(published, gains=pairs.assign(gain=points / 100, percent=percent))


def main() -> None:
    """Simulate and write the rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--grids", type=int, default=GRIDS)
    options = parser.parse_args()
    write_csv(paper_calibration(results(), options.grids), options.file.with_suffix(""))


if __name__ == "__main__":
    main()
