"""Products of lanes in bf16, on a processor that multiplies in it and on one that does not: rounded once."""

from __future__ import annotations

import pytest
import torch

from harness.training.lanes import products
from harness.training.lanes.products import linear, multiplied, multiplied_onto
from harness.training.tensors import CPU

ULP = 2.0**-7  # of bf16 at 1, which has eight binary digits: half of it is how far rounding moves


@pytest.fixture(params=[True, False], ids=["in bf16", "in fp32"])
def is_native(request, monkeypatch):
    """Whether the processor multiplies in bf16: it does, or is treated as if it did not."""
    if request.param and not products.has_bf16_products():
        pytest.skip("this processor has no products of bf16")
    monkeypatch.setattr(products, "has_bf16_products", lambda: request.param)
    return request.param


def drawn(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).bfloat16()


def assert_rounded_once(ours, exact):
    """Within half a unit in the last place of bf16, and what fp32 sums lose."""
    assert ours.dtype == torch.bfloat16
    assert ((ours.double() - exact).abs() <= (ULP / 2) * exact.abs() + 1e-4).all()


def test_batches_of_matrices_are_rounded_once(is_native):
    left, right, bias = drawn(3, 17, 40), drawn(3, 40, 9, seed=1), drawn(3, 1, 9, seed=2)
    exact = left.double() @ right.double()
    assert_rounded_once(multiplied(left, right), exact)
    assert_rounded_once(multiplied_onto(bias, left, right), bias.double() + exact)


@pytest.mark.parametrize("with_onednn", [True, False])
def test_frozen_layers_and_their_gradients_are_rounded_once(is_native, with_onednn, monkeypatch):
    if not with_onednn:
        monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    module = torch.nn.Linear(48, 80)
    values = drawn(2, 30, 48).requires_grad_(True)
    ours, gradient = linear([module], torch.bfloat16, CPU)(values), drawn(2, 30, 80, seed=1)
    weight, bias = module.weight.detach().bfloat16().double(), module.bias.detach().bfloat16().double()
    assert_rounded_once(ours.detach(), (values.double() @ weight.t() + bias).detach())
    [passed] = torch.autograd.grad(ours, values, gradient)
    assert_rounded_once(passed, gradient.double() @ weight)


def test_fp32_is_never_widened(monkeypatch):
    monkeypatch.setattr(products, "has_bf16_products", lambda: False)
    left, right = drawn(2, 3, 4).float(), drawn(2, 4, 5).float()
    assert torch.equal(multiplied(left, right), torch.bmm(left, right))
    assert not products.is_widened(torch.float32, CPU)
    assert not products.is_widened(torch.bfloat16, torch.device("meta"))
