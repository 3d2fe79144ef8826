"""What similarities are computed from: texts and words of tasks, samples of their rows, and the adapted encoder.

`Adapted` is the frozen encoder with stored adapters, of which one at a time is switched on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from adapters_store import Store
from harness.study.backbones.backbone import Backbone
from harness.study.cell import Cell
from harness.study.device import ANY_DEVICE, Device
from harness.training.batches import collate
from harness.training.inputs import Encoded, InputFormat, rows_of
from harness.training.model import load_backbone, stored_adapter
from harness.training.tokens.tokenizer import load_tokenizer
from tasks.splits.contamination import normalise
from tasks.splits.loading import Splits
from tasks.task import Example

T = TypeVar("T")
BATCH = 32  # rows; of a row of several windows only the first


def evenly_spaced(rows: Sequence[T], most: int) -> list[T]:
    """At most ``most`` rows, spread evenly over all."""
    count = min(most, len(rows))
    return [rows[i * len(rows) // count] for i in range(count)]


def text_of(row: Example) -> str:
    """Earlier turns and text of a row, oldest first, as one text."""
    return " ".join([*(turn.text for turn in row.context), row.text])


def words_of(rows: Sequence[Example]) -> Counter[str]:
    """How often every word (lower case, without punctuation) occurs in the rows."""
    return Counter(word for row in rows for word in normalise(text_of(row)).split())


def overlap(intermediate: Mapping[str, int], target: Mapping[str, int]) -> dict[str, float]:
    """Overlap of two vocabularies by word counts; both numbers are 0 where the target has no word.

    ``jaccard`` is the number of distinct words of both over those of either, ``share`` that of the target's running
    words which the intermediate has.
    """
    both = intermediate.keys() & target.keys()
    either, running = len(intermediate.keys() | target.keys()), sum(target.values())
    return {
        "jaccard": len(both) / either if either else 0.0,
        "share": sum(target[word] for word in both) / running if running else 0.0,
    }


@dataclass(frozen=True)
class Sample:
    """Some training rows of a cell, encoded as in its training, and their labels."""

    rows: list[Encoded]
    labels: NDArray[np.int64] | NDArray[np.float64]


def sample_of(cell: Cell, backbone: Backbone, splits: Splits, most: int) -> Sample:
    """At most ``most`` training rows of the cell, spread evenly over those that it trains on."""
    spec = cell.spec
    rows = evenly_spaced(rows_of(cell, splits).train, most)
    tokenizer = load_tokenizer(backbone)
    form = InputFormat.of(spec, tokenizer)
    return Sample([windows[0] for windows in form.encode_all(rows)], np.array([row.label for row in rows]))


class Adapted:
    """A backbone with stored adapters, which are loaded by their record's key; dropout is off, nothing is trained."""

    def __init__(self, backbone: Backbone, store: Store, device: Device = ANY_DEVICE) -> None:
        """Bind a backbone to the store that its adapters are in; it is loaded when it is first needed."""
        self.backbone, self.store, self.device = backbone, store, device
        self.names: dict[tuple[str, bool], str] = {}

    @cached_property
    def torch_device(self) -> torch.device:
        """Where the model is."""
        return self.device.ready()

    @cached_property
    def network(self) -> Any:  # noqa: ANN401 - the library's model classes share no useful type
        """The model, every parameter frozen."""
        return load_backbone(self.backbone).requires_grad_(False).to(self.torch_device)

    def load(self) -> None:
        """Read the backbone's weights."""
        _ = self.network

    def switch_on(self, key: str, *, with_head: bool) -> str:
        """Make the adapter of this record the only active adapter; the name that it and its head have."""
        if (key, with_head) not in self.names:
            folder = stored_adapter(self.store, key)
            for name in ("head_config.json", "model_head.safetensors") if with_head else ():
                self.store.open(key, f"adapter/{name}")
            name = f"task{len(self.names)}"
            self.network.load_adapter(
                str(folder), load_as=name, with_head=with_head, use_safetensors=True, set_active=False
            )
            self.network.requires_grad_(False).to(self.torch_device)
            self.names[key, with_head] = name
        self.network.set_active_adapters(self.names[key, with_head])
        self.network.eval()
        return self.names[key, with_head]

    def batches(self, rows: list[Encoded]) -> Iterator[tuple[list[int], dict[str, Tensor]]]:
        """Row numbers in the order of ``rows`` and the padded tensors of each batch."""
        pad = load_tokenizer(self.backbone).padding
        has_segments = self.backbone.model_type == "bert"
        for start in range(0, len(rows), BATCH):
            numbers = list(range(start, min(start + BATCH, len(rows))))
            batch = collate([rows[i] for i in numbers], pad, has_segments=has_segments)
            yield numbers, {name: values.to(self.torch_device) for name, values in batch.items()}

    def first_tokens(self, rows: list[Encoded]) -> NDArray[np.float64]:
        """The last layer's vector of each row's first token ``[rows, width]``, which is all that a head would see."""
        with torch.inference_mode():
            parts = [self.network.base_model(**batch).last_hidden_state[:, 0] for _, batch in self.batches(rows)]
        vectors: NDArray[np.float64] = torch.cat(parts).cpu().double().numpy()
        return vectors

    def mean_tokens(self, rows: list[Encoded]) -> NDArray[np.float64]:
        """The mean of each row's token vectors ``[rows, width]`` without any adapter."""
        self.network.set_active_adapters(None)
        parts = []
        with torch.inference_mode():
            for _, batch in self.batches(rows):
                mask = batch["attention_mask"].unsqueeze(-1).float()
                hidden = self.network.base_model(**batch).last_hidden_state
                parts.append((hidden * mask).sum(1) / mask.sum(1))
        vectors: NDArray[np.float64] = torch.cat(parts).cpu().double().numpy()
        return vectors
