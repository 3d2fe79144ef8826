"""JSON files that carry a checksum of themselves, so that no changed byte goes unseen."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from adapters_store.errors import CorruptRecord, StoreError
from adapters_store.key import key_of, plain

SCHEMA = 1


def seal(body: Mapping[str, Any]) -> bytes:
    """The body as readable UTF-8 JSON with one more field, ``checksum``: the sha256 of all the others."""
    complete = {**plain(body, "record"), "checksum": key_of(body)}
    return json.dumps(complete, sort_keys=True, indent=1, ensure_ascii=False).encode() + b"\n"


def unseal(raw: bytes, where: Path) -> dict[str, Any]:
    """The body of a sealed file; CorruptRecord when a byte differs, StoreError when its schema is another."""
    try:
        body = json.loads(raw.decode())
        del body["checksum"]
        is_whole = seal(body) == raw
    except (ValueError, TypeError, KeyError, RecursionError, StoreError):
        is_whole = False
    if not is_whole:
        raise CorruptRecord(f"{where}: not as it was written; restore it, or move its folder away and run again")
    if body.get("schema") != SCHEMA:
        raise StoreError(
            f"{where}: schema {body.get('schema')!r}, but this version reads {SCHEMA}; use the version that wrote it"
        )
    return body  # type: ignore[no-any-return]
