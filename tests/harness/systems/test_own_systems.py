"""Systems of a user's own: Python files that run only if the command line names them, on every engine as any other."""

import json
from itertools import product
from pathlib import Path

import pandas as pd
import pytest

from analysis.results.leaderboard import leaderboard
from harness.engines.local import Job, LocalEngine, WorkersEngine
from harness.run.grid import Step
from harness.study import systems
from harness.study.plan import Pack
from harness.study.systems import add_files, own_files
from tasks.errors import BadStudy
from tests.harness.engines.test_engine_contract import MARKED, ray_way, slurm_way
from tests.support.studies.small_study import ONE, TWO, small_study

FOLDER = Path(__file__).resolve().parents[2] / "support" / "systems"
FILES = (FOLDER / "nearest_text.py", FOLDER / "length.py")
SYSTEMS = (
    'systems=["nearest-text", "length"]',
    f'system.nearest-text.tasks=["{ONE}"]',
    f'system.length.tasks=["{TWO}"]',
    "transfers=false",
)


@pytest.fixture(autouse=True)
def forgotten(monkeypatch):
    """Files that a test adds are unknown to the next."""
    monkeypatch.setattr(systems, "_own", {})


def test_a_file_that_was_not_named_is_no_system(command, tmp_path):
    arguments = ("plan", "tiny", "--store", tmp_path, "--set", 'systems=["length"]')
    code, _, err = command(*arguments)
    assert (code, len(err.splitlines())) == (2, 1)
    assert "a file of your own is named with --system FILE.py" in err
    code, out, err = command(*arguments, "--system", FOLDER / "length.py", "--set", f'tasks=["{TWO}"]')
    assert (code, err) == (0, "")
    assert "system length: hours not forecast" in out


@pytest.mark.parametrize(
    ("name", "text", "refusal"),
    [
        ("own.py", "raise ValueError('odd')", "own.py: it cannot be run: ValueError: odd"),
        ("own.py", "VERSION = 1", "own.py has 0 classes of Kind, and every system declares a single one"),
        ("majority.py", "VERSION = 1", "'majority' is a system that is shipped; give the file another name"),
        ("own.txt", "", "own.txt: no such Python file"),
    ],
)
def test_a_file_that_is_no_system_is_refused_in_one_line(name, text, refusal, tmp_path):
    (tmp_path / name).write_text(text)
    with pytest.raises(BadStudy, match=refusal) as problem:
        add_files([tmp_path / name])
    assert "\n" not in str(problem.value)
    assert own_files() == ()


