"""Stored cells without weights with which missing cells must compute: they are trained again, and nothing else is.

Archives leave weights out, and a study may keep baselines' adapters alone.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from adapters_store import Store, StoreError
from adapters_store.key import computes_with
from adapters_store.store import has_weights
from harness.study.cell import Cell
from harness.study.plan import Plan

log = logging.getLogger(__name__)


def set_aside_weightless(plan: Plan, store: Store) -> None:
    """Set aside the stored cells that this plan's missing cells need with weights and that have none; says how many."""
    if again := weightless(plan, store):
        log.warning("%s", again_line(again))
        for cell in again:
            store.set_aside(cell.key)


def weightless(plan: Plan, store: Store) -> list[Cell]:
    """The stored cells without weights with which cells that must be trained compute; they must be trained again."""
    again: dict[str, Cell] = {}
    needed: set[str] = set()
    for cell in reversed(plan.cells):  # what a cell stands on is planned before it; two roles may share a cell
        if cell.key in needed and cell.key in store and _lacks_weights(cell, store):
            again[cell.key] = cell
        if cell.key in again or cell.key not in store:
            needed.update(computes_with(cell.spec))
    return list(again.values())[::-1]


def _lacks_weights(cell: Cell, store: Store) -> bool:
    try:
        return not has_weights(store.get(cell.key))
    except StoreError:
        return False  # a damaged record fails with its own reason


def again_line(cells: Sequence[Cell]) -> str:
    """In words that stored cells are trained again for their weights."""
    what = "1 stored cell has" if len(cells) == 1 else f"{len(cells)} stored cells have"
    return f"{what} no weights, which cells to train stand on, and will be trained again"
