"""Results that come with the package: read where the store has no run of the study, and never mixed with one's own."""

import json
import subprocess
import sys
import tarfile
from functools import partial

import pytest

from adapters_store import Store
from adapters_store import restore as archives
from analysis import sharing
from analysis.report import report
from harness.api import Study
from harness.cli.main import main
from harness.sharing import stored as places
from harness.sharing.stored import NoCache, NotRun, open_study, shipped_store
from harness.study.config import Analysis
from tests.harness.cli.test_archive import typed
from tests.support.studies.fake_study import FakeTask, fake_study, without_pictures

WHO = ["--creator", "Bernard, Ada; Some University", "--licence", "cc-by-nc-4.0"]
TASKS = (FakeTask("epitome_er"), FakeTask("role"), FakeTask("distress", "continuous"))
ANALYSIS = {"outcome": "points", "left_out": "target", "cells": "all", "without_rater": ""}
ANALYSIS |= {"weights": "inverse variance", "draws": 999, "margin": 2.0, "questions": ["pair"]}


@pytest.fixture(scope="module", autouse=True)
def fewer_draws():
    """Reports from 200 draws and without pictures; neither matters to what is tested here."""
    with pytest.MonkeyPatch.context() as patched, without_pictures():
        patched.setattr(sharing, "report", partial(report, draws=200))
        yield


@pytest.fixture(scope="module")
def archived(tmp_path_factory):
    """A folder with the archive of a study that declares its analysis."""
    root = tmp_path_factory.mktemp("made")
    store, manifest = fake_study(root / "runs", TASKS, study={"analysis": ANALYSIS})
    store.write_manifest("fake", {**manifest, "declared": "2023-12-31T00:00:00+00:00"})
    file = root / "shipped" / "fake-results.tar.xz"
    file.parent.mkdir()
    assert main(["store", "archive", "fake", "--store", str(store.root), "--out", str(file), "--quiet", *WHO]) == 0
    return file


@pytest.fixture(autouse=True)
def shipped(archived, tmp_path, monkeypatch):
    """That archive as if it came with the package, another folder to work in, and a cache of one's own."""
    monkeypatch.setattr(places, "FOLDER", archived.parent)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    places._warn.cache_clear()
    return archived


def unpacked(folder):
    return sorted((folder / "cache" / "empathy-transfer" / "shipped").iterdir())


def test_what_only_reads_works_from_the_shipped_results_and_says_so_once(tmp_path, capsys, caplog):
    code, out, _ = typed(capsys, "study", "cite", "fake", "--out", "-")
    assert code == 0 and "@inproceedings{sharma" in out
    assert [record.getMessage() for record in caplog.records] == [
        "store runs has no run of fake: these are its results of 2024-01-01 that come with this package; for your own:"
        " empathy-transfer run fake"
    ]
    code, out, _ = typed(capsys, "systems", "flips", "fake", "role", "epitome_er", "--json")
    assert code == 0 and json.loads(out)["by_seed"]
    code, out, _ = typed(capsys, "status", "fake", "--cell", "role->epitome_er", "--json")
    assert code == 0 and "role" in out
    assert len(unpacked(tmp_path)) == 1 and len(caplog.records) == 1
    assert not (tmp_path / "runs").exists()


def test_the_shipped_results_stand_beside_a_study_of_ones_own(tmp_path, capsys):
    own, manifest = fake_study(tmp_path / "runs", TASKS, helpful=[("role", "epitome_er")])
    own.write_manifest("mine", {**manifest, "name": "mine"})
    (own.root / "studies" / "fake.json").unlink()
    before = sorted(own.root.rglob("*"))
    code, out, _ = typed(capsys, "study", "compare", "fake", "mine")
    assert code == 0 and (tmp_path / "results" / "fake-against-mine").is_dir(), out
    kept = [path for path in own.root.rglob("*") if path not in before]
    assert all(path.is_relative_to(own.root / "measures") or path == own.root / "staging" for path in kept)
    assert own.manifests() == ["mine"]


def test_a_run_of_ones_own_comes_before_the_shipped_results(tmp_path, caplog):
    own, manifest = fake_study(tmp_path / "runs", TASKS[:2])
    store, shown = open_study(own, "fake")
    assert store is own and len(shown["cells"]) == len(manifest["cells"]) and not caplog.records
    assert not (tmp_path / "cache").exists()


def test_a_study_of_which_nothing_is_shipped_is_not_run_as_before(tmp_path):
    for name in ("demo", "../fake", "none"):
        with pytest.raises(NotRun, match="no run of study"):
            open_study(Store(tmp_path / "runs"), name)


