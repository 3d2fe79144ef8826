"""Fault drill: runs that are killed, or run twice at once, end with the tables of one that was left alone."""

import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from harness.engines.status import is_alive
from tests.support.faults.kill_drill import (
    CELLS,
    LANES,
    environment_seed,
    kill_and_continue,
    records,
    run,
    tables,
    two_drivers,
    whole_run,
    words,
)
from tests.support.faults.warm_start import completed

TWO = (*LANES, "--workers", "2")
PATIENCE_SECONDS = 240
DYING = """
import os
from harness.training import checkpoint
done, original = [], checkpoint.write
def dying(*args, **rest):
    given = original(*args, **rest)
    done.append(None)
    if len(done) == {count}:
        os.kill(os.getpid(), {signal})
    return given
checkpoint.write = dying
"""


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The store of a run that was left alone."""
    return whole_run(tmp_path_factory.mktemp("whole") / "runs")


@pytest.fixture(scope="module")
def whole_lanes(tmp_path_factory):
    """The same in lanes."""
    return whole_run(tmp_path_factory.mktemp("whole") / "runs", *LANES)


def run_that_gets(number, store, *, after):
    """A run in lanes, in a process that sends itself a signal right after it has written so many checkpoints."""
    patch = DYING.format(count=after, signal=int(number))
    return completed(words(store, *LANES), patch=patch)


def assert_same_bytes(store, whole):
    """The same tables and the same predictions, and nothing left of packs."""
    assert not list(store.glob("packs/*"))
    assert tables(store) == tables(whole)
    for path in whole.glob("objects/*/*.parquet"):
        assert (store / path.relative_to(whole)).read_bytes() == path.read_bytes()


@pytest.mark.slow
def test_ten_kills_change_nothing_and_nothing_finished_is_trained_twice(whole, tmp_path):
    tally, number = None, 0
    while tally is None or sum(tally.kills) < 10:
        left = 10 - (sum(tally.kills) if tally else 0)
        seed = environment_seed() + number
        tally = kill_and_continue(tmp_path / str(number), left, seed, tables(whole), tally=tally)
        number += 1
    assert all(tally.survived), str(tally)
    assert (tally.again, tally.changed) == (0, 0), str(tally)
    assert tally.trained >= CELLS * number, "the log of trainings lacks some: the drill has counted nothing"


@pytest.mark.slow
def test_lanes_killed_at_any_stage_go_on_from_their_checkpoints_to_the_same_bytes(whole_lanes, tmp_path):
    killed = tmp_path / "killed"
    rng = random.Random(environment_seed())
    for wanted in (2, 12, 1, rng.randint(1, 14), rng.randint(1, 14)):
        before = records(killed)
        died = run_that_gets(signal.SIGKILL, killed, after=wanted)
        assert died.returncode == -signal.SIGKILL
        assert {key: value for key, value in records(killed).items() if key in before} == before
    assert list(killed.glob("packs/*")), "no kill has left a checkpoint: the drill has missed its moment"
    whole_run(killed, *LANES)
    assert_same_bytes(killed, whole_lanes)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_run_that_is_told_to_end_ends_with_130_keeps_its_checkpoints_and_goes_on(whole_lanes, tmp_path, number):
    store = tmp_path / "runs"
    ended = run_that_gets(number, store, after=11)
    assert ended.returncode == 130
    assert ended.stderr.endswith("interrupted; finished cells are in the store, and the same command continues\n")
    assert list(store.glob("packs/*/*.safetensors"))
    assert not list(store.glob("packs/*/progress.json")), "the note of a run that was stopped stays"
    kept = records(store)
    whole_run(store, *LANES)
    assert {key: value for key, value in records(store).items() if key in kept} == kept
    assert_same_bytes(store, whole_lanes)


@pytest.mark.slow
def test_two_drivers_at_once_store_every_cell_once_and_the_same(whole_lanes, tmp_path):
    codes, errors, counted = two_drivers(tmp_path / "two", LANES)
    store = tmp_path / "two" / "runs"
    assert codes == [0, 0]
    assert not any("its repetition differs" in text for text in errors)
    assert len(records(store)) == len(list(store.glob("objects/*"))) == CELLS
    assert not list(store.glob("staging/*"))
    assert CELLS <= counted.total() <= 2 * CELLS
    assert_same_bytes(store, whole_lanes)


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


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="processes are told by /proc")
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 130), (signal.SIGHUP, 130), (signal.SIGKILL, -signal.SIGKILL)]
)
def test_a_driver_takes_its_workers_with_it(whole_lanes, tmp_path, number, code):
    store = tmp_path / "runs"
    process = subprocess.Popen(
        run(store, *TWO), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert wait_until(lambda: list(store.glob("packs/*/*.1.safetensors")), process), "the run ended before its moment"
    workers = children(process.pid)
    assert len(workers) >= 2
    if number == signal.SIGHUP:  # a terminal that is closed sends it to all
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    _, err = process.communicate()
    assert process.returncode == code
    assert number == signal.SIGKILL or "the same command continues\n" in err  # trackers of memory may add lines
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (left := [pid for pid in workers if is_alive(pid)]) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not left
    if number == signal.SIGKILL:  # nobody has tidied up: workers, too, go on from what is there
        whole_run(store, *TWO)
    whole_run(store, *LANES)
    assert_same_bytes(store, whole_lanes)
