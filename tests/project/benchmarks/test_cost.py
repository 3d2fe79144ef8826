"""What costs grow with, and how a large study is made."""

import re
import sys

import numpy as np
import pandas as pd
import pytest
import torch

from analysis.gains.gains import gains
from benchmarks.grids import scale
from benchmarks.grids.synthetic_study import NAME, build
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


# The benchmark of growing grids: its studies are what the analysis takes, and its exponents are slopes.


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return build(tmp_path_factory.mktemp("scale"), 4, 2, rows=60, groups=20)


def test_every_pair_of_a_synthetic_study_has_a_gain_over_all_seeds(store):
    frame = gains(store, store.manifest(NAME), draws=50)
    assert len(frame) == 4 * 3
    assert (frame.n_seeds == 2).all()
    assert np.isfinite(frame.points).all()


def test_exponents_are_the_slopes_of_the_logarithms():
    sizes = [10, 20, 40]
    rows = [{"part": "gains", "tasks": n, "seeds": 1, "cpu_seconds": 3.0 * n**2} for n in sizes]
    table = pd.DataFrame(rows).assign(seconds=1.0, megabytes=[7.0 * n for n in sizes])
    assert scale.exponents(table)["gains"] == pytest.approx((2.0, 1.0))


def test_a_part_that_fails_costs_nothing_that_is_known_and_says_why(tmp_path, capfd):
    cost = scale.spent([sys.executable, "-c", "raise SystemExit('it broke')"], tmp_path, 60)
    assert np.isnan(cost.cpu_seconds)
    assert "it broke" in capfd.readouterr().err


def test_a_part_that_lasts_too_long_is_given_up(tmp_path):
    assert np.isnan(scale.spent([sys.executable, "-c", "import time; time.sleep(600)"], tmp_path, 0).seconds)


def test_what_the_file_holds_is_not_measured_again(tmp_path, monkeypatch):
    asked, file = [], tmp_path / "growth.csv"

    def measured(tasks, seeds, parts, *_):
        asked.append((tasks, list(parts)))
        cost = {"cpu_seconds": 2.0, "seconds": 3.0, "megabytes": 50.0}
        yield from ({"part": part, "tasks": tasks, "seeds": seeds, **cost} for part in parts)

    monkeypatch.setattr(scale, "measured", measured)
    for tasks, parts in ((["4"], ["gains"]), (["4", "8"], ["gains", "report"]), (["4", "8"], ["report"])):
        scale.main(["--tasks", *tasks, "--parts", *parts, "--csv", str(file)])
    assert asked == [(4, ["gains"]), (4, ["report"]), (8, ["gains", "report"])]
    kept = pd.read_csv(file)
    assert list(zip(kept.tasks, kept.part, strict=True)) == [(4, "gains"), (4, "report"), (8, "gains"), (8, "report")]
