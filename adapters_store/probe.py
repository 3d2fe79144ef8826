"""What a store needs of its file system, tested in a real folder that is removed again."""

from __future__ import annotations

import errno
import os
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from adapters_store import disk

MIB = 1 << 20
LEAST_FREE = 1024 * MIB
WRITTEN = 16 * MIB  # some records' worth; more than a file system promises without having it


class Finding(NamedTuple):
    """One trait of a file system: whether it is as needed, and what was seen."""

    what: str
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
        return [_try(what, test, folder) for what, test in TESTS.items()]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _try(what: str, test: Callable[[Path], str], folder: Path) -> Finding:
    """A finding from a test: it passes with the text that it returns, and fails by an OSError."""
    own = folder / what.replace(" ", "-")
    try:
        own.mkdir()
        return Finding(what, True, test(own))
    except OSError as error:
        return Finding(what, False, error.strerror or str(error))


def _rename(folder: Path) -> str:
    for name in ("first", "second"):
        (folder / name).mkdir()
        disk.write(folder / name / "file", name.encode())
    (folder / "first").rename(folder / "record")
    try:
        (folder / "second").rename(folder / "record")
    except OSError as error:
        if error.errno not in disk.TAKEN:
            raise
    else:
        raise OSError("a folder was renamed over one that has files: two writers of one cell would mix")
    if (folder / "first").exists() or (folder / "record" / "file").read_bytes() != b"first":
        raise OSError("a renamed folder is not where it should be")
    return "a folder gets an absent name in one step, and never one that is taken"


def _replace(folder: Path) -> str:
    disk.write(folder / "old", b"old")
    disk.write(folder / "new", b"new")
    (folder / "new").replace(folder / "old")
    if (folder / "old").read_bytes() != b"new":
        raise OSError("a file that was replaced still reads as before")
    return "a file is replaced in one step"


def _exclusive(folder: Path) -> str:
    disk.write(folder / "once", b"")
    try:
        disk.write(folder / "once", b"")
    except FileExistsError:
        return "a name can be made once only"
    raise OSError("a file was made twice under one name")


def _fsync(folder: Path) -> str:
    disk.write(folder / "file", b"x")
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return "files are synced; folders cannot be: after a power cut the newest cell may be missing"
    finally:
        os.close(handle)
    return "files and folders are synced"


def _free(folder: Path) -> str:
    free = shutil.disk_usage(folder).free
    if free < LEAST_FREE:
        raise OSError(f"{free / MIB:.0f} MiB free; make room for {LEAST_FREE / MIB:.0f}")
    return f"{free / MIB / 1024:.1f} GiB free"


def _quota(folder: Path) -> str:
    block = os.urandom(MIB)  # nothing that a file system could store in less
    with (folder / "file").open("xb") as file:
        for _ in range(WRITTEN // MIB):
            file.write(block)
        file.flush()
        os.fsync(file.fileno())
    return f"{WRITTEN // MIB} MiB written and synced"


TESTS: dict[str, Callable[[Path], str]] = {
    "rename": _rename,
    "replace": _replace,
    "exclusive create": _exclusive,
    "fsync": _fsync,
    "free bytes": _free,
    "quota": _quota,
}
