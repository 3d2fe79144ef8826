"""What splits never divide: rows that belong together by group, by block or, where the entry says so, by their text.

A group usually lies within one block (a dialogue in the article it is about), and the blocks are the units. Where a
group occurs in several blocks, these are joined, and so on, until no value of either is in two units: the connected
components of the graph whose nodes are blocks and whose edges are groups. With ``repeats = "together"`` rows that are
equal in context and text are edges, too.

For example, if dialogue 7 has rows in the articles A and B, and dialogue 9 in B and C, then A, B and C are one unit,
which is called A.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tasks.task import Example, Task


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
    component = _components(len(names), edges)
    reasons = ", ".join(
        part
        for count, part in (
            (crossing, f"{crossing} groups stand in several blocks"),
            (repeating, f"{repeating} texts stand in several blocks and are kept together"),
        )
        if count
    )
    return _join(names, component, component[block_of], reasons)


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


def _components(size: int, edges: NDArray[np.int64]) -> NDArray[np.int64]:
    """The component ``[size]`` of every node of the graph with these edges."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    graph = coo_array((np.ones(len(edges)), (edges[:, 0], edges[:, 1])), shape=(size, size))
    return np.asarray(connected_components(graph, directed=False)[1], dtype=np.int64)


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
