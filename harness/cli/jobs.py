"""``cancel`` and ``retry``: end what runs of a study, and train again what has failed."""

from __future__ import annotations

import argparse
import io
import os
import re
import shutil
import signal
import socket
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import redirect_stderr, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from adapters_store import Store
from harness.cli.options import leaf_options, plan_options, train_options
from harness.cli.run import add_demo, add_run, train
from harness.cli.status import study_words
from harness.cli.study import name_of, study_of
from harness.cli.terminal import print_json
from harness.engines import slurm_queue
from harness.engines.slurm_queue import JobStatus
from harness.engines.status import is_alive, location
from harness.preflight.smoke import SMOKE
from harness.run import notes
from harness.sharing.stored import stored_manifest
from tasks.errors import BadInput


def add_retry(retry: argparse.ArgumentParser) -> None:
    """Add the options of ``retry``."""
    leaf_options(retry, "retry real-small --data data", retry_study)
    retry.add_argument("--failed", action="store_true", help="the cells that failed when last tried: always those")
    plan_options(retry)
    train_options(retry)


def add_cancel(cancel: argparse.ArgumentParser) -> None:
    """Add the options of ``cancel``."""
    leaf_options(cancel, "cancel demo", cancel_study)
    cancel.add_argument("study", metavar="STUDY", help="a study that the store has")


# Which processes of this machine run a study: this user's own, started by this program's commands for it.
# The system is asked right before a signal is sent: the number in a note may long be another process's.

COMMANDS = {"run": add_run, "retry": add_retry, "demo": add_demo}


@dataclass(frozen=True)
class _Process:
    """What the system says of a process: its command line, working folder and environment."""

    arguments: Sequence[str]
    folder: Path
    environment: dict[str, str]


def drivers(study: str, root: Path) -> list[int]:
    """Ids of processes that were started as one of COMMANDS of the study on the store at ``root``."""
    return [pid for pid, process in _own_processes() if pid != os.getpid() and _runs(process, study, root.resolve())]


def _own_processes() -> Iterator[tuple[int, _Process]]:
    """All processes of this user, with their ids."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):  # it has ended meanwhile, or may not be looked at
            if process.uids().effective == os.geteuid():
                yield process.pid, _Process(process.cmdline(), Path(process.cwd()), process.environ())


def _runs(process: _Process, study: str, root: Path) -> bool:
    words = _words_after_program(process.arguments)
    options = _parse(words) if words and words[0] in COMMANDS else None
    if options is None or _study_of(options, process.folder) != study:
        return False
    is_named = any(word.startswith("--st") for word in words)
    store = options.store if is_named else process.environment.get("EMPATHY_STORE") or "runs"
    return (process.folder / store).resolve() == root


def _words_after_program(arguments: Sequence[str]) -> Sequence[str]:
    """What was typed after the program's name; nothing if it is another program."""
    if not arguments or not Path(arguments[0]).name.startswith(("python", "empathy-transfer")):
        return ()
    for start, word in enumerate(arguments[:4]):
        if Path(word).name == "empathy-transfer" or arguments[start : start + 2] == ["-m", "harness.cli.main"]:
            return arguments[start + (2 if word == "-m" else 1) :]
    return ()


def _parse(words: Sequence[str]) -> argparse.Namespace | None:
    """The options of a command that trains; None if they are none of this program's."""
    parser = argparse.ArgumentParser()
    nouns = parser.add_subparsers(required=True)
    for name, add in COMMANDS.items():
        add(nouns.add_parser(name))
    with suppress(SystemExit), redirect_stderr(io.StringIO()):
        return parser.parse_args(list(words))
    return None


def _study_of(options: argparse.Namespace, folder: Path) -> str | None:
    """The name under which the store knows what such a command runs; None for a file that is no study."""
    study = getattr(options, "study", "demo")
    with suppress(BadInput):
        name = name_of(str(folder / study) if study.endswith(".toml") else study)
        return name + (SMOKE if getattr(options, "smoke", False) else "")
    return None


PATIENCE_SECONDS = 30.0
JOB = re.compile(r"\d+(_\d+)?")  # nothing else of a note is given to a command


def retry_study(options: argparse.Namespace) -> int:
    """Train the cells that failed and the transfers stacked on them; exit code 1 when a cell fails again."""
    study = study_of(options)
    study.on(options.device, options.engine)
    failed = notes.failures(study.store).keys() & {cell.key for cell in study.plan.cells}
    above = {cell.key for cell in study.plan.cells if failed.intersection(cell.stands_on)}
    if not failed and not options.json:
        print(f"no cell of study {study.config.name!r} has failed since it was last tried")
        return 0
    return train(study, options, failed | above)


