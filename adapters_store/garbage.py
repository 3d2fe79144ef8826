"""What a store can do without: listed first, removed only on request, and never while it is young.

Ages are measured by the file system's own clock, read from a file that is written for the purpose: the clocks of the
hosts that share a store may differ, and jump.
"""

from __future__ import annotations

import shutil
import stat
import uuid
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from adapters_store import disk
from adapters_store.errors import StoreError
from adapters_store.key import key_of
from adapters_store.listing import content_of, named_keys
from adapters_store.measures import KEPT
from adapters_store.record import KEY, is_imported
from adapters_store.store import ASIDE, Store

YOUNG = 24 * 3600.0  # seconds; a writer that is still at work has written something since
KINDS = ("staging", "packs", "results", "records")


class Leftover(NamedTuple):
    """Something that can be removed, and why.

    ``changed`` is the time of its last change by the file system's clock, ``age`` the time since then; in seconds.
    """

    kind: str
    path: Path
    why: str
    bytes: int
    changed: float
    age: float


@dataclass
class Garbage:
    """What can go, how many things are too young to judge, and which unreadable manifests protect all."""

    leftovers: list[Leftover] = field(default_factory=list)
    young: int = 0
    unreadable: list[str] = field(default_factory=list)


def garbage(store: Store, young: float = YOUNG, version: str = "") -> Garbage:
    """Folders of writers that are gone, checkpoints that no run will resume, and cells that no study names.

    Kept results of the analysis go that are of another ``version`` of it, or of a study as the store has it no more;
    where no version is given, none. Nothing goes that was changed within ``young`` seconds. StoreError where the store
    cannot be written: its clock is unknown then.
    """
    result = Garbage()
    now = _now(store)
    for kind, path, why in chain(_candidates(store, result), _results(store, version, result)):
        size, changed = _size_and_change(path)
        if changed is None or now - changed < young:
            result.young += changed is not None
        else:
            result.leftovers.append(Leftover(kind, path, why, size, changed, now - changed))
    return result


def remove(store: Store, leftovers: Iterable[Leftover]) -> Iterator[Leftover]:
    """Remove leftovers, each unless it has changed since it was listed, and yield those that are gone.

    Each is renamed before it is deleted: whoever still uses it sees nothing, never half of it.
    """
    for leftover in leftovers:
        if _size_and_change(leftover.path)[1] != leftover.changed:
            continue
        gone = store.root / "staging" / f"gone-{uuid.uuid4().hex}"
        with disk.writing(store.root):
            gone.parent.mkdir(exist_ok=True)
            leftover.path.rename(gone)
        if gone.is_dir() and not gone.is_symlink():
            shutil.rmtree(gone, ignore_errors=True)
        else:
            gone.unlink(missing_ok=True)
        yield leftover


def _candidates(store: Store, result: Garbage) -> Iterator[tuple[str, Path, str]]:
    """Kind, path and reason of everything that could go if it is old enough."""
    for name in disk.names(store.root / "staging"):
        yield "staging", store.root / "staging" / name, "left by a writer that is gone"
    stored = store.keys()
    packs = disk.names(store.root / "packs")
    for name in sorted(stored.intersection(packs)):
        yield "packs", store.root / "packs" / name, "checkpoints of a cell that is stored"
    for name in sorted(stored.intersection(disk.names(store.root / ASIDE))):
        yield "staging", store.root / ASIDE / name, "earlier record of a cell that is stored"
    if (named := _studied_keys(store, result)) is None:
        return
    for name in packs:
        if KEY.fullmatch(name) and name not in stored | named:
            yield "packs", store.root / "packs" / name, "checkpoints of a cell that no study names"
    for key in sorted(key for key in stored - named if not _is_imported(store, key)):  # no run could make those again
        yield "records", store.root / "objects" / key, "no study names this cell"


def _results(store: Store, version: str, result: Garbage) -> Iterator[tuple[str, Path, str]]:
    """Kept results that no command will read again; none if a manifest or a record cannot be read."""
    kept = [measure.inputs for measure in store.measures() if measure.kind == KEPT] if version else []
    try:
        contents = {content_of(store, store.manifest(study)) for study in store.manifests()} if kept else set()
    except StoreError as problem:
        result.unreadable.append(str(problem))
        return
    for inputs in kept:
        path = store.root / "measures" / key_of({"kind": KEPT, "inputs": inputs})
        if inputs["version"] != version:
            yield "results", path, "of another version of the analysis, and computed again where it is asked for"
        elif inputs["content"] not in contents:
            yield "results", path, "of a study as it was before, or of none"


def _is_imported(store: Store, key: str) -> bool:
    try:
        return is_imported(store.get(key).spec)
    except StoreError:
        return False


def _studied_keys(store: Store, result: Garbage) -> set[str] | None:
    """Keys that studies name; None if a manifest cannot be read."""
    named: set[str] = set()
    for study in store.manifests():
        try:
            named |= named_keys(store, study)
        except StoreError as problem:
            result.unreadable.append(str(problem))
    return None if result.unreadable else named


def _now(store: Store) -> float:
    with store.staging() as folder, disk.writing(store.root):
        disk.write(folder / "clock", b"")
        return (folder / "clock").stat().st_mtime


def _size_and_change(path: Path) -> tuple[int, float | None]:
    """Bytes in it, and when anything in it last changed; None if it is gone."""
    size, changed = 0, None
    for part in (path, *(Path(entry.path) for entry in disk.walk(str(path)))):
        with suppress(FileNotFoundError):
            status = part.lstat()
            size += 0 if stat.S_ISDIR(status.st_mode) else status.st_size
            changed = max(changed or 0.0, status.st_mtime, status.st_ctime)  # a copy may keep the times of its origin
    return size, changed
