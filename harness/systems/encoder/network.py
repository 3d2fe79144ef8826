"""An encoder over a window of turns, whose target's mean vector goes into a linear head: training and predictions.

A window is a row as one sequence of ids: its earlier turns, the target turn, and what follows, with the target's place.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from harness.study.backbone import Backbone
from harness.study.cell import seed_of
from harness.study.systems import Fit, Place
from harness.systems.attributions import Reading
from harness.systems.encoder import EncoderSettings
from harness.systems.epochs import CUTS, EncodedText, EpochTrained, LossOf, unpadded
from harness.systems.weights import load_encoder, resolve_encoder, with_products
from harness.training.inputs import sides
from harness.training.objective import Objective, total_weight
from harness.training.tensors import to_device
from harness.training.tokenizer import Tokenizer
from tasks.errors import BadInput
from tasks.task import Example


class Window(NamedTuple):
    """``ids [tokens]`` of turns with a separator between them, special tokens around, and the target's places.

    The target turn is ``ids[start:end]``; ``is_cut`` where not every token of the window is read.
    """

    ids: tuple[int, ...]
    start: int
    end: int
    is_cut: bool


class WindowReader:
    """Reads rows with a tokenizer, in at most so many tokens: the target first, then the turns nearest to it.

    What is left out of earlier turns is their beginning, and of later ones their end; each side has half of the room
    that the target leaves, and what the other does not need.
    """

    def __init__(self, tokenizer: Tokenizer, tokens: int) -> None:
        """Find what the tokenizer puts before and after a text."""
        self.tokenizer = tokenizer
        around = tokenizer.template.build_inputs_with_special_tokens([-1])
        self.before, self.after = around[: around.index(-1)], around[around.index(-1) + 1 :]
        self.room = tokens - len(around) + 1
        self.between = self.after[-1:]  # a text's end parts turns, as it parts two texts

    def __call__(self, rows: Sequence[Example]) -> list[Window]:
        """The windows of rows, in their order."""
        turns = [(*(turn.text for turn in row.context), row.text, *(turn.text for turn in row.after)) for row in rows]
        ids, windows = iter(self.tokenizer.ids([text for row in turns for text in row])), []
        for row in rows:
            before, whole, after = ([next(ids) for _ in part] for part in (row.context, [row], row.after))
            target = whole[0][: self.room]
            earlier = [id for turn in before for id in (*turn, *self.between)]
            later = [id for turn in after for id in (*self.between, *turn)]
            of_earlier, of_later = sides(len(earlier), len(later), self.room - len(target))
            kept = [*self.before, *earlier[len(earlier) - of_earlier :]]
            is_cut = len(target) < len(whole[0]) or of_earlier < len(earlier) or of_later < len(later)
            all_ids = (*kept, *target, *later[:of_later], *self.after)
            windows.append(Window(all_ids, len(kept), len(kept) + len(target), is_cut))
        return windows


SPREAD = 0.02  # standard deviation of the head's fresh weights


class Pooled(nn.Module):
    """An encoder, and a linear layer on the mean of the target's vectors (Xu and Jiang 2024, section 4.2)."""

    def __init__(self, encoder: Any, width: int, outputs: int, dropout: float) -> None:  # noqa: ANN401
        """A fresh head from vectors of ``width`` to ``outputs``, drawn from torch's generator as it stands."""
        super().__init__()
        self.encoder, self.dropout, self.head = encoder, nn.Dropout(dropout), nn.Linear(width, outputs)
        nn.init.normal_(self.head.weight, std=SPREAD)
        nn.init.zeros_(self.head.bias)

    def forward(self, window: dict[str, Tensor], target: Tensor) -> Tensor:
        """Logits ``[n, outputs]`` of windows; ``target [n, t]`` is 1 for the target turn's tokens and 0 elsewhere."""
        states = self.encoder(**window).last_hidden_state
        shares = target / target.sum(dim=1, keepdim=True).clamp(min=1)
        logits: Tensor = self.head(self.dropout((states * shares[..., None].to(states.dtype)).sum(dim=1)))
        return logits


