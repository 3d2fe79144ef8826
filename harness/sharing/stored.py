"""Where the results of a study are: in the user's store, or in the archive of it that comes with this package.

A finished study may be shipped as ``harness/study/shipped/NAME-results.tar.xz``, which ``store archive NAME``
writes.
What only reads asks ``open_study``: the user's store comes first, and is never written to. The archive is unpacked
once, into a store of its own in the user's cache, under the archive's sha256, where the analysis keeps what it has
computed; the folder may be removed at any time.
"""

import logging
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from importlib import resources
from pathlib import Path
from typing import Any

from adapters_store import Store, StoreError, disk
from adapters_store.restore import unpack
from tasks.errors import BadInput
from tasks.plain_text import nearest

log = logging.getLogger(__name__)

FOLDER = Path(str(resources.files("harness.study.shipped")))
ENDING = "-results.tar.xz"


class NotRun(BadInput):
    """The store knows no run of this study."""


class NoCache(BadInput):
    """The results that are shipped cannot be unpacked."""


def open_study(store: Store, name: str, *, cells_only: bool = False) -> tuple[Store, dict[str, Any]]:
    """The store with the results of study ``name``, and its manifest: ``store``, or that of the shipped results.

    NotRun if neither has any; ``cells_only`` is that of ``stored_manifest``. That results are shipped
    is logged, once, as a warning.
    """
    if name not in store.manifests() and (file := shipped_archive(name)):
        shipped = shipped_store(file, name)
        manifest = stored_manifest(shipped, name, cells_only=cells_only)
        _warn(
            f"store {store.root} has no run of {name}: these are its results of {manifest['created'][:10]} that come"
            f" with this package; for your own: empathy-transfer run {name}"
        )
        return shipped, manifest
    return store, stored_manifest(store, name, cells_only=cells_only)


@cache
def _warn(line: str) -> None:
    """Log a warning that was not logged before."""
    log.warning(line)


def stored_manifest(store: Store, name: str, *, cells_only: bool = False) -> dict[str, Any]:
    """The manifest of study ``name`` in ``store``; NotRun with the names that are there.

    CorruptRecord names a field that is not what a run writes; with ``cells_only`` no others than the cells are needed.
    """
    from harness.study.file import study_names
    from harness.study.manifest import check_manifest

    studies = store.manifests()
    if name not in studies:
        there = f"it has {', '.join(studies)}" if studies else "it has no study yet"
        file = name if name in study_names() else "FILE.toml, the file of a study of this name"
        others = studies if name in study_names() else [*studies, *study_names()]
        shipped = f"; its results that come with this package: empathy-transfer report {name}"
        raise NotRun(
            f"store {store.root} has no run of study {name!r} ({there}){nearest(name, others)}; "
            f"start it with: empathy-transfer run {file}{shipped if shipped_archive(name) else ''}"
        )
    manifest = store.manifest(name)
    check_manifest(manifest, f"study {name}", cells_only=cells_only)
    return manifest


def shipped_archive(name: str) -> Path | None:
    """The archive with the results of a study that is shipped; None for any other."""
    file = FOLDER / f"{name}{ENDING}"
    return file if file.parent == FOLDER and file.is_file() else None


@contextmanager
def store_at(source: str) -> Iterator[Store]:
    """The store in a folder, or that of an archive or of a study that is shipped; BadInput if it is none of these."""
    path = Path(source)
    if path.is_dir():
        yield Store(path)
    elif file := shipped_archive(source):
        yield shipped_store(file, source)
    elif path.is_file():
        with tempfile.TemporaryDirectory() as folder:
            unpack(path, Path(folder) / "store")
            yield Store(Path(folder) / "store")
    else:
        raise BadInput(f"{source}: no folder of a store, no archive, and no study whose results come with the package")


def shipped_store(file: Path, name: str) -> Store:
    """The store of a shipped archive, unpacked below XDG_CACHE_HOME unless it was; NoCache where it cannot be."""
    try:
        folder = disk.user_cache() / "shipped" / disk.sha256_of(file)
        disk.fill_once(folder, f"studies/{name}.json", partial(unpack, file))
    except (OSError, RuntimeError, StoreError) as problem:
        reason = disk.cause(problem) if isinstance(problem, OSError) else str(problem)
        raise NoCache(
            f"the shipped results of {name} cannot be unpacked ({reason}); name a folder for them in XDG_CACHE_HOME,"
            f" or give a store: empathy-transfer store restore {file} --store DIR"
        ) from problem
    return Store(folder)
