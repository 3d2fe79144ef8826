"""Where cells are trained: on the processor or a GPU, alone or beside other processes, with how many cores and threads.

Torch is loaded only where a function needs its answer: planning is to stay light.
"""

from __future__ import annotations

import math
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tasks.errors import BadInput

if TYPE_CHECKING:
    import torch


class NoSuchDevice(BadInput):
    """The device that was asked for is none, or not here."""


@dataclass(frozen=True)
class Device:
    """A device by its name, how many processes there are, and which of them this is, from 0.

    ``auto`` is a GPU, to each process the next one in turn, or the processor where there is none; NoSuchDevice for a
    name that is none of ``auto``, ``cpu``, ``cuda`` and ``cuda:N``, and for a GPU that is not here.
    """

    name: str = "auto"
    processes: int = 1
    number: int = 0

    def __post_init__(self) -> None:
        """Refuse what cannot be used before anything is read or trained."""
        if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", self.name):
            raise NoSuchDevice(f"device {self.name!r} is not one of auto, cpu, cuda, cuda:N")
        if not self.name.startswith("cuda"):
            return
        import torch

        if not torch.cuda.is_available():
            raise NoSuchDevice(
                f"device {self.name!r}: torch {torch.__version__} sees no GPU; leave --device out, or install a torch"
                " for CUDA"
            )
        count = torch.cuda.device_count()
        if int(self.name.partition(":")[2] or 0) >= count:
            raise NoSuchDevice(
                f"device {self.name!r}: torch sees {count} GPUs, cuda:0 to cuda:{count - 1}; name one of them"
            )

    def ready(self) -> torch.device:
        """The device, set to multiply fp32 in fp32: neither TF32, nor sums of bf16 products in bf16."""
        import torch

        torch.set_float32_matmul_precision("highest")
        torch.backends.cudnn.allow_tf32 = False
        torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
        if self.name != "auto":
            return torch.device(self.name)
        if not torch.cuda.is_available():
            return torch.device("cpu")
        return torch.device("cuda", self.number % torch.cuda.device_count())

    def sharers(self) -> int:
        """The most processes that have the same device as this one."""
        import torch

        is_dealt = self.name == "auto" and torch.cuda.is_available()
        return math.ceil(self.processes / torch.cuda.device_count()) if is_dealt else self.processes


ANY_DEVICE = Device()


def kind_of(name: str) -> str:
    """``cpu`` or ``cuda``: the family of the device that a run with this ``--device`` takes here.

    For ``auto``, torch is asked only where there is a driver for it.
    """
    if name != "auto":
        return name.partition(":")[0]
    return Device(name).ready().type if "torch" in sys.modules or _may_have_gpu() else "cpu"


def _may_have_gpu() -> bool:
    """Whether a torch for CUDA could meet a driver of NVIDIA's on this machine."""
    drivers = (Path("/dev/nvidiactl"), Path("/dev/dxg"), Path("/dev/nvhost-ctrl"), Path("/proc/driver/nvidia"))
    if not any(driver.exists() for driver in drivers):
        return False
    from importlib import metadata  # takes a while to load, and most machines need no answer

    return not metadata.version("torch").endswith("+cpu")


def cores() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def let_torch_use(threads: int) -> None:
    """How many threads torch takes, once it is loaded in this process or in those that it starts."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(threads)
