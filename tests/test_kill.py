"""Fault drill: a run that is killed again and again ends with the tables of one that was not."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest

COMMAND = str(Path(sys.executable).parent / "empathy-transfer")
LANES = ("--set", 'trainer="lanes"')
VOLATILE = ["wall_seconds", "cpu_seconds", "host", "device", "created"]


def run(store, *options):
    return [COMMAND, "run", "tiny", "--store", str(store), "--threads", "1", "--quiet", *options]


def records(store):
    """The stored cells with the moment and content of their records."""
    return {
        path.parent.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in store.glob("objects/*/record.json")
    }


def tables(store, out):
    subprocess.run(
        [COMMAND, "report", "tiny", "--store", str(store), "--out", str(out)], check=True, capture_output=True
    )
    frames = [pd.read_csv(out / name, dtype=str, keep_default_na=False) for name in ("cells.csv", "gains.csv")]
    return [frame.drop(columns=[c for c in VOLATILE if c in frame]).to_csv(index=False).encode() for frame in frames]


def kill_once(store, rng):
    """Start a run, let it finish at least one more cell or a random moment of start-up, and kill it."""
    before = len(records(store))
    process = subprocess.Popen(run(store), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wanted = before + rng.choice([0, 1, 1, 2])
    deadline = time.monotonic() + 120
    while len(records(store)) < wanted and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(rng.uniform(0, 0.5) if wanted > before else rng.uniform(0, 8))
    process.send_signal(signal.SIGKILL)
    process.wait()


@pytest.mark.slow
def test_ten_kills_change_nothing_and_nothing_finished_is_trained_twice(tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    subprocess.run(run(whole), check=True, capture_output=True)
    rng = random.Random(int(os.environ.get("KILL_SEED", "1")))
    for _ in range(10):
        before = records(killed)
        kill_once(killed, rng)
        after = records(killed)
        assert {key: after[key] for key in before} == before, "a finished cell was trained again"
    survived = records(killed)
    done = subprocess.run(run(killed, "--json"), check=True, capture_output=True, text=True)
    report = json.loads(done.stdout)
    assert sorted(report["stored"]) == sorted(survived)
    assert len(report["done"]) + len(survived) == 16
    assert {key: value for key, value in records(killed).items() if key in survived} == survived
    assert tables(killed, tmp_path / "a") == tables(whole, tmp_path / "b")


DYING = """
import os, sys
from {module} import {owner}
done, original = [], {owner}.{name}
def dying(*args, **rest):
    given = original(*args, **rest)
    done.append(None)
    if len(done) == {count}:
        os.kill(os.getpid(), {signal})
    return given
{owner}.{name} = dying
from harness.cli.main import main
sys.exit(main())
"""


def run_that_gets(number, *, after, module, owner, name, command):
    """Start a command in a process that sends itself a signal right after so many calls of a function."""
    script = DYING.format(module=module, owner=owner, name=name, count=after, signal=int(number))
    return subprocess.run([sys.executable, "-c", script, *command[1:]], capture_output=True, text=True)


def kill_in_a_pack(store, after):
    """A run of lanes that is killed when it has begun this many checkpoints; its exit code."""
    written = {"module": "harness.training", "owner": "checkpoint", "name": "write"}
    return run_that_gets(signal.SIGKILL, after=after, **written, command=run(store, *LANES)).returncode


@pytest.mark.slow
def test_lanes_killed_at_any_stage_go_on_from_their_checkpoints_to_the_same_bytes(tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    subprocess.run(run(whole, *LANES), check=True, capture_output=True)
    rng = random.Random(int(os.environ.get("KILL_SEED", "1")))
    for wanted in (2, 12, 1, rng.randint(1, 14), rng.randint(1, 14)):
        before = records(killed)
        assert kill_in_a_pack(killed, wanted) == -signal.SIGKILL
        assert {key: value for key, value in records(killed).items() if key in before} == before
    assert list(killed.glob("packs/*")), "no kill has left a checkpoint: the drill has missed its moment"
    subprocess.run(run(killed, *LANES), check=True, capture_output=True)
    assert not list(killed.glob("packs/*"))
    assert tables(killed, tmp_path / "a") == tables(whole, tmp_path / "b")
    for path in whole.glob("objects/*/*.parquet"):
        assert (killed / path.relative_to(whole)).read_bytes() == path.read_bytes()


@pytest.mark.slow
def test_an_interrupted_run_ends_with_130_keeps_its_cells_and_goes_on(tmp_path):
    store = tmp_path / "runs"
    put = {"module": "adapters_store", "owner": "Store", "name": "put"}
    process = run_that_gets(signal.SIGINT, after=1, **put, command=run(store))
    assert process.returncode == 130
    assert process.stderr.endswith("interrupted; finished cells are in the store, and the same command continues\n")
    kept = records(store)
    assert 0 < len(kept) < 16
    done = subprocess.run(run(store, "--json"), check=True, capture_output=True, text=True)
    assert sorted(json.loads(done.stdout)["stored"]) == sorted(kept)
