"""A causal language model that reads an instruction and a window, and answers by an option that may follow.

Each layer's keys and values of a prompt are computed once, and all options are read behind them in one batch. With its
end an option is a whole answer; without, "no" would win over "no communication" every time, whose probability is a part
of its own. Prompts end in the same column of a batch, with padding before them, so that windows of attention lie as
they would without padding; positions count from the first token that is read.

In training products of low rank beside the linear layers of its blocks learn (Hu et al. 2022); its own weights stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from harness.study.backbone import Backbone, BadBackbone
from harness.study.cell import seed_of
from harness.study.systems import Place
from harness.systems.instructed import IGNORED, TURN, Frame, Instructed, Marks, Read, Reader, frame_of
from harness.systems.pooled import with_products
from harness.systems.seq2seq import distinct
from harness.systems.weights import load_causal, resolve_causal
from harness.training.tensors import to_device
from harness.training.tokenizer import Tokenizer, load_tokenizer
from tasks.errors import BadInput
from tasks.task import Instruction

if TYPE_CHECKING:
    from harness.systems.kinds.decoder import Config

MOST_LOGITS = 2**26  # of a pass that ranks options: a number per row, token of an option and token known
MOST_KEPT = 2**15  # tokens whose keys and values are kept at a time, options counted


def end_of(tokenizer: Tokenizer, weights: Backbone) -> int:
    """The id that ends an answer; BadBackbone where the tokenizer has none."""
    end = tokenizer.special.get("eos_token")
    number = None if end is None else tokenizer.backend.token_to_id(end)
    if number is None:
        raise BadBackbone(
            f"decoder {weights.name!r}: its tokenizer names no eos_token, with which answers end; put the files of the"
            " tokenizer there as they come with the weights"
        )
    return int(number)


def opening_of(tokenizer: Tokenizer) -> tuple[int, ...]:
    """What the tokenizer puts before a text: the token that opens texts, where a model was trained with one."""
    opening = tokenizer.special.get("bos_token")
    number = None if opening is None else tokenizer.backend.token_to_id(opening)
    whole = tokenizer.backend.encode("").ids
    return (int(number),) if number is not None and whole[:1] == [number] else ()


def continuations(tokenizer: Tokenizer, before: str, options: Sequence[str], end: int) -> tuple[tuple[int, ...], ...]:
    """The ids of every option behind the words ``before`` and a space, with ``end`` behind them.

    BadInput where tokens would join both, two options are the same tokens, or one has none.
    """
    (shared,) = tokenizer.ids([before])
    joined = tokenizer.ids([f"{before} {option}" for option in options])
    for option, ids in zip(options, joined, strict=True):
        if ids[: len(shared)] != shared:
            raise BadInput(
                f"option {option!r} has a token in common with what stands before it, {before!r}, in these weights; end"
                " the template with other words"
            )
    return distinct(options, [(*ids[len(shared) :], end) for ids in joined])


def ending_together(texts: Sequence[Sequence[int]], padding: int, device: torch.device) -> dict[str, Tensor]:
    """``input_ids``, ``attention_mask`` and ``position_ids`` ``[n, longest]``, padding before what is shorter."""
    longest = max(map(len, texts))
    ids = torch.tensor([[*[padding] * (longest - len(text)), *text] for text in texts])
    mask = torch.tensor([[0] * (longest - len(text)) + [1] * len(text) for text in texts])
    batch = {"input_ids": ids, "attention_mask": mask, "position_ids": (mask.cumsum(dim=1) - 1).clamp(min=0)}
    return {name: to_device(part, device) for name, part in batch.items()}


def most_rows(options: Sequence[Sequence[int]], tokens: int, vocabulary: int) -> int:
    """How many prompts of so many ``tokens`` are ranked at a time: as many as memory is meant to hold, at least 1."""
    behind = len(options) * max(map(len, options))
    return max(1, min(MOST_LOGITS // (behind * vocabulary), MOST_KEPT // (len(options) * tokens + behind)))


def scores(
    network: Any,  # noqa: ANN401 - a causal language model
    prompts: Sequence[Sequence[int]],
    options: Sequence[Sequence[int]],
    padding: int,
    device: torch.device,
) -> Tensor:
    """The log-probability ``[n, options]`` of every option, with its end, after each prompt; fp32."""
    batch, count = ending_together(prompts, padding, device), len(options)
    read = network(**batch, use_cache=True, logits_to_keep=1)
    first = read.logits[:, -1].float().log_softmax(dim=-1)
    longest = max(map(len, options))  # with padding behind what is shorter
    padded = [[*option, *[padding] * (longest - len(option))] for option in options]
    is_token = [[1.0] * len(option) + [0.0] * (longest - len(option)) for option in options]
    ids = to_device(torch.tensor(padded), device)
    mask = to_device(torch.tensor(is_token), device)
    rows = len(prompts)
    kept = read.past_key_values
    kept.batch_repeat_interleave(count)  # row 0 for every option, then row 1 for every option
    inputs = ids[:, :-1].repeat(rows, 1)
    lengths = batch["attention_mask"].sum(dim=1).repeat_interleave(count)
    seen = batch["attention_mask"].repeat_interleave(count, dim=0)
    logits = network(
        input_ids=inputs,
        attention_mask=torch.cat([seen, torch.ones_like(inputs)], dim=1),
        position_ids=lengths[:, None] + torch.arange(inputs.shape[1], device=device),
        past_key_values=kept,
        use_cache=True,
    ).logits.float()
    targets = ids[:, 1:].repeat(rows, 1)
    own = logits.gather(2, targets[..., None])[..., 0] - logits.logsumexp(dim=2)
    further = (own * mask[:, 1:].repeat(rows, 1)).sum(dim=1).view(rows, count)
    ranked: Tensor = first[:, ids[:, 0]] + further
    return ranked


CLOSING = "Answer:"  # the last line of every prompt, which an option goes on with


class Trained(Instructed):
    """A causal language model with the instruction that it is asked by."""

    def __init__(self, config: Config, place: Place, instruction: Instruction, seed: int) -> None:
        """A model as its folder has it, with products of low rank that are drawn from ``seed`` and begin at 0.

        BadInput where the settings, the instruction and the weights do not fit each other.
        """
        super().__init__(config, place, instruction, seed)
        self.backbone = resolve_causal(config.weights)
        tokenizer, network = load_tokenizer(self.backbone), load_causal(self.backbone)
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
