"""Dropout masks of a GPU by a compiler: Philox's rounds and what follows them in few kernels, checked bit for bit.

Drawn operation by operation, every round alone writes some 20 tensors as large as all masks; a compiler keeps them in
registers. Where there is none, or a bit differs, masks are drawn as before.
"""

from __future__ import annotations

import logging
import subprocess
from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor

from harness.training.lanes.frozen import Frozen
from harness.training.lanes.masks import Masks, drawn
from harness.training.memory import is_out_of_memory

log = logging.getLogger(__name__)

Draw = Callable[..., Masks]
FAILURES = (RuntimeError, OSError, subprocess.SubprocessError)  # of a compiler, or of what it calls


def compiler(device: torch.device) -> Draw | None:
    """What draws masks on this device with all shapes of rows and tokens in one compiled function, None without one."""
    if device.type != "cuda" or not torch.utils._triton.has_triton():
        return None
    return compiled()


@cache
def compiled() -> Draw:
    """``drawn``, compiled when it is first called."""
    made: Draw = torch.compile(drawn, dynamic=True, fullgraph=True)
    return made


class CompiledMasks:
    """Masks of one encoder; ``draw`` compiled, or None where nothing can be."""

    def __init__(self, frozen: Frozen, draw: Draw | None, *, is_own: bool) -> None:
        """Nothing is drawn yet; ``is_own``: each lane has masks of its own."""
        self.frozen, self.draw, self.is_own = frozen, draw, is_own
        self._checked: set[tuple[int, ...]] = set()

    def __call__(self, sizes: Tensor, longest: int, keys: Tensor) -> Masks:
        """As ``masks.drawn``; the host waits where a shape is drawn for the first time."""
        shape = (*keys.shape, longest)
        if self.draw is not None and shape in self._checked:
            return self.draw(self.frozen, sizes, longest, keys, is_own=self.is_own)
        plain = drawn(self.frozen, sizes, longest, keys, is_own=self.is_own)
        if self.draw is not None and self._holds(self.draw, plain, sizes, longest, keys):
            self._checked.add(shape)
        return plain

    def _holds(self, draw: Draw, plain: Masks, sizes: Tensor, longest: int, keys: Tensor) -> bool:
        """Whether the compiled function gives these masks; it is given up, with a warning, if not."""
        try:
            other = draw(self.frozen, sizes, longest, keys, is_own=self.is_own)
            is_same = other.scale == plain.scale and all(map(torch.equal, _tensors(other), _tensors(plain)))
            reason = "a bit differs"
        except FAILURES as error:
            if is_out_of_memory(error):
                raise
            is_same, reason = False, (str(error).splitlines() or [type(error).__name__])[0]
        if not is_same:
            log.warning("masks are not drawn by a compiled function: %s; the same are drawn without it", reason)
            self.draw = None
        return is_same


def _tensors(masks: Masks) -> list[Tensor]:
    return [masks.embedding, *masks.attention, *masks.attended, *masks.output, *masks.head]
