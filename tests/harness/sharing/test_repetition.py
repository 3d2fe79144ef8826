"""Cells that were trained twice: scores, decisions and predictions of both, held against each other."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest

from adapters_store import Store
from adapters_store.archive import archive
from harness.cli.main import main
from harness.sharing.repetition import NotTheSameRows, by_metric, repetitions
from tasks.metrics import labels_and_logits, score
from tests.support.studies.fake_study import FakeTask, fake_study

TASKS = (FakeTask("hope"), FakeTask("distress", "continuous"), FakeTask("emotions", "multilabel"))


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    return fake_study(tmp_path_factory.mktemp("first"), TASKS)


def changed(stored, root, target, change):
    """A copy of the store in which the predictions of one baseline are ``change(table)``, and its score theirs."""
    first, manifest = stored
    [key] = [cell["key"] for cell in manifest["cells"] if cell["target"] == target and not cell["intermediate"]]
    copy = Store(root)
    for own in first.keys():
        record = first.get(own)
        with copy.staging() as folder:
            for name in record.files:
                shutil.copyfile(first.open(own, name), folder / name)
            results = record.results
            if own == key:
                table = change(pd.read_parquet(folder / "test.parquet"))
                table.to_parquet(folder / "test.parquet", index=False)
                columns = {name: table[name].to_numpy() for name in table}
                results = {**results, "test": score(results["metric"], *labels_and_logits(columns))}
            copy.put(own, record.spec, results, record.provenance, folder)
    return copy, key


def keys(manifest):
    return [cell["key"] for cell in manifest["cells"]]


def test_a_store_beside_itself_differs_in_nothing(stored):
    store, manifest = stored
    cells = repetitions(store, store, keys(manifest))
    assert {cell["key"] for cell in cells} == set(keys(manifest))
    assert all((cell["difference"], cell["other_decisions"], cell["largest"]) == (0.0, 0, 0.0) for cell in cells)
    assert [row["equal"] == row["cells"] for row in by_metric(cells)] == [True] * 3


def test_other_decisions_and_predictions_are_counted_row_by_row(stored, tmp_path):
    def swapped(table):
        first = table.index < 20
        table.loc[first, ["logit_0", "logit_1"]] = table.loc[first, ["logit_1", "logit_0"]].to_numpy()
        return table.sample(frac=1, random_state=0)  # rows are told by their ids, not by their places

    other, key = changed(stored, tmp_path, "hope", swapped)
    cells = {cell["key"]: cell for cell in repetitions(stored[0], other, keys(stored[1]))}
    table = pd.read_parquet(stored[0].open(key, "test.parquet"))
    apart = (table.logit_0 - table.logit_1).abs().head(20)
    logits = table.filter(like="logit_").head(20).to_numpy()
    decided = int((logits.argmax(1) < 2).sum())  # a third class stays what it was
    assert (cells[key]["other_decisions"], cells[key]["rows"]) == (decided, len(table))
    assert cells[key]["largest"] == pytest.approx(apart.max())
    assert cells[key]["difference"] == other.get(key).results["test"] - stored[0].get(key).results["test"] != 0
    assert all(cell["largest"] == 0 for own, cell in cells.items() if own != key)
    [row] = [row for row in by_metric([*cells.values()]) if row["metric"] == "macro_f1"]
    assert (row["other decisions"], row["in"]) == (decided, cells[key]["cell"])
    assert row["largest difference of a score"] == abs(cells[key]["difference"])


def test_predicted_numbers_decide_nothing(stored, tmp_path):
    other, key = changed(stored, tmp_path, "distress", lambda table: table.assign(logit_0=-table.logit_0))
    [cell] = repetitions(stored[0], other, [key])
    assert cell["other_decisions"] == 0
    assert (cell["first"], cell["second"]) == (pytest.approx(-cell["second"]), pytest.approx(-cell["first"]))


def test_other_rows_under_one_key_are_refused(stored, tmp_path):
    other, key = changed(stored, tmp_path, "hope", lambda table: table.iloc[1:])
    with pytest.raises(NotTheSameRows, match=f"{tmp_path} have other test rows of {key}"):
        repetitions(stored[0], other, [key])


def test_the_command_takes_a_folder_or_an_archive(stored, tmp_path, capsys):
    store, manifest = stored
    other, key = changed(stored, tmp_path / "own", "hope", lambda table: table.assign(logit_0=table.logit_0 + 0.25))
    other.write_manifest("fake", manifest)
    archive(store, "fake", [], tmp_path / "fake.tar.gz", is_light=True)
    for name in (store.root, tmp_path / "fake.tar.gz"):
        assert main(["study", "compare", "fake", str(name), "--repeated", "--store", str(other.root), "--json"]) == 0
        rows = {row["key"]: row for row in json.loads(capsys.readouterr().out)}
        assert len(rows) == len(manifest["cells"])
        assert np.isclose(rows[key]["largest"], 0.25)
    assert main(["study", "compare", "fake", str(store.root), "--repeated", "--store", str(other.root)]) == 0
    assert "hope (baseline), seed 1, full" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("nowhere", "nowhere: no folder of a store, no archive, and no study whose results come with the package"),
        (".", ". has no cell of the study that"),
    ],
)
def test_what_cannot_be_compared_is_named(stored, tmp_path, monkeypatch, capsys, name, reason):
    monkeypatch.chdir(tmp_path)
    assert main(["study", "compare", "fake", name, "--repeated", "--store", str(stored[0].root)]) == 2
    assert reason in capsys.readouterr().err
