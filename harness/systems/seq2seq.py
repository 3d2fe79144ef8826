"""A T5 that reads an instruction and a window of turns, and answers by an option, whose log-probability ranks it.

Xu and Jiang 2024, section 4.3: the answer is the option whose words are likeliest. Every option is scored with its end,
all on one pass of the encoder. With its end an option is a whole answer; without, "no" would win over "no
communication" every time, whose probability is a part of its own.

All options stand in one sequence of the decoder. A mask lets every position see the earlier ones of its own option
alone. T5's attention depends on how far apart two positions are, not where they are (Raffel et al. 2020, section 2.1),
so what each option gets is what it would get by itself. New tokens beside a model's own have vectors that are
parameters apart, in what it reads and in what it says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from harness.study.cell import seed_of
from harness.study.systems import Place
from harness.systems.epochs import padded_batch
from harness.systems.instructed import IGNORED, Frame, Instructed, Marks, Read, Reader, frame_of
from harness.systems.pooled import with_products
from harness.systems.weights import load_t5, resolve_t5
from harness.training.tensors import to_device
from harness.training.tokenizer import Tokenizer, load_tokenizer
from tasks.errors import BadInput
from tasks.task import Instruction

if TYPE_CHECKING:
    from harness.systems.kinds.seq2seq import Config


class LongerEmbedding(nn.Module):
    """An embedding with new rows ``[count, width]`` behind its own."""

    def __init__(self, old: nn.Embedding, new: nn.Parameter) -> None:
        """Keep both as they are."""
        super().__init__()
        self.old, self.new = old, new

    def forward(self, ids: Tensor) -> Tensor:
        """Vectors ``[..., width]`` of ids, old and new."""
        size = self.old.num_embeddings
        own = self.old(ids.clamp(max=size - 1))
        new = functional.embedding((ids - size).clamp(min=0), self.new)
        return torch.where((ids < size)[..., None], own, new)


class LongerHead(nn.Module):
    """A head with the logits of new tokens behind those of its own."""

    def __init__(self, old: nn.Module, new: nn.Parameter) -> None:
        """Keep both as they are."""
        super().__init__()
        self.old, self.new = old, new

    def forward(self, states: Tensor) -> Tensor:
        """Logits ``[..., old + new]`` of states ``[..., width]``."""
        return torch.cat([self.old(states), functional.linear(states, self.new)], dim=-1)


def add_tokens(network: Any, count: int) -> list[int]:  # noqa: ANN401 - a T5
    """Give a T5 ``count`` new tokens, in what it reads and in what it says; the ids of these.

    Their vectors are drawn from torch's generator, with the mean and the spread that the old ones have in every
    dimension. Where a model reads and says a token by the same vector, new ones do, too.
    """
    embedding, head = network.get_input_embeddings(), network.lm_head
    read = _drawn(embedding.weight, count)
    said = read if head.weight is embedding.weight else _drawn(head.weight, count)
    network.set_input_embeddings(LongerEmbedding(embedding, read))
    network.lm_head = LongerHead(head, said)
    return list(range(embedding.num_embeddings, embedding.num_embeddings + count))


def _drawn(old: Tensor, count: int) -> nn.Parameter:
    with torch.no_grad():
        return nn.Parameter(old.mean(dim=0) + old.std(dim=0) * torch.randn(count, old.shape[1]))


MOST_LOGITS = 2**26  # of a pass that ranks options: a number per row, position of the options and token known


class Packed(NamedTuple):
    """Options in one sequence of length p: what the decoder reads, what it is to say, and whose place is whose.

    ``inputs [p]``, ``targets [p]`` and ``option [p]`` (the option's number); ``mask [1, 1, p, p]`` is 0 where a
    position may look and the lowest number elsewhere.
    """

    inputs: Tensor
    targets: Tensor
    option: Tensor
    mask: Tensor


def options_of(tokenizer: Tokenizer, options: Sequence[str], end: int) -> tuple[tuple[int, ...], ...]:
    """The ids of every option with ``end`` behind them; BadInput as ``distinct`` says."""
    return distinct(options, [(*ids, end) for ids in tokenizer.ids(list(options))])


def distinct(options: Sequence[str], every: Sequence[tuple[int, ...]]) -> tuple[tuple[int, ...], ...]:
    """The ids of options, ends included; BadInput where two are the same tokens, or one has none but its end."""
    for place, ids in enumerate(every):
        if len(ids) == 1:
            raise BadInput(f"option {options[place]!r} has no token of these weights; take other words")
        if ids in every[:place]:
            other = options[every.index(ids)]
            raise BadInput(f"options {other!r} and {options[place]!r} are the same tokens of these weights; rename one")
    return tuple(every)


def start_of(network: Any, padding: int) -> int:  # noqa: ANN401 - a T5
    """The id that opens every answer of a T5: padding, where its config names none."""
    start: int | None = network.config.decoder_start_token_id
    return padding if start is None else start


def packed(options: Sequence[Sequence[int]], start: int, device: torch.device) -> Packed:
    """The options, each behind ``start``, which opens every answer."""
    inputs = [id for option in options for id in (start, *option[:-1])]
    targets = [id for option in options for id in option]
    numbers = torch.tensor([number for number, option in enumerate(options) for _ in option])
    places = torch.arange(len(numbers))
    sees = (numbers[:, None] == numbers) & (places[:, None] >= places)
    mask = torch.zeros(sees.shape).masked_fill(~sees, torch.finfo(torch.float32).min)
    on_device = [part.to(device) for part in (torch.tensor(inputs), torch.tensor(targets), numbers, mask[None, None])]
    return Packed(*on_device)


def most_rows(options: Packed, vocabulary: int) -> int:
    """How many prompts are ranked at a time with a vocabulary of so many tokens; at least 1."""
    return max(1, MOST_LOGITS // (len(options.inputs) * vocabulary))


def scores(network: Any, batch: dict[str, Tensor], options: Packed) -> Tensor:  # noqa: ANN401 - a T5
    """The log-probability ``[n, options]`` of every option, with its end, after each prompt of a batch; fp32."""
    rows = len(batch["input_ids"])
    logits = network(
        **batch,
        decoder_input_ids=options.inputs.expand(rows, -1),
        decoder_attention_mask=options.mask.expand(rows, -1, -1, -1),
        use_cache=False,
    ).logits.float()
    own = logits.gather(2, options.targets.expand(rows, -1)[..., None])[..., 0] - logits.logsumexp(dim=2)
    summed = torch.zeros(rows, int(options.option[-1]) + 1, device=own.device)
    return summed.index_add(1, options.option, own)


class Trained(Instructed):
    """A T5 with the instruction that it is asked by."""

    def __init__(self, config: Config, place: Place, instruction: Instruction, seed: int) -> None:
        """A T5 as its folder has it; new tokens and products of low rank are drawn from ``seed``.

        BadInput where the settings, the instruction and the weights do not fit each other.
        """
        super().__init__(config, place, instruction, seed)
        self.backbone = resolve_t5(config.weights)
        self.check_length("seq2seq")
        tokenizer, network = load_tokenizer(self.backbone), load_t5(self.backbone)
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
