"""Predictions of lanes: rows of like length together, dropout off, all lanes in one pass."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from harness.training.batches import collate
from harness.training.devices import to_device
from harness.training.frozen import Frozen
from harness.training.inputs import Encoded
from harness.training.lanes import Lanes, forward
from harness.training.microbatches import EVALUATED, cuts, padded


def predicted(
    frozen: Frozen, lanes: Lanes, rows: Sequence[tuple[Encoded, ...]], pad_id: int, *, has_segments: bool
) -> NDArray[np.float32]:
    """Logits ``[K, rows, outputs]`` in the order of ``rows``, each the mean over its windows."""
    flat = [window for windows in rows for window in windows]
    lengths = [len(window.ids) for window in flat]
    lanes = lanes.to(frozen.dtype)
    out = torch.empty(lanes.count, len(flat), lanes.heads.out.shape[1], device=frozen.device)
    with torch.inference_mode():
        for numbers in cuts(range(len(flat)), lengths, *EVALUATED[frozen.device.type]):
            places = to_device(torch.tensor(numbers), frozen.device)
            batch = batch_of(frozen, flat, numbers, pad_id, has_segments=has_segments)
            out[:, places] = forward(frozen, lanes, batch, None).float()
    sizes = [len(windows) for windows in rows]
    return np.stack([one.mean(dim=1).numpy() for one in torch.split(out.cpu(), sizes, dim=1)], axis=1)


def batch_of(
    frozen: Frozen, rows: Sequence[Encoded], numbers: Sequence[int], pad_id: int, *, has_segments: bool
) -> dict[str, Tensor]:
    """The padded tensors of the rows with these numbers, on the encoder's device."""
    chosen = [rows[i] for i in numbers]
    tokens = padded(max(len(row.ids) for row in chosen), frozen.positions)
    batch = collate(chosen, pad_id, has_segments=has_segments, tokens=tokens)
    return {name: to_device(value, frozen.device) for name, value in batch.items()}
