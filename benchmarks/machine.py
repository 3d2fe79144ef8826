"""Where a figure was measured, and what a benchmark needs installed."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
from pathlib import Path

PACKAGES = ("adapters", "torch", "transformers", "accelerate")


def described() -> dict[str, str | list[float]]:
    """Processor, cores, load over 1, 5 and 15 minutes, and versions of what is compared."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    flags = next((line.split() for line in lines if line.startswith("flags")), [])
    wide = [flag for flag in ("avx2", "avx512f", "avx512_bf16", "amx_bf16") if flag in flags]
    return {
        "processor": names[0] if names else platform.processor(),
        "cores": str(os.cpu_count()),
        "instructions": " ".join(wide),
        "python": platform.python_version(),
        "load": [round(value, 2) for value in os.getloadavg()],
        **{name: _version(name) for name in PACKAGES},
    }


def require_accelerate() -> None:
    """End the program with the command to type where AdapterTrainer's own requirement is missing."""
    if importlib.util.find_spec("accelerate") is None:
        raise SystemExit(
            "AdapterTrainer needs the package accelerate, which is not installed: "
            "python -m pip install -c constraints.txt -e '.[bench]'"
        )


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
