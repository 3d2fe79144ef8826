"""An archive back into a store: first all of it is checked, then whole records go in one by one, none over another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from adapters_store import disk
from adapters_store.alias import Alias
from adapters_store.archive import keys_of
from adapters_store.errors import CorruptRecord, MissingRecord, StoreError
from adapters_store.key import key_of, plain
from adapters_store.record import MARKER, Record, StoredFile
from adapters_store.sealed import unseal
from adapters_store.store import Measure, Store
from adapters_store.unpacked import BadArchive, Listing, Piece, json_object, opened
from adapters_store.weights import left_out

DATES = ("created", "declared")  # fields of a manifest that say when, not what


@dataclass
class Restored:
    """What a restore did: records and measures that came in, those that were there before, and how these differ.

    ``lacking`` counts records that stay without the weights that the archive has for them.
    """

    study: str
    is_light: bool
    new: int = 0
    kept: int = 0
    lacking: int = 0
    differing: dict[str, list[str]] = field(default_factory=dict)

    def keep(self, what: str, kept: Mapping[str, Any], given: Mapping[str, Any]) -> None:
        """Count something that was there, and note the fields in which it differs from what the archive has."""
        self.kept += 1
        if fields := [name for name in sorted({*kept, *given}) if kept.get(name) != given.get(name)]:
            self.differing[what] = fields


def drained(piece: Piece) -> None:
    """Read a member to its end, for its checksum alone."""
    for _ in piece.chunks():
        pass


def restore(file: Path, store: Store, beside: Callable[[Piece], None] = drained) -> Restored:
    """Put what ``archive`` wrote into a store; BadArchive before anything is written if any of it is in doubt.

    ``beside`` is to read what is about the study and goes into no store. What the store has stays as it is and is
    compared. A restore that is interrupted leaves whole records only, without the study's manifest, and can be
    repeated. StoreError if the store has another study of this name.
    """
    listing, manifest = _checked(file, beside)
    _refuse_another_study(store, listing.study, manifest)
    done, aliases = Restored(listing.study, listing.is_light), []
    with opened(file) as (_, pieces):
        for (kind, name), group in groupby(pieces, _owner):
            if kind == "objects" and f"objects/{name}/{MARKER}" not in listing.members:
                aliases += [_alias(piece, name) for piece in group]
            elif kind == "objects":
                _restore_record(store, name, group, done)
            elif kind == "measures":
                _restore_measure(store, name, group, done)
    for alias in aliases:  # after what they stand for
        store.put_alias(alias)
    if listing.study not in store.manifests():
        store.write_manifest(listing.study, manifest)
    return done


def _owner(piece: Piece) -> tuple[str, str]:
    """The kind and name of what a member belongs to."""
    kind, _, rest = piece.name.partition("/")
    return kind, rest.partition("/")[0]


def _checked(file: Path, beside: Callable[[Piece], None]) -> tuple[Listing, dict[str, Any]]:
    """The list and the manifest of an archive in which every byte is what its list and its records say."""
    keys: set[str] = set()
    aliases: dict[str, str] = {}
    manifest: dict[str, Any] = {}
    with opened(file) as (listing, pieces), _refusing():
        files = _files_by_record(listing)
        for piece in pieces:
            kind, name = _owner(piece)
            if kind == "studies":
                manifest = plain(json_object(piece.json_bytes(), "its manifest"), "its manifest")
            elif kind == "measures":
                _measure(piece, name)
            elif kind == "objects" and f"objects/{name}/{MARKER}" not in listing.members:
                aliases[name] = _alias(piece, name).of
            elif piece.name == f"objects/{name}/{MARKER}":
                keys.add(name)
                if _record(piece, name).files != files[name]:
                    raise BadArchive(f"record {name} and the list name different files")
            else:
                (drained if kind == "objects" else beside)(piece)
        named = set(keys_of(manifest, "the archive"))
        named |= {of for key, of in aliases.items() if key in named}
        if manifest.get("name") != listing.study or not keys <= named or not set(aliases.values()) <= keys:
            raise BadArchive("its manifest is not that of its study and cells")
    return listing, manifest


@contextmanager
def _refusing() -> Iterator[None]:
    """Make every StoreError about what an archive holds one about the archive."""
    try:
        yield
    except CorruptRecord as problem:
        raise BadArchive(str(problem).partition(";")[0]) from None  # what to do with a store's own files follows there
    except BadArchive:
        raise
    except StoreError as problem:
        raise BadArchive(str(problem)) from None


def _files_by_record(listing: Listing) -> dict[str, dict[str, StoredFile]]:
    found: dict[str, dict[str, StoredFile]] = {}
    for name, stamp in listing.members.items():
        kind, _, rest = name.partition("/")
        key, _, inner = rest.partition("/")
        if kind == "objects" and f"objects/{key}/{MARKER}" in listing.members:
            found.setdefault(key, {}).update({} if inner == MARKER else {inner: stamp})
    return found


def _record(piece: Piece, key: str) -> Record:
    record = Record.from_json(piece.json_bytes(), Path(piece.name))
    if record.key != key:
        raise BadArchive(f"member {piece.name!r} is not the record of its key")
    left_out(record)
    return record


def _alias(piece: Piece, key: str) -> Alias:
    alias = Alias.from_json(piece.json_bytes(), Path(piece.name))
    if alias.key != key:
        raise BadArchive(f"member {piece.name!r} is not the alias of its key")
    return alias


def _measure(piece: Piece, key: str) -> Measure:
    try:
        measure = Measure(**unseal(piece.json_bytes(), Path(piece.name)))
    except TypeError:
        raise BadArchive(f"member {piece.name!r} is not a measure") from None
    is_one = isinstance(measure.kind, str) and isinstance(measure.inputs, dict) and isinstance(measure.result, dict)
    if not is_one or key_of({"kind": measure.kind, "inputs": measure.inputs}) != key:
        raise BadArchive(f"member {piece.name!r} is not the measure of its key")
    return measure


def _refuse_another_study(store: Store, name: str, manifest: Mapping[str, Any]) -> None:
    if name not in store.manifests():
        return
    mine, theirs = ({k: v for k, v in one.items() if k not in DATES} for one in (store.manifest(name), manifest))
    if mine != theirs:
        raise StoreError(
            f"store {store.root} has another study {name!r}; nothing was restored: give a store of its own with --store"
        )


def _restore_record(store: Store, key: str, pieces: Iterable[Piece], done: Restored) -> None:
    if key in store:
        record = next(_record(piece, key) for piece in pieces if piece.name.endswith(f"/{key}/{MARKER}"))
        kept = store.get(key)
        done.lacking += bool(left_out(kept)) and not left_out(record)
        done.keep(f"record {key}", {**kept.results, **_stamps(kept)}, {**record.results, **_stamps(record)})
        return
    with store.staging() as folder:
        for piece in pieces:
            name = piece.name.removeprefix(f"objects/{key}/")
            if name == MARKER:
                record = _record(piece, key)
            else:
                _write(store, folder / name, piece)
        store.put(key, record.spec, record.results, record.provenance, folder)
    done.new += 1


def _write(store: Store, path: Path, piece: Piece) -> None:
    with disk.writing(store.root):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as file:
            for chunk in piece.chunks():
                file.write(chunk)


def _restore_measure(store: Store, key: str, pieces: Iterable[Piece], done: Restored) -> None:
    measure = next(_measure(piece, key) for piece in pieces)
    try:
        kept = store.measure(measure.kind, measure.inputs)
    except MissingRecord:
        store.put_measure(measure.kind, measure.inputs, measure.result, measure.cost_seconds)
        done.new += 1
    else:
        done.keep(f"{measure.kind} measure {key}", kept.result, measure.result)


def _stamps(record: Record) -> dict[str, str]:
    """The hashes of a record's files, of those too that were left out."""
    return {f"file {name}": stamp.sha256 for name, stamp in {**record.files, **left_out(record)}.items()}
