"""A run with several processes that is stopped or killed leaves none of them behind, and goes on to the same bytes."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import pytest

from harness.standing import is_there
from tests.kill_drill import LANES, run, tables

pytestmark = pytest.mark.slow
TWO = (*LANES, "--workers", "2")
PATIENCE_SECONDS = 240


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The tables of a run that was left alone."""
    store = tmp_path_factory.mktemp("whole") / "runs"
    subprocess.run(run(store, *LANES), check=True, capture_output=True)
    return tables(store)


def wait_until(is_so, process):
    """Wait for something that the run does while it runs; then whether it still ran."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    return process.poll() is None


def children(pid):
    """Ids of a process's children, and theirs."""
    path = Path(f"/proc/{pid}/task/{pid}/children")
    found = [int(child) for child in path.read_text().split()] if path.is_file() else []
    return found + [below for child in found for below in children(child)]


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="processes are told by /proc")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 130), (signal.SIGKILL, -signal.SIGKILL)])
def test_a_driver_takes_its_workers_with_it(whole, tmp_path, number, code):
    store = tmp_path / "runs"
    process = subprocess.Popen(run(store, *TWO), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert wait_until(lambda: list(store.glob("packs/*/*.1.safetensors")), process), "the run ended before its moment"
    workers = children(process.pid)
    assert len(workers) >= 2
    process.send_signal(number)
    _, err = process.communicate()
    assert process.returncode == code
    assert number == signal.SIGKILL or err.endswith("the same command continues\n")
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (left := [pid for pid in workers if is_there(pid)]) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not left
    subprocess.run(run(store, *TWO), check=True, capture_output=True)
    assert tables(store) == whole
    assert not list(store.glob("packs/*"))
