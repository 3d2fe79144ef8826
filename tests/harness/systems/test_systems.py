"""What every system does for those who run and cost cells, and that a third one is a single file."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import pandas as pd
import pytest

import harness.systems
from adapters_store import key_of
from harness.engines.local import Runner
from harness.run.pack import PackRunner
from harness.study.cell import make_cell
from harness.study.plan import Pack
from harness.systems import name_of_system, system_names, system_of
from harness.systems.system import System
from tasks.errors import BadInput

MAJORITY = """
import json

import numpy as np

from harness.training.inputs import rows_of
from harness.training.trained import Fitted, Trained


class Majority:
    packages = ("numpy",)

    def groups(self, cells):
        return [(cell,) for cell in cells]

    def steps(self, spec):
        return 1

    def way(self, spec, lanes):
        return "majority"

    def weights(self, spec, layers, width):
        return 0

    def train(self, attempt):
        (cell,) = attempt.cells
        rows = rows_of(cell, attempt.splits)
        counts = np.bincount([row.label for row in rows.train]).astype(np.float32)
        logits = {name: np.tile(counts, (len(getattr(rows, name)), 1)) for name in ("validation", "test")}
        attempt.watch(attempt.label, 1, 1)

        def save(folder):
            folder.mkdir()
            (folder / "counts.json").write_text(json.dumps(counts.tolist()))

        return [Trained(save, rows, logits, Fitted(1, 0.0, [{"epoch": 1, "train_loss": 0.0, "validation": 0.0}]))]


SYSTEM = Majority()
"""


@pytest.fixture
def majority(tmp_path, monkeypatch, study, tiny, toy_splits):
    """A cell of a system whose only file lies in a folder of its own."""
    (tmp_path / "majority.py").write_text(MAJORITY)
    monkeypatch.setattr(harness.systems, "__path__", [*harness.systems.__path__, str(tmp_path)])
    system_names.cache_clear()
    cell = make_cell(study, tiny, toy_splits("one"), seed=1, setting="full")
    left_out = ("adapter", "composition", "training", "class_weights", "library", "precision", "retry_collapsed")
    spec = {name: value for name, value in cell.spec.items() if name not in left_out} | {"system": "majority"}
    yield dataclasses.replace(cell, spec=spec, key=key_of(spec))
    sys.modules.pop("harness.systems.majority", None)
    system_names.cache_clear()


@pytest.mark.parametrize("name", system_names())
def test_every_system_keeps_the_contract(name, study, tiny, toy_splits):
    cell = make_cell(dataclasses.replace(study, trainer=name), tiny, toy_splits("one"), seed=1, setting="full")
    other = make_cell(dataclasses.replace(study, trainer=name), tiny, toy_splits("one"), seed=2, setting="full")
    system = system_of(cell.spec)
    assert isinstance(system, System)
    assert [member for group in system.groups([cell, other]) for member in group] == [cell, other]
    assert system.steps(cell.spec) == cell.spec["training"]["epochs"]
    assert system.way(cell.spec, 1)
    assert system.weights(cell.spec, layers=2, width=32) > 0
    assert "torch" in system.packages


def test_an_adapter_s_system_is_its_trainer_and_an_unknown_one_is_refused_by_name():
    assert name_of_system({"trainer": "lanes"}) == "lanes"
    with pytest.raises(BadInput, match="no system 'lane' is known here; did you mean 'lanes'"):
        system_of({"trainer": "lanes", "system": "lane"})


def test_asking_a_system_for_steps_and_costs_loads_no_torch():
    code = "import sys; from harness.systems import *; from harness.systems import system_names, system_of;"
    code += "[system_of({'trainer': name}) for name in system_names()]; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_third_system_is_one_file(majority, tiny, toy_splits, store):
    heard = []
    runner = PackRunner(tiny, {"one": toy_splits("one")}, store, lambda *said: heard.append(said))
    (outcome,) = runner.run_pack(Pack((majority,)))
    assert outcome.error is None, outcome.trace
    record = store.get(majority.key)
    assert record.results["test"] == record.results["floor"]
    assert record.results["flags"] == ["collapsed", "constant_prediction"]
    assert (record.results["cut"], record.results["liveness"]) == ({}, None)
    assert set(record.provenance["versions"]) == {"python", "numpy"}
    assert "adapter/counts.json" in record.files
    assert len(pd.read_parquet(store.open(majority.key, "test.parquet"))) == record.results["n_test"]
    assert heard == [(majority.label, 1, 1)]


def test_an_engine_runs_a_third_system_as_any_other(majority, tiny, toy_splits, store):
    (outcome,) = Runner(tiny, {"one": toy_splits("one")}, store, lambda *_: None)(Pack((majority,)))
    assert outcome.error is None
    assert majority.key in store
