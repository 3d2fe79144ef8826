"""What a benchmark trains: the shape of a model, of its texts and of a pack, with random weights and random rows."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from harness.training.inputs import Encoded
from harness.training.recipe import Part

VOCABULARY, LONGEST, SIGMA, CLASSES = 2000, 512, 0.6, 3
PAD, TARGET = 1, "target"
RATE, CLIP = 5e-4, 1.0


@dataclass(frozen=True)
class Shape:
    """An encoder of ``layers`` x ``width``, ``lanes`` cells of one column, texts of ``mean`` tokens, ``batch`` rows.

    The lowest ``left_out`` layers have no adapter.
    """

    layers: int
    width: int
    lanes: int
    mean: int
    batch: int = 32
    left_out: int = 0

    def __str__(self) -> str:
        """Say the shape in one line."""
        return f"{self.layers} layers x {self.width}, K = {self.lanes}, mean {self.mean} tokens, batch {self.batch}"


def network(shape: Shape) -> Any:  # noqa: ANN401 - the library's model classes share no useful type
    """A RoBERTa of this shape with random weights, dropout 0.1, and no adapter yet."""
    from adapters import RobertaAdapterModel
    from transformers import RobertaConfig

    logging.getLogger("adapters.model_mixin").setLevel(logging.ERROR)  # it warns before an adapter is activated
    torch.manual_seed(0)
    return RobertaAdapterModel(
        RobertaConfig(
            vocab_size=VOCABULARY,
            hidden_size=shape.width,
            num_hidden_layers=shape.layers,
            num_attention_heads=shape.width // (64 if shape.width >= 768 else 32),  # as roberta-base and MiniLM have
            intermediate_size=4 * shape.width,
            max_position_embeddings=LONGEST + 2,
            pad_token_id=PAD,
        )
    )


def add_adapter(model: Any, name: str, left_out: int = 0) -> None:  # noqa: ANN401
    """Add the study's adapter: a sequential bottleneck of width / 16, but in the lowest ``left_out`` layers."""
    from adapters import SeqBnConfig

    model.add_adapter(name, config=SeqBnConfig(reduction_factor=16, leave_out=list(range(left_out))))


def add_head(model: Any, name: str) -> None:  # noqa: ANN401
    """Add the study's head: two layers, tanh, on the first token."""
    model.add_classification_head(name, num_labels=CLASSES, layers=2, activation_function="tanh")


def rows(shape: Shape, steps: int, seed: int) -> Part:
    """Rows for this many steps, their lengths lognormal with the shape's mean, cut at 512 tokens."""
    rng = np.random.default_rng(seed)
    count = shape.batch * steps
    lengths = rng.lognormal(np.log(shape.mean) - SIGMA**2 / 2, SIGMA, count).round().clip(4, LONGEST).astype(int)
    texts = [tuple(rng.integers(5, VOCABULARY, length).tolist()) for length in lengths]
    return Part([(Encoded(text, (0,) * len(text), False, False),) for text in texts], rng.integers(0, CLASSES, count))
