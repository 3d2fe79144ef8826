"""What intermediates differ by beside ratings: components of variance, and the points at which they are tried.

Tasks that differ each in its own way, data sets, families, and all features but the ratings together: as one component
they take one degree of freedom where as columns of a regression they would take nine of seventeen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from analysis.importance.features import CATEGORY, DIFFERENCE, SIZE
from analysis.importance.grid import Grid

Array = np.ndarray
# Variances in units of the mean sampling variance of a contrast. A list that ends too low finds effects that are not
# there (in 10 of 100 grids with heavy tails where it ends at 64), so single tasks may differ by 512 of these units.
OF_TASKS, OF_OTHERS = (0.0, 2.0, 8.0, 32.0, 128.0, 512.0), (0.0, 4.0, 16.0, 64.0)
TASKS, DATA_SETS, FAMILIES, FEATURES = "tasks", "data sets", "families", "other features"
SAME = 1e-9  # of two kernels, relative: the one cannot be told from the other


@dataclass(frozen=True)
class Component:
    """A covariance [tasks, tasks] of effects of intermediates for a variance of 1, and the variances to try."""

    name: str
    kernel: Array
    variances: tuple[float, ...]


def components(grid: Grid) -> list[Component]:
    """The components of a grid; one that says the same as an earlier one, or nothing, is left out."""
    kept: list[Component] = []
    for component in _candidates(grid):
        centred = _centred(component.kernel)
        if np.abs(centred).max() < SAME:
            continue
        if not any(_is_same(centred, _centred(other.kernel)) for other in kept):
            kept.append(component)
    return kept


def points(parts: list[Component]) -> Array:
    """Every combination of variances, [points, components]; the first is none of any."""
    return np.array(list(product(*(part.variances for part in parts))))


def differs(parts: list[Component], tried: Array) -> Array:
    """Points [points] of those tried [points, components] at which tasks differ each in its own way."""
    return np.asarray(tried[:, [part.name for part in parts].index(TASKS)] > 0)


def _candidates(grid: Grid) -> Iterator[Component]:
    yield Component(TASKS, np.eye(len(grid.tasks)), OF_TASKS)
    yield Component(DATA_SETS, _of_groups(grid.data_set), OF_OTHERS)
    yield Component(FAMILIES, _of_groups(grid.family), OF_OTHERS)
    columns = _other_features(grid)
    if columns.shape[1]:
        yield Component(FEATURES, columns @ columns.T / columns.shape[1], OF_OTHERS)


def _of_groups(codes: Array) -> Array:
    """1 for two tasks of the same group."""
    return np.asarray((codes[:, None] == codes[None, :]) * 1.0)


def _other_features(grid: Grid) -> Array:
    """Standardised columns [tasks, width]; a category has the variance of one column in all. Similarities have none."""
    columns = [np.empty((len(grid.tasks), 0))]
    for name in grid.others:
        facts = np.asarray(grid.facts[name], "float64")
        if grid.kinds[name] in (SIZE, DIFFERENCE):
            columns.append(standardised(facts[:, None]))
        elif grid.kinds[name] == CATEGORY:
            codes = (facts[:, None] == np.unique(facts)[None, :]) * 1.0
            codes -= codes.mean(0)
            columns.append(codes / np.sqrt((codes**2).mean(0).sum()))
    return np.hstack(columns)


def standardised(facts: Array) -> Array:
    """Facts [tasks, ...] with mean 0 and standard deviation 1 over tasks; zeros where all are equal."""
    centred = facts - facts.mean(0)
    deviation = centred.std(0)
    return np.asarray(centred / np.where(deviation > 0, deviation, 1.0))


def _centred(kernel: Array) -> Array:
    """The covariance of contrasts, as a matrix of the same shape."""
    return np.asarray(kernel - kernel.mean(0) - kernel.mean(1)[:, None] + kernel.mean())


def _is_same(first: Array, second: Array) -> bool:
    """Whether one is a multiple of the other."""
    first, second = first / np.linalg.norm(first), second / np.linalg.norm(second)
    return float(np.abs(first - second).max()) < SAME
