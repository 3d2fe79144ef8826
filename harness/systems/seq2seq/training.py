"""Training and predictions of a T5 that reads an instruction and a window of turns, and answers by an option."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from harness.study.cell import seed_of
from harness.study.systems import Place
from harness.systems.encoders.pooled import with_products
from harness.systems.encoders.texts import padded_batch
from harness.systems.seq2seq.instructed import IGNORED, Instructed
from harness.systems.seq2seq.new_tokens import add_tokens
from harness.systems.seq2seq.prompt import Frame, Marks, Read, Reader, frame_of
from harness.systems.seq2seq.ranking import most_rows, options_of, packed, scores, start_of
from harness.systems.seq2seq.weights import load_network, resolve_weights
from harness.training.tensors import to_device
from harness.training.tokens.tokenizer import load_tokenizer
from tasks.task import Instruction

if TYPE_CHECKING:
    from harness.systems.kinds.seq2seq import Config


class Trained(Instructed):
    """A T5 with the instruction that it is asked by."""

    def __init__(self, config: Config, place: Place, instruction: Instruction, seed: int) -> None:
        """A T5 as its folder has it; new tokens and products of low rank are drawn from ``seed``.

        BadInput where the settings, the instruction and the weights do not fit each other.
        """
        super().__init__(config, place, instruction, seed)
        self.backbone = resolve_weights(config.weights)
        self.check_length("seq2seq")
        tokenizer, network = load_tokenizer(self.backbone), load_network(self.backbone)
        self.padding = tokenizer.padding
        end = tokenizer.backend.token_to_id(tokenizer.special["eos_token"])
        frame = frame_of(instruction) if config.instruction else Frame()
        self.read = Reader(tokenizer, config.tokens, frame, Marks(closing=(end,)), "seq2seq")
        torch.manual_seed(seed_of(seed, "answers"))
        if config.lora_rank:
            network = with_products(network, config.lora_rank)
        if config.has_new_tokens(instruction):
            self.options = [(id, end) for id in add_tokens(network, len(instruction.options))]
        else:
            self.options = options_of(tokenizer, instruction.options, end)
        self.vocabulary = network.config.vocab_size + len(self.options)
        self.start = start_of(network, self.padding)
        self.network = network.to(self.device).eval()
        self.packed = packed(self.options, self.start, self.device)
        self.will_train(
            lambda name: bool(config.epochs) and (not config.lora_rank or ".lora_" in name or name.endswith(".new"))
        )

    def loss(self, prompts: Sequence[Read], gold: Sequence[int]) -> Tensor:
        """The mean cross-entropy over all tokens of the gold options, ends included (Raffel et al. 2020, 2.4)."""
        answers = [self.options[number] for number in gold]
        longest = max(map(len, answers))
        inputs = [[self.start, *answer[:-1], *[self.padding] * (longest - len(answer))] for answer in answers]
        targets = [[*answer, *[IGNORED] * (longest - len(answer))] for answer in answers]
        with self.in_precision():
            logits = self.network(
                **padded_batch([prompt.ids for prompt in prompts], self.padding, self.device),
                decoder_input_ids=to_device(torch.tensor(inputs), self.device),
                use_cache=False,
            ).logits
        return self.mean_over_tokens(logits, targets)

    def rank(self, prompts: Sequence[Read]) -> Tensor:
        """Log-probabilities ``[n, options]`` of the options after these prompts, fp32."""
        batch = padded_batch([prompt.ids for prompt in prompts], self.padding, self.device)
        with self.in_precision():
            return scores(self.network, batch, self.packed)

    def most_rows(self, tokens: int) -> int:
        """As many as memory is meant to hold, whatever their length."""
        return most_rows(self.packed, self.vocabulary)

    def reword(self, instruction: Instruction, classes: Sequence[int]) -> None:
        """New tokens stay those of their classes, whatever these are called."""
        tokenizer, end = self.read.tokenizer, self.options[0][-1]
        self.read = Reader(tokenizer, self.config.tokens, frame_of(instruction), self.read.marks, "seq2seq")
        if self.config.has_new_tokens(self.instruction):
            self.options = [self.options[place] for place in classes]
        else:
            self.options = options_of(tokenizer, instruction.options, end)
        self.packed = packed(self.options, self.start, self.device)
