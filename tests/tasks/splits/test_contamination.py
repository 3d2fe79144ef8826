"""Contacts count what a test shares with training data; measures are kept."""

from itertools import product

import pytest

from adapters_store import Store
from adapters_store.measures import CONTAMINATION, contamination_inputs
from harness.study.measures import contacts_of, facts_of
from tasks.splits.contamination import Contact, contacts
from tasks.splits.loading import Splits, content_hash
from tasks.task import Dataset, Example, Label, Task, Turn

STORY = "my neighbour lost her dog last week and she is still looking for it every evening"


def splits(name, train, test, dataset="toy", family="toys"):
    label = Label("label", "binary", ("0", "1"))
    task = Task(name, Dataset(dataset, dataset, family), name, ("x.csv",), "table", label)
    return Splits(task, tuple(train), (), tuple(test), content_hash(train, [], test), ())


def row(id, text, group="", block="", context=""):
    turns = (Turn("speaker", context),) if context else ()
    return Example(id, group or id, block or group or id, turns, text, 0)


def one(target, intermediate):
    pair = (target.task.id, intermediate.task.id)
    return contacts({pair[1]: intermediate, pair[0]: target}, [pair])[0]


def test_rows_groups_pairs_and_texts_of_a_sibling_are_counted():
    train = [row("a", STORY, "g1"), row("b", "hello", "g2", context="first"), row("c", "yes", "g3")]
    test = [
        row("a", "no", "g9"),
        row("x", "hello", "g8", context="first"),
        row("y", "hello", "g3"),
        row("z", STORY + " now", "g7"),
    ]
    found = one(splits("target", [], test), splits("other", train, []))
    assert found == Contact("target", "other", 4, 1, 1, 1, 1, 2, 1, 4, 1)
    assert found.is_contaminated


def test_another_dataset_of_the_family_shares_blocks_and_another_family_nothing_but_texts():
    train = [row("1", "aaa", group="7", block="art1"), row("2", "bbb", group="art9", block="art2")]
    test = [row("1", "ccc", group="art9", block="art9"), row("5", "ddd", group="8", block="art1")]
    sibling = one(splits("t", [], test), splits("o", train, [], dataset="second"))
    stranger = one(splits("t", [], test), splits("o", train, [], dataset="second", family="others"))
    assert (sibling.same_row, sibling.same_group, sibling.groups_in_train) == (0, 1, 1)
    assert (stranger.same_row, stranger.same_group, stranger.groups_in_train) == (0, 0, 0)


def test_a_task_in_folds_is_compared_with_itself_fold_by_fold():
    rows = [row(str(i), f"number {i} of many", f"g{i}") for i in range(6)]
    folds = (splits("t", rows[:3], rows[3:]), splits("t", rows[3:], rows[:3]))
    whole = splits("t", rows[:3], rows)
    in_folds = Splits(whole.task, whole.train, (), whole.test, whole.content_hash, (), folds=folds)
    found = contacts({"t": in_folds, "u": splits("u", rows[:3], rows[3:])}, [("t", "t"), ("t", "u")])
    assert (found[0].n_test, found[0].same_row, found[0].is_contaminated) == (6, 0, False)
    assert found[1].same_row == 3


def test_contacts_are_measured_once_and_kept(tmp_path, monkeypatch):
    store = Store(tmp_path / "runs")
    both = {name: splits(name, [row("a", STORY)], [row("b", name)]) for name in ("one", "two")}
    first = contacts_of(both, store)
    assert [(found.target, found.intermediate) for found in first] == [*product(both, both)]
    monkeypatch.setattr("harness.study.measures.contacts", lambda *_: pytest.fail("computed again"))
    assert contacts_of(both, store) == first
    content = next((tmp_path / "runs/measures").glob("*/measure.json")).read_text()
    assert CONTAMINATION in content and STORY not in content


def test_what_was_not_compared_is_kept_with_the_counts(tmp_path, monkeypatch):
    monkeypatch.setattr("tasks.splits.contamination.MOST_PAIRS", 0)
    store = Store(tmp_path)
    both = {name: splits(name, [row("a", STORY)], [row("b", f"{STORY} {name}")]) for name in ("one", "two")}
    assert one(both["one"], both["two"]).near_text == 1  # met in the sorted orders
    contacts_of(both, store)
    kept = store.measure(CONTAMINATION, contamination_inputs({name: facts_of(part) for name, part in both.items()}))
    assert kept.result["left_out"]["grams"] > 0 and kept.result["left_out"]["texts"] == 3


@pytest.mark.parametrize(
    ("shared", "is_contaminated"),
    [
        *(({name: 1}, True) for name in ("same_row", "same_group")),
        *(({name: count}, count > 4) for name in ("same_pair", "near_text") for count in (1, 4, 5)),
        ({"same_text": 200}, False),
    ],
)
def test_a_row_or_group_marks_a_pair_and_more_than_two_percent_of_equal_or_near_texts(shared, is_contaminated):
    counts = dict.fromkeys(Contact._fields[4:], 0) | {"n_test": 200, "n_long": 200, "n_groups": 200}
    assert Contact("t", "o", **counts | shared).is_contaminated is is_contaminated
