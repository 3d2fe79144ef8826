"""The frozen encoder as plain tensors: what a forward pass over many lanes needs of a BERT or RoBERTa model.

The products of lanes in their precision are here, too. On a processor oneDNN computes those of frozen layers. Where
a processor has no products of bf16, theirs are computed in fp32, of values that stay in bf16, and rounded to bf16
once, as a processor that has them does: the same mathematics, in the time that fp32 takes, where torch's own
products of bf16 take some nine times as long.
"""

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from harness.training.tensors import CPU

BF16 = torch.bfloat16


@cache
def has_bf16_products() -> bool:
    """Whether this processor multiplies in bf16; oneDNN says so of any with AVX-512, and on some only emulates it."""
    able: dict[str, bool] = getattr(torch.cpu, "get_capabilities", dict)()  # older torch cannot tell
    is_emulated = able.get("avx512_f") and not (able.get("avx512_bf16") or able.get("amx_bf16"))
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported() and not is_emulated)


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
    is_here = device.type == "cpu" and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    if not (is_here and dtype in (torch.float32, BF16)):  # which oneDNN does not serve
        return Linear(weight, bias, None)
    pack = torch.ops.mkldnn._reorder_linear_weight
    return Linear(pack(weight), bias, pack(weight.t().contiguous()))


