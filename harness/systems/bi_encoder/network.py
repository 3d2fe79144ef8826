"""The bi-encoder: two encoders that read a post and its response, with a head for the level and one for the rationale.

Sharma et al. 2020 (EMNLP), section 5, and src/models/models.py of github.com/behavioral-data/Empathy-Mental-Health at
0e11f98. Shapes: n rows, t tokens of the response, s of the seeker's post, w the encoder's width.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from harness.study.cell import seed_of
from harness.study.systems import Fit, Place, Predicted, Span
from harness.systems.attributions import Reading
from harness.systems.bi_encoder import BiEncoderSettings
from harness.systems.dropout import Attention
from harness.systems.epochs import EncodedText, EpochTrained, LossOf, in_batches, padded_batch, read_text, unpadded
from harness.systems.weights import load_encoder
from harness.training.tensors import to_device
from tasks.rationales import placed
from tasks.task import Example

SPREAD = 0.02  # standard deviation of the fresh weights
IGNORED = -100  # mark of a token that is padding


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
        self.attention = Attention(width, dropout, has_out=True) if joins == "attention" else None
        joined = 2 * width if joins == "concatenated" else width
        self.level, self.marks = LevelHead(joined, outputs, dropout), nn.Linear(joined, 2) if has_marks else None
        self.dropout = nn.Dropout(dropout)
        for part in filter(None, (self.attention, self.level, self.marks)):
            for layer in part.modules():
                if isinstance(layer, nn.Linear):
                    nn.init.normal_(layer.weight, std=SPREAD)
                    nn.init.zeros_(layer.bias)

    def forward(
        self, response: dict[str, Tensor], post: dict[str, Tensor], mask: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """Logits of levels ``[n, outputs]`` and of every token being unmarked or marked ``[n, t, 2]``.

        ``response`` and ``post`` are input_ids and attention_mask; ``mask`` as Attention reads it.
        """
        states = self.responder(**response).last_hidden_state
        if self.seeker is not None:
            # No gradient goes into a frozen encoder, whose dropout stays on as in the code.
            is_trained = any(parameter.requires_grad for parameter in self.seeker.parameters())
            with torch.set_grad_enabled(is_trained and torch.is_grad_enabled()):
                seen: Tensor = self.seeker(**post).last_hidden_state
            if self.attention is not None:
                states = states + self.dropout(self.attention(states, seen, mask))
            else:
                states = torch.cat([states, seen[:, :1].expand(-1, states.shape[1], -1)], dim=-1)
        level: Tensor = self.level(states[:, 0])
        marks: Tensor | None = None if self.marks is None else self.marks(self.dropout(states))
        return level, marks


def weighted_loss(
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


class Pair(NamedTuple):
    """A response and its post: all earlier turns, of which the end is what is left out if they are long."""

    response: EncodedText
    post: EncodedText
    is_cut: bool

    @property
    def ids(self) -> tuple[int, ...]:
        """The response's tokens."""
        return self.response.ids


