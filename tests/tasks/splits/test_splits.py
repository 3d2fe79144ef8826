"""Clean splits: by block, alike for siblings, near 80/10/10, nothing on both sides."""

import numpy as np
import pytest

from tasks.errors import BadInput
from tasks.splits.clean import SALTS, SHARES, TOLERANCE, block_hashes, clean, find_salt, splits_of
from tasks.splits.loading import content_hash, load
from tasks.task import Dataset, Example, Label, Task, Turn

CONTINUOUS = Label("label", "continuous")
BINARY = Label("label", "binary", ("no", "yes"))
HASH = "7ccd0c5b2c0dc8ea8c017e0b70ff180f9e4e3a1dde6919fe0f7384f1213bbc2e"


def a_task(label=CONTINUOUS, family="toy", salt=None):
    dataset = Dataset("toy", "Toy", family)
    return Task("toy", dataset, "Toy", ("toy.csv",), "table", label, {"text": "text"}, split_salt=salt)


def a_row(i, block, label=0.5, text=None, context=""):
    turns = (Turn("speaker", context),) if context else ()
    return Example(str(i), str(block), str(block), turns, text or f"text {i}", label)


def rows_in_blocks(n_rows, n_blocks):
    return [a_row(i, i % n_blocks) for i in range(n_rows)]


def blocks_of(rows):
    return {row.block for row in rows}


def shares(parts):
    sizes = [len(parts.train), len(parts.validation), len(parts.test)]
    return [size / sum(sizes) for size in sizes]


def distance(found):
    return float(np.abs(np.array(found) - SHARES).max())


def test_no_block_is_on_two_sides_and_no_row_is_lost():
    rows = rows_in_blocks(600, 60)
    parts = clean(a_task(), rows)
    assert sum(len(blocks_of(part)) for part in (parts.train, parts.validation, parts.test)) == 60
    assert sorted((*parts.train, *parts.validation, *parts.test)) == sorted(rows)
    assert parts.warnings == ()


@pytest.mark.parametrize("n_blocks", [30, 100, 5000])
def test_shares_are_near_80_10_10(n_blocks):
    parts = clean(a_task(), rows_in_blocks(5000, n_blocks))
    assert distance(shares(parts)) <= TOLERANCE


def test_a_split_does_not_depend_on_the_order_of_rows():
    rows = rows_in_blocks(300, 50)
    forward, backward = clean(a_task(), rows), clean(a_task(), rows[::-1])
    assert forward.test == backward.test[::-1]


def test_siblings_with_a_pinned_salt_agree_whatever_rows_they_have():
    task, labelled = a_task(salt=3), a_task(BINARY, salt=3)
    some = [a_row(i, i % 70, i % 2) for i in range(35, 400)]
    parts, other = clean(task, rows_in_blocks(700, 100)), clean(labelled, some)
    for name in ("train", "validation", "test"):
        assert blocks_of(getattr(other, name)) <= blocks_of(getattr(parts, name))


def test_another_family_or_salt_is_another_split():
    rows = rows_in_blocks(500, 500)
    tests = {clean(a_task(family=family, salt=salt), rows).test for family in "ab" for salt in (0, 1)}
    assert len(tests) == 4


def test_the_hash_of_a_block_is_the_same_on_every_machine():
    hashes = block_hashes("toy", ["a", "b", "ü"])
    assert hashes.tolist() == [17004272474588832818, 2630052834743540309, 10954935028941588063]
    splits = splits_of(block_hashes("toy", [str(i) for i in range(12)]), 7)
    assert "".join(map(str, splits)) == "020000112000"


def test_splits_of_many_blocks_are_drawn_evenly():
    hashes = block_hashes("toy", [str(i) for i in range(20_000)])
    counts = np.stack([np.bincount(splits_of(hashes, salt), minlength=3) for salt in range(20)])
    assert np.abs(counts.mean(axis=0) / 20_000 - [0.8, 0.1, 0.1]).max() < 0.003
    assert counts.std(axis=0).min() > 10


def test_without_a_perfect_salt_the_nearest_one_is_taken():
    rows = [a_row(i, ("first", "second")[i % 2] if i < 100 else i) for i in range(150)]
    sizes = np.array([50, 50] + [1] * 50)
    hashes = block_hashes("toy", ["first", "second", *(str(i) for i in range(100, 150))])
    splits = (np.bincount(splits_of(hashes, salt), weights=sizes, minlength=3) for salt in range(SALTS))
    nearest = min(distance(split / 150) for split in splits)
    assert TOLERANCE < distance(shares(clean(a_task(), rows))) == pytest.approx(nearest)


def test_a_text_on_both_sides_is_dropped_from_the_earlier_side():
    base = rows_in_blocks(400, 400)
    parts = clean(a_task(salt=0), base)
    test_text, validation_text, train = parts.test[0].text, parts.validation[0].text, parts.train
    copies = {train[0].id: test_text, train[1].id: validation_text, parts.validation[1].id: test_text}
    copied = clean(a_task(salt=0), [row._replace(text=copies.get(row.id, row.text)) for row in base])
    assert copied.test == parts.test
    assert [row.id for row in copied.train] == [row.id for row in train if row.id not in copies]
    assert len(copied.validation) == len(parts.validation) - 1
    (warning,) = copied.warnings
    assert warning.startswith("2 train and 1 validation rows repeat a later split's text; dropped (")


