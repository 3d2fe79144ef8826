"""Weights of a folder that answer prompts by the likeliest option: nothing is sent, sampled or parsed.

Every option is scored with its end, all on one pass of the prompt. A causal language model reads the prompt as the text
that an option goes on with, behind a space, as exemplars do. A T5 reads it with its encoder. Neither is given the marks
of a chat.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from harness.study.backbone import Backbone
from harness.study.systems import Place, Predicted
from harness.systems import seq2seq as of_t5
from harness.systems.decoders import continuations, end_of, most_rows, opening_of, scores
from harness.systems.epochs import padded_batch
from harness.systems.prompting.prompts import Shot, closing_of, prompt_of
from harness.systems.weights import T5, load_causal, load_t5, resolve_answering
from harness.training.batches import evaluation_batches
from harness.training.tokenizer import load_tokenizer
from tasks.errors import BadInput
from tasks.task import Example, Instruction

ANY_LENGTH = 2**31  # tokens that a T5 reads, whose attention knows distances alone (Raffel et al. 2020, section 2.1)
KEPT = 7 / 8  # of a text that is too long, again and again until it is not


class Causal:
    """A causal language model, which goes on with a text. What it and a T5 make of options is their own."""

    def __init__(self, weights: Backbone, place: Place) -> None:
        """Load it."""
        self.weights, self.tokenizer, self.device = weights, load_tokenizer(weights), place.device.ready()
        self.opening, self.end = opening_of(self.tokenizer), end_of(self.tokenizer, weights)
        self.network = load_causal(weights).to(self.device)

    def ids(self, prompt: str) -> tuple[int, ...]:
        """What is read of a prompt: its tokens, behind the token that opens texts, if there is any."""
        return (*self.opening, *self.tokenizer.ids([prompt])[0])

    def options(self, options: Sequence[str], closing: str) -> tuple[tuple[int, ...], ...]:
        """The tokens of each behind the closing words, and its end."""
        return continuations(self.tokenizer, closing, options, self.end)

    def most_tokens(self, options: Sequence[tuple[int, ...]]) -> int:
        """How long a prompt may be: what the weights read, less the longest option; an end is said and not read."""
        return self.weights.max_tokens - max(map(len, options)) + 1

    def most_rows(self, tokens: int, options: Sequence[tuple[int, ...]]) -> int:
        """How many prompts of so many tokens are ranked at a time: as many as memory is meant to hold."""
        return most_rows(options, tokens, self.network.config.vocab_size)

    def scores(self, prompts: Sequence[tuple[int, ...]], options: Sequence[tuple[int, ...]]) -> Tensor:
        """Log-probabilities ``[n, options]``, fp32, by keys and values of each prompt that are computed once."""
        return scores(self.network, prompts, options, self.end, self.device)


class EncoderDecoder:
    """A T5, whose encoder reads the prompt and whose decoder says the options."""

    def __init__(self, weights: Backbone, place: Place) -> None:
        """Load it."""
        self.tokenizer, self.device = load_tokenizer(weights), place.device.ready()
        self.end, self.padding = end_of(self.tokenizer, weights), self.tokenizer.padding
        self.network = load_t5(weights).to(self.device)

    def ids(self, prompt: str) -> tuple[int, ...]:
        """The prompt's tokens with the end that a T5 reads behind every text."""
        return (*self.tokenizer.ids([prompt])[0], self.end)

    def options(self, options: Sequence[str], closing: str) -> of_t5.Packed:
        """All in one sequence of the decoder, which starts anew whatever the prompt ends in."""
        start = of_t5.start_of(self.network, self.padding)
        return of_t5.packed(of_t5.options_of(self.tokenizer, options, self.end), start, self.device)

    def most_tokens(self, options: of_t5.Packed) -> int:
        """Any number."""
        return ANY_LENGTH

    def most_rows(self, tokens: int, options: of_t5.Packed) -> int:
        """As many as memory is meant to hold."""
        return of_t5.most_rows(options, self.network.config.vocab_size)

    def scores(self, prompts: Sequence[tuple[int, ...]], options: of_t5.Packed) -> Tensor:
        """By one pass of the encoder."""
        return of_t5.scores(self.network, padded_batch(prompts, self.padding, self.device), options)


class Ranked:
    """A folder's weights with an instruction whose options they rank; they are loaded once there is a prompt."""

    def __init__(self, name: str, instruction: Instruction, place: Place) -> None:
        """Look at the folder; BadBackbone where it cannot be used."""
        self.backbone, self.instruction, self.place = resolve_answering(name), instruction, place

    def asked_by(self, instruction: Instruction) -> Ranked:
        """The same weights, loaded once for all, with another instruction."""
        other = copy.copy(self)
        other.__dict__["weights"], other.instruction = self.weights, instruction
        return other

    @cached_property
    def weights(self) -> Causal | EncoderDecoder:
        """The model, loaded."""
        is_t5 = self.backbone.model_type == T5
        return EncoderDecoder(self.backbone, self.place) if is_t5 else Causal(self.backbone, self.place)

    def predicted(
        self, rows: Sequence[Example], template: str, shots: Sequence[Shot], *, is_trial: bool = False
    ) -> Predicted:
        """The log-probability of every option, as the logit of its class; a trial is as good as any."""
        options: Any = self.weights.options(self.instruction.options, closing_of(template))
        read = [self._read(row, template, shots, self.weights.most_tokens(options)) for row in rows]
        prompts = [ids for ids, _ in read]
        logits = np.zeros((len(rows), len(self.instruction.options)), dtype=np.float32)
        with torch.inference_mode():
            for batch in evaluation_batches([len(prompt) for prompt in prompts]):
                most = self.weights.most_rows(len(prompts[batch[0]]), options)
                for first in range(0, len(batch), most):
                    numbers = batch[first : first + most]
                    scored = self.weights.scores([prompts[number] for number in numbers], options)
                    logits[numbers] = scored.cpu().numpy()
        is_cut = np.array([is_cut for _, is_cut in read], dtype=bool)
        return Predicted(logits, is_cut=is_cut, notes={"weights": self.backbone.name})

    def _read(self, row: Example, template: str, shots: Sequence[Shot], most: int) -> tuple[tuple[int, ...], bool]:
        """The ids of a row's prompt, at most so many, and whether it was cut for that.

        The outermost turn of the side that has more is left out first, then the end of the text. BadInput where the
        template and the exemplars alone are too long.
        """
        whole = row
        while len(ids := self.weights.ids(prompt_of(template, self.instruction, shots, row))) > most:
            if not row.text:
                raise BadInput(
                    f"system 'prompted': template and exemplars are {len(ids)} tokens without a text, and"
                    f" {self.backbone.name!r} reads at most {most} before an answer; take fewer shots, or other weights"
                )
            if len(row.context) >= max(1, len(row.after)):
                row = row._replace(context=row.context[1:])
            elif row.after:
                row = row._replace(after=row.after[:-1])
            else:
                row = row._replace(text=row.text[: int(len(row.text) * KEPT)])
        return ids, row is not whole
