"""Rows as tensors: the seeded order of training batches, and batches of equal length for evaluation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from harness.study.cell import seed_of
from harness.training.inputs import Encoded

if TYPE_CHECKING:
    from torch import Tensor

EVALUATION_BATCH = 64


def training_batches(
    lengths: Sequence[int], batch_size: int, *, seed: int, target: str, epoch: int
) -> Iterator[list[int]]:
    """Row numbers of one epoch: a seeded permutation cut into batches, each sorted from long to short (stable)."""
    order = np.random.default_rng(seed_of(seed, target, "order", epoch)).permutation(len(lengths)).tolist()
    for start in range(0, len(order), batch_size):
        yield sorted(order[start : start + batch_size], key=lambda row: -lengths[row])


def evaluation_batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Row numbers from long to short, so that padding is little; the same batches for every cell of a target."""
    order = sorted(range(len(lengths)), key=lambda row: -lengths[row])
    for start in range(0, len(order), EVALUATION_BATCH):
        yield order[start : start + EVALUATION_BATCH]


def collate(
    rows: Sequence[Encoded], pad_id: int, *, has_segments: bool, tokens: int | None = None
) -> dict[str, Tensor]:
    """``input_ids``, ``attention_mask`` of shape ``[rows, tokens]``; ``token_type_ids`` where the model has them.

    ``tokens`` is by default the length of the longest row.
    """
    import torch  # here, so that costs are planned without it

    longest = tokens or max(len(row.ids) for row in rows)
    names = {"input_ids": [row.ids for row in rows], "attention_mask": [(1,) * len(row.ids) for row in rows]}
    if has_segments:
        names["token_type_ids"] = [row.segments for row in rows]
    fill = {"input_ids": pad_id, "attention_mask": 0, "token_type_ids": 0}
    return {
        name: torch.tensor([[*values, *[fill[name]] * (longest - len(values))] for values in columns])
        for name, columns in names.items()
    }


# How a batch is cut for the forward pass: rows of like length together, by a rule that never sees the lanes.
#
# The optimizer step stays one batch; its gradient is the sum over the cuts. Rows of one length range waste little
# on padding, and a bounded number of tokens bounds the memory of K lanes.


class Cutting(NamedTuple):
    """The most tokens of one cut, padding included, per lane; and how much padding is cheaper than another cut."""

    max_tokens: int
    spare: int = 0


MAX_WASTE = 0.12  # share of padding in one cut
TRAINED = {"cpu": Cutting(96), "cuda": Cutting(2560, spare=256)}  # by the family of the device (docs/training.md)
TRAINED_BF16 = {"cpu": Cutting(192, spare=32)}  # products cost less there, so more of a cut is what every cut costs
EVALUATED = {"cpu": Cutting(512), "cuda": Cutting(16384, spare=768)}
GRID = 8  # lengths are padded to a multiple of it: a processor's kernels are made, and kept, for every shape there is


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


# Cuts of few shapes, for devices that keep what a shape asks of them.


class Cut(NamedTuple):
    """Rows ``numbers`` of a batch, as ``rows`` rows of ``tokens`` tokens; those beyond the numbers do not count."""

    numbers: list[int]
    rows: int
    tokens: int


# Rows and tokens, at most TRAINED's tokens together. Found by a random search over the rows of the paper's 18 columns
# (benchmarks/steps/columns.py), which made padding and SPARE tokens a cut least (docs/training.md).
BUCKETS: dict[str, tuple[tuple[int, int], ...]] = {
    "cuda": (
        *((6, 40), (12, 48), (10, 64), (12, 96), (6, 112), (6, 144)),
        *((6, 176), (2, 192), (5, 224), (6, 320), (3, 392), (5, 512)),
    )
}
SPARE = 256  # tokens whose padding costs less than one more cut


def shaped(
    numbers: Sequence[int], lengths: Sequence[int] | Mapping[int, int], family: str, limit: int, *, is_bf16: bool
) -> list[Cut]:
    """The cuts of a batch on this family of devices, longest rows first; ``limit`` is a backbone's of its tokens.

    Where the family has BUCKETS, cuts have their shapes, chosen for the least padding and number of cuts; a row longer
    than all of them is a cut by itself.
    """
    buckets = BUCKETS.get(family)
    if not buckets:
        plain = cuts(numbers, lengths, *trained_cutting(family, is_bf16=is_bf16))
        return [Cut(cut, len(cut), padded(lengths[cut[0]], limit)) for cut in plain]
    order = sorted(numbers, key=lambda number: -lengths[number])
    # least[i] is the cost of the rows from the i-th on, the first of which is in a bucket with ``chosen[i]``.
    least, chosen = [0] * (len(order) + 1), [(0, 0)] * len(order)
    for position in reversed(range(len(order))):
        length = lengths[order[position]]
        fitting = [bucket for bucket in buckets if bucket[1] >= length] or [(1, padded(length, limit))]
        costs = [rows * tokens + SPARE + least[min(position + rows, len(order))] for rows, tokens in fitting]
        least[position] = min(costs)
        chosen[position] = fitting[costs.index(least[position])]
    made, position = [], 0
    while position < len(order):
        rows, tokens = chosen[position]
        part = order[position : position + rows]
        made.append(Cut(part, rows, max(lengths[part[0]], min(tokens, limit))))
        position += rows
    return made
