"""Adapters merged at loading: every rule on paper, against the library, in any order, alone, killed and resumed."""

import copy
import dataclasses

import numpy as np
import pytest
import torch
from adapters import SeqBnConfig
from adapters.composition import Average, Stack

from adapters_store import key_of
from harness.study.cell import make_cell
from harness.study.intermediates import weights_of
from harness.training.batches import collate
from harness.training.lanes.fit import batch_of
from harness.training.lanes.forward import forward
from harness.training.lanes.state import GATE, gates, parameter_names, stacked
from harness.training.lanes.train import check_shapes, merge_of, merged, with_target
from harness.training.memory import shape_of
from harness.training.objective import row_losses
from harness.training.recipe import Recipe
from tasks.errors import BadInput
from tests.support.studies.toy_column import content
from tests.support.studies.toy_lanes import intermediates, network, part, trainer

DOWN, DOWN_BIAS, UP, UP_BIAS = ("adapter_down.0.weight", "adapter_down.0.bias", "adapter_up.weight", "adapter_up.bias")


def unit(down, down_bias, up, up_bias):
    """An adapter of one layer and one unit on two values."""
    values = {DOWN: [down], DOWN_BIAS: [down_bias], UP: [[part] for part in up], UP_BIAS: up_bias}
    return {f"0.{name}": torch.tensor(value) for name, value in values.items()}


A = unit([1.0, -2.0], 0.5, [4.0, 0.0], [1.0, 0.0])
B = unit([3.0, 2.0], -0.5, [-2.0, 8.0], [0.0, 2.0])


def plain(weights):
    return {name.removeprefix("0."): value.tolist() for name, value in weights.items()}


def test_weights_are_averaged_value_by_value():
    assert plain(merged("weights", [A, B], [0.5, 0.5], {}, 1.0)) == {
        DOWN: [[2.0, 0.0]], DOWN_BIAS: [0.0], UP: [[1.0], [4.0]], UP_BIAS: [0.5, 1.0],
    }  # fmt: skip
    assert plain(merged("weights", [A, B], [0.75, 0.25], {}, 1.0))[DOWN] == [[1.5, -1.0]]


def test_outputs_lie_side_by_side_with_the_ups_divided_by_their_number():
    assert plain(merged("outputs", [A, B], [0.5, 0.5], {}, 1.0)) == {
        DOWN: [[1.0, -2.0], [3.0, 2.0]], DOWN_BIAS: [0.5, -0.5], UP: [[2.0, -1.0], [0.0, 4.0]], UP_BIAS: [0.5, 1.0],
    }  # fmt: skip


def test_ties_trims_elects_signs_and_averages_what_agrees():
    start = unit([1.0, 1.0], 0.0, [0.0, 0.0], [0.0, 0.0])
    # Changes of A: down (0, -3), bias .5, up (4, 0), up bias (1, 0); of B: (2, 1), -.5, (-2, 8), (0, 2).
    # Of seven values half is four: A keeps -3, .5, 4, 1; B keeps 2, -2, 8, 2 (1 and -.5 are smaller).
    # Signs: down (B: +, A: -), bias +, up (4 - 2: +, +), up bias (+, +). Means of those that agree:
    assert plain(merged("ties", [A, B], [0.5, 0.5], start, 0.5)) == {
        DOWN: [[3.0, -2.0]], DOWN_BIAS: [0.5], UP: [[4.0], [8.0]], UP_BIAS: [1.0, 2.0],
    }  # fmt: skip
    whole = plain(merged("ties", [A, B], [0.5, 0.5], start, 1.0))
    assert whole[DOWN_BIAS] == [0.0], "two changes that cancel out elect no sign, and the start stays"


@pytest.mark.parametrize("rule", ["outputs", "weights", "ties"])
def test_one_parent_is_itself_to_the_last_bit(rule):
    made = network()
    (adapter,) = intermediates(made, 2)[1:]
    alike = merged(rule, [adapter], [1.0], {name: torch.zeros_like(value) for name, value in adapter.items()}, 1.0)
    assert all(torch.equal(alike[name], value) for name, value in adapter.items())


