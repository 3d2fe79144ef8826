"""What draws the words of dropout's streams on a device: one kernel where Triton can make it and its bits are right."""

from __future__ import annotations

import logging
from functools import cache

import torch

from harness.training.lanes.masks import Words, words
from harness.training.memory import is_out_of_memory

log = logging.getLogger(__name__)

KEYS, COUNT = (0, 1, 0x5DEECE66D, 2**63 - 1), 1001  # of the streams that are compared


@cache
def words_on(device: torch.device) -> Words:
    """The kernel on a GPU where it gives the words of ``masks.words``, else that function; asked once, with a wait."""
    kernel = kernel_of(device)
    return words if kernel is None or not _agrees(kernel, device) else kernel


def kernel_of(device: torch.device) -> Words | None:
    """The kernel of this device, None where there can be none."""
    if device.type != "cuda" or not torch.utils._triton.has_triton():
        return None
    from harness.training.lanes.philox import words as by_triton

    return by_triton


def _agrees(kernel: Words, device: torch.device) -> bool:
    """Whether the kernel gives the same words; a warning says so if not."""
    keys = torch.tensor(KEYS, device=device)
    try:
        is_same, reason = torch.equal(kernel(keys, COUNT), words(keys, COUNT)), "a bit differs"
    except Exception as error:  # Triton's share no class with those of the compilers that it calls
        if is_out_of_memory(error):
            raise
        is_same, reason = False, (str(error).splitlines() or [type(error).__name__])[0]
    if not is_same:
        log.warning("dropout is not drawn by one kernel: %s; the same is drawn without it, which takes longer", reason)
    return is_same
