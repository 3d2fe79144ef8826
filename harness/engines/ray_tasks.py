"""The tasks of a run on Ray, by their references.

This module is imported only when a cluster is connected: Ray reads its environment once, when it is first imported.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayTaskError

from harness.engines.local import Job
from harness.engines.remote import Launch, RemotePack
from harness.run.grid import Outcome, Step
from harness.run.notes import Noted
from harness.study.schedulers import Ray

POLL_SECONDS = 0.5
GRACE_SECONDS = 20  # for a task that is told to stop; the step of training that it is in must end first


@dataclass
class Tasks:
    """The tasks that are under way on the cluster that this process is connected to."""

    launch: Launch
    options: Ray
    running: dict[Any, tuple[Step, tuple[Any, ...]]] = field(default_factory=dict)  # with what a task waits for
    newest: dict[str, Any] = field(default_factory=dict)  # reference of every pack
    dead: set[Any] = field(default_factory=set)
    noted: dict[str, Noted] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Say once what every task takes."""
        self.job = Job(self.launch.study, "ray", ray.get_runtime_context().get_job_id())
        self.task = ray.remote(
            num_cpus=self.options.cpus,
            num_gpus=self.options.gpus,
            max_retries=self.options.tries - 1,
            retry_exceptions=True,
            max_calls=0,  # a process goes on to the next pack: loading torch takes longer than a small pack
        )(run_pack)

    def outcomes(self, steps: Sequence[Step]) -> Iterator[Outcome]:
        """The outcomes of all steps as their tasks end."""
        try:
            for step in steps:
                self.noted[step.pack.id] = self.launch.queue(step.pack, self.job)
                self._submit(step)
            while self.running:
                ended, _ = ray.wait(list(self.running), num_returns=len(self.running), timeout=POLL_SECONDS)
                for one in ended:
                    yield from self._end(one)
        finally:
            self._stop()

    def _submit(self, step: Step) -> None:
        after = tuple(one for one in map(self.newest.__getitem__, sorted(step.after)) if one not in self.dead)
        one = self.task.remote(self.launch.job(step.pack), self.job, *after)
        self.newest[step.pack.id] = one
        self.running[one] = step, after

    def _end(self, ended: Any) -> Iterator[Outcome]:  # noqa: ANN401 - Ray has no types
        """The outcomes of a task that ended.

        One that waited for a task that died has died of that, without a try: it is sent again, to find what is there.
        """
        if ended not in self.running:
            return
        step, after = self.running.pop(ended)
        problem = _problem(ended)
        if problem is not None:
            self.dead.add(ended)
            known, _ = ray.wait(list(after), num_returns=len(after), timeout=0) if after else ([], [])
            for one in known:
                yield from self._end(one)
            if self.dead.intersection(after):
                self._submit(step)
                return
        yield from self._told(step, problem)

    def _told(self, step: Step, problem: str | None) -> Sequence[Outcome]:
        """What the store knows of the pack; a cell that it knows nothing of has failed, and a note keeps that."""
        lost = f"its Ray task died: {problem}" if problem else "its Ray task ended without a word of it"
        noted, told = self.noted.pop(step.pack.id), self.launch.outcomes(step.pack, lost)
        for one in told:
            if one.error == lost:
                noted.fail(one.cell.key, one.cell.label, lost, "")
        noted.end()
        return told

    def _stop(self) -> None:
        """Stop what is not over, and take its notes away."""
        left = list(self.running)
        try:
            for one in left:
                ray.cancel(one)
            if left:
                ray.wait(left, num_returns=len(left), timeout=GRACE_SECONDS)
        finally:
            for noted in self.noted.values():
                noted.end()


def run_pack(pack: RemotePack, job: Job, *after: Sequence[str]) -> list[str]:
    """Run a pack in a task once those that it comes ``after`` have ended; keys of the cells that the store now has."""
    outcomes = pack(replace(job, log=_log()))
    return [one.cell.key for one in outcomes if one.error is None]


def _log() -> str:
    """The file that Ray writes this process's stderr to; empty where that cannot be told."""
    try:
        path = Path("/proc/self/fd/2").readlink()
    except OSError:
        return ""
    return str(path) if path.is_file() else ""


def _problem(ended: Any) -> str | None:  # noqa: ANN401 - Ray has no types
    """Of what a task died, in one line; None for one that did not."""
    try:
        ray.get(ended)
    except RayTaskError as problem:
        return _line(problem.cause)
    except Exception as problem:  # Ray has a class for every way to die
        return _line(problem)
    return None


def _line(problem: BaseException) -> str:
    text = next((line.strip() for line in str(problem).splitlines() if line.strip()), "")
    return f"{type(problem).__name__}: {text}"
