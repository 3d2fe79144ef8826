"""``store archive`` and ``store restore`` as they are typed."""

from __future__ import annotations

import json

import pytest

from adapters_store import Store
from harness.cli.main import main
from tests.support.studies.fake_study import FakeTask, fake_study


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    store, _ = fake_study(
        tmp_path_factory.mktemp("full"), (FakeTask("hope"), FakeTask("role")), absent=[("hope", "role")]
    )
    return store


def typed(capsys, *words):
    code = main(["store", *map(str, words)])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_a_study_goes_from_store_to_store(full, tmp_path, capsys):
    file, there = tmp_path / "fake.tar.gz", tmp_path / "there"
    code, out, _ = typed(capsys, "archive", "fake", "--store", full.root, "--out", file)
    assert code == 0
    assert f"{file}: 3 records, 0 measures, " in out
    assert "1 cells of the study have no record and are not in it" in out
    code, out, _ = typed(capsys, "restore", file, "--store", there)
    assert (code, out) == (0, f"study fake: 3 records and measures restored, 0 were in {there} before\n")
    assert Store(there).keys() == full.keys()
    code, out, _ = typed(capsys, "restore", file, "--store", there)
    assert (code, out) == (0, f"study fake: 0 records and measures restored, 3 were in {there} before\n")


def test_as_json_and_light(full, tmp_path, capsys):
    file = tmp_path / "fake.tar.gz"
    code, out, _ = typed(capsys, "archive", "fake", "--store", full.root, "--out", file, "--light", "--json")
    told = json.loads(out)
    assert (code, told["records"], len(told["missing"]), told["is_light"]) == (0, 3, 1, True)
    assert told["bytes"] == file.stat().st_size
    code, out, _ = typed(capsys, "restore", file, "--store", tmp_path / "there", "--json")
    assert (code, json.loads(out)["new"], json.loads(out)["differing"]) == (0, 3, {})
    _, out, _ = typed(capsys, "restore", file, "--store", tmp_path / "there")
    assert "cells that new ones stand on will be trained again" in out


def test_an_archive_has_the_name_of_its_study_unless_told_otherwise(full, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert typed(capsys, "archive", "fake", "--store", full.root)[0] == 0
    assert [path.name for path in tmp_path.iterdir()] == ["fake.tar.gz"]


def test_what_differs_is_named_and_ends_in_exit_code_1(full, tmp_path, capsys):
    file, other = tmp_path / "fake.tar.gz", Store(tmp_path / "other")
    typed(capsys, "archive", "fake", "--store", full.root, "--out", file)
    record = full.get(min(full.keys()))
    with other.staging() as folder:
        other.put(record.key, record.spec, {**record.results, "test": 0.125}, record.provenance, folder)
    code, out, _ = typed(capsys, "restore", file, "--store", other.root)
    assert code == 1
    assert f"differs  record {record.key}: file history.json, file test.parquet, test; what was there stays" in out
    assert other.get(record.key).results["test"] == 0.125


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["restore", "nowhere.tar.gz"], "nowhere.tar.gz: cannot be read"),
        (["restore", __file__], "not a readable archive"),
        (["archive", "nothing"], "no run of study 'nothing'"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_exit_code_2(full, tmp_path, capsys, words, said):
    code, out, err = typed(capsys, *words, "--store", full.root)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said in err
