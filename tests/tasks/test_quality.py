"""What a check says of a task: balance, lengths, repetitions, people and floors."""

from dataclasses import replace

import numpy as np
import pytest

from tasks.quality import people_shared, quality
from tasks.splits.contamination import Texts
from tasks.splits.loading import Splits
from tasks.task import Dataset, Example, Label, Task, Turn

STORY = "my neighbour lost her dog last week and she is still looking for it every evening"


def splits(train, test, kind="binary", classes=("a", "b")):
    label = Label("label", kind, () if kind == "continuous" else classes, separator="," if kind == "multilabel" else "")
    task = Task("toy", Dataset("toy", "Toy", "toys"), "Toy", ("x.csv",), "table", label)
    return Splits(task, tuple(train), tuple(train[:1]), tuple(test), "0" * 64, ("a warning",))


def row(id, text, label=0, group="", context=""):
    turns = (Turn("speaker", context),) if context else ()
    return Example(str(id), group or str(id), group or str(id), turns, text, label)


def facts(one, people=None):
    return quality(one, people or {}, Texts([one.train, one.validation, one.test]))


def test_sizes_balance_and_lengths():
    found = facts(splits([row(i, "one two three", i % 4 // 3, context="four five") for i in range(8)], [row(9, "one")]))
    assert found["rows"] == {"train": 8, "validation": 1, "test": 1}
    assert found["labels"]["train"] == {"a": 75.0, "b": 25.0}
    assert found["words"]["train"] == {"median": 3.0, "p95": 3.0, "max": 3.0}
    assert found["words_with_context"]["train"]["max"] == 5.0
    assert found["warnings"] == ["a warning"]


def test_inputs_that_hold_the_label_are_a_warning_with_both_shares():
    def warnings(every, classes=("self_blame", "other_thing"), names=()):
        texts = [f"row {i} says self-Blame" if i < 20 and i % every == 0 else f"row {i}" for i in range(40)]
        train = [row(i, text, int(i >= 20)) for i, text in enumerate(texts)]
        coded = splits(train, [row(99, "x")], classes=classes)
        label = replace(coded.task.label, names=names)
        return facts(replace(coded, task=replace(coded.task, label=label)))["warnings"][1:]

    warning = "'self_blame' stands in the inputs of {} % of its rows and of 0 % of the others: do they hold the label?"
    assert warnings(1) == [warning.format(100)]
    assert warnings(2) == [warning.format(50)]
    assert warnings(3) == [] and warnings(1, ("1", "2")) == []
    assert warnings(1, ("1", "2"), ("self_blame", "other_thing")) == [warning.format(100)]


def test_moments_of_numbers_and_shares_of_several_labels():
    numbers = facts(splits([row(i, "x", float(i)) for i in range(5)], [row(9, "y", 1.0)], "continuous"))
    moments = {"min": 0.0, "median": 2.0, "max": 4.0, "mean": 2.0, "std": np.std(range(5), ddof=1)}
    assert numbers["labels"]["train"] == moments
    assert numbers["floor"] == 0.0
    both = facts(splits([row(0, "x", (1, 1)), row(1, "y", (0, 1))], [row(9, "z", (1, 0))], "multilabel"))
    assert both["labels"]["train"] == {"a": 50.0, "b": 100.0}


def test_repetitions_are_counted_within_and_between_splits():
    train = [row(0, "yes", context="a"), row(1, "yes", context="b"), row(2, "yes", context="b"), row(3, STORY)]
    test = [row(7, "yes", context="a"), row(8, "yes"), row(9, f"{STORY}!"), row(10, f"{STORY} now")]
    found = facts(splits(train, test))["repeated"]
    assert found["within train"] == {"context_and_text": 1, "text": 2, "near": 0}
    assert found["within test"] == {"context_and_text": 0, "text": 1, "near": 2}
    assert found["test in train"] == {"context_and_text": 1, "text": 3, "near": 2}


def test_a_task_in_folds_is_compared_fold_by_fold():
    rows = [row(0, "yes", context="a"), row(1, "no", 1), row(2, "well", context="b"), row(3, "yes", 1, context="a")]
    parts = [(rows[2:], rows[:2]), (rows[:2], rows[2:])]
    folds = tuple(splits(train, test) for train, test in parts)
    whole = replace(folds[0], test=tuple(rows), folds=folds)
    found = facts(whole, {"0": "ann", "1": "bob", "2": "eve", "3": "ann"})
    assert found["repeated"]["test in train"] == {"context_and_text": 2, "text": 2, "near": 0}
    assert found["repeated"]["within test"] == {"context_and_text": 1, "text": 1, "near": 0}
    assert found["people"] == {"test_rows": 2, "people": 1, "test_people": 3}


def test_the_floor_is_what_the_commonest_answer_scores():
    train = [row(i, f"t{i}", int(i == 0)) for i in range(5)]
    test = [row(9, "x", 0), row(10, "y", 0), row(11, "z", 1)]
    assert facts(splits(train, test))["floor"] == pytest.approx(0.4)


def test_people_on_both_sides_are_counted_where_they_are_known():
    one = splits([row(0, "a"), row(1, "b")], [row(7, "c"), row(8, "d"), row(9, "e")])
    people = {"0": "ann", "1": "bob", "7": "ann", "8": "ann", "9": "eve"}
    assert people_shared(one, people) == {"test_rows": 2, "people": 1, "test_people": 2}
    assert people_shared(one, {}) is None
