"""The GPU benchmark measures what has room and gives every figure; what it prints is in test_benchmarks.py."""

from __future__ import annotations

import dataclasses
import json

import pytest
import torch

from benchmarks.steps import gpu
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
    rows = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert [row["lanes"] for row in rows] == [3, 1, 3, 1]
    for row in rows:
        assert row["cell_steps_a_second"] == pytest.approx(row["lanes"] / row["step_seconds"])
        assert 0 < row["host_share"] <= 1
        assert row["planned_bytes"] > 0
