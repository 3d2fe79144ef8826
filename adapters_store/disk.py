"""Writing that survives a crash: bytes are on the disk before the name that announces them.

Folders of the store are published (``publish``), files outside of it, such as a report's, are replaced (``atomic``):
both are complete under their names, or not there.

What a store needs of its file system is tested in a real folder that is removed again (`probe`).
"""

import errno
import hashlib
import os
import shutil
import stat
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from adapters_store.key import StoreError

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
        reason = error.strerror or error
        raise StoreError(f"{path}: cannot be read ({reason}); check its rights and its disk") from error


def is_file(path: str | Path) -> bool:
    """Whether a plain file is there; StoreError where that cannot be known."""
    with reading(path):
        try:
            return stat.S_ISREG(os.stat(path).st_mode)  # noqa: PTH116 - 20,000 Paths are a second
        except (FileNotFoundError, NotADirectoryError):
            return False


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


def sync_folder(folder: Path) -> bool:
    """Wait until the names in a folder are on the disk; False where the file system cannot sync a folder."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno != errno.EINVAL:  # as some network file systems say
            raise
        return False
    finally:
        os.close(handle)
    return True


def user_cache() -> Path:
    """The folder of this project below XDG_CACHE_HOME, or below ``~/.cache`` where that names no absolute path."""
    given = Path(os.environ.get("XDG_CACHE_HOME") or "")
    root = given if given.is_absolute() else Path.home() / ".cache"  # a relative one is to be ignored, says XDG
    return root / "empathy-transfer"


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


def fill_once(folder: Path, marker: str, fill: Callable[[Path], object]) -> None:
    """Publish the folder that ``fill`` makes under the name it is given, unless one that has the marker is there.

    It gets its name when it is complete: of two processes at once the first wins, and an interrupted one leaves
    nothing that is read.
    """
    if (folder / marker).is_file():
        return
    part = folder.with_name(f".{uuid.uuid4().hex}.part")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        fill(part)
        publish(part, folder, (marker,), attic=folder.parent)
    finally:
        shutil.rmtree(part, ignore_errors=True)


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


MIB = 1 << 20
LEAST_FREE = 1024 * MIB
WRITTEN = 16 * MIB  # some records' worth; more than a file system promises without having it


class Finding(NamedTuple):
    """One trait of a file system: whether it is as needed, and what was seen."""

    trait: str
    ok: bool
    detail: str


def probe(root: Path) -> list[Finding]:
    """Try what ``Store(root)`` relies on, there or in the nearest folder above that exists; never raises OSError."""
    nearest = next(folder for folder in (root.absolute(), *root.absolute().parents) if folder.is_dir())
    folder = nearest / f".probe-{uuid.uuid4().hex}"
    try:
        folder.mkdir()
    except OSError as error:
        return [Finding("write", False, f"{nearest}: {error.strerror or error}")]
    try:
        return [_try(trait, test, folder) for trait, test in TESTS.items()]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _try(trait: str, test: Callable[[Path], str], folder: Path) -> Finding:
    """A finding from a test: it passes with the text that it returns, and fails by an OSError."""
    subfolder = folder / trait.replace(" ", "-")
    try:
        subfolder.mkdir()
        return Finding(trait, True, test(subfolder))
    except OSError as error:
        return Finding(trait, False, error.strerror or str(error))


def _rename(folder: Path) -> str:
    for name in ("first", "second"):
        (folder / name).mkdir()
        write(folder / name / "file", name.encode())
    (folder / "first").rename(folder / "record")
    try:
        (folder / "second").rename(folder / "record")
    except OSError as error:
        if error.errno not in TAKEN:
            raise
    else:
        raise OSError("a folder was renamed over one that has files: two writers of one cell would mix")
    if (folder / "first").exists() or (folder / "record" / "file").read_bytes() != b"first":
        raise OSError("a renamed folder is not where it should be")
    return "a folder gets an absent name in one step, and never one that is taken"


def _replace(folder: Path) -> str:
    write(folder / "old", b"old")
    write(folder / "new", b"new")
    (folder / "new").replace(folder / "old")
    if (folder / "old").read_bytes() != b"new":
        raise OSError("a file that was replaced still reads as before")
    return "a file is replaced in one step"


def _exclusive(folder: Path) -> str:
    write(folder / "once", b"")
    try:
        write(folder / "once", b"")
    except FileExistsError:
        return "a name can be made once only"
    raise OSError("a file was made twice under one name")


def _fsync(folder: Path) -> str:
    write(folder / "file", b"x")
    if sync_folder(folder):
        return "files and folders are synced"
    return "files are synced; folders cannot be: after a power cut the newest cell may be missing"


def _free(folder: Path) -> str:
    free = shutil.disk_usage(folder).free
    if free < LEAST_FREE:
        raise OSError(f"{free / MIB:.0f} MiB free; make room for {LEAST_FREE / MIB:.0f}")
    return f"{free / MIB / 1024:.1f} GiB free"


def _quota(folder: Path) -> str:
    write(folder / "file", os.urandom(WRITTEN))  # nothing that a file system could store in less
    return f"{WRITTEN // MIB} MiB written and synced"


TESTS: dict[str, Callable[[Path], str]] = {
    "rename": _rename,
    "replace": _replace,
    "exclusive create": _exclusive,
    "fsync": _fsync,
    "free bytes": _free,
    "quota": _quota,
}