def cancel_study(options: argparse.Namespace) -> int:
    """End what runs or is queued for a study; exit code 1 if something is left that cannot be ended from here."""
    store, name = Store(Path(options.store)), name_of(options.study)
    stored_manifest(store, name, cells_only=True)  # NotRun if the store does not know it
    processes, (jobs, cancelled) = _end_drivers(name, store.root), _end_jobs(store, name)
    ended, left = [*processes, *jobs], _remaining(store, name, cancelled)
    if options.json:
        print_json({"ended": ended, "left": left})
        return 1 if left else 0
    for line in (*ended, *left):
        print(line)
    if ended:
        print(f"finished cells and checkpoints stay in the store; to go on: empathy-transfer run {study_words(name)}")
    if not ended and not left:
        print(f"nothing of study {name!r} runs or is queued")
    return 1 if left else 0


def _end_drivers(study: str, root: Path) -> list[str]:
    """Tell this machine's processes that run the study to stop, as Ctrl-C would, and wait for them."""
    pids = []
    for pid in drivers(study, root):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
            pids.append(pid)
    left = _wait_for(lambda: [pid for pid in pids if is_alive(pid)])
    return [f"process {pid} {'was told to end, and is still at it' if pid in left else 'ended'}" for pid in pids]


def _end_jobs(store: Store, study: str) -> tuple[list[str], set[str]]:
    """Take the study's jobs of Slurm out of the queue, and their notes away once they are over.

    Returns a line for each job, and the packs whose jobs were cancelled. A foreign job that has taken the number of one
    of the study's is left alone; so are all if Slurm does not say whose they are.
    """
    slurm_notes = {pack: note for pack, note in notes.progress(store, study).items() if note.engine == "slurm"}
    slurm_notes = {pack: note for pack, note in slurm_notes.items() if JOB.fullmatch(note.job)}
    if not slurm_notes or shutil.which("scancel") is None:
        return [], set()
    queue = _job_statuses(slurm_notes)
    alive = {pack: note.job for pack, note in slurm_notes.items() if queue is not None and queue[note].is_alive}
    if alive:
        slurm_queue.cancel(sorted(set(alive.values())))
    left = _wait_for(lambda: _alive({pack: slurm_notes[pack] for pack in alive}))
    for pack, note in slurm_notes.items():
        if queue is not None and not queue[note].is_elsewhere and pack not in left:
            _take_away(store, pack)
    ended = {job: "was told to end, and is still at it" if pack in left else "ended" for pack, job in alive.items()}
    if queue is not None:
        ended |= {note.job: f"was over; {seen.reason}" for note, seen in queue.items() if seen.is_anothers}
    return [f"job {job} {what}" for job, what in ended.items()], set(alive)


def _job_statuses(slurm_notes: Mapping[str, notes.Progress]) -> Mapping[notes.Progress, JobStatus] | None:
    return slurm_queue.look(list(slurm_notes.values()), slurm_queue.site().cluster)


def _alive(slurm_notes: Mapping[str, notes.Progress]) -> list[str]:
    """The packs whose jobs are not over, as far as Slurm says."""
    queue = _job_statuses(slurm_notes) if slurm_notes else {}
    return [pack for pack, note in slurm_notes.items() if queue is None or queue[note].is_alive]


def _remaining(store: Store, study: str, cancelled: Collection[str]) -> list[str]:
    """What goes on, with what can be done about it; notes of processes of this machine that are gone are taken away."""
    here = {pack: note for pack, note in notes.progress(store, study).items() if note.host == socket.gethostname()}
    here = {pack: note for pack, note in here.items() if note.engine != "slurm" and note.pid}
    running = _wait_for(lambda: [pack for pack, note in here.items() if note.engine == "ray" and is_alive(note.pid)])
    for pack, note in here.items():
        if pack not in running and not is_alive(note.pid):
            _take_away(store, pack)
    return [_cure(note, study) for pack, note in notes.progress(store, study).items() if pack not in cancelled]


def _cure(note: notes.Progress, study: str) -> str:
    what = f"{note.label} goes on, {location(note)}:"
    if note.engine == "slurm":
        return f"{what} where its cluster answers: scancel {note.job if JOB.fullmatch(note.job) else 'JOB'}"
    if note.engine == "ray":
        return f"{what} its jobs end with the run that sent them; there, empathy-transfer cancel {study}"
    if note.host == socket.gethostname():
        return f"{what} not started by a command of this program for this store; if it is yours: kill {note.pid}"
    return f"{what} there, empathy-transfer cancel {study}"


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
