"""The local engine: packs one after the other, in this process."""

from __future__ import annotations

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
from harness.run.grid import Outcome, RunPack, Step, settled, startable
from harness.study.backbones.backbone import Backbone
from harness.study.device import ANY_DEVICE, Device, let_torch_use
from harness.study.plan import Pack
from tasks.splits.loading import Splits


class LocalEngine:
    """Runs every pack here and now; the reference that other engines must equal."""

    def run(self, function: RunPack, steps: Sequence[Step]) -> Iterator[Outcome]:
        """Yield the outcomes in the order of the cells."""
        for step in steps:
            yield from function(step.pack)


@dataclass(frozen=True)
class Job:
    """For whom a pack is run, in its notes: study, engine, and the scheduler's id and log file where there is one.

    The last four are what tells a job of Slurm from others of its number; see `harness.run.notes.Progress`.
    """

    study: str
    engine: str = "local"
    id: str = ""
    log: str = ""
    name: str = ""
    user: int = -1
    cluster: str = ""
    submitted: float = 0.0


NOBODY = Job("")


@dataclass(frozen=True)
class Runner:
    """Runs a pack with what it needs; can be sent to another process, and loads torch only when it is called.

    ``keep`` says whose adapters are stored: ``all``, or only those of ``baselines``.
    """

    backbone: Backbone
    splits: dict[str, Splits]
    store: Store
    watch: Callable[[str, int, int], None]
    device: Device = ANY_DEVICE
    job: Job = NOBODY
    keep: str = "all"

    def __call__(self, pack: Pack) -> Iterator[Outcome]:
        """The outcome of every cell of the pack; notes in the store tell others how far it is, and what failed."""
        return self.run_as(pack.id, pack)

    def run_as(self, id: str, pack: Pack) -> Iterator[Outcome]:
        """The same, with notes under the id that the pack had when it was planned."""
        wanted, others = startable(pack, self.store)
        yield from others
        if wanted is not None:
            yield from self._run(id, wanted)

    def _run(self, id: str, pack: Pack) -> Iterator[Outcome]:
        from harness.run.pack import PackRunner

        noted = noted_of(self.store, id, pack, self.job)

        def watch(what: str, epoch: int, epochs: int) -> None:
            noted.watch(what, epoch, epochs)
            self.watch(what, epoch, epochs)

        for cell in pack.cells:
            notes.forget(self.store, cell.key)
        noted.watch(pack.cells[0].label, 0, pack.cells[0].spec["training"]["epochs"])
        try:
            for one in PackRunner(self.backbone, self.splits, self.store, watch, self.device, self.keep).run_pack(pack):
                if one.error is not None:
                    noted.fail(one.cell.key, one.cell.label, one.error, one.trace)
                yield one
        finally:
            noted.end()


def noted_of(store: Store, id: str, pack: Pack, job: Job) -> notes.Noted:
    """The note of a pack that is queued or run under an id."""
    keys = tuple(cell.key for cell in pack.cells)
    label = pack.cells[0].label + (f" and {len(keys) - 1} more" if len(keys) > 1 else "")
    now = notes.Progress("queued", job.study, keys, label, job.engine, job=job.id, log=job.log)
    now = replace(now, job_name=job.name, user=job.user, cluster=job.cluster, submitted=job.submitted)
    return notes.Noted(store, id, now)


# Packs in processes of this machine, several at a time: small matrices gain more from processes than from threads.

POLL_SECONDS = 0.2
_here: dict[str, Any] = {}  # what a worker process was started with