def test_sums_are_taken_in_double_precision():
    big, small = ({name: torch.full_like(value, size) for name, value in A.items()} for size in (1e8, 1.0))
    opposite = {name: -value for name, value in big.items()}
    third = merged("weights", [big, small, opposite], [1 / 3] * 3, {}, 1.0)
    assert third["0." + UP_BIAS].tolist() == pytest.approx([1 / 3] * 2, abs=1e-7)


def test_adapters_of_two_shapes_are_merged_by_their_outputs_alone():
    wide = merged("outputs", [A, B], [0.5, 0.5], {}, 1.0)
    check_shapes("outputs", [A, wide])
    assert merged("outputs", [A, wide], [0.5, 0.5], {}, 1.0)["0." + DOWN].shape == (3, 2)
    for rule in ("weights", "ties"):
        with pytest.raises(BadInput, match=f"several shapes, which rule '{rule}'"):
            check_shapes(rule, [A, wide])


def library_logits(made, adapters, data, **options):
    """Logits of the adapters library for ``t`` on the average of the adapters' outputs."""
    own = copy.deepcopy(made)
    for number, adapter in enumerate(adapters):
        own.add_adapter(f"i{number}", config=SeqBnConfig(reduction_factor=16))
        parameters = dict(own.named_parameters())
        with torch.no_grad():
            for ours, theirs in parameter_names(own, f"i{number}").items():
                if ours in adapter:
                    parameters[theirs].copy_(adapter[ours])
    average = Average(*(f"i{number}" for number in range(len(adapters))), **options)
    own.set_active_adapters(Stack(average, "t"))
    own.active_head = "t"
    with torch.no_grad():
        return own.eval()(**collate([row[0] for row in data.rows], 1, has_segments=False), head="t").logits.numpy()


def test_outputs_equal_the_library_s_average_where_it_divides_once():
    # adapters 1.3.0 makes the weights of an Average sum to 1, and then takes the mean over the adapters: by default
    # everything, what passes by the adapters too, is divided by their number once more. With weights of 1 that are not
    # normalised the mean is the average that its documentation promises.
    made, data = network(), part(24, seed=3)
    adapters = intermediates(made, 3)[1:]
    wide = merged("outputs", adapters, [0.5, 0.5], {}, 1.0)
    (ours,) = trainer(made, [wide]).predict(data)
    theirs = library_logits(made, adapters, data, weights=[1, 1], normalize_weights=False)
    np.testing.assert_allclose(ours, theirs, atol=1e-6)
    assert np.abs(library_logits(made, adapters, data) - theirs).max() > 0.01


def test_zero_units_beside_a_narrow_adapter_change_no_bit_and_get_no_place_in_what_it_adds():
    made, data = network(), part(24, seed=3)
    first, second = intermediates(made, 3)[1:]
    wide = merged("outputs", [first, second], [0.5, 0.5], {}, 1.0)
    together, apart = stacked(made, "t", [first, wide, None]), stacked(made, "t", [first])
    for name, value in apart.frozen.items():
        padded = together.frozen[name][0]
        inside = padded[tuple(slice(size) for size in value.shape[1:])]
        assert torch.equal(inside, value[0])
        assert padded.abs().sum() == inside.abs().sum()
    beside = trainer(made, [first, wide]).predict(data)
    np.testing.assert_allclose(beside[0], trainer(made, [first]).predict(data)[0], atol=1e-6)


# Cells on merges, trained as lanes.


TABLES = {
    "all": {},
    "mean": {"rule": "weights"},
    "two": {"best": 2, "by": "validation"},
}


def test_a_merge_of_one_gives_that_transfer_s_logits_bit_for_bit(column):
    (cell,) = column.on_merges(single={"parents": ["two"]}).values()
    transfer = next(lane for lane in column.lanes if lane.intermediate == "two")
    alone, on_merge = (column.run(column.store_with_baselines(), [own]) for own in (transfer, cell))
    for name in ("test.parquet", "adapter/adapter.safetensors", "adapter/model_head.safetensors"):
        assert on_merge.open(cell.key, name).read_bytes() == alone.open(transfer.key, name).read_bytes()
    assert on_merge.get(cell.key).results["merge"]["weights"] == {"two": 1.0}


