"""All records of a store, for what has to look at many of them and changes none."""

from __future__ import annotations

from collections.abc import Iterator

from adapters_store import Record, Store, StoreError
from adapters_store.imports import is_imported

SMOKE = "-smoke"  # how the name of a smoke run's study ends


def records(store: Store) -> Iterator[Record]:
    """Every record that can be read, by its newest key; a damaged one is passed over here and named by whoever uses it.

    The cells of smoke runs are left out, and what was imported: how they were trained says nothing of any other.
    """
    for key in sorted(store.latest() - smoke_keys(store)):
        try:
            record = store.get(key)
        except StoreError:
            continue
        if not is_imported(record.spec):
            yield record


def smoke_keys(store: Store) -> set[str]:
    """Keys of the cells that the manifests of smoke runs name."""
    found: set[str] = set()
    for name in store.manifests():
        if name.endswith(SMOKE):
            try:
                found |= {str(cell["key"]) for cell in store.manifest(name)["cells"]}
            except (StoreError, KeyError, TypeError):
                continue
    return found
