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

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from harness.study.cell import seed_of
from harness.study.systems import Fit, Place
from harness.systems.attributions import Reading
from harness.systems.clsn import ClsnSettings
from harness.systems.dropout import PADDING, Attention
from harness.systems.epochs import CUTS, EncodedText, EpochTrained, LossOf, read_text, unpadded
from harness.systems.weights import load_encoder
from harness.training.objective import cross_entropy, focal
from harness.training.tensors import to_device
from tasks.task import Example


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
        vectors = []
        for number, state in enumerate(states):
            signals = state[:, :0]
            if self.signals is not None and self.labels is not None:  # (5), (6)
                signals, state = self.signals[number](self.labels.weight, state, mask)
            tokens = (state + residual).masked_fill(mask[:, :, None] == PADDING, float("-inf"))  # (7)
            vectors.append(torch.cat([signals, tokens], dim=1).amax(dim=1))  # over labels and tokens
        return vectors


class FirstTokenHeads(nn.Module):
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
        return [self.encoder(**texts).last_hidden_state[:, 0]] * len(self.heads)


class TrainedClsn(EpochTrained[EncodedText]):
    """A network of a target, and of a sibling where it has one, with its weights."""

    config: ClsnSettings

    def __init__(self, config: ClsnSettings, place: Place, seed: int, *, outputs: Sequence[int]) -> None:
        """An untrained network of tasks with so many ``outputs``, the target's first; fresh layers follow ``seed``."""
        super().__init__(config, place, seed, outputs=outputs)
        encoder, self.outputs, self.cut = load_encoder(self.backbone), outputs[0], CUTS[self.device.type]
        self.embeddings: nn.Module = encoder.get_input_embeddings()
        torch.manual_seed(seed_of(seed, "heads"))
        wide, parts = self.backbone.width, {"cascade": config.cascade, "label_signal": config.label_signal}
        self.network: Clsn | FirstTokenHeads = (
            FirstTokenHeads(encoder, wide, outputs, dropout=config.dropout)
            if config.network == "plain"
            else Clsn(encoder, wide, outputs, width=config.width, dropout=config.dropout, **parts)
        ).to(self.device)
        self.head: nn.Module = self.network.heads[0]
        self.will_train(lambda name: True)

    @classmethod
    def facts_of(cls, fit: Fit) -> dict[str, Any]:
        """How many classes each task has, the target first."""
        return {"outputs": [fit.label.n_outputs, *(sibling.label.n_outputs for sibling in fit.siblings.values())]}

    def read(self, rows: Sequence[Example]) -> list[EncodedText]:
        """The beginnings of the rows' own texts."""
        return [read_text(self.tokenizer, row.text, self.config.tokens) for row in rows]

    def loss_of(self, fit: Fit, rows: Sequence[EncodedText]) -> LossOf:
        """The weighted loss of all tasks (12)."""
        config, labels = self.config, [torch.from_numpy(of_task) for of_task in labels_of(fit)]
        weights = (config.target_weight, config.sibling_weight)[: len(labels)]

        def loss(numbers: Sequence[int], epoch: int) -> Tensor:
            total = torch.zeros((), device=self.device)
            each = zip(self.of_tasks([rows[row] for row in numbers]), labels, weights, strict=True)
            for logits, gold, weight in each:
                answers = to_device(gold[numbers], self.device)
                is_focal = config.loss == "focal"
                of_rows = focal(logits, answers, config.gamma) if is_focal else cross_entropy(logits, answers)
                total = total + weight * of_rows.mean()
            return total

        return loss

    def logits(self, rows: Sequence[EncodedText]) -> Tensor:
        """Those of the target's classes."""
        return self.of_tasks(rows)[0]

    def of_tasks(self, rows: Sequence[EncodedText]) -> list[Tensor]:
        """Logits in fp32 of every task, each ``[n, classes]``."""
        with self.in_precision():
            logits = self.network(self.batch_of([text.ids for text in rows]))
        return [of_task.float() for of_task in logits]

    def reading(self, row: Example) -> Reading:
        """How the target's logits follow from the embeddings of a row's text."""
        self.network.eval()

        def logits(vectors: Tensor) -> Tensor:
            of_target: Tensor = self.network(unpadded(vectors))[0]
            return of_target

        return Reading(self.read([row])[0], self.embeddings, self.tokenizer.padding, logits)


def labels_of(fit: Fit) -> list[NDArray[np.int64]]:
    """Training labels ``[rows]`` of every task, the target's first.

    A sibling's that are to be shuffled are permuted among rows by the fit's seed, the same in every epoch.
    """
    parts = [fit.train, *(sibling.train for sibling in fit.siblings.values())]
    target, *siblings = (np.array([row.label for row in rows], dtype=np.int64) for rows in parts)
    if fit.config.sibling_labels == "shuffled":
        siblings = [np.random.default_rng(seed_of(fit.seed, "shuffled")).permutation(own) for own in siblings]
    return [target, *siblings]
