"""An archive back into a store.

An archive may come from anywhere. ``open_archive`` reads it forwards and in small pieces, limits whatever a header may
claim, and compares every member with the archive's own list. ``restore`` reads it twice: first all of it is checked,
then whole records go in one by one, none over another, and the study's manifest last; ``unpack`` does so into a folder
of its own, and can name every member whose bytes are not those listed instead of refusing the first.
"""

import hashlib
import json
import lzma
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import IO, Any, NamedTuple

from adapters_store import disk
from adapters_store.archive import FORMAT, KINDS, LIST, SCHEMA, STORED, check_beside, unpacking
from adapters_store.key import CorruptRecord, StoreError, plain_data
from adapters_store.listing import DATES, keys_of
from adapters_store.measures import KEPT
from adapters_store.record import MARKER, Record, StoredFile, check_file_name, check_key, check_name
from adapters_store.store import (
    MEASURE,
    STUDY_NAME,
    Measure,
    Store,
    differing,
    left_out,
    measure_in,
    original_files,
    record_in,
)

BITE_BYTES = 1 << 20  # of one read; a header that claims to be longer is no archive of ours
MOST_JSON_BYTES = 64 << 20  # of the list, a record, a measure or the manifest
MOST_MEMBERS = 200_000
MOST_NAME = 255  # characters, all of them ASCII
MOST_RATIO = 100  # unpacked to packed; weights hardly pack, JSON to a tenth or a twentieth
RATIO_COUNTS_FROM = 64 << 20  # unpacked bytes; less does no harm at any ratio
BROKEN = (tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, ValueError, OverflowError, RecursionError)

# Reading: every function here raises BadArchive as soon as the archive is in doubt.


class BadArchive(StoreError):
    """An archive is broken, or holds what no archive of a study needs; nothing of it is in the store."""


class NotAsListed(BadArchive):
    """What a readable archive holds is not what its own list and records say."""


class Altered(NotAsListed):
    """The bytes of a member are not those that the list has the checksum of."""


@dataclass(frozen=True)
class Listing:
    """What an archive says that it holds: sha256 and size of every member by name, in order."""

    study: str
    is_light: bool
    members: Mapping[str, StoredFile]


class MemberReader(NamedTuple):
    """One member when it is its turn: its name, what the list says of it, and its content, to be read at once."""

    name: str
    stamp: StoredFile
    content: IO[bytes]

    def chunks(self) -> Iterator[bytes]:
        """The content piece by piece; BadArchive at its end unless it is what the list says."""
        digest = hashlib.sha256()
        while chunk := self.content.read(BITE_BYTES):
            digest.update(chunk)
            yield chunk
        if (actual := digest.hexdigest()) != self.stamp.sha256:
            raise Altered(f"{self.name}: its list says sha256 {self.stamp.sha256}, its bytes have sha256 {actual}")

    def json_bytes(self) -> bytes:
        """The whole content of a member that is small; BadArchive if it is large."""
        if self.stamp.bytes > MOST_JSON_BYTES:
            raise BadArchive(f"member {self.name!r} has more than {MOST_JSON_BYTES:,} bytes")
        return b"".join(self.chunks())


class _ForwardReader:
    """The unpacked bytes of an archive for tarfile, which would read as much as a header claims, and seek backwards."""

    def __init__(self, source: IO[bytes], limit: int) -> None:
        """Read ``source`` up to ``limit`` bytes."""
        self.source, self.limit, self.position = source, limit, 0

    def read(self, size: int = -1) -> bytes:
        """At most ``size`` bytes."""
        if not 0 <= size <= BITE_BYTES:
            raise BadArchive("one of its headers is too long")
        chunk = self.source.read(size)
        self.position += len(chunk)
        if self.position > self.limit:
            raise BadArchive(f"unpacks to more than {self.limit:,} bytes")
        return chunk

    def seek(self, position: int) -> int:
        """Read on to a position, in bytes from the start."""
        if position < self.position:
            raise BadArchive("its headers lead backwards")
        while self.position < position and self.read(min(BITE_BYTES, position - self.position)):
            pass
        return self.position

    def tell(self) -> int:
        """The position of the next byte."""
        return self.position


