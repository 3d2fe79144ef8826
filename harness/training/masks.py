"""Dropout masks that belong to an example, not to a batch: shared by all lanes, whatever the pack or micro-batch.

The mask of an example at a step is drawn from a counter-based generator keyed by (seed, target, step, example) over
the example's own tokens, and only then padded. A probability p is met with 16 bits: round(p * 65536) / 65536, which
is within 8e-6 of p, and kept values are scaled by the probability that is really used: in fp32 by the mask itself, in
bf16, which would round the scale, by a factor beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from harness.training.device_masks import multiplied, scale_after, streams, threshold_of
from harness.training.frozen import Frozen
from harness.training.microbatches import padded
from harness.training.seeds import seed_of

Bits = NDArray[np.uint16]


@dataclass(frozen=True)
class Masks:
    """Multipliers (0 or 1 / (1 - p)) of one micro-batch of ``b`` examples padded to ``t`` tokens.

    ``embedding`` is ``[b, t, d]``; per layer ``attention`` ``[b, heads, t, t]``, ``attended`` and ``output``
    ``[b, t, d]``; the last layer has one query, so 1 in place of its first ``t``. ``head`` is two of ``[b, d]``.
    Masks that lanes do not share have a first dimension ``K``.

    In bf16, which cannot hold 1 / (1 - p), ``embedding``, ``attended`` and ``output`` are 0 or 1, and ``scale`` is what
    products with them are multiplied by in fp32; else it is 1.
    """

    embedding: Tensor
    attention: tuple[Tensor, ...]
    attended: tuple[Tensor, ...]
    output: tuple[Tensor, ...]
    head: tuple[Tensor, Tensor]
    scale: float


def draw(
    frozen: Frozen,
    lengths: Sequence[int],
    examples: Sequence[int],
    *,
    seed: int,
    target: str,
    step: int,
    lanes: Sequence[str] = (),
) -> Masks:
    """The masks of one micro-batch: examples with these numbers and token counts, at optimizer step ``step``.

    All lanes share them, unless ``lanes`` names them: then each has masks of its own, ``[K, ...]``.
    """
    drawn = _drawn if frozen.device.type == "cpu" else _drawn_on_device
    if not lanes:
        return drawn(frozen, lengths, [seed_of(seed, target, "dropout", step, example) for example in examples])
    own = [
        drawn(frozen, lengths, [seed_of(seed, target, "dropout", step, example, lane) for example in examples])
        for lane in lanes
    ]
    return Masks(
        embedding=torch.stack([one.embedding for one in own]),
        attention=tuple(map(torch.stack, zip(*(one.attention for one in own), strict=True))),
        attended=tuple(map(torch.stack, zip(*(one.attended for one in own), strict=True))),
        output=tuple(map(torch.stack, zip(*(one.output for one in own), strict=True))),
        head=tuple(map(torch.stack, zip(*(one.head for one in own), strict=True))),  # type: ignore[arg-type]
        scale=own[0].scale,
    )


def _drawn(frozen: Frozen, lengths: Sequence[int], seeds: Sequence[int]) -> Masks:
    """Masks of examples whose streams have these seeds."""
    count, longest = len(lengths), padded(max(lengths), frozen.positions)
    depth, d, heads = len(frozen.layers), frozen.width, frozen.heads
    queries = [longest] * (depth - 1) + [1]
    hidden: list[Bits] = [np.zeros((count, longest, d), np.uint16)]
    hidden += [np.zeros((count, q, d), np.uint16) for q in queries for _ in range(2)]
    head: list[Bits] = [np.zeros((count, 1, d), np.uint16) for _ in range(2)]
    attention: list[Bits] = [np.zeros((count, heads, q, longest), np.uint16) for q in queries]
    for row, (length, seed) in enumerate(zip(lengths, seeds, strict=True)):
        stream = _stream(frozen, length, seed)
        for array in (*hidden, *head):
            stream = _fill(array[row, :length], stream)
        for array in attention:
            stream = _fill(array[row, :, :length, :length], stream)
    dtype = frozen.dtype
    exact = torch.promote_types(dtype, torch.float32)  # attention scores and heads are never less than fp32
    scaled = [_multiplier(array, frozen.hidden_dropout, dtype) for array in hidden]
    return Masks(
        embedding=scaled[0],
        attention=tuple(_multiplier(array, frozen.attention_dropout, exact) for array in attention),
        attended=tuple(scaled[1::2]),
        output=tuple(scaled[2::2]),
        head=tuple(_multiplier(array[:, 0], frozen.head_dropout, exact) for array in head),  # type: ignore[arg-type]
        scale=scale_after(frozen.hidden_dropout, dtype),
    )


def _drawn_on_device(frozen: Frozen, lengths: Sequence[int], seeds: Sequence[int]) -> Masks:
    """The same, bit for bit, without the host."""
    made = streams(frozen, lengths, padded(max(lengths), frozen.positions), seeds)
    depth, dtype, hidden = len(frozen.layers), frozen.dtype, frozen.hidden_dropout
    exact = torch.promote_types(dtype, torch.float32)
    inner = [[made.vectors(1 + 2 * layer + which, hidden, dtype) for layer in range(depth - 1)] for which in range(2)]
    last = [made.last_vectors(which, hidden, dtype) for which in range(2)]
    head = [made.last_vectors(2 + which, frozen.head_dropout, exact)[:, 0] for which in range(2)]
    return Masks(
        embedding=made.vectors(0, hidden, dtype),
        attention=tuple(made.attention(layer, frozen.attention_dropout, exact) for layer in range(depth)),
        attended=(*inner[0], last[0]),
        output=(*inner[1], last[1]),
        head=(head[0], head[1]),
        scale=scale_after(hidden, dtype),
    )


def _stream(frozen: Frozen, length: int, seed: int) -> NDArray[np.uint16]:
    """All 16-bit numbers that one example needs at one step."""
    depth, d = len(frozen.layers), frozen.width
    hidden = d * (length + 2 * ((depth - 1) * length + 1) + 2)
    attention = frozen.heads * length * ((depth - 1) * length + 1)
    generator = np.random.Philox(key=seed)
    return generator.random_raw((hidden + attention + 3) // 4).view(np.uint16)


def _fill(place: NDArray[np.uint16], stream: NDArray[np.uint16]) -> NDArray[np.uint16]:
    place[...] = stream[: place.size].reshape(place.shape)
    return stream[place.size :]


def _multiplier(bits: NDArray[np.uint16], probability: float, dtype: torch.dtype) -> Tensor:
    return multiplied(torch.from_numpy(bits >= threshold_of(probability)), probability, dtype)
