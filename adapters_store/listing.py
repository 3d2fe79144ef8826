"""What a store holds: counted, compared byte for byte with what was written, and what it can do without.

Counting walks through the folders and checks nothing; no index is kept. Leftovers are listed first, removed only on
request, and never while they are young. Ages are measured by the file system's own clock, read from a file that is
written for the purpose: the clocks of the hosts that share a store may differ, and jump.
"""

import hashlib
import json
import os
import shutil
import stat
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from adapters_store import disk
from adapters_store.key import CorruptRecord, MissingRecord, StoreError, key_of
from adapters_store.measures import KEPT
from adapters_store.record import KEY, MARKER, Record, check_key, imports_of, is_imported, read_signed
from adapters_store.store import ASIDE, MEASURE, WEIGHTS_ENDING, Store, check_file, left_out, stored_measure

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
    """Keys of the cells and imports that a study's manifest names; CorruptRecord if it names none."""
    return set(keys_of(store.manifest(study), f"{store.root / 'studies' / study}.json"))


def keys_of(manifest: Mapping[str, Any], where: str) -> list[str]:
    """The keys of a study's cells and imports, each once; CorruptRecord naming ``where`` if the manifest has none."""
    if (keys := keys_in(manifest)) is None:
        raise CorruptRecord(f"{where}: does not name its cells; run the study again to write it anew")
    return keys


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
    fields = {name: content for name, content in manifest.items() if name not in DATES}
    digest = hashlib.sha256(key_of(fields).encode())
    for key in keys_in(manifest) or ():
        if key in store:
            digest.update(b"record" + hashlib.sha256(store.content(key)).digest())
        else:
            digest.update(b"missing")
    return digest.hexdigest()


def _sizes(store: Store) -> dict[str, int]:
    """Bytes of every finished record by its key, record.json included; UNREADABLE where that cannot be read."""
    folder, sizes = str(store.root / "objects"), {}
    for key in filter(KEY.fullmatch, disk.names(folder)):
        try:  # by a record's own account, so that no file of it needs a look
            raw = disk.content(f"{folder}/{key}/{MARKER}")
            sizes[key] = len(raw) + sum(int(stamp["bytes"]) for stamp in json.loads(raw)["files"].values())
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            sizes[key] = UNREADABLE
    return sizes


def _records(kind: str, name: str, planned: int | None, sizes: Iterable[int]) -> Row:
    sizes = list(sizes)
    broken = sizes.count(UNREADABLE)
    note = f"{broken} cannot be read: store verify" if broken else ""
    return Row(kind, name, planned, len(sizes), sum(size for size in sizes if size != UNREADABLE), note)


def _folder(store: Store, kind: str, note: str = "") -> Row:
    folder, total = store.root / kind, 0
    for entry in disk.walk(str(folder)):
        with suppress(FileNotFoundError):  # another process has just removed it
            total += 0 if entry.is_dir(follow_symlinks=False) else entry.stat(follow_symlinks=False).st_size
    return Row(kind, "", None, len(disk.names(folder)), total, note)


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
    names = store.manifests()
    for name in names:
        try:
            keys = named_keys(store, name)
        except StoreError as problem:
            outcome.damaged.append(str(problem))
            continue
        outcome.manifests += 1
        outcome.missing[name] = sorted(key for key in keys if key not in store)
    outcome.unknown += _unknown(store.root / "studies", {f"{name}.json" for name in names})
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


def _unknown(folder: Path, names: set[str]) -> Iterator[str]:
    for entry in disk.walk(str(folder)):
        path = Path(entry.path)
        if not entry.is_dir(follow_symlinks=False) and path.relative_to(folder).as_posix() not in names:
            yield f"{path}: no record, measure or study names this file; move it away"


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
    named: set[str] = set()
    for study in store.manifests():
        try:
            named |= named_keys(store, study)
        except StoreError as problem:
            result.unreadable.append(str(problem))
    if result.unreadable:
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