@contextmanager
def open_archive(file: Path) -> Iterator[tuple[Listing, Iterator[MemberReader]]]:
    """The list of an archive, and its members one after the other; BadArchive, naming the file, at the first doubt."""
    try:
        with file.open("rb") as packed, unpacking(packed) as source:
            limit = max(RATIO_COUNTS_FROM, MOST_RATIO * file.stat().st_size)
            tar = tarfile.TarFile(fileobj=_ForwardReader(source, limit), mode="r")  # type: ignore[arg-type]
            listing = _listing(tar)
            yield listing, _members(tar, listing)
    except BadArchive as problem:
        raise type(problem)(f"{file}: {problem}; archive refused") from None
    except BROKEN as problem:
        raise BadArchive(f"{file}: not a readable archive of a study ({type(problem).__name__})") from None
    except OSError as problem:
        if problem.errno is None:  # gzip's own complaint, not the operating system's
            raise BadArchive(f"{file}: not a readable archive of a study ({problem})") from None
        raise StoreError(f"{file}: cannot be read ({problem.strerror}); check its name and permissions") from None


def _members(tar: tarfile.TarFile, listing: Listing) -> Iterator[MemberReader]:
    """Every member in the list's order."""
    for name, stamp in listing.members.items():
        yield MemberReader(name, stamp, _next(tar, name, stamp.bytes))
    if tar.next() is not None:
        raise NotAsListed("it holds more than its list says")


def _next(tar: tarfile.TarFile, name: str, size: int | None) -> IO[bytes]:
    """The content of the next member; BadArchive unless it is a plain file of this name and size."""
    info = tar.next()
    if info is None or info.name != name:
        kind = BadArchive if name == LIST else NotAsListed
        raise kind(f"where {name!r} is due stands {info.name[:80]!r}" if info else f"{name!r} is missing")
    content = tar.extractfile(info) if info.type == tarfile.REGTYPE and not info.issparse() else None
    if content is None:
        raise BadArchive(f"member {name!r} is a link, a folder or a device")
    if size is not None and info.size != size:
        raise NotAsListed(f"member {name!r} has {info.size:,} bytes, its list says {size:,}")
    if size is None and info.size > MOST_JSON_BYTES:
        raise BadArchive(f"its list has more than {MOST_JSON_BYTES:,} bytes")
    return content


def _listing(tar: tarfile.TarFile) -> Listing:
    with _next(tar, LIST, None) as content:
        raw = b"".join(iter(lambda: content.read(BITE_BYTES), b""))
    try:
        head = json.loads(raw.decode())
        if (head["format"], head["schema"]) != (FORMAT, SCHEMA):
            raise BadArchive(f"its list is of format {head['format']!r:.80}, schema {head['schema']!r:.80}")
        members = {name: StoredFile(**stamp) for name, stamp in head["members"].items()}
        listing = Listing(check_name(head["study"], "study", STUDY_NAME), head["is_light"] is True, members)
    except BadArchive:
        raise
    except (KeyError, TypeError, AttributeError, StoreError) as problem:
        raise BadArchive(f"its list cannot be used ({type(problem).__name__}: {problem})") from None
    _check_names(listing)
    return listing


def _check_names(listing: Listing) -> None:
    names = list(listing.members)
    if len(names) > MOST_MEMBERS:
        raise BadArchive(f"it has more than {MOST_MEMBERS:,} members")
    if names != sorted(names):
        raise BadArchive("its list is not in order")
    if f"studies/{listing.study}.json" not in listing.members:
        raise BadArchive(f"it lacks the manifest of its study {listing.study!r}")
    folders = {name[: end + 1] for name in names for end, letter in enumerate(name) if letter == "/"}
    for name in names:
        if f"{name}/" in folders:
            raise BadArchive(f"member {name[:80]!r} is both a file and a folder")
        _check_name(name, listing)


