"""Clean splits: 80/10/10 by unit, the same for every task of a family, with no text on both sides.

Splits never divide a unit: rows that belong together by group, by block or, where the entry says so, by their text. A
group usually lies within one block (a dialogue in the article it is about), and the blocks are the units. Where a group
occurs in several blocks, these are joined, and so on, until no value of either is in two units: the connected
components of the graph whose nodes are blocks and whose edges are groups. With ``repeats = "together"`` rows that are
equal in context and text are edges, too. For example, if dialogue 7 has rows in the articles A and B, and dialogue 9 in
B and C, then A, B and C are one unit, which is called A.

A unit's split is a hash of family, salt and unit, so that siblings agree and a missing sibling changes nothing. A
hash divides a few large units unevenly; the salt is therefore searched for (or pinned in the entries).
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from tasks.errors import BadInput
from tasks.task import Example, Task, classes_of


@dataclass(frozen=True, eq=False)
class Units:
    """The units by name, the unit ``[rows]`` of each row as an index into them, and a warning about joined blocks.

    A unit has its block's name, and one of several blocks the first of their names in sorted order, so that siblings
    that lack some of the rows agree on it.
    """

    names: tuple[str, ...]
    of_row: NDArray[np.int64]
    joined: str = ""

    def __len__(self) -> int:
        """How many units there are."""
        return len(self.names)


def units_of(task: Task, rows: Sequence[Example]) -> Units:
    """The units of a task's rows, in the order of their first rows."""
    blocks: dict[str, int] = {}
    block_of = np.array([blocks.setdefault(row.block, len(blocks)) for row in rows], dtype=np.int64)
    names = tuple(blocks)
    crossing, edges = _edges(block_of, (row.group for row in rows))
    repeating = 0
    if task.repeats == "together":
        repeating, more = _edges(block_of, ((row.context, row.text) for row in rows))
        edges = np.concatenate([edges, more])
    if not len(edges):
        return Units(names, block_of)
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    graph = coo_array((np.ones(len(edges)), (edges[:, 0], edges[:, 1])), shape=(len(names), len(names)))
    component = np.asarray(connected_components(graph, directed=False)[1], dtype=np.int64)
    reasons = [f"{crossing} groups stand in several blocks"] if crossing else []
    if repeating:
        reasons.append(f"{repeating} texts stand in several blocks and are kept together")
    return _join(names, component, component[block_of], ", ".join(reasons))


def _edges(block_of: NDArray[np.int64], keys: Iterable[Hashable]) -> tuple[int, NDArray[np.int64]]:
    """How many keys occur in several blocks, and the pairs ``[edges, 2]`` of blocks that they join."""
    first: dict[Hashable, int] = {}
    edges: dict[tuple[int, int], None] = {}
    crossing: set[Hashable] = set()
    for block, key in zip(block_of.tolist(), keys, strict=True):
        start = first.setdefault(key, block)
        if start != block:
            edges[start, block] = None
            crossing.add(key)
    return len(crossing), np.array(list(edges), dtype=np.int64).reshape(-1, 2)


def _join(names: Sequence[str], component: NDArray[np.int64], of_row: NDArray[np.int64], reasons: str) -> Units:
    """Units made of components of blocks, numbered in the order of their first rows."""
    first: dict[int, str] = {}
    for name, number in zip(names, component.tolist(), strict=True):  # blocks are in the order of their first rows
        first[number] = min(name, first.get(number, name))
    order = np.empty(len(first), dtype=np.int64)
    order[list(first)] = np.arange(len(first))
    units = order[of_row]
    largest = np.bincount(units).max() / len(units)
    note = (
        f"{reasons}: joined, {len(names)} blocks make {len(first)} units that no split divides; "
        f"the largest holds {100 * largest:.0f} % of the rows"
    )
    return Units(tuple(first.values()), units, note)


NAMES = ("train", "validation", "test")
CUTS = (0.8, 0.9)
SHARES = np.array([0.8, 0.1, 0.1])
TOLERANCE = 0.015
SALTS = 5000
BLOCKS_PER_CLASS = 10
FEW_TEST_ROWS = 10
MOST_NAMED = 6  # classes in a warning
OFFERED_FROM = 0.05  # share of a class that repeats and is dropped