@pytest.mark.parametrize(
    ("slip", "meant"),
    [
        ('    PACKAGE = ("torch",)', "packages"),
        ("    def pass_count(self, config):\n        return 2.0", "passes"),
        ("    def keep_bytes(self, config, outputs, backbone):\n        return 1", "kept_bytes"),
        ("    def identify(self, config):\n        return {}", "identity"),
        ('    locals = ("url",)', "local"),
        ("    def checked(self, config, name, task):\n        return None", "check"),
        ("    versoin = 2", "version"),
        ('    add = ("buckets",)', "added"),
        ("    checkpoints_copies = 2", "checkpoint_copies"),
        ('\nPACKAGES = ("torch",)', "packages"),
        ("\ndef leaving(config, instruction, parts, seed, answers):\n    return None", "leaving"),
    ],
)
def test_a_name_that_looks_like_one_of_the_contract_is_refused_with_the_nearest(slip, meant, tmp_path):
    text = FILES[0].read_text()
    (tmp_path / "own.py").write_text(f"{text}\n{slip}\n")
    with pytest.raises(BadStudy, match=rf"which nothing reads; did you mean {meant}\?") as problem:
        add_files([tmp_path / "own.py"])
    assert "\n" not in str(problem.value)
    further = "CLASSES = 3\n\n\ndef check_of_rows(rows):\n    return rows\n\n\n_PACKAGE = 1\n"
    (tmp_path / "fine.py").write_text(f"{text}\n\n{further}")
    add_files([tmp_path / "fine.py"])
    systems._own.clear()


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A study with both systems after a run here."""
    add_files(FILES)
    study = small_study(tmp_path_factory.mktemp("own") / "runs", *SYSTEMS)
    assert study.run().is_complete
    systems._own.clear()
    return study


def own_cells(study):
    return [cell for cell in study.plan.cells if cell.system]


def test_both_land_in_every_table(done, command, tmp_path):
    manifest = done.store.manifest("tiny")
    board = leaderboard(done.store, manifest, draws=50).board
    assert set(board.system[board.target == ONE]) == {"adapter alone", "nearest-text"}
    assert set(board.system[board.target == TWO]) == {"adapter alone", "length"}
    code, out, err = command("systems", "leaderboard", "tiny", "--store", done.store.root, "--out", tmp_path / "out")
    assert (code, err) == (0, "")
    assert "nearest-text" in out
    assert "length" in pd.read_csv(tmp_path / "out" / "tables" / "leaderboard.csv").system.tolist()
    code, _, err = command("systems", "leaderboard", "tiny", "--store", done.store.root, "--target", "news_empathi")
    assert (code, len(err.splitlines())) == (2, 1)
    code, out, _ = command("systems", "leaderboard", "tiny", "--store", done.store.root, "--out", tmp_path, "--json")
    assert {row["system"] for row in json.loads(out)["leaderboard"]} == set(board.system)


@pytest.fixture(params=["jobs", *(pytest.param(name, marks=mark) for name, mark in MARKED)])
def engine(request, tmp_path_factory):
    """An engine that runs jobs, in this process or on a Slurm or Ray that is started here; None: the local workers."""
    clusters = {"slurm": lambda: slurm_way(tmp_path_factory.mktemp("slurm")), "ray": ray_way}
    if request.param in clusters:
        for way in clusters[request.param]():
            yield way.engine
    else:
        yield {"jobs": LocalEngine(), "workers": None}[request.param]


def run_on(engine, study, cells):
    """Run cells of a study on an engine, or on the local workers where it is None."""
    if engine:
        function = study.launch(threads=1)
    else:
        engine, function = WorkersEngine(2, 1), study._engine("local", 2, 1, "auto", lambda *_: None)[1]
    outcomes = engine.run(function, [Step(Pack((cell,))) for cell in cells])
    assert [outcome.error for outcome in outcomes] == [None] * len(cells)


def assert_same_predictions(cells, *stores):
    for cell, name in product(cells, ("test.parquet", "validation.parquet")):
        pd.testing.assert_frame_equal(*(pd.read_parquet(store.open(cell.key, name)) for store in stores))


def test_other_engines_run_them_find_the_files_by_themselves_and_fill_the_same_tables(engine, done, store):
    add_files(FILES)
    study = small_study(store.root, *SYSTEMS)
    assert study.launch(threads=1).systems == own_files()
    run_on(engine, study, study.plan.cells)
    assert len(own_cells(study)) == 2
    assert_same_predictions(own_cells(study), store, done.store)
    ours, theirs = (leaderboard(place, done.store.manifest("tiny"), draws=50).frames for place in (store, done.store))
    for name in ours:
        pd.testing.assert_frame_equal(*(own[name].drop(columns="seconds", errors="ignore") for own in (ours, theirs)))


def test_a_job_refuses_a_file_that_has_changed_since_the_plan_and_another_plan_has_new_cells(store, tmp_path):
    own, settings = tmp_path / "length.py", ('systems=["length"]', f'tasks=["{TWO}"]', "transfers=false")
    own.write_text((FOLDER / "length.py").read_text())
    add_files([own])
    study = small_study(store.root, *settings)
    (cell,) = own_cells(study)
    job = study.launch(threads=1).job(Pack((cell,)))
    own.write_text(own.read_text() + "\n")
    (outcome,) = job(Job("tiny"))
    assert "file of system length differ here from what was planned" in outcome.error
    add_files([own])
    assert cell.key not in {other.key for other in own_cells(small_study(store.root, *settings))}
