"""Models that answer by options: the log-probability of every option, with its end, after a prompt.

Xu and Jiang 2024, section 4.3: the answer is the option whose words are likeliest. With its end an option is a whole
answer; without, "no" would win over "no communication" every time, whose probability is a part of its own.

A causal language model computes each layer's keys and values of a prompt once, and reads all options behind them in one
batch; those of what all prompts begin with (an instruction, exemplars) it computes once for all. Prompts end in the
same column of a batch, with padding before what each has for itself; positions count tokens that are read. A window of
attention counts columns instead: where it is shorter than a prompt nothing is shared, and padding stands before all.

In a chat a prompt is what the user says, in the template of the weights, and an option is all that is answered.

A T5 reads a prompt once, and all options stand in one sequence of its decoder. A mask lets every position see the
earlier ones of its own option alone. T5's attention depends on how far apart two positions are, not where they are
(Raffel et al. 2020, section 2.1), so what each option gets is what it would get by itself.
"""

import copy
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from datetime import date
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from harness.study.backbone import Backbone, BadBackbone
from harness.systems.epochs import CUTS, padded_batch
from harness.systems.weights import T5, chat_template, load_answering
from harness.training.batches import cuts
from harness.training.tensors import to_device
from harness.training.tokenizer import library_tokenizer, load_tokenizer
from tasks.errors import BadInput

MOST_LOGITS = 2**26  # of a pass that ranks options: a number per row, token of an option and token known
MOST_KEPT = 2**29  # bytes of the keys and values that are kept at a time, options counted
ANY_LENGTH = 2**31  # tokens that a T5 reads, whose attention knows distances alone
DAY = date(2024, 7, 26)  # which a template is told that asks for one, so that a prompt is the same every day
SAID, ANSWERED = "\ue000said\ue000", "\ue000answered\ue000"  # what nobody says, and no template changes
IGNORED = -100  # a place of a batch's answers that has no token

Ids = tuple[int, ...]


class Chat(NamedTuple):
    """What the template of a chat puts before and after what a user says, and before and behind what is answered."""

    before: str
    after: str
    gap: str
    end: str


def chat_of(weights: Backbone) -> Chat | None:
    """The chat of these weights; None without a template, BadBackbone for one that does not show what is said in it.

    Thinking aloud is switched off, and it is always the same day.
    """
    if not (template := chat_template(weights)):
        return None
    said = [{"role": "user", "content": SAID}]
    answered = [*said, {"role": "assistant", "content": ANSWERED}]
    form: dict[str, Any] = {"tokenize": False, "enable_thinking": False, "strftime_now": DAY.strftime}
    form["chat_template"] = template
    try:
        tokenizer = library_tokenizer(weights)
        prompt = str(tokenizer.apply_chat_template(said, add_generation_prompt=True, **form))
        before, after = prompt.split(SAID)
        whole, end = str(tokenizer.apply_chat_template(answered, **form)).split(ANSWERED)
    except Exception as problem:  # a template has as many ways to fail as a program
        raise BadBackbone(
            f"decoder {weights.name!r}: its chat template cannot be filled ({type(problem).__name__}); correct it, or"
            " set chat = false"
        ) from None
    return Chat(before, after, whole.removeprefix(prompt) if whole.startswith(prompt) else "", end)


class Begun(NamedTuple):
    """What all prompts begin with: how many tokens, and their keys and values, of a single row."""

    tokens: int
    kept: Any


