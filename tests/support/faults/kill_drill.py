"""Runs of ``tiny`` that are killed at random moments and continued, for the fault drill in CI and the longer soak."""

import os
import random
import signal
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from harness.api import Study
from tests.support.faults.warm_start import Command, completed

COMMAND = str(Path(sys.executable).parent / "empathy-transfer")
CELLS = 16
SMALL = [f"--set={name}" for name in ("synthetic_rows=200", "max_train=32", "max_val=16", "max_test=16")]
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
"""


def words(store, *options):
    """What is said to the command for it to run the study, with fewer rows than it has."""
    return ["run", "tiny", "--store", str(store), "--threads", "1", "--quiet", *SMALL, *options]


def run(store, *options):
    """The command that runs the study, as a person starts it."""
    return [COMMAND, *words(store, *options)]


def counted(store, log, *options):
    """A run of which each training that has come to its end appends a line to the ``log``.

    The line is written right before the cell is stored, and says if the store had it already.
    """
    return Command(words(store, *options), patch=COUNTING, patch_words=[log])


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
    process = counted(store, log, *options)
    wanted = before + rng.choice([0, 1, 1, 2])
    deadline = time.monotonic() + 600
    while len(records(store)) < wanted and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(rng.uniform(0, 0.5) if wanted > before else rng.uniform(0, 3))
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
    assert counted(store, log, *options).wait() == 0
    tally.changed += sum(records(store)[key] != value for key, value in before.items())
    ended = trainings(log)
    tally.kills.append(done)
    tally.trained, tally.again = tally.trained + ended.total(), tally.again + ended["again"]
    tally.survived.append(tables(store) == whole)
    return tally


def two_drivers(folder, options=()):
    """Run one study twice at once on one store; exit codes, what they wrote to stderr, and the trainings."""
    log = folder / "log"
    folder.mkdir(parents=True)
    both = [counted(folder / "runs", log, *options) for _ in range(2)]
    told = [process.communicate() for process in both]
    return [process.returncode for process in both], [err for _, err in told], trainings(log)


def whole_run(store, *options):
    """Run the study to its end, in a process of its own; the store."""
    completed(words(store, *options), check=True)
    return store


def environment_seed():
    """The seed of a drill; another one is another drill."""
    return int(os.environ.get("KILL_SEED", "1"))
