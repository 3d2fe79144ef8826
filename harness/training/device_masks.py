"""The masks of masks.py, bit for bit, drawn on the device that trains: neither the host nor a transfer is waited for.

On a processor numpy draws them sixteen times as fast as this, so there it does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from harness.training.devices import to_device
from harness.training.frozen import Frozen
from harness.training.philox import words

BITS = 65536


@dataclass(frozen=True)
class Streams:
    """The streams of ``b`` examples padded to ``longest`` tokens: 16-bit numbers, their order that of signed ones.

    ``bits`` ``[b, n]``; ``sizes`` ``[b]``, the tokens of every example; ``present`` ``[b, longest]``, which are its
    own. An example's vectors of width d come first (``vectors_of`` many), its attention scores after them.
    """

    frozen: Frozen
    bits: Tensor
    sizes: Tensor
    present: Tensor

    @property
    def _vectors_before_last(self) -> Tensor:
        return self.sizes * (2 * len(self.frozen.layers) - 1)

    def vectors(self, number: int, probability: float, dtype: torch.dtype) -> Tensor:
        """Multipliers ``[b, longest, d]`` of the embeddings (0) or of the n-th output of an inner layer (from 1)."""
        places = self.sizes.unsqueeze(1) * number + torch.arange(self.present.shape[1], device=self.bits.device)
        return self._vectors_at(places, self.present, probability, dtype)

    def last_vectors(self, number: int, probability: float, dtype: torch.dtype) -> Tensor:
        """Multipliers ``[b, 1, d]`` of the last layer's two outputs (0, 1) and of the head's two inputs (2, 3)."""
        places = (self._vectors_before_last + number).unsqueeze(1)
        return self._vectors_at(places, torch.ones_like(places, dtype=torch.bool), probability, dtype)

    def _vectors_at(self, places: Tensor, own: Tensor, probability: float, dtype: torch.dtype) -> Tensor:
        width = self.frozen.width
        table = self.bits.unfold(1, width, width)  # [b, vectors, d]
        rows = torch.arange(len(table), device=places.device).unsqueeze(1)
        found = table[rows, places.clamp(max=table.shape[1] - 1)]
        return _multiplier(found, own.unsqueeze(2), probability, dtype)

    def attention(self, layer: int, probability: float, dtype: torch.dtype) -> Tensor:
        """Multipliers ``[b, heads, queries, longest]`` of a layer's attention scores; the last has one query."""
        depth, heads, longest = len(self.frozen.layers), self.frozen.heads, self.present.shape[1]
        is_last, sizes = layer == depth - 1, self.sizes[:, None, None, None]
        count, queries = (1, 1) if is_last else (longest, sizes)
        start = self.frozen.width * (self._vectors_before_last + 4)[:, None, None, None] + layer * heads * sizes**2
        head, query, key = (torch.arange(n, device=self.bits.device) for n in (heads, count, longest))
        places = start + (head[:, None, None] * queries + query[:, None]) * sizes + key
        own = self.present[:, None, None, :] & (self.present[:, None, :count, None])
        places = places.clamp(max=self.bits.shape[1] - 1)
        found = self.bits.gather(1, places.flatten(1)).view(places.shape)
        return _multiplier(found, own, probability, dtype)


def streams(frozen: Frozen, lengths: Sequence[int], longest: int, seeds: Sequence[int]) -> Streams:
    """The streams with these seeds of examples with ``lengths`` tokens, which are padded to ``longest``."""
    sizes, keys = to_device(torch.tensor([list(lengths), list(seeds)]), frozen.device)
    depth, most = len(frozen.layers), max(lengths)
    count = frozen.width * (most * (2 * depth - 1) + 4) + frozen.heads * most * ((depth - 1) * most + 1)
    bits = words(keys, -(-count // 4)).contiguous().view(torch.int16).bitwise_xor_(-BITS // 2)
    present = torch.arange(longest, device=frozen.device) < sizes.unsqueeze(1)
    return Streams(frozen, bits, sizes, present)


def multiplied(kept: Tensor, probability: float, dtype: torch.dtype) -> Tensor:
    """A mask of what is kept: 0 or ``1 / (1 - p)``, or 0 or 1 where ``scale_after`` is still to be multiplied."""
    mask = kept.to(dtype)
    return mask if is_coarse(dtype) else mask.mul_(_scale(probability))


def scale_after(probability: float, dtype: torch.dtype) -> float:
    """What a product with a mask of this precision is still to be multiplied by."""
    return _scale(probability) if is_coarse(dtype) else 1.0


def is_coarse(dtype: torch.dtype) -> bool:
    """Whether a precision would round ``1 / (1 - p)`` so far that it moves means: bf16 makes 1.109375 of 10 / 9."""
    return dtype.itemsize < torch.float32.itemsize


def threshold_of(probability: float) -> int:
    """The number of 16-bit words that drop."""
    return round(probability * BITS)


def _scale(probability: float) -> float:
    """``1 / (1 - p)`` for the p that 16 bits meet."""
    return BITS / (BITS - threshold_of(probability))


def _multiplier(bits: Tensor, own: Tensor, probability: float, dtype: torch.dtype) -> Tensor:
    """The mask of these words; what is not an example's own counts as the number 0."""
    threshold = threshold_of(probability)
    kept = (bits >= threshold - BITS // 2) & own if threshold else torch.ones_like(bits, dtype=torch.bool)
    return multiplied(kept, probability, dtype)
