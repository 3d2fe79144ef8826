"""Attention of many lanes at once: of all tokens, or in the last layer of the first token alone."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from harness.training.dense import Linear


@dataclass(frozen=True)
class AllTokens:
    """Attention from every token to every token; queries are scaled by 1 / sqrt(size of a head) already."""

    query: Linear
    key_value: Linear
    heads: int

    def __call__(self, hidden: Tensor, hidden_from: Tensor, mask: Tensor | None) -> Tensor:
        """Context vectors ``[K, b, t, d]`` of ``hidden [K, b, t, d]``.

        ``hidden_from [b, 1, 1, t]`` is added to the scores, ``mask [b, heads, t, t]`` multiplies what they become.
        """
        lanes, batch, tokens, width = hidden.shape
        size = width // self.heads
        queries = self.query(hidden).view(lanes, batch, tokens, self.heads, size).transpose(2, 3)
        both = self.key_value(hidden).view(lanes, batch, tokens, 2, self.heads, size)
        keys, values = (one.transpose(2, 3) for one in both.unbind(3))
        weights = _attended(queries @ keys.transpose(-1, -2), hidden_from, mask)
        return (weights.to(values.dtype) @ values).transpose(2, 3).reshape(lanes, batch, tokens, width)


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
        weights = _attended(scores.view(lanes, batch, heads, 1, tokens), hidden_from, mask)
        weights = weights.to(rows.dtype).view(lanes * batch, heads, tokens)
        values = (weights @ rows).transpose(0, 1) @ self.value
        values = values + weights.sum(dim=-1).t().unsqueeze(-1) * self.value_bias
        return values.transpose(0, 1).reshape(lanes, batch, 1, width)


def _attended(scores: Tensor, hidden_from: Tensor, mask: Tensor | None) -> Tensor:
    """What scores become, in the precision of ``hidden_from``."""
    weights = (scores.to(hidden_from.dtype) + hidden_from).softmax(dim=-1)
    return weights if mask is None else weights * mask
