"""How often ``perceived`` calls shuffled ratings of the real marks different: nothing is timed or trained.

    python -m benchmarks.studies.perceived --data DATA [--table marks.csv]

With ``--table`` the marks and closing ratings are written for ``perceived``, and nothing is shuffled.

Every dialogue of FailedESConv.json gets the marks of another, drawn again as often as it has rows, and the closing
ratings of another; strategies stay. Prints the share of single tests with p <= .05, of all and by rating, and the share
of tables with a difference after each correction, over ``--draws`` shuffles.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.gains.significance import LEVEL
from analysis.results.people import DECIDES, Rated, expressed
from benchmarks.studies.seeker_ratings import CLOSING, MARK, RATINGS, STRATEGIES, seeker_ratings
from tasks.readers.raw import read_raw

FILE = "esconv/raw/FailedESConv.json"
CORRECTIONS = (DECIDES, "p_holm", "p_bh", "p_by")


def main(arguments: Sequence[str] | None = None) -> None:
    """Shuffle, test, and print the shares."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--table", type=Path)
    options = parser.parse_args(arguments)
    if options.table:
        marks_and_closings(options.data / FILE).to_csv(options.table, index=False)
        return
    rows, rng = marks_and_closings(options.data / FILE), np.random.default_rng(20261124)
    tables = [expressed(shuffled(rows, rng), draws=999, seed=number) for number in range(options.draws)]
    every = pd.concat(tables, keys=range(options.draws), names=["draw"])
    print(f"single tests with p <= {LEVEL}: {(every.p <= LEVEL).mean():.4f}")
    print((every.p <= LEVEL).groupby(every.rating).mean().round(4).to_string())
    print(f"\ntables with an adjusted p <= {LEVEL}, of {options.draws}")
    print((every[list(CORRECTIONS)] <= LEVEL).groupby(level="draw").any().mean().round(4).to_string())


def marks_and_closings(file: Path) -> pd.DataFrame:
    """The rows of the file's ratings, one per mark and per conversation with closing ratings."""
    table = seeker_ratings(read_raw(file)).table
    rows = pd.DataFrame(list(table.rows), columns=list(table.header))
    numbers = [*STRATEGIES, *RATINGS]
    return rows.assign(**rows[numbers].apply(pd.to_numeric))


def shuffled(rows: pd.DataFrame, rng: np.random.Generator) -> Rated:
    """The same rows with the ratings of other dialogues."""
    is_mark = rows[MARK].notna()
    marks, closings = rows[is_mark].copy(), rows[~is_mark].copy()
    own = marks.groupby("group")[MARK].apply(np.array)
    given = dict(zip(own.index, own.to_numpy()[rng.permutation(len(own))], strict=True))
    marks[MARK] = [rng.choice(given[name]) for name in marks["group"]]
    closings[list(CLOSING)] = closings[list(CLOSING)].to_numpy()[rng.permutation(len(closings))]
    both = pd.concat([marks, closings], ignore_index=True)
    return Rated(both["group"], both[list(STRATEGIES)], both[list(RATINGS)])


if __name__ == "__main__":
    main()
