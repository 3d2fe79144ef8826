"""Tensors on their way to a device, and its name."""

import hashlib
import platform
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

CPU = torch.device("cpu")


def to_device(value: Tensor, device: torch.device) -> Tensor:
    """``value`` on the device; to a GPU by way of pinned memory, so that the host need not wait for earlier work."""
    return value if device.type == "cpu" else value.pin_memory().to(device, non_blocking=True)


def lanes_of(value: Tensor, lanes: Sequence[int]) -> Tensor:
    """These lanes of a tensor ``[K, ...]``, copied."""
    return value.index_select(0, torch.tensor(lanes, dtype=torch.int64, device=value.device))


def digest_of(tensors: Mapping[str, Tensor], text: str = "") -> str:
    """The sha256 of a text and of tensors, in the order of their names: names, types, shapes and bytes."""
    digest = hashlib.sha256(text.encode())
    for name, value in sorted(tensors.items()):
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        digest.update(value.contiguous().view(torch.uint8).numpy().data if value.numel() else b"")
    return digest.hexdigest()


def name_of(device: torch.device) -> str:
    """The family of a device and what it is: ``cpu (x86_64)``, ``cuda (NVIDIA H200)``."""
    return f"{device.type} ({platform.machine() if device.type == 'cpu' else torch.cuda.get_device_name(device)})"
