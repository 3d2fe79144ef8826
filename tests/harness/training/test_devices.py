"""Training away from the processor, as far as it can be shown without a GPU: on a pretended one (pretend_gpu.py)."""

import copy
import dataclasses
import logging

import numpy as np
import pandas as pd
import pytest
import torch
from adapters import BertAdapterModel, RobertaAdapterModel

from harness.run.pack import run_cells
from harness.study.cell import make_cell
from harness.study.device import Device, NoSuchDevice
from harness.training.lanes.fit import LaneTrainer
from harness.training.lanes.frozen import freeze
from harness.training.lanes.masks import draw, words
from tests.support.clusters.pretend_gpu import DEVICE, Mixed, pinned, pretend_gpu
from tests.support.studies.toy_column import FILES, Column, assert_same_bytes, content
from tests.support.studies.toy_lanes import intermediates, network, part, trainer

KEYS = [0, 1, 2**63 - 1, 0x5DEECE66D, *np.random.default_rng(0).integers(0, 2**63, 60).tolist()]


@pytest.fixture(autouse=True)
def _multiplies_without_onednn(monkeypatch):
    """So that the processor's products are the pretended GPU's to the last bit."""
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    monkeypatch.setattr("harness.training.lanes.frozen.has_bf16_products", lambda: True)


def both(made, dtype=torch.float32, device=DEVICE, **recipe):
    """The same lanes on the processor and on a GPU, by default the pretended one, which must then be on."""
    here = trainer(copy.deepcopy(made), intermediates(made, 3), epochs=1, label=recipe.pop("label", "multiclass"))
    own = dataclasses.replace(here.recipe, **recipe)
    states = (here.state, here.state.to(device))
    has_segments = isinstance(made, BertAdapterModel)
    return [
        LaneTrainer(freeze(made, dtype, where), state, own, 1, has_segments=has_segments)
        for state, where in zip(states, (torch.device("cpu"), device), strict=True)
    ]


def assert_same_weights(here, there, tolerance=0.0):
    for name, value in here.state.trained.items():
        assert float((value - there.state.trained[name].cpu()).detach().abs().max()) <= tolerance


@pytest.mark.parametrize("count", [1, 4, 1001])
def test_a_device_s_words_are_numpy_s_bit_for_bit(count):
    found = words(torch.tensor(KEYS), count).numpy().view(np.uint64)
    for key, own in zip(KEYS, found, strict=True):
        assert (own == np.random.Philox(key=key).random_raw(count)).all()


@pytest.mark.parametrize("lengths", [[1], [24, 17, 5, 1]], ids=str)
@pytest.mark.parametrize("lanes", [(), ("a", "b")])
@pytest.mark.parametrize(("dropout", "dtype"), [(0.1, torch.float32), (0.0, torch.bfloat16), (0.3, torch.bfloat16)])
def test_masks_drawn_on_a_device_are_those_of_the_host(lengths, lanes, dropout, dtype, monkeypatch):
    made, options = network(dropout=dropout), dict(seed=1, target="t", step=3, lanes=lanes)
    here = draw(freeze(made, dtype), lengths, range(len(lengths)), **options)
    with pretend_gpu(monkeypatch) as gpu:
        frozen = freeze(made, dtype, DEVICE)
        gpu.waits.clear()
        draw(frozen, lengths, range(len(lengths)), **options)  # its constants are sent once
        gpu.waits.clear()
        there = draw(frozen, lengths, range(len(lengths)), **options)
        assert gpu.waits == []
    assert here.scale == there.scale
    for kind in ("attention", "attended", "output", "head"):
        assert all(map(is_same, getattr(here, kind), getattr(there, kind)))
    assert is_same(here.embedding, there.embedding)


def is_same(mask, drawn):
    """Whether a mask of the host is the one that was drawn on the device, bit for bit."""
    return mask.dtype == drawn.dtype and torch.equal(mask, drawn.here)


