"""Statistics of a plan's tasks: counted once for every content of splits, and kept in the store as measures."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from adapters_store import MissingRecord, Store
from tasks.loading import Splits
from tasks.statistics import KIND, inputs_of, statistics


def counted(splits: Mapping[str, Splits], store: Store) -> dict[str, dict[str, Any]]:
    """``statistics`` of every task, from the store, or counted and kept there."""
    found = {}
    for name, one in splits.items():
        label = one.task.label
        inputs = inputs_of(name, one.content_hash, label.names or label.classes)
        try:
            found[name] = dict(store.measure(KIND, inputs).result)
        except MissingRecord:
            started = time.perf_counter()
            found[name] = statistics(one)
            store.put_measure(KIND, inputs, found[name], time.perf_counter() - started)
    return found
