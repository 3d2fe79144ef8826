"""The same cells trained twice, in two stores: how far apart their scores, decisions and predictions are.

Equal settings, rows and weights have equal keys, so a second run on another day, machine or number of lanes can be held
against the first, record by record. On the same processor with the same threads and lanes it has the same bytes;
elsewhere sums are rounded otherwise, and training carries that on.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from adapters_store import Store
from adapters_store.record import Record
from adapters_store.roles import planned_role
from harness.sharing.brief import EXACT, TEST
from harness.study.cell import Cell
from tasks.errors import BadInput
from tasks.metrics import decisions, labels_and_logits


class NotTheSameRows(BadInput):
    """Two records of one key predict other test rows: one of the stores is not as it was written."""


@dataclass(frozen=True)
class Repetition:
    """One cell of both stores: its test scores, and by how much its predictions on ``rows`` test rows differ.

    ``other_decisions`` counts rows with another class or set of labels (of numbers: none), ``largest`` is the largest
    difference of a logit, or of a predicted number.
    """

    key: str
    cell: str
    metric: str
    rows: int
    first: float
    second: float
    other_decisions: int
    largest: float

    @property
    def difference(self) -> float:
        """The second score less the first."""
        return self.second - self.first


def repetitions(first: Store, second: Store) -> Iterator[Repetition]:
    """Every cell that both stores have, by what it is called; StoreError names a file that is not as written."""
    shared = [first.get(key) for key in sorted(first.keys() & second.keys())]
    for record in sorted(shared, key=lambda record: (_label(record), record.key)):
        if TEST in record.files:
            yield _repetition(record, first, second)


def by_metric(cells: Iterable[Repetition]) -> list[dict[str, object]]:
    """A row per metric: numbers of cells and rows, how far scores and predictions are apart, and where most."""
    groups: dict[str, list[Repetition]] = {}
    for cell in cells:
        groups.setdefault(cell.metric, []).append(cell)
    return [_row(metric, own) for metric, own in sorted(groups.items())]


def _row(metric: str, cells: Sequence[Repetition]) -> dict[str, object]:
    rows, other = sum(cell.rows for cell in cells), sum(cell.other_decisions for cell in cells)
    furthest = max(cells, key=lambda cell: abs(cell.difference))
    return {
        "metric": metric,
        "cells": len(cells),
        "equal": sum(cell.largest == 0 for cell in cells),
        "largest difference of a score": abs(furthest.difference),
        "in": furthest.cell,
        "rows": rows,
        "other decisions": "" if metric == EXACT else other,
        "largest of a prediction": max(cell.largest for cell in cells),
    }


def _repetition(record: Record, first: Store, second: Store) -> Repetition:
    file = first.open(record.key, TEST)
    earlier, later = _predictions(file), _predictions(second.open(record.key, TEST))
    if not earlier.index.equals(later.index):
        raise NotTheSameRows(
            f"{file}: other test rows than {second.root} has of {record.key}; see store verify of both"
        )
    metric = str(record.results["metric"])
    before, after = (labels_and_logits({name: table[name].to_numpy() for name in table}) for table in (earlier, later))
    logits = before[1].astype(np.float64), after[1].astype(np.float64)
    other = [decisions(metric, own).reshape(len(earlier), -1) for own in logits]
    return Repetition(
        key=record.key,
        cell=_label(record),
        metric=metric,
        rows=len(earlier),
        first=_score(record),
        second=_score(second.get(record.key)),
        other_decisions=0 if metric == EXACT else int((other[0] != other[1]).any(axis=1).sum()),
        largest=float(np.abs(logits[0] - logits[1]).max(initial=0.0)),
    )


def _score(record: Record) -> float:
    """The test score; not a number where the record has none."""
    return math.nan if (score := record.results["test"]) is None else float(score)


def _predictions(path: Path) -> pd.DataFrame:
    """The columns of a file of predictions, by the ids of its rows and in their order."""
    table = pq.ParquetFile(path).read(use_threads=False).to_pandas()
    return table.set_index("id").sort_index(kind="stable")


def _label(record: Record) -> str:
    spec = record.spec
    what = spec["target"], spec["intermediate"], spec["seed"], spec["setting"], planned_role(spec)
    return Cell(*what, spec, record.key).label
