"""Contamination of a plan's pairs: measured once, kept in the store as measures."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from adapters_store import MissingRecord, Store
from tasks.contamination import KIND, Contact, contacts, inputs_of
from tasks.loading import Splits
from tasks.near import Texts


def measured(splits: Mapping[str, Splits], store: Store, texts: Texts | None = None) -> list[Contact]:
    """A Contact for every ordered pair of tasks, each with itself too: from the store, or computed and kept there.

    ``texts`` are those of the splits, if they were compared before.
    """
    inputs = inputs_of({name: facts_of(one) for name, one in splits.items()})
    try:
        kept = store.measure(KIND, inputs).result["contacts"]
    except MissingRecord:
        started = time.perf_counter()
        found = contacts(splits, [(target, other) for target in splits for other in splits], texts)
        result = {"fields": list(Contact._fields), "contacts": [list(one) for one in found]}
        store.put_measure(KIND, inputs, result, time.perf_counter() - started)
        return found
    return [Contact(*one) for one in kept]


def facts_of(splits: Splits) -> dict[str, Any]:
    """What of a task its stored contacts depend on."""
    dataset = splits.task.dataset
    return {"dataset": dataset.id, "family": dataset.family, "splits_hash": splits.content_hash}