class Answering(ABC):
    """A network, its tokenizer, and the ids that stand around every prompt and behind every answer."""

    opening: Ids = ()
    closing: Ids = ()
    is_chat = False

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

    def ranked(self, prompts: Sequence[Ids], options: Sequence[Ids]) -> NDArray[np.float32]:
        """The ``scores`` of any number of prompts, a batch at a time."""
        logits = np.zeros((len(prompts), len(options)), dtype=np.float32)
        with torch.inference_mode():
            for numbers, begun in self._batches(prompts, options):
                batch = [prompts[number] for number in numbers]
                logits[numbers] = self.scores(batch, options, begun).cpu().numpy()
        return logits

    def answers(self, prompts: Sequence[Ids], most: int) -> list[str]:
        """What is answered to every prompt, always the likeliest token, in at most so many tokens."""
        texts = [""] * len(prompts)
        with torch.inference_mode():
            for numbers, begun in self._batches(prompts, [(self.end,) * most]):
                said = self.said([prompts[number] for number in numbers], most, begun).tolist()
                for number, ids in zip(numbers, said, strict=True):
                    whole = ids[: ids.index(self.end)] if self.end in ids else ids
                    texts[number] = self.tokenizer.backend.decode(whole)
        return texts

    def _batches(self, prompts: Sequence[Ids], options: Sequence[Ids]) -> Iterator[tuple[list[int], Begun | None]]:
        """Numbers of prompts of like length that are read at a time, with what all prompts begin with."""
        begun = self.begun(prompts, options)
        lengths = [len(ids) - (begun.tokens if begun else 0) for ids in prompts]
        for cut in cuts(range(len(prompts)), lengths, CUTS[self.device.type]):
            size = self.most_rows(len(prompts[cut[0]]), options)
            yield from ((cut[first : first + size], begun) for first in range(0, len(cut), size))

    def begun(self, prompts: Sequence[Ids], options: Sequence[Ids]) -> Begun | None:
        """What is computed once for all prompts; None where that is nothing."""
        return None

    @abstractmethod
    def said(self, prompts: Sequence[Ids], most: int, begun: Begun | None) -> Tensor:
        """The ids ``[n, at most so many]`` of what is answered, ends and whatever is behind them included."""

    @abstractmethod
    def scores(self, prompts: Sequence[Ids], options: Sequence[Ids], begun: Begun | None = None) -> Tensor:
        """The log-probability ``[n, options]`` of every option after each prompt; fp32."""

    @abstractmethod
    def loss(self, prompts: Sequence[Ids], answers: Sequence[Ids]) -> Tensor:
        """The mean cross-entropy over all tokens of the answers, ends included (Raffel et al. 2020, 2.4)."""

    def mean_over_tokens(self, logits: Tensor, targets: Sequence[Sequence[int]]) -> Tensor:
        """The mean cross-entropy of logits ``[n, t, vocabulary]`` at the places that have a token, not IGNORED."""
        flat = to_device(torch.tensor(targets), self.device).flatten()
        return functional.cross_entropy(logits.float().flatten(0, 1), flat, ignore_index=IGNORED)


