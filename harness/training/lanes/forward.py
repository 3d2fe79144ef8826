"""The forward pass of many cells at once: one frozen encoder, K lanes of adapters and heads.

All lanes see the same rows. Frozen layers are one matrix product over all lanes, adapters are batched products with
weights ``[K, ...]``. Below the first adapter the lanes are equal and computed once; the last layer is computed for the
first token only, because nothing else reaches the heads. The mathematics of a stack is the adapters library's
(`seq_bn`): with h the dropped-out output of the feed-forward block, r its residual and N the layer's own norm,
``h <- A(N(h + r)) + h`` for the intermediate, then for the target, then ``N(h + r)``; here with ``s = h + r`` as
``s <- s + A(N(s))`` and ``N(s)``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from harness.training.lanes.frozen import AllTokens, Frozen, Layer, Norm, multiplied, multiplied_onto
from harness.training.lanes.masks import Masks, passes_on

# The adapters of many lanes in one layer, with their gradients written out: few passes over what lanes hold.


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
        inner = multiplied_onto(down_bias, flat, down.transpose(1, 2)).relu_()
        adapted = multiplied_onto(up_bias, inner, up.transpose(1, 2)).view(lanes, *total.shape[1:]).add_(total)
        ctx.norm = norm
        ctx.save_for_backward(total, mean, deviation, flat, inner, down, up)
        return adapted

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        # Forward, per lane: n = N(s), i = relu(n D' + d), y = s + i U' + u. With g the gradient of y:
        #   that of what relu took in is p = (g U) where i > 0, else 0,
        #   of the weights: D gets p' n, d the sum of p over tokens, U gets g' i, u the sum of g,
        #   of s: g itself, and by way of the norm what its own backward makes of p D.
        # Where lanes have s in common, their gradients are added up before the norm, whose backward is linear in them.
        total, mean, deviation, flat, inner, down, up = ctx.saved_tensors
        of_total, of_down, _, of_up, *_ = ctx.needs_input_grad
        outer = gradient.flatten(1, 2)
        intake = multiplied(outer, up).mul_(inner > 0)
        weights: list[Tensor | None] = [None] * 4
        if of_down:
            weights[:2] = multiplied(intake.transpose(1, 2), flat), intake.sum(1, keepdim=True)
        if of_up:  # alone, where parents of a frozen merge are weighed
            weights[2:] = multiplied(outer.transpose(1, 2), inner), outer.sum(1, keepdim=True)
        passed = None
        if of_total:
            normed, norm = multiplied(intake, down).view(gradient.shape), ctx.norm
            if total.shape != gradient.shape:
                normed, gradient = normed.sum(0, keepdim=True), gradient.sum(0, keepdim=True)
            passed, _, _ = torch.ops.aten.native_layer_norm_backward(
                normed, total, norm.weight.shape, mean, deviation, norm.weight, norm.bias, [True, False, False]
            )
            passed = passed + gradient
        return passed, *weights, None


@dataclass(frozen=True)
class Heads:
    """Two-layer tanh heads, one per lane: ``dense [K, d, d]``, ``out [K, outputs, d]`` and biases ``[K, 1, .]``."""

    dense: Tensor
    dense_bias: Tensor
    out: Tensor
    out_bias: Tensor

    def __call__(self, first: Tensor, masks: tuple[Tensor, Tensor] | None) -> Tensor:
        """Logits ``[K, b, outputs]`` from the first token's vectors ``[K, b, d]``."""
        first = first if masks is None else first * masks[0]
        inner = torch.baddbmm(self.dense_bias, first, self.dense.transpose(1, 2)).tanh()
        inner = inner if masks is None else inner * masks[1]
        return torch.baddbmm(self.out_bias, inner, self.out.transpose(1, 2))


@dataclass(frozen=True)
class Lanes:
    """K cells of one column: by layer the frozen intermediates (None where no lane has one) and the targets."""

    intermediates: Mapping[int, Bottleneck] | None
    targets: Mapping[int, Bottleneck]
    heads: Heads

    @property
    def count(self) -> int:
        """K."""
        return int(self.heads.out.shape[0])

    def banks(self, depth: int) -> list[Bottleneck]:
        """The adapters of a layer in their order."""
        return [banks[depth] for banks in (self.intermediates, self.targets) if banks and depth in banks]

    def to(self, dtype: torch.dtype) -> Lanes:
        """The adapters in the encoder's precision; the heads, which are small, stay in the precision of training."""
        both = (self.intermediates or {}, self.targets)
        intermediates, targets = ({layer: bank.to(dtype) for layer, bank in banks.items()} for banks in both)
        return Lanes(intermediates, targets, self.heads)


