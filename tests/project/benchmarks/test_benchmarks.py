"""The benchmark scripts run, say what they measured and refuse clearly; no time is ever judged."""

from __future__ import annotations

import importlib.util

import pandas as pd
import pytest
import torch

from benchmarks import machine
from benchmarks.steps import engines, gpu
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


def test_lengths_have_the_mean_that_was_asked_for():
    lengths = [len(windows[0].ids) for windows in rows(Shape(1, 32, 1, 40), 100, seed=0).rows]
    assert sum(lengths) / len(lengths) == pytest.approx(40, rel=0.05)
    assert max(lengths) <= 512


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


def test_a_machine_is_described_by_what_moves_its_figures():
    assert {"processor", "cores", "load", "torch", "adapters"} <= set(machine.described())


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