@pytest.mark.parametrize(
    ("kind", "options", "label"),
    [
        (RobertaAdapterModel, dict(dtype=torch.bfloat16, class_weights="balanced"), "multiclass"),
        (RobertaAdapterModel, dict(noise=("a", "b", "c")), "multilabel"),
        (BertAdapterModel, dict(warmup=0.5), "continuous"),
    ],
    ids=str,
)
def test_lanes_train_on_a_gpu_as_they_do_here(kind, options, label, monkeypatch):
    made, data, validation = network(kind, dropout=0.1, label=label), part(16, label=label), part(9, 1, label=label)
    with pretend_gpu(monkeypatch):
        here, there = both(made, label=label, **options)
        fitted = [one.fit(data, validation, lambda *_: None) for one in (here, there)]
        assert fitted[0] == fitted[1]
        assert_same_weights(here, there)
        rows = [row[0] for row in validation.rows]
        assert here.liveness(rows) == there.liveness(rows)
        np.testing.assert_array_equal(here.predict(validation), there.predict(validation))


def test_the_host_waits_for_nothing_while_an_epoch_is_trained_and_once_for_predictions(monkeypatch):
    made, data = network(dropout=0.1), part(24)
    with pretend_gpu(monkeypatch) as gpu:
        _, there = both(made, class_weights="balanced")
        _, step = there.train_epoch(data, 1, 0, 6)  # whether there are intermediates at all is asked once
        gpu.waits.clear()
        there.train_epoch(data, 2, step, torch.tensor([6, 9, 12]))
        assert gpu.waits == []
        there.predict(data)
        assert gpu.waits == ["from the device"]


@pytest.mark.slow
def test_a_pack_on_a_gpu_has_the_bytes_of_one_here_and_goes_on_from_its_own_checkpoints(
    tiny, toy_splits, tmp_path, monkeypatch, caplog
):
    column = Column(tiny, toy_splits, tmp_path)
    begun_here = column.interrupted(column.store_with_baselines(), column.lanes, 1)
    with pretend_gpu(monkeypatch):
        store = column.interrupted(column.store_with_baselines(), column.lanes, 2)
        with caplog.at_level(logging.WARNING):
            column.run(store, column.lanes)
            assert "another device" not in caplog.text
            column.run(begun_here, column.lanes)
        assert "another device" in caplog.text
    assert_same_bytes(column, store)
    assert_same_bytes(column, begun_here)
    assert {store.get(cell.key).provenance["device"] for cell in column.lanes} == {"meta (pretended)"}


def test_the_library_trains_on_a_gpu_as_it_does_here(study, tiny, toy_splits, tmp_path, monkeypatch):
    from adapters_store import Store

    splits, found = toy_splits("one", train=16), []
    cell = make_cell(study, tiny, splits, seed=1, setting="full")
    for name in ("here", "there"):
        store = Store(tmp_path / name)
        if name == "here":
            run_cells([cell], tiny, splits, store, lambda *_: None)
        else:
            with pretend_gpu(monkeypatch):
                with pytest.raises(
                    NoSuchDevice, match=r"planned for cpu, but this process trains on \w+; say --device"
                ):
                    run_cells([cell], tiny, splits, store, lambda *_: None)
                cell = make_cell(study, tiny, splits, seed=1, setting="full")  # named by where its dropout is drawn
                run_cells([cell], tiny, splits, store, lambda *_: None)
        found.append(content(store, cell))
    assert all(found[0][name] == found[1][name] for name in FILES if name.endswith("safetensors"))
    assert found[0]["results"]["test"] == pytest.approx(found[1]["results"]["test"], abs=1e-6)


def test_the_pretended_gpu_notices_what_a_real_one_would(monkeypatch):
    with pretend_gpu(monkeypatch) as gpu:
        there = pinned(torch.ones(3)).to(DEVICE, non_blocking=True)
        assert gpu.waits == []
        with pytest.raises(Mixed):
            there + torch.ones(3)
        assert float((there + torch.tensor(1.0)).sum()) == 6  # a single number may come from the processor
        torch.ones(3).to(DEVICE)
        there.cpu()
        assert gpu.waits == ["aten._local_scalar_dense.default", "to the device", "from the device"]


