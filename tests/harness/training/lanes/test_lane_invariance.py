"""What a lane must not depend on, dropout on, over 50 steps; and what it shares with the library whatever it learns."""

import copy
import dataclasses

import numpy as np
import pytest
import torch

from harness.training.batches import cuts
from harness.training.lanes import fit
from harness.training.lanes.frozen import freeze
from tests.support.studies.toy_lanes import fitted, intermediates, network, part, trainer

STEPS_50 = 400  # rows of 50 steps, at 8 a step
LANES = 5
FP32, BF16 = (2e-6, 5e-6), (2e-3, 8e-2)  # of weights and logits: five times what was measured (docs/training.md)


@pytest.fixture(scope="module")
def noisy():
    """A network with dropout, the lanes of a column (the baseline first), and rows for 50 steps."""
    made = network(dropout=0.1)
    return made, intermediates(made, LANES), part(STEPS_50)


def trained(noisy, chosen, dtype=torch.float32):
    """Weights after 50 steps, and logits of unseen rows, of these lanes trained together."""
    made, lanes, data = noisy
    one = trainer(copy.deepcopy(made), [lanes[i] for i in chosen])
    one.frozen = freeze(made, dtype)
    one.fit(data, part(16, seed=9), lambda *_: None)
    return {name: value.detach() for name, value in one.state.trained.items()}, one.predict(part(100, seed=3))


@pytest.fixture(scope="module")
def together(noisy):
    return trained(noisy, range(LANES))


def assert_same(some, chosen, whole, roundings=FP32):
    """Lane ``chosen[i]`` of the whole pack is lane ``i`` of ``some``, weights and logits, within ``roundings``."""
    of_weights, of_logits = roundings
    for place, lane in enumerate(chosen):
        assert all(float((some[0][n][place] - whole[0][n][lane]).abs().max()) < of_weights for n in whole[0])
        assert float(np.abs(some[1][place] - whole[1][lane]).max()) < of_logits


@pytest.mark.parametrize("chosen", [[0], [1, 2], [4, 1]], ids=str)
def test_a_lane_is_the_same_to_rounding_alone_in_a_chunk_and_beside_other_neighbours(noisy, together, chosen):
    assert_same(trained(noisy, chosen), chosen, together)


def test_in_bf16_a_lane_is_the_same_to_the_roundings_of_bf16(noisy):
    whole, some = (trained(noisy, chosen, torch.bfloat16) for chosen in (range(LANES), [4, 1]))
    assert_same(some, [4, 1], whole, BF16)


def one_by_one(numbers, lengths, *_):
    return ([number] for number in numbers)


def uncut(numbers, lengths, *_):
    return iter([list(numbers)])


@pytest.mark.parametrize("cut", [one_by_one, uncut])
def test_a_lane_is_the_same_to_rounding_however_batches_are_cut(noisy, together, cut, monkeypatch):
    lengths = [len(row[0].ids) for row in noisy[2].rows]
    assert 1 < len(list(cuts(range(8), lengths))) < 8  # neither is what is usually done
    monkeypatch.setattr(fit, "cuts", cut)
    assert_same(trained(noisy, [0, 3]), [0, 3], together)


def test_lanes_do_differ_from_each_other_and_from_another_seed(noisy, together):
    """Otherwise the tests above would hold for an engine that trains nothing."""
    weights = together[0]
    start = trainer(copy.deepcopy(noisy[0]), [None]).state.trained
    for lane in range(LANES):
        assert max(float((weights[n][lane] - start[n][0].detach()).abs().max()) for n in weights) > 1e-3
    assert max(float((weights[n][0] - weights[n][4]).abs().max()) for n in weights) > 1e-3


def test_an_intermediate_of_zeros_gives_the_baseline_exactly(noisy):
    made, lanes, data = noisy
    zeros = {name: torch.zeros_like(value) for name, value in lanes[1].items()}
    weights = fitted(copy.deepcopy(made), [None, zeros, lanes[1]], data)
    assert all(torch.equal(value[0], value[1]) for value in weights.values())
    assert not all(torch.equal(value[0], value[2]) for value in weights.values())


def test_lanes_without_shared_noise_have_masks_of_their_own_that_follow_the_lane():
    made, data = network(dropout=0.1), part(96)
    lanes = [None, None, None]

    def weights(chosen, noise):
        one = trainer(copy.deepcopy(made), [lanes[i] for i in chosen])
        one.recipe = dataclasses.replace(one.recipe, noise=noise)
        one.fit(data, part(16, seed=9), lambda *_: None)
        return {name: value.detach() for name, value in one.state.trained.items()}

    shared, apart = weights([0, 1, 2], ()), weights([0, 1, 2], ("a", "b", "c"))
    few = weights([0, 1], ("c", "a"))
    assert all(torch.equal(shared[name][0], shared[name][1]) for name in shared)
    assert any(float((apart[name][0] - apart[name][1]).abs().max()) > 1e-4 for name in apart)
    for place, lane in ((0, 2), (1, 0)):
        assert all(float((few[name][place] - apart[name][lane]).abs().max()) < 1e-5 for name in few)
