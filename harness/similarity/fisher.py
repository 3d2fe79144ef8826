"""Task embeddings: the diagonal of a trained adapter's Fisher information, added up over the bottleneck's units.

A product of activations and gradients gives every row's own gradient from one backward pass. The units of two adapters
have no common order, so that information is kept per dimension of the backbone: of a down-projection per input, of an
up-projection and its bias per output. The bias of the down-projection has one number per unit and is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from harness.similarity.adapted import Adapted, Sample
from harness.similarity.weights import NoBottleneck
from harness.training.seeds import seed_of
from tasks.similarity import SAMPLED

KINDS = {"adapter_down.0": "down", "adapter_up": "up"}


@dataclass
class Seen:
    """A linear layer of the adapter during one forward pass: what went in ``[rows, tokens, in]`` and came out."""

    component: str
    inside: list[Tensor] = field(default_factory=list)
    outside: list[Tensor] = field(default_factory=list)

    def __call__(self, module: Any, given: tuple[Tensor, ...], result: Tensor) -> None:  # noqa: ANN401 - a hook
        """Keep the input and the output."""
        self.inside.append(given[0].detach())
        self.outside.append(result)


def fisher(adapted: Adapted, key: str, sample: Sample, kind: str, mode: str) -> dict[str, list[float]]:
    """The information per component, each a list as long as the backbone is wide, as a mean over rows.

    ``sampled``: squared gradients of each row's log-likelihood of a label that the model itself draws (of a number,
    whose likelihood is normal, their exact mean). ``vu``: as published by Vu et al. 2020, squared gradients of the mean
    loss of a batch of 32 with its gold labels, added up over batches and divided by the rows. NoBottleneck if the
    adapter has no down- and up-projection.
    """
    name = adapted.switch_on(key, with_head=True)
    generator = torch.Generator().manual_seed(seed_of("fisher", key))
    total: dict[str, Tensor] = {}
    for numbers, batch in adapted.batches(sample.rows):
        with _watched(adapted.network, name) as layers, torch.enable_grad():
            logits = adapted.network(**batch, head=name).logits
            gold = torch.from_numpy(sample.labels[numbers])
            labels = drawn(logits.detach().cpu(), kind, generator) if mode == SAMPLED else gold
            outputs = [layer.outside[0] for layer in layers]
            gradients = torch.autograd.grad(log_likelihood(logits, labels.to(logits.device), kind).sum(), outputs)
        square = _squared_each if mode == SAMPLED else _squared_mean
        for layer, gradient in zip(layers, gradients, strict=True):
            for part, value in _summed(layer, gradient, square).items():
                total[part] = total.get(part, torch.zeros(())) + value.cpu().double()
    return {part: [float(f"{one:.6g}") for one in (value / len(sample.rows)).tolist()] for part, value in total.items()}


def log_likelihood(logits: Tensor, labels: Tensor, kind: str) -> Tensor:
    """Log-likelihood ``[rows]`` of labels, up to a constant: normal of variance 1, of a class, or of all labels."""
    if kind == "continuous":
        return -((logits[:, 0] - labels.to(logits.dtype)) ** 2) / 2
    if kind == "multilabel":
        losses = functional.binary_cross_entropy_with_logits(logits, labels.to(logits.dtype), reduction="none")
        return -losses.sum(dim=1)
    return functional.log_softmax(logits, dim=1).gather(1, labels[:, None])[:, 0]


def drawn(logits: Tensor, kind: str, generator: torch.Generator) -> Tensor:
    """Labels that the model itself would give: drawn by its probabilities; a number one standard deviation off."""
    if kind == "continuous":
        return logits[:, 0] + 1
    if kind == "multilabel":
        return torch.bernoulli(torch.sigmoid(logits), generator=generator)
    return torch.multinomial(torch.softmax(logits, dim=1), 1, generator=generator)[:, 0]


@contextmanager
def _watched(network: Any, name: str) -> Iterator[list[Seen]]:  # noqa: ANN401
    """The adapter's linear layers, watched during a forward pass whose gradients reach them."""
    pattern = re.compile(rf"(?P<place>.*)\.adapters\.{name}\.(?P<part>{'|'.join(map(re.escape, KINDS))})")
    found = [(match, module) for path, module in network.named_modules() if (match := pattern.fullmatch(path))]
    if not found:
        raise NoBottleneck("the study's adapters have no bottleneck; task embeddings are of seq_bn and double_seq_bn")
    layers, handles = [], []
    for match, module in found:
        layers.append(Seen(f"{match['place'].partition('encoder.')[2]}.{KINDS[match['part']]}"))
        handles.append(module.register_forward_hook(layers[-1]))
        module.requires_grad_(True)
    try:
        yield layers
    finally:
        for handle, (_, module) in zip(handles, found, strict=True):
            handle.remove()
            module.requires_grad_(False)


def _squared_each(gradients: Tensor) -> Tensor:
    """Squares of every row's gradient, added up; ``gradients`` [rows, ...]."""
    return gradients.square().sum(dim=0)


def _squared_mean(gradients: Tensor) -> Tensor:
    """The square of the batch's mean gradient."""
    return gradients.mean(dim=0).square()


def _summed(layer: Seen, gradient: Tensor, square: Callable[[Tensor], Tensor]) -> dict[str, Tensor]:
    """Squared gradients of a layer's weights, added up over the bottleneck's units, and of an up-projection's bias."""
    weights = torch.einsum("bto,bti->boi", gradient, layer.inside[0])
    if layer.component.endswith(".down"):
        return {layer.component: square(weights).sum(dim=0)}
    return {layer.component: square(weights).sum(dim=1), f"{layer.component} bias": square(gradient.sum(dim=1))}
