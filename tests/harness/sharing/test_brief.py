"""Brief archives: fewer and shorter files, the same decisions and scores, and the same bytes each time."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from adapters_store import Store, key_of
from adapters_store.archive import archive
from adapters_store.measures import STATISTICS, measures_of, statistics_inputs
from adapters_store.restore import restore
from adapters_store.store import LEFT_OUT, REWRITTEN, original_files
from adapters_store.verify import verify
from analysis.gains.cells import cells, predictions
from harness.sharing.brief import STEP, BriefRefused, brief_copy, rounded
from tasks.metrics import decisions, score
from tests.support.studies.fake_study import FakeTask, fake_study

TASKS = (FakeTask("hope"), FakeTask("distress", "continuous"), FakeTask("emotions", "multilabel"))
CLASSES = ("macro_f1", "multilabel_f1")

LOGITS = arrays(
    np.float32,
    array_shapes(min_dims=2, max_dims=2, max_side=6),
    elements=st.floats(-64, 64, width=32)
    | st.sampled_from([0.0, STEP / 2, -STEP / 2, STEP / 4, 1 + STEP / 2, 1 - STEP / 2, np.inf, -np.inf, np.nan]),
)


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A study whose records have an adapter and validation predictions, and a measure."""
    bare, manifest = fake_study(tmp_path_factory.mktemp("bare"), TASKS, absent=[("hope", "distress")])
    store = Store(tmp_path_factory.mktemp("full"))
    for key in bare.keys():
        record = bare.get(key)
        with store.staging() as folder:
            (folder / "adapter").mkdir()
            (folder / "adapter" / "adapter.safetensors").write_bytes(b"weights" + key.encode())
            (folder / "adapter" / "adapter_config.json").write_bytes(b"{}")
            for name in record.files:
                (folder / name).write_bytes(bare.open(key, name).read_bytes())
            (folder / "validation.parquet").write_bytes(b"predictions of validation rows")
            store.put(key, record.spec, record.results, record.provenance, folder)
    manifest["tasks"]["hope"]["splits_hash"] = "0" * 64
    inputs = statistics_inputs("hope", "0" * 64, manifest["tasks"]["hope"]["classes"])
    store.put_measure(STATISTICS, inputs, {"rows": 3}, 1.0)
    store.write_manifest("fake", manifest)
    return store, manifest


def brief(stored, root):
    store, manifest = stored
    return brief_copy(store, "fake", measures_of(manifest), root)


@settings(max_examples=300, deadline=None)
@given(LOGITS, st.sampled_from(CLASSES))
def test_rounding_never_changes_a_decision_makes_a_tie_or_breaks_one(logits, metric):
    near = rounded(metric, logits)
    assert near.dtype == logits.dtype and near.shape == logits.shape
    assert np.array_equal(decisions(metric, near), decisions(metric, logits))
    ties = [(part == part.max(axis=1, keepdims=True)).sum(axis=1) for part in (near, logits)]
    assert np.array_equal(*ties)
    finite = np.isfinite(logits)
    assert np.array_equal(np.isfinite(near), finite)
    assert (np.abs(near[finite].astype(float) - logits[finite]) <= STEP / 2).all()


@settings(max_examples=100, deadline=None)
@given(arrays(np.float32, (5, 3), elements=st.floats(-20, 20, width=32)))
def test_rounding_moves_a_probability_by_less_than_a_quarter_of_the_step(logits):
    shares = [
        np.exp(part - part.max(axis=1, keepdims=True)) for part in (logits.astype(float), rounded("macro_f1", logits))
    ]
    before, after = (part / part.sum(axis=1, keepdims=True) for part in shares)
    assert np.abs(before - after).max() <= STEP / 4


def test_most_logits_are_rounded_and_rows_on_the_brink_are_not():
    logits = np.array([[0.3, 1.7], [0.30001, 0.30002], [0.1, 0.1]], dtype=np.float32)
    near = rounded("macro_f1", logits)
    assert (near[0] / STEP % 1 == 0).all() and (near[0] != logits[0]).any()
    assert np.array_equal(near[1], logits[1])
    assert near[2, 0] == near[2, 1] != logits[2, 0]


@given(arrays(np.float32, (4, 1), elements=st.floats(-20, 20, width=32)))
def test_numbers_that_a_task_predicts_are_never_rounded(values):
    assert np.array_equal(rounded("pearson_r", values), values)