def forward(frozen: Frozen, lanes: Lanes, batch: dict[str, Tensor], masks: Masks | None) -> Tensor:
    """Logits ``[K, b, outputs]`` of a padded batch (``[b, t]``); ``masks`` None means evaluation.

    ``lanes`` are in the encoder's precision (``Lanes.to``).
    """
    # Embeddings are the same for all lanes and computed once, [1, b, t, d]; the first adapter makes them K.
    attention_mask = batch["attention_mask"]
    embedded = frozen.embed(**{name: value for name, value in batch.items() if name != "attention_mask"})
    hidden = embedded.unsqueeze(0) if masks is None else dropped(embedded.unsqueeze(0), masks.embedding, masks.scale)
    # Padding gets the lowest number of its precision added to its scores, which softmax makes 0; never less than fp32.
    exact = torch.promote_types(hidden.dtype, torch.float32)
    hidden_from = torch.zeros(attention_mask.shape, dtype=exact, device=attention_mask.device)
    hidden_from = hidden_from.masked_fill(attention_mask == 0, torch.finfo(hidden_from.dtype).min)[:, None, None, :]
    if (kernels := passes_on(hidden.device)) is not None:
        hidden = _through(kernels, frozen, lanes, hidden, hidden_from, masks)
    else:
        for depth, layer in enumerate(frozen.layers):
            hidden = _block(frozen, layer, lanes, depth, hidden, hidden_from, masks)
    return lanes.heads(hidden[:, :, 0].to(lanes.heads.dense.dtype), None if masks is None else masks.head)


def _block(
    frozen: Frozen, layer: Layer, lanes: Lanes, depth: int, hidden: Tensor, hidden_from: Tensor, masks: Masks | None
) -> Tensor:
    """One layer, ``[K or 1, b, t, d]`` to ``[K, b, t, d]``, of the last layer ``[K, b, 1, d]``."""
    of_scores, of_attended, of_output = masks.of(depth) if masks else (None, None, None)
    attended = layer.attention(hidden, hidden_from, of_scores)
    hidden = hidden[:, :, : attended.shape[2]]
    scale = masks.scale if masks else 1.0
    hidden = layer.attention_norm(added(hidden, layer.attended(attended), of_attended, scale))
    total = added(hidden, layer.down(frozen.activation(layer.up(hidden))), of_output, scale)
    for bank in lanes.banks(depth):
        total = bank(total, layer.output_norm)
    return layer.output_norm(total)


def _through(
    by: ModuleType, frozen: Frozen, lanes: Lanes, normed: Tensor, hidden_from: Tensor, masks: Masks | None
) -> Tensor:
    """All layers by the kernels of ``passes``, each sum with the norm after it: to rounding what ``_block`` makes."""
    scale, of_attention = (masks.scale, masks.attention_scale) if masks else (1.0, 1.0)
    added, again = by.AddedAndNormed.apply, normed  # the norm for the next sum, as ``normed`` is for the next product
    for depth, layer in enumerate(frozen.layers):
        of_scores, of_attended, of_output = masks.of(depth) if masks else (None, None, None)
        softmax = [partial(by.softmax, of_attention)] if isinstance(layer.attention, AllTokens) else []
        attended = layer.attended(layer.attention(normed, hidden_from, of_scores, *softmax))
        again = again[:, :, : attended.shape[2]]
        _, normed, again = added(again, attended, None, of_attended, scale, layer.attention_norm)
        output, norm = layer.down(frozen.activation(layer.up(normed))), layer.output_norm
        total, normed, again = added(again, output, None, of_output, scale, norm)
        for bank in lanes.banks(depth):
            flat = normed.flatten(1, 2).expand(lanes.count, -1, -1)
            inner = torch.baddbmm(bank.down_bias, flat, bank.down.transpose(1, 2)).relu_()
            output = torch.bmm(inner, bank.up.transpose(1, 2)).view(lanes.count, *normed.shape[1:])
            total, normed, again = added(total.expand_as(output), output, bank.up_bias, None, 1.0, norm)
    return normed


def added(residual: Tensor, output: Tensor, mask: Tensor | None, scale: float = 1.0) -> Tensor:
    """``residual + scale * mask * output``; without a mask, ``residual + output``."""
    if mask is None:
        return residual + output
    if scale == 1.0:
        return torch.addcmul(residual, output, mask)
    total: Tensor = _AddedScaled.apply(residual, output, mask, scale)  # type: ignore[no-untyped-call]
    return total


def dropped(values: Tensor, mask: Tensor, scale: float) -> Tensor:
    """``scale * mask * values``, rounded once."""
    return values * mask if scale == 1.0 else torch.addcmul(values.new_zeros(()), values, mask, value=scale)


class _AddedScaled(torch.autograd.Function):
    """``residual + scale * mask * output`` of bf16 values, rounded once; torch's own gradient would round the scale."""

    @staticmethod
    def forward(ctx: Any, residual: Tensor, output: Tensor, mask: Tensor, scale: float) -> Tensor:  # noqa: ANN401
        ctx.save_for_backward(mask)
        ctx.scale = scale
        return torch.addcmul(residual, output, mask, value=scale)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None, None]:  # noqa: ANN401
        (mask,) = ctx.saved_tensors
        return gradient, dropped(gradient, mask, ctx.scale), None, None