def test_the_best_by_validation_are_those_whose_transfers_score_highest(column):
    cells = column.on_merges(**{f"best{n}": {"best": n, "by": "validation"} for n in (1, 2, 3)})
    scores = {lane.intermediate: column.whole.get(lane.key).results["validation"] for lane in column.lanes}
    ranked = sorted(scores, key=lambda name: (-scores[name], name))
    for number in (1, 2, 3):
        weights = weights_of(cells[f"best{number}"].merge, column.whole)
        assert weights == dict.fromkeys(sorted(ranked[:number]), pytest.approx(1 / number))


def test_parents_in_another_order_have_the_same_key_and_bytes(column):
    first, second = (
        column.on_merges(some={"parents": list(parents)})["some"] for parents in (("two", "four"), ("four", "two"))
    )
    assert first.key == second.key == key_of(first.spec)
    assert merge_of(first, column.base, {}).sha256 == merge_of(second, column.base, {}).sha256


def test_what_decides_changes_the_key_and_other_rows_do_not(column):
    alone = column.on_merges(all={})["all"]
    assert column.on_merges(**TABLES)["all"].key == alone.key
    changed = [
        column.on_merges(all=table)["all"]
        for table in ({"rule": "weights"}, {"parents": ["two", "three"]}, {"best": 2, "by": "validation"},
                      {"best": 1, "by": "validation"}, {"weights": "vocabulary_share"}, {"weights": "logme"})
    ]  # fmt: skip
    assert len({cell.key for cell in (alone, *changed)}) == 1 + len(changed)


def test_cells_on_merges_prove_theirs_alive_and_unchanged_and_say_what_it_was(column):
    cells = list(column.on_merges(**TABLES).values())
    store = column.run(column.store_with_baselines(), cells[:2])
    for cell in cells[:2]:
        results = store.get(cell.key).results
        assert results["intermediate_unchanged"]
        assert results["liveness"] > 0
        assert results["merge"]["sha256"] == merge_of(cell, column.base, {}).sha256
        assert list(results["merge"]["weights"]) == ["four", "three", "two"]


@pytest.mark.parametrize("tables", [{"all": {}, "mean": {"rule": "weights"}}, {"learned": {"rule": "gated"}}])
def test_a_killed_pack_of_merged_rows_ends_with_the_same_bytes(column, tables):
    cells = list(column.on_merges(**tables).values())
    whole = column.run(column.store_with_baselines(), cells)
    store = column.interrupted(column.store_with_baselines(), cells, 2)
    column.run(store, cells)
    for cell in cells:
        assert content(store, cell) == content(whole, cell)


def start_of(study, column, name):
    """An adapter before its training."""
    cell = make_cell(study, column.tiny, column.splits[name], seed=1, setting="full")
    made = with_target(Recipe.of([cell]), column.tiny)
    parameters = dict(made.named_parameters())
    names = parameter_names(made, name)
    return torch.cat([parameters[names[ours]].flatten() for ours in sorted(names) if not ours.startswith("head.")])


def test_adapters_of_a_study_with_a_shared_start_start_alike(column):
    shared = dataclasses.replace(column.study, start="shared")
    starts = [start_of(study, column, name) for study in (shared, column.study) for name in ("one", "two")]
    assert torch.equal(starts[0], starts[1])
    assert not torch.equal(starts[2], starts[3])
    assert not torch.equal(starts[0], starts[2])


def test_a_wide_intermediate_is_in_the_plan_of_memory(column):
    wide, narrow = (column.on_merges(**TABLES)[name] for name in ("all", "mean"))
    assert [Recipe.of([cell]).below for cell in (wide, narrow, column.lanes[0])] == [3, 1, 1]
    parts = {"train": column.encoded("train")}
    sizes = [shape_of(Recipe.of([cell]), column.tiny, parts).lane_bytes() for cell in (wide, narrow)]
    assert sizes[0] > sizes[1]


