"""How a batch is cut for the forward pass: rows of like length together, by a rule that never sees the lanes.

The optimizer step stays one batch; its gradient is the sum over the cuts. Rows of one length range waste little on
padding, and a bounded number of tokens bounds the memory of K lanes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple


class Cutting(NamedTuple):
    """The most tokens of one cut, padding included, per lane; and how much padding is cheaper than another cut."""

    max_tokens: int
    spare: int = 0


MAX_WASTE = 0.12  # share of padding in one cut
TRAINED = {"cpu": Cutting(96), "cuda": Cutting(4096, spare=768)}  # by the family of the device (docs/training.md)
TRAINED_BF16 = {"cpu": Cutting(192, spare=32)}  # products cost less there, so more of a cut is what every cut costs
EVALUATED = {"cpu": Cutting(512), "cuda": Cutting(16384, spare=768)}
GRID = (
    8  # lengths are padded to a multiple of it: a processor's kernels are made, and kept, for every shape that occurs
)


def trained_cutting(device: str, *, is_bf16: bool) -> Cutting:
    """How training cuts its batches on this family of devices."""
    return TRAINED_BF16.get(device, TRAINED[device]) if is_bf16 else TRAINED[device]


def padded(length: int, limit: int) -> int:
    """The tokens to which a cut is padded whose longest row has ``length``; never more than a backbone's ``limit``."""
    return min(-(-length // GRID) * GRID, max(length, limit))


def cuts(
    numbers: Sequence[int],
    lengths: Sequence[int] | Mapping[int, int],
    max_tokens: int = TRAINED["cpu"].max_tokens,
    spare: int = 0,
) -> Iterator[list[int]]:
    """Cut the rows ``numbers`` (any order) into lists of like length, longest first; ties keep their order.

    A cut of more than one row has at most ``max_tokens`` tokens, and at most ``MAX_WASTE`` or ``spare`` of padding.
    """
    current: list[int] = []
    used = 0
    for row in sorted(numbers, key=lambda number: -lengths[number]):
        longest = lengths[current[0]] if current else lengths[row]
        padded = longest * (len(current) + 1)
        is_wasteful = used + lengths[row] < min((1 - MAX_WASTE) * padded, padded - spare)
        if current and (padded > max_tokens or is_wasteful):
            yield current
            current, used = [], 0
        current.append(row)
        used += lengths[row]
    if current:
        yield current
