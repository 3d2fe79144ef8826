"""A study in one file: a packed tar with a list of what is in it first, the same bytes for the same content.

``.tar.gz`` is quick; ``.tar.xz`` finds what members share however far apart they lie, such as the ids of a target's
rows in each of its records, and is a third of the size without weights.
"""

import gzip
import hashlib
import io
import json
import lzma
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, NamedTuple, cast

from adapters_store.disk import atomic
from adapters_store.key import StoreError, key_of, plain_data
from adapters_store.listing import keys_of
from adapters_store.record import MARKER, Record, check_file_name, seal
from adapters_store.store import MEASURE, Measure, Store, without_weights

LIST = "archive.json"
FORMAT = "empathy-transfer study"
SCHEMA = 1  # of the list
STORED = ("measures", "objects")  # folders of a store
KINDS = (*STORED, "studies")
BESIDE = ("registry", "report")  # folders about a study that no store takes; nor does it take files without a folder
GZIPPED, XZ = (".tar.gz", ".tgz"), ".tar.xz"  # what an archive's name ends with
XZ_MAGIC = b"\xfd7zXZ\x00"
XZ_BITE_BYTES = 1 << 16
MOST_XZ_MEMORY = 64 << 20  # bytes that unpacking may take; ours takes 9 MiB
HIDDEN = ".zenodo.json"  # the only name with a dot in front: where those who deposit an archive look for its metadata


class Member(NamedTuple):
    """One file of an archive: its name in it, sha256, size in bytes, and its content or the path of it."""

    name: str
    sha256: str
    size: int
    content: bytes | Path


@dataclass(frozen=True)
class ArchiveSummary:
    """What went into an archive: numbers of records, measures and other files, and keys of cells without a record."""

    records: int
    measures: int
    beside: int
    missing: tuple[str, ...]


def archive(
    store: Store,
    study: str,
    measures: Iterable[tuple[str, Mapping[str, Any]]],
    file: Path,
    *,
    is_light: bool = False,
    extras: Mapping[str, bytes] = MappingProxyType({}),
) -> ArchiveSummary:
    """Write a study's manifest, its cells' records and those of the ``measures`` (kind, inputs) that are stored.

    ``is_light`` leaves out what ``without_weights`` does; a ``file`` that ends with .tar.xz is packed so, any other as
    .tar.gz; ``extras`` are files about the study, by name, which no store takes. Every file is compared with its
    checksum first: CorruptRecord names one that differs. StoreError if ``file`` exists or cannot be written; nothing is
    left there then.
    """
    if file.exists():
        raise StoreError(f"{file} exists and is not overwritten; move it away, or give another name")
    manifest = plain_data(store.manifest(study), f"study {study}")
    keys = keys_of(manifest, f"study {study}")
    stored = [key for key in keys if key in store]
    records = [without_weights(record) if is_light else record for record in map(store.get, stored)]
    measured = [
        _member(f"measures/{key}/{MEASURE}", seal(vars(measure))) for key, measure in stored_measures(store, measures)
    ]
    members = [_member(f"studies/{study}.json", json.dumps(manifest, indent=1, ensure_ascii=False).encode() + b"\n")]
    members += [member for record in records for member in _of_record(store, record)] + measured
    members += [_member(check_beside(name), content) for name, content in extras.items()]
    members.sort(key=lambda member: member.name)
    # the archive's list of what is in it, which is its first member
    head = {"format": FORMAT, "schema": SCHEMA, "study": study, "is_light": is_light}
    listed = {member.name: {"sha256": member.sha256, "bytes": member.size} for member in members}
    _write(file, [_member(LIST, json.dumps({**head, "members": listed}, indent=1).encode() + b"\n"), *members])
    return ArchiveSummary(len(stored), len(measured), len(extras), tuple(key for key in keys if key not in store))


def _member(name: str, content: bytes) -> Member:
    return Member(name, hashlib.sha256(content).hexdigest(), len(content), content)


def check_beside(name: str) -> str:
    """The name itself; StoreError unless a file about a study may have it in an archive."""
    folder, slash, _ = name.partition("/")
    if name == LIST or (slash and folder not in BESIDE):
        raise StoreError("it is neither a store's nor about a study")
    return name if name == HIDDEN else check_file_name(name)


def _of_record(store: Store, record: Record) -> Iterator[Member]:
    folder = f"objects/{record.key}"
    yield _member(f"{folder}/{MARKER}", record.to_json())
    for name, stamp in record.files.items():
        yield Member(f"{folder}/{name}", stamp.sha256, stamp.bytes, store.open(record.key, name))


def stored_measures(store: Store, measures: Iterable[tuple[str, Mapping[str, Any]]]) -> Iterator[tuple[str, Measure]]:
    """Those of the measures (kind, inputs) that the store has, each once, with their keys; the others are left out."""
    wanted = {key_of({"kind": kind, "inputs": inputs}): (kind, inputs) for kind, inputs in measures}
    for key, (kind, inputs) in wanted.items():
        if measure := store.find_measure(kind, inputs):
            yield key, measure


def _write(file: Path, members: Iterable[Member]) -> None:
    """Write the archive in one step; StoreError if it cannot be written."""
    try:
        # names, sizes and contents alone: no clock, no owner, no name of a person or machine
        with (
            atomic(file) as part,
            part.open("wb") as raw,
            _packer(raw, is_xz=file.name.endswith(XZ)) as packed,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar,
        ):
            for member in members:
                info = tarfile.TarInfo(member.name)
                info.size = member.size
                content = member.content
                with io.BytesIO(content) if isinstance(content, bytes) else content.open("rb") as source:
                    tar.addfile(info, source)
    except ValueError as error:  # tarfile refuses names and sizes that the format cannot hold
        raise StoreError(f"{file}: cannot be written ({error}); mend this, or give another place") from error


def _packer(raw: IO[bytes], *, is_xz: bool) -> AbstractContextManager[IO[bytes]]:
    """What packs into an open file, with the same settings on every machine."""
    if is_xz:
        packer: object = lzma.LZMAFile(raw, "wb", format=lzma.FORMAT_XZ, check=lzma.CHECK_CRC32, preset=6)
    else:
        packer = gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=raw, mtime=0)
    return cast("AbstractContextManager[IO[bytes]]", packer)


class XzReader:
    """The bytes of an .xz file in pieces no longer than is asked for, with bounded memory whatever its header claims.

    LZMAFile sets no bound.
    """

    def __init__(self, raw: IO[bytes]) -> None:
        """Read from an open file, from where it stands."""
        self.raw = raw
        self.unpacker = lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=MOST_XZ_MEMORY)

    def read(self, size: int) -> bytes:
        """The next ``size`` bytes, fewer at the end alone; EOFError if it is cut off, LZMAError if it is broken."""
        chunks = []
        while size and not self.unpacker.eof:
            packed = self.raw.read(XZ_BITE_BYTES) if self.unpacker.needs_input else b""
            if self.unpacker.needs_input and not packed:
                raise EOFError("the .xz stream is cut off")
            chunks.append(self.unpacker.decompress(packed, max_length=size))
            size -= len(chunks[-1])
        return b"".join(chunks)


@contextmanager
def unpacking(raw: IO[bytes]) -> Iterator[IO[bytes]]:
    """The unpacked bytes of an open archive, which of the two packings its first bytes say."""
    is_xz = raw.read(len(XZ_MAGIC)) == XZ_MAGIC
    raw.seek(0)
    if is_xz:
        yield cast("IO[bytes]", XzReader(raw))
    else:
        with gzip.GzipFile(fileobj=raw, mode="rb") as source:
            yield cast("IO[bytes]", source)