class TrainedBiEncoder(EpochTrained[Pair]):
    """A bi-encoder with its weights."""

    decays = True
    config: BiEncoderSettings

    def __init__(self, config: BiEncoderSettings, place: Place, seed: int, *, outputs: int) -> None:
        """An untrained bi-encoder whose heads are drawn from ``seed``, on the encoder of the place's backbone."""
        super().__init__(config, place, seed, outputs=outputs)
        has_seeker = config.joins != "response"
        encoders = load_encoder(self.backbone), load_encoder(self.backbone) if has_seeker else None
        self.outputs, self.embeddings = outputs, encoders[0].get_input_embeddings()
        torch.manual_seed(seed_of(seed, "heads"))
        self.network: BiEncoder = BiEncoder(
            encoders,
            self.backbone.width,
            outputs,
            joins=config.joins,
            dropout=config.dropout,
            has_marks=config.rationale_weight > 0,
        ).to(self.device)
        self.head: nn.Module = self.network.level
        self.will_train(lambda name: config.is_seeker_trained or not name.startswith("seeker."))

    def read(self, rows: Sequence[Example]) -> list[Pair]:
        """The rows' responses and posts."""
        pairs = []
        for row in rows:
            posts = "\n".join(turn.text for turn in row.context)
            response, post = (read_text(self.tokenizer, text, self.config.tokens) for text in (row.text, posts))
            is_cut = response.is_cut or (post.is_cut and self.config.joins != "response")
            pairs.append(Pair(response, post, is_cut))
        return pairs

    def loss_of(self, fit: Fit, rows: Sequence[Pair]) -> LossOf:
        """That of levels, and of tokens being marked."""
        labels = torch.tensor([row.label for row in fit.train])
        marked = [self._marked(row, pair.response) for row, pair in zip(fit.train, rows, strict=True)]

        def loss(numbers: Sequence[int], epoch: int) -> Tensor:
            levels, marks = self._forward([rows[number] for number in numbers])
            longest = levels.shape[1] if marks is None else marks.shape[1]
            gold = np.full((len(numbers), longest), IGNORED)
            for place, number in enumerate(numbers):
                gold[place, : min(len(marked[number]), longest)] = marked[number][:longest]
            answers = to_device(labels[numbers], self.device), to_device(torch.from_numpy(gold), self.device)
            return weighted_loss(levels, marks, *answers, (self.config.level_weight, self.config.rationale_weight))

        return loss

    def _marked(self, row: Example, text: EncodedText) -> NDArray[np.int64]:
        """1 for every token of a row's rationale. A text without one is marked after its first token, or nowhere."""
        if not row.rationale:
            marks = np.full(len(text.ids), int(self.config.marks_all_without))
            marks[0] = 0
            return marks
        spans = placed(row.text, row.rationale).spans
        covered = [any(start < other.end and other.start < end for other in spans) for start, end in text.offsets]
        return np.array(covered, dtype=np.int64)

    def logits(self, rows: Sequence[Pair]) -> Tensor:
        """Those of levels."""
        return self._forward(rows)[0]

    def predict(self, rows: Sequence[Example]) -> Predicted:
        """Logits of levels, and the runs of tokens that are likelier marked than not, scored by their mean share."""
        self.network.eval()
        pairs = self.read(rows)
        spans: list[Span] = []

        def levels_of(numbers: Sequence[int]) -> Tensor:
            levels, marks = self._forward([pairs[number] for number in numbers])
            if marks is not None:
                shares = marks.softmax(dim=-1)[..., 1].cpu().numpy()
                for number, share in zip(numbers, shares, strict=True):
                    spans.extend(_spans(number, pairs[number].response, share))
            return levels

        logits = in_batches([len(pair.ids) for pair in pairs], self.outputs, levels_of, self.most_rows)
        is_cut = np.array([pair.is_cut for pair in pairs], dtype=bool)
        return Predicted(logits, sorted(spans) if self.config.rationale_weight > 0 else None, is_cut=is_cut)

    def _forward(self, pairs: Sequence[Pair]) -> tuple[Tensor, Tensor | None]:
        """The network's logits of levels and of marks, fp32."""
        responses = padded_batch([pair.ids for pair in pairs], self.tokenizer.padding, self.device)
        with self.in_precision():
            levels, marks = self.network(responses, *self._posts([pair.post for pair in pairs]))
        return levels.float(), None if marks is None else marks.float()

    def _posts(self, posts: Sequence[EncodedText]) -> tuple[dict[str, Tensor], Tensor | None]:
        """A batch of posts, and its mask; without one, posts are padded to their full length."""
        fixed = None if self.config.is_masked else self.config.tokens
        batch = padded_batch([text.ids for text in posts], self.tokenizer.padding, self.device, fixed)
        return batch, batch["attention_mask"] if self.config.is_masked else None

    def reading(self, row: Example) -> Reading:
        """How the level's logits follow from the embeddings of a response, whose post stays as it is."""
        self.network.eval()
        ((response, post, _),) = self.read([row])

        def logits(vectors: Tensor) -> Tensor:
            levels: Tensor = self.network(unpadded(vectors), *self._posts([post] * len(vectors)))[0]
            return levels

        return Reading(response, self.embeddings, self.tokenizer.padding, logits)


def _spans(number: int, text: EncodedText, shares: NDArray[np.float32]) -> Iterator[Span]:
    """Runs of tokens of a text whose ``shares [tokens]`` of being marked are above a half, as spans of characters."""
    tokens = [(place, float(share)) for place, share in zip(text.offsets, shares, strict=False) if place[0] < place[1]]
    for is_marked, run in groupby(tokens, key=lambda token: token[1] > 0.5):
        places = list(run)
        if is_marked:
            yield Span(number, places[0][0][0], places[-1][0][1], float(np.mean([share for _, share in places])))
