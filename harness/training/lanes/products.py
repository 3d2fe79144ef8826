"""The products of lanes in their precision: with frozen layers, and of batches of matrices.

On a processor oneDNN computes those of frozen layers. Where a processor has no products of bf16, theirs are computed in
fp32, of values that stay in bf16, and rounded to bf16 once, as a processor that has them does: the same mathematics, in
the time that fp32 takes, where torch's own products of bf16 take some nine times as long.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

BF16 = torch.bfloat16


@cache
def has_bf16_products() -> bool:
    """Whether this processor multiplies in bf16, by oneDNN's account."""
    supported: bool = torch.ops.mkldnn._is_mkldnn_bf16_supported()
    return supported


def is_widened(dtype: torch.dtype, device: torch.device) -> bool:
    """Whether products of this precision are computed in fp32 on this device."""
    return dtype == BF16 and device.type == "cpu" and not has_bf16_products()


def multiplied(left: Tensor, right: Tensor) -> Tensor:
    """The products of two batches of matrices, ``[n, i, j]`` and ``[n, j, k]``."""
    if is_widened(left.dtype, left.device):
        return torch.bmm(left.float(), right.float()).to(BF16)
    return torch.bmm(left, right)


def multiplied_onto(bias: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """The same, added to ``bias [n, 1, k]`` and then rounded."""
    if is_widened(left.dtype, left.device):
        return torch.baddbmm(bias.float(), left.float(), right.float()).to(BF16)
    return torch.baddbmm(bias, left, right)


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


def _onednn(values: Tensor, weight: Tensor, bias: Tensor | None, after: tuple[str, str] = ("none", "")) -> Tensor:
    """The product in the weight's precision; ``after`` is what is made of its numbers while they are at hand."""
    name, variant = after
    product: Tensor = torch.ops.mkldnn._linear_pointwise(values.to(weight.dtype), weight, bias, name, [], variant)
    return product.to(values.dtype)


@dataclass(frozen=True)
class Linear:
    """A frozen dense layer ``[out, in]`` with its bias ``[out]``.

    ``turned`` is the weight's transpose where oneDNN computes the product; both are in oneDNN's own layout then, which
    it would otherwise make of them for every product, and in the precision in which it multiplies.
    """

    weight: Tensor
    bias: Tensor
    turned: Tensor | None

    def __call__(self, values: Tensor) -> Tensor:
        """Map the last dimension."""
        if self.turned is None:
            return functional.linear(values.to(self.weight.dtype), self.weight, self.bias).to(values.dtype)
        product: Tensor = _Product.apply(values, self.weight, self.bias, self.turned)  # type: ignore[no-untyped-call]
        return product

    def gelu(self, values: Tensor) -> Tensor:
        """GELU of what it maps, without a gradient."""
        if self.turned is None:
            return functional.gelu(self(values))
        return _onednn(values, self.weight, self.bias, ("gelu", "none"))


def linear(modules: Sequence[Any], dtype: torch.dtype, device: torch.device, scales: Sequence[float] = ()) -> Linear:
    """Dense layers over the same input as one, their outputs side by side, each ``scales`` times as large."""
    factors = scales or [1.0] * len(modules)
    parts = [weights_of(module, factor, dtype, device) for module, factor in zip(modules, factors, strict=True)]
    weight, bias = (torch.cat(part) for part in zip(*parts, strict=True))
    if is_widened(dtype, device):
        weight, bias = weight.float(), bias.float()
    if not _serves_onednn(dtype, device):
        return Linear(weight, bias, None)
    pack = torch.ops.mkldnn._reorder_linear_weight
    return Linear(pack(weight), bias, pack(weight.t().contiguous()))


def weights_of(module: Any, scale: float, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:  # noqa: ANN401
    """The weight ``[out, in]`` and bias ``[out]`` of a dense layer, ``scale`` times as large."""
    return (scale * module.weight.detach()).to(device, dtype), (scale * module.bias.detach()).to(device, dtype)


def _serves_onednn(dtype: torch.dtype, device: torch.device) -> bool:
    is_here: bool = device.type == "cpu" and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return is_here and dtype in (torch.float32, BF16)
