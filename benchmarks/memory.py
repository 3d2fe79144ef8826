"""Peak memory of one way of training, in a process that does nothing else (Linux)."""

from __future__ import annotations

from pathlib import Path

from benchmarks.peers import WAYS
from benchmarks.shapes import Shape, network, rows


def extra_bytes(shape: Shape, way: str, steps: int) -> int:
    """Bytes resident at the peak of training beyond those resident once libraries and model were loaded."""
    model, part = network(shape), rows(shape, steps, seed=0)
    WAYS[way](network(Shape(1, 32, 1, 8, 2)), Shape(1, 32, 1, 8, 2))(rows(Shape(1, 32, 1, 8, 2), 1, seed=0))
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from here
    before = _status("VmHWM")
    WAYS[way](model, shape)(part)
    return _status("VmHWM") - before


def _status(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise SystemExit(f"/proc/self/status has no {name}: memory can be measured on Linux only")
