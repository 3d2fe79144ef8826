"""What bf16 does to a test score, beside what a seed does, from two finished runs of one study.

    empathy-transfer run benchmarks/studies/precision.toml --data DATA
    empathy-transfer run benchmarks/studies/precision.toml --data DATA --set name=precision-bf16 --set precision=bf16
    python -m benchmarks.studies.precision runs

Scores in points (100 times the metric). A difference is score in bf16 - score in fp32 of the same role, target,
intermediate and seed; "one seed's" is the root mean square over seeds, "of means" that of the difference between the
means over seeds. The seed sd is that of the fp32 scores, and "two seeds'" the root mean square difference between two
fp32 runs that differ in their seed alone, sqrt(2) times it: what a single difference has to be held against.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from adapters_store import Store
from analysis.gains.cells import cells

STUDIES = {"fp32": "precision-fp32", "bf16": "precision-bf16"}
PAIR = ["role", "target", "intermediate"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print one line per target and role."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=Path)
    store = Store(parser.parse_args(arguments).store)
    print(summary(*(scores(store, name) for name in STUDIES.values())).round(2).to_string(index=False))


def scores(store: Store, name: str) -> pd.DataFrame:
    """Test scores in points of a finished study: one row per pair, one column per seed."""
    table = cells(store, store.manifest(name))
    table["intermediate"] = table.intermediate.fillna("")
    return 100 * table.pivot(index=PAIR, columns="seed", values="score").astype("float64")


def summary(fp32: pd.DataFrame, bf16: pd.DataFrame) -> pd.DataFrame:
    """One row per role and target: spreads and differences in points, pooled over intermediates."""
    rows = []
    for (role, target), pairs in fp32.groupby(level=["role", "target"]):
        change = bf16.loc[pairs.index] - pairs
        seeds = np.sqrt(pairs.var(axis=1, ddof=1).mean())
        rows.append(
            {
                "role": role,
                "target": target,
                "pairs": len(pairs),
                "score": pairs.mean(axis=None),
                "seed sd": seeds,
                "two seeds'": np.sqrt(2) * seeds,
                "bf16 - fp32, one seed's": np.sqrt((change**2).mean(axis=None)),
                "of means": np.sqrt((change.mean(axis=1) ** 2).mean()),
                "mean": change.mean(axis=None),
            }
        )
    return pd.DataFrame(rows)


if __name__ == "__main__":
    main()
