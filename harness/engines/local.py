"""Packs on this machine: one after the other in this process, or several at a time in worker processes.

`Runner` runs a pack, whichever engine it is sent by, and keeps a note of it in the store. Small matrices gain more from
processes than from threads, so `WorkersEngine` runs packs in processes of few threads each.
"""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from typing import Any

from adapters_store import Store
from harness.run import notes
from harness.run.grid import Outcome, RunPack, Step, final_outcomes, startable
from harness.study.backbone import Backbone
from harness.study.device import ANY_DEVICE, Device, let_torch_use
from harness.study.plan import Pack
from harness.study.systems import add_files
from harness.systems import system_of
from tasks.splits.loading import Splits

POLL_SECONDS = 0.2


class LocalEngine:
    """Runs every pack in this process; the reference that other engines must equal."""

    def run(self, function: RunPack, steps: Sequence[Step]) -> Iterator[Outcome]:
        """Yield the outcomes in the order of the cells."""
        for step in steps:
            yield from function(step.pack)


@dataclass(frozen=True)
class Job:
    """What the notes of a pack name as its job: study, engine, and the scheduler's id and log file if there is one.

    The last four fields identify a job of Slurm among others of its number; see `harness.run.notes.Progress`.
    """

    study: str
    engine: str = "local"
    id: str = ""
    log: str = ""
    name: str = ""
    user: int = -1
    cluster: str = ""
    submitted: float = 0.0


NO_STUDY = Job("")


@dataclass(frozen=True)
class Runner:
    """A function that runs a pack; it can be sent to another process, and loads torch only when it is called.

    ``watch`` is called with the label, epoch and number of epochs of what is trained. ``keep`` says whose adapters are
    stored: ``all``, or only those of ``baselines``. ``systems`` are the Python files that the command line has named.
    """

    backbone: Backbone
    splits: dict[str, Splits]
    store: Store
    watch: Callable[[str, int, int], None]
    device: Device = ANY_DEVICE
    job: Job = NO_STUDY
    keep: str = "all"
    systems: tuple[str, ...] = ()

    def __call__(self, pack: Pack) -> Iterator[Outcome]:
        """The outcome of every cell of the pack; notes in the store show its progress and failures to others."""
        return self.run_as(pack.id, pack)

    def run_as(self, id: str, pack: Pack) -> Iterator[Outcome]:
        """The same, with notes under the id that the pack had when it was planned."""
        add_files(self.systems)
        missing, outcomes = startable(pack, self.store)
        yield from outcomes
        if missing is not None:
            yield from self._run(id, missing)

    def _run(self, id: str, pack: Pack) -> Iterator[Outcome]:
        from harness.run.pack import PackRunner

        note = note_of(self.store, id, pack, self.job)

        def watch(label: str, epoch: int, epochs: int) -> None:
            note.watch(label, epoch, epochs)
            self.watch(label, epoch, epochs)

        for cell in pack.cells:
            notes.forget(self.store, cell.key)
        note.watch(pack.first.label, 0, system_of(pack.first.spec).steps(pack.first.spec))
        try:
            runner = PackRunner(self.backbone, self.splits, self.store, watch, self.device, self.keep)
            for outcome in runner.run_pack(pack):
                if outcome.error is not None:
                    note.fail(outcome.cell.key, outcome.cell.label, outcome.error, outcome.trace)
                yield outcome
        finally:
            note.end()


def note_of(store: Store, id: str, pack: Pack, job: Job) -> notes.Noted:
    """The note of a pack that is queued or run under an id."""
    keys = tuple(cell.key for cell in pack.cells)
    label = pack.first.label + (f" and {len(keys) - 1} more" if len(keys) > 1 else "")
    now = notes.Progress("queued", job.study, keys, label, job.engine, job=job.id, log=job.log)
    now = replace(now, job_name=job.name, user=job.user, cluster=job.cluster, submitted=job.submitted)
    return notes.Noted(store, id, now)


