"""All cells of a column at once: equal to the library alone, and to themselves in any company, to rounding."""

import copy
import dataclasses

import numpy as np
import pytest
import torch
from adapters import BertAdapterModel, XLMRobertaAdapterModel

from adapters_store import Store
from harness.run.pack import run_cells
from harness.scoring.answers import ScoringTask
from harness.scoring.scorer import state_of
from harness.study.cell import make_cell
from harness.study.file import load_study
from harness.study.methods import Adapter, library_config, settings_of
from harness.training.batches import TRAINED, Cutting, cuts, trained_cutting
from harness.training.lanes import fit, frozen
from harness.training.lanes import forward as passes
from harness.training.lanes.forward import forward
from harness.training.lanes.frozen import freeze
from harness.training.lanes.state import stacked
from harness.training.recipe import Part
from tasks.errors import BadStudy
from tests.support.studies.toy_lanes import alone, fitted, intermediates, network, part, trainer

CASES = [
    dict(),
    dict(dtype=torch.float32),
    *(dict(kind=kind) for kind in (BertAdapterModel, XLMRobertaAdapterModel)),
    *(dict(label=label) for label in ("binary", "multilabel", "ordinal", "continuous")),
    *(dict(leave_out=layers) for layers in ((0,), (1,), (2,), (0, 2))),
    dict(longest=110, positions=112),  # rows that are longer than a cut
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_lane_equals_the_library_training_that_cell_alone(case):
    """An epoch without dropout, of every architecture, kind of label and set of layers with adapters."""
    case = {"dtype": torch.float64, "label": "multiclass", "longest": 24} | case
    dtype, label, longest = (case.pop(name) for name in ("dtype", "label", "longest"))
    weights_apart, logits_apart = (1e-9, 1e-6) if dtype == torch.float64 else (1e-5, 1e-4)
    made = network(label=label, **case).to(dtype)
    data, validation, test = (part(count, seed, longest, label) for count, seed in ((64, 0), (16, 9), (20, 7)))
    lanes = intermediates(made, 3)
    start = stacked(made, "t", lanes).trained
    layers = {int(name.split(".")[0]) for name in start if not name.startswith("head.")}
    assert layers == {0, 1, 2} - set(case.get("leave_out", ()))
    together = trainer(copy.deepcopy(made), lanes, dtype=dtype, label=label)
    together.fit(data, validation, lambda *_: None)
    logits, trained = together.predict(test), {name: v.detach() for name, v in together.state.trained.items()}
    for lane, one in enumerate(lanes):
        single = alone(made, one, data, dtype)
        apart = {name: float((single.weights[name] - trained[name][lane]).abs().max()) for name in start}
        moved = max(float((single.weights[name] - start[name][lane]).abs().max()) for name in start)
        assert max(apart.values()) < weights_apart < moved / 100
        np.testing.assert_allclose(single.logits(test), logits[lane], atol=logits_apart)


@pytest.mark.parametrize("multiplies", [True, False], ids=["as this processor", "without products of bf16"])
def test_lanes_in_bf16_stay_near_fp32_and_keep_their_weights_in_fp32(multiplies, monkeypatch):
    if not multiplies:
        monkeypatch.setattr(frozen, "has_bf16_products", lambda: False)
    made, data = network(dropout=0.1), part(96)
    start = {name: value.clone() for name, value in stacked(made, "t", intermediates(made, 3)).trained.items()}
    exact, rounded = trainer(copy.deepcopy(made), intermediates(made, 3)), trainer(made, intermediates(made, 3))
    rounded.frozen = freeze(made, torch.bfloat16)
    before = float((torch.from_numpy(exact.predict(data)) - torch.from_numpy(rounded.predict(data))).abs().max())
    assert 0 < before < 0.1
    for one in (exact, rounded):
        one.fit(data, part(16, seed=9), lambda *_: None)
    moved = torch.cat([(exact.state.trained[n] - start[n]).detach().flatten() for n in start])
    apart = torch.cat([(exact.state.trained[n] - rounded.state.trained[n]).detach().flatten() for n in start])
    assert 0 < float(apart.norm()) < 0.5 * float(moved.norm())
    assert all(value.dtype == torch.float32 for value in rounded.state.trained.values())
    assert all(parameter.dtype == torch.float32 for parameter in made.parameters())


def test_a_lane_that_explodes_does_not_touch_its_neighbours():
    made, data = network(), part(96)
    lanes = intermediates(made, 3)
    calm = fitted(copy.deepcopy(made), lanes, data)
    wild = trainer(copy.deepcopy(made), lanes)
    wild.optimizer.rates[1] = 1e30
    wild.fit(data, part(16, seed=9), lambda *_: None)
    for lane in (0, 2):
        assert all(torch.equal(calm[name][lane], wild.state.trained[name][lane]) for name in calm)


def test_only_bf16_on_a_processor_is_cut_otherwise_than_its_device():
    assert trained_cutting("cpu", is_bf16=False) == TRAINED["cpu"] == Cutting(96)
    assert trained_cutting("cpu", is_bf16=True) == Cutting(192, spare=32)
    assert trained_cutting("cuda", is_bf16=True) == trained_cutting("cuda", is_bf16=False) == TRAINED["cuda"]


@pytest.mark.parametrize(("max_tokens", "spare"), [(96, 0), (192, 32), (4096, 768)])
def test_cuts_keep_every_row_once_within_bounds(max_tokens, spare):
    lengths = np.random.default_rng(0).integers(1, 200, 300).tolist()
    made = list(cuts(range(300), lengths, max_tokens=max_tokens, spare=spare))
    assert sorted(i for cut in made for i in cut) == list(range(300))
    for cut in made:
        padded, used = max(lengths[i] for i in cut) * len(cut), sum(lengths[i] for i in cut)
        assert len(cut) == 1 or padded <= max_tokens
        assert len(cut) == 1 or padded - used <= max(0.12 * padded, spare)
    assert any(sum(lengths[i] for i in cut) < 0.88 * max(lengths[i] for i in cut) * len(cut) for cut in made) == (
        spare > 0
    )


def test_liveness_is_the_largest_change_and_holds_no_more_tokens_at_once_than_an_evaluation(monkeypatch):
    made, rows = network(), [windows[0] for windows in part(16, longest=60).rows]
    lanes = intermediates(made, 3)
    one = trainer(made, lanes)
    bare = trainer(copy.deepcopy(made), lanes)
    bare.state = dataclasses.replace(bare.state, frozen={})
    windows = Part([(row,) for row in rows], np.zeros(16, dtype=np.int64))
    expected = np.abs(one.predict(windows) - bare.predict(windows)).max(axis=(1, 2))
    sizes = []

    def watched(frozen, lanes, batch, masks):
        sizes.append(batch["input_ids"].numel())
        return forward(frozen, lanes, batch, masks)

    monkeypatch.setattr(fit, "forward", watched)
    monkeypatch.setitem(fit.EVALUATED, "cpu", Cutting(64))
    assert one.liveness(rows) == pytest.approx(expected, abs=1e-6)
    assert max(sizes) <= 64 < sum(sizes)
    assert expected[0] == 0 < min(expected[1:])


# Layers without adapters, computed once for all lanes below the first adapter.


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


def test_layers_are_in_keys_only_where_some_have_no_adapter_and_a_method_in_none_leaves_none_out(
    study, tiny, toy_splits
):
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
    with pytest.raises(BadStudy, match="method 'prompt_tuning' is in no layer; leave it out"):
        settings_of(Adapter("prompt_tuning", leave_out=(0,)))
    assert load_study("demo", ["adapter.leave_out=[0, 1]"]).adapter.leave_out == (0, 1)
