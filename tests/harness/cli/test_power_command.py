"""``power``: the page and frames on what a study could have seen."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from analysis.results.published import results
from harness.cli.main import main
from tests.support.studies.fake_study import FakeTask, fake_study


def test_power_of_the_published_tables_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "power", "published", "--grids", "2", "--quiet", "--json", "--out", str(tmp_path)]) == 0
    page = Path(json.loads(capsys.readouterr().out)["page"]).read_text()
    assert "APPROXIMATION" in page
    assert "no baseline has two seeds" in page
    assert "2 simulated grids" in page
    assert len(pd.read_csv(tmp_path / "tables" / "seen_effects.csv")) == 9
    visible = pd.read_csv(tmp_path / "tables" / "visible_gains.csv").set_index("target")
    one = results().gains.query("target == 'condolence'").standard_error.median()
    assert visible.visible["condolence"] == pytest.approx(100 * one * 2.80159, rel=1e-4)


def test_a_small_study_is_told_what_seeds_would_show_and_why_nothing_is_simulated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_study(tmp_path / "store", (FakeTask("hope"), FakeTask("role")), seeds=(1, 2), synthetic=True)
    assert main(["study", "power", "fake", "--store", str(tmp_path / "store"), "--out", str(tmp_path / "out")]) == 0
    headline, path, _, following = capsys.readouterr().out.splitlines()
    assert headline.startswith("A single test finds a true gain of ")
    assert following.startswith("next: empathy-transfer plan fake --seeds 1,2,3 --store ")
    page = Path(path).read_text()
    assert page.startswith("# SYNTHETIC DATA: ")
    assert "Nothing can be simulated: no task has ratings." in page
    assert "| 10 | 10 | 2 |" in page
    assert set(pd.read_csv(tmp_path / "out" / "tables" / "visible_by_seeds.csv").target) == {"hope", "role"}
    assert not (tmp_path / "out" / "tables" / "detection.csv").exists()


def test_no_grids_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "power", "published", "--grids", "0"]) == 2
    assert "--grids 0" in capsys.readouterr().err
