"""Runs of ``tiny`` that are killed at random moments and continued, for the fault drill in CI and the longer soak."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from harness.api import Study

COMMAND = str(Path(sys.executable).parent / "empathy-transfer")
CELLS = 16
LANES = ("--set", 'trainer="lanes"')
VOLATILE = ["wall_seconds", "cpu_seconds", "host", "device", "created"]
COUNTING = """
import os, sys
from adapters_store import Store
log, put = os.open(sys.argv.pop(1), os.O_WRONLY | os.O_CREAT | os.O_APPEND), Store.put
def counted(self, key, *given, **named):
    os.write(log, f"{key} {'again' if key in self else 'first'}\\n".encode())
    return put(self, key, *given, **named)
Store.put = counted
from harness.cli.main import main
sys.exit(main())
"""


def run(store, *options, log=None):
    """The command that runs the study; with a ``log``, each training that has come to its end appends a line to it.

    The line is written right before the cell is stored, and says if the store had it already.
    """
    program = [COMMAND] if log is None else [sys.executable, "-c", COUNTING, str(log)]
    return [*program, "run", "tiny", "--store", str(store), "--threads", "1", "--quiet", *options]


def trainings(log):
    """How many trainings have come to their end: ``first`` of cells that were not stored, ``again`` of others."""
    return Counter(line.split()[1] for line in log.read_text().splitlines())


def records(store):
    """The stored cells with the moment and content of their records."""
    return {
        path.parent.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in store.glob("objects/*/record.json")
    }


def tables(store):
    """The bytes of the study's tables, without what says when and where cells were trained."""
    study = Study("tiny", store=store)
    frames = [study.cells(), study.gains()]
    return [frame.drop(columns=[c for c in VOLATILE if c in frame]).to_csv(index=False).encode() for frame in frames]


def kill_once(store, log, rng, options):
    """Start a run and kill it: some moment after the start, or after the next cells; False if it has ended before."""
    before = len(records(store))
    process = subprocess.Popen(run(store, *options, log=log), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wanted = before + rng.choice([0, 1, 1, 2])
    deadline = time.monotonic() + 600
    while len(records(store)) < wanted and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(rng.uniform(0, 0.5) if wanted > before else rng.uniform(0, 8))
    process.send_signal(signal.SIGKILL)
    code = process.wait()
    assert code in (0, -signal.SIGKILL), f"a run ended by itself with {code}"
    return code != 0


@dataclass
class Tally:
    """What came of a drill: kills, and for each study that was killed on its way whether it ended as one that was not.

    ``trained`` counts trainings that came to their end, ``again`` those of cells that the store had; ``changed``
    records that a later run has touched.
    """

    kills: list[int] = field(default_factory=list)
    survived: list[bool] = field(default_factory=list)
    trained: int = 0
    again: int = 0
    changed: int = 0

    def __str__(self) -> str:
        """The counts in words."""
        good = sum(kills for kills, is_same in zip(self.kills, self.survived, strict=True) if is_same)
        return (
            f"{good} of {sum(self.kills)} kills led to the uninterrupted tables ({len(self.kills)} studies of {CELLS}"
            f" cells); {self.trained} trainings came to their end, {self.again} of cells that were stored;"
            f" {self.changed} finished records were touched"
        )


def kill_and_continue(folder, kills, seed, whole, options=(), tally=None):
    """Kill one study at most so many times, let it end, and compare its tables with those of the ``whole`` one."""
    tally, rng, store, log = tally or Tally(), random.Random(seed), folder / "runs", folder / "log"
    folder.mkdir(parents=True)
    log.touch()
    done = 0
    while done < kills and len(records(store)) < CELLS:
        before = records(store)
        done += kill_once(store, log, rng, options)
        after = records(store)
        tally.changed += sum(after.get(key) != value for key, value in before.items())
    before = records(store)
    subprocess.run(run(store, *options, log=log), check=True, capture_output=True)
    tally.changed += sum(records(store)[key] != value for key, value in before.items())
    counted = trainings(log)
    tally.kills.append(done)
    tally.trained, tally.again = tally.trained + counted.total(), tally.again + counted["again"]
    tally.survived.append(tables(store) == whole)
    return tally


def two_drivers(folder, options=()):
    """Run one study twice at once on one store; exit codes, what they wrote to stderr, and the trainings."""
    log = folder / "log"
    folder.mkdir(parents=True)
    command = run(folder / "runs", *options, log=log)
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    told = [process.communicate() for process in both]
    return [process.returncode for process in both], [err for _, err in told], trainings(log)


def environment_seed():
    """The seed of a drill; another one is another drill."""
    return int(os.environ.get("KILL_SEED", "1"))
