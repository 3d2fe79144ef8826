"""Merges that learn what each parent counts in each layer: on paper, by finite differences, as cells, and killed."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from harness.training.lanes.forward import forward
from harness.training.lanes.merging import merged
from harness.training.lanes.state import GATE, gates, stacked
from harness.training.objective import summed_losses
from tests.harness.training.lanes.test_merging import DOWN, DOWN_BIAS, UP, UP_BIAS, A, B, plain
from tests.support.studies.toy_lanes import intermediates, network, part, trainer

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
    batch = ready._batch([row[0] for row in data.rows], list(range(8)))

    def loss():
        logits = forward(ready.frozen, ready.state.lanes(), batch, None)
        return summed_losses(logits, torch.from_numpy(data.labels), None).sum()

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
