"""The frozen encoder without the library that has it: BERT and RoBERTa from named tensors, in torch alone.

Only what ``harness.training.lanes.frozen`` takes apart is here, under the library's names: embeddings that compute, and
the modules of every layer, which hold weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

ACTIVATIONS = {"gelu": functional.gelu, "relu": functional.relu}
FIELDS = (
    *("model_type", "hidden_size", "num_hidden_layers", "num_attention_heads", "max_position_embeddings"),
    *("hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout", "layer_norm_eps"),
    *("hidden_act", "pad_token_id"),
)
PARTS = ("embeddings.", "encoder.")  # what the names of its tensors start with


class Embeddings(nn.Module):
    """Words, positions and segments, added and normed; RoBERTa counts positions from its padding id on."""

    def __init__(self, config: SimpleNamespace, tensors: Mapping[str, Tensor]) -> None:
        """Take the tensors whose names start with ``embeddings.``."""
        super().__init__()
        self.pads_first = config.model_type != "bert"
        self.pad = config.pad_token_id
        for name in ("word_embeddings", "position_embeddings", "token_type_embeddings"):
            self.register_buffer(name, tensors[f"embeddings.{name}.weight"])
        self.LayerNorm = _norm(config, tensors, "embeddings.LayerNorm")

    def forward(self, input_ids: Tensor, token_type_ids: Tensor | None = None) -> Tensor:
        """``[b, t, d]`` of token ids and segments ``[b, t]``; without segments all are 0."""
        if self.pads_first:
            own = (input_ids != self.pad).int()
            positions = (own.cumsum(1).type_as(own) * own).long() + self.pad
        else:
            positions = torch.arange(input_ids.shape[1], device=input_ids.device).unsqueeze(0)
        segments = torch.zeros_like(input_ids) if token_type_ids is None else token_type_ids
        words = functional.embedding(input_ids, self.word_embeddings)  # type: ignore[arg-type]
        words = words + functional.embedding(segments, self.token_type_embeddings)  # type: ignore[arg-type]
        words = words + functional.embedding(positions, self.position_embeddings)  # type: ignore[arg-type]
        normed: Tensor = self.LayerNorm(words)
        return normed


def bare_encoder(config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Any:  # noqa: ANN401
    """What ``freeze`` takes apart, from FIELDS of a config and tensors whose names start with PARTS."""
    own = SimpleNamespace(**config)
    layers = [_layer(own, tensors, f"encoder.layer.{depth}") for depth in range(own.num_hidden_layers)]
    embeddings = Embeddings(own, tensors)
    base = SimpleNamespace(embeddings=embeddings, encoder=SimpleNamespace(layer=layers), parameters=list)
    return SimpleNamespace(base_model=base, config=own)


def _layer(config: SimpleNamespace, tensors: Mapping[str, Tensor], name: str) -> SimpleNamespace:
    def dense(part: str) -> nn.Linear:
        weight, bias = tensors[f"{name}.{part}.weight"], tensors[f"{name}.{part}.bias"]
        made = nn.Linear(weight.shape[1], weight.shape[0], device="meta")
        made.weight, made.bias = (nn.Parameter(value, requires_grad=False) for value in (weight, bias))
        return made

    attention = SimpleNamespace(
        num_attention_heads=config.num_attention_heads,
        attention_head_size=config.hidden_size // config.num_attention_heads,
        **{part: dense(f"attention.self.{part}") for part in ("query", "key", "value")},
    )
    attended = SimpleNamespace(
        dense=dense("attention.output.dense"), LayerNorm=_norm(config, tensors, f"{name}.attention.output.LayerNorm")
    )
    return SimpleNamespace(
        attention=SimpleNamespace(self=attention, output=attended),
        intermediate=SimpleNamespace(
            dense=dense("intermediate.dense"), intermediate_act_fn=ACTIVATIONS[config.hidden_act]
        ),
        output=SimpleNamespace(
            dense=dense("output.dense"), LayerNorm=_norm(config, tensors, f"{name}.output.LayerNorm")
        ),
    )


def _norm(config: SimpleNamespace, tensors: Mapping[str, Tensor], name: str) -> nn.LayerNorm:
    weight, bias = tensors[f"{name}.weight"], tensors[f"{name}.bias"]
    made = nn.LayerNorm(weight.shape[0], eps=config.layer_norm_eps, device="meta")
    made.weight, made.bias = (nn.Parameter(value, requires_grad=False) for value in (weight, bias))
    return made
