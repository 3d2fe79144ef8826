"""Which rows of a split a cell sees: caps and limited-data settings, drawn once and never redrawn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from harness.cell import Cell
from harness.study import share_of
from harness.training.seeds import seed_of
from tasks.errors import BadInput
from tasks.loading import Splits
from tasks.task import Answer, Example, classes_of


@dataclass(frozen=True)
class Rows:
    """The rows of one cell, in file order."""

    train: tuple[Example, ...]
    validation: tuple[Example, ...]
    test: tuple[Example, ...]


def rows_of(cell: Cell, splits: Splits) -> Rows:
    """The rows that ``cell`` trains, selects and is tested on, after caps and setting.

    Caps depend on the task alone, so that all seeds share one test set; the limited-data subset depends on task
    and seed and is uniform or, for a setting that says so, stratified. All percentages of a task and seed are cut from
    one order, so a uniform smaller one lies within a larger one. BadInput when a class has no training row.
    """
    caps = cell.spec["caps"]
    classes = splits.task.label.kind != "continuous"
    parts = {
        name: _capped(getattr(splits, name), caps[name], seed_of("cap", cell.target, name), classes)
        for name in ("train", "validation", "test")
    }
    share = share_of(cell.setting)
    seed = seed_of("share", cell.target, cell.seed, cell.setting.lstrip("0123456789."))
    if cell.setting.endswith("-stratified"):
        parts["train"] = _stratified(parts["train"], share, seed)
    elif share < 1:
        parts["train"] = _capped(parts["train"], max(1, round(len(parts["train"]) * share)), seed, classes)
    if (permutations := cell.spec["label"].get("permutations")) is not None:
        parts |= {name: _permuted(parts[name], seed) for name, seed in permutations.items()}
    rows = Rows(**parts)
    _check_classes(rows, splits)
    return rows


def _permuted(rows: tuple[Example, ...], seed: int) -> tuple[Example, ...]:
    """The rows in their order, each with the label of another by a seeded permutation."""
    order = np.random.default_rng(seed).permutation(len(rows)).tolist()
    return tuple(row._replace(label=rows[i].label) for row, i in zip(rows, order, strict=True))


def _capped(rows: tuple[Example, ...], cap: int | None, seed: int, has_classes: bool) -> tuple[Example, ...]:
    """``cap`` rows by a seeded permutation, one of every class first, in file order."""
    if cap is None or len(rows) <= cap:
        return rows
    order = np.random.default_rng(seed).permutation(len(rows)).tolist()
    if has_classes:
        first = {one: i for i in reversed(order) for one in classes_of(rows[i].label)}
        kept = set(first.values())
        order = sorted(order, key=lambda i: i not in kept)
    return tuple(rows[i] for i in sorted(order[:cap]))


def _stratified(rows: tuple[Example, ...], share: float, seed: int) -> tuple[Example, ...]:
    """A share of every class (of every tenth by size, for numbers) by a seeded permutation, in file order.

    Every class or tenth keeps at least a row; what rounding takes from one goes to the next. Of several labels the
    share is taken of every combination, of which there may be more than rows to keep, and then a row of every class.
    """
    strata: dict[Answer, list[int]] = {}
    names, order = _strata(rows), np.random.default_rng(seed).permutation(len(rows)).tolist()
    for i in order:
        strata.setdefault(names[i], []).append(i)
    fewest = 0 if isinstance(names[0], tuple) else 1
    kept, owed = [], 0.0
    for _, places in sorted(strata.items()):
        owed += len(places) * share
        count = min(max(fewest, round(owed)), len(places))
        owed -= count
        kept += places[:count]
    found = {one for i in kept for one in classes_of(names[i])}
    for i in order:
        if not found.issuperset(classes_of(names[i])):
            kept.append(i)
            found.update(classes_of(names[i]))
    return tuple(rows[i] for i in sorted(kept))


def _strata(rows: tuple[Example, ...]) -> list[Answer]:
    """The label of every row, or its tenth by size where labels are numbers."""
    labels = [row.label for row in rows]
    if not isinstance(labels[0], float):
        return labels
    ranks = np.argsort(np.argsort(labels, kind="stable"))
    return list((10 * ranks // len(rows)).tolist())


def _check_classes(rows: Rows, splits: Splits) -> None:
    if not splits.task.label.classes:
        return
    seen = {one for row in rows.train for one in classes_of(row.label)}
    for index, name in enumerate(splits.task.label.classes):
        if index not in seen:
            raise BadInput(
                f"task {splits.task.id}: class {name!r} has no row among the {len(rows.train)} training rows; "
                "raise max_train or merge the class"
            )
