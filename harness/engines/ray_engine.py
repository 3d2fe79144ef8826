"""Packs as tasks of a Ray cluster: Ray schedules them and begins them again, the store tells what became of them."""

from __future__ import annotations

import logging
import os
import secrets
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import chdir, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayTaskError

from harness.engines.local import Job
from harness.engines.remote import Launch, RemotePack
from harness.run.grid import Outcome, RunPack, Step
from harness.run.notes import Noted
from harness.study.device import cores
from harness.study.schedulers import Ray
from tasks.errors import BadInput

# The tasks of a run on Ray, by their references.

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


# The Ray cluster that a run uses: one that is there, or one of this machine's own for as long as the run lasts.

OBJECT_BYTES = 80 * 2**20  # about the least that Ray takes; only keys pass through its store
PROBE_SECONDS = 10  # Ray itself gives an address up after minutes
ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def connected(options: Ray) -> Iterator[None]:
    """A connection to the cluster at the address, or to a new one on loopback, which ends with it.

    A program that is connected already keeps its connection. BadInput for an address where there is no cluster, and
    for a cluster where no node has what a task takes.
    """
    if not options.address:
        _keep_to_ourselves()
    import ray

    is_ours = not ray.is_initialized()
    try:
        if is_ours:
            _connect(options.address)
        _check_nodes(options)
        yield
    finally:
        if is_ours:
            ray.shutdown()


def _keep_to_ourselves() -> None:
    """Let a cluster of our own listen on loopback, to who has its token, and report to nobody.

    Ray reads this once, when it is loaded; the second name makes it take 127.0.0.1 for what it is. Without the token
    it would write one into the home folder.
    """
    if "ray" not in sys.modules:
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")


def _connect(address: str) -> None:
    """Start a cluster or connect to one; BadInput if that cannot be done."""
    import ray

    options: dict[str, Any] = {
        "address": address or "local",
        "runtime_env": {"env_vars": {"PYTHONSAFEPATH": "1"}},
        "log_to_driver": False,
        "logging_level": logging.ERROR,
    }
    if not address:
        options |= {"num_cpus": cores(), "object_store_memory": OBJECT_BYTES}
        options |= {"include_dashboard": False, "_node_ip_address": "127.0.0.1"}
    elif address != "auto":
        _check_address(address)
    try:
        with _own_signals(), chdir(ROOT):  # the current folder comes first on the path of Ray's workers
            ray.init(**options)
            ray._private.worker._worker_logs_enabled = False  # it would tell of deaths on stdout, amid a table or JSON
    except Exception as problem:
        where = f"connect to the cluster at {address!r}" if address else "start on this machine"
        reason = " ".join(str(problem).split())[:300]
        raise BadInput(f"Ray cannot {where}: {type(problem).__name__}: {reason}") from None


def _check_address(address: str) -> None:
    """BadInput if nobody listens there."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), PROBE_SECONDS).close()
    except (OSError, ValueError, OverflowError) as problem:
        raise BadInput(
            f"no Ray cluster can be reached at ray.address {address!r} ({problem}); write the HOST:PORT that its head "
            "was started with, 'auto' for the one on this machine, or nothing to start one"
        ) from None


def _check_nodes(options: Ray) -> None:
    """BadInput if a task would wait for ever."""
    import ray

    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    wanted = {"CPU": options.cpus, "GPU": options.gpus}
    if not any(all(node.get(name, 0) >= count for name, count in wanted.items()) for node in nodes):
        there = "; ".join(f"{node.get('CPU', 0):g} CPU and {node.get('GPU', 0):g} GPU" for node in nodes)
        raise BadInput(
            f"no node of the Ray cluster has the {options.cpus:g} CPU and {options.gpus:g} GPU of a job; they have "
            f"{there or 'nothing'}: set ray.cpus and ray.gpus to what one has"
        )


@contextmanager
def _own_signals() -> Iterator[None]:
    """Give SIGTERM back its meaning, which Ray takes away when it connects."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


@dataclass(frozen=True)
class RayEngine:
    """Runs every pack as a task that takes the references of the tasks it comes after; outcomes come as tasks end.

    A task whose process or node dies is begun again by Ray, and goes on from its checkpoints in the store.
    """

    options: Ray

    def __post_init__(self) -> None:
        """BadInput for what Ray cannot deal out, before anything is written."""
        for name in ("cpus", "gpus"):
            count = getattr(self.options, name)
            if count > 1 and count != int(count):
                raise BadInput(f"ray.{name} {count:g}: Ray deals out a share of one, or a whole number")

    def run(self, function: RunPack, steps: Sequence[Step]) -> Iterator[Outcome]:
        """Yield every cell's outcome; those of a task that dies for good have failed, and say of what.

        BadInput if there is no cluster at the address, or none of its nodes has what a task takes.
        """
        if not steps:
            return
        if not isinstance(function, Launch):
            raise TypeError(f"{function!r} cannot be sent to another machine")
        launch = function if function.threads else replace(function, threads=max(1, int(self.options.cpus)))
        with connected(self.options):
            pass

            yield from Tasks(launch, self.options).outcomes(steps)
