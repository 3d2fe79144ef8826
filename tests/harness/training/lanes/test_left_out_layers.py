"""Layers without adapters: what the library trains, computed once for all lanes below the first adapter."""

from __future__ import annotations

import dataclasses

import pytest

from adapters_store import Store
from harness.run.pack import run_cells
from harness.scoring.scorer import state_of
from harness.scoring.scoring_tasks import ScoringTask
from harness.study.cell import make_cell
from harness.study.config import Adapter
from harness.study.file import load_study
from harness.study.methods import library_config, settings_of
from harness.training.lanes import forward as passes
from tasks.errors import BadStudy
from tests.support.studies.toy_lanes import intermediates, network, part, trainer


@pytest.mark.parametrize(
    ("left_out", "widths"), [((), [1, 4, 4]), ((0,), [1, 1, 4]), ((0, 1), [1, 1, 1]), ((1,), [1, 4, 4])]
)
def test_below_the_first_adapter_all_lanes_are_computed_once(monkeypatch, left_out, widths):
    seen = []
    block = passes._block

    def noted(frozen, layer, lanes, depth, hidden, *rest):
        seen.append(len(hidden))
        return block(frozen, layer, lanes, depth, hidden, *rest)

    monkeypatch.setattr(passes, "_block", noted)
    made = network(leave_out=left_out)
    trainer(made, intermediates(made, 4)).predict(part(4))
    assert seen[:3] == widths


def test_a_transfer_stands_on_a_stored_adapter_of_fewer_layers_and_is_scored_with_it(study, tiny, toy_splits, tmp_path):
    store = Store(tmp_path)
    few = dataclasses.replace(study, trainer="lanes", adapter=Adapter(leave_out=(0,)))
    splits = {name: toy_splits(name, seed=seed) for seed, name in enumerate(("one", "two"))}
    below = make_cell(few, tiny, splits["one"], seed=1, setting="full")
    above = make_cell(few, tiny, splits["two"], seed=1, setting="full", intermediate=below)
    for cell in (below, above):
        run_cells([cell], tiny, splits[cell.target], store, lambda *_: None)
    record = store.get(above.key)
    assert record.spec["adapter"]["leave_out"] == [0]
    assert record.results["liveness"] > 0, "the intermediate is alive"
    lanes = state_of(store, [ScoringTask("two", "Two", record, ("no", "yes"), {})]).lanes()
    assert set(lanes.targets) == set(lanes.intermediates) == {1}


# What a study may say.


def test_layers_are_in_keys_only_where_some_have_no_adapter(study, tiny, toy_splits):
    def cell(adapter):
        return make_cell(dataclasses.replace(study, adapter=adapter), tiny, toy_splits("one"), seed=1, setting="full")

    assert "leave_out" not in cell(Adapter()).spec["adapter"]
    assert cell(Adapter()).key == cell(Adapter(leave_out=())).key
    assert cell(Adapter(leave_out=(0,))).key != cell(Adapter()).key
    assert library_config(settings_of(Adapter(leave_out=(1, 0))))["leave_out"] == [0, 1]
    with pytest.raises(BadStudy, match=r"leave_out names layer 2, and the backbone's 2 layers are 0 to 1; correct it"):
        cell(Adapter(leave_out=(0, 2)))
    with pytest.raises(BadStudy, match="names all 2 layers, and nothing would be trained"):
        cell(Adapter(leave_out=(0, 1)))


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("3", r"adapter.leave_out 3 is no list of different layers, from 0, as in \[0, 1, 2\]"),
        ("[0, 0]", r"adapter.leave_out \[0, 0\] is no list of different layers"),
        ("[-1]", r"adapter.leave_out \[-1\] is no list of different layers"),
        ("[true]", r"adapter.leave_out \[True\] is no list of different layers"),
    ],
)
def test_what_is_no_list_of_layers_is_refused(value, said):
    with pytest.raises(BadStudy, match=said):
        load_study("demo", [f"adapter.leave_out={value}"])


def test_a_method_that_is_in_no_layer_leaves_none_out():
    with pytest.raises(BadStudy, match="method 'prompt_tuning' is in no layer; leave it out"):
        settings_of(Adapter("prompt_tuning", leave_out=(0,)))
    assert load_study("demo", ["adapter.leave_out=[0, 1]"]).adapter.leave_out == (0, 1)
