"""Stored cells without weights are trained again where a missing cell computes with them, and only there."""

import json
from contextlib import suppress

import pytest

from adapters_store import Store
from adapters_store.archive import archive
from adapters_store.restore import restore
from adapters_store.store import has_weights
from harness.api import Study
from harness.run.grid import GridReport, Outcome, run_grid, steps_of
from harness.study.plan import weightless
from tasks.errors import BadInput

STUDY = """
tasks = ["epitome_er", "news_empathy"]
extends = "tiny"
trainer = "lanes"
max_train = 32
max_val = 16
max_test = 16
[training]
epochs = 1
"""
MERGED = """
[merged.first]
rule = "outputs"
best = 1
by = "validation"
"""


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """The file of a study of two tasks, and a light archive of its first column's cells: two baselines, a transfer."""
    folder = tmp_path_factory.mktemp("again")
    file = folder / "pair.toml"
    file.write_text(STUDY)
    first = Study(file, store=folder / "first")
    assert first.run(only_targets=["epitome_er"]).is_complete
    archive(first.store, "pair", [], folder / "pair.tar.gz", is_light=True)
    return file, folder / "pair.tar.gz"


def restored(study, tmp_path):
    """The study with a store of its own, into which the light archive was restored."""
    file, packed = study
    restore(packed, Store(tmp_path / "own"))
    return Study(file, store=tmp_path / "own")


def test_a_run_trains_again_what_missing_cells_compute_with(study, tmp_path):
    own = restored(study, tmp_path)
    before = {key: own.store.get(key) for key in own.store.keys()}
    [parent] = weightless(own.plan, own.store)
    assert (parent.target, parent.role) == ("epitome_er", "baseline")
    report = own.run()
    assert report.is_complete
    assert [cell.label for cell in report.done if cell.key in before] == [parent.label]
    assert has_weights(own.store.get(parent.key))
    assert own.store.get(parent.key).results == before[parent.key].results
    others = before.keys() - {parent.key}
    assert {key: own.store.get(key).to_json() for key in others} == {key: before[key].to_json() for key in others}
    assert list((own.store.root / "aside").iterdir()) == []


class Refusing:
    def run(self, function, steps):
        assert steps
        raise BadInput("no cluster answers")


class Failing:
    def run(self, function, steps):
        yield from (Outcome(cell, "no memory", was_run=True) for step in steps for cell in step.pack.cells)


@pytest.mark.parametrize("engine", [Refusing(), Failing()], ids=["refused", "failed"])
def test_what_was_set_aside_is_put_back_where_it_is_not_trained_again(study, tmp_path, engine):
    own = restored(study, tmp_path)
    before = {key: own.store.get(key).to_json() for key in own.store.keys()}
    with suppress(BadInput):
        run_grid(own.plan, own.store, engine, None, lambda report: None)
    assert {key: own.store.get(key).to_json() for key in own.store.keys()} == before
    assert own.run().is_complete


def test_a_dry_run_moves_nothing_and_nothing_is_trained_again_where_nothing_is_missing(study, tmp_path):
    own = restored(study, tmp_path)
    before = own.store.keys()
    steps = steps_of(own.plan, own.store, GridReport())
    assert {cell.label for step in steps for cell in step.pack.cells} == {
        "epitome_er (baseline), seed 1, full",
        "epitome_er -> news_empathy, seed 1, full",
    }
    assert own.store.keys() == before
    plan = own.plan.only(["epitome_er"])
    assert weightless(plan, own.store) == []
    assert steps_of(plan, own.store, GridReport()) == []


def test_what_only_decides_about_a_merge_needs_no_weights(study, tmp_path):
    file, packed = study
    merged = tmp_path / "merged.toml"
    merged.write_text(file.read_text() + MERGED)
    own = Study(merged, store=tmp_path / "own")
    restore(packed, own.store)
    plan = own.plan.only(["epitome_er"])
    [cell] = [cell for cell in plan.cells if cell.role == "merged"]
    assert len(cell.stands_on) == 2, "a parent, and the transfer whose validation score chooses"
    assert [again.label for again in weightless(plan, own.store)] == ["news_empathy (baseline), seed 1, full"]


def test_a_plan_says_which_stored_cells_are_trained_again_and_why(study, tmp_path, printed):
    own = restored(study, tmp_path)
    arguments = ["plan", str(study[0]), "--store", str(own.store.root)]
    lines = printed(*arguments, "--why").splitlines()
    assert "4 cells in 4 packs; 2 stored, 2 to train" in lines
    assert "of these 1 stored cell has no weights, which cells to train stand on, and will be trained again" in lines
    assert "1 of 4: stored without the weights that other cells must be trained with: 1 baseline" in lines
    assert json.loads(printed(*arguments, "--json"))["trained_again"] == 1


def test_a_result_that_training_again_does_not_repeat_is_named(study, tmp_path, caplog):
    own = restored(study, tmp_path)
    [parent] = weightless(own.plan, own.store)
    light = own.store.get(parent.key)
    folder = own.store.root / "objects" / parent.key
    with own.store.staging() as staged:
        for name in light.files:
            (staged / name).write_bytes((folder / name).read_bytes())
        own.store.set_aside(parent.key)
        other = {**light.results, "validation": 0.125}
        own.store.put(parent.key, light.spec, other, light.provenance, staged)
    own.store.set_aside(parent.key)
    assert own.run(only_targets=["epitome_er"]).is_complete
    assert f"validation: {light.results['validation']!r} kept, 0.125 dropped" in caplog.text
