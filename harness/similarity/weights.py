"""How near two trained adapters are by their weights alone."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file

from tasks.errors import BadInput

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
