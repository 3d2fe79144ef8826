"""A second name of what is stored: the key that it has by a later schema, beside the record or measure itself.

Nothing is moved, copied or rewritten for it. An alias is a folder with one small file, which carries a checksum and the
inputs that its key is made of.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from adapters_store.errors import CorruptRecord, StoreError
from adapters_store.key import key_of
from adapters_store.record import ALIAS, SCHEMA, check_key, seal, unseal

KNOWN, ASSUMED = "known", "assumed"
IDENTITY = "identity"  # the field of a record's provenance that says which of both its backbone's identity is
STORED_AS = "stored_as"  # and the one that says under which key it is stored

__all__ = ["ALIAS", "ASSUMED", "IDENTITY", "KNOWN", "STORED_AS", "Alias"]


@dataclass(frozen=True)
class Alias:
    """``key`` stands for what is stored as ``of``; ``inputs`` are what the key is the hash of: a spec, or a measure's.

    ``identity`` says whether what the new key adds was checked (``known``) or taken from what is there now
    (``assumed``), ``reason`` by what, ``created`` when the alias was written (ISO 8601).
    """

    key: str
    of: str
    inputs: Mapping[str, Any]
    identity: str
    reason: str
    created: str
    schema: int = SCHEMA

    def __post_init__(self) -> None:
        """Check that the key is that of its inputs, and another than the one it stands for."""
        check_key(self.of)
        if not isinstance(self.inputs, Mapping) or self.key != key_of(self.inputs):
            raise StoreError(f"alias {self.key} is not named by its inputs")
        if self.key == self.of or self.identity not in (KNOWN, ASSUMED):
            raise StoreError(f"alias {self.key} stands for itself, or its identity is {self.identity!r}")

    def to_json(self) -> bytes:
        """The alias as the bytes of its file."""
        return seal(vars(self))

    @classmethod
    def from_json(cls, raw: bytes, where: Path) -> Alias:
        """The alias in these bytes; CorruptRecord naming ``where`` unless every byte is as written."""
        body = unseal(raw, where)
        try:
            return cls(**body)
        except (StoreError, TypeError) as error:
            raise CorruptRecord(f"{where}: {error}; move its folder away and map the store again") from error

    @property
    def stamp(self) -> dict[str, str]:
        """What the provenance of a record that is read through the alias says of it."""
        return {IDENTITY: self.identity, STORED_AS: self.of}
