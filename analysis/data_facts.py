"""What a study knows of its tasks' data and training: sizes, words, labels and settings, from the store alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from adapters_store.errors import MissingRecord
from adapters_store.store import Store
from analysis.cells import BASELINE, Manifest
from analysis.frames import Declared, framed
from tasks.statistics import KIND, inputs_of

ROWS, CLASS, MOMENT = "rows", "class", "moment"
DISTRIBUTIONS = {
    "task": Declared("str", "id of the task"),
    "split": Declared("str", "all, train, validation or test"),
    "kind": Declared("str", "rows: share of all rows; class: share of the split's rows; moment: of the numbers there"),
    "name": Declared("str", "class; or min, median, max, mean, std; of rows empty"),
    "value": Declared("float64", "percent; of a moment the label's own unit"),
}
TRAINING = {
    "task": Declared("str", "id of the task"),
    "epochs": Declared("int64", "the last of which the best on validation is taken"),
    "batch_size": Declared("int64", "rows a step"),
    "learning_rate": Declared("float64", "at the start; it falls linearly to 0"),
    "weight_decay": Declared("float64", "of AdamW"),
    "warmup": Declared("float64", "share of the steps"),
    "clip": Declared("float64", "largest norm of a step's gradient"),
}

Statistics = Mapping[str, Mapping[str, Any]]


def stored_statistics(store: Store, manifest: Manifest) -> dict[str, Mapping[str, Any]]:
    """What ``tasks.statistics`` counted of each task when the study was run; no entry where it was not counted."""
    found = {}
    for name, task in manifest["tasks"].items():
        try:
            found[name] = store.measure(KIND, inputs_of(name, task["splits_hash"], task["classes"])).result
        except (KeyError, MissingRecord):  # a study that was last run before its words were counted
            continue
    return found


def distributions(statistics: Statistics) -> pd.DataFrame:
    """One row per task, split and class or moment, and one for the split's share of all rows."""
    rows = [(name, *row) for name, one in statistics.items() for row in _rows(one)]
    return framed(pd.DataFrame(rows, columns=list(DISTRIBUTIONS)), DISTRIBUTIONS)


def training(store: Store, manifest: Manifest) -> pd.DataFrame:
    """One row per task with a finished baseline on all data: the settings it was trained with."""
    rows: dict[str, dict[str, Any]] = {}
    for cell in manifest["cells"]:
        role = cell.get("role") or (BASELINE if cell["intermediate"] is None else "")
        if role == BASELINE and cell["setting"] == "full" and cell["target"] not in rows and cell["key"] in store:
            rows[cell["target"]] = dict(store.get(cell["key"]).spec["training"])
    return framed(pd.DataFrame([{"task": name, **one} for name, one in rows.items()]), TRAINING)


def _rows(one: Mapping[str, Any]) -> Iterator[tuple[str, str, str, float]]:
    total = sum(one["rows"].values())
    for split, labels in one["labels"].items():
        kind = MOMENT if set(labels) == {"min", "median", "max", "mean", "std"} else CLASS
        yield split, ROWS, "", 100 * one["rows"].get(split, total) / total
        yield from ((split, kind, name, value) for name, value in labels.items())
