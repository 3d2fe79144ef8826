"""Reading an archive that nobody vouches for: forwards, in small pieces, each member against the archive's own list."""

from __future__ import annotations

import gzip
import hashlib
import json
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple

from adapters_store.archive import FORMAT, KINDS, LIST, SCHEMA, check_beside
from adapters_store.errors import StoreError
from adapters_store.record import ALIAS, MARKER, StoredFile, check_file_name, check_key, check_name
from adapters_store.store import MEASURE, STUDY_NAME

BITE_BYTES = 1 << 20  # of one read; a header that claims to be longer is no archive of ours
MOST_JSON_BYTES = 64 << 20  # of the list, a record, a measure or the manifest
MOST_MEMBERS = 200_000
MOST_NAME = 255  # characters, all of them ASCII
MOST_RATIO = 100  # unpacked to packed; weights hardly pack, JSON to a tenth or a twentieth
RATIO_COUNTS_FROM = 64 << 20  # unpacked bytes; less does no harm at any ratio
BROKEN = (tarfile.TarError, zlib.error, EOFError, ValueError, OverflowError, RecursionError)


class BadArchive(StoreError):
    """An archive is broken, or holds what no archive of a study needs; nothing of it is in the store."""


class NotAsListed(BadArchive):
    """A member of a readable archive is not what the archive's own list says of it."""


@dataclass(frozen=True)
class Listing:
    """What an archive says that it holds: sha256 and size of every member by name, in order."""

    study: str
    is_light: bool
    members: Mapping[str, StoredFile]


class Piece(NamedTuple):
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
        if digest.hexdigest() != self.stamp.sha256:
            raise NotAsListed(f"member {self.name!r} differs from its checksum")

    def json_bytes(self) -> bytes:
        """The whole content of a member that is small; BadArchive if it is large."""
        if self.stamp.bytes > MOST_JSON_BYTES:
            raise BadArchive(f"member {self.name!r} has more than {MOST_JSON_BYTES:,} bytes")
        return b"".join(self.chunks())


class _Forwards:
    """The unpacked bytes of a .tar.gz for tarfile, which would read as much as a header claims, and go back too."""

    def __init__(self, source: IO[bytes], most: int) -> None:
        """Read ``source`` up to ``most`` bytes."""
        self.source, self.most, self.place = source, most, 0

    def read(self, size: int = -1) -> bytes:
        """At most ``size`` bytes."""
        if not 0 <= size <= BITE_BYTES:
            raise BadArchive("one of its headers is too long")
        chunk = self.source.read(size)
        self.place += len(chunk)
        if self.place > self.most:
            raise BadArchive(f"unpacks to more than {self.most:,} bytes")
        return chunk

    def seek(self, place: int) -> int:
        """Read on to a place."""
        if place < self.place:
            raise BadArchive("its headers lead backwards")
        while self.place < place and self.read(min(BITE_BYTES, place - self.place)):
            pass
        return self.place

    def tell(self) -> int:
        """The place that the next byte has."""
        return self.place


@contextmanager
def opened(file: Path) -> Iterator[tuple[Listing, Iterator[Piece]]]:
    """The list of an archive, and its members one after the other; BadArchive, naming the file, at the first doubt."""
    try:
        with file.open("rb") as packed, gzip.GzipFile(fileobj=packed, mode="rb") as source:
            most = max(RATIO_COUNTS_FROM, MOST_RATIO * file.stat().st_size)
            tar = tarfile.TarFile(fileobj=_Forwards(source, most), mode="r")  # type: ignore[arg-type]
            listing = _listing(tar)
            yield listing, _pieces(tar, listing)
    except BadArchive as problem:
        raise type(problem)(f"{file}: {problem}; archive refused") from None
    except BROKEN as problem:
        raise BadArchive(f"{file}: not a readable archive of a study ({type(problem).__name__})") from None
    except OSError as problem:
        if problem.errno is None:  # what gzip finds
            raise BadArchive(f"{file}: not a readable archive of a study ({problem})") from None
        raise StoreError(f"{file}: cannot be read ({problem.strerror}); check its name and permissions") from None


def _pieces(tar: tarfile.TarFile, listing: Listing) -> Iterator[Piece]:
    """Every member in the list's order."""
    for name, stamp in listing.members.items():
        yield Piece(name, stamp, _next(tar, name, stamp.bytes))
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
        pieces = []
        while piece := content.read(BITE_BYTES):
            pieces.append(piece)
    try:
        head = json.loads(b"".join(pieces).decode())
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
    folders = {name[: place + 1] for name in names for place, one in enumerate(name) if one == "/"}
    for name in names:
        if f"{name}/" in folders:
            raise BadArchive(f"member {name[:80]!r} is both a file and a folder")
        _check_place(name, listing)


def _check_place(name: str, listing: Listing) -> None:
    """BadArchive unless the name is that of the manifest, a measure, a file of a listed record, or one beside these."""
    kind, _, rest = name.partition("/")
    key, _, inner = rest.partition("/")
    try:
        if len(name) > MOST_NAME:
            raise BadArchive("its name is too long")
        if name == f"studies/{listing.study}.json" or (kind == "measures" and check_key(key) and inner == MEASURE):
            return
        if kind not in KINDS and check_beside(name):
            return
        has_record = kind == "objects" and f"objects/{check_key(key)}/{MARKER}" in listing.members
        if kind == "objects" and inner == ALIAS and not has_record:
            return
        if not has_record:
            raise BadArchive("it belongs to no record")
        if inner != MARKER:
            check_file_name(inner)
    except StoreError as problem:
        raise BadArchive(f"member {name[:80]!r} has no place in a store ({problem})") from None


def json_object(raw: bytes, what: str) -> dict[str, Any]:
    """The JSON object in these bytes; BadArchive naming ``what`` if it is none."""
    try:
        found = json.loads(raw.decode())
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise BadArchive(f"{what} is not a JSON object")
    return found
