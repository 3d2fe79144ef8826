"""What each token of a text adds to a system's answer: integrated gradients of its embeddings, by Captum.

Sundararajan, Taly and Yan 2017, "Axiomatic Attribution for Deep Networks", equation 1. F is the logit of the class
that is predicted, less the mean of the others'. Between an empty text, whose tokens are all padding but for those that
begin and end a text, and the text itself a token's contribution is the sum over its embedding of (e - e0) times the
mean slope of F along the straight line. Contributions add up to F(text) - F(empty) where the line is followed finely
enough, which networks with sharp turns need not allow: an attribution says how far it is off.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from harness.study.systems import Predicted
from harness.systems.epochs import EncodedText
from harness.training.tensors import to_device
from tasks.task import Example

STEPS = (64, 256)  # points of the line; more where fewer leave more than TOLERANCE
AT_A_TIME = 16  # of these points
TOLERANCE = 0.02  # share of F(text) - F(empty) that contributions may be off


class Reading(NamedTuple):
    """A text as a fitted system reads it: its tokens, where their embeddings are from, and the logits that they give.

    ``logits`` gives ``[n, outputs]`` of embeddings ``[n, tokens, width]``, all else that the system reads of the row
    held as it is, without dropout. ``padding`` is the id of an empty token.
    """

    text: EncodedText
    embeddings: nn.Module
    padding: int
    logits: Callable[[Tensor], Tensor]


@runtime_checkable
class Readable(Protocol):
    """A fitted system that can be looked into: its network begins with an embedding of each token.

    ``head`` makes the logits, from one vector a row.
    """

    head: nn.Module

    def reading(self, row: Example) -> Reading:
        """How it reads the text of a row."""
        ...

    def predict(self, rows: Sequence[Example]) -> Predicted:
        """As every system."""
        ...


@dataclass(frozen=True)
class Attribution:
    """What each token adds to the answer, in logits.

    ``contributions [tokens]`` are of the tokens at ``offsets``; ``predicted`` is the class. ``whole`` and ``empty`` are
    F of the text and of an empty one.
    """

    offsets: tuple[tuple[int, int], ...]
    contributions: NDArray[np.float64]
    predicted: int
    whole: float
    empty: float

    @property
    def gap(self) -> float:
        """How far the sum is from the difference that it should be, as a share of that."""
        difference = self.whole - self.empty
        off = abs(float(self.contributions.sum()) - difference)
        return off / abs(difference) if difference else (0.0 if not off else np.inf)

    @property
    def is_complete(self) -> bool:
        """Whether the contributions add up to the difference, but for TOLERANCE."""
        return self.gap <= TOLERANCE


def attribution(reading: Reading) -> Attribution:
    """The contributions of a text's tokens to the class that is predicted."""
    from captum.attr import IntegratedGradients

    ids = torch.tensor([reading.text.ids])
    is_word = torch.tensor([[start < end for start, end in reading.text.offsets]])
    device = next(reading.embeddings.parameters()).device
    with torch.no_grad():
        emptied = torch.where(is_word, torch.full_like(ids, reading.padding), ids)
        whole, empty = (reading.embeddings(to_device(part, device)) for part in (ids, emptied))
        predicted = int(reading.logits(whole)[0].argmax())
        ends = [float(advantage(reading.logits(vectors), predicted)) for vectors in (whole, empty)]
    gradients = IntegratedGradients(lambda vectors: advantage(reading.logits(vectors), predicted))
    for steps in STEPS:
        # (e - e0) times the mean slope, [1, tokens, width].
        parts = gradients.attribute(whole, baselines=empty, n_steps=steps, internal_batch_size=AT_A_TIME).detach()
        made = Attribution(reading.text.offsets, parts.sum(dim=-1)[0].double().cpu().numpy(), predicted, *ends)
        if made.is_complete:
            break
    return made


def advantage(logits: Tensor, predicted: int) -> Tensor:
    """F ``[n]``: the logit of a class less the mean of the others', of ``logits [n, outputs]``."""
    others = (logits.sum(dim=1) - logits[:, predicted]) / (logits.shape[1] - 1)
    return logits[:, predicted] - others


def vector_of(fitted: Readable, row: Example) -> tuple[NDArray[np.float32], int]:
    """The vector ``[width]`` of a row that the head reads, and the class that it then predicts."""
    taken: list[NDArray[np.float32]] = []
    hook = fitted.head.register_forward_pre_hook(
        lambda module, inputs: taken.append(inputs[0][0].detach().float().cpu().numpy())
    )
    try:
        logits = fitted.predict([row]).logits
    finally:
        hook.remove()
    (vector,) = taken
    return vector, int(logits[0].argmax())
