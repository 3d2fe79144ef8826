"""Three measures of trained adapters: task embeddings by Fisher information, similarity of weights, and LogME.

A task embedding (`fisher`) is the diagonal of the Fisher information, summed over the units of the bottleneck. The
product of activations and gradients gives the gradient of every row from a single backward pass. The units of two
adapters have no common order, so the information is kept per dimension of the backbone: of a down-projection per input,
of an up-projection and its bias per output. The bias of the down-projection, a number per unit, is left out.

`nearness` compares the linear maps of two adapters. `logme` is the evidence of a task's labels given features of its
rows.
"""

import re
from collections.abc import Iterator
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
from harness.similarity.encoders import Adapted, Sample
from harness.study.cell import seed_of
from tasks.errors import BadInput

PART = re.compile(r"(?P<layer>.*)\.adapters\.[^.]+\.adapter_(?P<part>down\.0|up)\.weight")
Array = NDArray[np.float64]
Maps = dict[str, tuple[Array, Array]]
KINDS = {"adapter_down.0": "down", "adapter_up": "up"}
LARGEST_LOG_RATIO = 25.0  # of alpha / beta to the mean squared singular value; beyond it the evidence is constant
GRID = 51  # values of log (alpha / beta) that are tried before the best is refined


class NoBottleneck(BadInput):
    """An adapter has no bottleneck with two projections."""


# Fisher: the diagonal of the Fisher information of a trained adapter, its task embedding.


@dataclass
class LayerTrace:
    """What went into a linear layer of the adapter and came out, ``[rows, tokens, width]``, in a forward pass."""

    component: str
    inputs: list[Tensor] = field(default_factory=list)
    outputs: list[Tensor] = field(default_factory=list)

    def __call__(self, module: Any, arguments: tuple[Tensor, ...], output: Tensor) -> None:  # noqa: ANN401 - a hook
        """Keep the input and the output."""
        self.inputs.append(arguments[0].detach())
        self.outputs.append(output)


def fisher(adapted: Adapted, key: str, sample: Sample, kind: str, mode: str) -> dict[str, list[float]]:
    """The information per component as a mean over rows; each is a list as long as the backbone is wide.

    ``sampled``: squared gradients of each row's log-likelihood of a label that is sampled from the model itself (for a
    number, whose likelihood is normal, their exact expectation). ``vu``: as published by Vu et al. 2020, squared
    gradients of the mean loss of a batch of 32 with its gold labels, summed over batches and divided by the number of
    rows. NoBottleneck if the adapter has no down- and up-projection.
    """
    name = adapted.switch_on(key, with_head=True)
    generator = torch.Generator().manual_seed(seed_of("fisher", key))
    total: dict[str, Tensor] = {}
    for numbers, batch in adapted.batches(sample.rows):
        with _traces(adapted.network, name) as traces, torch.enable_grad():
            logits = adapted.network(**batch, head=name).logits
            gold = torch.from_numpy(sample.labels[numbers])
            labels = sampled_labels(logits.detach().cpu(), kind, generator) if mode == SAMPLED else gold
            outputs = [trace.outputs[0] for trace in traces]
            gradients = torch.autograd.grad(log_likelihood(logits, labels.to(logits.device), kind).sum(), outputs)
        for trace, gradient in zip(traces, gradients, strict=True):
            for part, information in _information(trace, gradient, mode).items():
                total[part] = total.get(part, torch.zeros(())) + information.cpu().double()
    means = {part: (information / len(sample.rows)).tolist() for part, information in total.items()}
    return {part: [float(f"{number:.6g}") for number in numbers] for part, numbers in means.items()}


def log_likelihood(logits: Tensor, labels: Tensor, kind: str) -> Tensor:
    """Log-likelihood ``[rows]`` of labels up to a constant: of a number (variance 1), a class, or a set of labels."""
    if kind == "continuous":
        return -((logits[:, 0] - labels.to(logits.dtype)) ** 2) / 2
    if kind == "multilabel":
        losses = functional.binary_cross_entropy_with_logits(logits, labels.to(logits.dtype), reduction="none")
        return -losses.sum(dim=1)
    return functional.log_softmax(logits, dim=1).gather(1, labels[:, None])[:, 0]


