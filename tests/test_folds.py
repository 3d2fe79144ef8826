"""Folds: every row is tested once, no block stands on both sides, and the classes are spread."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tasks.errors import BadInput
from tasks.folds import folded
from tasks.loading import load
from tasks.task import Dataset, Example, Label, Task

KINDS = {
    "multiclass": Label("label", "multiclass", ("a", "b", "c")),
    "multilabel": Label("label", "multilabel", ("a", "b", "c"), separator=";"),
    "continuous": Label("label", "continuous"),
}


def task_of(kind: str, split: str = "cv5") -> Task:
    return Task("toy", Dataset("toy", "Toy", "toy"), "Toy", ("a.csv",), "table", KINDS[kind], split=split)


def rows_of(kind: str, count: int = 150, per_block: int = 3) -> list[Example]:
    rng = np.random.default_rng(2)
    rows = []
    for i in range(count):
        label = {"multiclass": int(rng.choice(3, p=[0.6, 0.3, 0.1])), "continuous": float(rng.normal())}.get(
            kind, tuple(int(x) for x in rng.random(3) < (0.5, 0.3, 0.1))
        )
        block = f"b{i // per_block}"
        rows.append(Example(f"r{i}", block, block, (), f"words {i}", label))
    return rows


@pytest.mark.parametrize("kind", KINDS)
def test_every_row_is_tested_once_and_no_block_stands_on_both_sides(kind: str) -> None:
    rows = rows_of(kind)
    folds = folded(task_of(kind), rows)
    assert sorted(row.id for fold in folds for row in fold.test) == sorted(row.id for row in rows)
    for fold in folds:
        sides = [{row.block for row in part} for part in (fold.train, fold.validation, fold.test)]
        assert not (sides[0] & sides[1] or sides[0] & sides[2] or sides[1] & sides[2])
        assert len(fold.test) == pytest.approx(30, abs=6)
        assert len(fold.validation) == pytest.approx(12, abs=6)


def test_classes_are_spread_over_the_folds() -> None:
    rows = rows_of("multiclass", 60, per_block=1)
    counts = np.array(
        [[sum(r.label == c for r in fold.test) for c in range(3)] for fold in folded(task_of("multiclass"), rows)]
    )
    assert np.ptp(counts, axis=0).max() <= 1


def test_folds_do_not_depend_on_the_order_of_the_rows() -> None:
    rows = rows_of("multiclass")
    one, other = (folded(task_of("multiclass"), order) for order in (rows, rows[::-1]))
    assert [{row.id for row in fold.test} for fold in one] == [{row.id for row in fold.test} for fold in other]


def test_a_text_of_the_test_fold_is_no_training_text() -> None:
    rows = [row._replace(text=f"words {i % 60}") for i, row in enumerate(rows_of("multiclass", 120, per_block=1))]
    for fold in folded(task_of("multiclass"), rows):
        test = {row.text for row in fold.test}
        assert not any(row.text in test for row in (*fold.train, *fold.validation))


def test_too_few_blocks_are_refused_with_what_to_do() -> None:
    with pytest.raises(BadInput, match="5 blocks cannot be cut into 5 folds; give more rows or a smaller `split`"):
        folded(task_of("multiclass"), rows_of("multiclass", 10, per_block=2))


def test_loading_gives_a_splits_per_fold_and_what_stands_for_all(tmp_path) -> None:
    table = "text,label\n" + "".join(f"words {i},{'abc'[i % 3]}\n" for i in range(60))
    (tmp_path / "a.csv").write_text(table, encoding="utf-8")
    task = replace(task_of("multiclass", "cv3"), columns={"text": "text"})
    splits = load(task, tmp_path)
    assert len(splits.folds) == 3
    assert splits.train == splits.folds[0].train
    assert sorted(int(row.id) for row in splits.test) == list(range(60))
    assert len({one.content_hash for one in (splits, *splits.folds)}) == 4
    assert "fold 1's adapter" in splits.warnings[0]
    assert load(replace(task, split="clean"), tmp_path).folds == ()