@dataclass(frozen=True)
class WorkersEngine:
    """Runs up to ``count`` packs at once, each in a process with ``threads`` threads; outcomes come as packs end.

    When a process dies, the pool of processes is lost. The packs that were running then resume from their checkpoints
    one at a time: each has all the memory, and one that kills its process again takes no other pack with it.
    """

    count: int
    threads: int

    def run(self, function: RunPack, steps: Sequence[Step]) -> Iterator[Outcome]:
        """Yield every cell's outcome; the cells of a pack whose process dies again have failed, and say so."""
        if not steps:
            return
        if not isinstance(function, Runner):
            raise TypeError(f"{function!r} cannot be sent to another process")
        crew = _Crew(function, min(self.count, len(steps)), self.threads)
        waiting, ended, interrupted = list(steps), set[str](), set[str]()  # interrupted: by the death of a process
        running: dict[Future[list[Outcome]], Step] = {}
        try:
            while waiting or running:
                room = (1 if interrupted else crew.count) - len(running)
                for step in [step for step in waiting if step.after <= ended][:room]:
                    waiting.remove(step)
                    running[crew.submit(step.pack)] = step
                done, _ = wait(running, POLL_SECONDS, FIRST_COMPLETED)
                crew.listen()
                if any(map(_is_lost, done)):  # then so are all that have not ended
                    done, _ = wait(running)
                    crew.restart()
                for future in done:
                    step = running.pop(future)
                    if _is_lost(future) and step.pack.id not in interrupted:
                        waiting.insert(0, step)
                        interrupted.add(step.pack.id)
                    else:
                        interrupted.discard(step.pack.id)
                        ended.add(step.pack.id)
                        yield from _outcomes(future, step.pack, function)
        finally:
            crew.dismiss([step.pack for step in running.values()])


class _Crew:
    """The worker processes, and the queue in which they report their progress."""

    def __init__(self, function: Runner, count: int, threads: int) -> None:
        self.function, self.count, self.threads = function, count, threads
        self.context = multiprocessing.get_context("spawn")
        self.restart()

    def restart(self) -> None:
        """Start new processes; the earlier ones have died, or wait for one that has."""
        self.reports = self.context.SimpleQueue()
        function = replace(self.function, watch=_report, device=replace(self.function.device, processes=self.count))
        arguments = (function, self.reports, self.context.Value("i", 0), self.threads)
        self.pool = ProcessPoolExecutor(self.count, self.context, _start, arguments)

    def submit(self, pack: Pack) -> Future[list[Outcome]]:
        """The future outcomes of a pack; if a process has died since the last look, the pack counts as lost with it."""
        try:
            return self.pool.submit(_run, pack)
        except BrokenProcessPool as problem:
            lost: Future[list[Outcome]] = Future()
            lost.set_exception(problem)
            return lost

    def listen(self) -> None:
        """Pass the reports of the processes on to the function's ``watch``."""
        while not self.reports.empty():
            self.function.watch(*self.reports.get())

    def dismiss(self, packs: Sequence[Pack]) -> None:
        """End the processes, also those that run ``packs``, and remove the notes that these leave."""
        for process in multiprocessing.active_children():
            process.terminate()
        self.pool.shutdown(wait=True, cancel_futures=True)
        for pack in packs:
            note_of(self.function.store, pack.id, pack, self.function.job).end()


def _is_lost(future: Future[list[Outcome]]) -> bool:
    """Whether a process of the pool has died, this pack's own or another."""
    return isinstance(future.exception(), BrokenProcessPool)


def _outcomes(future: Future[list[Outcome]], pack: Pack, function: Runner) -> list[Outcome]:
    """The outcomes that a process returned. If it died, failures are noted here, since it could not do so itself."""
    try:
        return future.result()
    except Exception as problem:  # failure is data: the grid goes on
        reason = f"its process ended early: {type(problem).__name__}: {problem}"
    note = note_of(function.store, pack.id, pack, function.job)
    unknown, outcomes = final_outcomes(pack, function.store)
    for cell in unknown:
        note.fail(cell.key, cell.label, reason, "")
        outcomes.append(Outcome(cell, reason))
    note.end()
    return outcomes


# What follows runs in a worker process, whose globals hold what it was started with.

_here: dict[str, Any] = {}


def _start(function: Runner, reports: Any, counter: Any, threads: int) -> None:  # noqa: ANN401 - no public types
    with counter.get_lock():
        number, counter.value = counter.value, counter.value + 1
    threading.Thread(target=_end_with_driver, daemon=True).start()
    for signal_number in (signal.SIGINT, signal.SIGHUP):  # all processes receive them; only the driver acts on them
        signal.signal(signal_number, signal.SIG_IGN)
    let_torch_use(threads)
    _here.update(function=replace(function, device=replace(function.device, number=number)), reports=reports)


def _end_with_driver() -> None:
    """End this process when its driver does; after a kill of the driver nothing else would end it."""
    driver = multiprocessing.parent_process()
    if driver is not None:
        driver.join()
        os._exit(1)


def _run(pack: Pack) -> list[Outcome]:
    return list(_here["function"](pack))


def _report(label: str, epoch: int, epochs: int) -> None:
    _here["reports"].put((label, epoch, epochs))