def test_the_status_of_a_run_that_is_not_there_says_that_results_come_with_the_package(shipped, capsys):
    code, _, problem = typed(capsys, "status", "fake")
    assert code == 2
    assert problem.rstrip().endswith("; its results that come with this package: empathy-transfer report fake")
    assert "come with this package" not in typed(capsys, "status", "tiny")[2]


def test_the_report_of_the_shipped_results_is_that_of_the_archive(shipped, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("analysis.report.report", partial(report, draws=200))
    assert typed(capsys, "report", "fake", "--out", tmp_path / "out")[0] == 0
    with tarfile.open(shipped) as tar:
        tar.extractall(tmp_path / "kept", filter="data")
    comparison = sharing.compared(tmp_path / "kept" / "report", tmp_path / "out")
    assert comparison.differences == [] and comparison.tables > 10
    page = (tmp_path / "out" / "report.md").read_text()
    assert "Primary analysis declared 2023-12-31T00:00:00+00:00 (outcome points" in page
    assert "The first of 9 cells was trained 2024-01-01T00:00:00+00:00 by abc123." in page
    assert "## Declared questions" in page and "cannot be answered: it takes two seeds" in page


def test_the_python_face_reads_them_too(tmp_path, monkeypatch):
    monkeypatch.setattr(places, "ENDING", "-results.tar.xz")
    (tmp_path / "fake.toml").write_text('extends = "tiny"\n')
    study = Study(str(tmp_path / "fake.toml"), store=tmp_path / "runs")
    assert len(study.cells()) == 9 and set(study.baselines().target) == {task.id for task in TASKS}
    with pytest.raises(NotRun):
        study.manifest()


def test_verify_takes_the_name_of_a_shipped_study_and_states_the_declared_analysis(capsys):
    code, out, _ = typed(capsys, "store", "verify", "fake")
    assert code == 0 and "all equal" in out
    assert "Primary analysis declared 2023-12-31T00:00:00+00:00 (outcome points" in out
    assert f"hash {Analysis(**ANALYSIS).key}. The first of 9 cells was trained 2024-01-01" in out


def test_two_processes_at_once_unpack_the_same_store(shipped, tmp_path, monkeypatch):
    """The second comes while the first is still unpacking, and is ready before it."""
    unpack, inside = archives.unpack, []

    def slow(file, root):
        unpack(file, root)
        if not inside:
            inside.append(root)
            assert shipped_store(file, "fake").manifests() == ["fake"]

    monkeypatch.setattr(places, "unpack", slow)
    store = shipped_store(shipped, "fake")
    assert store.manifests() == ["fake"] and len(store.keys()) == 9
    assert [folder.name for folder in unpacked(tmp_path)] == [store.root.name]


def test_an_unpacking_that_is_interrupted_is_not_read_and_done_again(shipped, tmp_path, monkeypatch):
    def dies(file, root):
        archives.unpack(file, root)
        (root / "studies" / "fake.json").unlink()
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(places, "unpack", dies)
        shipped_store(shipped, "fake")
    assert unpacked(tmp_path) == []
    assert len(shipped_store(shipped, "fake").keys()) == 9


def test_a_cache_that_cannot_be_written_is_one_line_with_the_next_step(shipped, tmp_path, capsys):
    (tmp_path / "cache").write_text("a file where the folder should be")
    code, _, err = typed(capsys, "study", "cite", "fake", "--out", "-")
    assert code == 2 and err.count("\n") == 1
    assert "the shipped results of fake cannot be unpacked (Not a directory)" in err
    assert "XDG_CACHE_HOME" in err and f"store restore {shipped} --store DIR" in err


def test_an_archive_that_is_damaged_is_refused_and_leaves_nothing(shipped, tmp_path):
    cut = tmp_path / "fake-results.tar.xz"
    cut.write_bytes(shipped.read_bytes()[:-1000])
    with pytest.raises(NoCache, match="not a readable archive"):
        shipped_store(cut, "fake")
    assert unpacked(tmp_path) == []


@pytest.mark.parametrize("value", ["", "relative"])
def test_without_a_cache_variable_the_cache_is_below_home_and_a_relative_one_is_ignored(value, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", value)
    assert main(["study", "cite", "fake", "--out", "-"]) == 0
    assert len(list((tmp_path / ".cache" / "empathy-transfer" / "shipped").iterdir())) == 1


def test_reading_shipped_results_loads_no_training_library(shipped, tmp_path):
    code = (
        "import sys; from pathlib import Path; import harness.sharing.stored as places;"
        f" places.FOLDER = Path({str(shipped.parent)!r}); from harness.cli.main import main;"
        " code = main(['systems', 'flips', 'fake', 'role', 'epitome_er']);"
        " heavy = {'torch', 'transformers', 'adapters'} & set(sys.modules);"
        " sys.exit(f'loaded {heavy}' if heavy else code)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    assert "that come with this package" in done.stderr and "come with" not in done.stdout
