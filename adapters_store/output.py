"""Files outside of the store, such as a report's: complete under their names, or not there."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from adapters_store.errors import StoreError


class CannotWrite(StoreError):
    """A file or folder for results cannot be made; the message names it and what the operating system says."""


@contextmanager
def output(place: Path) -> Iterator[None]:
    """Turn what the operating system refuses about ``place`` (full, over quota, read-only) into one CannotWrite."""
    try:
        yield
    except OSError as error:
        raise CannotWrite(f"{place}: cannot be written ({cause(error)}); mend this, or give another --out") from error


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A hidden name beside ``path`` to write under, renamed to ``path`` once its content is on the disk.

    What stood at ``path`` stays as it was until then, and for good where anything fails. Folders above are made.
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
            with suppress(OSError):  # the same trouble may keep it there, under a name that nothing reads
                part.unlink(missing_ok=True)
            raise


def write_text(path: Path, text: str) -> None:
    """Write a text file of UTF-8 with plain line feeds, in place of an earlier one."""
    with whole(path) as part:
        part.write_text(text, encoding="utf-8", newline="\n")


def new_folder(folder: Path) -> None:
    """Make a folder and those above it, unless it is there."""
    with output(folder):
        folder.mkdir(parents=True, exist_ok=True)


def cause(error: OSError) -> str:
    """What the operating system says; libraries that write by themselves repeat it in more words."""
    return os.strerror(error.errno) if error.errno else " ".join(str(error).split())
