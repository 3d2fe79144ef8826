"""Names made from content: canonical JSON and its sha256; and what can go wrong in a store, as one line each."""

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any


class StoreError(Exception):
    """The store was asked for, or given, something that it cannot do."""


class MissingRecord(StoreError):
    """The store holds nothing under this key or name."""


class CorruptRecord(StoreError):
    """A stored file is not what was written; the message starts with the file."""


def canonical(spec: Mapping[str, Any]) -> bytes:
    """UTF-8 JSON that is equal for equal content: sorted keys, no spaces; StoreError for what JSON cannot hold.

    Tuples equal lists; 1 and 1.0 differ, as do 1 and true; NaN, infinities and keys that are no strings are refused.
    """
    return compact(plain_data(spec))


def compact(plain: Mapping[str, Any]) -> bytes:
    """Canonical JSON of what is plain data already; ValueError for NaN, infinities and what is no valid Unicode."""
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode()


def key_of(spec: Mapping[str, Any]) -> str:
    """Sha256 of the canonical JSON, 64 hexadecimal digits."""
    return hashlib.sha256(canonical(spec)).hexdigest()


def stands_on(spec: Mapping[str, Any]) -> tuple[str, ...]:
    """The keys of all records that a cell is trained from, each once; ``spec`` is a cell's, or a manifest's row.

    That is the one of its intermediate, if a record holds it. Of a merged intermediate it is those of its parents, and
    of the transfers among which their validation scores choose.
    """
    deciding = (spec.get("merge") or {}).get("transfers", {}).values()
    return tuple(dict.fromkeys((*computes_with(spec), *(key for key in deciding if key))))


def computes_with(spec: Mapping[str, Any]) -> tuple[str, ...]:
    """The keys of the records whose adapters a cell computes with: of its intermediate, or of a merge's parents."""
    parents = (spec.get("merge") or {}).get("parents", {}).values()
    return tuple(dict.fromkeys(key for key in (spec.get("intermediate_key"), *parents) if key))


def names_below(spec: Mapping[str, Any]) -> dict[str, str]:
    """What a cell stands on, by key and in words, in the order of ``stands_on``."""
    merge = spec.get("merge") or {}
    names = {spec["intermediate_key"]: f"intermediate {spec.get('intermediate')}"} if spec["intermediate_key"] else {}
    names |= {key: f"parent {task}" for task, key in merge.get("parents", {}).items()}
    return names | {key: f"transfer {task} -> {spec['target']}" for task, key in merge.get("transfers", {}).items()}


def plain_data(value: object, where: str = "spec") -> Any:  # noqa: ANN401 - what JSON holds has no narrower type
    """The value as dicts, lists and scalars that JSON keeps exactly; StoreError names the field that is none."""
    if isinstance(value, Mapping):
        return {_text(name, f"a key of {where}"): plain_data(part, f"{where}.{name}") for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain_data(part, f"{where}[{index}]") for index, part in enumerate(value)]
    if isinstance(value, str):
        return _text(value, where)
    if isinstance(value, float) and not math.isfinite(value):
        raise StoreError(f"{where} is {value}; store null where there is no number")
    if value is None or isinstance(value, bool | int | float):
        return value
    raise StoreError(f"{where} is a {type(value).__name__}, which JSON cannot hold; convert it first")


def _text(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise StoreError(f"{where} is a {type(value).__name__}, not a string; convert it first")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise StoreError(f"{where} is not valid Unicode (character {error.start}); clean it first") from error
    return value
