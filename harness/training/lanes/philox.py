"""Numpy's Philox stream in one kernel of a GPU, by Triton, which only machines with a GPU have: import it there alone.

Operation by operation, as ``masks.words`` does it, each of ten rounds writes some 16 tensors as large as all masks;
here they stay in registers.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 256  # counters of a program, each of which gives four words


@triton.jit  # type: ignore[untyped-decorator]
def _rounds(keys, words, blocks, size: tl.constexpr):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202 - Triton's own
    # As in ``masks.words``; the counter is (number, 0, 0, 0), and the second word of the key begins at 0.
    row = tl.program_id(1)
    number = tl.program_id(0) * size + tl.arange(0, size)
    first = (number + 1).to(tl.uint64)
    second = tl.zeros([size], tl.uint64)
    third = second
    fourth = second
    key = tl.load(keys + row).to(tl.uint64, bitcast=True)
    other = tl.zeros([1], tl.uint64)
    low = tl.full([size], 0xD2E7470EE14C6C93, tl.uint64)
    high = tl.full([size], 0xCA5A826395121157, tl.uint64)
    for _ in tl.static_range(10):
        new_first = tl.umulhi(third, high) ^ second ^ key
        new_third = tl.umulhi(first, low) ^ fourth ^ other
        second = third * high
        fourth = first * low
        first = new_first
        third = new_third
        key = key + tl.full([1], 0x9E3779B97F4A7C15, tl.uint64)
        other = other + tl.full([1], 0xBB67AE8584CAA73B, tl.uint64)
    pointer = words + row.to(tl.int64) * blocks * 4 + number.to(tl.int64) * 4
    mask = number < blocks
    tl.store(pointer, first.to(tl.int64, bitcast=True), mask=mask)
    tl.store(pointer + 1, second.to(tl.int64, bitcast=True), mask=mask)
    tl.store(pointer + 2, third.to(tl.int64, bitcast=True), mask=mask)
    tl.store(pointer + 3, fourth.to(tl.int64, bitcast=True), mask=mask)


def words(keys: Tensor, count: int) -> Tensor:
    """As ``masks.words``: the first ``count`` 64-bit words ``[n, count]`` of the streams of ``keys [n]``, int64."""
    blocks = -(-count // 4)
    made = torch.empty(len(keys), blocks * 4, dtype=torch.int64, device=keys.device)
    _rounds[triton.cdiv(blocks, BLOCK), len(keys)](keys.contiguous(), made, blocks, BLOCK)
    return made[:, :count]
