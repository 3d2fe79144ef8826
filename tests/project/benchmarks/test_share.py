"""What a step's frozen products are, and that the benchmark computes them and says their share; no time is judged."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.steps import cost, share
from benchmarks.steps.shapes import Shape, rows

NEEDS_ONEDNN = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="needs oneDNN")


class Counted(TorchDispatchMode):
    """Counts oneDNN's dense products by rows and widths, in and out."""

    def __init__(self):
        super().__init__()
        self.products = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if "linear_pointwise" in str(func):
            self.products[out.numel() // out.shape[-1], args[0].shape[-1], out.shape[-1]] += 1
        return out


@NEEDS_ONEDNN
@pytest.mark.parametrize("left_out", [0, 1])
def test_the_products_are_those_that_a_step_asks_of_onednn(left_out):
    shape = Shape(3, 32, 2, 30, 8, left_out=left_out)
    part = rows(shape, 1, seed=0)
    step = share.training_step(shape, "fp32", part)
    with Counted() as counted:
        step()
    asked = list(share.products(shape, share.cuts_of(part, "fp32")))
    assert counted.products == Counter((one.rows, one.inner, one.outer) for one in asked)


@NEEDS_ONEDNN
def test_the_products_alone_are_as_many_and_of_the_same_shapes():
    asked = list(share.products(Shape(2, 32, 3, 8), [(2, 8), (1, 16)]))
    compute = share.replay(asked, "fp32")
    with Counted() as counted:
        compute()
    assert counted.products == Counter((one.rows, one.inner, one.outer) for one in asked)


def test_no_gradient_goes_below_the_first_adapter():
    asked = list(share.products(Shape(2, 32, 3, 8), [(2, 8)]))
    assert {(one.layer, one.is_backward) for one in asked} == {(0, False), (1, False), (1, True)}
    assert {one.rows for one in asked if one.layer == 0} == {2 * 8}


@NEEDS_ONEDNN
def test_the_share_comes_first(capsys):
    share.main("--layers 2 --width 32 --lanes 2 --mean 8 --precision fp32 --rounds 1".split())
    line = capsys.readouterr().out.splitlines()[0]
    assert line.startswith("2 layers x 32, K = 2, mean 8 tokens, batch 32, fp32: ")
    assert "of a step are frozen products" in line


@pytest.mark.parametrize("benchmark", [share, cost], ids=["share", "cost"])
def test_products_that_a_processor_does_not_have_are_refused_in_words(benchmark, capsys, monkeypatch):
    monkeypatch.setattr(share, "has_bf16_products", lambda: False)
    with pytest.raises(SystemExit) as refused:
        benchmark.main(["--precision", "bf16"])
    assert refused.value.code == 2
    assert "--precision bf16: this processor has no products of it" in capsys.readouterr().err
