"""Rows cut otherwise than by clean splits: into folds for small data, and as a study's protocol says.

Folds are by block and stratified, each tested by a training on the others. Blocks are dealt out one by one, those with
the most uneven labels first, then in the order of a stable hash. Each goes to the fold that makes the classes most
even, and of several such folds to the one that makes the rows most even.

A study that follows a publication has a protocol, of shares or of folds, for every task. There a unit's part is a hash
of family and unit alone: labels are not asked, so that siblings of one family are cut alike, and a system that reads
several of them never learns from a test row. Shares of rows are therefore met on average, as by a random split, and not
to the row. ``Protocol((0.75, 0.05, 0.2))`` is how the authors of EPITOME cut their pairs, here by post, and
``Protocol(folds=5)`` tests on every row once.
"""

from collections.abc import Sequence
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from tasks.errors import BadInput
from tasks.splits.clean import NAMES, Parts, block_hashes, make_parts, positions_of, units_of
from tasks.splits.protocol import Protocol
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
    folds = []
    for fold in range(task.folds):
        rest = tuple(compress(rows, fold_of != fold))
        is_validation = deal(task, rest, min(VALIDATION_SHARE, len(units_of(task, rest)))) == 0
        parts = (compress(rest, ~is_validation), compress(rest, is_validation), compress(rows, fold_of == fold))
        folds.append(make_parts(task, *map(tuple, parts)))
    return folds


def deal(task: Task, rows: Sequence[Example], count: int) -> NDArray[np.int64]:
    """The share ``[rows]``, from 0 to count - 1, in which each row falls with its whole unit."""
    units = units_of(task, rows)
    # One row per unit: how many rows it has, and how many of each class.
    width = BINS if task.label.kind == "continuous" else len(task.label.classes)
    table = np.zeros((len(units), 1 + width))
    table[:, 0] = np.bincount(units.of_row)
    strata: list[tuple[int, ...]] = []
    if task.label.kind == "continuous":
        values = np.array([row.label for row in rows])
        cuts = np.quantile(values, np.arange(1, BINS) / BINS)
        strata = [(int(quintile),) for quintile in np.searchsorted(cuts, values)]
    else:
        strata = [classes_of(row.label) for row in rows]
    for block, classes in zip(units.of_row, strata, strict=True):
        table[block, [1 + index for index in classes]] += 1
    # The most uneven units first, while the shares can still make up for them; equal ones by their hash.
    order = np.lexsort((block_hashes(task.dataset.family, units.names), -table[:, 1:].std(axis=1)))
    shares = np.zeros((count, table.shape[1]))
    share_of = np.zeros(len(units), dtype=np.int64)
    total = np.maximum(table.sum(axis=0), 1)

    def cost(share: int) -> tuple[float, float, int]:
        """How uneven the shares would be with this block in ``share``: by class, then by rows, then its number."""
        shares[share] += table[block]
        uneven = (shares / total).std(axis=0)
        shares[share] -= table[block]
        return round(float(uneven[1:].mean()), 9), round(float(uneven[0]), 9), share

    for block in order:
        best = min(range(count), key=cost)
        shares[best] += table[block]
        share_of[block] = best
    of_row: NDArray[np.int64] = share_of[units.of_row]
    return of_row


SALT = 75_520  # any fixed number but those of clean splits, so that the two cut independently of each other
VALIDATION = 0.1  # share of a fold's training part that selects the best epoch


def cut(task: Task, rows: Sequence[Example], protocol: Protocol) -> list[Parts]:
    """Training, validation and test of every fold or repeat of a task whose classes are known.

    Rows that repeat a later split's context and text are dropped, as in clean splits. BadInput where a part is empty.
    """
    if not rows:
        raise BadInput(f"{task.id}: the files hold no row of this task; check the classes and columns of its entry")
    if not protocol.folds:
        bounds = np.cumsum(protocol.shares)[:2]
        cuts = (_positions(task, rows, protocol, SALT + repeat) for repeat in range(protocol.repeats))
        return [_parts(task, rows, np.searchsorted(bounds, positions, side="right")) for positions in cuts]
    outer, inner = (_positions(task, rows, protocol, salt) for salt in (SALT, SALT + 1))
    fold, is_validation = np.floor(outer * protocol.folds), inner < VALIDATION
    return [
        _parts(task, rows, np.where(fold == number, 2, is_validation.astype(np.int64)))
        for number in range(protocol.folds)
    ]


def _positions(task: Task, rows: Sequence[Example], protocol: Protocol, salt: int) -> NDArray[np.float64]:
    """A number from 0 to 1 for every row ``[rows]``, the same for rows of one unit."""
    if protocol.unit == "row":
        return positions_of(block_hashes(task.dataset.family, [row.id for row in rows]), salt)
    units = units_of(task, rows)
    return positions_of(block_hashes(task.dataset.family, units.names), salt)[units.of_row]


def _parts(task: Task, rows: Sequence[Example], part: NDArray[np.int64]) -> Parts:
    return make_parts(task, *(tuple(compress(rows, part == number)) for number in range(len(NAMES))))
