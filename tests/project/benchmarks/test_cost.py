"""The costs of a step are measured at every point and drawn with their limit; no time is judged."""

from __future__ import annotations

import re

import pandas as pd
import pytest
import torch

from benchmarks.steps import cost
from benchmarks.steps.shapes import Shape
from benchmarks.trainings import users


def test_one_thing_grows_at_a_time():
    made = list(cost.points([1, 36], [20], ["12x768"], 5))
    assert made == [
        ("lanes", "1", Shape(6, 384, 1, 40)),
        ("lanes", "36", Shape(6, 384, 36, 40)),
        ("tokens", "20", Shape(6, 384, 5, 20)),
        ("width", "12x768", Shape(12, 768, 5, 40)),
    ]


@pytest.mark.slow
def test_points_are_measured_kept_and_drawn(tmp_path, capsys):
    files = ["--csv", str(tmp_path / "cost.csv"), "--plot", str(tmp_path / "cost.png")]
    cost.main(["--lanes", "--tokens", "--widths", "2x32", "--beside", "2", "--rounds", "1", *files])
    table = pd.read_csv(tmp_path / "cost.csv")
    assert table.value.tolist() == ["2x32"]
    assert (table[["seconds", "limit"]] > 0).all(axis=None)
    assert (tmp_path / "cost.png").stat().st_size > 1000
    assert "limit" in capsys.readouterr().out


@pytest.mark.slow
def test_every_way_of_a_user_trains_the_column_and_scores_its_test_rows(capsys):
    pytest.importorskip("accelerate")
    study = ["backbone='random-tiny'", "training.epochs=2", "max_train=24", "max_val=12", "max_test=12"]
    tasks = 'tasks=["epitome_er","news_empathy","conv_empathy"]'
    users.main(["--synthetic", *(part for one in [tasks, *study] for part in ("--set", one))])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("real-small, column epitome_er, 2 transfers")
    of_ways = [line for line in lines[1:-1] if "a transfer:" not in line]
    assert [line.split()[0] for line in of_ways] == ["lanes", "trainer", "parallel", "lanes-bf16", "trainer-bf16"]
    tokens = re.search(r"2 epochs of 24 rows are (48 rows and [\d,]+ tokens in 4 steps)", lines[0])[1]
    read = [line.partition("a transfer: ")[2] for line in lines[1:] if "a transfer:" in line]
    assert [line.rpartition(",")[0] for line in read] == [tokens] * 3  # both epochs, dropout on


def test_what_is_only_scored_is_not_counted_as_trained_on():
    reading, network, batch = users.Reading(), torch.nn.Linear(1, 1), {"attention_mask": torch.tensor([[1, 1], [1, 0]])}
    network.eval()
    reading.add(network, (), batch)
    assert reading == users.Reading()
    network.train()
    reading.add(network, (), batch)
    assert reading == users.Reading(batches=1, rows=2, tokens=3, places=4)
