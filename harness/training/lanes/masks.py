"""Dropout masks that belong to an example, not to a batch: shared by all lanes, whatever the pack or micro-batch.

The mask of an example at a step is drawn from a counter-based generator keyed by (seed, target, step, example) over
the example's own tokens, and only then padded. A probability p is met with 16 bits: round(p * 65536) / 65536, which
is within 8e-6 of p, and kept values are scaled by the probability that is really used: in fp32 by the mask itself,
in bf16, which would round the scale, by a factor beside it.

On a device one kernel draws the words of the streams, where Triton can make it and its bits are right.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from harness.study.cell import seed_of
from harness.training.batches import padded
from harness.training.lanes.frozen import Frozen
from harness.training.memory import is_out_of_memory
from harness.training.tensors import to_device

BITS = 65536  # values of a 16-bit number
Bits = NDArray[np.uint16]
Words = Callable[[Tensor, int], Tensor]  # of keys, and how many


@dataclass(frozen=True)
class Masks:
    """Multipliers (0 or 1 / (1 - p)) of one micro-batch of ``b`` examples padded to ``t`` tokens.

    ``embedding`` is ``[b, t, d]``; per layer ``attention`` ``[b, heads, t, t]``, ``attended`` and ``output``
    ``[b, t, d]``; the last layer has one query, so 1 in place of its first ``t``. ``head`` is two of ``[b, d]``.
    Masks that lanes do not share have a first dimension ``K``.

    In bf16, which cannot hold 1 / (1 - p), ``embedding``, ``attended`` and ``output`` are 0 or 1, and ``scale`` is what
    products with them are multiplied by in fp32; else it is 1. For ``passes`` they are so in every precision, and so is
    ``attention`` of all layers but the last, with ``attention_scale``.
    """

    embedding: Tensor
    attention: tuple[Tensor, ...]
    attended: tuple[Tensor, ...]
    output: tuple[Tensor, ...]
    head: tuple[Tensor, Tensor]
    scale: float
    attention_scale: float = 1.0

    def of(self, layer: int) -> tuple[Tensor, Tensor, Tensor]:
        """Those of a layer: of its attention, of the two sums."""
        return self.attention[layer], self.attended[layer], self.output[layer]


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
    streams_of: Sequence[tuple[str, ...]] = [(lane,) for lane in lanes] or [()]
    seeds = [[seed_of(seed, target, "dropout", step, example, *name) for example in examples] for name in streams_of]
    if frozen.device.type == "cpu":
        return _stack([_by_host(frozen, lengths, part) for part in seeds], is_own=bool(lanes))
    sizes, keys = to_device(torch.tensor([list(lengths)]), frozen.device), to_device(torch.tensor(seeds), frozen.device)
    return drawn(frozen, sizes[0], padded(max(lengths), frozen.positions), keys, is_own=bool(lanes))


def drawn(frozen: Frozen, sizes: Tensor, longest: int, keys: Tensor, *, is_own: bool, by: Words | None = None) -> Masks:
    """The masks of rows of ``sizes [b]`` padded to ``longest``, whose streams have the seeds ``keys [1 or K, b]``.

    All there is of the host in it is shapes. ``is_own``: each lane has masks of its own. ``by`` is what draws the words
    of the streams, by default ``words``.
    """
    return _stack([_by_device(frozen, sizes, longest, key, by or words) for key in keys], is_own=is_own)


def _stack(lanes: Sequence[Masks], *, is_own: bool) -> Masks:
    """Each lane's masks beside each other, ``[K, ...]``; or those that all share."""
    if not is_own:
        return lanes[0]
    kinds = ("attention", "attended", "output", "head")
    parts = (zip(*(getattr(masks, kind) for masks in lanes), strict=True) for kind in kinds)
    stacked: Any = {kind: tuple(map(torch.stack, part)) for kind, part in zip(kinds, parts, strict=True)}
    return replace(lanes[0], embedding=torch.stack([masks.embedding for masks in lanes]), **stacked)


# From 16-bit numbers to multipliers.


def multiplied(kept: Tensor, probability: float, dtype: torch.dtype) -> Tensor:
    """A mask of what is kept: 0 or ``1 / (1 - p)``, or 0 or 1 where ``scale_after`` is still to be multiplied."""
    return kept.to(dtype) if is_coarse(dtype) else kept * torch.tensor(scale_of(probability), dtype=dtype)


