"""The status of a study from the store alone: which cells are done, run, wait, have failed or have gone silent.

It can be read on any machine that sees the store, whether or not the study is being run; where Slurm's commands are
installed, Slurm is asked about the jobs, too.

`time_left` says how long the study still takes, from the medians of finished cells: a cell takes the seconds of its
target's finished cells of the same kind. A target without any takes those of its cells of another kind, times the
ratio of the two kinds on other targets. `cell_facts` has all that is known of one cell; `lines`, `summary` and
`as_json` say a status to people, logs and programs.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import psutil

from adapters_store import Store, StoreError, disk
from adapters_store.roles import FLOOR, planned_role, role_of
from harness.engines import slurm_queue
from harness.engines.slurm_queue import JobStatus
from harness.run import notes
from tasks.plain_text import counted, harmless

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
    has_slurm = shutil.which("squeue") is not None
    of_slurm = [note for note in under_way.values() if has_slurm and note.engine == "slurm" and note.job]
    jobs = slurm_queue.look(of_slurm, slurm_queue.site().cluster) if of_slurm else None
    packs = []
    for pack, note in under_way.items():
        rest = tuple(left[key] for key in note.keys if key in left and key not in failures)
        age = max(0.0, time.time() - note.written)
        state, why = _state(note, age, jobs)
        packs += [PackStatus(pack, note, state, age, rest, why)] if rest else []
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
            reason = "waits for one that has died" if job.is_stuck else "is over"
            return STALLED, f"job {note.job} {reason}{f'; {job.reason}' if job.is_anothers else ''}"
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


FINISHED_CELLS = 5  # of each target and kind, whose records are read for their seconds

Kind = tuple[str, str, bool, str]


@dataclass(frozen=True)
class TimeLeft:
    """Seconds until the study ends if as many ``packs`` run as now; ``source`` says what the estimate is based on."""

    seconds: float
    packs: int
    source: str


def time_left(store: Store, now: StudyStatus) -> TimeLeft | None:
    """None where nothing is left, or where nothing is known of what is left; failed cells are left out."""
    waiting = [cell for state in (WAITING, QUEUED, STALLED) for cell in now.of(state)]
    running = [pack for pack in now.packs if pack.state == RUNNING]
    seconds_of = {pack.id: seconds for pack in running if (seconds := seconds_left(pack)) is not None}
    waiting += [cell for pack in running if pack.id not in seconds_of for cell in pack.cells]
    costs = _Costs(store, now)
    alone = [costs.of(cell) for cell in waiting]
    if not (alone or seconds_of) or None in alone:
        return None
    total = sum(seconds_of.values()) + sum(seconds or 0.0 for seconds in alone)
    sources = [f"the epochs of {counted(len(seconds_of), 'running pack')}"] if seconds_of else []
    sources += [f"the seconds that {counted(len(costs.seconds), 'finished cell')} took"] if alone else []
    return TimeLeft(total / max(1, len(running)), len(running), " and ".join(sources))


def seconds_left(pack: PackStatus) -> float | None:
    """Seconds that a running pack needs for its remaining epochs, of all its cells; None before its first full epoch.

    Lanes are trained together. Where the note names a single cell, the other cells of the pack are trained after it.
    """
    note, rate = pack.note, pack.note.seconds_an_epoch
    if rate is None:
        return None
    after = len(pack.cells) - 1 if note.label in {cell.label for cell in pack.cells} else 0
    return rate * (note.epochs - note.epoch + after * note.epochs)


def _kind(cell: Cell) -> Kind:
    """What cells that take equally long on one target have in common."""
    role = role_of(cell.role)
    return cell.system, role.trains, role.stands_alone, cell.setting


class _Costs:
    """Median seconds of finished cells, by kind and target."""

    def __init__(self, store: Store, now: StudyStatus) -> None:
        self.store, self.seconds = store, dict[str, float]()
        self.finished: dict[Kind, dict[str, list[str]]] = {}
        for cell in now.cells:
            if cell.key in now.stored and cell.role != FLOOR:
                self.finished.setdefault(_kind(cell), defaultdict(list))[cell.target].append(cell.key)
        self.medians: dict[tuple[Kind, str], float | None] = {}

    def of(self, cell: Cell) -> float | None:
        """The seconds that a cell will take, of a floor none to speak of; None where no other cell is finished."""
        if cell.role == FLOOR:
            return 0.0
        kind, target = _kind(cell), cell.target
        seconds = self._median(kind, target)
        if seconds is None:
            seconds = self._of_others(kind, target)
        if seconds is None:
            seconds = self._overall(of.get(target, []) for of in self.finished.values())
        if seconds is None:
            seconds = self._overall(keys for of in self.finished.values() for keys in of.values())
        return seconds

    def _of_others(self, kind: Kind, target: str) -> float | None:
        """What cells of a kind took of other targets, beside their cells of a kind that this target has."""
        alike = {
            name: seconds for name in self.finished.get(kind, ()) if (seconds := self._median(kind, name)) is not None
        }
        for other in self.finished:
            reference = self._median(other, target)
            both = {name: seconds for name in alike if (seconds := self._median(other, name))}
            if reference is not None and both:
                return reference * median(alike[name] / both[name] for name in both)
        return median(alike.values()) if alike else None

    def _median(self, kind: Kind, target: str) -> float | None:
        if (kind, target) not in self.medians:
            self.medians[kind, target] = self._overall([self.finished.get(kind, {}).get(target, [])])
        return self.medians[kind, target]

    def _overall(self, groups: Iterable[list[str]]) -> float | None:
        times = [
            seconds for keys in groups for key in keys[-FINISHED_CELLS:] if (seconds := self._seconds(key)) is not None
        ]
        return median(times) if times else None

    def _seconds(self, key: str) -> float | None:
        if key not in self.seconds:
            try:
                self.seconds[key] = float(self.store.get(key).provenance["wall_seconds"])
            except (StoreError, KeyError, TypeError, ValueError):
                return None
        return self.seconds[key]


MOST = 12  # lines of one sort; the rest is counted


def lines(now: StudyStatus, left: TimeLeft | None) -> list[str]:
    """A block per state that there is, then the time left."""
    text = [f"{now.study}: {now.counts['done']} of {len(now.cells)} cells done"]
    for state in (RUNNING, QUEUED, STALLED):
        packs = [pack for pack in now.packs if pack.state == state]
        text += block(state, now.counts[state], [_pack_line(pack) for pack in packs])
    text += block(
        FAILED, now.counts[FAILED], [f"{note.label}: {' '.join(note.reason.split())}" for note in now.failures.values()]
    )
    # how many cells cannot be run, by the intermediate that failed
    below = (next(key for key in cell.stands_on if key in now.failures) for cell in now.of(NOT_RUN))
    waiting = Counter(now.failures[key].label for key in below)
    text += block(
        NOT_RUN, now.counts[NOT_RUN], [f"{count} on {label}, which failed" for label, count in waiting.items()]
    )
    text += block(WAITING, now.counts[WAITING], [])
    if left is not None:
        text.append(time_line(left))
    return text


def time_line(left: TimeLeft) -> str:
    """About how long, and from what that is known."""
    if not left.packs:
        return f"about {span(left.seconds)} of work left, one pack at a time (from {left.source})"
    return f"about {span(left.seconds)} left with {left.packs} at a time (from {left.source})"


def summary(now: StudyStatus) -> str:
    """Everything in one line, which stays the same until something changes."""
    counts = [f"{now.counts[state]} {state}" for state in (RUNNING, QUEUED, STALLED, FAILED, NOT_RUN, WAITING)]
    text = f"{now.study}: {now.counts['done']} of {len(now.cells)} done, "
    text += ", ".join(count for count in counts if not count.startswith("0 ")) or "nothing left"
    running = [pack.note for pack in now.packs if pack.state == RUNNING]
    return "; ".join([text, *(f"{note.label}: epoch {note.epoch}/{note.epochs}" for note in running[:MOST])])


def as_json(now: StudyStatus, left: TimeLeft | None) -> dict[str, object]:
    """The same as data; times are seconds."""
    of_packs = ("label", "engine", "epoch", "epochs", "seconds_an_epoch", "host", "pid", "job", "log")
    of_failures = ("label", "key", "reason", "host", "job", "log")
    packs: dict[str, list[dict[str, object]]] = {RUNNING: [], QUEUED: [], STALLED: []}
    for pack in now.packs:
        facts = {name: getattr(pack.note, name) for name in of_packs} | {"cells": len(pack.cells)}
        packs[pack.state].append({"pack": pack.id, **facts, "age_seconds": round(pack.age, 1), "why": pack.why})
    return {
        **packs,
        "failed": [{name: getattr(note, name) for name in of_failures} for note in now.failures.values()],
        "not run": [{"cell": cell.label, "key": cell.key} for cell in now.of(NOT_RUN)],
        "waiting": now.counts[WAITING],
        "seconds left": None if left is None else round(left.seconds, 1),
        "reckoned from": None if left is None else left.source,
    }


def span(seconds: float) -> str:
    """Seconds in words, in the unit that fits."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def block(state: str, count: int, entries: list[str]) -> list[str]:
    """A state with its count, and its entries below, the first dozen of them; nothing where the count is 0."""
    if not count:
        return []
    more = [f"and {len(entries) - MOST} more"] if len(entries) > MOST else []
    return [f"{state} {count}", *(f"  {entry}" for entry in [*entries[:MOST], *more])]


