"""Models that answer by options: the log-probability of every option, with its end, after a prompt.

Xu and Jiang 2024, section 4.3: the answer is the option whose words are likeliest. With its end an option is a whole
answer; without, "no" would win over "no communication" every time, whose probability is a part of its own.

A causal language model computes each layer's keys and values of a prompt once, and reads all options behind them in one
batch. Prompts end in the same column of a batch, with padding before them, so that windows of attention lie as they
would without padding; positions count from the first token that is read.

A T5 reads a prompt once, and all options stand in one sequence of its decoder. A mask lets every position see the
earlier ones of its own option alone. T5's attention depends on how far apart two positions are, not where they are
(Raffel et al. 2020, section 2.1), so what each option gets is what it would get by itself.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from harness.study.backbone import Backbone, BadBackbone
from harness.systems.epochs import padded_batch
from harness.systems.weights import T5, load_answering
from harness.training.tensors import to_device
from harness.training.tokenizer import load_tokenizer
from tasks.errors import BadInput

MOST_LOGITS = 2**26  # of a pass that ranks options: a number per row, token of an option and token known
MOST_KEPT = 2**15  # tokens whose keys and values are kept at a time, options counted
ANY_LENGTH = 2**31  # tokens that a T5 reads, whose attention knows distances alone
IGNORED = -100  # a place of a batch's answers that has no token

Ids = tuple[int, ...]


class Answering(ABC):
    """A network, its tokenizer, and the ids that stand around every prompt and behind every answer."""

    opening: Ids = ()
    closing: Ids = ()

    def __init__(self, weights: Backbone, device: torch.device) -> None:
        """Load the weights, which are not on the device yet; BadBackbone where their tokenizer names no end."""
        self.weights, self.device, self.tokenizer = weights, device, load_tokenizer(weights)
        end = self.id_of("eos_token")
        if end is None:
            raise BadBackbone(
                f"decoder {weights.name!r}: its tokenizer names no eos_token, with which answers end; put the files of"
                " the tokenizer there as they come with the weights"
            )
        self.end = end
        self.network: Any = load_answering(weights)
        self.vocabulary: int = self.network.config.vocab_size

    def id_of(self, token: str) -> int | None:
        """The id of a special token; None where the tokenizer has none."""
        words = self.tokenizer.special.get(token)
        return None if words is None else self.tokenizer.backend.token_to_id(words)

    def ids(self, prompt: str) -> Ids:
        """What is read of a prompt."""
        return (*self.opening, *self.tokenizer.ids([prompt])[0], *self.closing)

    @abstractmethod
    def options(self, options: Sequence[str], before: str) -> tuple[Ids, ...]:
        """The ids of every option behind the last words of a prompt, and its end; BadInput as ``distinct`` says."""

    @abstractmethod
    def most_tokens(self, options: Sequence[Ids]) -> int:
        """How many tokens a prompt may have."""

    @abstractmethod
    def most_rows(self, tokens: int, options: Sequence[Ids]) -> int:
        """How many prompts of so many tokens are ranked at a time: as many as memory is meant to hold, at least 1."""

    @abstractmethod
    def scores(self, prompts: Sequence[Ids], options: Sequence[Ids]) -> Tensor:
        """The log-probability ``[n, options]`` of every option after each prompt; fp32."""

    @abstractmethod
    def loss(self, prompts: Sequence[Ids], answers: Sequence[Ids]) -> Tensor:
        """The mean cross-entropy over all tokens of the answers, ends included (Raffel et al. 2020, 2.4)."""

    def mean_over_tokens(self, logits: Tensor, targets: Sequence[Sequence[int]]) -> Tensor:
        """The mean cross-entropy of logits ``[n, t, vocabulary]`` at the places that have a token, not IGNORED."""
        flat = to_device(torch.tensor(targets), self.device).flatten()
        return functional.cross_entropy(logits.float().flatten(0, 1), flat, ignore_index=IGNORED)


def answering(weights: Backbone, device: torch.device) -> Answering:
    """The model that a folder's weights are, loaded."""
    return EncoderDecoder(weights, device) if weights.model_type == T5 else Causal(weights, device)


