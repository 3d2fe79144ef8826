"""Masks by a compiled function: numpy's bits, on a processor by the same compiler that a GPU would use."""

from __future__ import annotations

import logging
import shutil

import pytest
import torch

from harness.training.lanes import compiled
from harness.training.lanes.compiled import CompiledMasks, compiler
from harness.training.lanes.frozen import freeze
from harness.training.lanes.masks import draw, drawn, words
from harness.training.tensors import CPU
from tests.support.studies.toy_lanes import network

SEEDS = [[3, 2**62 + 1, 2**63 - 1]]


def tensors(masks):
    return compiled._tensors(masks)


def asked(sizes, longest, seeds=SEEDS):
    return torch.tensor(sizes), longest, torch.tensor(seeds)


@pytest.fixture
def frozen():
    return freeze(network(dropout=0.1), torch.bfloat16)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch's compiler needs a C++ compiler, and there is no g++")
def test_one_compiled_function_draws_numpy_s_masks_in_every_shape(frozen, monkeypatch, caplog):
    words(torch.tensor([1]), 4)  # its constants are made once
    masks = CompiledMasks(frozen, compiled.compiled(), is_own=False)
    for sizes, longest in (([24, 17, 5], 24), ([9, 3, 8], 16), ([40, 33, 2, 8], 40)):
        seeds = [(SEEDS[0] * 2)[: len(sizes)]]
        with caplog.at_level(logging.WARNING):
            masks(*asked(sizes, longest, seeds))  # the first of a shape is checked against what is drawn without it
        assert caplog.text == ""
        with monkeypatch.context() as patch:
            patch.setattr(compiled, "drawn", None)  # which is not asked again
            found = masks(*asked(sizes, longest, seeds))
            patch.setattr("harness.training.lanes.masks.seed_of", lambda *parts, own=seeds[0]: own[parts[-1]])
            patch.setattr("harness.training.lanes.masks.padded", lambda *_, longest=longest: longest)
            theirs = draw(frozen, sizes, range(len(sizes)), seed=1, target="t", step=0)
        assert all(map(torch.equal, tensors(found), tensors(theirs)))
        assert found.scale == theirs.scale


def test_a_function_that_fails_or_has_another_bit_is_given_up_with_a_warning(frozen, caplog):
    def fails(*_, **__):
        raise RuntimeError("no compiler\nand a long trace")

    def differs(*arguments, **options):
        masks = drawn(*arguments, **options)
        masks.attention[1][0, 0, 0, 0] += 1
        return masks

    plain = drawn(frozen, *asked([5, 4, 2], 8), is_own=False)
    for function, said in ((fails, "no compiler;"), (differs, "a bit differs")):
        caplog.clear()
        masks = CompiledMasks(frozen, function, is_own=False)
        with caplog.at_level(logging.WARNING):
            found = [masks(*asked([5, 4, 2], 8)) for _ in range(2)]
        assert all(all(map(torch.equal, tensors(own), tensors(plain))) for own in found)
        assert caplog.text.count("without it") == 1
        assert said in caplog.text


def test_a_shape_is_checked_once(frozen, monkeypatch):
    calls = []

    def counted(*arguments, **options):
        calls.append(arguments[2])
        return drawn(*arguments, **options)

    masks = CompiledMasks(frozen, counted, is_own=True)
    checks = []
    monkeypatch.setattr(compiled, "drawn", lambda *a, **o: checks.append(a[2]) or drawn(*a, **o))
    for longest in (8, 8, 16, 8, 16):
        masks(*asked([5, 4, 2], longest))
    assert (calls, checks) == ([8, 8, 16, 8, 16], [8, 16])


def test_memory_that_runs_out_is_not_hidden(frozen):
    def runs_out(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory")

    with pytest.raises(torch.OutOfMemoryError):
        CompiledMasks(frozen, runs_out, is_own=False)(*asked([5, 4, 2], 8))


def test_a_processor_does_not_compile():
    assert compiler(CPU) is None
    assert compiler(torch.device("meta")) is None
