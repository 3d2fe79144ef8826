"""Writing that survives a crash: bytes are on the disk before the name that announces them.

Folders of the store are published (``publish``), files outside of it, such as a report's, are replaced (``atomic``):
both are complete under their names, or not there.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from adapters_store.errors import StoreError

_BLOCK_BYTES = 1 << 20
TAKEN = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)


@contextmanager
def writing(root: Path) -> Iterator[None]:
    """Turn what the operating system refuses (read-only, disk full, quota) into one StoreError."""
    try:
        yield
    except OSError as error:
        reason = f"{error.strerror or error} ({error.filename or root})"
        raise StoreError(f"cannot write to the store {root}: {reason}; mend this, or choose another store") from error


@contextmanager
def reading(path: object) -> Iterator[None]:
    """Turn what the operating system refuses to read (rights, a failing disk) into one StoreError."""
    try:
        yield
    except OSError as error:
        raise _unreadable(path, error) from error


def is_file(path: str | Path) -> bool:
    """Whether a plain file is there; StoreError where that cannot be known."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)  # noqa: PTH116 - 20,000 Paths are a second
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise _unreadable(path, error) from error


def must_be_plain(path: str | Path) -> None:
    """OSError where there is no file, and for a pipe or a device, from which a reader might wait for ever."""
    mode = os.stat(path).st_mode  # noqa: PTH116 - 20,000 Paths are a second
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "not a plain file", str(path))


def content(path: str | Path) -> bytes:
    """The bytes of a plain file; OSError for anything else."""
    must_be_plain(path)
    with open(path, "rb") as file:  # noqa: PTH123
        return file.read()


def _unreadable(path: object, error: OSError) -> StoreError:
    return StoreError(f"{path}: cannot be read ({error.strerror or error}); check its rights and its disk")


def names(folder: str | Path) -> list[str]:
    """Names of everything in a folder, sorted; none where there is no folder, StoreError where it cannot be read."""
    with reading(folder):
        try:
            return sorted(os.listdir(folder))  # noqa: PTH208
        except (FileNotFoundError, NotADirectoryError):
            return []


def walk(folder: str) -> Iterator[os.DirEntry[str]]:
    """Everything in a folder and its folders, links not followed; what vanishes meanwhile is left out."""
    with reading(folder):
        try:
            with os.scandir(folder) as scan:
                entries = list(scan)
        except (FileNotFoundError, NotADirectoryError):
            return
    for entry in entries:
        yield entry
        if entry.is_dir(follow_symlinks=False):
            yield from walk(entry.path)


def write(path: Path, content: bytes) -> None:
    """Write a new file and wait until it is on the disk."""
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def copy(origin: Path, path: Path) -> tuple[str, int]:
    """Copy a file, wait until it is on the disk, and return sha256 and size in bytes of what was written."""
    digest, size = hashlib.sha256(), 0
    with origin.open("rb") as source, path.open("xb") as file:
        while block := source.read(_BLOCK_BYTES):
            file.write(block)
            digest.update(block)
            size += len(block)
        file.flush()
        os.fsync(file.fileno())
    return digest.hexdigest(), size


def sha256_of(path: Path) -> str:
    """Sha256 of a file's content, 64 hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk, where the file system can say so."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some network file systems cannot sync a folder
            raise
    finally:
        os.close(handle)


def publish(prepared: Path, destination: Path, markers: tuple[str, ...], attic: Path) -> bool:
    """Rename a complete folder to its destination in one step; False when a complete one was there first.

    A folder is complete when it has one of the files ``markers``; one without any of them is moved to the folder
    ``attic``, because no writer has finished it.
    """
    while True:
        try:
            prepared.rename(destination)
        except OSError as error:
            if error.errno not in TAKEN:
                raise
        else:
            sync_folder(destination.parent)
            sync_folder(destination.parent.parent)
            return True
        if any((destination / marker).exists() for marker in markers):
            return False
        # move an incomplete folder aside; if another process has completed it meanwhile, move it back
        aside = attic / f"aside-{uuid.uuid4().hex}"
        with suppress(FileNotFoundError):  # another process has just done the same
            destination.rename(aside)
            if any((aside / marker).exists() for marker in markers):
                with suppress(OSError):  # a third process has taken the name: theirs stays
                    aside.rename(destination)


class CannotWrite(StoreError):
    """A file or folder for results cannot be made; the message names it and what the operating system says."""


@contextmanager
def output(path: Path) -> Iterator[None]:
    """Turn what the operating system refuses about ``path`` (full, over quota, read-only) into one CannotWrite."""
    try:
        yield
    except OSError as error:
        raise CannotWrite(f"{path}: cannot be written ({cause(error)}); mend this, or give another --out") from error


@contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """A hidden name beside ``path`` to write under, renamed to ``path`` once its content is on the disk.

    An earlier file at ``path`` stays as it was until then, and for good where anything fails. Folders above are made.

        with atomic(out / "gains.csv") as part:
            frame.to_csv(part)
    """
    part = path.with_name(f".{uuid.uuid4().hex}.part")
    with output(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield part
            with part.open("rb") as written:
                os.fsync(written.fileno())  # quotas and network file systems may refuse only now
            part.replace(path)
        except BaseException:
            with suppress(OSError):  # the same fault may keep the part there, under a name that nothing reads
                part.unlink(missing_ok=True)
            raise


def write_text(path: Path, text: str) -> None:
    """Write a text file of UTF-8 with plain line feeds, in place of an earlier one."""
    with atomic(path) as part:
        part.write_text(text, encoding="utf-8", newline="\n")


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file, in place of an earlier one."""
    with atomic(path) as part:
        part.write_bytes(content)


def new_folder(folder: Path) -> None:
    """Make a folder and those above it, unless it is there."""
    with output(folder):
        folder.mkdir(parents=True, exist_ok=True)


def cause(error: OSError) -> str:
    """What the operating system says; libraries that write by themselves repeat it in more words."""
    return os.strerror(error.errno) if error.errno else " ".join(str(error).split())
