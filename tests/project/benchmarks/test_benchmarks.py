"""The benchmarks: what is timed is what is trained, and figures are those of hand."""

import dataclasses
import importlib.util
import json
from collections import Counter

import pandas as pd
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.grids import bootstrap
from benchmarks.steps import cost, cut_shapes, engines, gpu, share
from benchmarks.steps.columns import columns
from benchmarks.steps.peers import WAYS
from benchmarks.steps.shapes import Shape, network, rows
from benchmarks.studies import precision
from benchmarks.trainings import cells, workers

TINY = "--layers 2 --width 32 --lanes 2 --mean 8 --batch 4 --steps 1 --rounds 2".split()
NEEDS_ACCELERATE = {"trainer-dynamic", "trainer-512"}


@pytest.fixture(autouse=True)
def _threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("way", sorted(WAYS))
def test_every_way_trains_every_step_it_is_timed_for(way):
    if way in NEEDS_ACCELERATE and importlib.util.find_spec("accelerate") is None:
        pytest.skip("needs the extra bench")
    shape = Shape(2, 32, 2, 8, 4)
    made = network(shape)
    run = WAYS[way](made, shape)
    before = {name: value.detach().clone() for name, value in made.named_parameters()}
    assert run(rows(shape, 2, seed=1)) > 0
    changed = {name for name, value in made.named_parameters() if not torch.equal(value, before[name])}
    if way.startswith("lanes"):
        assert changed == set()  # their weights are apart until a lane is saved
    else:
        assert changed
        assert all(".adapters.t" in name or name.startswith("heads.") for name in changed)


