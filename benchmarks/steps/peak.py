"""The most memory that this process has held (Linux)."""

from __future__ import annotations

from pathlib import Path


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
