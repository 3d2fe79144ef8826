"""A file out of an untrusted zip or tar archive: every entry is checked before any is read."""

import bz2
import gzip
import lzma
import os
import stat
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple

from tasks.errors import BadInput
from tasks.readers.streams import ByteStream

MOST_ENTRIES = 10_000
MOST_BYTES = 2_000_000_000  # all entries of an archive together, unpacked
MOST_RATIO = 100  # unpacked to packed; text packs to a tenth at best
RATIO_COUNTS_FROM = 1_000_000  # unpacked bytes; fewer do no harm at any ratio
CHUNK = 1 << 20
COMPRESSIONS: Mapping[bytes, type[gzip.GzipFile] | type[bz2.BZ2File] | type[lzma.LZMAFile]] = {
    b"\x1f\x8b": gzip.GzipFile,
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ\x00": lzma.LZMAFile,
}
BROKEN = (zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, UnicodeError, NotImplementedError)


class BadDownload(BadInput):
    """An archive is broken, is unsafe, or lacks the file."""


class Entry(NamedTuple):
    """A member of an archive by its header; ``size`` in bytes, unpacked. A regular member is a file or a folder."""

    name: str
    size: int
    is_regular: bool


def unpack_member(archive: Path, member: str, target: Path) -> None:
    """Write the file ``member`` of a zip or tar archive to ``target``; BadArchive if anything in it is unsafe."""
    try:
        if zipfile.is_zipfile(archive):
            _unpack_zip(archive, member, target)
        else:
            _unpack_tar(archive, member, target)
    except (*BROKEN, OSError) as problem:
        if isinstance(problem, OSError) and problem.errno is not None:  # the disk's fault, not the archive's
            raise
        raise BadDownload(f"{archive.name}: not a readable zip or tar archive ({type(problem).__name__})") from None


def _unpack_zip(archive: Path, member: str, target: Path) -> None:
    with zipfile.ZipFile(archive) as members:
        infos = members.infolist()
        entries = []
        for info in infos:
            kind = stat.S_IFMT(info.external_attr >> 16)  # 0 where the archive was not made on Unix
            entries.append(Entry(info.filename, info.file_size, kind in (0, stat.S_IFREG, stat.S_IFDIR)))
        _check(entries, member, archive)
        info = next(info for info in infos if info.filename == member)
        if info.flag_bits & 1:
            raise BadDownload(f"{archive.name}: member {member!r} is encrypted; unpack it by hand")
        with members.open(info) as source, target.open("wb") as sink:
            _copy(source, sink, info.file_size, archive)


def _unpack_tar(archive: Path, member: str, target: Path) -> None:
    """Decompress first, up to the limits, and read the tar then: its headers could be a bomb, too."""
    with tempfile.TemporaryFile(dir=archive.parent) as tar:
        with archive.open("rb") as packed:
            start = packed.read(6)
        decompressor = next((kind for magic, kind in COMPRESSIONS.items() if start.startswith(magic)), None)
        with decompressor(archive, "rb") if decompressor else archive.open("rb") as source:
            _copy(source, tar, _largest(archive), archive)
        tar.seek(0)
        with tarfile.open(fileobj=tar, mode="r:") as members:
            infos, entries = [], []
            for info in members:
                infos.append(info)
                is_regular = (info.isreg() or info.isdir()) and not info.issparse()
                entries.append(Entry(info.name, info.size, is_regular))
                _check_count(len(infos), archive)
            _check(entries, member, archive)
            file = members.extractfile(next(info for info in infos if info.name == member))
            if file is None:
                raise BadDownload(f"{archive.name}: {member!r} is a folder, not a file; correct `archive_member`")
            with file as source, target.open("wb") as sink:
                _copy(source, sink, _largest(archive), archive)


def _check(entries: Sequence[Entry], member: str, archive: Path) -> None:
    """BadArchive unless all entries are files or folders inside, small enough together, and one is ``member``."""
    _check_count(len(entries), archive)
    for entry in entries:
        path = PurePosixPath(entry.name.replace("\\", "/"))
        has_drive = bool(path.parts) and ":" in path.parts[0]
        if path.is_absolute() or ".." in path.parts or has_drive or "\0" in entry.name:
            raise BadDownload(f"{archive.name}: member {entry.name[:80]!r} lies outside its folder; archive refused")
        if not entry.is_regular:
            raise BadDownload(f"{archive.name}: member {entry.name[:80]!r} is a link or device; archive refused")
    if sum(entry.size for entry in entries) > _largest(archive):
        raise BadDownload(f"{archive.name}: unpacks to more than {_largest(archive):,} bytes; archive refused")
    if (count := sum(entry.name == member for entry in entries)) != 1:
        raise BadDownload(f"{archive.name}: {count or 'no'} members are named {member!r}; correct `archive_member`")


def _check_count(count: int, archive: Path) -> None:
    if count > MOST_ENTRIES:
        raise BadDownload(f"{archive.name}: more than {MOST_ENTRIES:,} members; archive refused")


def _largest(archive: Path) -> int:
    """The most bytes that an archive of this size may unpack to."""
    return min(MOST_BYTES, max(RATIO_COUNTS_FROM, MOST_RATIO * archive.stat().st_size))


def _copy(source: ByteStream, sink: IO[bytes], most: int, archive: Path) -> None:
    """Copy all of ``source``; BadArchive as soon as it gives more than ``most`` bytes."""
    size = 0
    while chunk := source.read(CHUNK):
        size += len(chunk)
        if size > most:
            raise BadDownload(f"{archive.name}: unpacks to more than {most:,} bytes; archive refused")
        sink.write(chunk)
    sink.flush()
    os.fsync(sink.fileno())
