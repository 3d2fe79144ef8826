"""The tasks of a run on Ray, by their references.

This module is imported only when a cluster is connected: Ray reads its environment once, when it is first imported.
"""

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
from harness.study.config import Ray

POLL_SECONDS = 0.5
GRACE_SECONDS = 20  # for a task that is cancelled to end its current training step


@dataclass
class Tasks:
    """The tasks of a run on the cluster that this process is connected to.

    ``running`` maps the reference of a task to its step and to the references that the task waits for; ``newest`` maps
    the id of a pack to the reference of its last submission; ``dead`` are references of tasks that failed for good.
    """

    launch: Launch
    options: Ray
    running: dict[Any, tuple[Step, tuple[Any, ...]]] = field(default_factory=dict)
    newest: dict[str, Any] = field(default_factory=dict)
    dead: set[Any] = field(default_factory=set)
    notes: dict[str, Noted] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """State once what every task takes."""
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
                self.notes[step.pack.id] = self.launch.queue(step.pack, self.job)
                self._submit(step)
            while self.running:
                ended, _ = ray.wait(list(self.running), num_returns=len(self.running), timeout=POLL_SECONDS)
                for reference in ended:
                    yield from self._end(reference)
        finally:  # stop the tasks that still run, and remove their notes
            left = list(self.running)
            try:
                for reference in left:
                    ray.cancel(reference)
                if left:
                    ray.wait(left, num_returns=len(left), timeout=GRACE_SECONDS)
            finally:
                for note in self.notes.values():
                    note.end()

    def _submit(self, step: Step) -> None:
        references = map(self.newest.__getitem__, sorted(step.after))
        after = tuple(reference for reference in references if reference not in self.dead)
        task = self.task.remote(self.launch.job(step.pack), self.job, *after)
        self.newest[step.pack.id] = task
        self.running[task] = step, after

    def _end(self, ended: Any) -> Iterator[Outcome]:  # noqa: ANN401 - Ray has no types
        """The outcomes of a task that ended.

        A task that waits for a task that died is ended by Ray without being run. It is submitted again, without the
        dead reference, so that it runs with what the store has.
        """
        if ended not in self.running:
            return
        step, after = self.running.pop(ended)
        problem = _problem(ended)
        if problem is not None:
            self.dead.add(ended)
            ready, _ = ray.wait(list(after), num_returns=len(after), timeout=0) if after else ([], [])
            for reference in ready:
                yield from self._end(reference)
            if self.dead.intersection(after):
                self._submit(step)
                return
        # the outcomes of a pack from the store; a cell that it knows nothing of has failed, which is noted there
        lost = f"its Ray task died: {problem}" if problem else "its Ray task ended without a word of it"
        note, outcomes = self.notes.pop(step.pack.id), self.launch.outcomes(step.pack, lost)
        for outcome in outcomes:
            if outcome.error == lost:
                note.fail(outcome.cell.key, outcome.cell.label, lost, "")
        note.end()
        yield from outcomes


def run_pack(pack: RemotePack, job: Job, *after: Sequence[str]) -> list[str]:
    """Run a pack in a task once the tasks that it comes ``after`` have ended; the keys of its cells that are stored."""
    return [outcome.cell.key for outcome in pack(replace(job, log=_log())) if outcome.error is None]


def _log() -> str:
    """The file that Ray writes this process's stderr to; empty where that is unknown."""
    try:
        path = Path("/proc/self/fd/2").readlink()
    except OSError:
        return ""
    return str(path) if path.is_file() else ""


def _problem(ended: Any) -> str | None:  # noqa: ANN401 - Ray has no types
    """Why a task failed, in one line; None if it did not."""
    try:
        ray.get(ended)
    except RayTaskError as problem:
        return _line(problem.cause)
    except Exception as problem:  # Ray has a class of its own for every cause
        return _line(problem)
    return None


def _line(problem: BaseException) -> str:
    text = next((line.strip() for line in str(problem).splitlines() if line.strip()), "")
    return f"{type(problem).__name__}: {text}"