@dataclass(frozen=True)
class Parts:
    """The three splits in row order, and what a reader of results should know about them.

    ``published`` names the splits that a file of published ids gives whole. ``dropped`` holds, in the order of NAMES,
    the rows of each split that repeated a later one's text.
    """

    train: tuple[Example, ...]
    validation: tuple[Example, ...]
    test: tuple[Example, ...]
    warnings: tuple[str, ...]
    published: tuple[str, ...] = ()
    dropped: tuple[tuple[Example, ...], ...] = ((), (), ())


def clean(task: Task, rows: Sequence[Example]) -> Parts:
    """Split the rows of a task whose classes are known; BadInput when a split is empty or train lacks a class.

    A row of train or validation that repeats context and text of a test row is dropped, and one of train that
    repeats a validation row.
    """
    if not rows:
        raise BadInput(f"{task.id}: the files hold no row of this task; check the classes and columns of its entry")
    units = units_of(task, rows)
    if units.joined and len(units) < len(NAMES):
        raise BadInput(
            f"{task.id}: {units.joined}; that leaves no three splits, so name another `group` or `block` in the entry, "
            "or leave one of them or `repeats` out"
        )
    hashes = block_hashes(task.dataset.family, units.names)
    salt = find_salt(task, rows, hashes, units.of_row) if task.split_salt is None else task.split_salt
    split = splits_of(hashes, salt)[units.of_row]
    parts = make_parts(task, *(tuple(compress(rows, split == k)) for k in range(len(NAMES))))
    warnings = [units.joined] if units.joined else []
    if (n_test := len(parts.test)) < FEW_TEST_ROWS:  # one row changes the score
        few = f'{len(rows)} rows leave {n_test} for the test; `split = "cv5"` in the entry of {task.id}'
        warnings.append(f"{few} tests on every row")
    return replace(parts, warnings=(*warnings, *parts.warnings))


def make_parts(
    task: Task, train: tuple[Example, ...], validation: tuple[Example, ...], test: tuple[Example, ...]
) -> Parts:
    """The three splits without rows that repeat a later split's context and text, checked and with warnings."""
    kept_validation, dropped_validation = _without(validation, test)
    kept_train, dropped_train = _without(train, (*validation, *test))
    check_filled(task, (kept_train, kept_validation, test))
    warnings = []
    if dropped_train or dropped_validation:
        n, m = len(dropped_train), len(dropped_validation)
        note = f"{n} train and {m} validation rows repeat a later split's text; dropped"
        warnings.append(note + _by_label(task, (*dropped_train, *dropped_validation), (*train, *validation)))
    for name in _lacking(task, kept_train):
        lost = sum(task.label.classes.index(name) in classes_of(row.label) for row in dropped_train)
        if lost:
            raise BadInput(
                f"{task.id}: all {lost} training rows of the class {name!r} repeat a later split's text, and were "
                'dropped; write `repeats = "together"` in the entry to keep equal texts within one split'
            )
        raise BadInput(
            f"{task.id}: no training row has the class {name!r}; give more rows of it, drop it from `classes`, or set "
            'another `split_salt` or with few rows `split = "cv5"` in the entry'
        )
    warnings += missing_classes(task, {"validation": kept_validation, "test": test})
    dropped = (dropped_train, dropped_validation, ())
    return Parts(kept_train, kept_validation, test, tuple(warnings), dropped=dropped)


def _by_label(task: Task, dropped: Sequence[Example], rows: Sequence[Example]) -> str:
    """Which labels dropped rows have, and what else could be done where they are many."""
    if task.label.kind == "continuous":
        shares = [len(dropped) / len(rows)]
        means = [float(np.mean([row.label for row in part])) for part in (dropped, rows)]
        labels = f"a mean of {means[0]:.3g}, that of all {means[1]:.3g}"
    else:
        lost, had = (Counter(index for row in part for index in classes_of(row.label)) for part in (dropped, rows))
        names = task.label.names or task.label.classes
        by_share = sorted(lost, key=lambda index: -lost[index] / had[index])
        shares = [lost[index] / had[index] for index in by_share]
        labels = "; ".join(
            f"{names[index]} {lost[index]} of {had[index]}, {100 * share:.1f} %"
            for index, share in zip(by_share, shares, strict=True)
        )
    together = '; `repeats = "together"` in the entry keeps them, equal texts within one split'
    return f" ({labels}){together if max(shares, default=0) >= OFFERED_FROM else ''}"


