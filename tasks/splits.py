"""Clean splits: 80/10/10 by block, the same for every task of a family, with no text on both sides.

A block's split is a hash of family, salt and block, so that siblings agree and a sibling that is missing changes
nothing. Hashing a few large blocks comes out uneven; the salt is therefore searched (or pinned in the entries).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from tasks.errors import BadInput
from tasks.task import Example, Task, classes_of

NAMES = ("train", "validation", "test")
CUTS = (0.8, 0.9)
SHARES = np.array([0.8, 0.1, 0.1])
TOLERANCE = 0.015
SALTS = 5000
BLOCKS_PER_CLASS = 10


@dataclass(frozen=True)
class Parts:
    """The three splits in row order, and what a reader of results should know about them.

    ``known`` names the splits that a file of published ids gives whole.
    """

    train: tuple[Example, ...]
    validation: tuple[Example, ...]
    test: tuple[Example, ...]
    warnings: tuple[str, ...]
    known: tuple[str, ...] = ()


def clean(task: Task, rows: Sequence[Example]) -> Parts:
    """Split the rows of a task whose classes are known; BadInput when a split is empty or train lacks a class.

    A row of train or validation that repeats context and text of a test row is dropped, and one of train that
    repeats a validation row.
    """
    if not rows:
        raise BadInput(f"{task.id}: the files hold no row of this task; check the classes and columns of its entry")
    blocks: dict[str, int] = {}
    block_of = np.array([blocks.setdefault(row.block, len(blocks)) for row in rows])
    hashes = block_hashes(task.dataset.family, list(blocks))
    salt = searched_salt(task, rows, hashes, block_of) if task.split_salt is None else task.split_salt
    split = splits_of(hashes, salt)[block_of]
    return parted(task, *(tuple(compress(rows, split == k)) for k in range(len(NAMES))))


def parted(task: Task, train: tuple[Example, ...], validation: tuple[Example, ...], test: tuple[Example, ...]) -> Parts:
    """The three splits without rows that repeat a later split's context and text, checked and with warnings."""
    kept_validation = _without(validation, test)
    kept_train = _without(train, (*validation, *test))
    dropped = (len(train) - len(kept_train), len(validation) - len(kept_validation))
    check_filled(task, (kept_train, kept_validation, test))
    warnings = []
    if any(dropped):
        warnings.append(f"{dropped[0]} train and {dropped[1]} validation rows repeat a later split's text; dropped")
    _check_trained(task, kept_train)
    warnings += missing_classes(task, {"validation": kept_validation, "test": test})
    return Parts(kept_train, kept_validation, test, tuple(warnings))


def block_hashes(family: str, blocks: Sequence[str]) -> NDArray[np.uint64]:
    """One 64-bit number per block, the same on every machine."""
    digests = (sha256(f"{family}\0{block}".encode()).digest()[:8] for block in blocks)
    return np.array([int.from_bytes(digest, "big") for digest in digests], dtype=np.uint64)


def splits_of(hashes: NDArray[np.uint64], salt: int) -> NDArray[np.int64]:
    """Split of each block under a salt: 0 train, 1 validation, 2 test."""
    share = (_mixed(hashes ^ _mixed(np.array([salt], dtype=np.uint64))) >> np.uint64(11)) / 2.0**53
    return np.searchsorted(CUTS, share, side="right")


def searched_salt(task: Task, rows: Sequence[Example], hashes: NDArray[np.uint64], block_of: NDArray[np.int64]) -> int:
    """First salt whose split is near 80/10/10 of the rows and keeps the classes; else the nearest one.

    Every class must be in train, and one with ten blocks or more in all three splits. Where no salt gives all of
    this, keeping classes in train comes before nearness, because a class without training rows is an error.
    """
    n_classes = task.label.n_outputs
    block, label, count = _block_label_counts(task, rows, block_of)
    sizes = np.bincount(block_of, minlength=hashes.size)
    shared = np.bincount(label, minlength=n_classes) >= BLOCKS_PER_CLASS
    needed = np.stack([np.ones(n_classes, dtype=bool), shared, shared])
    best, best_salt = (np.inf, np.inf), 0
    for salt in range(SALTS):
        split = splits_of(hashes, salt)
        found = np.bincount(split[block] * n_classes + label, weights=count, minlength=needed.size)
        found = found.reshape(needed.shape)
        share = np.bincount(split, weights=sizes, minlength=len(NAMES)) / len(rows)
        deviation = float(np.abs(share - SHARES).max())
        lacking = (found == 0) & needed
        if deviation <= TOLERANCE and not lacking.any():
            return salt
        if (rank := (float(lacking[0].sum()), deviation)) < best:
            best, best_salt = rank, salt
    return best_salt


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The splitmix64 finaliser: spreads 64-bit numbers evenly, wrapping around."""
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def _block_label_counts(
    task: Task, rows: Sequence[Example], block_of: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Block, class and number of rows of each pair that occurs; a continuous label counts as one class."""
    named = [(0,) if task.label.kind == "continuous" else classes_of(row.label) for row in rows]
    block = np.repeat(block_of, [len(classes) for classes in named])
    labels = np.array([one for classes in named for one in classes], dtype=np.int64)
    pairs, counts = np.unique(block * task.label.n_outputs + labels, return_counts=True)
    return pairs // task.label.n_outputs, pairs % task.label.n_outputs, counts


def _without(rows: Sequence[Example], others: Sequence[Example]) -> tuple[Example, ...]:
    """Rows whose context and text do not occur among the others."""
    taken = {(row.context, row.text) for row in others}
    return tuple(row for row in rows if (row.context, row.text) not in taken)


def check_filled(task: Task, parts: Sequence[Sequence[Example]]) -> None:
    """Refuse a split without rows."""
    for name, part in zip(NAMES, parts, strict=True):
        if not part:
            raise BadInput(
                f"{task.id}: no row falls in the {name} split; give more rows or blocks, "
                "or another `split_salt` in the entry"
            )


def missing_classes(task: Task, parts: dict[str, tuple[Example, ...]]) -> list[str]:
    """One warning per class that a split lacks."""
    warnings = []
    for name, part in parts.items():
        found = {one for row in part for one in classes_of(row.label)} if task.label.classes else set()
        lacking = (value for index, value in enumerate(task.label.classes) if index not in found)
        warnings += [f"class_missing_in_{name}:{value}" for value in lacking]
    return warnings


def _check_trained(task: Task, train: tuple[Example, ...]) -> None:
    """Refuse a training split that lacks a class."""
    for warning in missing_classes(task, {"train": train}):
        raise BadInput(
            f"{task.id}: no training row has the class {warning.partition(':')[2]!r}; give more rows of it, drop it "
            "from `classes` or set another `split_salt` in the entry"
        )
