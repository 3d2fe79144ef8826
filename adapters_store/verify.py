"""Every byte of a store compared with what was written: what is damaged, what is unknown, what is still missing."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from adapters_store import disk
from adapters_store.errors import MissingRecord, StoreError
from adapters_store.listing import SEARCHES, named_keys
from adapters_store.record import KEY, MARKER, Record, read_signed
from adapters_store.store import MEASURE, WEIGHTS_ENDING, Store, check_file, left_out, stored_measure

SEARCH = "result.json"
Watch = Callable[[int, int], None]


@dataclass
class Verification:
    """How much was read, and a line for every damaged and every unknown file.

    ``light`` are keys of records without any of their weights, whole otherwise; ``missing`` are the keys of cells
    that a study names and the store does not have.
    """

    records: int = 0
    measures: int = 0
    manifests: int = 0
    light: list[str] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    missing: dict[str, list[str]] = field(default_factory=dict)


def verify(store: Store, watch: Watch = lambda done, of: None) -> Verification:
    """Read everything in a store; ``watch`` hears how many records of how many are done. Nothing is changed."""
    outcome = Verification()
    objects = disk.names(store.root / "objects")
    for done, name in enumerate(objects):
        watch(done, len(objects))
        if _is_ours(store.root / "objects" / name, outcome):
            _verify_record(store, name, outcome)
    for name in disk.names(store.root / "measures"):
        if _is_ours(store.root / "measures" / name, outcome):
            folder = store.root / "measures" / name
            try:
                stored_measure(folder / MEASURE, "measure of this name")
            except StoreError as problem:
                outcome.damaged.append(str(problem))
            else:
                outcome.measures += 1
            outcome.unknown += _unknown(folder, {MEASURE})
    _verify_manifests(store, outcome)
    for entry in disk.walk(str(store.root / SEARCHES)):
        if entry.name != SEARCH:
            continue
        with disk.reading(entry.path):
            is_whole = read_signed(disk.content(entry.path)) is not None
        if not is_whole:
            outcome.damaged.append(f"{entry.path}: not as it was written; run the same search again to write it anew")
    watch(len(objects), len(objects))
    return outcome


def is_light(record: Record, folder: Path) -> bool:
    """Whether the record was stored with weights and has none of them; StoreError if its note of them is malformed."""
    weights = {name for name in (*left_out(record), *record.files) if name.endswith(WEIGHTS_ENDING)}
    return bool(weights) and not any(os.path.lexists(folder / name) for name in weights)


def _is_ours(path: Path, outcome: Verification) -> bool:
    if KEY.fullmatch(path.name) and path.is_dir():
        return True
    outcome.unknown.append(f"{path}: not of this store; move it away")
    return False


def _verify_record(store: Store, key: str, outcome: Verification) -> None:
    folder = store.root / "objects" / key
    try:
        record = store.get(key)
        light = is_light(record, folder)
    except MissingRecord:
        if folder.exists():  # else another process has just removed it
            outcome.damaged.append(f"{folder / MARKER}: the file is gone; run the study again to train the cell anew")
        return
    except StoreError as problem:
        outcome.damaged.append(str(problem))
        return
    outcome.records += 1
    outcome.light += [key] if light else []
    for name, stamp in record.files.items():
        if light and name.endswith(WEIGHTS_ENDING):
            continue
        try:
            check_file(folder, name, stamp)
        except StoreError as problem:
            outcome.damaged.append(str(problem))
    outcome.unknown += _unknown(folder, {MARKER, *record.files})


def _verify_manifests(store: Store, outcome: Verification) -> None:
    known = store.manifests()
    for name in known:
        try:
            keys = named_keys(store, name)
        except StoreError as problem:
            outcome.damaged.append(str(problem))
            continue
        outcome.manifests += 1
        outcome.missing[name] = sorted(key for key in keys if key not in store)
    outcome.unknown += _unknown(store.root / "studies", {f"{name}.json" for name in known})


def _unknown(folder: Path, names: set[str]) -> Iterator[str]:
    for entry in disk.walk(str(folder)):
        path = Path(entry.path)
        if not entry.is_dir(follow_symlinks=False) and path.relative_to(folder).as_posix() not in names:
            yield f"{path}: no record, measure or study names this file; move it away"