def block_hashes(family: str, blocks: Sequence[str]) -> NDArray[np.uint64]:
    """One 64-bit number per block, the same on every machine."""
    digests = (sha256(f"{family}\0{block}".encode()).digest()[:8] for block in blocks)
    return np.array([int.from_bytes(digest, "big") for digest in digests], dtype=np.uint64)


def splits_of(hashes: NDArray[np.uint64], salt: int) -> NDArray[np.int64]:
    """Split of each block under a salt: 0 train, 1 validation, 2 test."""
    return np.searchsorted(CUTS, positions_of(hashes, salt), side="right")


def positions_of(hashes: NDArray[np.uint64], salt: int) -> NDArray[np.float64]:
    """A number from 0 to 1 for every block, spread evenly, under a salt."""
    positions: NDArray[np.float64] = (_mix(hashes ^ _mix(np.array([salt], dtype=np.uint64))) >> np.uint64(11)) / 2.0**53
    return positions


def find_salt(task: Task, rows: Sequence[Example], hashes: NDArray[np.uint64], block_of: NDArray[np.int64]) -> int:
    """First salt whose split is near 80/10/10 of the rows and keeps the classes; else the nearest one.

    Every class must be in train, and one with ten blocks or more in all three splits. Where no salt gives all of
    this, keeping classes in train comes before nearness, because a class without training rows is an error.
    """
    n_classes = task.label.n_outputs
    # Block, class and number of rows of each pair that occurs; a continuous label counts as one class.
    named = [(0,) if task.label.kind == "continuous" else classes_of(row.label) for row in rows]
    blocks = np.repeat(block_of, [len(classes) for classes in named])
    labels = np.array([index for classes in named for index in classes], dtype=np.int64)
    pairs, count = np.unique(blocks * n_classes + labels, return_counts=True)
    block, label = np.divmod(pairs, n_classes)
    sizes = np.bincount(block_of, minlength=hashes.size)
    shared = np.bincount(label, minlength=n_classes) >= BLOCKS_PER_CLASS
    needed = np.stack([np.ones(n_classes, dtype=bool), shared, shared])
    best, best_salt = (np.inf, np.inf), 0
    for salt in range(SALTS):
        split = splits_of(hashes, salt)
        counts = np.bincount(split[block] * n_classes + label, weights=count, minlength=needed.size)
        counts = counts.reshape(needed.shape)
        share = np.bincount(split, weights=sizes, minlength=len(NAMES)) / len(rows)
        deviation = float(np.abs(share - SHARES).max())
        lacking = (counts == 0) & needed
        if deviation <= TOLERANCE and not lacking.any():
            return salt
        if (rank := (float(lacking[0].sum()), deviation)) < best:
            best, best_salt = rank, salt
    return best_salt


def _mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The splitmix64 finaliser: spreads 64-bit numbers evenly, wrapping around."""
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def _without(rows: Sequence[Example], others: Sequence[Example]) -> tuple[tuple[Example, ...], tuple[Example, ...]]:
    """Rows whose context and text do not occur among the others, and those whose do."""
    taken = {(row.context, row.text) for row in others}
    repeats = [(row.context, row.text) in taken for row in rows]
    return tuple(compress(rows, (not is_repeat for is_repeat in repeats))), tuple(compress(rows, repeats))


FEW = 'give more rows or blocks, another `split_salt`, or with few rows `split = "cv5"` in the entry'


def check_filled(task: Task, parts: Sequence[Sequence[Example]], cure: str = FEW) -> None:
    """Refuse a split without rows."""
    for name, part in zip(NAMES, parts, strict=True):
        if not part:
            raise BadInput(f"{task.id}: no row falls in the {name} split; {cure}")


def missing_classes(task: Task, parts: dict[str, tuple[Example, ...]]) -> list[str]:
    """One warning per split that lacks classes, with the first of their names."""
    warnings = []
    for name, part in parts.items():
        if lacking := _lacking(task, part):
            more = f" and {len(lacking) - MOST_NAMED} more" if len(lacking) > MOST_NAMED else ""
            classes = "the class" if len(lacking) == 1 else "the classes"
            warnings.append(f"no {name} row has {classes} {', '.join(map(repr, lacking[:MOST_NAMED]))}{more}")
    return warnings


def _lacking(task: Task, rows: Sequence[Example]) -> list[str]:
    """The classes that no row has."""
    present = {index for row in rows for index in classes_of(row.label)} if task.label.classes else set()
    return [name for index, name in enumerate(task.label.classes) if index not in present]