@dataclass(frozen=True)
class WorkersEngine:
    """Runs up to ``count`` packs at once, each in a process with ``threads`` threads; outcomes come as packs end.

    When a process dies, the packs that were at work go on from their checkpoints, one at a time: with more memory for
    each, and so that none that dies again takes others with it.
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
        waiting, ended, shaken = list(steps), set[str](), set[str]()
        running: dict[Future[list[Outcome]], Step] = {}
        try:
            while waiting or running:
                room = (1 if shaken else crew.count) - len(running)
                for step in [one for one in waiting if one.after <= ended][:room]:
                    waiting.remove(step)
                    running[crew.submit(step.pack)] = step
                done, _ = wait(running, POLL_SECONDS, FIRST_COMPLETED)
                crew.listen()
                if any(map(_is_lost, done)):  # then all that have not ended are
                    done, _ = wait(running)
                    crew.restart()
                for future in done:
                    step = running.pop(future)
                    if _is_lost(future) and step.pack.id not in shaken:
                        waiting.insert(0, step)
                        shaken.add(step.pack.id)
                    else:
                        shaken.discard(step.pack.id)
                        ended.add(step.pack.id)
                        yield from _outcomes(future, step.pack, function)
        finally:
            crew.dismiss([step.pack for step in running.values()])


class _Crew:
    """The processes, and what they tell of their progress."""

    def __init__(self, function: Runner, count: int, threads: int) -> None:
        self.function, self.count, self.threads = function, count, threads
        self.context = multiprocessing.get_context("spawn")
        self.restart()

    def restart(self) -> None:
        """Start anew; whoever was there has died, or is of no use to the others."""
        self.told = self.context.SimpleQueue()
        sent = replace(self.function, watch=_tell, device=replace(self.function.device, processes=self.count))
        start = (sent, self.told, self.context.Value("i", 0), self.threads)
        self.pool = ProcessPoolExecutor(self.count, self.context, _start, start)

    def submit(self, pack: Pack) -> Future[list[Outcome]]:
        """What will become of a pack; a process that died since the last look is told of as if at work on it."""
        try:
            return self.pool.submit(_run, pack)
        except BrokenProcessPool as problem:
            lost: Future[list[Outcome]] = Future()
            lost.set_exception(problem)
            return lost

    def listen(self) -> None:
        """Hand on what was told."""
        while not self.told.empty():
            self.function.watch(*self.told.get())

    def dismiss(self, packs: Sequence[Pack]) -> None:
        """End the processes, also those that are at work on ``packs``, and take away the notes that they leave."""
        for process in multiprocessing.active_children():
            process.terminate()
        self.pool.shutdown(wait=True, cancel_futures=True)
        for pack in packs:
            noted_of(self.function.store, pack.id, pack, self.function.job).end()


def _is_lost(future: Future[list[Outcome]]) -> bool:
    """Whether the process that was to give it, or a neighbour of that, has died."""
    return isinstance(future.exception(), BrokenProcessPool)


def _outcomes(future: Future[list[Outcome]], pack: Pack, function: Runner) -> list[Outcome]:
    """What a process has told, or why it cannot; that is kept in the store, for it could not do so itself."""
    try:
        return future.result()
    except Exception as problem:  # failure is data: the grid goes on
        reason = f"its process ended early: {type(problem).__name__}: {problem}"
    noted = noted_of(function.store, pack.id, pack, function.job)
    unknown, told = settled(pack, function.store)
    for cell in unknown:
        noted.fail(cell.key, cell.label, reason, "")
        told.append(Outcome(cell, reason))
    noted.end()
    return told


def _start(function: Runner, told: Any, counter: Any, threads: int) -> None:  # noqa: ANN401 - have no public types
    with counter.get_lock():
        number, counter.value = counter.value, counter.value + 1
    threading.Thread(target=_end_with_driver, daemon=True).start()
    for number in (signal.SIGINT, signal.SIGHUP):  # they reach all; the first process alone decides what they mean
        signal.signal(number, signal.SIG_IGN)
    let_torch_use(threads)
    _here.update(function=replace(function, device=replace(function.device, number=number)), told=told)


def _end_with_driver() -> None:
    """Nobody would ever end a process, or free its memory, whose driver was killed."""
    driver = multiprocessing.parent_process()
    if driver is not None:
        driver.join()
        os._exit(1)


def _run(pack: Pack) -> list[Outcome]:
    return list(_here["function"](pack))


def _tell(what: str, epoch: int, epochs: int) -> None:
    _here["told"].put((what, epoch, epochs))
