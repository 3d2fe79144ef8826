"""``power``: the page and frames on what a study could have seen."""

import json
from pathlib import Path

import pandas as pd
import pytest

from analysis.results.published import results
from tests.support.studies.fake_study import FakeTask, fake_study


def test_power_of_the_published_tables_is_written(tmp_path, command):
    code, out, _ = command("study", "power", "published", "--grids", "2", "--quiet", "--json", "--out", tmp_path)
    page = Path(json.loads(out)["page"]).read_text()
    assert code == 0
    for part in ("APPROXIMATION", "no baseline has two seeds", "2 simulated grids"):
        assert part in page
    assert len(pd.read_csv(tmp_path / "tables" / "seen_effects.csv")) == 9
    visible = pd.read_csv(tmp_path / "tables" / "visible_gains.csv").set_index("target")
    one = results().gains.query("target == 'condolence'").standard_error.median()
    assert visible.visible["condolence"] == pytest.approx(100 * one * 2.80159, rel=1e-4)


def test_a_small_study_is_told_what_seeds_would_show_and_why_nothing_is_simulated(tmp_path, command):
    fake_study(tmp_path / "store", (FakeTask("hope"), FakeTask("role")), seeds=(1, 2), synthetic=True)
    code, out, _ = command("study", "power", "fake", "--store", tmp_path / "store", "--out", tmp_path / "out")
    headline, path, _, following = out.splitlines()
    assert code == 0
    assert headline.startswith("A single test finds a true gain of ")
    assert following.startswith("next: empathy-transfer plan fake --seeds 1,2,3 --store ")
    page = Path(path).read_text()
    assert page.startswith("# SYNTHETIC DATA: ")
    assert "Nothing can be simulated: no task has ratings." in page
    assert "| 10 | 10 | 2 |" in page
    assert set(pd.read_csv(tmp_path / "out" / "tables" / "visible_by_seeds.csv").target) == {"hope", "role"}
    assert not (tmp_path / "out" / "tables" / "detection.csv").exists()


def test_no_grids_are_refused(refused):
    assert "--grids 0" in refused("study", "power", "published", "--grids", "0")
