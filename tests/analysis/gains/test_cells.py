"""Every planned cell as a row, and what a reader has to know of it: what it was tested on, and how it was trained."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from adapters_store import CorruptRecord, Store
from adapters_store.key import MissingRecord
from adapters_store.listing import content_of
from adapters_store.measures import CONTAMINATION, contamination_inputs
from analysis.figures.heatmaps import heatmap, squares
from analysis.gains import cells as cells_module
from analysis.gains.baselines import baselines
from analysis.gains.cells import (
    ROWS,
    TYPES,
    MixedRecords,
    Snapshot,
    cells,
    contamination,
    mixed_columns,
    not_compared,
    planned_cells,
    predictions,
)
from analysis.gains.gains import gains
from analysis.results.study_results import StudyResults
from analysis.sections.blocks import markdown
from analysis.sections.study import caveats, flags
from tasks.splits.contamination import Contact, LeftOut
from tests.support.studies.fake_study import FakeTask, fake_study

TASKS = (FakeTask("hope"), FakeTask("distress", "continuous"))


def test_every_planned_cell_is_a_row_in_the_manifests_order(tmp_path):
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


def test_a_row_tells_what_the_record_says(tmp_path):
    flags = {(None, "hope"): ["collapsed", "class_missing_in_test:low"]}
    store, manifest = fake_study(tmp_path, TASKS, flags=flags)
    row = cells(store, manifest).iloc[0]
    assert row.intermediate is None
    assert (row.target, row.metric, row.status, row.host, row.device) == ("hope", "macro_f1", "done", "here", "cpu")
    assert row.collapsed
    assert row["flags"] == "collapsed;class_missing_in_test:low"
    assert (row.n_test, row.n_groups, row.best_epoch) == (120, 24, 2)
    assert row.score == store.get(row.key).results["test"]


def test_an_undefined_score_is_nan_and_the_cell_is_done(tmp_path):
    store, manifest = fake_study(tmp_path, TASKS, constant=[(None, "distress")])
    row = cells(store, manifest).query("target == 'distress' and intermediate.isna()").iloc[0]
    assert row.status == "done"
    assert pd.isna(row.score)


def test_a_changed_file_is_named(tmp_path):
    store, manifest = fake_study(tmp_path, TASKS)
    path = tmp_path / "objects" / manifest["cells"][1]["key"] / "history.json"
    path.write_text("[1]")
    with pytest.raises(CorruptRecord, match=r"history\.json"):
        cells(store, manifest)


def test_predictions_must_give_the_stored_score(tmp_path):
    store, manifest = fake_study(tmp_path, TASKS)
    record = store.get(manifest["cells"][0]["key"])
    assert len(predictions(store, record).decisions) == 120
    record.results["test"] += 0.01
    with pytest.raises(MixedRecords, match="the record says"):
        predictions(store, record)


@pytest.mark.parametrize(("room", "reads"), [(2**20, 1), (1, 2)])
def test_a_command_reads_predictions_once_where_there_is_room_and_they_are_those_of_the_store(
    tmp_path, monkeypatch, room, reads
):
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


def test_cells_of_a_target_whose_rows_differ_keep_their_own(tmp_path, monkeypatch):
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


def test_a_record_scored_by_another_metric_is_refused(tmp_path):
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


# Cells whose test items are training material are marked in every table that names them.

LEAKING = (FakeTask("hope"), FakeTask("role"), FakeTask("news"))
LEFT_OUT = LeftOut(grams=12, most=3456, texts=78)


def contact(target, intermediate, same_group=0, near=0):
    return Contact(target, intermediate, 100, 80, 0, same_group, 0, near, near, 10, 1 if same_group else 0)


@pytest.fixture
def measured(tmp_path):
    """A study in which hope's test dialogues are in role's training data, and news' test rows in its own."""
    store, manifest = fake_study(tmp_path / "store", LEAKING)
    for name, task in manifest["tasks"].items():
        task["splits_hash"] = name * 10
    shared = {("hope", "role"): 40, ("news", "news"): 90}
    found = [contact(a.id, b.id, shared.get((a.id, b.id), 0), near=2) for a in LEAKING for b in LEAKING]
    result = {"contacts": [list(one) for one in found], "left_out": LEFT_OUT._asdict()}
    store.put_measure(CONTAMINATION, contamination_inputs(manifest["tasks"]), result, 1.0)
    return store, manifest


def test_the_map_is_read_from_the_store(measured):
    frame = contamination(*measured)
    assert len(frame) == 9
    row = frame[(frame.target == "hope") & (frame.intermediate == "role")].iloc[0]
    assert (row.share_group, row.share_near, row.contaminated) == (0.4, 2 / 80, True)
    assert frame.contaminated.sum() == 2