@pytest.mark.gpu
def test_a_real_gpu_draws_the_host_s_words_and_trains_its_lanes_without_a_wait(caplog):
    device, made, data = Device("cuda").ready(), network(dropout=0.1), part(48)
    assert torch.equal(words(torch.tensor(KEYS, device=device), 1001).cpu(), words(torch.tensor(KEYS), 1001))
    here, there = both(made, device=device, class_weights="balanced")
    steps = torch.tensor([12, 12, 12])
    for one in (here, there):
        one.train_epoch(data, 1, 0, steps)
    torch.cuda.set_sync_debug_mode("error")
    try:
        there.train_epoch(data, 2, 6, steps)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    here.train_epoch(data, 2, 6, steps)
    assert not [record for record in caplog.records if record.name.startswith("harness")], "graphs, or masks, given up"
    assert_same_weights(here, there, 1e-4)
    np.testing.assert_allclose(here.predict(data), there.predict(data), atol=1e-3)


@pytest.mark.gpu
def test_a_pack_on_a_real_gpu_is_stored_near_the_processor_s_and_goes_on_from_its_checkpoints(
    tiny, toy_splits, tmp_path, monkeypatch, caplog
):
    with monkeypatch.context() as patch:
        patch.setattr(torch.cuda, "is_available", lambda: False)
        column = Column(tiny, toy_splits, tmp_path)
    store = column.interrupted(column.store_with_baselines(), column.lanes, 2)
    column.run(store, column.lanes)
    for cell in column.lanes:
        assert store.get(cell.key).provenance["device"] == torch.cuda.get_device_name(0)
        here, there = (pd.read_parquet(one.open(cell.key, "test.parquet"))["logit_0"] for one in (column.whole, store))
        np.testing.assert_allclose(here, there, atol=0.02)
    assert not [record for record in caplog.records if record.name.startswith("harness")], "graphs, or masks, given up"


@pytest.mark.parametrize("name", ["gpu", "cuda:x", "cpu:1", "CUDA", "cuda:0 "])
def test_a_device_that_is_none_is_refused(name):
    with pytest.raises(NoSuchDevice, match="auto, cpu, cuda, cuda:N"):
        Device(name)


def test_a_gpu_that_is_not_there_is_refused_before_anything_is_trained(monkeypatch, tmp_path, refused):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert "sees no GPU" in refused("run", "demo", "--device", "cuda", "--store", tmp_path / "runs")
    assert not (tmp_path / "runs").exists()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert Device("cuda:1").ready() == torch.device("cuda:1")
    with pytest.raises(NoSuchDevice, match="cuda:0 to cuda:1"):
        Device("cuda:2")


def test_the_first_gpu_is_taken_where_there_is_one_and_multiplies_in_full(monkeypatch):
    torch.set_float32_matmul_precision("high")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert Device().ready() == torch.device("cpu")
    assert torch.get_float32_matmul_precision() == "highest"
    assert not torch.backends.cudnn.allow_tf32
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert Device().ready() == torch.device("cuda:0")
    assert Device("cpu").ready() == torch.device("cpu")


def test_processes_are_dealt_the_gpus_in_turn_and_know_how_many_share_theirs(monkeypatch):
    dealt = [Device(processes=5, number=number) for number in range(5)]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert {(str(device.ready()), device.sharers()) for device in dealt} == {("cpu", 5)}
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert [str(device.ready()) for device in dealt] == ["cuda:0", "cuda:1", "cuda:0", "cuda:1", "cuda:0"]
    assert {device.sharers() for device in dealt} == {3}
    assert Device("cuda:1", processes=5).sharers() == 5
