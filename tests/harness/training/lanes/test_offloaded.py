"""An epoch on a device of its own: cuts of few shapes, rows that count for nothing, and work that is recorded."""

import copy
import dataclasses
import logging

import numpy as np
import pytest
import torch
from adapters import BertAdapterModel, RobertaAdapterModel

from benchmarks.steps.columns import columns
from benchmarks.steps.shapes import Shape, rows
from harness.study.config import Loss
from harness.training.batches import BUCKETS, TRAINED, Cut, collate, shaped, training_batches
from harness.training.inputs import Encoded
from harness.training.lanes import offloaded
from harness.training.lanes.fit import LaneTrainer
from harness.training.lanes.frozen import freeze
from harness.training.lanes.offloaded import DeviceRows, Graphs, Planned
from harness.training.recipe import Part
from harness.training.tensors import CPU
from tests.support.clusters.pretend_gpu import DEVICE, pretend_gpu
from tests.support.studies.toy_lanes import BATCH, intermediates, network, part, trainer

LDAM = Loss(kind="ldam", deferred_from=2)


@pytest.fixture(autouse=True)
def _multiplies_without_onednn(monkeypatch):
    """So that the processor's products are the pretended GPU's to the last bit."""
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    monkeypatch.setattr("harness.training.lanes.frozen.has_bf16_products", lambda: True)


def there(made, count=3, **recipe):
    """Lanes on the pretended GPU, which must be on."""
    here = trainer(copy.deepcopy(made), intermediates(made, count), epochs=3)
    return LaneTrainer(
        freeze(made, torch.float32, DEVICE),
        here.state.to(DEVICE),
        dataclasses.replace(here.recipe, **recipe),
        1,
        has_segments=isinstance(made, BertAdapterModel),
    )


def weights_of(one):
    return {name: value.detach().cpu() for name, value in one.state.trained.items()}


# Shapes.


def batches_of(column, count=3):
    """Batches of a column's size, their rows' lengths as they are assumed."""
    data = rows(Shape(1, 32, 1, column.mean, column.batch), count, seed=column.batch)
    lengths = [len(windows[0].ids) for windows in data.rows]
    return lengths, list(training_batches(lengths, column.batch, seed=1, target=column.target, epoch=1))


def test_all_columns_of_the_full_grid_have_at_most_twelve_shapes_and_little_more_padding_than_without():
    found, area, real = set(), 0, 0
    for column in columns():
        lengths, batches = batches_of(column)
        for batch in batches:
            cuts = shaped(batch, lengths, "cuda", 514, is_bf16=True)
            assert sorted(row for cut in cuts for row in cut.numbers) == sorted(batch)
            for cut in cuts:
                assert max(lengths[row] for row in cut.numbers) <= cut.tokens
                assert len(cut.numbers) <= cut.rows
            found |= {(cut.rows, cut.tokens) for cut in cuts}
            share = column.steps / len(batches)
            area += share * sum(cut.rows * cut.tokens for cut in cuts)
            real += share * sum(lengths[row] for row in batch)
    assert found <= set(BUCKETS["cuda"])
    assert len(found) <= 12
    assert max(count * tokens for count, tokens in found) <= TRAINED["cuda"].max_tokens  # memory is planned with it
    assert 1 - real / area < 0.33


def test_cuts_are_the_cheapest_there_are(monkeypatch):
    monkeypatch.setitem(BUCKETS, "cuda", ((2, 8), (4, 8), (3, 16)))
    monkeypatch.setattr("harness.training.batches.SPARE", 10)
    lengths = [16, 15, 8, 7, 6, 3]
    cuts = shaped(range(6), lengths, "cuda", 64, is_bf16=False)
    assert cuts == [Cut([0, 1], 3, 16), Cut([2, 3, 4, 5], 4, 8)] or cuts == [
        Cut([0, 1, 2], 3, 16),
        Cut([3, 4, 5], 4, 8),
    ]


def test_a_row_longer_than_all_shapes_is_a_cut_by_itself_and_no_cut_is_longer_than_a_backbone_reads():
    lengths = [600, 510, 20]
    assert shaped([0, 1, 2], lengths, "cuda", 1026, is_bf16=False)[0] == Cut([0], 1, 600)
    assert all(cut.tokens <= 40 for cut in shaped([0, 1], [38, 20], "cuda", 38, is_bf16=False))
    assert shaped([0], [38], "cuda", 38, is_bf16=False)[0].tokens == 38


# Rows on the device.


@pytest.mark.parametrize("has_segments", [True, False])
def test_a_batch_on_the_device_is_the_host_s(has_segments):
    rng = np.random.default_rng(0)
    texts = [
        tuple(
            Encoded(tuple(rng.integers(5, 99, n).tolist()), tuple(rng.integers(0, 2, n).tolist()), False, False)
            for n in rng.integers(1, 20, count)
        )
        for count in (1, 3, 2, 1)
    ]
    sent = DeviceRows.of(Part(texts, np.arange(4)), 1, CPU, has_segments=has_segments)
    chosen = [(3, 0), (1, 2), (1, 0), (0, 0), (2, 1)]
    windows = torch.tensor([sent.first[row] + place for row, place in chosen])
    theirs = collate([texts[row][place] for row, place in chosen], 1, has_segments=has_segments, tokens=24)
    ours = sent.batch(windows, 24)
    assert list(ours) == list(theirs)
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