def scale_after(probability: float, dtype: torch.dtype) -> float:
    """What a product with a mask of this precision is still to be multiplied by."""
    return scale_of(probability) if is_coarse(dtype) else 1.0


def is_coarse(dtype: torch.dtype) -> bool:
    """Whether a precision would round ``1 / (1 - p)`` so far that it moves means: bf16 makes 1.109375 of 10 / 9."""
    return dtype.itemsize < torch.float32.itemsize


def threshold_of(probability: float) -> int:
    """The number of 16-bit words that drop."""
    return round(probability * BITS)


def scale_of(probability: float) -> float:
    """``1 / (1 - p)`` for the p that 16 bits meet."""
    return BITS / (BITS - threshold_of(probability))


# Drawn by numpy, on a processor.


def _by_host(frozen: Frozen, lengths: Sequence[int], seeds: Sequence[int]) -> Masks:
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
    scaled = [_array_multiplier(array, frozen.hidden_dropout, dtype) for array in hidden]
    return Masks(
        embedding=scaled[0],
        attention=tuple(_array_multiplier(array, frozen.attention_dropout, exact) for array in attention),
        attended=tuple(scaled[1::2]),
        output=tuple(scaled[2::2]),
        head=tuple(_array_multiplier(array[:, 0], frozen.head_dropout, exact) for array in head),  # type: ignore[arg-type]
        scale=scale_after(frozen.hidden_dropout, dtype),
    )


