"""How surely it is known on which backbone's config and tokenizer a record stands, in words."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from adapters_store.alias import Alias
from adapters_store.record import Record
from adapters_store.store import Store

NAMED = "in keys"
WEIGHTS = "not in keys of schema 1 (see: store migrate)"


def identities(store: Store, records: Collection[Record]) -> list[str]:
    """For each record: ``in keys``, or by an alias ``known`` or ``assumed``, or not at all (schema 1)."""
    aliases = by_both_keys(store)
    return [_word(record, aliases) for record in records]


def by_both_keys(store: Store) -> Mapping[str, Alias]:
    """Every alias by its own key and by the key that it stands for."""
    found = store.aliases()
    return {alias.of: alias for alias in found.values()} | found


def _word(record: Record, aliases: Mapping[str, Alias]) -> str:
    if alias := aliases.get(record.key):
        return alias.identity
    return NAMED if "config_sha256" in record.spec["backbone"] else WEIGHTS
