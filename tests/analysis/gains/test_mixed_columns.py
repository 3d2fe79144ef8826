"""Columns whose cells come from different machines or versions are named, with what differs and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from analysis.gains.cells import mixed_columns, planned_cells
from analysis.report import report
from tests.support.studies.fake_study import FakeTask, fake_study, without_pictures

TASKS = (FakeTask("one"), FakeTask("two"), FakeTask("three"))


@pytest.fixture
def found(tmp_path):
    """The cells of a study and their records, all trained alike."""
    store, manifest = fake_study(tmp_path / "runs", TASKS, seeds=(1, 2))
    cells = planned_cells(store, manifest)
    return cells, [store.get(key) for key in cells.key]


def changed(cells, records, target, intermediate, seed, **provenance):
    """The records with another provenance of one cell."""
    of_pair = (cells.target == target) & (cells.intermediate == intermediate) & (cells.seed == seed)
    [key] = cells.key[of_pair]
    return [replace(one, provenance={**one.provenance, **provenance}) if one.key == key else one for one in records]


def test_columns_that_were_trained_alike_are_not_named(found):
    assert mixed_columns(*found) == []


def test_hosts_and_times_may_differ(found):
    cells, records = found
    records = changed(cells, records, "two", "one", 2, host="there", wall_seconds=9.0, created="2030-01-01")
    assert mixed_columns(cells, records) == []


def test_a_column_on_two_devices_is_named_once_and_the_others_are_not(found):
    cells, records = found
    for intermediate in ("one", "three"):
        records = changed(cells, records, "two", intermediate, 2, device="NVIDIA H200")
    assert mixed_columns(cells, records) == ["two, full: device NVIDIA H200; cpu"]


def test_versions_are_named_one_by_one_and_an_unknown_one_differs(found):
    cells, records = found
    records = changed(cells, records, "one", "two", 1, versions={"torch": "2.1", "adapters": "1.3.0"})
    assert mixed_columns(cells, records) == ["one, full: torch 2.0; 2.1", "one, full: adapters 1.3.0; unknown"]


def test_each_setting_is_a_column_of_its_own(tmp_path):
    store, manifest = fake_study(tmp_path / "runs", TASKS, settings=("full", "half"))
    cells = planned_cells(store, manifest)
    of_half = set(cells.key[cells.setting == "half"])
    records = [store.get(key) for key in cells.key]
    records = [
        replace(one, provenance={**one.provenance, "device": "other"}) if one.key in of_half else one for one in records
    ]
    assert mixed_columns(cells, records) == []


def test_the_report_warns_of_a_mixed_column_and_only_then(tmp_path, monkeypatch):
    store, manifest = fake_study(tmp_path / "runs", TASKS[:2])
    with without_pictures():
        page = report(store, manifest, tmp_path / "out", draws=50).page.read_text(encoding="utf-8")
    assert "Mixed columns" not in page
    get, odd = type(store).get, manifest["cells"][0]["key"]

    def moved(self, key):
        record = get(self, key)
        return replace(record, provenance={**record.provenance, "device": "other"}) if key == odd else record

    monkeypatch.setattr(type(store), "get", moved)
    with without_pictures():
        page = report(store, manifest, tmp_path / "out", draws=50).page.read_text(encoding="utf-8")
    [line] = [line for line in page.splitlines() if line.startswith("- one, full: ")]
    assert line == "- one, full: device cpu; other"
    assert "**Mixed columns.**" in page
