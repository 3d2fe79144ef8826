"""Files as streams of bytes or text, compressed ones too: nothing is unpacked onto the disk or beyond a limit."""

import codecs
import gzip
import io
import lzma
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Protocol, TextIO, TypeVar

from tasks.errors import BadEntry, BadRow

COMPRESSED = (".gz", ".xz", ".zip")
MOST_RATIO = 100  # unpacked to packed; text packs to a tenth, tables that repeat themselves to a fiftieth
RATIO_COUNTS_FROM = 1 << 24  # unpacked bytes; less does no harm at any ratio
MOST_MEMORY = 1 << 28  # bytes that an .xz may ask for: its strongest usual setting needs 2^26
CHUNK_BYTES = 1 << 20

T = TypeVar("T")


def unreadable(path: Path, error: OSError) -> BadRow:
    """The error for a file that the disk, the network or its permissions keep from being read."""
    return BadRow(f"{path}: cannot be read ({error.strerror or error}); check the file, its permissions and its disk")


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Within it, what keeps the file from being read is an error of ours."""
    try:
        yield
    except OSError as error:
        raise unreadable(path, error) from None


def inner_name(path: Path) -> str:
    """The name of the file without compression: of a zip archive that of its only member; BadRow if it has others."""
    ending = path.suffix.lower()
    if ending not in COMPRESSED:
        return path.name
    if ending != ".zip":
        return path.stem
    try:
        with _reading(path), zipfile.ZipFile(path) as archive:
            return PurePosixPath(_only_member(path, archive).filename).name
    except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        raise _damage_error(path, error) from None


def open_bytes(path: Path) -> BinaryIO:
    """The file's content, decompressed by its ending; BadRow from here or a read when it cannot be."""
    with _reading(path):
        file = path.open("rb")
        if path.suffix.lower() not in COMPRESSED:
            return file
        try:
            return io.BufferedReader(_UnpackedFile(path, file), CHUNK_BYTES)
        except (OSError, BadRow):
            file.close()
            raise


def read_text(path: Path, encoding: str, newline: str, parse: Callable[[TextIO], T]) -> T:
    """What ``parse`` makes of the open file, less its byte order mark; BadRow names the line that does not decode."""
    name = "utf-8-sig" if encoding.lower() in ("utf-8", "utf8") else encoding
    try:
        with _reading(path), _open_text(path, name, newline) as file:
            return parse(file)
    except UnicodeError:
        line = _undecodable_line(path, name)
    raise BadRow(f"{path}:{line}: not {encoding}; set the entry's `encoding` (cp1252 is a common one)")


def decodes(path: Path, encoding: str) -> bool:
    """Whether the whole file is text in this encoding; BadRow when it cannot be read."""
    try:
        with _reading(path), _open_text(path, encoding, "") as file:
            while file.read(CHUNK_BYTES):
                pass
    except UnicodeError:
        return False
    return True


def _open_text(path: Path, encoding: str, newline: str) -> TextIO:
    """The file's text; BadEntry for an encoding that is none."""
    file = open_bytes(path)
    try:
        codecs.lookup(encoding)
        return io.TextIOWrapper(file, encoding=encoding, newline=newline)
    except (LookupError, ValueError):
        file.close()
        raise BadEntry(f"{path}: unknown encoding {encoding!r}; use a Python codec name such as utf-8") from None


def _undecodable_line(path: Path, encoding: str) -> int:
    """Number of the first line that does not decode, found by decoding again chunk by chunk."""
    decoder = codecs.getincrementaldecoder(encoding)()
    line = 1
    with open_bytes(path) as file:
        while True:
            chunk = file.read(CHUNK_BYTES)
            try:
                line += decoder.decode(chunk, final=not chunk).count("\n")
            except UnicodeDecodeError as error:
                return line + error.object[: error.start].count(b"\n")
            except UnicodeError:
                return line
            if not chunk:
                return line


class ByteStream(Protocol):
    """What gives bytes."""

    def read(self, size: int, /) -> bytes:
        """At most ``size`` bytes; none at the end."""


class _UnpackedFile(io.RawIOBase):
    """Decompressed bytes of a file, up to a multiple of its size."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        """Take over the open file."""
        self._path, self._file, self._count = path, file, 0
        self._most = max(RATIO_COUNTS_FROM, MOST_RATIO * path.stat().st_size)
        self._source = self._open_source()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        """Fill the buffer; BadRow for damage and for far more content than a file of this size holds."""
        view = memoryview(buffer)  # type: ignore[arg-type]
        try:
            data = self._source.read(len(view))
        except (OSError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, RuntimeError, ValueError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise unreadable(self._path, error) from None
            raise _damage_error(self._path, error) from None
        self._count += len(data)
        if self._count > self._most:
            raise BadRow(
                f"{self._path}: unpacks to more than {self._most:,} bytes, over {MOST_RATIO} times its size; unpack it "
                "yourself if that is right"
            )
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()

    def _open_source(self) -> ByteStream:
        """The stream that decompresses; an archive's only member."""
        ending = self._path.suffix.lower()
        if ending == ".gz":
            return gzip.GzipFile(fileobj=self._file)
        if ending == ".xz":
            return _Xz(self._file)
        try:
            archive = zipfile.ZipFile(self._file)
            return archive.open(_only_member(self._path, archive))
        except (zipfile.BadZipFile, RuntimeError, ValueError) as error:
            raise _damage_error(self._path, error) from None


class _Xz:
    """The content of an .xz file, of one stream or several, without more memory than it may ask for."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._rest = file, b""
        self._decompressor = lzma.LZMADecompressor(memlimit=MOST_MEMORY)

    def read(self, size: int) -> bytes:
        """At most ``size`` bytes; none at the end."""
        while True:
            if self._decompressor.eof:
                self._rest = (self._decompressor.unused_data or self._file.read(CHUNK_BYTES)).lstrip(b"\0")
                if not self._rest:
                    return b""
                self._decompressor = lzma.LZMADecompressor(memlimit=MOST_MEMORY)
            elif self._decompressor.needs_input and not self._rest:
                self._rest = self._file.read(CHUNK_BYTES)
                if not self._rest:
                    raise EOFError("the file ends within its compressed content")
            data = self._decompressor.decompress(self._rest, max_length=size)
            self._rest = b""
            if data:
                return data


def _only_member(path: Path, archive: zipfile.ZipFile) -> zipfile.ZipInfo:
    """The one file in an archive, besides folders and what macOS adds; BadRow if there are none or several."""
    files = (file for file in archive.infolist() if not file.filename.endswith("/"))  # a damaged one has no name at all
    members = [file for file in files if not file.filename.startswith("__MACOSX/")]
    if len(members) != 1:
        raise BadRow(f"{path}: an archive of {len(members)} files; one is read, so unpack it and name the files")
    return members[0]


def _damage_error(path: Path, error: Exception) -> BadRow:
    return BadRow(f"{path}: cannot be unpacked ({type(error).__name__}); is it whole, and without a password?")
