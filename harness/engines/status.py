"""The status of a study from the store alone: which cells are done, run, wait, have failed or have gone silent.

It can be read on any machine that sees the store, whether or not the study is being run; where Slurm's commands are
installed, Slurm is asked about the jobs, too.
"""

from __future__ import annotations

import os
import shutil
import socket
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import psutil

from adapters_store import Store
from adapters_store.roles import planned_role
from harness.engines import slurm_queue
from harness.engines.slurm_queue import JobStatus
from harness.run import notes

if TYPE_CHECKING:
    from harness.study.cell import Cell

SILENT_SECONDS, SILENT_EPOCHS = 300.0, 3  # without a new note, after which a running pack counts as stalled
LOOK_SECONDS = 0.3  # at the process of a silent pack of this machine
DONE, RUNNING, QUEUED, STALLED = "done", "running", "queued", "stalled"
FAILED, NOT_RUN, WAITING = "failed", "not run", "waiting"


@dataclass(frozen=True)
class PackStatus:
    """A pack with a note in the store: its state (``running``, ``queued``, ``stalled``) and the age of the note in s.

    ``why`` says of a stalled pack what is known of its end. ``cells`` are the study's cells that it has still to store.
    """

    id: str
    note: notes.Progress
    state: str
    age: float
    cells: tuple[Cell, ...]
    why: str = ""


@dataclass(frozen=True)
class StudyStatus:
    """The cells of a study as the store knows them; ``stored`` are the keys of all records, ``failures`` are by key."""

    study: str
    cells: tuple[Cell, ...]
    stored: frozenset[str]
    packs: tuple[PackStatus, ...]
    failures: Mapping[str, notes.Failure]

    def __str__(self) -> str:
        """Its cells by state, in a line."""
        counts = ", ".join(f"{count} {state}" for state, count in self.counts.items())
        return f"{self.study}: {len(self.cells)} cells, {counts}"

    @cached_property
    def states(self) -> dict[str, str]:
        """The state of every cell, by key; a later rule overrides an earlier one."""
        states = {cell.key: DONE if cell.key in self.stored else WAITING for cell in self.cells}
        for pack in self.packs:
            states |= {cell.key: pack.state for cell in pack.cells}
        states |= {key: FAILED for key in self.failures}
        for cell in self.cells:
            if states[cell.key] == WAITING and any(key in self.failures for key in cell.stands_on):
                states[cell.key] = NOT_RUN
        return states

    @cached_property
    def counts(self) -> Counter[str]:
        """Number of cells in each state."""
        return Counter(self.states[cell.key] for cell in self.cells)

    @property
    def is_under_way(self) -> bool:
        """Whether any pack runs or is queued."""
        return any(pack.state != STALLED for pack in self.packs)

    def of(self, state: str) -> list[Cell]:
        """The cells in a state; cells with one key appear once."""
        return list({cell.key: cell for cell in self.cells if self.states[cell.key] == state}.values())


def status_of(store: Store, study: str, manifest: Mapping[str, Any]) -> StudyStatus:
    """The status now of the study with this manifest; records are not read."""
    cells, stored = planned(manifest), frozenset(store.keys())
    left = {cell.key: cell for cell in cells if cell.key not in stored}
    failures = {key: note for key, note in notes.failures(store).items() if key in left}
    under_way = {pack: note for pack, note in notes.progress(store).items() if not left.keys().isdisjoint(note.keys)}
    of_slurm = [note for note in under_way.values() if _is_known_to_slurm(note)]
    jobs = slurm_queue.look(of_slurm, slurm_queue.site().cluster) if of_slurm else None
    packs = []
    for pack, note in under_way.items():
        own = tuple(left[key] for key in note.keys if key in left and key not in failures)
        age = max(0.0, time.time() - note.written)
        state, why = _state(note, age, jobs)
        packs += [PackStatus(pack, note, state, age, own, why)] if own else []
    packs.sort(key=lambda pack: pack.state != STALLED)  # what has taken over the cells of a stalled one overrides it
    return StudyStatus(study, tuple(cells), stored, tuple(packs), failures)


def planned(manifest: Mapping[str, Any]) -> list[Cell]:
    """The cells that a manifest names; of a spec there is only what it stands on."""
    from harness.study.cell import Cell  # which loads numpy, and the parser needs this module

    return [
        Cell(
            target=row["target"],
            intermediate=row["intermediate"],
            seed=row["seed"],
            setting=row["setting"],
            role=planned_role(row),
            spec={"intermediate_key": row.get("intermediate_key"), "merge": row.get("merge")},
            key=row["key"],
            system=row.get("system", ""),
        )
        for row in manifest["cells"]
    ]


def _state(note: notes.Progress, age: float, jobs: Mapping[notes.Progress, JobStatus] | None) -> tuple[str, str]:
    """The state of a pack whose note was written ``age`` seconds ago, and why if it is stalled.

    Slurm's word on a job counts most, then whether the process of this machine has ended, then the silence of the note:
    a process of this machine that computes has a long epoch.
    """
    job = None if jobs is None else jobs.get(note)
    if job is not None and not job.is_elsewhere:
        if not job.is_alive or job.is_stuck:
            what = "waits for one that has died" if job.is_stuck else "is over"
            return STALLED, f"job {note.job} {what}{f'; {job.reason}' if job.is_anothers else ''}"
        if job.state == "PENDING" or note.state == QUEUED:
            return (QUEUED if job.state == "PENDING" else RUNNING), ""
    has_ended = _is_here(note) and not is_alive(note.pid)
    if has_ended and (note.state == RUNNING or note.engine != "slurm"):  # a queued job of Slurm outlives its submitter
        return STALLED, f"process {note.pid} on {note.host} is gone"
    if note.state == QUEUED:
        return QUEUED, ""
    is_silent = age > max(SILENT_SECONDS, SILENT_EPOCHS * (note.seconds_an_epoch or 0.0))
    if not is_silent or _computes(note):
        return RUNNING, ""
    return STALLED, f"{location(note)} {'computes nothing' if _is_here(note) else 'may be gone, or slow'}"


def _is_here(note: notes.Progress) -> bool:
    return note.host == socket.gethostname() and note.pid > 0


def _computes(note: notes.Progress) -> bool:
    """Whether the process that wrote a note is one of this machine and uses a processor, now."""
    if not _is_here(note):
        return False
    try:
        process = psutil.Process(note.pid)
        return bool(process.create_time() <= note.written and process.cpu_percent(LOOK_SECONDS) > 0)
    except psutil.Error:
        return False


def _is_known_to_slurm(note: notes.Progress) -> bool:
    return note.engine == "slurm" and bool(note.job) and shutil.which("squeue") is not None


def location(note: notes.Progress | notes.Failure) -> str:
    """The machine of a note with its process or job, in words: ``process 12 on node1``."""
    pid = getattr(note, "pid", 0)
    cluster = getattr(note, "cluster", "")
    process = (
        f"job {note.job}{f' of cluster {cluster}' if cluster else ''}" if note.job else f"process {pid}" if pid else ""
    )
    return f"{process} on {note.host}".strip() if note.host else process or "a machine unknown"


def is_alive(pid: int) -> bool:
    """Whether a process of this machine has not ended; a zombie process has."""
    try:
        os.kill(pid, 0)
        return psutil.Process(pid).status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except (ProcessLookupError, OverflowError, psutil.NoSuchProcess):
        return False
    except (PermissionError, psutil.AccessDenied):  # somebody else's
        return True
