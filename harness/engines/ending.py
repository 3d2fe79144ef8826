"""Ends what runs or is queued for a study: processes of this machine, and jobs of Slurm, but nothing of others."""

import os
import re
import shutil
import signal
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import psutil

from adapters_store import Store
from harness.engines import slurm_queue
from harness.engines.status import is_alive, location
from harness.run import notes

PATIENCE_SECONDS = 30.0
STAYS = "was told to end, and is still at it"
JOB = re.compile(r"\d+(_\d+)?")  # nothing else of a note is given to a command


class Ended(NamedTuple):
    """A line for each process and job that was told to end, and for each that goes on, with what can be done."""

    ended: list[str]
    left: list[str]


def end_study(store: Store, study: str, pids: Sequence[int]) -> Ended:
    """End these processes of this machine, and the study's jobs of Slurm."""
    stopped = []
    for pid in pids:  # told to stop, as Ctrl-C would
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
            stopped.append(pid)
    left = _wait_for(lambda: [pid for pid in stopped if is_alive(pid)])
    ended = [f"process {pid} {STAYS if pid in left else 'ended'}" for pid in stopped]
    jobs, cancelled = _end_jobs(store, study)
    # what goes on; notes of processes of this machine that are gone are taken away
    here = {pack: note for pack, note in notes.progress(store, study).items() if note.host == socket.gethostname()}
    here = {pack: note for pack, note in here.items() if note.engine != "slurm" and note.pid}
    running = _wait_for(lambda: [pack for pack, note in here.items() if note.engine == "ray" and is_alive(note.pid)])
    for pack, note in here.items():
        if pack not in running and not is_alive(note.pid):
            _take_away(store, pack)
    going_on = {pack: note for pack, note in notes.progress(store, study).items() if pack not in cancelled}
    return Ended([*ended, *jobs], [_cure(note, study) for note in going_on.values()])


# Processes of this machine. The system is asked right before a signal is sent: the number in a note may long be another
# process's.


@dataclass(frozen=True)
class Process:
    """What the system says of a process: its command line, working folder and environment."""

    arguments: Sequence[str]
    folder: Path
    environment: dict[str, str]


def own_processes() -> Iterator[tuple[int, Process]]:
    """All processes of this user, with their ids."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):  # it has ended meanwhile, or may not be looked at
            if process.uids().effective == os.geteuid():
                yield process.pid, Process(process.cmdline(), Path(process.cwd()), process.environ())


def words_after_program(arguments: Sequence[str]) -> Sequence[str]:
    """What was typed after the program's name; nothing if it is another program."""
    if not arguments or not Path(arguments[0]).name.startswith(("python", "empathy-transfer")):
        return ()
    for start, word in enumerate(arguments[:4]):
        if Path(word).name == "empathy-transfer" or arguments[start : start + 2] == ["-m", "harness.cli.main"]:
            return arguments[start + (2 if word == "-m" else 1) :]
    return ()


def _end_jobs(store: Store, study: str) -> tuple[list[str], set[str]]:
    """Take the study's jobs of Slurm out of the queue, and their notes away once they are over.

    Returns a line for each job, and the packs whose jobs were cancelled. A foreign job that has taken the number of one
    of the study's is left alone; so are all if Slurm does not say whose they are.
    """
    slurm_notes = {pack: note for pack, note in notes.progress(store, study).items() if note.engine == "slurm"}
    slurm_notes = {pack: note for pack, note in slurm_notes.items() if JOB.fullmatch(note.job)}
    if not slurm_notes or shutil.which("scancel") is None:
        return [], set()
    cluster = slurm_queue.site().cluster
    queue = slurm_queue.look(list(slurm_notes.values()), cluster)
    alive = {pack: note.job for pack, note in slurm_notes.items() if queue is not None and queue[note].is_alive}
    if alive:
        slurm_queue.cancel(sorted(set(alive.values())))

    def unfinished() -> list[str]:
        """The packs whose jobs are not over, as far as Slurm says."""
        now = slurm_queue.look([slurm_notes[pack] for pack in alive], cluster) if alive else {}
        return [pack for pack in alive if now is None or now[slurm_notes[pack]].is_alive]

    left = _wait_for(unfinished)
    for pack, note in slurm_notes.items():
        if queue is not None and not queue[note].is_elsewhere and pack not in left:
            _take_away(store, pack)
    ended = {job: STAYS if pack in left else "ended" for pack, job in alive.items()}
    if queue is not None:
        ended |= {note.job: f"was over; {seen.reason}" for note, seen in queue.items() if seen.is_anothers}
    return [f"job {job} {end}" for job, end in ended.items()], set(alive)


def _cure(note: notes.Progress, study: str) -> str:
    start = f"{note.label} goes on, {location(note)}:"
    if note.engine == "slurm":
        return f"{start} where its cluster answers: scancel {note.job if JOB.fullmatch(note.job) else 'JOB'}"
    if note.engine == "ray":
        return f"{start} its jobs end with the run that sent them; there, empathy-transfer run {study} --cancel"
    if note.host == socket.gethostname():
        return f"{start} not started by a command of this program for this store; if it is yours: kill {note.pid}"
    return f"{start} there, empathy-transfer run {study} --cancel"


def _take_away(store: Store, pack: str) -> None:
    note = notes.progress(store).get(pack)
    if note is not None:
        notes.Noted(store, pack, note).end()


def _wait_for(left: Callable[[], Sequence[object]]) -> Sequence[object]:
    """What is still left after half a minute, or as soon as nothing is."""
    until = time.monotonic() + PATIENCE_SECONDS
    while (rest := left()) and time.monotonic() < until:
        time.sleep(0.2)
    return rest
