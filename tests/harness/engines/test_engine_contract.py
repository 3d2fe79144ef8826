"""What every engine does alike: one outcome a cell, in an order that holds, whatever fails; the same records."""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from adapters_store import Store
from harness.engines.local import Job, LocalEngine, Runner, WorkersEngine
from harness.run import notes
from harness.run.grid import Engine, Outcome, RunPack, Step
from harness.study.cell import Cell
from harness.study.config import Ray, Slurm
from harness.study.plan import Pack
from tests.support.studies.small_study import ONE, TWO, cell_of, cells_of, small_study, steps_of

FILES = ("test.parquet", "validation.parquet", "history.json", "adapter/adapter.safetensors")


@dataclass(frozen=True)
class Way:
    """An engine, and what makes the function that it runs the packs of a study with."""

    engine: Engine
    function: Callable[[Any], RunPack]


def runner(study):
    return Runner(study.plan.backbone, study.plan.splits, study.store, lambda *_: None, job=Job("tiny"))


def launch(study):
    return study.launch(threads=1)


def slurm_way(folder):
    from tests.support.clusters.slurm_cluster import Cluster, is_possible

    if not is_possible():
        pytest.fail("no Slurm") if os.environ.get("CI") else pytest.skip("needs root and the programs of Slurm")
    cluster = Cluster(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", cluster.env["SLURM_CONF"])
        try:
            cluster.up()
            from harness.engines.slurm_engine import SlurmEngine

            yield Way(SlurmEngine(Slurm(partition="low", time=30)), launch)
        finally:
            cluster.down()


def ray_way():
    from tests.support.clusters.ray_cluster import ray_cluster

    with pytest.MonkeyPatch.context() as patch, ray_cluster() as cluster:
        for name, value in cluster.environment.items():
            patch.setenv(name, value)
        from harness.engines.ray_engine import RayEngine

        yield Way(RayEngine(Ray(cluster.address)), launch)


WAYS = {
    "local": Way(LocalEngine(), runner),
    "workers": Way(WorkersEngine(2, 1), runner),
    "jobs": Way(LocalEngine(), launch),
}


MARKED = [("workers", pytest.mark.slow), ("slurm", pytest.mark.cluster), ("ray", pytest.mark.cluster)]


@pytest.fixture(scope="module", params=["local", "jobs", *(pytest.param(name, marks=mark) for name, mark in MARKED)])
def way(request, tmp_path_factory):
    if request.param == "slurm":
        yield from slurm_way(tmp_path_factory.mktemp("slurm"))
    elif request.param == "ray":
        yield from ray_way()
    else:
        yield WAYS[request.param]


@dataclass(frozen=True)
class Ran:
    """A study whose first baseline fails, after a run with an engine and after another one like it."""

    store: Store
    steps: list[Step]
    first: list[Outcome]
    second: list[Outcome]
    written: list[dict[str, int]]  # when each record was, before the runs, between and after them

    def errors(self, outcomes: list[Outcome]) -> dict[str, str | None]:
        return {one.cell.label: one.error for one in outcomes}

    def cell(self, target: str, intermediate: str | None = None, seed: int = 1) -> Cell:
        wanted = target, intermediate, seed
        return next(one for one in cells_of(self.steps) if (one.target, one.intermediate, one.seed) == wanted)


def run_twice(way, folder, stored=None):
    """Run four cells and one that is, with ``stored``, a copy from that store, as if another run had just made it."""
    study = small_study(folder / "runs")
    other = cell_of(study, TWO, seed=2)
    steps = [*steps_of(study, broken=True), Step(Pack((other,)))]
    if stored:
        shutil.copytree(stored.root / "objects" / other.key, study.store.root / "objects" / other.key)
    written, outcomes = [times(study.store)], []
    for _ in range(2):
        outcomes.append(list(way.engine.run(way.function(study), steps)))
        written.append(times(study.store))
    return Ran(study.store, steps, *outcomes, written)


def times(store):
    return {path.parent.name: path.stat().st_mtime_ns for path in store.root.glob("objects/*/record.json")}


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """Each cell trained in this process, one after the other."""
    return run_twice(WAYS["local"], tmp_path_factory.mktemp("reference"))


@pytest.fixture(scope="module")
def ran(way, reference, tmp_path_factory):
    return run_twice(way, tmp_path_factory.mktemp("ran"), reference.store)


def test_every_cell_has_one_outcome_and_one_that_fails_stops_only_what_stands_on_it(ran):
    for outcomes in (ran.first, ran.second):
        assert sorted(one.cell.key for one in outcomes) == sorted(cell.key for cell in cells_of(ran.steps))
    cell = ran.cell(ONE)
    (outcome,) = [one for one in ran.first if one.cell == cell]
    assert outcome.was_run
    assert outcome.error.startswith("KeyError: 'none'")
    note = notes.failure(ran.store, cell.key)
    assert (note.reason, note.study, note.label) == (outcome.error, "tiny", cell.label)
    assert "pack.py" in note.trace
    errors = ran.errors(ran.first)
    for cell in (ran.cell(TWO), ran.cell(TWO, seed=2), ran.cell(ONE, TWO)):
        assert errors[cell.label] is None
        assert cell.key in ran.store
    cell = ran.cell(TWO, ONE)
    (outcome,) = [one for one in ran.first if one.cell == cell]
    assert (outcome.was_run, outcome.error) == (False, f"its intermediate {ONE} failed")
    assert cell.key not in ran.store


def test_what_is_stored_is_not_trained_again_and_no_note_of_work_under_way_is_left(ran):
    key = ran.cell(TWO, seed=2).key
    assert ran.written[0] == {key: ran.written[1][key]}
    assert ran.written[2] == ran.written[1]
    assert ran.errors(ran.second) == ran.errors(ran.first)
    assert notes.progress(ran.store) == {}
    left = {path.name for path in ran.store.root.glob("packs/*/*") if path.suffix != ".safetensors"}
    assert left == {notes.FAILURE}  # beside a checkpoint of the cell that failed


def test_the_records_are_those_of_the_reference(ran, reference):
    assert ran.store.keys() == reference.store.keys()
    assert ran.errors(ran.first) == reference.errors(reference.first)
    for key in ran.store.keys():
        ours, theirs = ran.store.get(key), reference.store.get(key)
        assert json.dumps(ours.results) == json.dumps(theirs.results)
        for name in FILES:
            assert ran.store.open(key, name).read_bytes() == reference.store.open(key, name).read_bytes()
