"""Cross-validation for small data: folds by block, stratified, each tested by a training on the others.

Blocks are dealt out one by one, those with the most uneven labels first, then in the order of a stable hash. Each goes
to the fold that makes the classes most even, and of several such folds to the one that makes the rows most even.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from tasks.errors import BadInput
from tasks.splits.clean import Parts, block_hashes, make_parts
from tasks.splits.units import units_of
from tasks.task import Example, Task, classes_of

VALIDATION_SHARE = 10  # one block in ten of a fold's training part selects the best epoch
BINS = 5  # a continuous label is stratified by its quintiles


def make_folds(task: Task, rows: Sequence[Example]) -> list[Parts]:
    """Train, validation and test of each fold of a task whose classes are known; BadInput with too few blocks."""
    units = units_of(task, rows)
    if len(units) < task.folds + 1:
        why = f" ({units.joined})" if units.joined else ""
        raise BadInput(
            f"{task.id}: {len(units)} blocks cannot be cut into {task.folds} folds{why}; give more rows or a smaller "
            "`split`"
        )
    fold_of = deal(task, rows, task.folds)
    return [_fold(task, rows, fold_of == fold) for fold in range(task.folds)]


def _fold(task: Task, rows: Sequence[Example], is_test: NDArray[np.bool_]) -> Parts:
    rest = tuple(compress(rows, ~is_test))
    is_validation = deal(task, rest, min(VALIDATION_SHARE, len(units_of(task, rest)))) == 0
    train, validation = tuple(compress(rest, ~is_validation)), tuple(compress(rest, is_validation))
    return make_parts(task, train, validation, tuple(compress(rows, is_test)))


def deal(task: Task, rows: Sequence[Example], count: int) -> NDArray[np.int64]:
    """The share ``[rows]``, from 0 to count - 1, in which each row falls with its whole unit."""
    units = units_of(task, rows)
    # One row per unit: how many rows it has, and how many of each class.
    table = np.zeros((len(units), 1 + _width(task)))
    table[:, 0] = np.bincount(units.of_row)
    for block, classes in zip(units.of_row, _strata(task, rows), strict=True):
        table[block, [1 + index for index in classes]] += 1
    # The most uneven units first, while the shares can still make up for them; equal ones by their hash.
    order = np.lexsort((block_hashes(task.dataset.family, units.names), -table[:, 1:].std(axis=1)))
    shares, share_of = np.zeros((count, table.shape[1])), np.zeros(len(units), dtype=np.int64)
    total = np.maximum(table.sum(axis=0), 1)
    for block in order:
        best = min(range(count), key=lambda share: _cost(shares, share, table[block], total))
        shares[best] += table[block]
        share_of[block] = best
    of_row: NDArray[np.int64] = share_of[units.of_row]
    return of_row


def _cost(
    shares: NDArray[np.float64], share: int, rows: NDArray[np.float64], total: NDArray[np.float64]
) -> tuple[float, float, int]:
    """How uneven the shares would be with these rows in ``share``: by class, then by rows, then its number."""
    shares[share] += rows
    uneven = (shares / total).std(axis=0)
    shares[share] -= rows
    return round(float(uneven[1:].mean()), 9), round(float(uneven[0]), 9), share


def _width(task: Task) -> int:
    return BINS if task.label.kind == "continuous" else len(task.label.classes)


def _strata(task: Task, rows: Sequence[Example]) -> list[tuple[int, ...]]:
    """The classes of every row; of a continuous label the quintile."""
    if task.label.kind != "continuous":
        return [classes_of(row.label) for row in rows]
    values = np.array([row.label for row in rows])
    cuts = np.quantile(values, np.arange(1, BINS) / BINS)
    return [(int(quintile),) for quintile in np.searchsorted(cuts, values)]
