"""Numpy's Philox stream on any device: Philox4x64-10 (Salmon et al. 2011, section 3.3) in int64 arithmetic."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

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
    for _ in range(ROUNDS):
        high = _high(even, whole).flip(0)
        even, odd, key = high.bitwise_xor_(odd).bitwise_xor_(key), (even * whole).flip(0), key + weyl
    made = torch.stack([even[0], odd[0], even[1], odd[1]], dim=2)
    return made.flatten(1)[:, :count]


def _high(values: Tensor, whole: Tensor) -> Tensor:
    """The upper 64 bits of the unsigned 128-bit products of ``values`` and ``whole``, by halves of 32 bits."""
    low_one, high_one = values & LOW, _shifted(values)
    low_two, high_two = whole & LOW, _shifted(whole)
    middle = _shifted(low_one * low_two).add_(low_one * high_two)
    other = (middle & LOW).add_(high_one * low_two)
    return (high_one * high_two).add_(_shifted(middle)).add_(_shifted(other))


def _shifted(values: Tensor) -> Tensor:
    """The upper 32 bits of each, as a number from 0."""
    return (values >> 32).bitwise_and_(LOW)


@cache
def _constants(device: torch.device) -> tuple[Tensor, Tensor]:
    made = [torch.tensor([_signed(one) for one in pair], device=device).view(2, 1, 1) for pair in (MULTIPLIERS, WEYL)]
    return made[0], made[1]


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word