def test_ratios_come_first_and_are_taken_within_a_round(capsys):
    engines.main([*TINY, "--ways", "bare", "lanes"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("2 layers x 32, K = 2, mean 8 tokens, batch 4")
    assert lines[1].split()[:3] == ["bare", "/", "lanes"]
    assert engines.table({"bare": [4.0, 9.0, 10.0], "lanes": [1.0, 3.0, 2.0]}, ["lanes"]).split()[3] == "4.00"


def test_a_missing_requirement_of_the_peer_is_named_with_the_command_to_type(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SystemExit, match=r"accelerate.*pip install -c constraints.txt -e '\.\[bench\]'"):
        engines.main([*TINY, "--ways", "trainer-dynamic", "lanes"])


def test_the_grid_has_the_paper_s_columns():
    grid = {column.target: column for column in columns()}
    assert len(grid) == 18
    assert grid["epitome_er"].train + grid["epitome_er"].validation + grid["epitome_er"].test in range(3021, 3026)
    assert sum(column.epochs * column.train for column in grid.values()) == pytest.approx(2.51e6, rel=0.01)


def test_the_useful_work_of_a_middle_layer_is_twice_its_forward_pass():
    """Two products of the same size: one forward, one back to the activations, none to the frozen weights."""
    layer = gpu.useful_flop(4, 64, 1, [1]) - gpu.useful_flop(3, 64, 1, [1])
    assert layer == 2 * 2 * 12 * 64**2 + 12 * 64 + 1.25 * 64**2


def test_without_a_gpu_the_gpu_script_says_so(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit, match=r"sees no CUDA device.*--device cpu --tiny"):
        gpu.main([])


def test_the_gpu_script_tells_what_is_measured_from_what_is_extrapolated(capsys):
    gpu.main(["--device", "cpu", "--tiny", "--steps", "1", "--precision", "fp32"])
    printed = capsys.readouterr().out
    for said in ("assumed: 1.25 pieces", "not measured", "measured: steps", "extrapolated: these 2 columns"):
        assert said in printed


def test_a_column_is_timed_against_cells_one_by_one(capsys):
    short = ["tasks=['epitome_er', 'news_empathy']", "training.epochs=1", "max_train=16", "max_val=8", "max_test=8"]
    cells.main(["--study", "tiny", "--synthetic", *(one for value in short for one in ("--set", value))])
    printed = capsys.readouterr().out
    assert "column epitome_er, synthetic files" in printed
    assert "cells for one" in printed
    assert "test score of the transfer: 0." in printed


def test_a_column_needs_files_or_the_word_that_they_are_made_up(monkeypatch):
    monkeypatch.delenv("EMPATHY_DATA", raising=False)
    with pytest.raises(SystemExit, match="EMPATHY_DATA"):
        cells.main([])


def test_spreads_of_precision_are_those_of_hand():
    index = pd.MultiIndex.from_tuples([("transfer", "t", "a"), ("transfer", "t", "b")], names=precision.PAIR)
    fp32 = pd.DataFrame([[50.0, 52.0], [60.0, 66.0]], index=index, columns=[1, 2])
    bf16 = pd.DataFrame([[51.0, 51.0], [60.0, 64.0]], index=index, columns=[1, 2])
    (row,) = precision.summary(fp32, bf16).to_dict("records")
    assert row["score"] == 57
    assert row["seed sd"] == pytest.approx(10**0.5)  # variances 2 and 18
    assert row["two seeds'"] == pytest.approx(20**0.5)
    assert row["bf16 - fp32, one seed's"] == pytest.approx(1.5**0.5)  # 1, -1, 0, -2
    assert row["of means"] == pytest.approx(0.5**0.5)  # 0, -1
    assert row["mean"] == -0.5


def test_two_workers_are_as_much_faster_as_two_threads_took_longer(monkeypatch, capsys):
    took = {(2, 1): iter([(10.0, 8.0), (20.0, 8.0)]), (1, 2): iter([(15.0, 12.0), (24.0, 12.0)])}
    monkeypatch.setattr(workers, "_run", lambda study, *way: next(took[way]))
    workers.main(["--rounds", "2"])
    said = capsys.readouterr().out
    assert "demo: two workers are 1.35 times as fast as two threads" in said  # between 15 / 10 and 24 / 20
    assert "two threads for one of two workers: 1.50" in said


# The benchmark of resampling runs, on a few rows.


def test_the_benchmark_resamples_a_whole_grid(capsys: pytest.CaptureFixture[str]) -> None:
    bootstrap.main(["--draws", "40", "--limit", "60"])
    printed = capsys.readouterr().out
    assert "306 gains, 40 draws, 1 seeds" in printed
    assert printed.count("since the start") == 18


# The GPU benchmark measures what has room and gives every figure; what it prints is in test_benchmarks.py.


def test_a_column_without_room_is_measured_in_halves_and_extrapolated_whole(monkeypatch):
    tried, measured = [], gpu._measured

    def two_have_room(column, lanes, *rest):
        tried.append(lanes)
        if lanes > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return dataclasses.replace(measured(column, lanes, *rest), extrapolated_training_seconds=10.0)

    monkeypatch.setattr(gpu, "_measured", two_have_room)
    options = gpu._parser().parse_args(["--tiny", "--steps", "1", "--precision", "fp32"])
    column = dataclasses.replace(next(iter(columns())), batch=4, mean=8)
    found = gpu._in_chunks(column, 17, options, torch.device("cpu"))
    assert tried == [17, 8, 4, 2]
    assert (found.lanes, found.extrapolated_training_seconds) == (2, 90.0)


def test_the_gpu_script_writes_every_figure_without_nan(capsys):
    gpu.main(["--device", "cpu", "--tiny", "--steps", "1", "--json"])
    rows = [json.loads(line, parse_constant=pytest.fail) for line in capsys.readouterr().out.splitlines()]
    assert [row["lanes"] for row in rows] == [3, 1, 3, 1]
    for row in rows:
        assert row["cell_steps_a_second"] == pytest.approx(row["lanes"] / row["step_seconds"])
        assert 0 < row["host_share"] <= 1
        assert row["planned_bytes"] > 0


def test_a_cell_s_ratio_is_the_trainer_s_step_over_a_lane_s_share():
    fields = {field.name: 1.0 for field in dataclasses.fields(gpu.Measured)}
    one = gpu.Measured(**fields | {"step_seconds": 0.5, "lanes": 10, "cell_steps_a_second": 20.0})
    assert dataclasses.replace(one, trainer_step_seconds=0.3).trainer_ratio == pytest.approx(0.3 / (0.5 / 10))
    assert dataclasses.replace(one, trainer_step_seconds=None).trainer_ratio is None


def test_the_shapes_of_cuts_are_held_against_cuts_of_any_shape(capsys):
    cut_shapes.main(["--batches", "2"])
    printed = capsys.readouterr().out
    assert "optimizer steps of each way, all columns: 129,448" in printed
    bounded, free = (cut_shapes.measured(2, is_bounded=is_bounded) for is_bounded in (True, False))
    assert bounded.shapes <= 12 < free.shapes
    assert bounded.real == pytest.approx(free.real)
    assert bounded.padding < free.padding + 0.05


# What a step's frozen products are, and that the benchmark computes them and says their share; no time is judged.

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
