"""What seeds, items and shared noise do to a gain, and what controls gain, from two finished runs of one study.

    empathy-transfer run benchmarks/studies/seeds.toml --data DATA
    empathy-transfer run benchmarks/studies/seeds.toml --data DATA --set name=seeds-apart --set shared_noise=false
    python -m benchmarks.studies.seeds runs

A gain here is 100 (score of a lane - score of the baseline of the same seed). Seed sd: over seeds, pooled over the
pairs of a role. Item sd: of a single seed's gain when test groups are resampled, pooled likewise. The correlation is
that of lane and baseline within a seed, from the variances of both and of their difference, pooled.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from adapters_store import Store
from adapters_store.roles import BASELINE
from analysis.gains.cells import ScoredColumn, columns, planned_cells

ROLES = ("transfer", "self", "shuffled", "random")
STUDIES = {"shared noise": "seeds", "noise of each lane's own": "seeds-apart"}
DRAWS, SEED = 1000, 20_240_901


def main(arguments: Sequence[str] | None = None) -> None:
    """Print one table per study and what the sharing removes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=Path)
    store, frames = Store(parser.parse_args(arguments).store), {}
    for title, name in STUDIES.items():
        if name in store.manifests():
            frames[title] = summary(pairs(store, name))
            print(f"\n{title}\n{frames[title].round(2).to_string()}")
    if len(frames) == len(STUDIES):
        shared, apart = (frame["seed sd"] ** 2 for frame in frames.values())
        print(f"\nvariance through seeds, shared / apart\n{(shared / apart).round(2).to_string()}")


def pairs(store: Store, name: str) -> pd.DataFrame:
    """One row per role, intermediate and target of a study: its mean gain and what the seeds and items do to it."""
    planned = planned_cells(store, store.manifest(name))
    return pd.DataFrame(row for column in columns(store, planned, draws=DRAWS, seed=SEED) for row in _rows(column))


def summary(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per role: mean gain with its standard deviation over pairs, and pooled spreads in points."""
    rows = {}
    for role in ROLES:
        own = frame[frame.role == role]
        top, base, both = (own[name].mean() for name in ("top_variance", "base_variance", "gain_variance"))
        rows[role] = {
            "pairs": len(own),
            "seeds a pair": own.seeds.mean(),
            "gain": own.gain.mean(),
            "sd over pairs": own.gain.std(),
            "seed sd": np.sqrt(both),
            "item sd": np.sqrt(own.item_variance.mean()),
            "correlation with the baseline": (top + base - both) / (2 * np.sqrt(top * base)),
        }
    return pd.DataFrame(rows).T


def _rows(column: ScoredColumn) -> list[dict[str, object]]:
    trained = sorted({seed for role, _, seed in column.lanes if role == BASELINE})
    rows = []
    for role, intermediate in dict.fromkeys((role, below) for role, below, _ in column.lanes if role in ROLES):
        seeds = column.seeds(role, intermediate, trained)
        top, base = column.positions(role, intermediate, seeds), column.positions(BASELINE, None, seeds)
        gains = 100 * (column.scores[top] - column.scores[base])
        draws = 100 * (column.draws[:, top] - column.draws[:, base])
        rows.append(
            {
                "target": column.target,
                "role": role,
                "intermediate": intermediate,
                "seeds": len(seeds),
                "gain": gains.mean(),
                "gain_variance": gains.var(ddof=1),
                "top_variance": (100 * column.scores[top]).var(ddof=1),
                "base_variance": (100 * column.scores[base]).var(ddof=1),
                "item_variance": draws.var(axis=0, ddof=1).mean(),
            }
        )
    return rows


if __name__ == "__main__":
    main()
