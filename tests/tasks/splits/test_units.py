"""Groups, blocks and equal texts that must not be divided: they hang together, and no split parts them."""

import json
from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.cli.main import main
from tasks.errors import BadEntry, BadInput
from tasks.quality import conflicting, quality
from tasks.readers import read
from tasks.registry import Registry
from tasks.splits.clean import clean, units_of
from tasks.splits.contamination import Texts
from tasks.splits.folds import make_folds
from tasks.splits.loading import load
from tasks.task import Dataset, Example, Label, Task
from tests.support.entry_files import write_all
from tests.support.task_files import written

BINARY = Label("label", "binary", ("no", "yes"))
TASK = Task("mine", Dataset("mine", "Mine", "mine"), "Mine", ("mine.csv",), "table", BINARY)


def row(number, group, block, text="", label=None):
    return Example(str(number), group, block, (), text or f"text {number}", number % 2 if label is None else label)


def divided(parts, key):
    """Values of ``group``, ``block`` or ``text`` that stand in several splits."""
    places = defaultdict(set)
    for name in ("train", "validation", "test"):
        for one in getattr(parts, name):
            places[getattr(one, key)].add(name)
    return {value for value, names in places.items() if len(names) > 1}


def crossed(count, groups, blocks):
    """Rows of people who write about several articles, in clusters that share neither."""
    rng = np.random.default_rng(0)
    rows = []
    for number in range(count):
        cluster = number % 40
        rows.append(row(number, f"p{cluster}.{rng.integers(groups)}", f"a{cluster}.{rng.integers(blocks)}"))
    return rows


def test_a_group_that_stands_in_several_blocks_joins_them_in_splits_and_folds():
    rows = crossed(400, 3, 3)
    parts = clean(TASK, rows)
    assert divided(parts, "group") == divided(parts, "block") == set()
    assert sum(len(part) for part in (parts.train, parts.validation, parts.test)) == 400
    assert "groups stand in several blocks: joined," in parts.warnings[0] and "units" in parts.warnings[0]
    for fold in make_folds(replace(TASK, split="cv4"), rows):
        assert divided(fold, "group") == divided(fold, "block") == set()


@given(cells=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=40))
@settings(max_examples=100)
def test_units_are_the_connected_components_of_groups_and_blocks(cells):
    rows = [row(i, f"g{group}", f"b{block}") for i, (group, block) in enumerate(cells)]
    units = units_of(TASK, rows)
    merged = [{i} for i in range(len(rows))]  # by hand: merge rows that share a value until nothing changes
    for _ in rows:
        for one in range(len(rows)):
            for other in range(len(rows)):
                if rows[one].group == rows[other].group or rows[one].block == rows[other].block:
                    merged[one] = merged[other] = merged[one] | merged[other]
    same = [[units.of_row[i] == units.of_row[j] for j in range(len(rows))] for i in range(len(rows))]
    assert same == [[j in merged[i] for j in range(len(rows))] for i in range(len(rows))]
    for number, name in enumerate(units.names):
        assert name == min(one.block for one, unit in zip(rows, units.of_row, strict=True) if unit == number)


def test_of_tasks_whose_groups_lie_within_blocks_the_units_are_the_blocks(tmp_path):
    tasks = [task for task in Registry.load().tasks.values() if not task.dataset.private]
    write_all(tmp_path, tasks, 120, seed=3)
    for task in tasks:
        rows = read(task, tmp_path)
        units = units_of(task, rows)
        assert not units.joined, task.id
        assert [units.names[unit] for unit in units.of_row] == [one.block for one in rows], task.id


def write_rows(folder, rows, more=""):
    lines = [f"{one.text},{'yes' if one.label else 'no'},{one.group},{one.block}" for one in rows]
    written(folder, "\n".join(["text,label,person,article", *lines]) + "\n")
    fields = 'id = "mine"\nfiles = ["my.csv"]\ntext = "text"\nlabel = "label"\nkind = "binary"\n'
    return written(folder, f'{fields}group = "person"\nblock = "article"\n{more}', "mine.toml")


def loaded(folder, rows, more=""):
    return load(Registry.load([write_rows(folder, rows, more)]).task("mine"), folder)


@pytest.mark.parametrize("more", ["", 'split = "cv3"\n'])
def test_what_is_joined_is_shown_before_anything_trains(tmp_path, capsys, more):
    folder = write_rows(tmp_path, crossed(400, 3, 3), more)
    assert main(["tasks", "show", "mine", "--registry", str(folder), "--data", str(folder), "--json"]) == 0
    assert "groups stand in several blocks" in json.loads(capsys.readouterr().out)["rows"]["warnings"][0]


@pytest.mark.parametrize("split", ["clean", "cv3"])
def test_rows_that_all_hang_together_are_refused_with_the_reason(tmp_path, capsys, split):
    rows = [row(i, f"p{i % 7}", f"a{i % 5}") for i in range(70)]
    folder = write_rows(tmp_path, rows, f'split = "{split}"\n')
    assert main(["tasks", "show", "mine", "--registry", str(folder), "--data", str(folder)]) == 2
    message = capsys.readouterr().err
    assert "7 groups stand in several blocks: joined, 5 blocks make 1 units" in message
    assert message.count("\n") == 1


