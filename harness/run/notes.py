"""Notes of work under way, beside the checkpoints in the store: what is queued or runs where, and what failed and why.

A note decides nothing: what is done is what the store has a record of. One that cannot be written is done without.
"""

import dataclasses
import json
import os
import socket
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from adapters_store import Store, StoreError, disk
from tasks.fields import Hash, misfits, record_of

PROGRESS, FAILURE = "progress.json", "failure.json"
Note = TypeVar("Note", "Progress", "Failure")


@dataclass(frozen=True)
class Progress:
    """A pack under way: its cells' keys, what is trained, finished epochs of ``epochs``, and where.

    ``state`` is ``queued`` or ``running``. Times are seconds since 1970 by the writer's clock: since when the epochs
    ``first_epoch`` and more are counted, and when the note was written. ``job`` is the scheduler's id, ``log`` a file;
    for Slurm, which gives numbers again, also what tells that job from others: its name, the number of its user, its
    cluster and when it was submitted, each empty, -1 or 0 where that is unknown.
    """

    state: str
    study: str
    keys: tuple[Hash, ...]
    label: str
    engine: str
    epoch: int = 0
    epochs: int = 0
    first_epoch: int = 0
    since: float = 0.0
    written: float = 0.0
    host: str = ""
    pid: int = 0
    job: str = ""
    log: str = ""
    job_name: str = ""
    user: int = -1
    cluster: str = ""
    submitted: float = 0.0

    @property
    def seconds_an_epoch(self) -> float | None:
        """Seconds that an epoch has taken since ``since``; None before the first one ended."""
        epochs = self.epoch - self.first_epoch
        return (self.written - self.since) / epochs if epochs > 0 else None


@dataclass(frozen=True)
class Failure:
    """Why a cell failed: one line, where in the code, when (seconds since 1970), and by which job and log file."""

    key: Hash
    study: str
    label: str
    reason: str
    trace: str = ""
    written: float = 0.0
    host: str = ""
    job: str = ""
    log: str = ""


@dataclass
class Noted:
    """The progress note of one pack, written anew as the work goes on."""

    store: Store
    pack: str
    now: Progress

    def queue(self) -> None:
        """Say that the pack waits for its turn, and who waits with it."""
        now = replace(self.now, state="queued", written=time.time(), host=socket.gethostname(), pid=os.getpid())
        write(self.store, self.pack, now)

    def watch(self, label: str, epoch: int, epochs: int) -> None:
        """Say that ``epoch`` epochs of ``epochs`` are finished; another ``label``, or a jump, starts the count anew."""
        written = time.time()
        if (self.now.label, self.now.state) != (label, "running") or epoch != self.now.epoch + 1:
            self.now = replace(self.now, first_epoch=epoch, since=written)
        now = replace(self.now, state="running", label=label, epoch=epoch, epochs=epochs, written=written)
        self.now = replace(now, host=socket.gethostname(), pid=os.getpid())
        write(self.store, self.pack, self.now)

    def fail(self, key: str, label: str, reason: str, trace: str) -> None:
        """Keep why a cell failed, until it is stored."""
        now, host = self.now, socket.gethostname()
        write(self.store, key, Failure(key, now.study, label, reason, trace, time.time(), host, now.job, now.log))

    def end(self) -> None:
        """Take the progress note away; what else is in the folder stays."""
        _take_away(self.store.pack_folder(self.pack))


def write(store: Store, pack: str, note: Progress | Failure) -> None:
    """Write a note in one step in place of an earlier one; a store that cannot be written to goes without."""
    folder, name = store.pack_folder(pack), PROGRESS if isinstance(note, Progress) else FAILURE
    half = folder / f".{name}.{uuid.uuid4().hex}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        half.write_text(json.dumps(dataclasses.asdict(note), allow_nan=False), encoding="utf-8")
        half.replace(folder / name)
    except OSError:
        with suppress(OSError):
            half.unlink(missing_ok=True)


def progress(store: Store, study: str | None = None) -> dict[str, Progress]:
    """The notes of packs under way by pack id, of one study or all; those whose cells are all stored are left out."""
    under_way = {pack: note for pack, note in _notes(store, PROGRESS, Progress) if study in (None, note.study)}
    return {pack: note for pack, note in under_way.items() if any(key not in store for key in note.keys)}


def failures(store: Store, study: str | None = None) -> dict[str, Failure]:
    """Why cells failed, by key, of one study or all; those stored since are left out."""
    failed = {note.key: note for _, note in _notes(store, FAILURE, Failure) if study in (None, note.study)}
    return {key: note for key, note in failed.items() if key not in store}


def failure(store: Store, key: str) -> Failure | None:
    """Why this cell failed when it was last tried, or None."""
    return _read(store.pack_folder(key) / FAILURE, Failure)


def sweep(store: Store) -> None:
    """Take away what a process that was killed has left: half a progress note, or a whole one of cells that are stored.

    A pack that was killed on its way is continued under another id if some of its cells were stored, so that no later
    note takes the place of its own.
    """
    for folder in {path.parent for path in (store.root / "packs").glob(f"[!.]*/*{PROGRESS}*")}:
        note = _read(folder / PROGRESS, Progress)
        with suppress(StoreError):
            if all(key in store for key in note.keys) if note else not (folder / PROGRESS).exists():
                _take_away(folder)


def _take_away(folder: Path) -> None:
    """Remove a progress note, also one half written, and its folder if nothing else is in it."""
    with suppress(OSError):
        for path in (folder / PROGRESS, *folder.glob(f".{PROGRESS}.*")):
            path.unlink(missing_ok=True)
        folder.rmdir()


def forget(store: Store, key: str) -> None:
    """Take the note of a failure away before the cell is tried again."""
    with suppress(OSError):
        (store.pack_folder(key) / FAILURE).unlink(missing_ok=True)


def _notes(store: Store, name: str, kind: type[Note]) -> Iterator[tuple[str, Note]]:
    for path in sorted((store.root / "packs").glob(f"[!.]*/{name}")):
        note = _read(path, kind)
        if note is not None:
            yield path.parent.name, note


def _read(path: Path, kind: type[Note]) -> Note | None:
    """The note in a file; None where there is none, or not one of these."""
    try:
        values = json.loads(disk.content(path))
        return None if any(misfits(values, kind, path.stem)) else record_of(kind, values)
    except (OSError, ValueError, RecursionError):
        return None
