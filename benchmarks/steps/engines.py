"""How much less CPU time lanes need than what a user would write: ratios first, then milliseconds and memory.

All ways train in one process in interleaved rounds; in a round every way sees the same rows. Times are CPU seconds
(`time.process_time`) of a cell-step: one optimizer step of one cell. The ratio is taken within a round; printed are
the median and the smallest and largest round. Memory is measured in a fresh process per way: the highest resident set
while it trains, less what was resident before (libraries loaded, model built).

    python -m benchmarks.steps.engines --layers 4 --width 128 --lanes 18 --mean 40
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Sequence

import torch

from benchmarks import machine
from benchmarks.steps.peak import resident_peak, start_peak
from benchmarks.steps.peers import WAYS, Run, cells
from benchmarks.steps.shapes import Shape, network, rows

SLOW = {"trainer-512": 1}  # steps of a round, for ways that cannot be waited for
MEMORY_STEPS = 3


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one shape and print it."""
    options = _parser().parse_args(arguments)
    torch.set_num_threads(options.threads)
    shape = Shape(options.layers, options.width, options.lanes, options.mean, options.batch)
    if options.memory_of:
        print(extra_bytes(shape, options.memory_of, MEMORY_STEPS))
        return
    if "trainer-dynamic" in options.ways or "trainer-512" in options.ways:
        machine.require_accelerate()
    times = measured(shape, options.ways, steps=options.steps, rounds=options.rounds)
    print(f"{shape}; {options.threads} thread(s), {options.rounds} round(s) of {options.steps} step(s)")
    print(table(times, [way for way in options.ways if way.startswith("lanes")]))
    if options.memory:
        print(_memory_table({way: _apart(way, arguments or sys.argv[1:]) for way in options.ways}))
    if options.json:
        print(json.dumps({"shape": shape.__dict__, "machine": machine.described(), "seconds": times}))


def measured(shape: Shape, ways: Sequence[str], *, steps: int, rounds: int) -> dict[str, list[float]]:
    """CPU seconds of a cell-step, per way and round; one step of every way goes before and is not counted."""
    runs: dict[str, Run] = {way: WAYS[way](network(shape), shape) for way in ways}
    times: dict[str, list[float]] = {way: [] for way in ways}
    for run in runs.values():
        run(rows(shape, 1, seed=0))
    for number in range(1, rounds + 1):
        for way, run in runs.items():
            count = min(steps, SLOW.get(way, steps))
            times[way].append(run(rows(shape, count, seed=number)) / (count * cells(way, shape)))
    return times


def table(times: dict[str, list[float]], ours: Sequence[str]) -> str:
    """Ratios of every other way against each of ``ours``, then milliseconds of a cell-step."""
    lines = []
    for one in ours:
        for way in times:
            if way != one:
                ratios = [theirs / own for theirs, own in zip(times[way], times[one], strict=True)]
                lines.append(f"  {way:16} / {one:11} {spread(ratios, '7.2f')}")
    for way, seconds in times.items():
        lines.append(f"  {way:16} ms a cell-step {spread([1000 * value for value in seconds], '9.1f')}")
    return "\n".join(lines)


def spread(values: Sequence[float], form: str) -> str:
    """Median and range."""
    return f"{statistics.median(values):{form}}  ({min(values):{form}} ..{max(values):{form}})"


def extra_bytes(shape: Shape, way: str, steps: int) -> int:
    """Bytes resident at the peak of training beyond those resident once libraries and model were loaded (Linux)."""
    model, part, small = network(shape), rows(shape, steps, seed=0), Shape(1, 32, 1, 8, 2)
    WAYS[way](network(small), small)(rows(small, 1, seed=0))
    before = start_peak()
    WAYS[way](model, shape)(part)
    return resident_peak() - before


def _apart(way: str, arguments: Sequence[str]) -> float:
    """Extra bytes of one way, measured in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.steps.engines", *arguments, "--memory-of", way]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1])


def _memory_table(extra: dict[str, float]) -> str:
    one = extra.get("trainer-dynamic")
    lines = []
    for way, found in extra.items():
        against = f"   {found / one:5.2f} of one trainer-dynamic run" if one else ""
        lines.append(f"  {way:16} extra memory {found / 2**20:8.0f} MiB{against}")
    return "\n".join(lines)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=128, help="hidden size; adapters have width / 16")
    parser.add_argument("--lanes", type=int, default=18, help="cells of the column")
    parser.add_argument("--mean", type=int, default=40, help="tokens of a row, lognormal, sigma 0.6, cut at 512")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", type=int, default=3, help="optimizer steps of a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ways", nargs="+", choices=list(WAYS), default=list(WAYS))
    parser.add_argument("--memory", action="store_true", help="measure memory too, in a process per way")
    parser.add_argument("--memory-of", choices=list(WAYS), help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true", help="print every round too")
    return parser


if __name__ == "__main__":
    main()
