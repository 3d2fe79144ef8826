"""Folds: every row is tested once, no block stands on both sides, and the classes are spread."""

import statistics
from dataclasses import replace

import numpy as np
import pytest

from tasks.errors import BadInput
from tasks.splits.clean import block_hashes
from tasks.splits.folds import deal, make_folds
from tasks.splits.loading import load
from tasks.task import Dataset, Example, Label, Task

KINDS = {
    "multiclass": Label("label", "multiclass", ("a", "b", "c")),
    "multilabel": Label("label", "multilabel", ("a", "b", "c"), separator=";"),
    "continuous": Label("label", "continuous"),
}


def task_of(kind, split="cv5"):
    return Task("toy", Dataset("toy", "Toy", "toy"), "Toy", ("a.csv",), "table", KINDS[kind], split=split)


def rows_of(kind, count=150, per_block=3):
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
def test_every_row_is_tested_once_and_no_block_stands_on_both_sides(kind):
    rows = rows_of(kind)
    folds = make_folds(task_of(kind), rows)
    assert sorted(row.id for fold in folds for row in fold.test) == sorted(row.id for row in rows)
    for fold in folds:
        sides = [{row.block for row in part} for part in (fold.train, fold.validation, fold.test)]
        assert not (sides[0] & sides[1] or sides[0] & sides[2] or sides[1] & sides[2])
        assert len(fold.test) == pytest.approx(30, abs=6)
        assert len(fold.validation) == pytest.approx(12, abs=6)


def test_folds_do_not_depend_on_the_order_of_the_rows():
    rows = rows_of("multiclass")
    one, other = (make_folds(task_of("multiclass"), order) for order in (rows, rows[::-1]))
    assert [{row.id for row in fold.test} for fold in one] == [{row.id for row in fold.test} for fold in other]


def test_a_text_of_the_test_fold_is_no_training_text():
    rows = [row._replace(text=f"words {i % 60}") for i, row in enumerate(rows_of("multiclass", 120, per_block=1))]
    for fold in make_folds(task_of("multiclass"), rows):
        test = {row.text for row in fold.test}
        assert not any(row.text in test for row in (*fold.train, *fold.validation))


def test_too_few_blocks_are_refused_with_what_to_do():
    with pytest.raises(BadInput, match="5 blocks cannot be cut into 5 folds; give more rows or a smaller `split`"):
        make_folds(task_of("multiclass"), rows_of("multiclass", 10, per_block=2))


def test_loading_gives_a_splits_per_fold_and_what_stands_for_all(tmp_path):
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


def uneven(kind):
    """Rows in blocks of one to six, of uneven labels."""
    rng = np.random.default_rng(11)
    rows = rows_of(kind, 120, per_block=1)
    block = np.repeat(np.arange(120), rng.integers(1, 7, 120))[:120]
    return [row._replace(group=f"b{position}", block=f"b{position}") for row, position in zip(rows, block, strict=True)]


def strata_by_hand(kind, rows):
    """The classes of each row; of a number in which fifth of all numbers it is."""
    if kind == "multiclass":
        return [[int(row.label)] for row in rows]
    if kind == "multilabel":
        return [[position for position, is_held in enumerate(row.label) if is_held] for row in rows]
    cuts = statistics.quantiles((row.label for row in rows), n=5, method="inclusive")
    return [[sum(cut < row.label for cut in cuts)] for row in rows]


def dealt_by_hand(kind, rows, count):
    """Blocks in their order, each to the share in which classes, then rows, come out most even."""
    width = 5 if kind == "continuous" else 3
    counts: dict[str, list[int]] = {}
    for row, classes in zip(rows, strata_by_hand(kind, rows), strict=True):
        table = counts.setdefault(row.block, [0] * (1 + width))
        for position in (0, *(1 + one for one in classes)):
            table[position] += 1
    hashes = dict(zip(counts, block_hashes("toy", list(counts)).tolist(), strict=True))
    total = [max(sum(table[position] for table in counts.values()), 1) for position in range(1 + width)]
    shares, share_of = [[0] * (1 + width) for _ in range(count)], {}
    for block in sorted(counts, key=lambda name: (-np.std(counts[name][1:]), hashes[name])):
        costs = []
        for share in range(count):
            held = [[n + (k == share) * counts[block][p] for p, n in enumerate(row)] for k, row in enumerate(shares)]
            apart = [statistics.pstdev(row[p] / total[p] for row in held) for p in range(1 + width)]
            costs.append((round(statistics.fmean(apart[1:]), 9), round(apart[0], 9), share))
        share_of[block] = min(costs)[2]
        shares[share_of[block]] = [a + b for a, b in zip(shares[share_of[block]], counts[block], strict=True)]
    return [share_of[row.block] for row in rows]


@pytest.mark.parametrize("kind", KINDS)
def test_blocks_are_dealt_out_as_a_plain_loop_deals_them(kind):
    rows = uneven(kind)
    assert deal(task_of(kind), rows, 5).tolist() == dealt_by_hand(kind, rows, 5)
