"""Trainings and predictions of a model that reads an instruction and a window of turns, and ranks the options.

A subclass builds its network, and says what a batch's loss is and how its options rank; everything else stands here.
"""

from __future__ import annotations

import copy
import json
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional

from harness.study.backbones.backbone import Backbone
from harness.study.systems import Fit, Place, Predicted
from harness.systems.encoders.epochs import EpochTrained, Schedule, with_tuples
from harness.systems.seq2seq.prompt import Read, Reader
from harness.training.batches import evaluation_batches
from harness.training.tensors import to_device
from tasks.errors import BadInput
from tasks.task import Example, Instruction

IGNORED = -100  # a place of a batch's answers that has no token


class Instructed(EpochTrained):
    """A network with the instruction that it is asked by. A subclass sets all that is declared here."""

    instruction: Instruction
    backbone: Backbone
    device: torch.device
    read: Reader
    options: Sequence[tuple[int, ...]]

    def __init__(self, config: Any, place: Place, instruction: Instruction, seed: int) -> None:  # noqa: ANN401 - a kind's
        """Nothing is built yet; a subclass does it, and draws from ``seed`` whatever is drawn."""
        super().__init__()
        self.config, self.instruction, self.device = config, instruction, place.device.ready()

    def check_length(self, system: str, of_answer: int = 0) -> None:
        """BadInput where the settings of the ``system`` ask for more tokens than its weights read.

        ``of_answer`` tokens are read behind a prompt, where the same network reads both.
        """
        most = self.backbone.max_tokens - of_answer
        if self.config.tokens > most:
            raise BadInput(
                f"system {system!r} is to read tokens = {self.config.tokens}, and {self.backbone.name!r} reads at most"
                f" {most}; set tokens to that or less"
            )

    @abstractmethod
    def loss(self, prompts: Sequence[Read], gold: Sequence[int]) -> Tensor:
        """The mean cross-entropy over all tokens of the gold options, ends included."""

    def mean_over_tokens(self, logits: Tensor, targets: Sequence[Sequence[int]]) -> Tensor:
        """The mean cross-entropy of logits ``[n, t, vocabulary]`` at the places that have a token, not IGNORED."""
        flat = to_device(torch.tensor(targets), self.device).flatten()
        return functional.cross_entropy(logits.float().flatten(0, 1), flat, ignore_index=IGNORED)

    @abstractmethod
    def rank(self, prompts: Sequence[Read]) -> Tensor:
        """Log-probabilities ``[n, options]`` of the options after these prompts, fp32."""

    @abstractmethod
    def most_rows(self, tokens: int) -> int:
        """How many prompts of so many tokens are ranked at a time."""

    @abstractmethod
    def reword(self, instruction: Instruction, classes: Sequence[int]) -> None:
        """Read and rank by other words, whose option i stands for the class ``classes[i]``."""

    def asked_by(self, instruction: Instruction, classes: Sequence[int]) -> Self:
        """The same weights, asked by other words.

        BadInput where nothing is asked, or where two options are the same tokens.
        """
        if not self.config.instruction:
            raise BadInput("it was trained without an instruction, so that no option is read")
        other = copy.copy(self)
        other.reword(instruction, classes)
        other.instruction = instruction
        return other

    def fit(self, fit: Fit) -> None:
        """Train for all epochs, or until validation rows gain no more; not at all where there is no epoch."""
        config = self.config
        if not config.epochs:
            return
        prompts = self.read(fit.train)
        gold = [int(row.label) for row in fit.train if not isinstance(row.label, tuple)]
        schedule = Schedule(config.epochs, config.batch_size, config.learning_rate, False, config.patience)

        def loss_of(numbers: Sequence[int], epoch: int) -> Tensor:
            return self.loss([prompts[number] for number in numbers], [gold[number] for number in numbers])

        self.train(fit, schedule, [len(prompt.ids) for prompt in prompts], loss_of)

    def predict(self, rows: Sequence[Example]) -> Predicted:
        """The log-probability of every option, as the logit of its class."""
        self.network.eval()
        prompts = self.read(rows)
        logits = np.zeros((len(rows), len(self.options)), dtype=np.float32)
        with torch.inference_mode():
            for batch in evaluation_batches([len(prompt.ids) for prompt in prompts]):
                most = self.most_rows(len(prompts[batch[0]].ids))
                for first in range(0, len(batch), most):
                    numbers = batch[first : first + most]
                    logits[numbers] = self.rank([prompts[number] for number in numbers]).cpu().numpy()
        return Predicted(logits, is_cut=np.array([prompt.is_cut for prompt in prompts], dtype=bool))

    def in_precision(self) -> torch.autocast:
        """A context in which products are computed as the settings say."""
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.config.precision == "bf16")

    def save(self, folder: Path) -> None:
        """Write what was trained, the settings, and the instruction."""
        self.write(folder, {"instruction": asdict(self.instruction), "weights": self.backbone.identity()})

    @classmethod
    def load(cls, folder: Path, place: Place, config: type) -> Self:
        """What ``save`` has written; BadInput if its weights are others than those that are here."""
        facts = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        instruction = Instruction(**with_tuples(facts["instruction"]))
        fitted = cls(config(**with_tuples(facts["config"])), place, instruction, seed=0)
        if odd := fitted.backbone.unlike(facts["weights"]):
            raise BadInput(f"{folder}: trained from other weights ({odd}); load it with its own")
        fitted.put(load_file(folder / "model.safetensors"))
        return fitted
