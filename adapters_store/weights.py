"""Records without weights: their numbers and predictions are all there, their adapters are not."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from adapters_store.errors import StoreError
from adapters_store.record import Record, StoredFile
from adapters_store.store import Store

ENDING = ".safetensors"
LEFT_OUT = "left_out"  # the field of a record's provenance that says what its left out files were


class NoWeights(StoreError):
    """A record is there, but its weights are not: they were not kept, or left out of the archive that it came from."""


def without_weights(record: Record) -> Record:
    """The record without its weights; which they were, with hash and size, stays in its provenance."""
    gone = {**left_out(record), **{name: one for name, one in record.files.items() if name.endswith(ENDING)}}
    if not gone:
        return record
    stamps = {name: vars(one) for name, one in sorted(gone.items())}
    files = {name: one for name, one in record.files.items() if name not in gone}
    return dataclasses.replace(record, files=files, provenance={**record.provenance, LEFT_OUT: stamps})


def left_out(record: Record) -> dict[str, StoredFile]:
    """The files that the record was stored with and has no more; StoreError if what it says of them cannot be."""
    try:
        return {name: StoredFile(**stamp) for name, stamp in record.provenance.get(LEFT_OUT, {}).items()}
    except (TypeError, AttributeError):
        raise StoreError(f"record {record.key}: its provenance has a field {LEFT_OUT!r} that is not ours") from None


def open_weights(store: Store, key: str, name: str) -> Path:
    """``Store.open`` for a file of an adapter that somebody computes with; NoWeights if the record is without."""
    record = store.get(key)
    if left_out(record) or not any(one.endswith(ENDING) for one in record.files):
        raise NoWeights(
            f"record {key} has no weights (`store archive --light` leaves them out, and a study may keep baselines' "
            "adapters alone), so nothing can stand on it; `store restore` a full archive into a store of its own, "
            "or move its folder away and run again"
        )
    return store.open(key, name)