@pytest.mark.parametrize("seeds", [[[3, 2**62]], [[1, 2], [3, 4], [5, 2**63 - 1]]])
def test_what_a_cut_is_told_arrives_and_rows_that_fill_it_repeat_the_first(seeds):
    inputs = Planned.inputs(Cut([7, 4], 4, 8), {7: 70, 4: 40}, seeds, 2.7, 31)
    told = Planned(inputs, 4)
    assert told.windows.tolist() == [70, 40, 70, 70]
    assert told.rows.tolist() == [7, 4, 7, 7]
    assert told.counted.tolist() == [True, True, False, False]
    assert told.keys.tolist() == [[*own, own[0], own[0]] for own in seeds]
    assert (float(told.weight), float(told.share)) == (2.7, 31 / 2.7)


@pytest.mark.parametrize("label", ["multiclass", "multilabel", "continuous"])
def test_rows_that_fill_a_shape_add_nothing_to_loss_and_gradient(label, monkeypatch):
    made, data = network(dropout=0.1, label=label), part(6, label=label)
    found = []
    for count in (3, 8):
        one = trainer(copy.deepcopy(made), intermediates(made, 2), label=label, dtype=torch.float32)
        own, (_, _, objective) = one._offloaded, one._offloaded._objective(data, 1)
        sent, numbers = own._send(data), [4, 0, 2]
        inputs = Planned.inputs(Cut(numbers, count, 24), {row: row for row in numbers}, [[11, 12, 13]], 3.0, 3)
        own._cut(sent, objective, count, 24, inputs)
        found.append((own.optimizer.gradient.clone(), own._losses.clone()))
    (exact, losses), (filled, same) = found
    assert float(exact.abs().max()) > 1e-3
    torch.testing.assert_close(filled, exact, rtol=0, atol=1e-6)
    torch.testing.assert_close(same, losses, rtol=1e-6, atol=0)


def test_texts_of_several_windows_are_read_as_on_a_processor_and_lanes_leave_alike(monkeypatch):
    windows, made = part(4 * BATCH), network(dropout=0.1)
    texts = [tuple(own for (own,) in windows.rows[start : start + 2]) for start in range(0, 4 * BATCH, 2)]
    data = Part([texts[0][:1], *texts[1:]], windows.labels[::2])
    here = trainer(copy.deepcopy(made), intermediates(made, 3), epochs=3)
    with pretend_gpu(monkeypatch):
        away = there(made)
        for epoch in (1, 2, 3):
            losses = [one.train_epoch(data, epoch, 2 * (epoch - 1), 6)[0].cpu() for one in (here, away)]
            assert torch.equal(*losses)
            if epoch == 2:
                here.only([0, 2])
                away.only([0, 2])
        for name, value in weights_of(away).items():
            assert torch.equal(value, here.state.trained[name].detach())


# Work that is recorded.


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (RobertaAdapterModel, dict(class_weights="balanced")),
        (RobertaAdapterModel, dict(loss=LDAM)),
        (RobertaAdapterModel, dict(noise=("a", "b", "c"))),
        (BertAdapterModel, dict(warmup=0.3)),
    ],
    ids=str,
)
def test_recorded_work_gives_the_bits_of_the_work_as_it_stands(kind, options, monkeypatch):
    made, data, found = network(kind, dropout=0.1), part(3 * BATCH + 2), []
    for has_graphs in (False, True):
        with pretend_gpu(monkeypatch, cutting="cuda", has_graphs=has_graphs) as gpu:
            one = there(made, **options)
            losses = [one.train_epoch(data, epoch, 4 * (epoch - 1), 12)[0].cpu() for epoch in (1, 2)]
            gpu.waits.clear()
            losses.append(one.train_epoch(data, 3, 8, 12)[0])
            assert gpu.waits == []
            assert (gpu.launches["graph"] > 0) == has_graphs
            one.only([0, 2] if not options.get("noise") else [0, 1, 2])
            losses.append(one.train_epoch(data, 4, 12, 20)[0])
            found.append((weights_of(one), [value.cpu() for value in losses]))
    (plain, losses), (repeated, same) = found
    assert all(torch.equal(plain[name], value) for name, value in repeated.items())
    assert all(map(torch.equal, losses, same))


def test_what_cannot_be_recorded_or_repeats_something_else_is_done_as_it_stands(caplog):
    def refuses(body):
        raise RuntimeError("operation not permitted when stream is capturing")

    def repeats_nothing(body):
        return lambda: None

    for capture, said in ((refuses, "not permitted"), (repeats_nothing, "differs")):
        caplog.clear()
        total, works = torch.zeros(3), Graphs(capture)
        with caplog.at_level(logging.WARNING):
            for number in (1.0, 2.0, 3.0):
                works.run("key", torch.tensor([number]), lambda inputs, total=total: total.add_(inputs), [total])
        assert total.tolist() == [6.0] * 3
        assert caplog.text.count("no CUDA graphs") == 1
        assert said in caplog.text


def test_only_cuda_records_and_memory_that_runs_out_meanwhile_is_not_hidden():
    def runs_out(body):
        raise torch.OutOfMemoryError("CUDA out of memory")

    with pytest.raises(torch.OutOfMemoryError):
        Graphs(runs_out).run("key", torch.zeros(1), lambda inputs: None, [torch.zeros(1)])
    assert offloaded.capturing(CPU) is None
    assert offloaded.capturing(DEVICE) is None
