"""What a record says about how it was made: versions, device, host and time; nothing of it enters a key."""

from __future__ import annotations

import platform
import socket
import subprocess
import time
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.backbone import Backbone

if TYPE_CHECKING:
    import torch

PACKAGES = ("adapters", "torch", "transformers", "tokenizers", "numpy")


def provenance(backbone: Backbone, started: tuple[float, float], device: torch.device, *, lanes: int) -> dict[str, Any]:
    """Provenance of cells whose wall and CPU clocks read ``started`` when they began; each of K lanes counts a K-th."""
    import torch

    from harness.training.devices import name_of

    return {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "host": socket.gethostname(),
        "device": name_of(device),
        "threads": torch.get_num_threads(),
        "lanes": lanes,
        "wall_seconds": round((time.perf_counter() - started[0]) / lanes, 3),
        "cpu_seconds": round((time.process_time() - started[1]) / lanes, 3),
        "backbone": backbone.name,
        "config_sha256": backbone.config_sha256,
        "tokenizer_sha256": backbone.tokenizer_sha256,
        **({"commit": backbone.commit} if backbone.commit else {}),
        "versions": versions(),
        "code": code_version(),
    }


@cache
def versions() -> dict[str, str]:
    """Versions of Python and of the packages that decide numbers."""
    return {"python": platform.python_version(), **{name: metadata.version(name) for name in PACKAGES}}


@cache
def code_version() -> str:
    """The git commit of a checkout, with ``+`` if it has changes, or the installed version."""
    root = Path(__file__).resolve().parent.parent
    version = metadata.version("empathy-transfer")
    if not (root / ".git").exists():
        return version
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty=+", "--abbrev=12"],
            cwd=root,
            capture_output=True,
            text=True,
            timeout=5,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return version
    return f"{version} ({done.stdout.strip()})"
