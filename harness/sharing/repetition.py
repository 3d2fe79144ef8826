"""The same cells trained twice, in two stores: how far apart their scores, decisions and predictions are.

Equal settings, rows and weights have equal keys, so a second run on another day, machine or number of lanes can be held
against the first, record by record. On the same processor with the same threads and lanes it has the same bytes;
elsewhere sums are rounded otherwise, and training carries that on.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from adapters_store import Store
from adapters_store.record import Record
from adapters_store.roles import planned_role
from harness.study.cell import Cell
from tasks.errors import BadInput
from tasks.metrics import decisions, labels_and_logits

Row = dict[str, Any]
TEST = "test.parquet"
EXACT = "pearson_r"  # the metric of numbers, which decide nothing


class NotTheSameRows(BadInput):
    """Two records of one key predict other test rows: one of the stores is not as it was written."""


def repetitions(store: Store, other: Store, keys: Iterable[str]) -> list[Row]:
    """A row per cell of these keys that both stores have, by what it is called; BadInput if there is none.

    It has both test scores, and by how much the predictions differ: ``other_decisions`` counts rows with another class
    or set of labels (of numbers: none), ``largest`` is the largest difference of a logit, or of a predicted number.
    StoreError names a file that is not as written.
    """
    shared = [store.get(key) for key in {*keys} & store.keys() & other.keys()]
    rows = [_row(record, store, other) for record in shared if TEST in record.files]
    if not rows:
        raise BadInput(f"{other.root} has no cell of the study that {store.root} has too; see: store ls")
    return sorted(rows, key=lambda row: (row["cell"], row["key"]))


def by_metric(cells: Sequence[Row]) -> list[Row]:
    """A row per metric: numbers of cells and rows, how far scores and predictions are apart, and where most."""
    return [_summary(metric, group) for metric, group in pd.DataFrame(cells).groupby("metric")]


def _summary(metric: str, cells: pd.DataFrame) -> Row:
    furthest = cells.loc[cells["difference"].abs().fillna(0.0).idxmax()]
    return {
        "metric": metric,
        "cells": len(cells),
        "equal": int((cells["largest"] == 0).sum()),
        "largest difference of a score": abs(furthest["difference"]),
        "in": furthest["cell"],
        "rows": int(cells["rows"].sum()),
        "other decisions": "" if metric == EXACT else int(cells["other_decisions"].sum()),
        "largest of a prediction": cells["largest"].max(),
    }


def _row(record: Record, store: Store, other: Store) -> Row:
    key, spec, metric = record.key, record.spec, str(record.results["metric"])
    # the columns of a record's predictions, by the ids of its rows and in their order
    tables = [
        pd.read_parquet(side.open(key, TEST)).set_index("id").sort_index(kind="stable") for side in (store, other)
    ]
    if not tables[0].index.equals(tables[1].index):
        raise NotTheSameRows(f"{store.root} and {other.root} have other test rows of {key}; see store verify of both")
    logits = [labels_and_logits({name: table[name].to_numpy() for name in table})[1] for table in tables]
    chosen = [decisions(metric, values).reshape(len(values), -1) for values in logits]
    scores = [side.get(key).results["test"] for side in (store, other)]
    first, second = (math.nan if score is None else float(score) for score in scores)
    identity = spec["target"], spec["intermediate"], spec["seed"], spec["setting"], planned_role(spec)
    return {
        "key": key,
        "cell": Cell(*identity, spec, key).label,
        "metric": metric,
        "rows": len(tables[0]),
        "first": first,
        "second": second,
        "other_decisions": 0 if metric == EXACT else int((chosen[0] != chosen[1]).any(axis=1).sum()),
        "largest": float(np.abs(np.subtract(*logits, dtype=np.float64)).max(initial=0.0)),
        "difference": second - first,
    }
