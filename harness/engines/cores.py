"""How many processors there are for us, and how many threads torch takes."""

from __future__ import annotations

import os


def cores() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def let_torch_use(threads: int) -> None:
    """How many threads torch takes, once it is loaded in this process or in those that it starts."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(threads)
