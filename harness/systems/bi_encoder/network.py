"""Two encoders that read a post and its response, with a head for the level and one for the rationale.

Sharma et al. 2020 (EMNLP), section 5, and src/models/models.py of github.com/behavioral-data/Empathy-Mental-Health at
0e11f98. Shapes: n rows, t tokens of the response, s of the seeker's post, w the encoder's width.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

SPREAD = 0.02  # standard deviation of the fresh weights
IGNORED = -100  # mark of a token that is padding


class Attention(nn.Module):
    """Attention with a single head of width w, and a linear layer behind it."""

    def __init__(self, width: int, dropout: float) -> None:
        """Fresh layers; ``dropout`` is of the attention's weights."""
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.dropout = nn.Dropout(dropout)

    def forward(self, queries: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
        """What each of ``queries [n, t, w]`` takes from ``values [n, s, w]``: softmax(q k / sqrt(w)) v, ``[n, t, w]``.

        ``mask [n, s]`` is 0 where a value is padding and 1 elsewhere; None lets padding be attended to.
        """
        scores = self.query(queries) @ self.key(values).transpose(1, 2) / queries.shape[-1] ** 0.5
        if mask is not None:
            scores = scores.masked_fill(mask[:, None, :] == 0, float("-inf"))
        attended: Tensor = self.out(self.dropout(scores.softmax(dim=-1)) @ self.value(values))
        return attended


class LevelHead(nn.Module):
    """Two layers with relu between them, on the vector of the first token."""

    def __init__(self, width: int, outputs: int, dropout: float) -> None:
        """Fresh layers from vectors of ``width`` to ``outputs`` logits."""
        super().__init__()
        self.dense, self.out = nn.Linear(width, width), nn.Linear(width, outputs)
        self.dropout = nn.Dropout(dropout)

    def forward(self, vectors: Tensor) -> Tensor:
        """Logits ``[n, outputs]`` of vectors ``[n, width]``."""
        logits: Tensor = self.out(self.dropout(functional.relu(self.dense(self.dropout(vectors)))))
        return logits


class BiEncoder(nn.Module):
    """The network of encoders and heads.

    ``joins`` says what the response takes from the post: ``attention``, the paper's; ``concatenated``, the post's first
    vector beside every vector of the response; or ``response``, nothing, and then there is no seeker's encoder. Without
    ``has_marks`` there is no rationale head.
    """

    def __init__(
        self, encoders: tuple[Any, Any | None], width: int, outputs: int, *, joins: str, dropout: float, has_marks: bool
    ) -> None:
        """Fresh heads on ``encoders`` of response and post, drawn from torch's generator as it stands."""
        super().__init__()
        self.joins = joins
        self.responder, self.seeker = encoders
        self.attention = Attention(width, dropout) if joins == "attention" else None
        joined = 2 * width if joins == "concatenated" else width
        self.level, self.marks = LevelHead(joined, outputs, dropout), nn.Linear(joined, 2) if has_marks else None
        self.dropout = nn.Dropout(dropout)
        for part in filter(None, (self.attention, self.level, self.marks)):
            part.apply(_draw)

    def forward(
        self, response: dict[str, Tensor], post: dict[str, Tensor], mask: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """Logits of levels ``[n, outputs]`` and of every token being unmarked or marked ``[n, t, 2]``.

        ``response`` and ``post`` are input_ids and attention_mask; ``mask`` as Attention reads it.
        """
        states = self.responder(**response).last_hidden_state
        if self.seeker is not None:
            states = self._joined(states, self._seen(post), mask)
        level: Tensor = self.level(states[:, 0])
        marks: Tensor | None = None if self.marks is None else self.marks(self.dropout(states))
        return level, marks

    def _seen(self, post: dict[str, Tensor]) -> Tensor:
        """The vectors of the post; no gradient goes into a frozen encoder, whose dropout stays on as in the code."""
        assert self.seeker is not None
        is_trained = any(parameter.requires_grad for parameter in self.seeker.parameters())
        with torch.set_grad_enabled(is_trained and torch.is_grad_enabled()):
            states: Tensor = self.seeker(**post).last_hidden_state
        return states

    def _joined(self, states: Tensor, seen: Tensor, mask: Tensor | None) -> Tensor:
        if self.attention is not None:
            residual: Tensor = self.dropout(self.attention(states, seen, mask))
            return states + residual
        return torch.cat([states, seen[:, :1].expand(-1, states.shape[1], -1)], dim=-1)


def _draw(part: nn.Module) -> None:
    """Weights from N(0, SPREAD), biases of 0."""
    if isinstance(part, nn.Linear):
        nn.init.normal_(part.weight, std=SPREAD)
        nn.init.zeros_(part.bias)


def loss_of(
    levels: Tensor, marks: Tensor | None, labels: Tensor, marked: Tensor, weights: tuple[float, float]
) -> Tensor:
    """Cross-entropy of the levels ``[n, outputs]`` and, where there are any, of the marks ``[n, t, 2]``, weighted.

    ``marked [n, t]`` is 1 for a token of a rationale, 0 for another and IGNORED for padding; the mean is over tokens.
    """
    of_level, of_marks = weights
    loss = of_level * functional.cross_entropy(levels, labels)
    if marks is not None:
        loss = loss + of_marks * functional.cross_entropy(marks.flatten(0, 1), marked.flatten(), ignore_index=IGNORED)
    return loss
