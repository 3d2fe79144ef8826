"""Attention of many lanes at once: of all tokens, or in the last layer of the first token alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from harness.training.dense import Linear


@dataclass(frozen=True)
class AllTokens:
    """Attention from every token to every token.

    ``projections`` is queries (scaled by 1 / sqrt(size of a head) already), keys and values in one: ``[3 d, d]``.
    """

    projections: Linear
    heads: int

    def __call__(self, hidden: Tensor, hidden_from: Tensor, mask: Tensor | None) -> Tensor:
        """Context vectors ``[K, b, t, d]`` of ``hidden [K, b, t, d]``.

        ``hidden_from [b, 1, 1, t]`` is added to the scores, ``mask [b, heads, t, t]`` multiplies what they become.
        """
        projected = self.projections(hidden)
        context: Tensor = _Context.apply(projected, hidden_from, mask, self.heads)  # type: ignore[no-untyped-call]
        return context


class _Context(torch.autograd.Function):
    """Attention from queries, keys and values side by side, ``[K, b, t, 3 d]``, with its gradient written out."""

    @staticmethod
    def forward(ctx: Any, projected: Tensor, hidden_from: Tensor, mask: Tensor | None, heads: int) -> Tensor:  # noqa: ANN401
        lanes, batch, tokens, width = projected.shape
        by_head = projected.view(lanes, batch, tokens, 3, heads, width // 3 // heads).permute(3, 0, 1, 4, 2, 5)
        queries, keys, values = made = by_head.reshape(3, lanes * batch * heads, tokens, -1)
        scores = torch.bmm(queries, keys.transpose(1, 2)).view(lanes, batch, heads, tokens, tokens)
        weights, kept = _attended(scores, hidden_from, mask)
        context = torch.bmm(kept.to(values.dtype).flatten(0, 2), values).view(by_head.shape[1:])
        ctx.save_for_backward(made, weights, mask)
        return context.transpose(2, 3).reshape(lanes, batch, tokens, -1)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:  # noqa: ANN401
        (queries, keys, values), weights, mask = ctx.saved_tensors
        lanes, batch, heads, tokens, _ = weights.shape
        outer = gradient.view(lanes, batch, tokens, heads, -1).transpose(2, 3).reshape(queries.shape)
        kept = weights if mask is None else weights * mask
        inner = torch.bmm(outer, values.transpose(1, 2)).view(weights.shape).to(weights.dtype)
        inner = inner if mask is None else inner * mask
        scores = torch._softmax_backward_data(inner, weights, -1, weights.dtype).to(queries.dtype).flatten(0, 2)
        found = torch.stack(
            [
                torch.bmm(scores, keys),
                torch.bmm(scores.transpose(1, 2), queries),
                torch.bmm(kept.to(outer.dtype).flatten(0, 2).transpose(1, 2), outer),
            ]
        )
        by_head = found.view(3, lanes, batch, heads, tokens, -1).permute(1, 2, 4, 0, 3, 5)
        return by_head.reshape(lanes, batch, tokens, -1), None, None, None


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
        scores = (queries @ self.key).transpose(0, 1) @ rows.transpose(1, 2)
        _, weights = _attended(scores.view(lanes, batch, heads, 1, tokens), hidden_from, mask)
        weights = weights.to(rows.dtype).view(lanes * batch, heads, tokens)
        values = (weights @ rows).transpose(0, 1) @ self.value
        values = values + weights.sum(dim=-1).t().unsqueeze(-1) * self.value_bias
        return values.transpose(0, 1).reshape(lanes, batch, 1, width)


def _attended(scores: Tensor, hidden_from: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """What scores become, in the precision of ``hidden_from``: before and after the mask."""
    weights = (scores.to(hidden_from.dtype) + hidden_from).softmax(dim=-1)
    return weights, weights if mask is None else weights * mask
