"""The Ray engine: packs become tasks of a Ray cluster, which schedules and restarts them; the store has the outcomes.

The cluster is one that exists, or one of this machine's own that lives as long as the run. The tasks themselves are in
`harness.engines.ray_tasks`, which is imported once a cluster is connected.
"""

import logging
import os
import secrets
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import chdir, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.engines.remote import Launch
from harness.run.grid import Outcome, RunPack, Step
from harness.study.config import Ray
from harness.study.device import cores
from tasks.errors import BadInput

OBJECT_BYTES = 80 * 2**20  # about the least that Ray accepts; only keys pass through its store
PROBE_SECONDS = 10  # Ray itself gives up on an address after minutes
ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class RayEngine:
    """Runs every pack as a task that takes the references of the tasks it comes after; outcomes come as tasks end.

    A task whose process or node dies is restarted by Ray, and resumes from its checkpoints in the store.
    """

    options: Ray

    def __post_init__(self) -> None:
        """BadInput for shares that Ray cannot assign, before anything is written."""
        for name in ("cpus", "gpus"):
            count = getattr(self.options, name)
            if count > 1 and count != int(count):
                raise BadInput(f"ray.{name} {count:g}: Ray deals out a share of one, or a whole number")

    def run(self, function: RunPack, steps: Sequence[Step]) -> Iterator[Outcome]:
        """Yield every cell's outcome; the cells of a task that fails for good have failed for its reason.

        BadInput if there is no cluster at the address, or if none of its nodes has what a task takes.
        """
        if not steps:
            return
        if not isinstance(function, Launch):
            raise TypeError(f"{function!r} cannot be sent to another machine")
        launch = function if function.threads else replace(function, threads=max(1, int(self.options.cpus)))
        with connected(self.options):
            from harness.engines.ray_tasks import Tasks

            yield from Tasks(launch, self.options).outcomes(steps)


@contextmanager
def connected(options: Ray) -> Iterator[None]:
    """A connection to the cluster at the address, or to a new one on loopback, which ends with the connection.

    A program that is connected already keeps its connection. BadInput for an address where there is no cluster, and
    for a cluster where no node has what a task takes.
    """
    if not options.address:
        # let a cluster of our own listen on loopback only, require a token, and report no usage. Ray reads these
        # variables once, when it is imported. RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER makes it keep the address 127.0.0.1;
        # without a token it would write one into the home folder
        if "ray" not in sys.modules:
            os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
            os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray

    is_ours = not ray.is_initialized()
    try:
        if is_ours:
            _connect(options.address)
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        needs = {"CPU": options.cpus, "GPU": options.gpus}
        if not any(all(node.get(name, 0) >= count for name, count in needs.items()) for node in nodes):
            there = "; ".join(f"{node.get('CPU', 0):g} CPU and {node.get('GPU', 0):g} GPU" for node in nodes)
            raise BadInput(
                f"no node of the Ray cluster has the {options.cpus:g} CPU and {options.gpus:g} GPU of a job; they have "
                f"{there or 'nothing'}: set ray.cpus and ray.gpus to what one has"
            )
        yield
    finally:
        if is_ours:
            ray.shutdown()


def _connect(address: str) -> None:
    """Start a cluster or connect to an existing one; BadInput if that fails."""
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
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), PROBE_SECONDS).close()
        except (OSError, ValueError, OverflowError) as problem:
            raise BadInput(
                f"no Ray cluster can be reached at ray.address {address!r} ({problem}); write the HOST:PORT that its"
                " head was started with, 'auto' for the one on this machine, or nothing to start one"
            ) from None
    try:
        with _own_signals(), chdir(ROOT):  # the current folder comes first on the path of Ray's workers
            ray.init(**options)
            ray._private.worker._worker_logs_enabled = False  # it would print failures into a table or JSON on stdout
    except Exception as problem:
        where = f"connect to the cluster at {address!r}" if address else "start on this machine"
        reason = " ".join(str(problem).split())[:300]
        raise BadInput(f"Ray cannot {where}: {type(problem).__name__}: {reason}") from None


@contextmanager
def _own_signals() -> Iterator[None]:
    """Restore the handler of SIGTERM, which Ray replaces when it connects."""
    handler = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)
