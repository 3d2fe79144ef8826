"""Rows as tensors: the seeded order of training batches, and batches of equal length for evaluation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from harness.training.inputs import Encoded
from harness.training.seeds import seed_of

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
    longest = tokens or max(len(row.ids) for row in rows)
    names = {"input_ids": [row.ids for row in rows], "attention_mask": [(1,) * len(row.ids) for row in rows]}
    if has_segments:
        names["token_type_ids"] = [row.segments for row in rows]
    fill = {"input_ids": pad_id, "attention_mask": 0, "token_type_ids": 0}
    return {
        name: torch.tensor([[*values, *[fill[name]] * (longest - len(values))] for values in columns])
        for name, columns in names.items()
    }
