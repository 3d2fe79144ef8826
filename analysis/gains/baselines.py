"""How well each target does alone, and whether that is more than a model that has learned nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from adapters_store.roles import SCORED_ALONE
from adapters_store.store import Store
from analysis.gains.cells import Manifest, planned_cells
from analysis.gains.columns import Column, columns
from analysis.gains.gains import SEED
from analysis.gains.pairs import FEW_GROUPS, conditional_on, flags_of
from analysis.gains.significance import DRAWS, evidence

RANGE = {"macro_f1": (0.0, 1.0), "multilabel_f1": (0.0, 1.0), "pearson_r": (-1.0, 1.0)}
TYPES = {
    "target": "str",
    "role": "str",
    "setting": "str",
    "version": "str",
    "metric": "str",
    "n_seeds": "int64",
    "score": "float64",
    "low": "float64",
    "high": "float64",
    "floor": "float64",
    "is_above_floor": "boolean",
    "conditional": "str",
    "n_train": "Int64",
    "n_test": "Int64",
    "n_groups": "Int64",
    "contaminated": "boolean",
    "quadratic_kappa": "float64",
    "spearman_r": "float64",
    "flags": "str",
}


def baselines(store: Store, manifest: Manifest, *, draws: int = DRAWS, seed: int = SEED) -> pd.DataFrame:
    """One row per planned target and setting: mean score over seeds, its 95 % interval, and the floor.

    Where whole models were trained for reference, a row each with the role ``finetuned``.
    ``is_above_floor`` says whether the interval's lower end is above the score of always predicting the majority class.
    """
    planned = planned_cells(store, manifest)
    planned = planned[planned.role.isin(SCORED_ALONE)]
    columns_by_target = {
        (column.target, column.setting): column for column in columns(store, planned, draws=draws, seed=seed)
    }
    rows = [
        _baseline_row(rows, columns_by_target.get(tuple(where))) | _secondary_scores(store, rows)
        for (*where, _), rows in planned.groupby(["target", "setting", "role"], sort=False)
    ]
    return pd.DataFrame(rows, columns=list(TYPES)).astype(TYPES)


def _secondary_scores(store: Store, rows: pd.DataFrame) -> dict[str, float]:
    """Means over finished seeds of the further metrics of an ordinal target; none for other targets."""
    secondary = [store.get(key).results.get("secondary", {}) for key in rows.key[rows.status == "done"]]
    names = {name for scores in secondary for name in scores}
    return {
        name: float(np.mean([np.nan if scores[name] is None else scores[name] for scores in secondary]))
        for name in names
    }


def _baseline_row(rows: pd.DataFrame, column: Column | None) -> dict[str, Any]:
    plan = dict(rows.iloc[0][["target", "role", "setting", "version", "metric"]])
    seeds = column.seeds(plan["role"], None, map(int, rows.seed)) if column else []
    if column is None or not seeds:
        return {**plan, "n_seeds": 0, "conditional": "", "flags": "missing"}
    done, lanes = rows[rows.seed.isin(seeds)], column.positions(plan["role"], None, seeds)
    scores = column.scores[lanes]
    of_mean = evidence(scores, column.draws[:, lanes], column.groups, column.rng())
    low, high = np.clip((of_mean.low, of_mean.high), *RANGE[plan["metric"]])
    floor = done.floor.mean()
    states = {"missing_seeds": len(seeds) < len(rows), "few_groups": column.groups.count < FEW_GROUPS}
    return {
        **plan,
        "n_seeds": len(seeds),
        "score": scores.mean(),
        "low": low,
        "high": high,
        "floor": floor,
        "is_above_floor": pd.NA if np.isnan(low) else bool(low > floor),
        "conditional": conditional_on(len(seeds)),
        "n_train": done.n_train.iloc[0],
        "n_test": column.n_test,
        "n_groups": column.groups.count,
        "contaminated": done.contaminated.iloc[0],
        "flags": ";".join([*(name for name, holds in states.items() if holds), *flags_of(done["flags"])]),
    }