def test_a_brief_copy_has_the_same_results_decisions_and_frame_of_cells(stored, tmp_path):
    store, manifest = stored
    copy = brief(stored, tmp_path / "brief")
    assert copy.keys() == store.keys()
    for key in store.keys():
        whole, less = store.get(key), copy.get(key)
        assert (less.spec, less.results) == (whole.spec, whole.results)
        assert set(less.files) == {"test.parquet", "history.json"}
        before, after = predictions(store, whole), predictions(copy, less)
        for name in ("ids", "groups", "labels", "decisions"):
            assert np.array_equal(getattr(before, name), getattr(after, name))
        table = pd.read_parquet(copy.open(key, "test.parquet"))
        original = pd.read_parquet(store.open(key, "test.parquet"))
        assert list(table.dtypes) == list(original.dtypes)
        labels, logits = (table.filter(regex=f"^{part}").to_numpy() for part in ("label", "logit_"))
        labels = labels if labels.shape[1] > 1 else labels[:, 0]
        assert score(whole.results["metric"], labels, logits) == whole.results["test"]
    pd.testing.assert_frame_equal(cells(store, manifest), cells(copy, manifest))
    assert verify(copy).damaged == [] and sorted(verify(copy).light) == sorted(store.keys())


def test_a_brief_record_says_what_was_left_out_and_what_its_predictions_were_made_from(stored, tmp_path):
    store, copy = stored[0], brief(stored, tmp_path / "brief")
    for key in store.keys():
        whole, less = store.get(key), copy.get(key)
        gone = {"adapter/adapter.safetensors", "adapter/adapter_config.json", "validation.parquet"}
        assert set(less.provenance[LEFT_OUT]) == gone
        step = 0.0 if whole.results["metric"] == "pearson_r" else STEP
        stamp = whole.files["test.parquet"]
        note = {"sha256": stamp.sha256, "bytes": stamp.bytes, "step": step}
        assert less.provenance[REWRITTEN] == {"test.parquet": note}
        assert original_files(less) == whole.files
        assert less.files["test.parquet"] != stamp


def test_equal_stores_and_brief_copies_of_brief_copies_give_equal_bytes(stored, tmp_path):
    manifest = stored[1]
    first = brief(stored, tmp_path / "first")
    again = brief((first, manifest), tmp_path / "again")
    for name, store in (("a", first), ("b", brief(stored, tmp_path / "second")), ("c", again)):
        archive(store, "fake", measures_of(manifest), tmp_path / f"{name}.tar.xz", is_light=True)
    a, b, c = ((tmp_path / f"{name}.tar.xz").read_bytes() for name in "abc")
    assert a == b == c and a.startswith(b"\xfd7zXZ")


def test_a_brief_archive_over_the_records_it_was_made_from_differs_in_nothing(stored, tmp_path):
    store, manifest = stored
    archive(brief(stored, tmp_path / "brief"), "fake", measures_of(manifest), tmp_path / "a.tar.xz", is_light=True)
    done = restore(tmp_path / "a.tar.xz", store)
    assert (done.new, done.kept, done.differing) == (0, len(store.keys()) + 1, {})
    alone = Store(tmp_path / "alone")
    assert restore(tmp_path / "a.tar.xz", alone).new == len(store.keys()) + 1
    archive(store, "fake", [], tmp_path / "full.tar.gz")
    done = restore(tmp_path / "full.tar.gz", alone)
    assert (done.differing, done.lacking) == ({}, len(store.keys()))


def test_another_record_of_the_same_cell_is_told_apart_from_a_brief_one(stored, tmp_path):
    store, manifest = stored
    archive(brief(stored, tmp_path / "brief"), "fake", [], tmp_path / "a.tar.xz", is_light=True)
    other, key = Store(tmp_path / "other"), manifest["cells"][0]["key"]
    record = store.get(key)
    with other.staging() as folder:
        table = pd.read_parquet(store.open(key, "test.parquet"))
        table.assign(logit_0=table.logit_0 - 1e-3).to_parquet(folder / "test.parquet", index=False)
        for name in set(record.files) - {"test.parquet"}:
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_bytes(store.open(key, name).read_bytes())
        other.put(key, record.spec, record.results, record.provenance, folder)
    assert restore(tmp_path / "a.tar.xz", other).differing == {f"record {key}": ["file test.parquet"]}


def test_predictions_whose_score_would_move_are_refused_and_named(stored, tmp_path, monkeypatch):
    monkeypatch.setattr("harness.sharing.brief.rounded", lambda metric, logits: -logits)
    with pytest.raises(BriefRefused, match=r"test\.parquet: scores .*, but rounded .*; archive with --light"):
        brief(stored, tmp_path / "brief")


def test_a_store_in_which_nothing_of_the_study_is_finished_gives_a_manifest_alone(tmp_path):
    store = Store(tmp_path / "empty")
    key = key_of({"target": "toy"})
    store.write_manifest("toy", {"name": "toy", "cells": [{"key": key}]})
    copy = brief_copy(store, "toy", [], tmp_path / "brief")
    assert copy.keys() == set() and json.loads((copy.root / "studies" / "toy.json").read_bytes())["name"] == "toy"
