"""What a store holds, counted by a walk through its folders: nothing is checked, and no index is kept."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from adapters_store import disk
from adapters_store.errors import StoreError
from adapters_store.key import key_of
from adapters_store.record import KEY, MARKER, check_key, imports_of
from adapters_store.store import Store

SEARCHES = "searches"  # the folder of searches, by study and task
UNREADABLE = -1  # instead of a size


@dataclass(frozen=True)
class Row:
    """A line of a listing: a study, or everything of a kind; ``planned`` counts the cells that a study names."""

    what: str
    name: str
    planned: int | None
    count: int
    bytes: int
    note: str = ""


def listing(store: Store) -> list[Row]:
    """One row per study, then records that no study names, measures, searches, packs and what writers left behind.

    A record of several studies counts in each; its bytes are those that it says its files have. A study whose manifest
    cannot be read is a row that says so.
    """
    sizes = _sizes(store)
    rows, named = [], set()
    for name in store.manifests():
        try:
            keys = named_keys(store, name)
        except StoreError as problem:
            rows.append(Row("study", name, None, 0, 0, str(problem)))
            continue
        named |= keys
        rows.append(_records("study", name, len(keys), [sizes[key] for key in keys if key in sizes]))
    unnamed = [size for key, size in sizes.items() if key not in named]
    finished = sum(name in sizes for name in disk.names(store.root / "packs"))
    return [
        *rows,
        _records("records", "of no study", None, unnamed),
        _folder(store, "measures"),
        _folder(store, SEARCHES),
        _folder(store, "packs", f"{finished} of stored cells: store gc" if finished else ""),
        _folder(store, "staging"),
    ]


def named_keys(store: Store, study: str) -> set[str]:
    """Keys of the cells and imports that a study's manifest names; CorruptRecord or StoreError if it names none."""
    if (keys := keys_in(store.manifest(study))) is None:
        path = store.root / "studies" / f"{study}.json"
        raise StoreError(f"{path}: does not name its cells; run the study again to write it anew")
    return set(keys)


def keys_in(manifest: Mapping[str, Any]) -> list[str] | None:
    """The keys of a manifest's cells and imports, each once and in its order; None if it does not name them."""
    try:
        keys = (*(cell["key"] for cell in manifest["cells"]), *imports_of(manifest).values())
        return list(dict.fromkeys(map(check_key, keys)))
    except (TypeError, KeyError, AttributeError, StoreError):
        return None


DATES = ("created", "declared")  # fields of a manifest that say when, not what


def content_of(store: Store, manifest: Mapping[str, Any]) -> str:
    """Sha256 of all that a store has of a study but weights: its manifest without dates, and the bytes of its records.

    A record's bytes hold the hash of each of its files. StoreError where one cannot be read; none is checked.
    """
    said = {name: content for name, content in manifest.items() if name not in DATES}
    digest = hashlib.sha256(key_of(said).encode())
    for key in keys_in(manifest) or ():
        if key in store:
            digest.update(b"record" + hashlib.sha256(store.content(key)).digest())
        else:
            digest.update(b"missing")
    return digest.hexdigest()


def _sizes(store: Store) -> dict[str, int]:
    """Bytes of every finished record by its key, record.json included; UNREADABLE where that cannot be read."""
    folder, sizes = str(store.root / "objects"), {}
    for key in disk.names(folder):
        with suppress(FileNotFoundError, NotADirectoryError):
            if KEY.fullmatch(key):
                sizes[key] = _claimed_bytes(f"{folder}/{key}/{MARKER}")
    return sizes


def _claimed_bytes(path: str) -> int:
    """The size of a record by its own account, so that no file of it needs a look."""
    try:
        raw = disk.content(path)
        return len(raw) + sum(int(stamp["bytes"]) for stamp in json.loads(raw)["files"].values())
    except (FileNotFoundError, NotADirectoryError):
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return UNREADABLE


def _records(what: str, name: str, planned: int | None, sizes: Iterable[int]) -> Row:
    sizes = list(sizes)
    broken = sizes.count(UNREADABLE)
    note = f"{broken} cannot be read: store verify" if broken else ""
    return Row(what, name, planned, len(sizes), sum(size for size in sizes if size != UNREADABLE), note)


def _folder(store: Store, what: str, note: str = "") -> Row:
    folder, total = store.root / what, 0
    for entry in disk.walk(str(folder)):
        with suppress(FileNotFoundError):  # another process has just removed it
            total += 0 if entry.is_dir(follow_symlinks=False) else entry.stat(follow_symlinks=False).st_size
    return Row(what, "", None, len(disk.names(folder)), total, note)