def _stream(frozen: Frozen, length: int, seed: int) -> NDArray[np.uint16]:
    """All 16-bit numbers that one example needs at one step."""
    depth, d = len(frozen.layers), frozen.width
    hidden = d * (length + 2 * ((depth - 1) * length + 1) + 2)
    attention = frozen.heads * length * ((depth - 1) * length + 1)
    return np.random.Philox(key=seed).random_raw((hidden + attention + 3) // 4).view(np.uint16)


def _fill(array: NDArray[np.uint16], stream: NDArray[np.uint16]) -> NDArray[np.uint16]:
    """Fill an array from the front of a stream; returns the rest of the stream."""
    array[...] = stream[: array.size].reshape(array.shape)
    return stream[array.size :]


def _array_multiplier(bits: NDArray[np.uint16], probability: float, dtype: torch.dtype) -> Tensor:
    return multiplied(torch.from_numpy(bits >= threshold_of(probability)), probability, dtype)


# Drawn on the device that trains, bit for bit as numpy does, which is sixteen times as fast on a processor: neither the
# host nor a transfer is waited for.


def _by_device(frozen: Frozen, sizes: Tensor, longest: int, keys: Tensor, by: Words) -> Masks:
    """The same, bit for bit, without the host: of examples with ``sizes [b]`` tokens and streams of ``keys [b]``."""
    source = streams(frozen, sizes, longest, keys, by)
    depth, dtype, hidden = len(frozen.layers), frozen.dtype, frozen.hidden_dropout
    exact = torch.promote_types(dtype, torch.float32)
    dtype, own = (torch.bool, torch.bool) if passes_on(frozen.device) else (dtype, exact)
    of_scores = [own] * (depth - 1) + [exact]
    embedding, *inner = source.vectors(hidden, dtype).unbind()
    attended, output = source.last_vectors(0, hidden, dtype).unbind()
    first, second = source.last_vectors(2, frozen.head_dropout, exact)[:, :, 0].unbind()
    return Masks(
        embedding=embedding,
        attention=tuple(source.attention(i, frozen.attention_dropout, kind) for i, kind in enumerate(of_scores)),
        attended=(*inner[0::2], attended),
        output=(*inner[1::2], output),
        head=(first, second),
        scale=scale_after(hidden, dtype),
        attention_scale=scale_after(frozen.attention_dropout, own),
    )


@dataclass(frozen=True)
class Streams:
    """The streams of ``b`` examples padded to ``longest`` tokens: 16-bit numbers, their order that of signed ones.

    ``bits`` ``[b, n]``; ``sizes`` ``[b]``, the tokens of every example; ``present`` ``[b, longest]``, which are its
    own. An example's vectors of width d come first, its attention scores after them.
    """

    frozen: Frozen
    bits: Tensor
    sizes: Tensor
    present: Tensor

    @property
    def _vectors_before_last(self) -> Tensor:
        return self.sizes * (2 * len(self.frozen.layers) - 1)

    def vectors(self, probability: float, dtype: torch.dtype) -> Tensor:
        """Multipliers ``[2 L - 1, b, longest, d]`` of the embeddings, and of the two outputs of every inner layer."""
        numbers = torch.arange(2 * len(self.frozen.layers) - 1, device=self.bits.device)[:, None, None]
        places = self.sizes.unsqueeze(1) * numbers + torch.arange(self.present.shape[1], device=self.bits.device)
        return self._vectors_at(places, self.present, probability, dtype)

    def last_vectors(self, number: int, probability: float, dtype: torch.dtype) -> Tensor:
        """Multipliers ``[2, b, 1, d]`` of the last layer's two outputs (from number 0) or of the head's inputs (2)."""
        numbers = torch.arange(number, number + 2, device=self.bits.device).unsqueeze(1)
        places = (self._vectors_before_last + numbers).unsqueeze(2)
        return self._vectors_at(places, torch.ones_like(self.present[:, :1]), probability, dtype)

    def _vectors_at(self, places: Tensor, present: Tensor, probability: float, dtype: torch.dtype) -> Tensor:
        width = self.frozen.width
        table = self.bits.unfold(1, width, width)  # [b, vectors, d]
        rows = torch.arange(len(table), device=places.device).unsqueeze(1)
        bits = table[rows, places.clamp(max=table.shape[1] - 1)]
        return _multiplier(bits, present.unsqueeze(2), probability, dtype)

    def attention(self, layer: int, probability: float, dtype: torch.dtype) -> Tensor:
        """Multipliers ``[b, heads, queries, longest]`` of a layer's attention scores; the last has one query."""
        # An example of n tokens has its vectors first, then heads * n * n numbers for every layer but the last, and
        # heads * n for that one, in the order of head, query, key. A padded grid [heads, queries, longest] therefore
        # looks its numbers up at start + (head * queries + query) * n + key, with the example's own n; what is padding
        # is looked up anywhere (clamped into the stream) and counts as the number 0.
        depth, heads, longest = len(self.frozen.layers), self.frozen.heads, self.present.shape[1]
        is_last, sizes = layer == depth - 1, self.sizes[:, None, None, None]
        count, queries = (1, 1) if is_last else (longest, sizes)
        start = self.frozen.width * (self._vectors_before_last + 4)[:, None, None, None] + layer * heads * sizes**2
        head, query, key = (torch.arange(n, device=self.bits.device) for n in (heads, count, longest))
        places = start + (head[:, None, None] * queries + query[:, None]) * sizes + key
        present = self.present[:, None, None, :] & (self.present[:, None, :count, None])
        places = places.clamp(max=self.bits.shape[1] - 1)
        bits = self.bits.gather(1, places.flatten(1)).view(places.shape)
        return _multiplier(bits, present, probability, dtype)


def streams(frozen: Frozen, sizes: Tensor, longest: int, keys: Tensor, by: Words) -> Streams:
    """The streams of ``keys [b]`` of examples with ``sizes [b]`` tokens, which are padded to ``longest``."""
    depth = len(frozen.layers)
    count = frozen.width * (longest * (2 * depth - 1) + 4) + frozen.heads * longest * ((depth - 1) * longest + 1)
    bits = by(keys, -(-count // 4)).contiguous().view(torch.int16).bitwise_xor_(-BITS // 2)
    present = torch.arange(longest, device=frozen.device) < sizes.unsqueeze(1)
    return Streams(frozen, bits, sizes, present)


def _multiplier(bits: Tensor, present: Tensor, probability: float, dtype: torch.dtype) -> Tensor:
    """The mask of these words; what is not an example's own counts as the number 0."""
    threshold = threshold_of(probability)
    kept = (bits >= threshold - BITS // 2) & present if threshold else torch.ones_like(bits, dtype=torch.bool)
    return multiplied(kept, probability, dtype)


# Numpy's Philox stream on any device: Philox4x64-10 (Salmon et al. 2011, section 3.3) in int64 arithmetic.

ROUNDS = 10
MULTIPLIERS = (0xD2E7470EE14C6C93, 0xCA5A826395121157)
WEYL = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)  # what a round adds to the two words of the key
LOW = 0xFFFFFFFF


def words(keys: Tensor, count: int) -> Tensor:
    """The first ``count`` 64-bit words, as int64 ``[n, count]``, of the streams of ``keys`` (int64 ``[n]``).

    Row i has the bits of ``numpy.random.Philox(key=keys[i]).random_raw(count)``, whose counter starts at 1.
    """
    whole, weyl = _constants(keys.device)
    blocks = -(-count // 4)
    even = torch.zeros(2, len(keys), blocks, dtype=torch.int64, device=keys.device)  # words 0 and 2 of every counter
    even[0] += torch.arange(1, blocks + 1, device=keys.device)
    odd = torch.zeros_like(even)  # words 1 and 3
    key = torch.stack([keys, torch.zeros_like(keys)]).unsqueeze(2)
    # A round of Philox on the counter (c0, c1, c2, c3) with key (k0, k1) and the multipliers m0, m1:
    #   c0, c1 <- high(c2 m1) ^ c1 ^ k0, low(c2 m1);  c2, c3 <- high(c0 m0) ^ c3 ^ k1, low(c0 m0),
    # where high and low are the halves of a 128-bit product; then each word of the key gets its Weyl number added.
    # ``even`` is (c0, c2) and ``odd`` (c1, c3) of every block, so that flipping a pair crosses the products over.
    for _ in range(ROUNDS):
        # the upper 64 bits of the unsigned 128-bit products of ``values`` and ``whole``, by halves of 32 bits
        # With x = 2**32 a + b and y = 2**32 c + d the product is 2**64 a c + 2**32 (a d + b c) + b d; no sum overflows.
        a, b = _upper(even), even & LOW
        c, d = _upper(whole), whole & LOW
        middle = _upper(b * d).add_(b * c)
        other = (middle & LOW).add_(a * d)
        high = (a * c).add_(_upper(middle)).add_(_upper(other)).flip(0)
        even, odd, key = high.bitwise_xor_(odd).bitwise_xor_(key), (even * whole).flip(0), key + weyl
    return torch.stack([even[0], odd[0], even[1], odd[1]], dim=2).flatten(1)[:, :count]


def _upper(values: Tensor) -> Tensor:
    """The upper 32 bits of each, as a number from 0."""
    return (values >> 32).bitwise_and_(LOW)


@cache
def _constants(device: torch.device) -> tuple[Tensor, Tensor]:
    """The multipliers and what rounds add to the key, each ``[2, 1, 1]``, sent to a device once."""
    pairs = ([word - (1 << 64) if word >> 63 else word for word in pair] for pair in (MULTIPLIERS, WEYL))
    multipliers, weyl = (torch.tensor(pair, device=device).view(2, 1, 1) for pair in pairs)
    return multipliers, weyl


log = logging.getLogger(__name__)

KEYS, COUNT = (0, 1, 0x5DEECE66D, 2**63 - 1), 1001  # of the streams that are compared


@cache
def words_on(device: torch.device) -> Words:
    """The kernel on a GPU where it gives the words of ``masks.words``, else that function; asked once, with a wait."""
    if (kernel := kernel_of(device)) is None:
        return words
    keys, what = torch.tensor(KEYS, device=device), "dropout is not drawn by one kernel"
    is_right = _is_right(lambda: torch.equal(kernel(keys, COUNT), words(keys, COUNT)), what, "a bit differs")
    return kernel if is_right else words


@cache
def passes_on(device: torch.device) -> ModuleType | None:
    """The kernels of passes over memory on a GPU where they give the numbers of plain tensors; asked as the above."""
    if kernel_of(device) is None:
        return None
    from harness.training.lanes import passes

    what, difference = "passes over memory are not one by kernels", "a number differs by more than rounding"
    return passes if _is_right(lambda: passes.agree(device), what, difference) else None


def kernel_of(device: torch.device) -> Words | None:
    """The kernel of this device, None where there can be none."""
    if device.type != "cuda" or not torch.utils._triton.has_triton():
        return None
    from harness.training.lanes.philox import words as by_triton

    return by_triton


def _is_right(agrees: Callable[[], bool], what: str, difference: str) -> bool:
    """Whether kernels run and agree with what is done without them; one warning says so if not."""
    try:
        is_same, reason = agrees(), difference
    except Exception as error:  # Triton's share no class with those of the compilers that it calls
        if is_out_of_memory(error):
            raise
        is_same, reason = False, (str(error).splitlines() or [type(error).__name__])[0]
    if not is_same:
        log.warning("%s: %s; the same is done without it, which takes longer", what, reason)
    return is_same