def repeated():
    """Rows of which most of the label yes repeat one of 27 texts."""
    rows = []
    for number in range(300):
        is_thanks = number % 2 and number < 220
        text = f"thank you {number % 27}" if is_thanks else f"text {number}"
        rows.append(row(number, f"g{number}", f"g{number}", text))
    return rows


def test_the_labels_of_dropped_rows_are_said_and_another_way_is_offered():
    parts = clean(replace(TASK, split_salt=0), repeated())
    lost = sum(map(len, parts.dropped))
    of_yes = 100 * lost / sum(one.label for one in (*parts.train, *parts.validation, *sum(parts.dropped, ())))
    assert of_yes > 20 and all(one.label for rows in parts.dropped for one in rows)
    (warning,) = [one for one in parts.warnings if "repeat a later" in one]
    assert f"(yes {lost} of " in warning and f", {of_yes:.1f} %)" in warning and '`repeats = "together"`' in warning


def test_few_dropped_rows_get_no_other_offer():
    rows = [row(number, f"g{number}", f"g{number}") for number in range(300)]
    parts = clean(replace(TASK, split_salt=0), rows)
    copies = {parts.train[0].id: parts.test[0].text}
    changed = [each._replace(text=copies.get(each.id, each.text)) for each in rows]
    (warning,) = clean(replace(TASK, split_salt=0), changed).warnings
    assert warning.startswith("1 train and 0 validation rows repeat a later split's text; dropped (")
    assert "together" not in warning


def test_of_numbers_the_mean_of_dropped_rows_is_said():
    task = replace(TASK, label=Label("label", "continuous"), metric="", split_salt=0)
    rows = [one._replace(label=float(one.label * 4)) for one in repeated()]
    assert "(a mean of 4, that of all 2" in clean(task, rows).warnings[0]


def test_repeats_kept_together_lose_no_row_and_part_no_text():
    rows = repeated()
    parts = clean(replace(TASK, repeats="together"), rows)
    assert divided(parts, "text") == set() and parts.dropped == ((), (), ())
    kept = [one.id for one in (*parts.train, *parts.validation, *parts.test)]
    assert sorted(kept) == sorted(one.id for one in rows)
    assert "27 texts stand in several blocks and are kept together: joined, 300 blocks make 217" in parts.warnings[0]
    for fold in make_folds(replace(TASK, repeats="together", split="cv3"), rows):
        assert divided(fold, "text") == set() and fold.dropped == ((), (), ())


def test_a_check_shows_the_balance_before_and_after_rows_are_dropped(tmp_path):
    splits = loaded(tmp_path, repeated())
    facts = quality(splits, {}, Texts([splits.train, splits.validation, splits.test]))
    assert facts["dropped"] == {"train": len(splits.dropped[0]), "validation": len(splits.dropped[1])}
    rows = (*splits.train, *splits.dropped[0])
    assert facts["labels_before"]["train"]["yes"] == pytest.approx(100 * sum(one.label for one in rows) / len(rows))
    assert facts["labels_before"]["train"]["yes"] > facts["labels"]["train"]["yes"] + 5


def test_equal_texts_with_conflicting_labels_are_counted_dropped_ones_too(tmp_path):
    rows = [row(i, f"g{i}", f"g{i}") for i in range(200)]
    rows += [row(200 + i, f"g{200 + i}", f"g{200 + i}", f"text {i}", i % 2) for i in range(10)]
    rows += [row(300 + i, f"g{300 + i}", f"g{300 + i}", f"text {i}", 1 - i % 2) for i in range(3)]
    splits = loaded(tmp_path, rows)
    assert sum(map(len, splits.dropped)) > 0
    assert conflicting(splits) == {"rows": 9, "texts": 3}


def test_a_class_that_repeats_altogether_is_refused_with_the_reason():
    rows = [row(i, f"g{i}", f"g{i}", "thank you" if i % 2 else "") for i in range(300)]
    with pytest.raises(BadInput, match=r"training rows of the class 'yes' repeat a later .* `repeats = .together.`"):
        clean(replace(TASK, split_salt=0), rows)


def test_siblings_of_which_one_keeps_repeats_together_are_refused(tmp_path):
    write_rows(tmp_path, repeated(), 'repeats = "together"\nfamily = "epitome"\n')
    with pytest.raises(BadEntry, match=r'`repeats` is "together" for mine in .*mine.toml and not for epitome'):
        Registry.load([tmp_path])
    write_rows(tmp_path, repeated(), 'repeats = "apart"\n')
    with pytest.raises(BadEntry, match="repeats 'apart' is not one of drop, together"):
        Registry.load([tmp_path])


def test_pseudonyms_are_those_of_dropped_rows_too(tmp_path):
    splits = loaded(tmp_path, repeated(), "private = true\n")
    assert all(len(one.id) == 16 and len(one.group) == 16 for rows in splits.dropped for one in rows)


def test_twelve_rows_point_to_folds(tmp_path):
    splits = loaded(tmp_path, [row(i, f"g{i}", f"g{i}") for i in range(12)])
    assert any('12 rows leave 1 for the test; `split = "cv5"`' in warning for warning in splits.warnings)
    assert len(loaded(tmp_path, [row(i, f"g{i}", f"g{i}") for i in range(12)], 'split = "cv5"\n').test) == 12
