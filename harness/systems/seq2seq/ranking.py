"""Options as answers, and their log-probabilities: every option is scored with its end, all on one pass of the encoder.

Xu and Jiang 2024, section 4.3: the answer is the option whose words are likeliest. With its end an option is a whole
answer; without, "no" would win over "no communication" every time, whose probability is a part of its own.

All options stand in one sequence of the decoder. A mask lets every position see the earlier ones of its own option
alone. T5's attention depends on how far apart two positions are, not where they are (Raffel et al. 2020, section 2.1),
so what each option gets is what it would get by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from harness.training.tokens.tokenizer import Tokenizer
from tasks.errors import BadInput

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