# Merges that learn what each parent counts in each layer.


PARENTS = ["four", "three", "two"]


def gated(made, adapters, weights, dtype=torch.float32):
    """A lane on these adapters with these weights, ready to be trained."""
    ready = trainer(made, [merged("gated", adapters, weights, {}, 1.0)], dtype=dtype)
    ready.state = gates(ready.state, weights)
    for name, value in ready.state.trained.items():
        ready.state.trained[name] = value.detach().to(dtype).requires_grad_()
    return ready


def test_every_parent_has_one_more_unit_that_carries_its_bias():
    assert plain(merged("gated", [A, B], [0.5, 0.5], {}, 1.0)) == {
        DOWN: [[1.0, -2.0], [0.0, 0.0], [3.0, 2.0], [0.0, 0.0]],
        DOWN_BIAS: [0.5, 1.0, -0.5, 1.0],
        UP: [[4.0, 1.0, -2.0, 0.0], [0.0, 0.0, 8.0, 2.0]],
        UP_BIAS: [0.0, 0.0],
    }


@pytest.mark.parametrize("weights", [[0.5, 0.5], [0.9, 0.1], [1.0, 0.0]])
def test_before_training_it_is_what_the_parents_add_with_these_weights(weights):
    made, data = network(), part(24, seed=3)
    adapters = intermediates(made, 3)[1:]
    ours = gated(made, adapters, weights).predict(data)
    theirs = trainer(made, [merged("outputs", adapters, weights, {}, 1.0)]).predict(data)
    np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_the_gradient_of_a_weight_is_the_loss_s_slope():
    made, data = network().double(), part(8, seed=3)
    adapters = [{name: value.double() for name, value in own.items()} for own in intermediates(made, 3)[1:]]
    ready = gated(made, adapters, [0.7, 0.3], torch.float64)
    batch = batch_of(ready.frozen, [row[0] for row in data.rows], range(8), 1, has_segments=False)

    def loss():
        logits = forward(ready.frozen, ready.state.lanes(), batch, None)
        return row_losses(logits, torch.from_numpy(data.labels), None).sum()

    loss().backward()
    step = 1e-5
    for name, gate in ready.state.trained.items():
        if not name.startswith(GATE):
            continue
        for place in range(2):
            ends = []
            for sign in (1, -1):
                with torch.no_grad():
                    gate[0, place] += sign * step
                    ends.append(float(loss()))
                    gate[0, place] -= sign * step
            slope = (ends[0] - ends[1]) / (2 * step)
            assert float(gate.grad[0, place]) == pytest.approx(slope, rel=1e-5, abs=1e-8)
            assert abs(slope) > 1e-4, "it says something"


def test_a_cell_trains_its_weights_and_its_record_has_them_by_parent_and_layer(column):
    (cell,) = column.on_merges(learned={"rule": "gated"}).values()
    store = column.run(column.store_with_baselines(), [cell])
    results = store.get(cell.key).results
    assert results["intermediate_unchanged"]
    assert results["liveness"] > 0
    assert list(results["merge"]["weights"].values()) == pytest.approx([1 / 3] * 3)
    learned = results["merge"]["learned"]
    assert list(learned) == PARENTS
    layers = column.tiny.shape[0]
    assert {len(values) for values in learned.values()} == {layers}
    assert all(value != pytest.approx(1 / 3, abs=1e-7) for values in learned.values() for value in values)
    fixed = column.on_merges(fixed={"rule": "outputs"})["fixed"]
    also = column.run(column.store_with_baselines(), [fixed]).get(fixed.key).results
    assert "learned" not in also["merge"]
    assert results["trainable_parameters"] == also["trainable_parameters"] + 3 * layers


def test_a_lane_of_its_state_alone_keeps_its_weights():
    made = network()
    adapters = intermediates(made, 3)[1:]
    state = gates(stacked(made, "t", [merged("gated", adapters, [0.5, 0.5], {}, 1.0)]), [0.5, 0.5])
    assert all(torch.equal(state.only([0]).trained[name], value) for name, value in state.trained.items())
