"""A Ray cluster of a head and two nodes on this machine, started by Ray's command line as a site would."""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.clusters.processes import session_of

RAY = Path(sys.executable).parent / "ray"
UP = "Ray runtime started"
TOKEN = secrets.token_hex(32)  # of all clusters: a driver in this process reads its token once
START_SECONDS, TRIES = 240, 3
SMALL = ("--disable-usage-stats", "--object-store-memory=83886080", "--num-gpus=0")


def require_ray() -> None:
    """Skip for users without Ray; CI must have it."""
    if find_spec("ray") is None:
        if os.environ.get("CI"):
            pytest.fail("Ray is not installed; CI needs the extra `ray`")
        pytest.skip("Ray is not installed")


@dataclass
class RayCluster:
    """Processes of the head and the nodes, each with a session and a loopback address of its own."""

    folder: Path
    port: int = field(default_factory=lambda: _free_port())
    members: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"127.0.0.2:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """What a driver needs to be let in, and to find the processes it starts on one thread."""
        return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": TOKEN, "OMP_NUM_THREADS": "1"}

    def start(self) -> None:
        head = ("--head", f"--port={self.port}", "--num-cpus=0", "--include-dashboard=false")
        self._add("127.0.0.2", *head)
        for number in (3, 4):
            self.add_node(number)

    def add_node(self, number: int) -> None:
        self._add(f"127.0.0.{number}", f"--address={self.address}", "--num-cpus=1")

    def _add(self, ip: str, *options: str) -> None:
        """Start one member and wait until it is up; on a busy machine Ray may give up on itself, and is asked again."""
        for _ in range(TRIES):
            log = self.folder / f"{ip}.log"
            member_of = (f"--node-ip-address={ip}", f"--temp-dir={self.folder}", "--block")
            with log.open("wb") as file:
                member = subprocess.Popen(
                    [RAY, "start", *member_of, *SMALL, *options],
                    env=os.environ | self.environment,
                    stdout=file,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            deadline = time.monotonic() + START_SECONDS
            while member.poll() is None and time.monotonic() < deadline:
                if UP in log.read_text():
                    self.members.append(member)
                    return
                time.sleep(0.1)
            _kill(member)
        pytest.fail(f"Ray did not start on {ip}: {log.read_text()[-2000:]}")

    def kill_node_of(self, pid: int) -> None:
        """Kill all processes of the node that a process belongs to, as a power cut would."""
        session = os.getsid(pid)
        (member,) = [one for one in self.members[1:] if one.pid == session]
        _kill(member)
        self.members.remove(member)

    def stop(self) -> None:
        """Kill what was started here, and no other Ray."""
        for member in self.members:
            _kill(member)
        shutil.rmtree(self.folder, ignore_errors=True)


def _free_port() -> int:
    with socket.create_server(("127.0.0.2", 0)) as one:
        return int(one.getsockname()[1])


def _kill(member: subprocess.Popen[bytes]) -> None:
    while left := session_of(member.pid):
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
    member.wait()


@contextmanager
def ray_cluster() -> Iterator[RayCluster]:
    """A head without processors and two nodes with one each, for as long as the block lasts."""
    require_ray()
    cluster = RayCluster(Path(tempfile.mkdtemp(prefix="ray", dir="/tmp")))  # sockets need a short path
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
