"""docs/check.py: sixty lines that recompute an archive's numbers without this project, and find what was altered."""

import ast
import io
import re
import runpy
import sys
from functools import partial
from pathlib import Path

import pandas as pd
import pytest

from analysis import sharing
from analysis.report import report
from harness.cli.main import main
from tests.support.studies.fake_study import FakeTask, fake_study, without_pictures
from tests.support.studies.forged import members, repacked, with_predictions

pytestmark = pytest.mark.filterwarnings("ignore:An input array is constant")
ROOT = Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "docs" / "check.py"
TASKS = (FakeTask("epitome_er"), FakeTask("role"), FakeTask("distress", "continuous"))
WHO = ["--creator", "Bernard, Ada; Some University", "--licence", "cc-by-nc-4.0"]
ALTERED = [
    ("cells", "score"),
    ("gains", "baseline"),
    ("gains", "score"),
    ("gains", "points"),
    ("gains", "p_bh"),
    ("gains", "p"),
    ("controls", "points"),
    ("leaderboard_pairs", "points"),
]


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """The archive of a study of two seeds with gains, a control and two systems; a constant r is undefined."""
    root = tmp_path_factory.mktemp("made")
    options = {"seeds": (1, 2), "controls": ("self",), "systems": ("tfidf", "majority")}
    store, _ = fake_study(root / "runs", TASKS, constant=[("role", "distress")], **options)
    file = root / "fake-results.tar.xz"
    with pytest.MonkeyPatch.context() as patched, without_pictures():
        patched.setattr(sharing, "report", partial(report, draws=200))
        words = ["store", "archive", "fake", "--store", str(store.root), "--out", str(file), "--quiet", *WHO]
        assert main(words) == 0
    return file


@pytest.fixture
def checked(monkeypatch, capsys):
    """Exit code of the script for an archive, and by its lines how many numbers were compared."""

    def run(file):
        monkeypatch.setattr(sys, "argv", ["check.py", str(file)])
        with pytest.raises(SystemExit) as end:
            runpy.run_path(str(SCRIPT), run_name="__main__")
        lines = re.findall(r"^(.*?) +(\d+) compared, largest difference", capsys.readouterr().out, re.MULTILINE)
        return end.value.code, {what: int(count) for what, count in lines}

    return run


def test_it_is_short_and_imports_nothing_of_this_project():
    text = SCRIPT.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 60
    imports = [node for node in ast.walk(ast.parse(text)) if isinstance(node, (ast.Import, ast.ImportFrom))]
    names = {getattr(node, "module", None) or alias.name for node in imports for alias in node.names}
    libraries = {name.partition(".")[0] for name in names} - sys.stdlib_module_names
    assert libraries == {"numpy", "pandas", "scipy", "sklearn"}


def test_it_finds_every_number_of_an_archive_equal(archive, checked):
    code, counts = checked(archive)
    assert code == 0
    assert counts == {
        "cells.csv: score": 2 * (3 + 6 + 3 + 6),
        **{f"gains.csv, controls.csv: {name}": 6 + 3 for name in ("baseline", "score", "points")},
        "gains.csv: p_bh": 5,
        "leaderboard_pairs.csv: points": 3 * 6,
    }


@pytest.mark.parametrize(("table", "column"), ALTERED)
def test_one_altered_cell_of_a_table_is_found(table, column, archive, checked, tmp_path):
    content, name = members(archive), f"report/tables/{table}.csv"
    frame = pd.read_csv(io.BytesIO(content[name]))
    row = frame[column].first_valid_index()
    frame.loc[row, column] += 2e-6 if column != "p" else 0.02
    content[name] = frame.to_csv(index=False).encode()
    assert checked(repacked(tmp_path / "altered.tar.gz", content))[0] == 1


def test_a_gain_that_was_left_out_is_found(archive, checked, tmp_path):
    content, name = members(archive), "report/tables/gains.csv"
    content[name] = b"\n".join(content[name].splitlines()[:-1])
    assert checked(repacked(tmp_path / "altered.tar.gz", content))[0] == 1


def test_altered_predictions_are_found(archive, checked, tmp_path):
    content = members(archive)
    changes, _ = with_predictions(content, is_scored=False)
    assert checked(repacked(tmp_path / "altered.tar.gz", content | changes))[0] == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("study", "scores", "gains"), [("reference", 609, 132), ("reference-systems", 93, 0), ("wide", 715, 261)]
)
def test_the_shipped_archives_have_the_numbers_that_their_predictions_give(study, scores, gains, checked):
    code, counts = checked(ROOT / "harness" / "study" / "shipped" / f"{study}-results.tar.xz")
    assert code == 0
    assert (counts["cells.csv: score"], counts["gains.csv: p_bh"]) == (scores, gains)
