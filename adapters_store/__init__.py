"""What is kept: finished cells, measures and manifests, in plain files that check themselves."""

from adapters_store.key import CorruptRecord, MissingRecord, StoreError, canonical, key_of, stands_on
from adapters_store.record import Record
from adapters_store.store import Store

__all__ = ["CorruptRecord", "MissingRecord", "Record", "Store", "StoreError", "canonical", "key_of", "stands_on"]
