"""Passes over memory as kernels of a GPU: the numbers of plain tensors, and what is done where there are none.

Without a GPU their programs are run by Triton's interpreter, and compiled for a GPU that is not there.
"""

import copy
import dataclasses
import logging
import os
import subprocess
import sys
from importlib.util import find_spec

import pytest
import torch

from harness.training.lanes import forward, masks
from harness.training.lanes.forward import added
from harness.training.lanes.frozen import Norm, _Context, freeze
from harness.training.lanes.masks import passes_on
from harness.training.tensors import CPU
from tests.support.studies.toy_lanes import intermediates, network, part, trainer

with_triton = pytest.mark.skipif(find_spec("triton") is None, reason="Triton comes with torch for a GPU")
BOUNDS = {torch.float32: 2e-6, torch.bfloat16: 0.02}  # of the largest number: what rounding may move


def run_alone(function, **environment):
    """Run one of the functions below in a process of its own; Triton reads its environment once."""
    code = f"from {__name__} import {function.__name__} as run; run()"
    ran = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr


def assert_near(exact, plain, made, bound):
    """Rounding apart a kernel has the plain tensors' numbers, and those of fp64."""
    for right, other, own in zip(exact, plain, made, strict=True):
        for value in (right, other):
            assert float((own.double() - value.double()).abs().max()) <= bound * float(right.abs().max())


def sums_and_norms():
    from harness.training.lanes.passes import AddedAndNormed

    generator = torch.Generator().manual_seed(1)
    for dtype, bound in BOUNDS.items():
        for lanes, texts, tokens, width in ((1, 1, 1, 8), (1, 5, 7, 72), (3, 2, 13, 40), (2, 1, 3, 768)):
            for mask_lanes, with_bias in ((None, True), (0, False), (lanes, False), (0, True)):
                shape, mask = (lanes, texts, tokens, width), None
                if mask_lanes is not None:
                    mask = torch.rand(shape[1:] if not mask_lanes else shape, generator=generator) > 0.3
                drawn = [torch.randn(size, generator=generator).to(dtype) for size in (shape, shape, (lanes, 1, width))]
                gain, shift, *gradients = (
                    torch.randn(size, generator=generator).to(dtype) for size in ((width,), (width,), *[shape] * 3)
                )
                found = []
                for way in ("exact", "plain", "made"):
                    of = torch.float64 if way == "exact" else dtype
                    leaves = [value.detach().to(of).requires_grad_() for value in drawn]
                    norm, scale = Norm(gain.to(of), shift.to(of), 1e-5), 1.25 if mask is not None else 1.0
                    given = leaves[:2] + ([leaves[2]] if with_bias else [])
                    if way == "made":
                        bias = leaves[2] if with_bias else None
                        total, first, second = AddedAndNormed.apply(*leaves[:2], bias, mask, scale, norm)
                    else:
                        total = added(*leaves[:2], None if mask is None else mask.to(of), scale)
                        total = total + leaves[2].unsqueeze(1) if with_bias else total
                        first = second = norm(total)
                    of_outputs = [gradient.to(of) for gradient in gradients]
                    alone = torch.autograd.grad(
                        first, given, of_outputs[1], retain_graph=True
                    )  # what nothing else takes
                    every = torch.autograd.grad([total, first, second], given, of_outputs)
                    found.append([total, first, second, *alone, *every])
                assert_near(*found, bound)


def attentions():
    from functools import partial

    from harness.training.lanes import passes

    generator = torch.Generator().manual_seed(2)
    for dtype, bound in BOUNDS.items():
        for lanes, texts, tokens in ((1, 1, 1), (1, 3, 17), (3, 2, 13), (1, 1, 67)):
            for mask_lanes, lengths in ((None, [tokens] * texts), (1, [tokens, 1, tokens]), (lanes, [tokens] * texts)):
                projected = torch.randn(lanes, texts, tokens, 3 * 24, generator=generator).to(dtype)
                gradient = torch.randn(lanes, texts, tokens, 24, generator=generator).to(dtype)
                padding = torch.arange(tokens) >= torch.tensor(lengths[:texts]).unsqueeze(1)
                hidden_from = torch.zeros(padding.shape).masked_fill(padding, torch.finfo(torch.float32).min)
                hidden_from, mask = hidden_from[:, None, None], None
                if mask_lanes is not None:
                    mask = torch.rand(mask_lanes, texts, 3, tokens, tokens, generator=generator) > 0.2
                    mask = mask[0] if mask_lanes == 1 else mask
                found = []
                for way in ("exact", "plain", "made"):
                    of = torch.float64 if way == "exact" else dtype
                    leaf = projected.to(of).requires_grad_()
                    kept = (
                        mask
                        if way == "made" or mask is None
                        else 1.25 * mask.to(torch.promote_types(of, torch.float32))
                    )
                    by = partial(passes.softmax, 1.25) if way == "made" else None
                    context = _Context.apply(leaf, hidden_from.to(torch.promote_types(of, torch.float32)), kept, 3, by)
                    found.append([context, *torch.autograd.grad(context, leaf, gradient.to(of))])
                assert_near(*found, bound)