def answering(weights: Backbone, device: torch.device, *, chat: bool = False) -> Answering:
    """The model that a folder's weights are, loaded; it is asked in a ``chat``, where the weights have a template."""
    return EncoderDecoder(weights, device) if weights.model_type == T5 else Causal(weights, device, chat=chat)


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

    def __init__(self, weights: Backbone, device: torch.device, *, chat: bool) -> None:
        """Load it; what opens texts is the token that its tokenizer puts before them, where it was trained with one."""
        super().__init__(weights, device)
        opening = self.id_of("bos_token")
        if opening is not None and self.tokenizer.backend.encode("").ids[:1] == [opening]:
            self.opening = (opening,)
        self.chat = chat_of(weights) if chat else None
        if self.chat:
            self.is_chat, special = True, self.special.values()
            self.opening, self.closing, ends = map(self.written, (self.chat.before, self.chat.after, self.chat.end))
            self.end = next((id for id in ends if id in special), self.end)

    @cached_property
    def special(self) -> dict[str, int]:
        """The ids of special tokens, by how they are written."""
        every = self.tokenizer.backend.get_added_tokens_decoder()
        return {token.content: number for number, token in every.items() if token.special}

    def parts(self, text: str) -> list[str]:
        """A template's text, cut at its special tokens: words and special tokens in turns."""
        return re.split(f"({'|'.join(map(re.escape, sorted(self.special, key=len, reverse=True)))})", text)

    def written(self, text: str) -> Ids:
        """The ids of a template's text, whose special tokens are such."""
        parts, special = self.parts(text), self.special
        every = [[special[part]] if part in special else self.tokenizer.ids([part])[0] for part in parts]
        return tuple(id for ids in every for id in ids)

    def options(self, options: Sequence[str], before: str) -> tuple[Ids, ...]:
        """Behind a space, or behind what opens an answer in a chat; BadInput where tokens would join both, too."""
        gap = " "
        if self.chat:
            before, gap = self.parts(self.chat.after)[-1], self.chat.gap
        (shared,) = self.tokenizer.ids([before])
        joined = self.tokenizer.ids([f"{before}{gap}{option}" for option in options])
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
        behind, config = len(options) * max(map(len, options)), self.network.config
        heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        kept: int = (len(options) * tokens + behind) * 8 * config.num_hidden_layers * heads * width  # bytes, of fp32
        return max(1, min(MOST_LOGITS // (behind * self.vocabulary), MOST_KEPT // kept))

    def begun(self, prompts: Sequence[Ids], options: Sequence[Ids]) -> Begun | None:
        """Keys and values of all tokens that all prompts begin with, the last one of a prompt apart."""
        if len(prompts) < 2:
            return None
        first, last = min(prompts)[:-1], max(prompts)[:-1]  # in the order of their tokens
        pairs = enumerate(zip(first, last, strict=False))
        common = next((place for place, (here, there) in pairs if here != there), min(len(first), len(last)))
        window = getattr(self.network.config, "sliding_window", None)
        if not common or (window and max(map(len, prompts)) + max(map(len, options)) > window):
            return None
        ids = torch.tensor([first[:common]], device=self.device)
        with torch.inference_mode():
            return Begun(common, self.network(ids, use_cache=True, logits_to_keep=1).past_key_values)

    def scores(self, prompts: Sequence[Ids], options: Sequence[Ids], begun: Begun | None = None) -> Tensor:
        """By keys and values of each prompt that are computed once."""
        rows, count = len(prompts), len(options)
        last, kept, seen = self._read(prompts, begun)
        first = last.log_softmax(dim=-1)
        answers = padded_batch(options, self.end, self.device)  # with padding behind what is shorter
        ids, mask = answers["input_ids"], answers["attention_mask"]
        kept.batch_repeat_interleave(count)  # row 0 for every option, then row 1 for every option
        logits = self._further(ids[:, :-1].repeat(rows, 1), kept, seen.repeat_interleave(count, dim=0))
        own = logits.gather(2, ids[:, 1:].repeat(rows, 1)[..., None])[..., 0] - logits.logsumexp(dim=2)
        further = (own * mask[:, 1:].repeat(rows, 1)).sum(dim=1).view(rows, count)
        ranked: Tensor = first[:, ids[:, 0]] + further
        return ranked

    def said(self, prompts: Sequence[Ids], most: int, begun: Begun | None) -> Tensor:
        """A token at a time, until every prompt has its end."""
        logits, kept, seen = self._read(prompts, begun)
        said = logits.argmax(dim=-1, keepdim=True)
        while said.shape[1] < most and not (said == self.end).any(dim=1).all():
            logits = self._further(said[:, -1:], kept, seen)[:, -1]
            seen = torch.cat([seen, torch.ones_like(said[:, -1:])], dim=1)
            said = torch.cat([said, logits.argmax(dim=-1, keepdim=True)], dim=1)
        return said

    def _read(self, prompts: Sequence[Ids], begun: Begun | None) -> tuple[Tensor, Any, Tensor]:
        """The logits behind every prompt, its keys and values, and which columns of these are read."""
        tokens = begun.tokens if begun else 0
        batch, kept = self.ending_together([ids[tokens:] for ids in prompts]), None
        if begun:
            kept = copy.deepcopy(begun.kept)
            kept.batch_repeat_interleave(len(prompts))
            mask = batch["attention_mask"]
            batch["attention_mask"] = torch.cat([mask.new_ones(len(prompts), tokens), mask], dim=1)
            batch["position_ids"] += tokens
        read = self.network(**batch, past_key_values=kept, use_cache=True, logits_to_keep=1)
        return read.logits[:, -1].float(), read.past_key_values, batch["attention_mask"]

    def _further(self, ids: Tensor, kept: Any, seen: Tensor) -> Tensor:  # noqa: ANN401 - the library's cache
        """Logits ``[n, t, vocabulary]`` of tokens behind prompts, whose keys and values are added to those kept."""
        logits: Tensor = self.network(
            input_ids=ids,
            attention_mask=torch.cat([seen, torch.ones_like(ids)], dim=1),
            position_ids=seen.sum(dim=1, keepdim=True) + torch.arange(ids.shape[1], device=self.device),
            past_key_values=kept,
            use_cache=True,
        ).logits
        return logits.float()

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

    def said(self, prompts: Sequence[Ids], most: int, begun: Begun | None) -> Tensor:
        """As the library says it, without what opens the answer."""
        batch = padded_batch(prompts, self.padding, self.device)
        return self.network.generate(**batch, max_new_tokens=most, do_sample=False, num_beams=1)[:, 1:]  # type: ignore[no-any-return]

    def scores(self, prompts: Sequence[Ids], options: Sequence[Ids], begun: Begun | None = None) -> Tensor:
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