def _check_name(name: str, listing: Listing) -> None:
    """BadArchive unless the name is that of the manifest, a measure, a file of a listed record, or one beside these."""
    kind, key, inner = _parts(name)
    try:
        if len(name) > MOST_NAME:
            raise BadArchive("its name is too long")
        if name == f"studies/{listing.study}.json" or (kind == "measures" and check_key(key) and inner == MEASURE):
            return
        if kind not in KINDS and check_beside(name):
            return
        if kind != "objects" or f"objects/{check_key(key)}/{MARKER}" not in listing.members:
            raise BadArchive("it belongs to no record")
        if inner != MARKER:
            check_file_name(inner)
    except StoreError as problem:
        raise BadArchive(f"member {name[:80]!r} has no place in a store ({problem})") from None


# Restoring: once through the archive to check it, once more to store what it holds.


@dataclass
class Restoration:
    """What a restore did: records and measures that came in, those that were there before, and how these differ.

    ``lacking`` counts records that stay without the weights that the archive has for them.
    """

    study: str
    is_light: bool
    new: int = 0
    kept: int = 0
    lacking: int = 0
    differing: dict[str, list[str]] = field(default_factory=dict)

    def keep(self, name: str, kept: Mapping[str, Any], archived: Mapping[str, Any]) -> None:
        """Count something that was there, and note the fields in which it differs from what the archive has."""
        self.kept += 1
        if fields := differing(kept, archived):
            self.differing[name] = fields


def drain(member: MemberReader) -> None:
    """Read a member to its end, for its checksum alone."""
    for _ in member.chunks():
        pass


def restore(file: Path, store: Store) -> Restoration:
    """Put what ``archive`` wrote into a store; BadArchive before anything is written if any of it is in doubt.

    What the store has stays as it is and is compared, its manifest too: other seeds of the study lie beside its own,
    until a run of all seeds writes a manifest of all. A restore that is interrupted leaves whole records only, without
    the study's manifest, and can be repeated. StoreError if the store has another study of this name.
    """
    listing, manifest = _check(file)
    if listing.study in store.manifests():
        if _without_seeds(store.manifest(listing.study)) != _without_seeds(manifest):
            raise StoreError(
                f"store {store.root} has another study {listing.study!r}; nothing was restored: give a store of its "
                "own with --store"
            )
    done = Restoration(listing.study, listing.is_light)
    with open_archive(file) as (_, members):
        for (kind, key), group in groupby(members, lambda member: _parts(member.name)[:2]):
            if kind == "objects":
                _restore_record(store, key, group, done)
            elif kind == "measures":
                measure = _measure(next(group))
                if kept := store.find_measure(measure.kind, measure.inputs):
                    done.keep(f"{measure.kind} measure {key}", kept.result, measure.result)
                else:
                    store.put_measure(measure.kind, measure.inputs, measure.result, measure.cost_seconds)
                    done.new += 1
    if listing.study not in store.manifests():
        store.write_manifest(listing.study, manifest)
    return done