def cuts(is_kernel, dtype, made, **options):
    """Masks, loss and gradient of a padded cut of three lanes, and logits of an evaluation."""
    from harness.training.batches import Cut
    from harness.training.lanes import passes
    from harness.training.lanes.offloaded import Planned

    with pytest.MonkeyPatch.context() as patch:
        for module in (forward, masks):
            patch.setattr(module, "passes_on", lambda _: passes if is_kernel else None)
        patch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
        patch.setattr("harness.training.lanes.frozen.has_bf16_products", lambda: True)
        one, data = trainer(copy.deepcopy(made), intermediates(made, 3)), part(6)
        one.frozen, one.recipe = freeze(made, dtype), dataclasses.replace(one.recipe, **options)
        own, (_, _, objective) = one._offloaded, one._offloaded._objective(data, 1)
        seeds = [[11, 12, 13]] if not options else [[11, 12, 13], [14, 15, 16], [17, 18, 19]]
        inputs = Planned.inputs(Cut([4, 0, 2], 4, 24), {row: row for row in (4, 0, 2)}, seeds, 3.0, 3)
        own._cut(own._send(data), objective, 4, 24, inputs)
        sizes, keys = torch.tensor([24, 3, 17]), torch.tensor(seeds)
        drawn = masks.drawn(one.frozen, sizes, 24, keys, is_own=bool(options))
        return drawn, own.optimizer.gradient.clone(), own._losses.clone(), torch.tensor(one.predict(data))


def lanes():
    for options in ({}, {"noise": ("a", "b", "c")}):
        for leave_out in ((), (1,)):
            made = network(dropout=0.1, leave_out=leave_out)
            for dtype, bound in ((torch.float32, 1e-5), (torch.bfloat16, 0.06)):
                plain, by_kernel = (cuts(is_kernel, dtype, made, **options) for is_kernel in (False, True))
                assert_same_words(plain[0], by_kernel[0])
                for value, other in zip(plain[1:], by_kernel[1:], strict=True):
                    assert float((value - other).abs().max()) <= bound * float(value.abs().max())


def assert_same_words(plain, by_kernel):
    """Kernels are given one byte a place of what plain tensors multiply by, last attention and heads apart."""
    for kind in ("attention", "attended", "output"):
        for layer, (mask, kept) in enumerate(zip(getattr(plain, kind), getattr(by_kernel, kind), strict=True)):
            assert torch.equal(mask > 0, kept > 0)
            assert kept.dtype == (torch.float32 if kind == "attention" and layer == 2 else torch.bool)
    assert by_kernel.scale == by_kernel.attention_scale == 65536 / (65536 - round(0.1 * 65536))
    assert all(map(torch.equal, plain.head, by_kernel.head))
    assert torch.equal(plain.embedding > 0, by_kernel.embedding)


def compiled():
    from triton import compile as built
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from harness.training.lanes import passes

    exact = {"mean", "deviation", "hidden_from"}
    for dtype in ("*bf16", "*fp32"):
        for kernel in (passes._added_and_normed, passes._added_and_normed_back, passes._softmax):
            names = kernel.arg_names
            first = next(place for place, name in enumerate(names) if name == "rows")
            types = {name: "*fp32" if name in exact else "*i1" if name == "mask" else dtype for name in names[:first]}
            types |= {name: "fp32" if name in ("scale", "epsilon") else "i32" for name in names[first:-2]}
            sizes = {(len(names) - 2,): 4, (len(names) - 1,): 1024}
            source = ASTSource(kernel, types | {"tile": "constexpr", "block": "constexpr"}, sizes)
            assert "cubin" in built(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 8}).asm


@with_triton
@pytest.mark.parametrize("function", [sums_and_norms, attentions, lanes], ids=lambda function: function.__name__)
def test_kernels_by_triton_s_interpreter_are_plain_tensors_to_rounding_and_as_near_to_fp64(function):
    run_alone(function, TRITON_INTERPRET="1")


@with_triton
def test_kernels_compile_for_a_gpu(tmp_path):
    run_alone(compiled, TRITON_CACHE_DIR=str(tmp_path))


def test_kernels_are_taken_where_they_agree_and_given_up_with_one_warning_elsewhere(monkeypatch, caplog):
    class Kernels:
        agrees = True

        @classmethod
        def agree(cls, device):
            return cls.agrees

    monkeypatch.setattr(masks, "kernel_of", lambda _: masks.words)
    monkeypatch.setitem(sys.modules, "harness.training.lanes.passes", Kernels)
    monkeypatch.setattr("harness.training.lanes.passes", Kernels, raising=False)
    with caplog.at_level(logging.WARNING):
        for agrees in (True, False):
            passes_on.cache_clear()
            Kernels.agrees = agrees
            assert [passes_on(CPU), passes_on(CPU)] == [Kernels if agrees else None] * 2
            assert caplog.text.count("without it") == (not agrees)
    passes_on.cache_clear()


def test_a_processor_has_no_kernels():
    assert passes_on(CPU) is None
    assert passes_on(torch.device("meta")) is None


@pytest.mark.gpu
def test_a_real_gpu_s_kernels_agree_with_plain_tensors(caplog):
    assert passes_on(torch.device("cuda")) is not None
    assert caplog.text == ""
