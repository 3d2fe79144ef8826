"""CLSN, and the plain network that it is held against: one encoder, and a head for each of one or two tasks.

Jiang et al. 2023, section 4; numbers in brackets are its equations. Shapes: n rows, t tokens of the longest text, w the
encoder's width, d the network's, c classes of a task and C of all tasks. The first task is the target.

What the paper does not say, and what is done here:

- (2) and (7) need the encoder's vectors in width d: a linear layer per task, and for the sum one that tasks share.
- (3), (4) and (6) have layers of their own for query, key and value, a single head, and no layer behind it.
- (6) gives t vectors and C further ones, (7) adds t: the encoder's vectors are added to those of the tokens, and the
  labels' stay as they are. The maximum goes over both. Over the tokens alone no label would change anything, for what
  one query takes depends on no other.
- A label signal that is left out leaves H' = H_{d-g-d} + H, a cascade that is left out H_{d-g-d} = H_d.
- Dropout stands before (2), on the shares of every attention, and before (8) and (9).
- Padding is attended to by nobody and left out of the maximum; the tokens that begin and end a text count as tokens.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

PADDING = 0  # in a mask


class Attention(nn.Module):
    """Attention with a single head of width d (Vaswani et al. 2017, equation 1)."""

    def __init__(self, width: int, dropout: float) -> None:
        """Fresh layers; ``dropout`` is of the shares."""
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.dropout = nn.Dropout(dropout)

    def forward(self, queries: Tensor, values: Tensor, mask: Tensor) -> Tensor:
        """What each of ``queries [n, q, d]`` takes from ``values [n, t, d]``: softmax(q k / sqrt(d)) v, ``[n, q, d]``.

        ``mask [n, t]`` is PADDING where a value is none.
        """
        scores = self.query(queries) @ self.key(values).transpose(1, 2) / queries.shape[-1] ** 0.5
        shares = scores.masked_fill(mask[:, None, :] == PADDING, float("-inf")).softmax(dim=-1)
        taken: Tensor = self.dropout(shares) @ self.value(values)
        return taken


class Cascade(nn.Module):
    """Two tasks that attend to each other, and then each to what the other took of it (3), (4)."""

    def __init__(self, width: int, dropout: float) -> None:
        """Fresh attentions: of each task to the other, and back to itself."""
        super().__init__()
        self.across, self.back = (nn.ModuleList(Attention(width, dropout) for _ in range(2)) for _ in range(2))

    def forward(self, states: Sequence[Tensor], mask: Tensor) -> list[Tensor]:
        """H_{d-g-d} of both tasks, each ``[n, t, d]`` as their ``states`` H_d are."""
        first, second = states
        crossed = self.across[0](first, second, mask), self.across[1](second, first, mask)  # H_{g-d}, by g
        return [self.back[0](first, crossed[1], mask), self.back[1](second, crossed[0], mask)]


class LabelSignal(nn.Module):
    """Labels of all tasks, and a task's own vectors, that attend to these vectors (5), (6)."""

    def __init__(self, width: int, dropout: float) -> None:
        """Fresh layers of a task."""
        super().__init__()
        self.attention = Attention(width, dropout)

    def forward(self, labels: Tensor, states: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """LH_d of labels ``[n, C, d]`` and of tokens ``[n, t, d]``, by ``labels [C, d]`` and ``states [n, t, d]``."""
        queries = torch.cat([labels.expand(len(states), -1, -1), states], dim=1)
        taken = self.attention(queries, states, mask)
        return taken[:, : len(labels)], taken[:, len(labels) :]


class Clsn(nn.Module):
    """The cascaded label signal network of one task or two."""

    def __init__(
        self,
        encoder: nn.Module,
        wide: int,
        outputs: Sequence[int],
        *,
        width: int,
        dropout: float,
        cascade: bool,
        label_signal: bool,
    ) -> None:
        """Fresh layers on an ``encoder`` as ``wide`` as that, drawn from torch's generator as it stands.

        ``outputs`` are the classes of every task.
        """
        super().__init__()
        self.encoder = encoder
        self.own = nn.ModuleList(nn.Linear(wide, width) for _ in outputs)
        self.shared = nn.Linear(wide, width)
        self.cascade = Cascade(width, dropout) if cascade and len(outputs) > 1 else None
        self.labels = nn.Embedding(sum(outputs), width) if label_signal else None
        self.signals = nn.ModuleList(LabelSignal(width, dropout) for _ in outputs) if label_signal else None
        self.heads = nn.ModuleList(nn.Linear(width, classes) for classes in outputs)
        self.dropout = nn.Dropout(dropout)

    def forward(self, texts: dict[str, Tensor]) -> list[Tensor]:
        """Logits of every task, each ``[n, c]``; ``texts`` are input_ids, or inputs_embeds, and attention_mask."""
        pooled = self.pooled(texts)
        return [head(self.dropout(vector)) for head, vector in zip(self.heads, pooled, strict=True)]

    def pooled(self, texts: dict[str, Tensor]) -> list[Tensor]:
        """The vector of every task that its head reads, ``[n, d]``."""
        mask = texts["attention_mask"]
        encoded = self.dropout(self.encoder(**texts).last_hidden_state)  # (1)
        states = [layer(encoded) for layer in self.own]  # (2)
        if self.cascade is not None:
            states = self.cascade(states, mask)
        residual = self.shared(encoded)
        return [self._maximum(number, state, residual, mask) for number, state in enumerate(states)]

    def _maximum(self, number: int, states: Tensor, residual: Tensor, mask: Tensor) -> Tensor:
        """(5) to (7) of a task, and the maximum over labels and tokens ``[n, d]``."""
        signals = states[:, :0]
        if self.signals is not None:
            assert self.labels is not None
            signals, states = self.signals[number](self.labels.weight, states, mask)
        tokens = (states + residual).masked_fill(mask[:, :, None] == PADDING, float("-inf"))
        return torch.cat([signals, tokens], dim=1).amax(dim=1)


class Plain(nn.Module):
    """The paper's empirical study (section 3.3): a linear head for each task on the first token's vector."""

    def __init__(self, encoder: nn.Module, wide: int, outputs: Sequence[int], *, dropout: float) -> None:
        """Fresh heads on an ``encoder`` as ``wide`` as that; ``outputs`` are the classes of every task."""
        super().__init__()
        self.encoder = encoder
        self.heads = nn.ModuleList(nn.Linear(wide, classes) for classes in outputs)
        self.dropout = nn.Dropout(dropout)

    def forward(self, texts: dict[str, Tensor]) -> list[Tensor]:
        """Logits of every task, each ``[n, c]``; ``texts`` as Clsn reads them."""
        return [head(self.dropout(vector)) for head, vector in zip(self.heads, self.pooled(texts), strict=True)]

    def pooled(self, texts: dict[str, Tensor]) -> list[Tensor]:
        """The vector of every task that its head reads, ``[n, w]``: for all the same."""
        first = self.encoder(**texts).last_hidden_state[:, 0]
        return [first] * len(self.heads)
