"""Training and predictions of a causal language model that reads an instruction and a window, and answers by an option.

Products of low rank beside the linear layers of its blocks learn (Hu et al. 2022); its own weights stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from harness.study.cell import seed_of
from harness.study.systems import Place
from harness.systems.decoders.ranking import (
    continuations,
    end_of,
    ending_together,
    most_rows,
    opening_of,
    scores,
)
from harness.systems.decoders.weights import load_network, resolve_weights
from harness.systems.encoders.pooled import with_products
from harness.systems.seq2seq.instructed import IGNORED, Instructed
from harness.systems.seq2seq.prompt import TURN, Frame, Marks, Read, Reader, frame_of
from harness.training.tokens.tokenizer import load_tokenizer
from tasks.task import Instruction

if TYPE_CHECKING:
    from harness.systems.kinds.decoder import Config

CLOSING = "Answer:"  # the last line of every prompt, which an option goes on with


class Trained(Instructed):
    """A causal language model with the instruction that it is asked by."""

    def __init__(self, config: Config, place: Place, instruction: Instruction, seed: int) -> None:
        """A model as its folder has it, with products of low rank that are drawn from ``seed`` and begin at 0.

        BadInput where the settings, the instruction and the weights do not fit each other.
        """
        super().__init__(config, place, instruction, seed)
        self.backbone = resolve_weights(config.weights)
        tokenizer, network = load_tokenizer(self.backbone), load_network(self.backbone)
        self.end = end_of(tokenizer, self.backbone)
        self.options = continuations(tokenizer, CLOSING, instruction.options, self.end)
        self.check_length("decoder", max(map(len, self.options)) - 1)  # an end is said and not read
        marks = Marks(opening=opening_of(tokenizer), turn=f"\n{TURN}")
        self.read = Reader(tokenizer, config.tokens, _frame(config, instruction), marks, "decoder")
        torch.manual_seed(seed_of(seed, "answers"))
        self.vocabulary = network.config.vocab_size
        self.network = with_products(network, config.lora_rank).to(self.device).eval()
        self.will_train(lambda name: ".lora_" in name)

    def loss(self, prompts: Sequence[Read], gold: Sequence[int]) -> Tensor:
        """The mean cross-entropy over all tokens of the gold options, ends included; a prompt's own tokens teach none.

        Prompts and answers of a batch end together, so that its last columns are all that logits are needed of.
        """
        answers = [self.options[number] for number in gold]
        longest = max(map(len, answers))
        texts = [(*prompt.ids, *answer[:-1]) for prompt, answer in zip(prompts, answers, strict=True)]
        targets = [[*[IGNORED] * (longest - len(answer)), *answer] for answer in answers]
        batch = ending_together(texts, self.end, self.device)
        with self.in_precision():
            logits = self.network(**batch, use_cache=False, logits_to_keep=longest).logits
        return self.mean_over_tokens(logits, targets)

    def rank(self, prompts: Sequence[Read]) -> Tensor:
        """Log-probabilities ``[n, options]`` of the options after these prompts, fp32."""
        with self.in_precision():
            return scores(self.network, [prompt.ids for prompt in prompts], self.options, self.end, self.device)

    def reword(self, instruction: Instruction, classes: Sequence[int]) -> None:
        """Options are said in their own words."""
        tokenizer, frame = self.read.tokenizer, _frame(self.config, instruction)
        self.options = continuations(tokenizer, CLOSING, instruction.options, self.end)
        self.read = Reader(tokenizer, self.config.tokens, frame, self.read.marks, "decoder")

    def most_rows(self, tokens: int) -> int:
        """As many as memory is meant to hold."""
        return most_rows(self.options, tokens, self.vocabulary)


def _frame(config: Config, instruction: Instruction) -> Frame:
    """The words around a row, parted by lines, of which the last one asks; without an instruction that alone."""
    frame = frame_of(instruction) if config.instruction else Frame()
    return Frame(frame.above, f"\n{frame.before}", f"{frame.after}\n{CLOSING}")
