"""The frozen encoder as plain tensors: what a forward pass over many lanes needs of a BERT or RoBERTa model."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from harness.training.devices import CPU


@dataclass(frozen=True)
class Norm:
    """A frozen LayerNorm over the last dimension, width ``d``."""

    weight: Tensor
    bias: Tensor
    epsilon: float

    def __call__(self, values: Tensor) -> Tensor:
        """Normalise the last dimension."""
        return functional.layer_norm(values, self.weight.shape, self.weight, self.bias, self.epsilon)


class _Product(torch.autograd.Function):
    """``x W' + b`` for a frozen W through oneDNN, whose fp32 kernels use AVX-512 on processors of every maker."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, weight: Tensor, bias: Tensor, turned: Tensor) -> Tensor:  # noqa: ANN401
        ctx.save_for_backward(turned)
        return _onednn(values, weight, bias)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:  # noqa: ANN401
        (turned,) = ctx.saved_tensors
        return _onednn(gradient.contiguous(), turned, None), None, None, None


def _onednn(values: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    product: Tensor = torch.ops.mkldnn._linear_pointwise(values, weight, bias, "none", [], "")
    return product


@dataclass(frozen=True)
class Linear:
    """A frozen dense layer ``[out, in]``; ``turned`` is the weight's transpose where oneDNN computes the product."""

    weight: Tensor
    bias: Tensor
    turned: Tensor | None

    def __call__(self, values: Tensor) -> Tensor:
        """Map the last dimension."""
        if self.turned is None:
            return functional.linear(values, self.weight, self.bias)
        product: Tensor = _Product.apply(values, self.weight, self.bias, self.turned)  # type: ignore[no-untyped-call]
        return product


@dataclass(frozen=True)
class Layer:
    """One frozen transformer layer; queries apart from keys and values, because the last layer asks for one query.

    Queries are scaled by 1 / sqrt(size of a head) already.
    """

    query: Linear
    key_value: Linear
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
        return self.layers[0].query.weight.device


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
        layers=tuple(_layer(layer, dtype, device) for layer in base.encoder.layer),
        activation=base.encoder.layer[0].intermediate.intermediate_act_fn,
        dtype=dtype,
        positions=config.max_position_embeddings,
        heads=config.num_attention_heads,
        width=config.hidden_size,
        hidden_dropout=config.hidden_dropout_prob,
        attention_dropout=config.attention_probs_dropout_prob,
        head_dropout=config.hidden_dropout_prob,
    )


def _layer(layer: Any, dtype: torch.dtype, device: torch.device) -> Layer:  # noqa: ANN401
    own, attention, feed = layer.attention.self, layer.attention.output, layer.output
    return Layer(
        query=_linear([own.query], dtype, device, scale=1 / math.sqrt(own.attention_head_size)),
        key_value=_linear([own.key, own.value], dtype, device),
        attended=_linear([attention.dense], dtype, device),
        attention_norm=_norm(attention.LayerNorm, dtype, device),
        up=_linear([layer.intermediate.dense], dtype, device),
        down=_linear([feed.dense], dtype, device),
        output_norm=_norm(feed.LayerNorm, dtype, device),
    )


def _linear(modules: Sequence[Any], dtype: torch.dtype, device: torch.device, scale: float = 1.0) -> Linear:
    """Dense layers over the same input as one, their outputs side by side and ``scale`` times as large."""
    weight = (scale * torch.cat([module.weight for module in modules]).detach()).to(device, dtype)
    bias = (scale * torch.cat([module.bias for module in modules]).detach()).to(device, dtype)
    has_onednn: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    is_faster = has_onednn and weight.device.type == "cpu" and dtype == torch.float32
    return Linear(weight, bias, weight.t().contiguous() if is_faster else None)


def _norm(module: Any, dtype: torch.dtype, device: torch.device) -> Norm:  # noqa: ANN401
    return Norm(module.weight.detach().to(device, dtype), module.bias.detach().to(device, dtype), module.eps)
