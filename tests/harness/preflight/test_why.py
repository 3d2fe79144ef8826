"""Why cells must be trained: the cause at the root, and how many cells stand on it."""

import dataclasses

import pytest

from adapters_store import Store
from harness.preflight.smoke import records
from harness.preflight.why import _other_parents, changes, why
from harness.run.notes import Failure, write
from harness.study import cell as cells
from harness.study.file import load_study
from tests.support.studies.made_up_records import changed, keep, keep_all, plan_of

TASKS = ("epitome_er", "news_emotion", "news_empathy")


@pytest.fixture(scope="module")
def study():
    return dataclasses.replace(load_study("tiny"), tasks=TASKS)


@pytest.fixture(scope="module")
def plan(study, data):
    return plan_of(study, data)


@pytest.fixture(scope="module")
def full(plan, tmp_path_factory):
    """A store with every cell of the plan; tests only read it."""
    store = Store(tmp_path_factory.mktemp("full"))
    keep_all(store, plan.cells)
    return store


def lines(plan, store):
    return [one.line(len(plan.cells)) for one in why(plan, store, records(store))]


def test_a_change_is_told_once_with_all_that_stands_on_it_or_with_the_names_of_all_tasks(full, study, data, plan):
    assert lines(plan, full) == []
    plan = plan_of(changed(study, "epitome_er", learning_rate=1e-4), data)
    (line,) = lines(plan, full)
    assert line == "5 of 9: learning_rate of epitome_er 0.002 -> 0.0001: 1 baseline, 2 onto it, 2 stacked on it"
    plan = plan_of(dataclasses.replace(study, training={**study.training, "epochs": 3}), data)
    (line,) = lines(plan, full)
    assert line == f"9 of 9: epochs of {', '.join(TASKS)} 2 -> 3: 3 baselines, 6 onto them"


def test_an_intermediate_that_is_trained_anew_already_is_still_the_cause(full, study, data, tmp_path, plan):
    store = Store(tmp_path / "runs")
    keep_all(store, plan.cells)
    new = plan_of(changed(study, "epitome_er", learning_rate=1e-4), data)
    keep(store, new.baselines[0].cells[0])
    assert lines(new, store) == ["4 of 9: learning_rate of epitome_er 0.002 -> 0.0001: 2 onto it, 2 stacked on it"]


def test_what_was_never_trained_says_so_and_is_counted_by_what_it_is(plan, store, study, data):
    assert lines(plan, store) == ["9 of 9: never trained: 3 baselines, 6 transfers"]
    more = dataclasses.replace(study, controls=("self", "random"), references=("finetuned",))
    assert lines(plan_of(more, data), store) == [
        "21 of 21: never trained: 3 baselines, 3 intermediates of controls, 3 finetuned, 6 transfers, 6 controls"
    ]
    keep_all(store, [cell for pack in plan.baselines for cell in pack.cells])
    assert lines(plan, store) == ["6 of 9: never trained: 6 transfers"]


def test_new_data_are_named_by_their_task(full, plan):
    splits = {**plan.splits, "news_emotion": dataclasses.replace(plan.splits["news_emotion"], content_hash="f" * 64)}
    assert lines(_planned_again(plan, splits, plan.backbone), full) == [
        "5 of 9: data of news_emotion changed (content hash): 1 baseline, 2 onto it, 2 stacked on it"
    ]


def test_another_backbone_and_another_training_version_concern_all(full, plan, study, data, monkeypatch):
    all_cells = "3 baselines, 6 transfers"
    for part in ("weights", "config", "tokenizer"):
        other = dataclasses.replace(plan.backbone, **{f"{part}_sha256": "f" * 64})
        line = f"9 of 9: {part} of the backbone changed: {all_cells}"
        assert lines(_planned_again(plan, plan.splits, other), full) == [line]
    version = cells.TRAINING_VERSIONS["fp32"]
    monkeypatch.setitem(cells.TRAINING_VERSIONS, "fp32", version + 1)
    found = lines(plan_of(study, data), full)
    assert found == [f"9 of 9: training_version {version} -> {version + 1}: {all_cells}"]


def test_a_failure_is_the_cause_of_the_cell_and_of_all_that_stand_on_it(plan, store):
    first = plan.baselines[0].cells[0]
    keep_all(store, [cell for cell in plan.cells if first.target not in (cell.target, cell.intermediate)])
    keep_all(store, [cell for cell in plan.cells if cell.target == first.target and cell != first])
    write(store, first.key, Failure(key=first.key, study="tiny", label=first.label, reason="out of\n memory"))
    assert lines(plan, store) == [
        "3 of 9: failed: out of memory (epitome_er (baseline), seed 1, full): 1 baseline, 2 transfers"
    ]


def test_the_nearest_of_several_records_is_compared(study, data, store):
    for number, rate in enumerate((1e-2, 1e-3)):
        old = plan_of(changed(study, "epitome_er", learning_rate=rate, epochs=2 + number), data)
        keep(store, old.baselines[0].cells[0], created=f"2026-01-0{number + 1}T00:00:00+00:00")
    plan = plan_of(changed(study, "epitome_er", learning_rate=1e-4, epochs=3), data)
    only = dataclasses.replace(plan, baselines=plan.baselines[:1], transfers=())
    assert lines(only, store) == ["1 of 1: learning_rate of epitome_er 0.001 -> 0.0001: 1 baseline"]


def test_changes_name_fields_of_tables_but_never_the_key_below():
    old = {
        "training": {"epochs": 2, "clip": 1.0},
        "caps": {"test": None},
        "intermediate_key": "a",
        "label": {"kind": "x"},
    }
    new = {"training": {"epochs": 3, "clip": 1.0}, "caps": {"test": 9}, "intermediate_key": "b", "label": {"kind": "y"}}
    found = {name: (before, after) for name, before, after in changes(old, new)}
    assert list(found) == ["training.epochs", "caps.test", "label"]
    assert found["training.epochs"] == ("2", "3")
    assert found["caps.test"] == ("none", "9")


def _planned_again(plan, splits, backbone):
    """The plan on other rows or another backbone."""
    from harness.study.plan import _Grid, _packs

    baselines, transfers = _packs(_Grid(plan.study, backbone, splits, ()), None)
    return dataclasses.replace(plan, splits=splits, backbone=backbone, baselines=baselines, transfers=transfers)


def test_a_merged_row_says_which_parent_is_new_gone_or_trained_anew():
    def merged(parents):
        return {"intermediate": "all", "intermediate_key": None, "merge": {"rule": "outputs", "parents": parents}}

    stored = merged({"a": "1" * 64, "b": "2" * 64})
    said = [
        _other_parents(stored, merged(parents))
        for parents in (
            {"a": "1" * 64, "b": "2" * 64, "c": "3" * 64},
            {"a": "1" * 64},
            {"a": "1" * 64, "b": "9" * 64},
            {"b": "2" * 64, "a": "1" * 64},
        )
    ]
    assert said == [
        "merged row all has a new parent, c",
        "merged row all has no longer the parent b",
        "merged row all stands on other adapters of b than it did",
        "",
    ]
