"""Tasks that a user brings, with roles, folds, long texts and other languages: from a folder of entries to a report."""

import json

import pytest

from harness.api import Study
from harness.raw.holdings import data_folder
from harness.study.backbone import resolve
from harness.study.file import load_study
from harness.study.plan import make_plan
from harness.training.inputs import cut_shares
from tasks.registry import Registry
from tests.support.studies.fake_study import without_pictures

ENTRY = 'id = "{id}"\nfiles = ["{id}.csv"]\ntext = "text"\nlabel = "label"\nkind = "binary"\n{more}\n'
TASKS = {
    "given": 'role = "intermediate"',
    "asked": 'role = "target"\nsplit = "cv3"\nprivate = true',
    "chinese": 'language = "zh"\ntruncation = "windows"\nclass_weights = "balanced"',
}
STUDY = """
tasks = ["given", "asked", "chinese"]
registry = ["{folder}"]
backbone = "random-tiny"
floors = false
max_tokens = 24
[training]
epochs = 1
learning_rate = 2e-3
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("brought")
    for name, more in TASKS.items():
        (folder / f"{name}.toml").write_text(ENTRY.format(id=name, more=more), encoding="utf-8")
        words = ["谢谢你听我说", "冷"] if name == "chinese" else ["warm", "cold"]
        rows = "".join(f"{words[i % 2] * (1 + i % 4)} {i},{'yn'[i % 2]}\n" for i in range(120))
        (folder / f"{name}.csv").write_text("text,label\n" + rows, encoding="utf-8")
    study = folder / "study" / "mine.toml"
    study.parent.mkdir()
    study.write_text(STUDY.format(folder=folder), encoding="utf-8")
    return folder


def plan_of(folder, *overrides):
    study = load_study(str(folder / "study" / "mine.toml"), overrides)
    return make_plan(study, Registry.load([folder]), folder)


def test_a_task_is_planned_in_its_role_alone_in_a_limited_setting_too(folder):
    cells = [(cell.intermediate, cell.target) for cell in plan_of(folder).cells]
    assert sorted(pair for pair in cells if pair[0]) == [
        ("chinese", "asked"), ("given", "asked"), ("given", "chinese"),
    ]  # fmt: skip
    assert [target for intermediate, target in cells if not intermediate] == ["given", "asked", "chinese"]
    half = [cell for cell in plan_of(folder, 'settings=["half"]').cells if cell.setting == "half"]
    assert {cell.target for cell in half} == {"asked", "chinese"}
    assert {cell.intermediate for cell in half} == {None, "given", "chinese"}


def test_the_plan_shows_what_is_cut_and_what_to_know(folder, printed):
    arguments = [str(folder / "study" / "mine.toml"), "--data", str(folder), "--store", str(folder / "none")]
    shown = json.loads(printed("plan", *arguments, "--json", "--limit", "30"))
    rows = {row["target"]: row for row in shown["columns"]}
    assert rows["chinese"]["long texts"] == "windows"
    assert rows["chinese"]["text cut"] == "0.0 %"
    assert rows["given"]["test"] < 30
    assert rows["asked"]["test"] == 90
    assert "cross-validation in 3 folds" in shown["warnings"]["asked"][0]
    assert "warning: asked: cross-validation" in printed("plan", *arguments)


def test_the_share_that_is_cut_is_that_of_all_rows(folder):
    study, tiny = load_study(str(folder / "study" / "mine.toml")), resolve("random-tiny")
    splits = plan_of(folder).splits["given"]
    rows = splits.train[:10]
    long = tuple(row._replace(text="a" * 30) for row in rows[:3]) + rows[3:]
    assert cut_shares(splits.task, rows, study, tiny) == {"history": 0.0, "target": 0.0}
    assert cut_shares(splits.task, long, study, tiny)["target"] == pytest.approx(0.3)
    many = long * 200
    assert cut_shares(splits.task, many, study, tiny)["target"] == pytest.approx(0.3, abs=0.01)


def test_such_a_study_runs_from_files_to_a_report(folder, tmp_path):
    study = Study(str(folder / "study" / "mine.toml"), data=folder, store=tmp_path / "runs")
    report = study.run()
    assert report.is_complete, report.failed
    cells = study.cells()
    assert cells.n_test[cells.target == "asked"].tolist() == [120] * 3
    assert (cells.liveness[cells.intermediate.notna()] > 0).all()
    with without_pictures():
        page = study.report(tmp_path / "out").read_text(encoding="utf-8")
    assert "cross-validation in 3 folds" in page
    assert set(study.gains().target) == {"asked", "chinese"}


def test_a_synthetic_study_may_hold_tasks_of_ones_own_alone(folder, tmp_path):
    study = load_study(str(folder / "study" / "mine.toml"), ['data="synthetic"'])
    empty = data_folder(study, Registry.load([folder]), tmp_path / "none", tmp_path / "runs")
    assert empty.is_dir() and not list(empty.iterdir())
