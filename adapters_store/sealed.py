"""JSON files that carry a checksum of themselves, so that no changed byte goes unseen."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from adapters_store.errors import CorruptRecord, StoreError
from adapters_store.key import key_of, plain

SCHEMA = 1
STEPS: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}  # a body of schema n in the terms of n + 1, by n
CHECKSUM = "checksum"


def seal(body: Mapping[str, Any]) -> bytes:
    """The body as readable UTF-8 JSON with one more field, ``checksum``: the sha256 of all the others."""
    complete = {**plain(body, "record"), CHECKSUM: key_of(body)}
    return json.dumps(complete, sort_keys=True, indent=1, ensure_ascii=False).encode() + b"\n"


def unseal(raw: bytes, where: Path) -> dict[str, Any]:
    """The body of a sealed file in today's schema; CorruptRecord when a byte differs, StoreError when it is newer."""
    try:
        body = json.loads(raw.decode())
        del body[CHECKSUM]
        is_whole = seal(body) == raw
    except (ValueError, TypeError, KeyError, RecursionError, StoreError):
        is_whole = False
    if not is_whole:
        raise CorruptRecord(f"{where}: not as it was written; restore it, or move its folder away and run again")
    return _upgraded(body, where)


def _upgraded(body: dict[str, Any], where: Path) -> dict[str, Any]:
    """The body after the steps from its schema to today's, one by one; nothing is written."""
    while (schema := body.get("schema")) != SCHEMA:
        if not isinstance(schema, int) or schema not in STEPS:
            raise StoreError(
                f"{where}: schema {schema!r}, but this version reads {SCHEMA}; use the version that wrote it"
            )
        body = {**STEPS[schema](body), "schema": schema + 1}
    return body


def signed(body: Mapping[str, Any]) -> bytes:
    """The body as readable UTF-8 JSON in its own order with one more field, the checksum of the others in it."""
    plain_body = plain(body, "manifest")
    complete = {**plain_body, CHECKSUM: _digest(plain_body)}
    return json.dumps(complete, indent=1, ensure_ascii=False).encode() + b"\n"


def unsigned(raw: bytes) -> dict[str, Any] | None:
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
