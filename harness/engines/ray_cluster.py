"""The Ray cluster that a run uses: one that is there, or one of this machine's own for as long as the run lasts."""

from __future__ import annotations

import logging
import os
import secrets
import signal
import threading
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path

import ray

from harness.engines.cores import cores
from harness.engines.options import Ray
from tasks.errors import BadInput

OBJECT_BYTES = 80 * 2**20  # about the least that Ray takes; only keys pass through its store
ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def connected(options: Ray) -> Iterator[None]:
    """A connection to the cluster at the address, or to a new one on loopback, which ends with it.

    A program that is connected already keeps its connection. BadInput for an address where there is no cluster, and
    for a cluster where no node has what a task takes.
    """
    if ray.is_initialized():
        _check_nodes(options)
        yield
        return
    try:
        with _own_signals():
            _connect(options)
        _check_nodes(options)
        yield
    finally:
        ray.shutdown()


def _connect(options: Ray) -> None:
    shared = {
        "runtime_env": {"env_vars": {"PYTHONSAFEPATH": "1"}},
        "log_to_driver": False,
        "logging_level": logging.ERROR,
    }
    # Ray puts the current folder before all others on every worker's path: one that holds a tasks.py would hide ours
    with chdir(ROOT):
        if not options.address:
            with _environment(RAY_USAGE_STATS_ENABLED="0", RAY_AUTH_TOKEN=secrets.token_hex(32)):
                ray.init(
                    "local",
                    num_cpus=cores(),
                    include_dashboard=False,
                    object_store_memory=OBJECT_BYTES,
                    _node_ip_address="127.0.0.1",
                    **shared,
                )
            return
        try:
            ray.init(options.address, **shared)
        except Exception as problem:
            reason = " ".join(str(problem).split())
            raise BadInput(
                f"no Ray cluster can be reached at {options.address!r} ({type(problem).__name__}: {reason[:200]}); "
                "check the address with: ray status --address ADDRESS"
            ) from None


def _check_nodes(options: Ray) -> None:
    """BadInput if a task would wait for ever."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    wanted = {"CPU": options.cpus, "GPU": options.gpus}
    if not any(all(node.get(name, 0) >= count for name, count in wanted.items()) for node in nodes):
        there = "; ".join(f"{node.get('CPU', 0):g} CPU and {node.get('GPU', 0):g} GPU" for node in nodes)
        raise BadInput(
            f"no node of the Ray cluster has {options.cpus:g} CPU and {options.gpus:g} GPU for a job (they have: "
            f"{there or 'nothing'}); set ray.cpus and ray.gpus to what one has"
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


@contextmanager
def _environment(**values: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
