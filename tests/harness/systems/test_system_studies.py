"""Studies that name systems: their files, plans, runs, and what every command says of them."""

import json

import pytest

from analysis.gains.cells import Lane, columns, planned_cells
from harness.run.grid import GridReport, steps_of
from harness.systems.system import OF_SYSTEM
from tests.support.studies.small_study import ONE, OVERRIDES, TWO, small_study

SYSTEMS = (
    'systems=["majority", "tfidf", "response"]',
    'system.response.kind="tfidf"',
    'system.response.reads="response"',
    "transfers=false",
)
NAMES = ["majority", "tfidf", "response"]


def system_study(store, *overrides):
    return small_study(store, *SYSTEMS, *overrides)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """The study after a run in which every cell was trained."""
    study = system_study(tmp_path_factory.mktemp("systems") / "runs")
    report = study.run()
    assert report.is_complete, report
    return study


def test_a_plan_ends_with_the_cells_of_systems_and_leaves_those_of_adapters_as_they_are(store):
    plan, without = system_study(store.root).plan, small_study(store.root, "transfers=false").plan
    systems = [cell for cell in plan.cells if cell.system]
    assert [cell.key for cell in plan.cells if not cell.system] == [cell.key for cell in without.cells]
    assert [(cell.system, cell.target) for cell in systems] == [(name, task) for name in NAMES for task in (ONE, TWO)]
    assert plan.cells[-len(systems) :] == systems
    only = system_study(store.root, f'system.tfidf.tasks=["{TWO}"]').plan
    assert [cell.target for cell in only.cells if cell.system == "tfidf"] == [TWO]
    once = system_study(store.root, "seeds=[1, 2]", "system.tfidf.seeds=[2]").plan
    assert [(cell.seed, cell.target) for cell in once.cells if cell.system == "tfidf"] == [(2, ONE), (2, TWO)]
    assert {cell.key for cell in systems} < {cell.key for cell in system_study(store.root, "seeds=[1, 2]").plan.cells}


def test_two_systems_of_one_seed_are_two_rows_and_two_lanes(done):
    manifest = done.store.manifest("tiny")
    frame = planned_cells(done.store, manifest)
    own = frame[(frame.role == "system") & (frame.target == ONE)]
    assert own.system.tolist() == NAMES
    assert own.status.tolist() == ["done"] * 3
    assert set(frame.system[frame.role != "system"]) == {""}
    column = next(iter(columns(done.store, frame[frame.target == ONE], draws=50, seed=1)))
    assert set(column.lanes) == {Lane("baseline", None, 1), *(Lane("system", None, 1, name) for name in NAMES)}
    assert column.draws.shape == (50, 4)


def test_another_run_finds_every_cell_and_trains_none(done):
    report = GridReport()
    assert steps_of(done.plan, done.store, report) == []
    assert len(report.stored) == len(done.plan.cells)


@pytest.mark.parametrize(("protocol", "shares"), [("protocol.repeats=3", 0.2), ("protocol.folds=5", 1.25)])
def test_a_plan_counts_the_test_rows_of_one_repeat_and_of_all_folds(command, tmp_path, protocol, shares):
    changes = [f'tasks=["{ONE}"]', "transfers=false", protocol, "max_train=9999", "max_val=9999", "max_test=9999"]
    changes += ["protocol.shares=[0.6, 0.2, 0.2]"] * ("repeats" in protocol)
    overrides = [word for change in changes for word in ("--set", change)]
    code, out, err = command("plan", "tiny", "--store", tmp_path, "--json", *overrides)
    assert (code, err) == (0, "")
    (column,) = json.loads(out)["columns"]
    every = column["train"] + column["validation"] + (column["test"] if "repeats" in protocol else 0)
    assert column["test"] == pytest.approx(shares * every, rel=0.2)


def test_status_and_plan_name_systems_and_forecast_them_by_their_own_records(done, command):
    root = done.store.root
    code, out, err = command("status", "tiny", "--store", root)
    assert (code, err) == (0, "")
    assert "system 6/6" in out
    overrides = [word for override in (*OVERRIDES, *SYSTEMS) for word in ("--set", override)]
    code, out, _ = command("plan", "tiny", "--store", root, "--json", *overrides, "--set", "seeds=[1, 2]")
    plan = json.loads(out)
    assert (code, plan["roles"]["system"]) == (0, 12)
    (hours,) = plan["costs"]["hours"]
    assert {way for way in hours["ways"] if way.startswith(OF_SYSTEM)} == {"system majority", "system tfidf"}
    assert plan["costs"]["not_forecast"] == {}
