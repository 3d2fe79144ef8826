"""Where a study stands, from the store alone: what is done, runs, waits, has failed, or has gone silent.

Nobody needs to run it any more, nor on this machine; Slurm is asked too where its commands are here.
"""

from __future__ import annotations

import os
import shutil
import socket
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any

from adapters_store import Store, StoreError
from adapters_store.listing import WEIGHTS, by_both_keys
from harness.engines import slurm_queue
from harness.engines.slurm_queue import Seen
from harness.run import notes
from harness.study.cell import Cell

SILENT_SECONDS, SILENT_EPOCHS = 300.0, 3
DONE, RUNNING, QUEUED, STALLED = "done", "running", "queued", "stalled"
FAILED, NOT_RUN, WAITING = "failed", "not run", "waiting"


@dataclass(frozen=True)
class Work:
    """A pack that is under way or was: its note, ``running``, ``queued`` or ``stalled``, and the note's age in seconds.

    ``why`` says of a stalled one what is known of its end. ``cells`` are those of the study that it has still to store.
    """

    pack: str
    note: notes.Progress
    state: str
    age: float
    cells: tuple[Cell, ...]
    why: str = ""


@dataclass(frozen=True)
class Standing:
    """A study's cells as the store knows them; ``states`` is by key, ``stored`` the keys of all records.

    ``identities`` counts stored cells whose own key does not name the backbone's config and tokenizer, by how surely
    these are known (adapters_store.record).
    """

    study: str
    cells: tuple[Cell, ...]
    stored: frozenset[str]
    works: tuple[Work, ...]
    failures: Mapping[str, notes.Failure]
    identities: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def states(self) -> dict[str, str]:
        """What there is to say of every cell by its key."""
        states = {cell.key: DONE if cell.key in self.stored else WAITING for cell in self.cells}
        for work in self.works:
            states |= {cell.key: work.state for cell in work.cells}
        states |= {key: FAILED for key in self.failures}
        for cell in self.cells:
            if states[cell.key] == WAITING and cell.spec["intermediate_key"] in self.failures:
                states[cell.key] = NOT_RUN
        return states

    @cached_property
    def counts(self) -> Counter[str]:
        """How many cells there are in each state."""
        return Counter(self.states[cell.key] for cell in self.cells)

    @property
    def is_under_way(self) -> bool:
        """Whether anything runs, or waits in a queue."""
        return any(work.state != STALLED for work in self.works)

    def of(self, state: str) -> list[Cell]:
        """The cells in a state, each once."""
        return list({cell.key: cell for cell in self.cells if self.states[cell.key] == state}.values())


def standing(store: Store, study: str, manifest: Mapping[str, Any]) -> Standing:
    """Where the study with this manifest stands now; records are not opened."""
    cells, stored = planned(manifest), frozenset(store.keys())
    left = {cell.key: cell for cell in cells if cell.key not in stored}
    failures = {key: note for key, note in notes.failures(store).items() if key in left}
    under_way = {pack: note for pack, note in notes.progress(store).items() if not left.keys().isdisjoint(note.keys)}
    asked = [note for note in under_way.values() if _is_asked_of_slurm(note)]
    jobs = slurm_queue.look(asked, slurm_queue.site().cluster) if asked else None
    works = []
    for pack, note in under_way.items():
        own = tuple(left[key] for key in note.keys if key in left and key not in failures)
        age = max(0.0, time.time() - note.written)
        state, why = _state(note, age, jobs)
        works += [Work(pack, note, state, age, own, why)] if own else []
    return Standing(study, tuple(cells), stored, tuple(works), failures, _identities(store, manifest, cells, stored))


def _identities(
    store: Store, manifest: Mapping[str, Any], cells: Iterable[Cell], stored: Collection[str]
) -> dict[str, int]:
    aliases = by_both_keys(store)
    is_old = "cell_schema" not in manifest
    done = {cell.key for cell in cells if cell.key in stored}
    words = [aliases[key].identity if key in aliases else WEIGHTS for key in sorted(done) if is_old or key in aliases]
    return dict(Counter(words))


def planned(manifest: Mapping[str, Any]) -> list[Cell]:
    """The cells that a manifest names, with nothing of their inputs but the key of what they stand on."""
    return [
        Cell(
            target=row["target"],
            intermediate=row["intermediate"],
            seed=row["seed"],
            setting=row["setting"],
            role=row.get("role") or ("transfer" if row["intermediate"] else "baseline"),
            spec={"intermediate_key": row.get("intermediate_key")},
            key=row["key"],
        )
        for row in manifest["cells"]
    ]


