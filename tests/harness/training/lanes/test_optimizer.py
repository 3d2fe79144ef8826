"""The optimizer of all lanes on one tensor, against one that goes from name to name: the same bits."""

import math

import pytest
import torch
from torch.optim import AdamW

from harness.training.lanes import state
from harness.training.lanes.state import ALIGNED, FlatWeights, LaneAdamW, rate_factor

LANES, STEPS, CLIP, WARMUP = 3, 7, 1.0, 0.3
RATES, DECAYS = [1e-3, 5e-2, 3e-4], [0.0, 0.1, 0.01]
SHAPES = {"0.down": (5, 32), "0.bias": (5,), "head.1": (32, 32), "0.up": (32, 5), "gate.0": (2,), "head.4": (3, 32)}


def drawn(dtype, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return {
        name: torch.randn(LANES, *shape, generator=generator, dtype=torch.float64).to(dtype)
        for name, shape in SHAPES.items()
    }


def by_name(named, gradients, factors):
    """AdamW's steps, written out name by name."""
    values = {name: value.clone() for name, value in named.items()}
    first, second = ({name: torch.zeros_like(value) for name, value in named.items()} for _ in range(2))
    rates, decays = (torch.tensor(own, dtype=torch.float64) for own in (RATES, DECAYS))
    for number, (gradient, factor) in enumerate(zip(gradients, factors, strict=True), 1):
        squares = [one.flatten(1).square().sum(dim=1) for one in gradient.values()]
        scale = (CLIP / (torch.stack(squares).sum(dim=0).sqrt() + 1e-6)).clamp(max=1.0)
        rate, root = rates * factor, math.sqrt(1 - 0.999**number)
        for name, value in values.items():
            size, kept, short = (
                one.to(value.dtype).view(-1, *[1] * (value.dim() - 1))
                for one in (rate / (1 - 0.9**number), 1 - rate * decays, scale)
            )
            own = gradient[name] * short
            value.mul_(kept)
            first[name].lerp_(own, 1 - 0.9)
            second[name].mul_(0.999).addcmul_(own, own, value=1 - 0.999)
            value.sub_(first[name] / (second[name].sqrt() / root + 1e-8) * size)
    return values, first, second


def in_one(named, gradients, factors):
    """The same through the flat tensor, gradients by way of what the forward pass takes."""
    weights = FlatWeights(named)
    one = LaneAdamW(weights, RATES, DECAYS)
    for gradient, planned in zip(gradients, one.plan(factors), strict=True):
        parts = weights.cast(weights.values.dtype)
        torch.autograd.backward(list(parts.values()), list(gradient.values()))
        one.step(planned, CLIP)
    return weights.named(), *one.moments()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("steps", [STEPS, torch.tensor([3, 7, 5])], ids=["alike", "each its own"])
def test_one_tensor_moves_as_one_for_each_name_bit_for_bit(dtype, steps):
    named = drawn(dtype)
    gradients = [{n: v * (0.02 if seed % 2 else 1) for n, v in drawn(dtype, seed + 1).items()} for seed in range(STEPS)]
    factors = rate_factor(torch.arange(STEPS, dtype=torch.float64).unsqueeze(1), steps, WARMUP)
    each = [rate_factor(step, steps, WARMUP) for step in range(STEPS)]
    for ours, theirs in zip(in_one(named, gradients, factors), by_name(named, gradients, each), strict=True):
        assert list(ours) == list(theirs)
        assert all(torch.equal(ours[name].detach(), value) for name, value in theirs.items())


def test_norms_that_are_summed_at_once_move_weights_by_rounding_only(monkeypatch):
    named, gradients = drawn(torch.float32), [drawn(torch.float32, seed + 1) for seed in range(STEPS)]
    factors = torch.ones(STEPS, 1, dtype=torch.float64)
    grouped, *_ = in_one(named, gradients, factors)
    monkeypatch.setattr(state, "sums_by_name", lambda family: False)
    at_once, *_ = in_one(named, gradients, factors)
    for name, value in grouped.items():
        torch.testing.assert_close(at_once[name], value, rtol=0, atol=1e-6)


def test_a_lane_moves_as_torch_s_own_optimizer_moves_it_alone():
    named, gradients = drawn(torch.float64), [drawn(torch.float64, seed + 1) for seed in range(STEPS)]
    ours, *_ = in_one(named, gradients, torch.ones(STEPS, 1, dtype=torch.float64))
    for lane in range(LANES):
        own = [torch.nn.Parameter(value[lane].clone()) for value in named.values()]
        theirs = AdamW(own, lr=RATES[lane], weight_decay=DECAYS[lane])
        for gradient in gradients:
            for parameter, value in zip(own, gradient.values(), strict=True):
                parameter.grad = value[lane].clone()
            torch.nn.utils.clip_grad_norm_(own, CLIP)
            theirs.step()
        for name, parameter in zip(named, own, strict=True):
            torch.testing.assert_close(ours[name][lane].detach(), parameter.detach(), rtol=0, atol=1e-12)


def test_names_see_what_is_trained_and_rows_begin_where_tensors_of_their_own_would():
    named = drawn(torch.float32)
    weights = FlatWeights(named)
    assert weights.values.shape[1] % ALIGNED == 0
    for name, value in weights.named().items():
        assert torch.equal(value, named[name])
        with torch.no_grad():
            value.fill_(7.0)
        assert torch.equal(weights.cast(torch.bfloat16)[name].detach().float(), torch.full_like(value, 7.0))
        if value[0].numel() % ALIGNED == 0:
            assert value.storage_offset() % ALIGNED == 0
    kinds = {name: part.dtype for name, part in weights.cast(torch.bfloat16).items()}
    assert [name for name, kind in kinds.items() if kind == torch.float32] == ["head.1", "gate.0", "head.4"]


def test_a_step_without_gradients_is_one_of_gradients_of_nothing():
    named = drawn(torch.float32)
    weights = FlatWeights(named)
    one = LaneAdamW(weights, RATES, [0.0] * LANES)
    one.step(one.plan(torch.ones(1, 1, dtype=torch.float64))[0], CLIP)
    assert all(torch.equal(value.detach(), named[name]) for name, value in weights.named().items())
