"""Texts as ids for systems that train encoders: special tokens around them, and batches padded to their longest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from harness.training.tensors import to_device
from harness.training.tokens.tokenizer import Tokenizer


class Text(NamedTuple):
    """Ids of a text, special tokens included, and the characters ``[tokens, 2]`` of each; special ones have none.

    ``is_cut`` where the text has more tokens than are read.
    """

    ids: tuple[int, ...]
    offsets: tuple[tuple[int, int], ...]
    is_cut: bool = False


def read_text(tokenizer: Tokenizer, text: str, tokens: int) -> Text:
    """The first ``tokens`` tokens of a text, special ones included."""
    every = tokenizer.pieces(text)
    pieces = every[: tokens - 2]
    ids = tokenizer.template.build_inputs_with_special_tokens([id for id, _ in pieces])
    return Text(tuple(ids), ((0, 0), *(place for _, place in pieces), (0, 0)), len(pieces) < len(every))


def padded_batch(
    texts: Sequence[Sequence[int]], padding: int, device: torch.device, length: int | None = None
) -> dict[str, Tensor]:
    """``input_ids`` and ``attention_mask`` ``[n, length]`` of texts, by default as long as the longest."""
    length = length or max(map(len, texts))
    ids = torch.tensor([[*text, *[padding] * (length - len(text))] for text in texts])
    mask = torch.tensor([[1] * len(text) + [0] * (length - len(text)) for text in texts])
    return {"input_ids": to_device(ids, device), "attention_mask": to_device(mask, device)}
