"""The adapters of many lanes in one layer, with their gradients written out: few passes over what lanes hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from harness.training.dense import Norm


@dataclass(frozen=True)
class Bottleneck:
    """The adapters of one layer, one per lane: ``down [K, r, d]``, ``up [K, d, r]`` and their biases ``[K, 1, .]``."""

    down: Tensor
    down_bias: Tensor
    up: Tensor
    up_bias: Tensor

    def __call__(self, total: Tensor, norm: Norm) -> Tensor:
        """``s + A(N(s))`` with A: down, relu, up; ``[K or 1, b, t, d]`` to ``[K, b, t, d]``."""
        weights = (self.down, self.down_bias, self.up, self.up_bias)
        adapted: Tensor = _Adapted.apply(total, *weights, norm)  # type: ignore[no-untyped-call]
        return adapted

    def to(self, dtype: torch.dtype) -> Bottleneck:
        """The same weights in another precision."""
        return Bottleneck(self.down.to(dtype), self.down_bias.to(dtype), self.up.to(dtype), self.up_bias.to(dtype))


class _Adapted(torch.autograd.Function):
    """``s + A(N(s))`` of every lane; gradients of s and of the lanes' weights where they are asked for."""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        total: Tensor,
        down: Tensor,
        down_bias: Tensor,
        up: Tensor,
        up_bias: Tensor,
        norm: Norm,
    ) -> Tensor:
        lanes = down.shape[0]
        normed, mean, deviation = torch.native_layer_norm(
            total, norm.weight.shape, norm.weight, norm.bias, norm.epsilon
        )
        flat = normed.flatten(1, 2).expand(lanes, -1, -1)
        inner = torch.baddbmm(down_bias, flat, down.transpose(1, 2)).relu_()
        adapted = torch.baddbmm(up_bias, inner, up.transpose(1, 2)).view(lanes, *total.shape[1:]).add_(total)
        ctx.norm = norm
        ctx.save_for_backward(total, mean, deviation, flat, inner, down, up)
        return adapted

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        total, mean, deviation, flat, inner, down, up = ctx.saved_tensors
        of_total, of_weights = ctx.needs_input_grad[0], ctx.needs_input_grad[1]
        outer = gradient.flatten(1, 2)
        below = (outer @ up).mul_(inner > 0)
        found: list[Tensor | None] = [None] * 4
        if of_weights:
            found = [below.transpose(1, 2) @ flat, below.sum(1, keepdim=True)]
            found += [outer.transpose(1, 2) @ inner, outer.sum(1, keepdim=True)]
        passed = None
        if of_total:
            normed, norm = (below @ down).view(gradient.shape), ctx.norm
            if total.shape != gradient.shape:
                normed, gradient = normed.sum(0, keepdim=True), gradient.sum(0, keepdim=True)
            passed, _, _ = torch.ops.aten.native_layer_norm_backward(
                normed, total, norm.weight.shape, mean, deviation, norm.weight, norm.bias, [True, False, False]
            )
            passed = passed + gradient
        return passed, *found, None
