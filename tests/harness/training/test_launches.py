"""How many kernels a GPU would be asked for, counted on the pretended one: of roberta-base's depth, in a small width."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from benchmarks.peers import lane_trainer
from benchmarks.shapes import Shape, network, rows
from tests.support.clusters.pretend_gpu import DEVICE, pretend_gpu

DEEP = Shape(layers=12, width=64, lanes=17, mean=12, batch=8)


@contextmanager
def counted(gpu, counts, name):
    """Adds what is launched meanwhile to ``counts[name]``."""
    before = gpu.launches.total()
    yield
    counts[name] = counts.get(name, 0) + gpu.launches.total() - before


def launched(monkeypatch, precision):
    """Launches of one batch that is a single cut, all of it and its optimizer step's."""
    with pretend_gpu(monkeypatch, cutting="cuda", sums_by_name=False) as gpu:
        trainer = lane_trainer(network(DEEP), DEEP, precision, DEVICE)
        data, counts, step = rows(DEEP, 1, seed=0), {}, trainer.optimizer.step

        def counted_step(*arguments):
            with counted(gpu, counts, "step"):
                step(*arguments)

        trainer.optimizer.step = counted_step
        trainer.train_epoch(data, 1, 0, 2)
        counts.clear()
        with counted(gpu, counts, "all"):
            trainer.train_epoch(data, 1, 1, 2)
    return counts


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_an_optimizer_step_of_all_lanes_is_a_few_launches(monkeypatch, precision):
    counts = launched(monkeypatch, precision)
    assert counts["step"] <= 20
