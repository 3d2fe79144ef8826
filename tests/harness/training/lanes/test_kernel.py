"""The words of dropout's streams by one kernel of a GPU: numpy's bits, and what is done where there is no kernel."""

import logging
import os
import subprocess
import sys
from importlib.util import find_spec

import pytest
import torch

from harness.training.lanes import masks
from harness.training.lanes.masks import kernel_of, words, words_on
from harness.training.tensors import CPU

INTERPRETED = """
import numpy as np
import torch
from harness.training.lanes.philox import words

keys = [0, 1, 2**63 - 1, 0x5DEECE66D, *np.random.default_rng(0).integers(0, 2**63, 60).tolist()]
for count in (1, 4, 1001, 1027):
    drawn = words(torch.tensor(keys), count).numpy().view(np.uint64)
    for key, own in zip(keys, drawn, strict=True):
        assert (own == np.random.Philox(key=key).random_raw(count)).all(), (key, count)
"""


@pytest.fixture(autouse=True)
def _asked_anew():
    words_on.cache_clear()
    yield
    words_on.cache_clear()


@pytest.mark.skipif(find_spec("triton") is None, reason="Triton comes with torch for a GPU, and there is none")
def test_the_kernel_s_words_are_numpy_s_by_triton_s_interpreter():
    ran = subprocess.run(
        [sys.executable, "-c", INTERPRETED],
        env=os.environ | {"TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr


@pytest.mark.gpu
def test_a_real_gpu_s_kernel_draws_numpy_s_words(caplog):
    device = torch.device("cuda")
    assert words_on(device) is not words
    keys = torch.tensor(masks.KEYS, device=device)
    for count in (1, 4, 1001, 65_536):
        assert torch.equal(words_on(device)(keys, count).cpu(), words(keys.cpu(), count))
    assert caplog.text == ""


def fails(*_):
    raise RuntimeError("no compiler\nand a long trace")


def does_not_compile(*_):
    raise NotCompiled("at 3:4: an operation that it has not")


class NotCompiled(Exception):
    """As Triton's own errors, which are no RuntimeErrors."""


def differs(keys, count):
    drawn = words(keys, count)
    drawn[-1, -1] ^= 1
    return drawn


@pytest.mark.parametrize(
    ("function", "said"),
    [(fails, "no compiler;"), (does_not_compile, "an operation that it has not;"), (differs, "a bit differs")],
)
def test_a_kernel_that_fails_or_has_another_bit_is_given_up_with_a_warning(function, said, monkeypatch, caplog):
    monkeypatch.setattr(masks, "kernel_of", lambda _: function)
    with caplog.at_level(logging.WARNING):
        assert [words_on(CPU), words_on(CPU)] == [words, words]
    assert caplog.text.count("without it") == 1
    assert said in caplog.text


def test_a_kernel_that_agrees_is_taken_and_memory_that_runs_out_is_not_hidden(monkeypatch, caplog):
    def agrees(keys, count):
        return words(keys, count)

    monkeypatch.setattr(masks, "kernel_of", lambda _: agrees)
    with caplog.at_level(logging.WARNING):
        assert words_on(CPU) is agrees
    assert caplog.text == ""

    words_on.cache_clear()

    def runs_out(*_):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(masks, "kernel_of", lambda _: runs_out)
    with pytest.raises(torch.OutOfMemoryError):
        words_on(CPU)


def test_a_processor_has_no_kernel():
    assert kernel_of(CPU) is None
    assert kernel_of(torch.device("meta")) is None
