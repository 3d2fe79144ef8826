"""Packs in processes of this machine, several at a time: small matrices gain more from processes than from threads."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import Any

from harness.engines.local import Runner
from harness.grid import Outcome, RunPack
from harness.plan import Pack

POLL_SECONDS = 0.2
_here: dict[str, Any] = {}  # what a worker process was started with


@dataclass(frozen=True)
class WorkersEngine:
    """Runs up to ``count`` packs at once, each in a process with ``threads`` threads; outcomes come as packs end."""

    count: int
    threads: int

    def run(self, function: RunPack, packs: Iterable[Pack]) -> Iterator[Outcome]:
        """Yield every cell's outcome; the cells of a process that dies have failed, and say so."""
        packs = list(packs)
        if not packs:
            return
        if not isinstance(function, Runner):
            raise TypeError(f"{function!r} cannot be sent to another process")
        count = min(self.count, len(packs))
        context = multiprocessing.get_context("spawn")
        told = context.SimpleQueue()
        sent = replace(function, watch=_tell, place=replace(function.place, processes=count))
        pool = ProcessPoolExecutor(count, context, _start, (sent, told, self.threads))
        try:
            running = {pool.submit(_run, pack): pack for pack in packs}
            while running:
                done, _ = wait(running, POLL_SECONDS, FIRST_COMPLETED)
                while not told.empty():
                    function.watch(*told.get())
                for future in done:
                    yield from _outcomes(future, running.pop(future))
        finally:
            for process in multiprocessing.active_children():
                process.terminate()
            pool.shutdown(wait=True, cancel_futures=True)


def _outcomes(future: Future[list[Outcome]], pack: Pack) -> list[Outcome]:
    try:
        return future.result()
    except Exception as problem:  # failure is data: the grid goes on
        return [Outcome(cell, f"its process ended early: {type(problem).__name__}: {problem}") for cell in pack.cells]


def _start(function: Runner, told: Any, threads: int) -> None:  # noqa: ANN401 - queues have no public type
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; the first process alone decides what it means
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(threads)
    _here.update(function=function, told=told)


def _run(pack: Pack) -> list[Outcome]:
    return list(_here["function"](pack))


def _tell(what: str, epoch: int, epochs: int) -> None:
    _here["told"].put((what, epoch, epochs))