def test_cells_gains_and_baselines_are_marked(measured):
    frame = cells(*measured)
    marked = {(one.target, one.intermediate) for one in frame[frame.contaminated].itertuples()}
    assert marked == {("hope", "role"), ("news", None), ("news", "hope"), ("news", "role")}
    assert set(frame[frame.contaminated]["flags"]) == {"contaminated"}
    rows = gains(*measured, draws=50)
    assert {(one.target, one.intermediate) for one in rows[rows.contaminated].itertuples()} == marked - {("news", None)}
    assert rows["flags"][rows.contaminated].str.contains("contaminated").all()
    alone = baselines(*measured, draws=50)
    assert list(alone.target[alone.contaminated]) == ["news"]


def test_heatmap_and_report_say_it(measured):
    study = StudyResults.of(*measured, draws=50)
    shown = squares(study.gains, study.baselines, measured[1], metric="macro_f1", setting="full")
    assert shown.is_contaminated.sum() == 3
    assert not_compared(*measured) == LEFT_OUT
    page = markdown([flags(study), caveats(study)])
    assert "| contaminated | test items are training material" in page
    assert "12 frequent grams, of more than 3,456 texts each, were left out" in page
    (legend,) = heatmap(shown, "", metric="macro_f1", limit=5.0).legends
    assert "contaminated: test items are training material" in " ".join(text.get_text() for text in legend.get_texts())


def test_what_was_not_measured_is_not_called_clean(tmp_path):
    store, manifest = fake_study(tmp_path / "store", LEAKING)
    assert contamination(store, manifest).empty and not_compared(store, manifest) is None
    assert cells(store, manifest).contaminated.isna().all()


def test_controls_on_the_own_texts_of_a_task_in_folds_are_marked(tmp_path):
    tasks = (FakeTask("hope", folds=5), FakeTask("role"))
    store, manifest = fake_study(tmp_path / "store", tasks, controls=("self", "shuffled", "random"))
    frame = cells(store, manifest)
    marked = {(one.role, one.target) for one in frame[frame.contaminated.fillna(False)].itertuples()}
    assert marked == {("self", "hope"), ("shuffled", "hope")}
    assert set(frame[frame.contaminated.fillna(False)]["flags"]) == {"contaminated"}


# Columns whose cells come from different machines or versions are named, with what differs and nothing else.

ALIKE = (FakeTask("one"), FakeTask("two"), FakeTask("three"))


@pytest.fixture
def found(tmp_path):
    """The cells of a study and their records, all trained alike."""
    store, manifest = fake_study(tmp_path / "runs", ALIKE, seeds=(1, 2))
    cells = planned_cells(store, manifest)
    return cells, [store.get(key) for key in cells.key]


def changed(cells, records, target, intermediate, seed, **provenance):
    """The records with another provenance of one cell."""
    of_pair = (cells.target == target) & (cells.intermediate == intermediate) & (cells.seed == seed)
    [key] = cells.key[of_pair]
    return [replace(one, provenance={**one.provenance, **provenance}) if one.key == key else one for one in records]


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ([], []),
        ([("two", "one", 2, {"host": "there", "wall_seconds": 9.0, "created": "2030-01-01"})], []),
        (
            [("two", intermediate, 2, {"device": "NVIDIA H200"}) for intermediate in ("one", "three")],
            ["two, full: device NVIDIA H200; cpu"],
        ),
        (
            [("one", "two", 1, {"versions": {"torch": "2.1", "adapters": "1.3.0"}})],
            ["one, full: torch 2.0; 2.1", "one, full: adapters 1.3.0; unknown"],
        ),
    ],
    ids=["alike", "hosts and times", "two devices", "versions"],
)
def test_a_column_is_named_once_with_each_device_and_version_that_differs_in_it(found, changes, named):
    cells, records = found
    for target, intermediate, seed, provenance in changes:
        records = changed(cells, records, target, intermediate, seed, **provenance)
    assert mixed_columns(cells, records) == named


def test_each_setting_is_a_column_of_its_own(tmp_path):
    store, manifest = fake_study(tmp_path / "runs", ALIKE, settings=("full", "half"))
    cells = planned_cells(store, manifest)
    of_half = set(cells.key[cells.setting == "half"])
    records = [store.get(key) for key in cells.key]
    records = [
        replace(one, provenance={**one.provenance, "device": "other"}) if one.key in of_half else one for one in records
    ]
    assert mixed_columns(cells, records) == []


def test_the_report_warns_of_a_mixed_column_and_only_then(tmp_path, monkeypatch):
    store, manifest = fake_study(tmp_path / "runs", ALIKE[:2])
    assert "Mixed columns" not in markdown([flags(StudyResults.of(store, manifest, draws=50))])
    get, odd = type(store).get, manifest["cells"][0]["key"]

    def moved(self, key):
        record = get(self, key)
        return replace(record, provenance={**record.provenance, "device": "other"}) if key == odd else record

    monkeypatch.setattr(type(store), "get", moved)
    page = markdown([flags(StudyResults.of(store, manifest, draws=50))])
    assert "**Mixed columns.**" in page and "\n- one, full: device cpu; other\n" in page
