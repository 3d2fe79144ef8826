"""Peak memory of one way of training, in a process that does nothing else (Linux)."""

from __future__ import annotations

from pathlib import Path

from benchmarks.peers import WAYS
from benchmarks.shapes import Shape, network, rows


def extra_bytes(shape: Shape, way: str, steps: int) -> int:
    """Bytes resident at the peak of training beyond those resident once libraries and model were loaded."""
    model, part = network(shape), rows(shape, steps, seed=0)
    WAYS[way](network(Shape(1, 32, 1, 8, 2)), Shape(1, 32, 1, 8, 2))(rows(Shape(1, 32, 1, 8, 2), 1, seed=0))
    before = start_peak()
    WAYS[way](model, shape)(part)
    return resident_peak() - before


def start_peak() -> int:
    """Bytes resident now, from where the peak starts again."""
    Path("/proc/self/clear_refs").write_text("5")
    return resident_peak()


def resident_peak() -> int:
    """The most bytes that were resident since ``start_peak``."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise SystemExit("/proc/self/status has no VmHWM: memory can be measured on Linux only")