def sampled_labels(logits: Tensor, kind: str, generator: torch.Generator) -> Tensor:
    """Labels ``[rows]`` or ``[rows, classes]``, sampled with the probabilities of the model."""
    if kind == "continuous":
        # With variance 1, E[(label - prediction)^2] = 1: a label at distance 1 gives the expectation of the squares.
        return logits[:, 0] + 1
    if kind == "multilabel":
        return torch.bernoulli(torch.sigmoid(logits), generator=generator)
    return torch.multinomial(torch.softmax(logits, dim=1), 1, generator=generator)[:, 0]


@contextmanager
def _traces(network: Any, name: str) -> Iterator[list[LayerTrace]]:  # noqa: ANN401
    """The adapter's linear layers, traced during a forward pass whose gradients reach them."""
    pattern = re.compile(rf"(?P<layer>.*)\.adapters\.{name}\.(?P<part>{'|'.join(map(re.escape, KINDS))})")
    layers = [(match, module) for path, module in network.named_modules() if (match := pattern.fullmatch(path))]
    if not layers:
        raise NoBottleneck("the study's adapters have no bottleneck; task embeddings are of seq_bn and double_seq_bn")
    traces, handles = [], []
    for match, module in layers:
        traces.append(LayerTrace(f"{match['layer'].partition('encoder.')[2]}.{KINDS[match['part']]}"))
        handles.append(module.register_forward_hook(traces[-1]))
        module.requires_grad_(True)
    try:
        yield traces
    finally:
        for handle, (_, module) in zip(handles, layers, strict=True):
            handle.remove()
            module.requires_grad_(False)


def _information(trace: LayerTrace, gradient: Tensor, mode: str) -> dict[str, Tensor]:
    """Squared gradients of a layer's weights, summed over the bottleneck's units, and of an up-projection's bias.

    ``gradient`` is that of the layer's output, ``[rows, tokens, out]``.
    """

    def square(gradients: Tensor) -> Tensor:
        """Of gradients ``[rows, ...]`` the sum of every row's squares, or as published the square of their mean."""
        return gradients.square().sum(dim=0) if mode == SAMPLED else gradients.mean(dim=0).square()

    # The gradient of a weight matrix is, per row, the outer product of output gradient and input, summed over tokens.
    weights = torch.einsum("bto,bti->boi", gradient, trace.inputs[0])
    if trace.component.endswith(".down"):
        return {trace.component: square(weights).sum(dim=0)}
    return {trace.component: square(weights).sum(dim=1), f"{trace.component} bias": square(gradient.sum(dim=1))}


# Weights: how similar two trained adapters are by their weights alone.


def projections(file: Path) -> Maps:
    """By layer, the down-projection ``[units, width]`` and the up-projection ``[width, units]`` of a saved adapter."""
    layers: dict[str, dict[str, Array]] = {}
    for name, weights in load_file(file).items():
        if match := PART.fullmatch(name):
            layers.setdefault(match["layer"], {})[match["part"]] = weights.astype(np.float64)
    if not layers:
        raise NoBottleneck("the study's adapters have no bottleneck; weights are compared of seq_bn and double_seq_bn")
    return {layer: (parts["down.0"], parts["up"]) for layer, parts in layers.items()}


def nearness(first: Maps, second: Maps) -> dict[str, float]:
    """``cosine`` of the linear maps up x down, and ``subspace``, the overlap of their spaces; means over layers.

    Neither depends on the order, sign or scale of the bottleneck's units, in which two trainings need not agree. The
    overlap is the mean squared cosine of the principal angles, of input and output spaces; its expectation for two
    random spaces is units / width.
    """
    shapes = [{layer: down.shape for layer, (down, _) in maps.items()} for maps in (first, second)]
    if shapes[0] != shapes[1]:
        raise NoBottleneck("two adapters of the study differ in shape; weights are compared of equal ones")
    pairs = [(first[layer], second[layer]) for layer in first]
    return {
        "cosine": float(np.mean([_inner(a, b) / float(np.sqrt(_inner(a, a) * _inner(b, b))) for a, b in pairs])),
        "subspace": float(np.mean([_overlap(a[0].T, b[0].T) + _overlap(a[1], b[1]) for a, b in pairs]) / 2),
    }


