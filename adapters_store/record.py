"""What the store keeps of a finished cell."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from adapters_store.errors import CorruptRecord, StoreError
from adapters_store.key import key_of
from adapters_store.sealed import SCHEMA, seal, unseal

MARKER = "record.json"
ALIAS = "alias.json"  # instead of it, where another record stands for this key (adapters_store.alias)
KEY = re.compile(r"[0-9a-f]{64}")
_PART = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")


@dataclass(frozen=True)
class StoredFile:
    """Content hash (64 hexadecimal digits) and size in bytes of one file of a record."""

    sha256: str
    bytes: int

    def __post_init__(self) -> None:
        """Refuse a hash or a size that cannot be one."""
        check_key(self.sha256)
        if not isinstance(self.bytes, int) or self.bytes < 0:
            raise StoreError(f"{self.bytes!r} is not a file size")


@dataclass(frozen=True)
class Record:
    """Everything about a cell but the content of its files; ``files`` is by path relative to the record's folder."""

    key: str
    spec: Mapping[str, Any]
    results: Mapping[str, Any]
    provenance: Mapping[str, Any]
    files: Mapping[str, StoredFile]
    schema: int = SCHEMA

    def __post_init__(self) -> None:
        """Check that the key is the spec's own and that every file lies inside the record's folder."""
        check_key(self.key)
        for name in ("spec", "results", "provenance"):
            if not isinstance(getattr(self, name), Mapping):
                raise StoreError(f"{name} is a {type(getattr(self, name)).__name__}, not a mapping of names to values")
        if self.key != key_of(self.spec):
            raise StoreError(
                f"key {self.key} is not that of its spec, {key_of(self.spec)}; make keys with key_of(spec)"
            )
        for name in self.files:
            check_file_name(name)

    def to_json(self) -> bytes:
        """The record as the bytes of its record.json; StoreError if it holds NaN or anything but JSON."""
        return seal({**vars(self), "files": {name: vars(stamp) for name, stamp in self.files.items()}})

    @classmethod
    def from_json(cls, raw: bytes, where: Path) -> Record:
        """The record in these bytes; CorruptRecord naming ``where`` unless every byte is as written."""
        body = unseal(raw, where)
        try:
            files = {name: StoredFile(**stamp) for name, stamp in body.pop("files").items()}
            return cls(files=files, **body)
        except (StoreError, TypeError, KeyError, AttributeError) as error:
            raise CorruptRecord(f"{where}: {error}; move its folder away and run again") from error


def check_key(key: str) -> str:
    """The key itself; StoreError unless it is 64 lower-case hexadecimal digits."""
    if not isinstance(key, str) or not KEY.fullmatch(key):
        raise StoreError(f"{key!r} is not a key: keys are 64 lower-case hexadecimal digits, as key_of(spec) makes them")
    return key


def check_file_name(name: str) -> str:
    """The name itself; StoreError unless it is a relative POSIX path of plain parts that is not the marker's."""
    if name.lower() in (MARKER, ALIAS) or not all(_PART.fullmatch(part) for part in name.split("/")):
        raise StoreError(
            f"{name!r} cannot name a file of a record; use letters, digits and . _ - between single slashes"
        )
    return name


def check_name(name: str, what: str, pattern: str) -> str:
    """The name itself; StoreError unless it matches the pattern as a whole."""
    if not re.fullmatch(pattern, name):
        raise StoreError(f"{name!r} is not the name of a {what}: allowed is {pattern}")
    return name
