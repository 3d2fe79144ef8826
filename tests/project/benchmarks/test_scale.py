"""The benchmark of growing grids: its studies are what the analysis takes, and its exponents are slopes."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import pytest

from analysis.gains.gains import gains
from analysis.results.results import Results
from benchmarks.grids import scale
from benchmarks.grids.synthetic_study import NAME, build


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return build(tmp_path_factory.mktemp("scale"), 4, 2, rows=60, groups=20)


def test_every_pair_of_a_synthetic_study_has_a_gain_over_all_seeds(store):
    frame = gains(store, store.manifest(NAME), draws=50)
    assert len(frame) == 4 * 3
    assert (frame.n_seeds == 2).all()
    assert np.isfinite(frame.points).all()


def test_its_tasks_have_ratings_that_the_analysis_reads(store):
    manifest = store.manifest(NAME)
    (results,) = Results.by_setting(store, manifest, gains(store, manifest, draws=50)).values()
    assert results.ratings.groupby("task").size().tolist() == [6] * 4


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


def test_the_growth_is_drawn(tmp_path):
    rows = [{"part": "gains", "tasks": n, "seeds": 1, "cpu_seconds": n, "seconds": n, "megabytes": n} for n in (3, 9)]
    scale.draw(pd.DataFrame(rows), tmp_path / "scale.svg")
    assert (tmp_path / "scale.svg").read_text().startswith("<?xml")


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
