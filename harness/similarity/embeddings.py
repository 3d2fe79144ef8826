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
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.numpy import load_file
from scipy.optimize import minimize_scalar
from torch import Tensor
from torch.nn import functional

from adapters_store.measures import SAMPLED
from harness.similarity.samples import Adapted, Sample
from harness.study.cell import seed_of
from tasks.errors import BadInput

# How near two trained adapters are by their weights alone.

PART = re.compile(r"(?P<place>.*)\.adapters\.[^.]+\.adapter_(?P<part>down\.0|up)\.weight")
Array = NDArray[np.float64]
Maps = dict[str, tuple[Array, Array]]


class NoBottleneck(BadInput):
    """An adapter has no bottleneck whose two projections could be compared."""


def projections(file: Path) -> Maps:
    """By place, the down-projection ``[units, width]`` and the up-projection ``[width, units]`` of a saved adapter."""
    found: dict[str, dict[str, Array]] = {}
    for name, value in load_file(file).items():
        if match := PART.fullmatch(name):
            found.setdefault(match["place"], {})[match["part"]] = value.astype(np.float64)
    if not found:
        raise NoBottleneck("the study's adapters have no bottleneck; weights are compared of seq_bn and double_seq_bn")
    return {place: (parts["down.0"], parts["up"]) for place, parts in found.items()}


def nearness(one: Maps, other: Maps) -> dict[str, float]:
    """``cosine`` of the linear maps up x down, and ``subspace``, the overlap of their spaces; means over places.

    Neither depends on the order, sign or scale of the bottleneck's units, which two trainings have in common by no
    rule. The overlap is the mean squared cosine of the principal angles, of input and output spaces; two random spaces
    have units / width.
    """
    if {name: down.shape for name, (down, _) in one.items()} != {name: down.shape for name, (down, _) in other.items()}:
        raise NoBottleneck("two adapters of the study differ in shape; weights are compared of equal ones")
    pairs = [(one[place], other[place]) for place in one]
    return {
        "cosine": float(np.mean([_cosine(*pair) for pair in pairs])),
        "subspace": float(np.mean([_overlap(a[0].T, b[0].T) + _overlap(a[1], b[1]) for a, b in pairs]) / 2),
    }


def _cosine(one: tuple[Array, Array], other: tuple[Array, Array]) -> float:
    """Cosine of two products up x down as vectors, by traces of units x units instead of width x width."""
    inner = _inner(one, other)
    return inner / float(np.sqrt(_inner(one, one) * _inner(other, other)))


def _inner(one: tuple[Array, Array], other: tuple[Array, Array]) -> float:
    return float(np.sum((one[1].T @ other[1]) * (one[0] @ other[0].T)))


def _overlap(one: Array, other: Array) -> float:
    """Mean squared cosine of the principal angles between the spaces of two matrices' columns ``[width, units]``."""
    first, second = np.linalg.qr(one)[0], np.linalg.qr(other)[0]
    return float(np.sum((first.T @ second) ** 2) / one.shape[1])


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


# LogME: how probable a task's labels are under a Bayesian linear model of features, without any training.

LARGEST_LOG_RATIO = 25.0  # of alpha / beta to the mean squared singular value: beyond it the evidence is level
GRID = 51


def logme(features: Array, labels: NDArray[np.int64] | Array) -> float:
    """The largest log evidence per row (nats) of labels given features ``[rows, width]``.

    Labels are class indices or real numbers ``[rows]``, or a 0 or 1 per class ``[rows, classes]``; with classes it is
    the mean over one-against-the-rest problems, of those that occur. The model (You et al. 2021): labels are normal
    about a linear function of the features with precision beta, its weights normal about 0 with precision alpha. The
    authors go to a fixed point of alpha and beta, which a maximum is; here the maximum itself is searched.
    """
    spectrum = np.linalg.svd(features.astype(np.float64), full_matrices=False)
    outcomes = _outcomes(labels)
    return float(np.mean([_largest(spectrum.U, spectrum.S, one) for one in outcomes]))


def _outcomes(labels: NDArray[np.int64] | Array) -> list[Array]:
    if labels.ndim == 2:
        return [column.astype(np.float64) for column in labels.T if column.any()]
    if np.issubdtype(labels.dtype, np.integer):
        return [(labels == one).astype(np.float64) for one in np.unique(labels)]
    return [labels.astype(np.float64)]


def _largest(left: Array, singular: Array, outcome: Array) -> float:
    """The largest evidence per row: the noise that is best for a ratio alpha / beta is known, so only that is searched.

    With the features' singular vectors as coordinates, log evidence = rows / 2 (log beta - log 2 pi) - beta / 2 Q
    + sum of log(ratio / (ratio + squared singular value)) / 2, and is largest at beta = rows / Q.
    """
    rows, squares = len(outcome), singular**2
    inside = left.T @ outcome
    outside = max(float(outcome @ outcome - inside @ inside), 0.0)

    def per_row(log_ratio: float) -> float:
        shrinkage = 1 / (1 + squares * np.exp(-log_ratio))  # ratio / (ratio + squared singular value)
        misfit = outside + float(shrinkage @ inside**2)
        noise = rows / max(misfit, np.finfo(float).tiny)
        return float((np.log(noise / (2 * np.pi)) - 1) / 2 + np.log(shrinkage).sum() / (2 * rows))

    grid = np.log(squares.mean()) + np.linspace(-LARGEST_LOG_RATIO, LARGEST_LOG_RATIO, GRID)
    at = int(np.argmax([per_row(one) for one in grid]))
    bounds = (grid[max(at - 1, 0)], grid[min(at + 1, GRID - 1)])
    found = minimize_scalar(lambda one: -per_row(one), bounds=bounds, method="bounded")
    return max(-float(found.fun), per_row(grid[at]))
