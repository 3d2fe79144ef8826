"""What a cell predicted, counted: confusion of classes, or values in bins. No row can be told from these counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adapters_store.record import Record
from adapters_store.store import Store
from analysis.cells import predictions

BINS = 28  # along each axis


def counted(store: Store, records: Sequence[Record], classes: Sequence[str]) -> dict[str, Any] | None:
    """The test predictions of a cell's finished seeds, added up; None where no seed is finished.

    ``kind`` is ``confusion`` (``counts`` by label x decision), ``multilabel`` (per class: rows that neither, only the
    decision, only the label, and both have), or ``bins`` (label x value, both axes from ``low`` to ``high``). Counts
    are pairs (place in row order, count) in one flat list without zeros.
    """
    if not records:
        return None
    found = [predictions(store, record) for record in records]
    labels = np.concatenate([one.labels for one in found])
    chosen = np.concatenate([one.decisions for one in found])
    metric = records[0].results["metric"]
    if metric == "pearson_r":
        return binned(labels, chosen)
    if metric == "multilabel_f1":
        both = 2 * labels.astype(int) + chosen.astype(int)
        four = [np.bincount(column, minlength=4).tolist() for column in both.T]
        return {"kind": "multilabel", "classes": list(classes), "counts": four}
    size = max([len(classes), int(labels.max()) + 1, int(chosen.max()) + 1])
    names = [*classes, *(f"class {place}" for place in range(len(classes), size))]
    table = np.zeros((size, size), dtype=np.int64)
    np.add.at(table, (labels.astype(int), chosen.astype(int)), 1)
    return {"kind": "confusion", "classes": names, "counts": _sparse(table)}


def binned(labels: NDArray[Any], values: NDArray[Any]) -> dict[str, Any]:
    """Labels and values ``[n]`` in BINS x BINS bins of one width; what is not finite is counted as ``left_out``."""
    is_finite = np.isfinite(labels) & np.isfinite(values)
    labels, values = labels[is_finite].astype(float), values[is_finite].astype(float)
    both = np.concatenate([labels, values]) if len(labels) else np.array([0.0, 1.0])
    low, high = float(both.min()), float(both.max())
    if low == high:
        low, high = low - 0.5, high + 0.5
    table, _, _ = np.histogram2d(labels, values, bins=BINS, range=[[low, high], [low, high]])
    facts = {"low": float(f"{low:.6g}"), "high": float(f"{high:.6g}"), "left_out": int((~is_finite).sum())}
    return {"kind": "bins", "bins": BINS, **facts, "counts": _sparse(table.astype(np.int64))}


def _sparse(table: NDArray[np.int64]) -> list[int]:
    flat = table.ravel()
    places = np.flatnonzero(flat)
    pairs: list[int] = np.stack([places, flat[places]], axis=1).ravel().tolist()
    return pairs
