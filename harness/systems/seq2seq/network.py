"""A T5 that is trained to answer by an option, of words or of new tokens.

New tokens beside a model's own have vectors that are parameters apart, in what it reads and in what it says.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from harness.study.backbone import Backbone
from harness.study.systems import Place
from harness.systems.answering import Ids
from harness.systems.instructed import Instructed
from harness.systems.seq2seq import Seq2SeqSettings
from harness.systems.weights import resolve_t5
from tasks.task import Instruction


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


class TrainedT5(Instructed):
    """A T5 with the instruction that it is asked by."""

    system = "seq2seq"
    config: Seq2SeqSettings

    @classmethod
    def backbone_of(cls, config: Seq2SeqSettings, place: Place) -> Backbone:
        """The T5 of the settings."""
        return resolve_t5(config.weights)

    def is_trained(self, name: str) -> bool:
        """All of it, or products of low rank and new tokens; nothing where there is no epoch."""
        config = self.config
        return bool(config.epochs) and (not config.lora_rank or ".lora_" in name or name.endswith(".new"))

    def first_options(self) -> Sequence[Ids]:
        """New tokens, drawn from torch's generator, where settings and instruction say so; else words."""
        if not self.config.has_new_tokens(self.instruction):
            return super().first_options()
        ids = add_tokens(self.model.network, len(self.instruction.options))
        self.model.vocabulary += len(ids)
        return [(id, self.model.end) for id in ids]

    def options_of(self, instruction: Instruction, classes: Sequence[int]) -> Sequence[Ids]:
        """New tokens stay those of their classes, whatever these are called."""
        if self.config.has_new_tokens(self.instruction):
            return [self.options[place] for place in classes]
        return super().options_of(instruction, classes)
