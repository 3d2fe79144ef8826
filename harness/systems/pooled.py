"""An encoder over a window of turns, whose target's mean vector goes into a linear head: training and predictions.

A window is a row as one sequence of ids: its earlier turns, the target turn, and what follows, with the target's place.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from harness.study.cell import seed_of
from harness.study.systems import Fit, Place, Predicted
from harness.systems.attributions import Reading
from harness.systems.epochs import CUTS, EpochTrained, Schedule, Text, padded_batch, with_tuples
from harness.systems.weights import load_encoder, resolve_encoder
from harness.training.batches import evaluation_batches, padded
from harness.training.inputs import sides
from harness.training.objective import Objective
from harness.training.tensors import to_device
from harness.training.tokenizer import Tokenizer, load_tokenizer
from tasks.errors import BadInput
from tasks.task import Example

if TYPE_CHECKING:
    from harness.systems.kinds.encoder import Config


class Window(NamedTuple):
    """``ids [tokens]`` of turns with a separator between them, special tokens around, and the target's places.

    The target turn is ``ids[start:end]``; ``is_cut`` where not every token of the window is read.
    """

    ids: tuple[int, ...]
    start: int
    end: int
    is_cut: bool


class Reader:
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
        ids = iter(self.tokenizer.ids([text for row in turns for text in row]))
        each = [[next(ids) for _ in row] for row in turns]
        return [self._window(texts, len(row.context)) for texts, row in zip(each, rows, strict=True)]

    def _window(self, turns: list[list[int]], place: int) -> Window:
        """The window of a row's turns, of which the one at ``place`` is the target."""
        target = turns[place][: self.room]
        earlier = [id for turn in turns[:place] for id in (*turn, *self.between)]
        later = [id for turn in turns[place + 1 :] for id in (*self.between, *turn)]
        of_earlier, of_later = sides(len(earlier), len(later), self.room - len(target))
        kept = [*self.before, *earlier[len(earlier) - of_earlier :]]
        ids = (*kept, *target, *later[:of_later], *self.after)
        is_cut = len(target) < len(turns[place]) or of_earlier < len(earlier) or of_later < len(later)
        return Window(ids, len(kept), len(kept) + len(target), is_cut)


SPREAD = 0.02  # standard deviation of the head's fresh weights
ALPHA = 2  # factor of a low-rank product


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


def with_products(encoder: nn.Module, rank: int) -> nn.Module:
    """The encoder with a product of low rank beside each linear layer of its blocks; the products begin at 0.

    LoRA by the package peft (Hu et al. 2022, equation 3); random factors are drawn from torch's generator.
    """
    from peft import LoraConfig, inject_adapter_in_model
    from transformers.pytorch_utils import Conv1D

    pooler = r".*pooler.*" if any("pooler" in name for name, _ in encoder.named_modules()) else None
    is_transposed = any(isinstance(module, Conv1D) for module in encoder.modules())  # GPT-2's linear layers
    layers = {"target_modules": "all-linear", "exclude_modules": pooler, "fan_in_fan_out": is_transposed}
    config = LoraConfig(r=rank, lora_alpha=ALPHA * rank, **layers)
    wrapped: nn.Module = inject_adapter_in_model(config, encoder)
    return wrapped