def distinct(options: Sequence[str], every: Sequence[Ids]) -> tuple[Ids, ...]:
    """The ids of options, ends included; BadInput where two are the same tokens, or one has none but its end."""
    for place, ids in enumerate(every):
        if len(ids) == 1:
            raise BadInput(f"option {options[place]!r} has no token of these weights; take other words")
        if ids in every[:place]:
            other = options[every.index(ids)]
            raise BadInput(f"options {other!r} and {options[place]!r} are the same tokens of these weights; rename one")
    return tuple(every)


class Causal(Answering):
    """A causal language model, which goes on with a text."""

    def __init__(self, weights: Backbone, device: torch.device) -> None:
        """Load it; what opens texts is the token that its tokenizer puts before them, where it was trained with one."""
        super().__init__(weights, device)
        opening = self.id_of("bos_token")
        if opening is not None and self.tokenizer.backend.encode("").ids[:1] == [opening]:
            self.opening = (opening,)

    def options(self, options: Sequence[str], before: str) -> tuple[Ids, ...]:
        """Behind a space; BadInput where tokens would join an option to the words before it, too."""
        (shared,) = self.tokenizer.ids([before])
        joined = self.tokenizer.ids([f"{before} {option}" for option in options])
        for option, ids in zip(options, joined, strict=True):
            if ids[: len(shared)] != shared:
                raise BadInput(
                    f"option {option!r} has a token in common with what stands before it, {before!r}, in these weights;"
                    " end the template with other words"
                )
        return distinct(options, [(*ids[len(shared) :], self.end) for ids in joined])

    def most_tokens(self, options: Sequence[Ids]) -> int:
        """What the weights read, less the longest option; an end is said and not read."""
        return self.weights.max_tokens - max(map(len, options)) + 1

    def most_rows(self, tokens: int, options: Sequence[Ids]) -> int:
        """Logits of options take memory, and keys and values of prompts do."""
        behind = len(options) * max(map(len, options))
        return max(1, min(MOST_LOGITS // (behind * self.vocabulary), MOST_KEPT // (len(options) * tokens + behind)))

    def scores(self, prompts: Sequence[Ids], options: Sequence[Ids]) -> Tensor:
        """By keys and values of each prompt that are computed once."""
        batch, rows, count = self.ending_together(prompts), len(prompts), len(options)
        read = self.network(**batch, use_cache=True, logits_to_keep=1)
        first = read.logits[:, -1].float().log_softmax(dim=-1)
        answers = padded_batch(options, self.end, self.device)  # with padding behind what is shorter
        ids, mask = answers["input_ids"], answers["attention_mask"]
        kept = read.past_key_values
        kept.batch_repeat_interleave(count)  # row 0 for every option, then row 1 for every option
        inputs = ids[:, :-1].repeat(rows, 1)
        lengths = batch["attention_mask"].sum(dim=1).repeat_interleave(count)
        seen = batch["attention_mask"].repeat_interleave(count, dim=0)
        logits = self.network(
            input_ids=inputs,
            attention_mask=torch.cat([seen, torch.ones_like(inputs)], dim=1),
            position_ids=lengths[:, None] + torch.arange(inputs.shape[1], device=self.device),
            past_key_values=kept,
            use_cache=True,
        ).logits.float()
        own = logits.gather(2, ids[:, 1:].repeat(rows, 1)[..., None])[..., 0] - logits.logsumexp(dim=2)
        further = (own * mask[:, 1:].repeat(rows, 1)).sum(dim=1).view(rows, count)
        ranked: Tensor = first[:, ids[:, 0]] + further
        return ranked

    def loss(self, prompts: Sequence[Ids], answers: Sequence[Ids]) -> Tensor:
        """A prompt's own tokens teach none.

        Prompts and answers of a batch end together, so that its last columns are all that logits are needed of.
        """
        longest = max(map(len, answers))
        texts = [(*prompt, *answer[:-1]) for prompt, answer in zip(prompts, answers, strict=True)]
        targets = [[*[IGNORED] * (longest - len(answer)), *answer] for answer in answers]
        logits = self.network(**self.ending_together(texts), use_cache=False, logits_to_keep=longest).logits
        return self.mean_over_tokens(logits, targets)

    def ending_together(self, texts: Sequence[Ids]) -> dict[str, Tensor]:
        """``input_ids``, ``attention_mask`` and ``position_ids`` ``[n, longest]``, padding before what is shorter."""
        longest = max(map(len, texts))
        ids = torch.tensor([[*[self.end] * (longest - len(text)), *text] for text in texts])
        mask = torch.tensor([[0] * (longest - len(text)) + [1] * len(text) for text in texts])
        batch = {"input_ids": ids, "attention_mask": mask, "position_ids": (mask.cumsum(dim=1) - 1).clamp(min=0)}
        return {name: to_device(part, self.device) for name, part in batch.items()}


class EncoderDecoder(Answering):
    """A T5, whose encoder reads the prompt and whose decoder says the options."""

    def __init__(self, weights: Backbone, device: torch.device) -> None:
        """Load it; its ``start`` opens every answer: padding, where its config names none."""
        super().__init__(weights, device)
        self.closing, self.padding = (self.end,), self.tokenizer.padding
        start: int | None = self.network.config.decoder_start_token_id
        self.start = self.padding if start is None else start

    def options(self, options: Sequence[str], before: str) -> tuple[Ids, ...]:
        """The decoder starts anew, whatever the prompt ends in."""
        return distinct(options, [(*ids, self.end) for ids in self.tokenizer.ids(list(options))])

    def most_tokens(self, options: Sequence[Ids]) -> int:
        """Any number."""
        return ANY_LENGTH

    def most_rows(self, tokens: int, options: Sequence[Ids]) -> int:
        """Whatever their length: logits of options take memory."""
        return max(1, MOST_LOGITS // (sum(map(len, options)) * self.vocabulary))

    def scores(self, prompts: Sequence[Ids], options: Sequence[Ids]) -> Tensor:
        """By one pass of the encoder, and one of the decoder over all options in a sequence of length p."""
        rows, device = len(prompts), self.device
        inputs = torch.tensor([id for option in options for id in (self.start, *option[:-1])], device=device)
        targets = torch.tensor([id for option in options for id in option], device=device)
        number = torch.tensor([number for number, option in enumerate(options) for _ in option], device=device)  # [p]
        places = torch.arange(len(number), device=device)
        sees = (number[:, None] == number) & (places[:, None] >= places)  # [p, p]
        mask = torch.zeros(sees.shape, device=device).masked_fill(~sees, torch.finfo(torch.float32).min)
        logits = self.network(
            **padded_batch(prompts, self.padding, device),
            decoder_input_ids=inputs.expand(rows, -1),
            decoder_attention_mask=mask.expand(rows, 1, -1, -1),
            use_cache=False,
        ).logits.float()
        own = logits.gather(2, targets.expand(rows, -1)[..., None])[..., 0] - logits.logsumexp(dim=2)
        return torch.zeros(rows, len(options), device=device).index_add(1, number, own)

    def loss(self, prompts: Sequence[Ids], answers: Sequence[Ids]) -> Tensor:
        """Answers have padding behind them, which is not counted."""
        longest = max(map(len, answers))
        inputs = [[self.start, *answer[:-1], *[self.padding] * (longest - len(answer))] for answer in answers]
        targets = [[*answer, *[IGNORED] * (longest - len(answer))] for answer in answers]
        logits = self.network(
            **padded_batch(prompts, self.padding, self.device),
            decoder_input_ids=to_device(torch.tensor(inputs), self.device),
            use_cache=False,
        ).logits
        return self.mean_over_tokens(logits, targets)
