"""The frozen encoder as plain tensors: what a forward pass over many lanes needs of a BERT or RoBERTa model."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from harness.training.attention import AllTokens, FirstToken
from harness.training.dense import Linear, Norm, linear, norm, weights_of
from harness.training.devices import CPU


@dataclass(frozen=True)
class Layer:
    """One frozen transformer layer; the last one's attention is that of the first token alone."""

    attention: AllTokens | FirstToken
    attended: Linear
    attention_norm: Norm
    up: Linear
    down: Linear
    output_norm: Norm


@dataclass(frozen=True)
class Frozen:
    """The whole frozen encoder: its embeddings (dropout off), layers, and the widths that a forward pass needs."""

    embed: Callable[..., Tensor]
    layers: tuple[Layer, ...]
    activation: Callable[[Tensor], Tensor]
    dtype: torch.dtype
    positions: int
    heads: int
    width: int
    hidden_dropout: float
    attention_dropout: float
    head_dropout: float

    @property
    def device(self) -> torch.device:
        """Where its weights are, and everything that is computed with them."""
        return self.layers[0].attended.bias.device


PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16}


def freeze(model: Any, dtype: torch.dtype = torch.float32, device: torch.device = CPU) -> Frozen:  # noqa: ANN401 - the library's classes share no type
    """Take a loaded BERT, RoBERTa or XLM-R model apart, in precision ``dtype``; no tensor requires a gradient.

    The model itself stays as it is: lanes are saved through it, in the precision in which they are trained.
    """
    base, config = model.base_model, model.config
    for parameter in base.parameters():
        parameter.requires_grad_(False)
    return Frozen(
        embed=copy.deepcopy(base.embeddings).to(device, dtype).eval(),
        layers=tuple(
            _layer(layer, dtype, device, is_last=depth == config.num_hidden_layers)
            for depth, layer in enumerate(base.encoder.layer, 1)
        ),
        activation=base.encoder.layer[0].intermediate.intermediate_act_fn,
        dtype=dtype,
        positions=config.max_position_embeddings,
        heads=config.num_attention_heads,
        width=config.hidden_size,
        hidden_dropout=config.hidden_dropout_prob,
        attention_dropout=config.attention_probs_dropout_prob,
        head_dropout=_head_dropout(config),
    )


def _head_dropout(config: Any) -> float:  # noqa: ANN401
    """The probability that the adapters library gives its heads: the classifier's own where the config has one."""
    own = getattr(config, "classifier_dropout", None)
    return float(config.hidden_dropout_prob if own is None else own)


def _layer(layer: Any, dtype: torch.dtype, device: torch.device, *, is_last: bool) -> Layer:  # noqa: ANN401
    output, feed = layer.attention.output, layer.output
    attention = _of_first_token if is_last else _of_all_tokens
    return Layer(
        attention=attention(layer.attention.self, dtype, device),
        attended=linear([output.dense], dtype, device),
        attention_norm=norm(output.LayerNorm, dtype, device),
        up=linear([layer.intermediate.dense], dtype, device),
        down=linear([feed.dense], dtype, device),
        output_norm=norm(feed.LayerNorm, dtype, device),
    )


def _of_all_tokens(own: Any, dtype: torch.dtype, device: torch.device) -> AllTokens:  # noqa: ANN401
    projections = linear([own.query, own.key, own.value], dtype, device, [_query_scale(own), 1.0, 1.0])
    return AllTokens(projections, own.num_attention_heads)


def _of_first_token(own: Any, dtype: torch.dtype, device: torch.device) -> FirstToken:  # noqa: ANN401
    by_head = (own.num_attention_heads, own.attention_head_size, -1)
    key, _ = weights_of(own.key, 1.0, dtype, device)
    value, bias = weights_of(own.value, 1.0, dtype, device)
    return FirstToken(
        query=linear([own.query], dtype, device, [_query_scale(own)]),
        key=key.view(by_head),
        value=value.view(by_head).transpose(1, 2).contiguous(),
        value_bias=bias.view(own.num_attention_heads, 1, -1),
    )


def _query_scale(own: Any) -> float:  # noqa: ANN401
    return 1 / math.sqrt(own.attention_head_size)
