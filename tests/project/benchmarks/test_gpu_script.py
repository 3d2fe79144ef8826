"""The GPU benchmark measures what has room and gives every figure; what it prints is in test_benchmarks.py."""

from __future__ import annotations

import dataclasses
import json
from importlib.util import find_spec

import pytest
import torch

from benchmarks.steps import cut_shapes, gpu
from benchmarks.steps.columns import columns


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


def test_adapter_trainer_s_step_is_timed_in_the_same_run_and_held_against_a_cell_s(capsys):
    gpu.main(["--device", "cpu", "--tiny", "--steps", "1", "--only", "condolence", "--precision", "fp32"])
    printed = capsys.readouterr().out
    assert "AdapterTrainer: ms/step  times" in printed
    timed = [line for line in printed.splitlines() if line.startswith("condolence")]
    assert len(timed) == 2
    if find_spec("accelerate"):
        assert all(line.split("|")[0].rstrip().endswith("x") for line in timed)
    else:
        assert all("not run: no accelerate" in line for line in timed)


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
