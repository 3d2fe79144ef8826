"""Frozen dense layers and norms as plain tensors; on a processor oneDNN computes their products."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional


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
    """``x W' + b`` for a frozen W through oneDNN, whose kernels use AVX-512 and AMX on processors of every maker."""

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
    """A frozen dense layer ``[out, in]`` with its bias ``[out]``.

    ``turned`` is the weight's transpose where oneDNN computes the product; both are in oneDNN's own layout then, which
    it would otherwise make of them for every product.
    """

    weight: Tensor
    bias: Tensor
    turned: Tensor | None

    def __call__(self, values: Tensor) -> Tensor:
        """Map the last dimension."""
        if self.turned is None:
            return functional.linear(values, self.weight, self.bias)
        product: Tensor = _Product.apply(values, self.weight, self.bias, self.turned)  # type: ignore[no-untyped-call]
        return product


def norm(module: Any, dtype: torch.dtype, device: torch.device) -> Norm:  # noqa: ANN401 - the library's classes share no type
    """A LayerNorm of the library's."""
    return Norm(module.weight.detach().to(device, dtype), module.bias.detach().to(device, dtype), module.eps)


def linear(modules: Sequence[Any], dtype: torch.dtype, device: torch.device, scales: Sequence[float] = ()) -> Linear:
    """Dense layers over the same input as one, their outputs side by side, each ``scales`` times as large."""
    parts = [weights_of(*one, dtype, device) for one in zip(modules, scales or [1.0] * len(modules), strict=True)]
    weight, bias = (torch.cat(part) for part in zip(*parts, strict=True))
    if not _serves_onednn(dtype, device):
        return Linear(weight, bias, None)
    pack = torch.ops.mkldnn._reorder_linear_weight
    return Linear(pack(weight), bias, pack(weight.t().contiguous()))


def weights_of(module: Any, scale: float, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:  # noqa: ANN401
    """The weight ``[out, in]`` and bias ``[out]`` of a dense layer, ``scale`` times as large."""
    return (scale * module.weight.detach()).to(device, dtype), (scale * module.bias.detach()).to(device, dtype)


def _serves_onednn(dtype: torch.dtype, device: torch.device) -> bool:
    if device.type != "cpu" or not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    has_bf16: bool = torch.ops.mkldnn._is_mkldnn_bf16_supported()
    return dtype == torch.float32 or (dtype == torch.bfloat16 and has_bf16)