def test_the_same_text_after_another_context_is_not_a_repetition():
    base = rows_in_blocks(400, 400)
    rows = [row._replace(text="yes", context=(Turn("speaker", f"context {row.id}"),)) for row in base]
    assert len(clean(a_task(salt=0), rows).train) == len(clean(a_task(salt=0), base).train)


def test_a_class_that_train_lacks_is_an_error_and_one_that_only_train_has_a_warning():
    parts = clean(a_task(salt=0), rows_in_blocks(200, 200))
    with pytest.raises(BadInput, match="toy: no training row has the class 'yes'"):
        clean(a_task(BINARY, salt=0), [a_row(i, i, float(str(i) == parts.test[0].id)) for i in range(200)])
    rows = [a_row(i, i, float(str(i) == parts.train[0].id)) for i in range(200)]
    warnings = clean(a_task(BINARY, salt=0), rows).warnings
    assert warnings == ("no validation row has the class 'yes'", "no test row has the class 'yes'")


@pytest.mark.parametrize("n_blocks", [0, 1, 2])
def test_too_few_blocks_are_an_error(n_blocks):
    with pytest.raises(BadInput, match="toy"):
        clean(a_task(), rows_in_blocks(30 * n_blocks, max(n_blocks, 1)))


def test_the_content_hash_is_pinned_and_sees_every_part_of_a_row():
    row = a_row(1, "a", 0.25, "grüße", "before")
    assert content_hash([row], [], []) == HASH
    changes = {"id": "2", "group": "b", "text": "x", "label": 1, "context": ()}
    others = [row._replace(**{name: value}) for name, value in changes.items()]
    others.append(row._replace(context=(Turn("listener", "before"),)))
    assert len({content_hash([one], [], []) for one in (row, *others)} | {content_hash([], [row], [])}) == 8
    assert content_hash([row._replace(block="b", rationale=("x",))], [], []) == HASH


def test_loading_fills_the_classes_and_ends_with_a_hash(tmp_path):
    table = "text,label\n" + "".join(f"words {i},{'yes' if i % 3 else 'no'}\n" for i in range(100))
    (tmp_path / "toy.csv").write_text(table)
    first, second = (load(a_task(Label("label", "binary")), tmp_path) for _ in range(2))
    assert first == second and first.task.label.classes == ("no", "yes")
    assert len(first.train) + len(first.validation) + len(first.test) == 100
    (tmp_path / "toy.csv").write_text(table.replace("words 7,", "word 7,"))
    assert load(a_task(Label("label", "binary")), tmp_path).content_hash != first.content_hash


def first_salt(rows, in_all):
    """The first salt near 80/10/10 that has both classes in train, and the classes ``in_all`` in every split."""
    blocks = sorted({row.block for row in rows})
    for salt in range(SALTS):
        split = dict(zip(blocks, splits_of(block_hashes("toy", blocks), salt).tolist(), strict=True))
        labels = [[row.label for row in rows if split[row.block] == part] for part in range(3)]
        is_near = distance([len(part) / len(rows) for part in labels]) <= TOLERANCE
        if is_near and {0.0, 1.0} <= set(labels[0]) and all(set(in_all) <= set(part) for part in labels):
            return salt
    raise AssertionError("no such salt")


def salt_of(task, rows):
    blocks, block_of = np.unique([row.block for row in rows], return_inverse=True)
    return find_salt(task, rows, block_hashes("toy", blocks.tolist()), block_of)


@pytest.mark.parametrize(
    ("n_blocks", "per_block", "in_all"),
    [(10, 1, (0.0, 1.0)), (9, 1, (0.0,)), (3, 5, (0.0,))],
    ids=["ten blocks", "nine blocks", "fifteen rows of three blocks"],
)
def test_a_class_is_wanted_in_all_splits_from_ten_blocks_on(n_blocks, per_block, in_all):
    few = [a_row(1000 + i, f"few{i % n_blocks}", 1.0) for i in range(n_blocks * per_block)]
    rows = [*few, *(a_row(i, i, 0.0) for i in range(200))]
    expected = first_salt(rows, in_all)
    assert expected != first_salt(rows, (0.0,) if len(in_all) == 2 else (0.0, 1.0))  # else nothing would be seen
    assert salt_of(a_task(BINARY), rows) == expected


def test_a_class_in_train_counts_more_than_near_shares_and_of_equal_salts_the_first_is_taken():
    sizes = {"a": 58, "only yes": 12, "c": 20, "d": 10}  # no salt has all within tolerance
    rows = [a_row(i, name, float(name == "only yes")) for name, n in sizes.items() for i in range(n)]
    hashes = block_hashes("toy", sorted(sizes))
    splits = [dict(zip(sorted(sizes), splits_of(hashes, salt), strict=True)) for salt in range(SALTS)]
    ranks = []
    for split in splits:
        shares_of = [sum(n for name, n in sizes.items() if split[name] == part) / 100 for part in range(3)]
        lacking = 2 - len({name == "only yes" for name in sizes if split[name] == 0})
        ranks.append((lacking, round(distance(shares_of), 12)))
    assert min(rank[1] for rank in ranks) < min(rank[1] for rank in ranks if rank[0] == 0)
    assert ranks.count(min(ranks)) > 1
    assert salt_of(a_task(BINARY), rows) == ranks.index(min(ranks))
