"""What the store keeps of a finished cell: its record, and the sealed JSON that it is a file of.

A sealed file carries a checksum of itself, so that no changed byte goes unseen. ``seal`` and ``unseal`` do this for
records and measures, whose fields are sorted; ``sign`` and ``read_signed`` for manifests, whose order is kept
and whose oldest files have no checksum.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from adapters_store.key import CorruptRecord, StoreError, compact, key_of, plain_data
from adapters_store.roles import IMPORTED

SCHEMA = 1
CHECKSUM = "checksum"
MARKER = "record.json"
KEY = re.compile(r"[0-9a-f]{64}")
_PART = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")

LEAKING = "leaking"  # among the flags of results: test rows were predicted from their own answers; never ranked


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


# Sealed files.


def seal(body: Mapping[str, Any]) -> bytes:
    """The body as readable UTF-8 JSON with one more field, ``checksum``: the sha256 of all the others."""
    return _seal(plain_data(body, "record"))


def _seal(plain: Mapping[str, Any]) -> bytes:
    """The same of a body that is plain data, as all is that was read from JSON."""
    complete = {**plain, CHECKSUM: hashlib.sha256(compact(plain)).hexdigest()}
    return json.dumps(complete, sort_keys=True, indent=1, ensure_ascii=False).encode() + b"\n"


def unseal(raw: bytes, where: Path) -> dict[str, Any]:
    """The body of a sealed file; CorruptRecord when a byte differs, StoreError when it is of another schema."""
    try:
        body: dict[str, Any] = json.loads(raw.decode())
        del body[CHECKSUM]
        is_whole = _seal(body) == raw
    except (ValueError, TypeError, KeyError, RecursionError):
        is_whole = False
    if not is_whole:
        raise CorruptRecord(f"{where}: not as it was written; restore it, or move its folder away and run again")
    check_schema(body.get("schema"), where)
    return body


def check_schema(schema: object, where: Path) -> None:
    """StoreError when what a file holds was written by a version with another schema."""
    if schema != SCHEMA:
        raise StoreError(f"{where}: schema {schema!r}, but this version reads {SCHEMA}; use the version that wrote it")


def sign(body: Mapping[str, Any]) -> bytes:
    """The body as readable UTF-8 JSON in its own order with one more field, the checksum of the others in it."""
    plain_body = plain_data(body, "manifest")
    complete = {**plain_body, CHECKSUM: _digest(plain_body)}
    return json.dumps(complete, indent=1, ensure_ascii=False).encode() + b"\n"


def read_signed(raw: bytes) -> dict[str, Any] | None:
    """The body of a signed file, or of one from before there were signatures; None when it is not as written."""
    try:
        body = json.loads(raw.decode())
        checksum = body.pop(CHECKSUM, None)
        is_whole = isinstance(body, dict) and checksum in (None, _digest(body))
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None
    return body if is_whole else None


def _digest(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, ensure_ascii=False).encode()).hexdigest()


# Names that may be used in a store.


def check_key(key: str) -> str:
    """The key itself; StoreError unless it is 64 lower-case hexadecimal digits."""
    if not isinstance(key, str) or not KEY.fullmatch(key):
        raise StoreError(f"{key!r} is not a key: keys are 64 lower-case hexadecimal digits, as key_of(spec) makes them")
    return key


def check_file_name(name: str) -> str:
    """The name itself; StoreError unless it is a relative POSIX path of plain parts that is not the marker's."""
    if name.lower() == MARKER or not all(_PART.fullmatch(part) for part in name.split("/")):
        raise StoreError(
            f"{name!r} cannot name a file of a record; use letters, digits and . _ - between single slashes"
        )
    return name


def check_name(name: str, noun: str, pattern: str) -> str:
    """The name itself; StoreError unless it matches the pattern as a whole."""
    if not re.fullmatch(pattern, name):
        raise StoreError(f"{name!r} is not the name of a {noun}: allowed is {pattern}")
    return name


# Adapters from elsewhere: how their records, and the studies that stack on them, are recognised.


def is_imported(spec: Mapping[str, Any]) -> bool:
    """Whether a record holds an adapter from elsewhere; no run could make it again."""
    return spec.get("role") == IMPORTED


def imports_of(manifest: Mapping[str, Any]) -> Mapping[str, str]:
    """The keys of the adapters that a study imports, by name."""
    imported: Mapping[str, str] = manifest.get("study", {}).get("imported", {})
    return imported
