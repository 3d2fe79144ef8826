from __future__ import annotations

from collections import Counter
from pathlib import Path

import pandas as pd
import pytest

from adapters_store import CorruptRecord, Store
from adapters_store.key import MissingRecord
from adapters_store.listing import content_of
from analysis.gains import cells as cells_module
from analysis.gains.cells import ROWS, TYPES, MixedRecords, Snapshot, cells, predictions
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


@pytest.mark.parametrize(("room", "reads"), [(2**20, 1), (1, 2)])
def test_a_command_reads_predictions_once_where_there_is_room_and_they_are_those_of_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int, reads: int
) -> None:
    store, manifest = fake_study(tmp_path, TASKS, seeds=(1, 2))
    records = [store.get(cell["key"]) for cell in manifest["cells"]]
    stored = [predictions(store, record) for record in records]
    opened: list[Path] = []
    parquet = cells_module.pq.ParquetFile
    monkeypatch.setattr(cells_module.pq, "ParquetFile", lambda path: opened.append(path) or parquet(path))
    monkeypatch.setattr(cells_module, "HELD", room)
    command = Snapshot(store.root)
    for _ in range(2):
        for record, own in zip(records, stored, strict=True):
            read = predictions(command, record)
            for name in (*ROWS, "decisions"):
                again, before = getattr(read, name), getattr(own, name)
                assert again.dtype == before.dtype
                assert (again == before).all()
    assert len(opened) == reads * len(records) - (reads - 1)  # the first is kept in any case
    assert len({id(predictions(command, record).ids) for record in records}) == len(TASKS)


def test_cells_of_a_target_whose_rows_differ_keep_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, manifest = fake_study(tmp_path, TASKS[:1], seeds=(1, 2))
    first, other = (store.get(cell["key"]) for cell in manifest["cells"])
    path = store.root / "objects" / other.key / "test.parquet"
    frame = pd.read_parquet(path)
    frame["group"] = [f"other-{group}" for group in frame.group]
    frame.to_parquet(path)
    command = Snapshot(store.root)
    # whatever its hash
    monkeypatch.setattr(Snapshot, "open", lambda self, key, name: self.root / "objects" / key / name)
    mine, theirs = (predictions(command, record) for record in (first, other))
    assert theirs.groups[0] == f"other-{mine.groups[0]}"
    assert theirs.ids is mine.ids


def test_a_record_scored_by_another_metric_is_refused(tmp_path: Path) -> None:
    store, manifest = fake_study(tmp_path, TASKS)
    manifest["tasks"]["hope"]["metric"] = "pearson_r"
    with pytest.raises(MixedRecords, match="scored by macro_f1"):
        cells(store, manifest)


def test_a_snapshot_keeps_what_it_has_read_and_errors_come_again(tmp_path):
    store, manifest = fake_study(tmp_path, (FakeTask("hope"), FakeTask("role")))
    snapshot, key = Snapshot.of(store), manifest["cells"][0]["key"]
    record, path = snapshot.get(key), snapshot.open(key, "test.parquet")
    path.write_bytes(b"changed")
    (path.parent / "record.json").write_text("changed", encoding="utf-8")
    assert snapshot.get(key) is record
    assert snapshot.open(key, "test.parquet") == path
    assert Snapshot.of(snapshot) is snapshot
    with pytest.raises(CorruptRecord):
        Snapshot.of(store).get(key)
    for _ in range(2):
        with pytest.raises(MissingRecord):
            snapshot.get("0" * 64)


def test_a_record_is_read_once_for_its_hash_and_its_fields(tmp_path, monkeypatch):
    store, manifest = fake_study(tmp_path, (FakeTask("hope"), FakeTask("role")))
    keys, reads, content = [cell["key"] for cell in manifest["cells"]], Counter(), Store.content

    def counted(self, key):
        reads[key] += 1
        return content(self, key)

    monkeypatch.setattr(Store, "content", counted)
    snapshot = Snapshot.of(store)
    assert content_of(snapshot, manifest) == content_of(store, manifest)
    reads.clear()
    known = {key: snapshot.get(key) for key in keys}
    assert not reads
    assert known == {key: store.get(key) for key in keys}