def _state(note: notes.Progress, age: float, jobs: Mapping[notes.Progress, Seen] | None) -> tuple[str, str]:
    """What has become of a pack since its note was written, and what is known of the end of one that is silent."""
    seen = None if jobs is None else jobs.get(note)
    if seen is not None and not seen.is_elsewhere:
        if not seen.is_alive or seen.is_stuck:
            what = "waits for one that has died" if seen.is_stuck else "is over"
            return STALLED, f"job {note.job} {what}{f'; {seen.reason}' if seen.is_anothers else ''}"
        if seen.state == "PENDING" or note.state == QUEUED:
            return (QUEUED if seen.state == "PENDING" else RUNNING), ""
    has_ended = note.host == socket.gethostname() and note.pid > 0 and not is_there(note.pid)
    if has_ended and (note.state == RUNNING or note.engine != "slurm"):  # Slurm goes on without who submitted
        return STALLED, f"process {note.pid} on {note.host} is gone"
    if note.state == QUEUED:
        return QUEUED, ""
    is_silent = age > max(SILENT_SECONDS, SILENT_EPOCHS * (note.seconds_an_epoch or 0.0))
    return (STALLED, f"{where(note)} may be gone, or slow") if is_silent else (RUNNING, "")


def _is_asked_of_slurm(note: notes.Progress) -> bool:
    return note.engine == "slurm" and bool(note.job) and shutil.which("squeue") is not None


def where(note: notes.Progress | notes.Failure) -> str:
    """The machine of a note with its process or job, in words."""
    pid = getattr(note, "pid", 0)
    cluster = getattr(note, "cluster", "")
    process = (
        f"job {note.job}{f' of cluster {cluster}' if cluster else ''}" if note.job else f"process {pid}" if pid else ""
    )
    return f"{process} on {note.host}".strip() if note.host else process or "a machine unknown"


def is_there(pid: int) -> bool:
    """Whether a process of this machine has not ended."""
    try:
        os.kill(pid, 0)
        fate = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        return fate[:1] not in (["Z"], ["X"])  # ended, but not yet buried by its parent
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # somebody else's; or a system without /proc
        return True


# About how long a study still takes: from what its running packs need for an epoch, and its finished cells took.

SAMPLE = 8  # finished cells that are looked at, of each target, and of the others where it has none


@dataclass(frozen=True)
class TimeLeft:
    """Seconds of work left in all, divided by the ``packs`` that run now, and what that was reckoned from."""

    seconds: float
    packs: int
    source: str


def time_left(store: Store, now: Standing) -> TimeLeft | None:
    """None where nothing is left, or where nothing is known of what is left; failed cells are left out."""
    waiting = [cell.target for state in (WAITING, QUEUED, STALLED) for cell in now.of(state)]
    running = [work for work in now.works if work.state == RUNNING]
    measured = [(work, seconds) for work in running if (seconds := seconds_left(work)) is not None]
    known = {id(work) for work, _ in measured}
    waiting += [cell.target for work in running if id(work) not in known for cell in work.cells]
    costs = _Costs(store, now)
    alone = [costs.of(target) for target in waiting]
    if not (alone or measured) or None in alone:
        return None
    total = sum(seconds for _, seconds in measured) + sum(seconds or 0.0 for seconds in alone)
    sources = [f"the epochs of {counted(len(measured), 'running pack')}"] if measured else []
    sources += [f"the seconds that {counted(len(costs.seconds), 'finished cell')} took"] if alone else []
    return TimeLeft(total / max(1, len(running)), len(running), " and ".join(sources))


def seconds_left(work: Work) -> float | None:
    """Seconds that a running pack still needs for its epochs, cells that it trains afterwards included; None unknown.

    Lanes train at once; where the note names one cell alone, the others of the pack come after it.
    """
    note, rate = work.note, work.note.seconds_an_epoch
    if rate is None:
        return None
    after = len(work.cells) - 1 if note.label in {cell.label for cell in work.cells} else 0
    return rate * (note.epochs - note.epoch + after * note.epochs)


def counted(number: int, what: str) -> str:
    """A number with what it counts, in the singular or the plural."""
    return f"{number} {what}" + ("" if number == 1 else "s")


class _Costs:
    """Mean seconds of a target's finished cells, or of all where it has none."""

    def __init__(self, store: Store, now: Standing) -> None:
        self.store, self.seconds = store, dict[str, float]()
        self.finished: dict[str, list[str]] = defaultdict(list)
        for cell in now.cells:
            if cell.key in now.stored:
                self.finished[cell.target].append(cell.key)
        self.found: dict[str, float | None] = {}

    def of(self, target: str) -> float | None:
        if target not in self.found:
            own = self._mean(self.finished[target][-SAMPLE:])
            self.found[target] = self.overall if own is None else own
        return self.found[target]

    @cached_property
    def overall(self) -> float | None:
        return self._mean([keys[-1] for keys in self.finished.values() if keys][:SAMPLE])

    def _mean(self, keys: Iterable[str]) -> float | None:
        found = [seconds for key in keys if (seconds := self._seconds(key)) is not None]
        return fmean(found) if found else None

    def _seconds(self, key: str) -> float | None:
        if key not in self.seconds:
            try:
                self.seconds[key] = float(self.store.get(key).provenance["wall_seconds"])
            except (StoreError, KeyError, TypeError, ValueError):
                return None
        return self.seconds[key]