def _without_seeds(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """What two parts of a study have in common that were run for seeds and on machines of their own, at other times."""
    fields = {name: value for name, value in manifest["study"].items() if not name.endswith("seeds")}
    study = {name: value for name, value in fields.items() if name not in ("keep", "slurm", "ray", "registry")}
    parts = {name: part for name, part in manifest.items() if name not in (*DATES, "cells")}
    return parts | {"study": study, "missing": sorted(manifest["missing"])}  # whose reasons name a machine's folders


def unpack(
    file: Path, root: Path, reader: Callable[[MemberReader], None] = drain, altered: dict[str, str] | None = None
) -> tuple[Listing, dict[str, Any]]:
    """Restore into a new folder that nobody reads yet, quickly: nothing waits for the disk, for it can be repeated.

    ``reader`` reads what is about the study and goes into no store. With ``altered``, members whose bytes are not those
    listed are put there, by name with a sentence, instead of refused; nothing is unpacked then either. Returns the list
    and the manifest, which is empty if it is altered.
    """
    listing, manifest = _check(file, altered)
    if altered:
        return listing, manifest
    store = Store(root)
    with open_archive(file) as (_, members):
        for member in members:
            kind, _, _ = _parts(member.name)
            if kind in STORED:
                _write(store, root / member.name, member)
            elif kind not in KINDS:
                reader(member)
    store.write_manifest(listing.study, manifest)
    return listing, manifest


def _parts(name: str) -> list[str]:
    """The kind and key of what a member belongs to, and its name in that, empty where it has none."""
    return [*name.split("/", 2), "", ""][:3]


def _check(file: Path, altered: dict[str, str] | None = None) -> tuple[Listing, dict[str, Any]]:
    """The list and the manifest of an archive in which every byte is what its list and its records say.

    A member of which this is wrong is put into ``altered``, if there is one, and what it holds is not looked at.
    """
    manifest: dict[str, Any] = {}
    with open_archive(file) as (listing, members):
        # the files of each record by its key, as the list has them; the record's own JSON is left out
        files: dict[str, dict[str, StoredFile]] = {}
        for name, stamp in listing.members.items():
            kind, key, inner = _parts(name)
            if kind == "objects" and f"objects/{key}/{MARKER}" in listing.members:
                files.setdefault(key, {}).update({} if inner == MARKER else {inner: stamp})
        try:
            for member in members:
                try:
                    manifest |= _check_member(member, files)
                except Altered as problem:
                    if altered is None:
                        raise
                    altered[member.name] = str(problem)
            if f"studies/{listing.study}.json" not in (altered or ()) and (
                manifest.get("name") != listing.study or not set(files) <= set(keys_of(manifest, "the archive"))
            ):
                raise NotAsListed("its manifest is not that of its study and cells")
        except BadArchive:
            raise
        except StoreError as problem:  # what to do with a store's own files follows after a semicolon
            reason = str(problem).partition(";")[0] if isinstance(problem, CorruptRecord) else str(problem)
            raise NotAsListed(reason) from None
    return listing, manifest


def _check_member(member: MemberReader, files: Mapping[str, Mapping[str, StoredFile]]) -> dict[str, Any]:
    """Read a member to its end, and what it holds if that is a record, a measure or the manifest; what the last says.

    ``files`` are those that the list has of each record.
    """
    kind, key, inner = _parts(member.name)
    if kind == "studies":
        try:
            content = json.loads(member.json_bytes().decode())
        except (ValueError, RecursionError):
            content = None
        if not isinstance(content, dict):
            raise NotAsListed("its manifest is not a JSON object")
        manifest: dict[str, Any] = plain_data(content, "its manifest")
        return manifest
    if kind == "measures":
        _measure(member)
    elif (kind, inner) == ("objects", MARKER):
        if _record(member).files != files[key]:
            raise NotAsListed(f"record {key} and the list name different files")
    else:
        drain(member)
    return {}


def _record(member: MemberReader) -> Record:
    record = record_in(member.json_bytes(), Path(member.name))
    original_files(record)  # StoreError if its note of them is malformed
    return record


def _measure(member: MemberReader) -> Measure:
    measure = measure_in(member.json_bytes(), Path(member.name))
    if measure.kind == KEPT:  # it would be believed in place of what the records say
        raise NotAsListed(f"member {member.name!r} is a kept result of an analysis, which no archive carries")
    return measure


def _restore_record(store: Store, key: str, members: Iterable[MemberReader], done: Restoration) -> None:
    if key in store:
        record = next(_record(member) for member in members if member.name.endswith(f"/{key}/{MARKER}"))
        kept = store.get(key)
        done.lacking += bool(left_out(kept)) and not left_out(record)
        done.keep(f"record {key}", {**kept.results, **_stamps(kept)}, {**record.results, **_stamps(record)})
        return
    with store.staging() as folder:
        for member in members:
            _, _, name = _parts(member.name)
            if name == MARKER:
                record = _record(member)
            else:
                _write(store, folder / name, member)
        store.put(key, record.spec, record.results, record.provenance, folder)
    done.new += 1


def _write(store: Store, path: Path, member: MemberReader) -> None:
    with disk.writing(store.root):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as file:
            for chunk in member.chunks():
                file.write(chunk)


def _stamps(record: Record) -> dict[str, str]:
    """The hashes of a record's files as they were first, of those too that were left out or rewritten."""
    return {f"file {name}": stamp.sha256 for name, stamp in original_files(record).items()}