class TrainedEncoder(EpochTrained[Window]):
    """An encoder with its head."""

    stands_on = "encoder"
    config: EncoderSettings
    labels: Tensor  # of the training rows, and the objective of an epoch
    objective: Callable[[int], Objective]

    def __init__(self, config: EncoderSettings, place: Place, seed: int, *, kind: str, outputs: int) -> None:
        """An untrained head of a label of this ``kind``; BadInput if the encoder reads less than settings ask for."""
        super().__init__(config, place, seed, kind=kind, outputs=outputs)
        self.check_tokens("encoder", self.backbone.max_tokens)
        self.outputs, self.cut = outputs, CUTS[self.device.type]
        self.reader = WindowReader(self.tokenizer, config.tokens)
        encoder = load_encoder(self.backbone)
        width, self.embeddings = encoder.config.hidden_size, encoder.get_input_embeddings()
        torch.manual_seed(seed_of(seed, "heads"))
        if config.lora_rank:
            encoder = with_products(encoder, config.lora_rank)
        self.network: Pooled = Pooled(encoder, width, outputs, config.dropout).to(self.device)
        self.head: nn.Module = self.network.head
        self.will_train(lambda name: not config.lora_rank or name.startswith("head.") or ".lora_" in name)

    @classmethod
    def backbone_of(cls, config: EncoderSettings, place: Place) -> Backbone | None:
        """The encoder of the settings, or that of the place."""
        return resolve_encoder(config.weights) if config.weights else place.backbone

    @classmethod
    def facts_of(cls, fit: Fit) -> dict[str, Any]:
        """The kind of the label, and how many logits it has."""
        return {"kind": fit.label.kind, **super().facts_of(fit)}

    def read(self, rows: Sequence[Example]) -> list[Window]:
        """The rows' windows."""
        return self.reader(rows)

    def loss_of(self, fit: Fit, rows: Sequence[Window]) -> LossOf:
        """The settings' loss, of which classes may weigh more from some epoch on."""
        answers = np.array([row.label for row in fit.train])
        self.labels = torch.from_numpy(answers)

        @cache  # of an epoch, not of a batch: it counts the rows of every class
        def objective(epoch: int) -> Objective:
            return Objective.of(self.config.objective, answers, self.outputs, epoch=epoch).on(self.device)

        def loss(numbers: Sequence[int], epoch: int) -> Tensor:
            logits = self.logits([rows[number] for number in numbers])
            return objective(epoch).mean(logits, to_device(self.labels[numbers], self.device))

        self.objective = objective
        return loss

    def weight(self, numbers: Sequence[int], epoch: int) -> float:
        """Their number, or from an epoch in which classes are weighed on the sum of their weights."""
        return total_weight(to_device(self.labels[numbers], self.device), self.objective(epoch).weights)

    def logits(self, rows: Sequence[Window]) -> Tensor:
        """Logits of the rows' target turns."""
        batch = self.batch_of([window.ids for window in rows])
        target = torch.zeros(batch["input_ids"].shape)
        for row, window in enumerate(rows):
            target[row, window.start : window.end] = 1
        with self.in_precision():
            logits: Tensor = self.network(batch, to_device(target, self.device))
        return logits.float()

    def reading(self, row: Example) -> Reading:
        """How the logits follow from the embeddings of a row's window; of its tokens the target turn's have places."""
        self.network.eval()
        ((window,), pieces) = self.read([row]), self.tokenizer.pieces(row.text)
        places = [place for _, place in pieces][: window.end - window.start]
        if tuple(id for id, _ in pieces)[: len(places)] != window.ids[window.start : window.end]:
            raise BadInput(f"row {row.id}: its text has a word that is one of the tokenizer's own; take another row")
        offsets = [(0, 0)] * window.start + places + [(0, 0)] * (len(window.ids) - window.end)
        is_target = torch.zeros(len(window.ids), device=self.device)
        is_target[window.start : window.end] = 1

        def logits(vectors: Tensor) -> Tensor:
            made: Tensor = self.network(unpadded(vectors), is_target.expand(len(vectors), -1))
            return made

        text = EncodedText(window.ids, tuple(offsets), window.is_cut)
        return Reading(text, self.embeddings, self.tokenizer.padding, logits)
