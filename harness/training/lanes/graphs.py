"""Work that is recorded once for each shape and then repeated at one launch: CUDA graphs, checked before they are used.

What is recorded reads one tensor of inputs, which every repetition fills anew, and writes to tensors that stay where
they are. Where nothing can be recorded, or a repetition does something else, the work is done as it stands.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from harness.training.memory import is_out_of_memory

log = logging.getLogger(__name__)

Body = Callable[[Tensor], None]
Capture = Callable[[Callable[[], None]], Callable[[], None]]  # records work without doing it; what repeats it
TOLERANCE = 1e-3  # relative: the same kernels give the same numbers, but for what they add in no order


def capturing(device: torch.device) -> Capture | None:
    """What records work on this device, None where nothing can."""
    if device.type != "cuda":
        return None
    with torch.cuda.device(device):
        pool, stream = torch.cuda.graph_pool_handle(), torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def capture(body: Callable[[], None]) -> Callable[[], None]:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.device(device), torch.cuda.graph(graph, pool=pool, stream=stream):
            body()
        replay: Callable[[], None] = graph.replay
        return replay

    return capture


@dataclass
class Graphs:
    """The works recorded so far, by key; ``capture`` None means that all is done as it stands."""

    capture: Capture | None
    _kept: dict[Hashable, tuple[Tensor, Callable[[], None]]] = field(default_factory=dict)

    def run(self, key: Hashable, inputs: Tensor, body: Body, written: Sequence[Tensor]) -> None:
        """Do the work of ``key`` on ``inputs``, whose shape and body are the key's; ``written`` is what it changes."""
        if self.capture is None:
            body(inputs)
        elif key in self._kept:
            held, replay = self._kept[key]
            held.copy_(inputs)
            replay()
        else:
            self._record(self.capture, key, inputs.clone(), body, written)

    def _record(self, capture: Capture, key: Hashable, held: Tensor, body: Body, written: Sequence[Tensor]) -> None:
        """Do the work as it stands, which also makes ready what it needs; record it; compare what it does repeated."""
        # The only place at which the host reads something back: once for each shape.
        before = [value.detach().clone() for value in written]
        body(held)
        expected = [value.detach().clone() for value in written]
        try:
            _put(written, before)
            replay = capture(lambda: body(held))
            _put(written, before)
            replay()
            is_same = all(map(_agree, written, expected))
            reason = "what it repeats differs from what it recorded"
        except RuntimeError as error:
            if is_out_of_memory(error):
                raise
            is_same, reason = False, str(error).splitlines()[0]
        if is_same:
            self._kept[key] = held, replay
            return
        log.warning("no CUDA graphs: %s; training goes on without them, to the same numbers", reason)
        self.capture = None
        _put(written, expected)


@torch.no_grad()
def _put(written: Sequence[Tensor], values: Sequence[Tensor]) -> None:
    for target, value in zip(written, values, strict=True):
        target.copy_(value)


def _agree(value: Tensor, expected: Tensor) -> bool:
    scale = expected.abs().amax()
    return bool(torch.allclose(value, expected, rtol=TOLERANCE, atol=float(scale) * TOLERANCE, equal_nan=True))
