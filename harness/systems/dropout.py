"""Dropout on a processor, for BERT-shaped encoders that are trained whole, and the attention that stands on these.

There the library draws a random number for every value, one after another, and keeps an attention's scores with their
dropout in the memory's slowest part: together most of a training step. Here masks are 16-bit words, four from a number,
as those of lanes are (harness.training.lanes.masks), and attention goes through its rows a few at a time, with its
gradient written out. Devices of other kinds have kernels of their own; there, and in evaluation, the library computes.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from harness.training.lanes.masks import BITS, scale_of, threshold_of

WORDS = 4  # 16-bit words of a 64-bit number
CACHED = 1 << 19  # scores of one step through an attention: those of a few rows stay in a processor's cache
FAMILIES = ("Bert", "Roberta", "XLMRoberta", "Camembert", "Electra")  # whose attention has equal parts


def kept(count: int, probability: float) -> Tensor:
    """Which of ``count`` values stay, ``[count]`` bools, drawn from torch's generator: all but ``probability``.

    The probability is met with 16 bits, ``round(p * 65536) / 65536``.
    """
    numbers = torch.empty(-(-count // WORDS), dtype=torch.int64).random_(-(1 << 63), None)
    return numbers.view(torch.int16)[:count] >= threshold_of(probability) - BITS // 2


class Dropout(nn.Module):
    """Inverted dropout (Srivastava et al. 2014, section 10), in training on a processor by ``kept``."""

    def __init__(self, probability: float) -> None:
        """Dropout of values with this probability."""
        super().__init__()
        self.p = probability

    def forward(self, values: Tensor) -> Tensor:
        """The values, some of them 0 and the others larger."""
        if not self.training or not self.p or values.device.type != "cpu":
            return functional.dropout(values, self.p, self.training)
        mask = kept(values.numel(), self.p).view(values.shape).to(values.dtype)
        dropped: Tensor = _Masked.apply(values, mask, scale_of(self.p))  # type: ignore[no-untyped-call]
        return dropped


class _Masked(torch.autograd.Function):
    """A product with a mask of zeros and ones and with a number, which bf16 would round in the mask."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, mask: Tensor, scale: float) -> Tensor:  # noqa: ANN401
        ctx.save_for_backward(mask)
        ctx.scale = scale
        return (values * mask).mul_(scale)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:  # noqa: ANN401
        (mask,) = ctx.saved_tensors
        return (gradient * mask).mul_(ctx.scale), None, None


