"""Which parents of a merge count how much: read from the store once its parents, and what decides, are there."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from adapters_store import MissingRecord, Store
from adapters_store.measures import DATA_EMBEDDING
from adapters_store.store import left_out
from harness.study.intermediates.merged import EQUAL, MEASURED, VALIDATION
from tasks.errors import BadInput

Merge = Mapping[str, Any]  # a recipe as a cell's spec holds it


class Undecided(BadInput):
    """What decides about the parents of a merge is not in the store, or decides nothing."""


def why_unmergeable(merge: Merge, store: Store) -> str | None:
    """Why a merge whose parents are trained cannot be made, in one line; None where it can."""
    try:
        for name in weights_of(merge, store):
            if "adapter/adapter.safetensors" in left_out(store.get(merge["parents"][name])):
                return f"the weights of parent {name} were left out of its record; restore or train them again"
    except Undecided as reason:
        return str(reason)
    return None


def weights_of(merge: Merge, store: Store) -> dict[str, float]:
    """The weight of every parent that counts, by task in their order; they sum to 1.

    Only the ``best`` count, of equals those that come first by their names. A similarity below 0 counts as 0. Undecided
    in one line for what is not stored or where all weights are 0.
    """
    chosen = _best(merge, store)
    if merge["weights"] == EQUAL:
        return dict.fromkeys(chosen, 1 / len(chosen))
    raw = {
        name: max(0.0, value)
        for name, value in _similarities(merge["weights"], store).items()
        if name in chosen and not math.isnan(value)
    }
    if (total := math.fsum(raw.values())) <= 0:
        raise Undecided(
            f"the weights by {merge['weights']['similarity']} sum to 0, for no parent is above 0; take another "
            "similarity, or weights = 'equal'"
        )
    return {name: raw.get(name, 0.0) / total for name in chosen}


def _best(merge: Merge, store: Store) -> list[str]:
    parents = sorted(merge["parents"])
    if "best" not in merge:
        return parents
    scores = _validation(merge, store) if merge["by"] == VALIDATION else _similarities(merge["by"], store)
    ranked = sorted(parents, key=lambda name: (-_height(scores[name]), name))
    return sorted(ranked[: merge["best"]])


def _validation(merge: Merge, store: Store) -> dict[str, float]:
    """The validation scores of the target's transfers; those without one are last."""
    scores = {name: store.get(key).results["validation"] for name, key in merge["transfers"].items()}
    return {name: math.nan if score is None else float(score) for name, score in scores.items()}


def _height(score: float) -> float:
    return -math.inf if math.isnan(score) else score


def _similarities(asked: Mapping[str, Any], store: Store) -> dict[str, float]:
    """A similarity to the target by parent."""
    name = asked["similarity"]
    kind, field = MEASURED[name]
    values = {}
    for parent, keys in asked["measures"].items():
        try:
            results = [store.measure_of(key).result[field] for key in keys]
        except MissingRecord:
            raise Undecided(
                f"{name} of {parent} is not stored; measure it first: empathy-transfer study similarities STUDY"
            ) from None
        value = cosine(*results) if kind == DATA_EMBEDDING else results[0]
        values[parent] = math.nan if value is None else float(value)
    return values


def cosine(vector: Sequence[float], other: Sequence[float]) -> float:
    """Cosine of two vectors; undefined where one of them is 0."""
    lengths = math.sqrt(math.fsum(x * x for x in vector)) * math.sqrt(math.fsum(x * x for x in other))
    return math.fsum(x * y for x, y in zip(vector, other, strict=True)) / lengths if lengths else math.nan