def _inner(first: tuple[Array, Array], second: tuple[Array, Array]) -> float:
    """Inner product of two matrices up x down."""
    # <U1 D1, U2 D2> = trace(D1' U1' U2 D2) = sum of (U1' U2) * (D1 D2'), of units x units instead of width x width.
    return float(np.sum((first[1].T @ second[1]) * (first[0] @ second[0].T)))


def _overlap(first: Array, second: Array) -> float:
    """Mean squared cosine of the principal angles between the spaces of two matrices' columns ``[width, units]``."""
    # The cosines are the singular values of Q1' Q2, and the sum of their squares is its squared Frobenius norm.
    bases = np.linalg.qr(first)[0], np.linalg.qr(second)[0]
    return float(np.sum((bases[0].T @ bases[1]) ** 2) / first.shape[1])


# LogME: how probable a task's labels are under a Bayesian linear model of features, without any training.


def logme(features: Array, labels: NDArray[np.int64] | Array) -> float:
    """The largest log evidence per row (nats) of labels given features ``[rows, width]``.

    Labels are class indices or real numbers ``[rows]``, or a 0 or 1 per class ``[rows, classes]``; with classes it is
    the mean over the one-against-the-rest problems of those that occur. In the model (You et al. 2021) labels are
    normal about a linear function of the features with precision beta, whose weights are normal about 0 with precision
    alpha. The authors iterate alpha and beta to a fixed point, which the maximum is; here the maximum is searched.
    """
    if labels.ndim == 2:
        outcomes = [column.astype(np.float64) for column in labels.T if column.any()]
    elif np.issubdtype(labels.dtype, np.integer):
        outcomes = [(labels == index).astype(np.float64) for index in np.unique(labels)]
    else:
        outcomes = [labels.astype(np.float64)]
    spectrum = np.linalg.svd(features.astype(np.float64), full_matrices=False)
    return float(np.mean([_largest_evidence(spectrum.U, spectrum.S, outcome) for outcome in outcomes]))


def _largest_evidence(left: Array, singular: Array, outcome: Array) -> float:
    """The largest log evidence per row of an outcome, given the left singular vectors and values of the features.

    With r = alpha / beta and singular values s, in the coordinates of the singular vectors,

        log evidence = rows / 2 (log beta - log 2 pi) - beta / 2 Q(r) + 1 / 2 sum of log(r / (r + s^2)),
        Q(r) = |outcome outside the span|^2 + sum of r / (r + s^2) (outcome along each vector)^2.

    For a ratio r it is largest at beta = rows / Q(r), so only r is searched.
    """
    rows, squares = len(outcome), singular**2
    along = left.T @ outcome
    outside = max(float(outcome @ outcome - along @ along), 0.0)

    def per_row(log_ratio: float) -> float:
        # Shrinkage is r / (r + s^2) per vector; Q is the misfit; at the best beta the term beta / 2 Q is rows / 2.
        shrinkage = 1 / (1 + squares * np.exp(-log_ratio))
        misfit = outside + float(shrinkage @ along**2)
        beta = rows / max(misfit, np.finfo(float).tiny)
        return float((np.log(beta / (2 * np.pi)) - 1) / 2 + np.log(shrinkage).sum() / (2 * rows))

    # The evidence may have several maxima: take the best value of a grid, then refine between its neighbours.
    grid = np.log(squares.mean()) + np.linspace(-LARGEST_LOG_RATIO, LARGEST_LOG_RATIO, GRID)
    best = int(np.argmax([per_row(log_ratio) for log_ratio in grid]))
    bounds = (grid[max(best - 1, 0)], grid[min(best + 1, GRID - 1)])
    refined = minimize_scalar(lambda log_ratio: -per_row(log_ratio), bounds=bounds, method="bounded")
    return max(-float(refined.fun), per_row(grid[best]))
