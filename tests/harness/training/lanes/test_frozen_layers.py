"""The frozen encoder's parts by themselves, against the same mathematics written out."""

from dataclasses import replace
from math import sqrt

import pytest
import torch
from torch.nn import functional

from harness.training.lanes import frozen
from harness.training.lanes.forward import Bottleneck
from harness.training.lanes.frozen import AllTokens, FirstToken, Norm, freeze, linear, multiplied, multiplied_onto
from harness.training.tensors import CPU
from tests.support.studies.toy_lanes import network

LANES, TEXTS, TOKENS, WIDTH, HEADS = 3, 2, 7, 32, 4


def inputs(seed=0):
    """Vectors of tokens, scores that hide the second text's last three tokens, and a mask of what scores become."""
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.randn(LANES, TEXTS, TOKENS, WIDTH, generator=generator, dtype=torch.float64)
    hidden_from = torch.zeros(TEXTS, 1, 1, TOKENS, dtype=torch.float64)
    hidden_from[1, ..., 4:] = torch.finfo(torch.float64).min
    mask = (torch.rand(TEXTS, HEADS, TOKENS, TOKENS, generator=generator) > 0.3).double() / 0.7
    return hidden.requires_grad_(True), hidden_from, mask


def last_layer(made):
    """Attention of all tokens and of the first alone, from the weights of one layer."""
    first = freeze(made.to(torch.float64), torch.float64).layers[-1].attention
    own = made.base_model.encoder.layer[-1].attention.self
    scales = [1 / sqrt(WIDTH // HEADS), 1.0, 1.0]
    return AllTokens(linear([own.query, own.key, own.value], torch.float64, CPU, scales), HEADS), first


@pytest.mark.parametrize("is_masked", [True, False])
def test_attention_of_the_first_token_is_that_of_all_tokens_for_the_first_one(is_masked):
    every, first = last_layer(network())
    assert isinstance(first, FirstToken)
    hidden, hidden_from, mask = inputs()
    whole = every(hidden, hidden_from, mask if is_masked else None)[:, :, :1]
    alone = first(hidden, hidden_from, mask[:, :, :1] if is_masked else None)
    torch.testing.assert_close(alone, whole, rtol=1e-12, atol=1e-12)
    weights = torch.randn_like(whole)
    gradients = [torch.autograd.grad((one * weights).sum(), hidden)[0] for one in (alone, whole)]
    torch.testing.assert_close(*gradients, rtol=1e-11, atol=1e-12)
    assert float(gradients[0].abs().max()) > 1e-3


def test_the_bias_of_values_counts_as_often_as_tokens_are_kept():
    """Dropout leaves weights that do not add up to one, so the bias of values is more than a constant."""
    first = last_layer(network())[1]
    first = replace(first, value=torch.zeros_like(first.value), value_bias=torch.ones_like(first.value_bias))
    hidden, hidden_from, mask = inputs()
    kept = first(hidden, hidden_from, mask[:, :, :1])
    assert float(kept.detach().std()) > 0.05
    assert torch.allclose(first(hidden, hidden_from, None), torch.ones(1, dtype=torch.float64))


@pytest.mark.parametrize("is_masked", [True, False])
def test_the_gradient_of_attention_is_that_of_small_differences(is_masked):
    every, _ = last_layer(network())
    hidden, hidden_from, mask = inputs()
    mask = mask[:, :, :3, :3] if is_masked else None
    few = hidden.detach()[:1, :, :3].requires_grad_(True)
    assert torch.autograd.gradcheck(lambda values: every(values, hidden_from[..., :3], mask), few)


@pytest.mark.parametrize(("lanes", "is_frozen"), [(LANES, False), (LANES, True), (1, False)])
def test_the_gradients_of_adapters_are_those_of_small_differences(lanes, is_frozen):
    """With ``lanes`` 1 the values are one for all lanes, as they are below the first adapter."""
    generator = torch.Generator().manual_seed(0)
    sizes = [(LANES, 2, 6), (LANES, 1, 2), (LANES, 6, 2), (LANES, 1, 6)]
    weights = [torch.randn(size, generator=generator, dtype=torch.float64) for size in sizes]
    total = torch.randn(lanes, 2, 3, 6, generator=generator, dtype=torch.float64).requires_grad_(True)
    vectors = torch.randn(2, 6, generator=generator, dtype=torch.float64)
    norm = Norm(vectors[0], vectors[1], 1e-5)
    if is_frozen:
        assert torch.autograd.gradcheck(lambda values: Bottleneck(*weights)(values, norm), total)
        return
    trained = [weight.requires_grad_(True) for weight in weights]
    assert torch.autograd.gradcheck(lambda values, *own: Bottleneck(*own)(values, norm), (total, *trained))


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 2e-6), (torch.bfloat16, 2e-2)])
@pytest.mark.parametrize("rows", [1, 96, 700])
def test_packed_products_and_their_gradients_are_those_of_the_plain_layer(dtype, tolerance, rows):
    torch.manual_seed(0)
    modules = [torch.nn.Linear(48, 80), torch.nn.Linear(48, 16)]
    made = linear(modules, dtype, CPU, [0.5, 2.0])
    values = torch.randn(rows, 48).to(dtype).requires_grad_(True)
    weight, bias = (
        torch.cat([scale * getattr(module, name) for module, scale in zip(modules, (0.5, 2.0), strict=True)]).detach()
        for name in ("weight", "bias")
    )
    weight, bias = weight.to(dtype).double(), bias.to(dtype).double()
    exact = values.detach().double().requires_grad_(True)
    pairs = [(made(values), functional.linear(exact, weight, bias))]
    upstream = torch.randn(rows, 96).to(dtype)
    pairs.append(
        (
            torch.autograd.grad(pairs[0][0], values, upstream)[0],
            torch.autograd.grad(pairs[0][1], exact, upstream.double())[0],
        )
    )
    for ours, theirs in pairs:
        assert float((ours.double() - theirs).detach().abs().max()) < tolerance * float(theirs.detach().abs().max())


