"""The local engine with two workers of one thread against one worker of two threads, on the same study.

Every run is the command a user would type, in a process of its own, with a store of its own that is thrown away. Runs
of both ways alternate, so that a busy moment strikes both. Seconds pass by the clock on the wall, since waiting for
each other is what threads lose; CPU seconds of a run and of the processes it starts stand beside them, and the load of
the machine before each round, without which the ratio cannot be judged.

    python -m benchmarks.trainings.workers                     # the study demo, three rounds
    python -m benchmarks.trainings.workers --study tiny --rounds 1
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks import machine

WAYS = {"2 workers, 1 thread": (2, 1), "1 worker, 2 threads": (1, 2)}
Seconds = tuple[float, float]  # on the wall, of the CPUs


def main(arguments: Sequence[str] | None = None) -> None:
    """Run both ways in turn and print seconds and ratios."""
    options = _parser().parse_args(arguments)
    runs: dict[str, list[Seconds]] = {way: [] for way in WAYS}
    for number in range(1, options.rounds + 1):
        print(f"round {number}: load {os.getloadavg()[0]:.2f}", flush=True)
        for way, (workers, threads) in WAYS.items():
            runs[way].append(_run(options.study, workers, threads))
            print(f"  {way}: {runs[way][-1][0]:7.1f} s, {runs[way][-1][1]:7.1f} CPU s", flush=True)
    two, one = runs.values()
    ratios = [theirs[0] / ours[0] for ours, theirs in zip(two, one, strict=True)]
    print(f"{options.study}: two workers are {statistics.median(ratios):.2f} times as fast as two threads")
    print(f"  by round: {', '.join(f'{ratio:.2f}' for ratio in ratios)}")
    print(f"  CPU seconds of two threads for one of two workers: {_cpu(one) / _cpu(two):.2f}")
    print(f"  {machine.described()}")


def _cpu(runs: Sequence[Seconds]) -> float:
    return statistics.median(cpu for _, cpu in runs)


def _run(study: str, workers: int, threads: int) -> Seconds:
    """Seconds of one whole run; it ends the program if a cell failed."""
    counts = [f"--workers={workers}", f"--threads={threads}"]
    with tempfile.TemporaryDirectory() as folder:
        store = f"--store={Path(folder) / 'runs'}"
        command = [sys.executable, "-m", "harness.cli.main", "run", study, "--device=cpu", "--quiet", store, *counts]
        started, before = time.perf_counter(), _cpu_of_children()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return time.perf_counter() - started, _cpu_of_children() - before


def _cpu_of_children() -> float:
    """CPU seconds of all processes that have ended below this one."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--study", default="demo")
    parser.add_argument("--rounds", type=int, default=3)
    return parser


if __name__ == "__main__":
    main()