def weights_of(module: Any, scale: float, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:  # noqa: ANN401
    """The weight ``[out, in]`` and bias ``[out]`` of a dense layer, ``scale`` times as large."""
    return (scale * module.weight.detach()).to(device, dtype), (scale * module.bias.detach()).to(device, dtype)


@dataclass(frozen=True)
class Norm:
    """A frozen LayerNorm over the last dimension, width ``d``."""

    weight: Tensor
    bias: Tensor
    epsilon: float

    def __call__(self, values: Tensor) -> Tensor:
        """Normalise the last dimension."""
        return functional.layer_norm(values, self.weight.shape, self.weight, self.bias, self.epsilon)


def norm(module: Any, dtype: torch.dtype, device: torch.device) -> Norm:  # noqa: ANN401 - the library's classes share no type
    """A LayerNorm of the library's."""
    return Norm(module.weight.detach().to(device, dtype), module.bias.detach().to(device, dtype), module.eps)


# Attention of many lanes at once: of all tokens, or in the last layer of the first token alone.


@dataclass(frozen=True)
class AllTokens:
    """Attention from every token to every token.

    ``projections`` is queries (scaled by 1 / sqrt(size of a head) already), keys and values in one: ``[3 d, d]``.
    """

    projections: Linear
    heads: int

    def __call__(self, hidden: Tensor, hidden_from: Tensor, mask: Tensor | None, by: Any = None) -> Tensor:  # noqa: ANN401
        """Context vectors ``[K, b, t, d]`` of ``hidden [K, b, t, d]``.

        ``hidden_from [b, 1, 1, t]`` is added to the scores, ``mask [b, heads, t, t]`` multiplies what they become; by
        the kernel ``passes.softmax``, or by plain tensors.
        """
        projected = self.projections(hidden)
        context: Tensor = _Context.apply(projected, hidden_from, mask, self.heads, by)  # type: ignore[no-untyped-call]
        return context


class _Context(torch.autograd.Function):
    """Attention from queries, keys and values side by side, ``[K, b, t, 3 d]``, with its gradient written out."""

    @staticmethod
    def forward(ctx: Any, projected: Tensor, hidden_from: Tensor, mask: Tensor | None, heads: int, by: Any) -> Tensor:  # noqa: ANN401
        lanes, batch, tokens, width = projected.shape
        by_head = projected.view(lanes, batch, tokens, 3, heads, width // 3 // heads).permute(3, 0, 1, 4, 2, 5)
        queries, keys, values = projections = by_head.reshape(3, lanes * batch * heads, tokens, -1)
        scores = multiplied(queries, keys.transpose(1, 2)).view(lanes, batch, heads, tokens, tokens)
        if by is None:
            kept = _softmax(scores, hidden_from)
            weights = _with_mask(kept, mask, values.dtype)
        else:
            kept, (_, weights) = scores, by(scores, hidden_from, mask, None)
        context = multiplied(weights.flatten(0, 2), values).view(by_head.shape[1:])
        ctx.save_for_backward(projections, kept, hidden_from, mask)
        ctx.by = by
        return context.transpose(2, 3).reshape(lanes, batch, tokens, -1)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        # Forward, per head: P = softmax(Q K' + h), A = P * M with the mask M (or P), C = A V. With g the gradient of C:
        #   V gets A' g; A gets g V', so P gets (g V') * M;
        #   the scores get S = P * (that - its mean weighted by P, per row), softmax's own backward,
        #   Q gets S K, and K gets S' Q.
        # P and what is computed from it is never less than fp32; the products have the precision of the layer.
        (queries, keys, values), kept, hidden_from, mask = ctx.saved_tensors
        lanes, batch, heads, tokens, _ = kept.shape
        outer = gradient.view(lanes, batch, tokens, heads, -1).transpose(2, 3).reshape(queries.shape)
        inner = multiplied(outer, values.transpose(1, 2)).view(kept.shape)
        if ctx.by is None:
            inner = inner.to(kept.dtype) if mask is None else inner * mask  # which is as exact as P
            scores = torch._softmax_backward_data(inner, kept, -1, kept.dtype).to(queries.dtype)
            weights = _with_mask(kept, mask, outer.dtype)
        else:
            scores, weights = ctx.by(kept, hidden_from, mask, inner)
        gradients = (
            multiplied(scores.flatten(0, 2), keys),
            multiplied(scores.flatten(0, 2).transpose(1, 2), queries),
            multiplied(weights.flatten(0, 2).transpose(1, 2), outer),
        )
        result = gradient.new_empty(lanes, batch, tokens, 3, heads, gradient.shape[-1] // heads)
        for index, part in enumerate(gradients):
            result[:, :, :, index] = part.view(lanes, batch, heads, tokens, -1).transpose(2, 3)
        return result.flatten(3), None, None, None, None


@dataclass(frozen=True)
class FirstToken:
    """Attention from the first token alone, for which no key and no value of the others is computed.

    Per head q . (W x_j + b) = (q W) . x_j + q . b, of which the last term is the same for all tokens j, so softmax does
    not see it; and sum_j a_j (V x_j + c) = V (sum_j a_j x_j) + c sum_j a_j. The wide products are of one row per text
    where keys and values are of one per token. ``key`` is ``[heads, size, d]``, ``value [heads, d, size]``,
    ``value_bias [heads, 1, size]``.
    """

    query: Linear
    key: Tensor
    value: Tensor
    value_bias: Tensor

    def __call__(self, hidden: Tensor, hidden_from: Tensor, mask: Tensor | None) -> Tensor:
        """Context vectors ``[K, b, 1, d]`` of the first tokens of ``hidden [K, b, t, d]``.

        ``hidden_from`` is ``[b, 1, 1, t]``, ``mask [b, heads, 1, t]``.
        """
        lanes, batch, tokens, width = hidden.shape
        heads, size, _ = self.key.shape
        rows = hidden.flatten(0, 1)
        queries = self.query(hidden[:, :, 0]).view(lanes * batch, heads, size).transpose(0, 1)
        scores = multiplied(multiplied(queries, self.key).transpose(0, 1), rows.transpose(1, 2))
        weights = _softmax(scores.view(lanes, batch, heads, 1, tokens), hidden_from)
        weights = (weights if mask is None else weights * mask).to(rows.dtype).view(lanes * batch, heads, tokens)
        values = multiplied(multiplied(weights, rows).transpose(0, 1), self.value)
        values = values + weights.sum(dim=-1).t().unsqueeze(-1) * self.value_bias
        return values.transpose(0, 1).reshape(lanes, batch, 1, width)


def _softmax(scores: Tensor, hidden_from: Tensor) -> Tensor:
    """What scores become, in the precision of ``hidden_from``, which is never less than theirs."""
    return (scores + hidden_from).softmax(dim=-1)


def _with_mask(weights: Tensor, mask: Tensor | None, dtype: torch.dtype) -> Tensor:
    """What a mask leaves of attention, in a precision of products."""
    if mask is None:
        return weights.to(dtype)
    made = torch.empty(weights.shape, dtype=dtype, device=weights.device)
    return torch.mul(weights, mask, out=made)  # rounded on the way: a GPU goes over it once, not twice


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
    of_head = getattr(config, "classifier_dropout", None)  # as the library: the classifier's own where it has one
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
        head_dropout=float(config.hidden_dropout_prob if of_head is None else of_head),
    )


def _layer(layer: Any, dtype: torch.dtype, device: torch.device, *, is_last: bool) -> Layer:  # noqa: ANN401
    inner, output, feed = layer.attention.self, layer.attention.output, layer.output
    heads, size = inner.num_attention_heads, inner.attention_head_size
    scale = 1 / math.sqrt(size)  # of queries
    attention: AllTokens | FirstToken
    if is_last:
        key, _ = weights_of(inner.key, 1.0, dtype, device)
        value, bias = weights_of(inner.value, 1.0, dtype, device)
        attention = FirstToken(
            query=linear([inner.query], dtype, device, [scale]),
            key=key.view(heads, size, -1),
            value=value.view(heads, size, -1).transpose(1, 2).contiguous(),
            value_bias=bias.view(heads, 1, -1),
        )
    else:
        attention = AllTokens(linear([inner.query, inner.key, inner.value], dtype, device, [scale, 1.0, 1.0]), heads)
    return Layer(
        attention=attention,
        attended=linear([output.dense], dtype, device),
        attention_norm=norm(output.LayerNorm, dtype, device),
        up=linear([layer.intermediate.dense], dtype, device),
        down=linear([feed.dense], dtype, device),
        output_norm=norm(feed.LayerNorm, dtype, device),
    )