class SelfAttention(nn.Module):
    """A BERT's attention over its own tokens, with the library's dense layers under their names."""

    def __init__(self, own: Any) -> None:  # noqa: ANN401 - the library's classes share no type
        """Take the layers of the library's module."""
        super().__init__()
        self.query, self.key, self.value = own.query, own.key, own.value
        self.heads, self.p = own.num_attention_heads, own.dropout.p

    def forward(
        self,
        hidden_states: Tensor,
        attention_mask: Tensor | None = None,
        *rest: object,
        **more: object,  # what else the library's layers hand over is of decoders, or asks for the scores
    ) -> tuple[Tensor]:
        """Context vectors ``[n, t, d]``; ``attention_mask [n, 1, ., t]`` is added to the scores."""
        count, tokens, _ = hidden_states.shape
        queries, keys, values = (
            layer(hidden_states).view(count, tokens, self.heads, -1).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        if self.training and hidden_states.device.type == "cpu":
            mask = None if attention_mask is None else attention_mask[:, :, :1]
            context = _DroppedAttention.apply(queries, keys, values, mask, self.p)  # type: ignore[no-untyped-call]
        else:
            p = self.p if self.training else 0.0
            context = functional.scaled_dot_product_attention(queries, keys, values, attention_mask, p)
        return (context.transpose(1, 2).reshape(count, tokens, -1),)


class _DroppedAttention(torch.autograd.Function):
    """Attention of queries, keys and values ``[n, heads, t, size]``, with dropout and its gradient written out."""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        mask: Tensor | None,
        probability: float,
    ) -> Tensor:
        count, heads, tokens, size = queries.shape
        rows = max(1, CACHED // (heads * tokens * tokens))
        ctx.scale, ctx.factor = scale_of(probability), 1 / math.sqrt(size)
        saved, contexts = [], []
        for start in range(0, count, rows):
            q, k, v = (part[start : start + rows].reshape(-1, tokens, size) for part in (queries, keys, values))
            scores = torch.bmm(q, k.transpose(1, 2)).mul_(ctx.factor)
            if mask is not None:
                hidden = mask[start : start + rows].to(scores.dtype).expand(-1, heads, -1, -1)
                scores += hidden.reshape(-1, 1, tokens)
            weights = scores.softmax(dim=-1)
            stays = kept(weights.numel(), probability).view(weights.shape).to(weights.dtype)
            contexts.append(torch.bmm(weights * stays, v).mul_(ctx.scale).view(-1, heads, tokens, size))
            saved += [q, k, v, weights, stays]
        ctx.save_for_backward(*saved)
        return torch.cat(contexts)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:  # noqa: ANN401
        # P = softmax(Q K' f + h), A = P * M s with a mask M of zeros and ones, C = A V. With g the gradient of C:
        #   V gets A' g; P gets (g V') * M s; the scores get S = P * (that - its mean weighted by P, per row);
        #   Q gets S K f, and K gets S' Q f.
        saved, parts, start = ctx.saved_tensors, [], 0
        _, heads, tokens, size = gradient.shape
        for place in range(0, len(saved), 5):
            q, k, v, weights, stays = saved[place : place + 5]
            count = len(q) // heads
            outer = gradient[start : start + count].reshape(q.shape) * ctx.scale
            inner = torch.bmm(outer, v.transpose(1, 2)).mul_(stays)
            scores = torch._softmax_backward_data(inner, weights, -1, weights.dtype)
            of_values = torch.bmm((weights * stays).transpose(1, 2), outer)
            of_queries, of_keys = torch.bmm(scores, k), torch.bmm(scores.transpose(1, 2), q)
            gradients = (of_queries.mul_(ctx.factor), of_keys.mul_(ctx.factor), of_values)
            parts.append([part.view(count, heads, tokens, size) for part in gradients])
            start += count
        of_queries, of_keys, of_values = (torch.cat(part) for part in zip(*parts, strict=True))
        return of_queries, of_keys, of_values, None, None


PADDING = 0  # in a mask


class Attention(nn.Module):
    """Attention with a single head of width d (Vaswani et al. 2017, equation 1), a linear layer behind it or none."""

    def __init__(self, width: int, dropout: float, *, has_out: bool = False) -> None:
        """Fresh layers; ``dropout`` is of the shares."""
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width) if has_out else nn.Identity()
        self.dropout = nn.Dropout(dropout)

    def forward(self, queries: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
        """What each of ``queries [n, q, d]`` takes from ``values [n, t, d]``: softmax(q k / sqrt(d)) v, ``[n, q, d]``.

        ``mask [n, t]`` is PADDING where a value is none; None lets padding be attended to.
        """
        scores = self.query(queries) @ self.key(values).transpose(1, 2) / queries.shape[-1] ** 0.5
        if mask is not None:
            scores = scores.masked_fill(mask[:, None, :] == PADDING, float("-inf"))
        attended: Tensor = self.out(self.dropout(scores.softmax(dim=-1)) @ self.value(values))
        return attended


def with_quick_dropout(encoder: nn.Module) -> nn.Module:
    """The encoder with these modules in place of the library's, where it has such; weights and names are the same."""
    for module in list(encoder.modules()):
        for name, child in list(module.named_children()):
            if type(child) is nn.Dropout:
                setattr(module, name, Dropout(child.p).train(child.training))
            elif is_plain_attention(child):
                setattr(module, name, SelfAttention(child).train(child.training))
    return encoder


def is_plain_attention(module: nn.Module) -> bool:
    """Whether a module is a BERT's attention over its own tokens, without embeddings of distances."""
    kinds = {kind.__name__ for kind in type(module).__mro__}
    is_known = not kinds.isdisjoint(f"{family}SelfAttention" for family in FAMILIES)
    return is_known and getattr(module, "position_embedding_type", "absolute") == "absolute"
