"""How many kernels, shapes and waits a GPU would see, counted on the pretended one at roberta-base's depth."""

import pytest

from benchmarks.steps.peers import lane_trainer
from benchmarks.steps.shapes import Shape, network, rows
from harness.training.lanes.state import LaneAdamW
from tests.support.clusters.pretend_gpu import DEVICE, pretend_gpu

DEEP = Shape(layers=12, width=64, lanes=17, mean=12, batch=6)  # a batch is one cut
NOW = {"fp32": (1618, 689), "bf16": (1796, 689)}  # launches of a cut and of a step before any of this was built


def trained(gpu, monkeypatch, precision, steps=1, epochs=2):
    """Launches of the last of several epochs of ``steps`` batches, and of its optimizer steps."""
    trainer = lane_trainer(network(DEEP), DEEP, precision, DEVICE)
    data, of_steps, update = rows(DEEP, steps, seed=0), [], LaneAdamW.update

    def counted(self, planned, clip):
        before = gpu.launches.total()
        update(self, planned, clip)
        of_steps.append(gpu.launches.total() - before)

    monkeypatch.setattr(LaneAdamW, "update", counted)
    for epoch in range(epochs):
        before = gpu.launches.total()
        gpu.waits.clear()
        trainer.train_epoch(data, epoch + 1, epoch * steps, epochs * steps)
    return gpu.launches.total() - before, of_steps[-1]


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_an_optimizer_step_of_all_lanes_is_a_few_launches(monkeypatch, precision):
    with pretend_gpu(monkeypatch, cutting="cuda", sums_by_name=False) as gpu:
        every, step = trained(gpu, monkeypatch, precision)
        assert gpu.waits == []
    assert step <= 20
    assert every <= 0.75 * sum(NOW[precision])


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_with_graphs_an_epoch_is_a_tenth_of_the_launches_and_waits_for_nothing(monkeypatch, precision):
    with pretend_gpu(monkeypatch, cutting="cuda", sums_by_name=False, has_graphs=True) as gpu:
        every, _ = trained(gpu, monkeypatch, precision, steps=3)
        assert gpu.waits == []
    assert every <= 3 * sum(NOW[precision]) / 10