def _pack_line(pack: PackStatus) -> str:
    note = pack.note
    if pack.state == QUEUED:
        return f"{note.label}: {f'job {note.job}' if note.job else 'no job yet'}, since {span(pack.age)}"
    epoch = f"{note.label}: epoch {note.epoch} of {note.epochs}"
    if pack.state == STALLED:
        return f"{epoch}; no word for {span(pack.age)}: {pack.why}"
    rate = note.seconds_an_epoch
    pace = "" if rate is None else f", {rate:.2g} s an epoch" if rate < 10 else f", {span(rate)} an epoch"
    return f"{epoch}{pace}, {location(note)}, noted {span(pack.age)} ago"


TAIL_LINES, TAIL_BYTES = 40, 1 << 16
MADE_BY = ("created", "host", "device", "threads", "lanes", "wall_seconds", "cpu_seconds", "code")


def facts_of(store: Store, now: StudyStatus, cell: Cell) -> dict[str, Any]:
    """How a cell failed, runs or was made, and the end of its log."""
    facts: dict[str, Any] = {"cell": cell.label, "key": cell.key, "study": now.study, "state": now.states[cell.key]}
    log = ""
    if cell.key in now.stored:
        record = store.get(cell.key)
        history = (
            json.loads(store.open(cell.key, "history.json").read_bytes()) if "history.json" in record.files else []
        )
        if history and isinstance(history[0], list):
            history = [{"fold": number, **row} for number, fold in enumerate(history, start=1) for row in fold]
        made = {name: record.provenance[name] for name in MADE_BY if name in record.provenance}
        versions = record.provenance.get("versions")
        made["torch"] = versions.get("torch") if isinstance(versions, Mapping) else None
        results = {name: record.results.get(name) for name in ("metric", "test", "validation", "best_epoch", "flags")}
        facts |= {"results": results, "made by": made, "history": history}
    for pack in now.packs:
        if cell in pack.cells:
            note, log = pack.note, pack.note.log
            facts |= {"pack": note.label, "epoch": note.epoch, "epochs": note.epochs}
            facts |= {"place": location(note), "why": pack.why}
    if failure := now.failures.get(cell.key):
        log = failure.log
        facts |= {"reason": failure.reason, "place": location(failure), "trace": failure.trace.splitlines()}
    below = next((now.failures[key] for key in cell.stands_on if key in now.failures), None)
    if below and cell.key not in now.stored:
        facts["why"] = f"its {'parent' if cell.merge else 'intermediate'} failed: {below.label}: {below.reason}"
    return facts | ({"log": log, "end of the log": log_end(store.root, log)} if log else {})


def log_end(root: Path, log: str) -> list[str]:
    """The last lines of a log file that lies inside the store; for any other path, the reason why it is not shown."""
    try:
        path, inside = (root / log).resolve(), root.resolve()
        if not path.is_relative_to(inside):
            return ["(not shown: it lies outside the store)"]
        disk.must_be_plain(path)
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - TAIL_BYTES))
            text = file.read().decode("utf-8", errors="replace")
    except (OSError, ValueError, RuntimeError) as problem:
        return [f"(cannot be read: {getattr(problem, 'strerror', None) or problem})"]
    return [harmless(line) for line in text.splitlines()[-TAIL_LINES:]]