@pytest.mark.parametrize(("own", "expected"), [(None, 0.1), (0.3, 0.3), (0.0, 0.0)])
def test_heads_drop_out_as_those_of_the_library_do(own, expected):
    made = network(dropout=0.1, classifier_dropout=own)
    (head,) = [module for module in made.heads["t"] if isinstance(module, torch.nn.Dropout)][:1]
    assert freeze(made).head_dropout == head.p == expected


# Products of lanes in bf16, on a processor that multiplies in it and on one that does not: rounded once.


ULP = 2.0**-7  # of bf16 at 1, which has eight binary digits: half of it is how far rounding moves


@pytest.fixture(params=[True, False], ids=["in bf16", "in fp32"])
def is_native(request, monkeypatch):
    """Whether the processor multiplies in bf16: it does, or is treated as if it did not."""
    if request.param and not frozen.has_bf16_products():
        pytest.skip("this processor has no products of bf16")
    monkeypatch.setattr(frozen, "has_bf16_products", lambda: request.param)
    return request.param


def drawn(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).bfloat16()


def assert_rounded_once(ours, exact):
    """Within half a unit in the last place of bf16, and what fp32 sums lose."""
    assert ours.dtype == torch.bfloat16
    assert ((ours.double() - exact).abs() <= (ULP / 2) * exact.abs() + 1e-4).all()


@pytest.mark.parametrize("able", [{"avx512_f"}, {"avx512_f", "avx512_bf16"}, {"avx512_f", "amx_bf16"}, set()])
def test_what_onednn_only_emulates_is_no_product_of_bf16(able, monkeypatch):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: dict.fromkeys(able, True))
    for onednn in (True, False):
        monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda onednn=onednn: onednn)
        assert frozen.has_bf16_products.__wrapped__() == (onednn and able != {"avx512_f"})
    monkeypatch.delattr(torch.cpu, "get_capabilities")
    assert frozen.has_bf16_products.__wrapped__() is False  # as oneDNN said last


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
    monkeypatch.setattr(frozen, "has_bf16_products", lambda: False)
    left, right = drawn(2, 3, 4).float(), drawn(2, 4, 5).float()
    assert torch.equal(multiplied(left, right), torch.bmm(left, right))
    assert not frozen.is_widened(torch.float32, CPU)
    assert not frozen.is_widened(torch.bfloat16, torch.device("meta"))
