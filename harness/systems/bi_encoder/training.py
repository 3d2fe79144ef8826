"""Training of the bi-encoder and its predictions, of levels and of rationales."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file
from torch import Tensor

from harness.study.cell import seed_of
from harness.study.systems import Fit, Place, Predicted, Span
from harness.systems.bi_encoder.network import IGNORED, BiEncoder, loss_of
from harness.systems.encoders.attributions import Reading
from harness.systems.encoders.epochs import EpochTrained, Schedule, facts_of
from harness.systems.encoders.foreign import load_encoder
from harness.systems.encoders.texts import Text, padded_batch, read_text
from harness.training.batches import evaluation_batches
from harness.training.tensors import to_device
from harness.training.tokens.tokenizer import load_tokenizer
from tasks.rationales import placed
from tasks.task import Example

if TYPE_CHECKING:
    from harness.systems.kinds.bi_encoder import Config


class Trained(EpochTrained):
    """A bi-encoder with its weights."""

    def __init__(self, config: Config, place: Place, outputs: int, seed: int) -> None:
        """An untrained bi-encoder whose heads are drawn from ``seed``, on the encoder of the place's backbone."""
        super().__init__()
        assert place.backbone is not None
        self.config, self.backbone, self.outputs, self.seed = config, place.backbone, outputs, seed
        self.device, self.tokenizer = place.device.ready(), load_tokenizer(place.backbone)
        has_seeker = config.joins != "response"
        encoders = load_encoder(place.backbone), None
        if has_seeker:
            encoders = encoders[0], load_encoder(place.backbone)
        self.embeddings: torch.nn.Module = encoders[0].get_input_embeddings()
        torch.manual_seed(seed_of(seed, "heads"))
        self.network = BiEncoder(
            encoders,
            place.backbone.width,
            outputs,
            joins=config.joins,
            dropout=config.dropout,
            has_marks=config.rationale_weight > 0,
        ).to(self.device)
        self.head: torch.nn.Module = self.network.level
        self.will_train(lambda name: config.is_seeker_trained or not name.startswith("seeker."))

    # Training.

    def fit(self, fit: Fit) -> None:
        """Train for all epochs; the last epoch's weights are kept."""
        config, rows = self.config, [self._read(row) for row in fit.train]
        labels = torch.tensor([row.label for row in fit.train])
        marked = [self._marked(row, text) for row, (text, _) in zip(fit.train, rows, strict=True)]
        schedule = Schedule(config.epochs, config.batch_size, config.learning_rate)
        lengths = [len(text.ids) for text, _ in rows]
        self.train(fit, schedule, lengths, lambda numbers, _: self._step(rows, labels, marked, numbers))

    def _step(
        self,
        rows: Sequence[tuple[Text, Text]],
        labels: Tensor,
        marked: Sequence[NDArray[np.int64]],
        numbers: Sequence[int],
    ) -> Tensor:
        """The loss of the rows with these numbers."""
        levels, marks = self._forward([rows[number] for number in numbers])
        longest = levels.shape[1] if marks is None else marks.shape[1]
        gold = np.full((len(numbers), longest), IGNORED)
        for place, number in enumerate(numbers):
            gold[place, : min(len(marked[number]), longest)] = marked[number][:longest]
        answers = to_device(labels[numbers], self.device), to_device(torch.from_numpy(gold), self.device)
        return loss_of(levels, marks, *answers, (self.config.level_weight, self.config.rationale_weight))

    def _marked(self, row: Example, text: Text) -> NDArray[np.int64]:
        """1 for every token of a row's rationale. A text without one is marked after its first token, or nowhere."""
        if not row.rationale:
            marks = np.full(len(text.ids), int(self.config.marks_all_without))
            marks[0] = 0
            return marks
        spans = placed(row.text, row.rationale).spans
        covered = [any(start < other.end and other.start < end for other in spans) for start, end in text.offsets]
        return np.array(covered, dtype=np.int64)

    # Predicting.

    def predict(self, rows: Sequence[Example]) -> Predicted:
        """Logits of levels, and the runs of tokens that are likelier marked than not, scored by their mean share."""
        self.network.eval()
        texts = [self._read(row) for row in rows]
        logits = np.zeros((len(rows), self.outputs), dtype=np.float32)
        spans: list[Span] = []
        with torch.inference_mode():
            for numbers in evaluation_batches([len(text.ids) for text, _ in texts]):
                levels, marks = self._forward([texts[number] for number in numbers])
                logits[numbers] = levels.cpu().numpy()
                if marks is not None:
                    shares = marks.softmax(dim=-1)[..., 1].cpu().numpy()
                    for number, share in zip(numbers, shares, strict=True):
                        spans.extend(_spans(number, texts[number][0], share))
        read = 1 if self.config.joins == "response" else 2
        is_cut = np.array([any(text.is_cut for text in of_row[:read]) for of_row in texts], dtype=bool)
        has_marks = self.config.rationale_weight > 0
        return Predicted(logits, sorted(spans) if has_marks else None, is_cut=is_cut)

    def _forward(self, rows: Sequence[tuple[Text, Text]]) -> tuple[Tensor, Tensor | None]:
        """The network's logits of responses and posts, fp32."""
        response, post = zip(*rows, strict=True)
        responses = padded_batch([text.ids for text in response], self.tokenizer.padding, self.device)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.config.precision == "bf16"):
            levels, marks = self.network(responses, *self._posts(post))
        return levels.float(), None if marks is None else marks.float()

    def _posts(self, posts: Sequence[Text]) -> tuple[dict[str, Tensor], Tensor | None]:
        """A batch of posts, and its mask; without one, posts are padded to their full length."""
        fixed = None if self.config.is_masked else self.config.tokens
        batch = padded_batch([text.ids for text in posts], self.tokenizer.padding, self.device, fixed)
        return batch, batch["attention_mask"] if self.config.is_masked else None

    def _read(self, row: Example) -> tuple[Text, Text]:
        """A row's response and its post: all earlier turns, of which the end is what is left out if they are long."""
        post = "\n".join(turn.text for turn in row.context)
        return self._text(row.text), self._text(post)

    def _text(self, text: str) -> Text:
        return read_text(self.tokenizer, text, self.config.tokens)

    def reading(self, row: Example) -> Reading:
        """How the level's logits follow from the embeddings of a response, whose post stays as it is."""
        self.network.eval()
        response, post = self._read(row)

        def logits(vectors: Tensor) -> Tensor:
            ones = torch.ones(vectors.shape[:2], dtype=torch.int64, device=self.device)
            read = {"inputs_embeds": vectors, "attention_mask": ones}
            levels: Tensor = self.network(read, *self._posts([post] * len(vectors)))[0]
            return levels

        return Reading(response, self.embeddings, self.tokenizer.padding, logits)

    # Keeping.

    def save(self, folder: Path) -> None:
        """Write what was trained, and the settings; the weights of a frozen encoder are the backbone's own."""
        self.write(folder, {"outputs": self.outputs, "backbone": self.backbone.identity()})

    @classmethod
    def load(cls, folder: Path, place: Place, config: type[Config]) -> Trained:
        """What ``save`` has written; BadInput if the place has another backbone, or none."""
        facts = facts_of(folder, place, "bi-encoder")
        fitted = cls(config(**facts["config"]), place, facts["outputs"], seed=0)
        fitted.put(load_file(folder / "model.safetensors"))
        return fitted


def _spans(number: int, text: Text, shares: NDArray[np.float32]) -> Iterator[Span]:
    """Runs of tokens of a text whose ``shares [tokens]`` of being marked are above a half, as spans of characters."""
    tokens = [(place, float(share)) for place, share in zip(text.offsets, shares, strict=False) if place[0] < place[1]]
    for is_marked, run in groupby(tokens, key=lambda token: token[1] > 0.5):
        places = list(run)
        if is_marked:
            yield Span(number, places[0][0][0], places[-1][0][1], float(np.mean([share for _, share in places])))
