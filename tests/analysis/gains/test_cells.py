from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from adapters_store import CorruptRecord
from analysis.gains.cells import TYPES, MixedRecords, cells, predictions
from analysis.tables import write_frames
from tests.support.studies.fake_study import FakeTask, fake_study

TASKS = (FakeTask("hope"), FakeTask("distress", "continuous"))


def test_every_planned_cell_is_a_row_in_the_manifests_order(tmp_path: Path) -> None:
    store, manifest = fake_study(tmp_path, TASKS, seeds=(1, 2), absent=[("hope", "distress")])
    frame = cells(store, manifest)
    assert list(frame.columns) == list(TYPES)
    assert list(frame.key) == [cell["key"] for cell in manifest["cells"]]
    missing = frame[frame.status == "missing"]
    assert list(zip(missing.intermediate, missing.target, missing.seed, strict=True)) == [
        ("hope", "distress", 1),
        ("hope", "distress", 2),
    ]
    assert missing.score.isna().all()


def test_a_row_tells_what_the_record_says(tmp_path: Path) -> None:
    flags = {(None, "hope"): ["collapsed", "class_missing_in_test:low"]}
    store, manifest = fake_study(tmp_path, TASKS, flags=flags)
    row = cells(store, manifest).iloc[0]
    assert row.intermediate is None
    assert (row.target, row.metric, row.status, row.host, row.device) == ("hope", "macro_f1", "done", "here", "cpu")
    assert row.collapsed
    assert row["flags"] == "collapsed;class_missing_in_test:low"
    assert (row.n_test, row.n_groups, row.best_epoch) == (120, 24, 2)
    assert row.score == store.get(row.key).results["test"]


def test_an_undefined_score_is_nan_and_the_cell_is_done(tmp_path: Path) -> None:
    store, manifest = fake_study(tmp_path, TASKS, constant=[(None, "distress")])
    row = cells(store, manifest).query("target == 'distress' and intermediate.isna()").iloc[0]
    assert row.status == "done"
    assert pd.isna(row.score)


def test_a_changed_file_is_named(tmp_path: Path) -> None:
    store, manifest = fake_study(tmp_path, TASKS)
    path = tmp_path / "objects" / manifest["cells"][1]["key"] / "history.json"
    path.write_text("[1]")
    with pytest.raises(CorruptRecord, match=r"history\.json"):
        cells(store, manifest)


def test_predictions_must_give_the_stored_score(tmp_path: Path) -> None:
    store, manifest = fake_study(tmp_path, TASKS)
    record = store.get(manifest["cells"][0]["key"])
    assert len(predictions(store, record).decisions) == 120
    record.results["test"] += 0.01
    with pytest.raises(MixedRecords, match="the record says"):
        predictions(store, record)


def test_a_record_scored_by_another_metric_is_refused(tmp_path: Path) -> None:
    store, manifest = fake_study(tmp_path, TASKS)
    manifest["tasks"]["hope"]["metric"] = "pearson_r"
    with pytest.raises(MixedRecords, match="scored by macro_f1"):
        cells(store, manifest)


def test_equal_frames_give_equal_bytes(tmp_path: Path) -> None:
    store, manifest = fake_study(tmp_path / "store", TASKS, absent=[("hope", "distress")])
    for name in ("one", "two"):
        write_frames(cells(store, manifest), tmp_path / name / "cells")
    for ending in ("csv", "parquet"):
        first, second = ((tmp_path / name / f"cells.{ending}").read_bytes() for name in ("one", "two"))
        assert first == second
    text = (tmp_path / "one" / "cells.csv").read_bytes().decode()
    assert "\r" not in text
    assert len(text.splitlines()) == 5
    back = pd.read_parquet(tmp_path / "one" / "cells.parquet")
    assert back.score.equals(cells(store, manifest).score)
