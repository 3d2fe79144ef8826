"""Training and predictions of a T5 that reads an instruction and a window of turns, and answers by an option."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional

from harness.study.cell import seed_of
from harness.study.systems import Fit, Place, Predicted
from harness.systems.encoders.epochs import EpochTrained, Schedule, with_tuples
from harness.systems.encoders.pooled import with_products
from harness.systems.encoders.texts import padded_batch
from harness.systems.seq2seq.new_tokens import add_tokens
from harness.systems.seq2seq.prompt import Frame, Read, Reader, frame_of
from harness.systems.seq2seq.ranking import options_of, packed, scores
from harness.systems.seq2seq.weights import load_network, resolve_weights
from harness.training.batches import evaluation_batches
from harness.training.tensors import to_device
from harness.training.tokens.tokenizer import load_tokenizer
from tasks.errors import BadInput
from tasks.task import Example, Instruction

if TYPE_CHECKING:
    from harness.systems.kinds.seq2seq import Config

IGNORED = -100  # a place of a batch's answers that has no token
MOST_LOGITS = 2**26  # of a pass that ranks options: a number per row, position of the options and token known


class Trained(EpochTrained):
    """A T5 with the instruction that it is asked by."""

    def __init__(self, config: Config, place: Place, instruction: Instruction, seed: int) -> None:
        """A T5 as its folder has it; new tokens and products of low rank are drawn from ``seed``.

        BadInput where the settings, the instruction and the weights do not fit each other.
        """
        super().__init__()
        self.instruction: Instruction
        self.config, self.instruction, self.device = config, instruction, place.device.ready()
        self.backbone = resolve_weights(config.weights)
        if config.tokens > self.backbone.max_tokens:
            raise BadInput(
                f"system 'seq2seq' is to read tokens = {config.tokens}, and {self.backbone.name!r} reads at most"
                f" {self.backbone.max_tokens}; set tokens to that or less"
            )
        tokenizer, network = load_tokenizer(self.backbone), load_network(self.backbone)
        self.padding = tokenizer.padding
        end = tokenizer.backend.token_to_id(tokenizer.special["eos_token"])
        self.read = Reader(tokenizer, config.tokens, frame_of(instruction) if config.instruction else Frame(), end)
        torch.manual_seed(seed_of(seed, "answers"))
        if config.lora_rank:
            network = with_products(network, config.lora_rank)
        self.options: Sequence[tuple[int, ...]]
        if config.has_new_tokens(instruction):
            self.options = [(id, end) for id in add_tokens(network, len(instruction.options))]
        else:
            self.options = options_of(tokenizer, instruction.options, end)
        self.vocabulary = network.config.vocab_size + len(self.options)
        start = network.config.decoder_start_token_id
        self.start = self.padding if start is None else start  # T5's own answers begin with padding, too
        self.network = network.to(self.device).eval()
        self.packed = packed(self.options, self.start, self.device)
        self.will_train(
            lambda name: bool(config.epochs) and (not config.lora_rank or ".lora_" in name or name.endswith(".new"))
        )

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

    def loss(self, prompts: Sequence[Read], gold: Sequence[int]) -> Tensor:
        """The mean cross-entropy over all tokens of the gold options, ends included (Raffel et al. 2020, 2.4)."""
        answers = [self.options[number] for number in gold]
        longest = max(map(len, answers))
        inputs = [[self.start, *answer[:-1], *[self.padding] * (longest - len(answer))] for answer in answers]
        targets = [[*answer, *[IGNORED] * (longest - len(answer))] for answer in answers]
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.config.precision == "bf16"):
            logits = self.network(
                **padded_batch([prompt.ids for prompt in prompts], self.padding, self.device),
                decoder_input_ids=to_device(torch.tensor(inputs), self.device),
                use_cache=False,
            ).logits
        flat = to_device(torch.tensor(targets), self.device).flatten()
        return functional.cross_entropy(logits.float().flatten(0, 1), flat, ignore_index=IGNORED)

    def predict(self, rows: Sequence[Example]) -> Predicted:
        """The log-probability of every option, as the logit of its class."""
        self.network.eval()
        prompts = self.read(rows)
        logits = np.zeros((len(rows), len(self.options)), dtype=np.float32)
        most = max(1, MOST_LOGITS // (len(self.packed.inputs) * self.vocabulary))
        with torch.inference_mode():
            for batch in evaluation_batches([len(prompt.ids) for prompt in prompts]):
                for first in range(0, len(batch), most):
                    numbers = batch[first : first + most]
                    logits[numbers] = self.rank([prompts[number] for number in numbers]).cpu().numpy()
        return Predicted(logits, is_cut=np.array([prompt.is_cut for prompt in prompts], dtype=bool))

    def rank(self, prompts: Sequence[Read]) -> Tensor:
        """Log-probabilities ``[n, options]`` of the options after these prompts, fp32."""
        batch = padded_batch([prompt.ids for prompt in prompts], self.padding, self.device)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.config.precision == "bf16"):
            return scores(self.network, batch, self.packed)

    def asked_by(self, instruction: Instruction, classes: Sequence[int]) -> Trained:
        """The same weights, asked by other words; new tokens stay those of their classes, whatever these are called.

        BadInput where nothing is asked, or where two options are the same tokens.
        """
        if not self.config.instruction:
            raise BadInput("it was trained without an instruction, so that no option is read")
        other, end = copy.copy(self), self.options[0][-1]
        other.instruction = instruction
        other.read = Reader(self.read.tokenizer, self.config.tokens, frame_of(instruction), end)
        if self.config.has_new_tokens(self.instruction):
            other.options = [self.options[place] for place in classes]
        else:
            other.options = options_of(self.read.tokenizer, instruction.options, end)
        other.packed = packed(other.options, self.start, self.device)
        return other

    def save(self, folder: Path) -> None:
        """Write what was trained, the settings, and the instruction."""
        self.write(folder, {"instruction": asdict(self.instruction), "weights": self.backbone.identity()})

    @classmethod
    def load(cls, folder: Path, place: Place, config: type[Config]) -> Trained:
        """What ``save`` has written; BadInput if its weights are others than those that are here."""
        facts = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        instruction = Instruction(**with_tuples(facts["instruction"]))
        fitted = cls(config(**with_tuples(facts["config"])), place, instruction, seed=0)
        if odd := fitted.backbone.unlike(facts["weights"]):
            raise BadInput(f"{folder}: trained from other weights ({odd}); load it with its own")
        fitted.put(load_file(folder / "model.safetensors"))
        return fitted