class Trained(EpochTrained):
    """An encoder with its head."""

    def __init__(self, config: Config, place: Place, kind: str, outputs: int, seed: int) -> None:
        """An untrained head, drawn from ``seed``, on the encoder of the settings or the place; BadInput if too small.

        ``kind`` is that of the label.
        """
        super().__init__()
        assert place.backbone is not None
        self.config, self.kind, self.outputs, self.device = config, kind, outputs, place.device.ready()
        self.backbone = resolve_encoder(config.weights) if config.weights else place.backbone
        if config.tokens > self.backbone.max_tokens:
            raise BadInput(
                f"system 'encoder' is to read tokens = {config.tokens}, and {self.backbone.name!r} reads at most"
                f" {self.backbone.max_tokens}; set tokens to that or less"
            )
        self.tokenizer = load_tokenizer(self.backbone)
        self.read = Reader(self.tokenizer, config.tokens)
        encoder = load_encoder(self.backbone)
        width, self.embeddings = encoder.config.hidden_size, encoder.get_input_embeddings()
        torch.manual_seed(seed_of(seed, "heads"))
        if config.lora_rank:
            encoder = with_products(encoder, config.lora_rank)
        self.network = Pooled(encoder, width, outputs, config.dropout).to(self.device)
        self.head: nn.Module = self.network.head
        self.will_train(lambda name: not config.lora_rank or name.startswith("head.") or ".lora_" in name)

    def fit(self, fit: Fit) -> None:
        """Train for all epochs, or until validation rows gain no more."""
        config, windows = self.config, self.read(fit.train)
        answers = np.array([row.label for row in fit.train])
        labels = torch.from_numpy(answers)
        cut = CUTS[self.device.type]
        schedule = Schedule(config.epochs, config.batch_size, config.learning_rate, False, config.patience, cut)

        @cache  # of an epoch, not of a batch: it counts the rows of every class
        def objective(epoch: int) -> Objective:
            return Objective.of(config.objective, answers, self.outputs, epoch=epoch).on(self.device)

        def loss_of(numbers: Sequence[int], epoch: int) -> Tensor:
            logits = self._forward([windows[number] for number in numbers])
            return objective(epoch).losses(logits, to_device(labels[numbers], self.device)).mean()

        self.train(fit, schedule, [len(window.ids) for window in windows], loss_of)

    def predict(self, rows: Sequence[Example]) -> Predicted:
        """Logits of every row's target turn."""
        self.network.eval()
        windows = self.read(rows)
        logits = np.zeros((len(rows), self.outputs), dtype=np.float32)
        with torch.inference_mode():
            for numbers in evaluation_batches([len(window.ids) for window in windows]):
                logits[numbers] = self._forward([windows[number] for number in numbers]).cpu().numpy()
        return Predicted(logits, is_cut=np.array([window.is_cut for window in windows], dtype=bool))

    def _forward(self, windows: Sequence[Window]) -> Tensor:
        """The network's logits, fp32."""
        length = padded(max(len(window.ids) for window in windows), self.backbone.max_tokens)
        batch = padded_batch([window.ids for window in windows], self.tokenizer.padding, self.device, length)
        target = torch.zeros(batch["input_ids"].shape)
        for row, window in enumerate(windows):
            target[row, window.start : window.end] = 1
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.config.precision == "bf16"):
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
            ones = torch.ones(vectors.shape[:2], dtype=torch.int64, device=self.device)
            read = {"inputs_embeds": vectors, "attention_mask": ones}
            made: Tensor = self.network(read, is_target.expand(len(vectors), -1))
            return made

        text = Text(window.ids, tuple(offsets), window.is_cut)
        return Reading(text, self.embeddings, self.tokenizer.padding, logits)

    def save(self, folder: Path) -> None:
        """Write encoder and head, and the settings."""
        self.write(folder, {"kind": self.kind, "outputs": self.outputs, "encoder": self.backbone.identity()})

    @classmethod
    def load(cls, folder: Path, place: Place, config: type[Config]) -> Trained:
        """What ``save`` has written; BadInput if its encoder is another than the one that is here."""
        facts = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        if place.backbone is None:
            raise BadInput(f"{folder}: an encoder is loaded with the backbone of its study, and none is given")
        fitted = cls(config(**with_tuples(facts["config"])), place, facts["kind"], facts["outputs"], seed=0)
        if odd := fitted.backbone.unlike(facts["encoder"]):
            raise BadInput(f"{folder}: trained from another encoder ({odd}); load it with its own")
        fitted.put(load_file(folder / "model.safetensors"))
        return fitted
