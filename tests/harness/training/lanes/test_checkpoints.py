"""An interrupted pack goes on from its checkpoints, in any company, and ends where it would have ended."""

import dataclasses
import logging

import pytest
import torch

from adapters_store import Store, StoreError
from harness.run.pack import PackRunner, run_cells
from harness.study.cell import make_cell
from harness.study.plan import Pack
from harness.training import checkpoint
from harness.training.checkpoint import Checkpoint, Checkpoints
from harness.training.lanes import fit
from harness.training.memory import together
from tests.support.studies.toy_column import EPOCHS, assert_close, assert_same_bytes, content


@pytest.mark.parametrize("epoch", range(EPOCHS + 1))
def test_a_pack_interrupted_after_any_epoch_ends_with_the_same_bytes(column, epoch, monkeypatch):
    store = column.interrupted(column.store_with_baselines(), column.lanes, epoch)
    trained, train_epoch = [], fit.LaneTrainer.train_epoch

    def counted(self, train, number, *rest):
        trained.append(number)
        return train_epoch(self, train, number, *rest)

    monkeypatch.setattr(fit.LaneTrainer, "train_epoch", counted)
    assert_same_bytes(column, column.run(store, column.lanes))
    assert trained == list(range(epoch + 1, EPOCHS + 1))


@pytest.mark.parametrize("dying", [1, 3, 5, 13])
def test_a_process_that_dies_while_it_writes_ends_with_the_same_bytes(column, dying, monkeypatch):
    """Five stages of three lanes: the process dies before it writes checkpoint number ``dying``."""
    store, written, write = column.store_with_baselines(), [], checkpoint.write

    def dies(path, content):
        if len(written) == dying:
            raise KeyboardInterrupt
        written.append(path)
        write(path, content)

    with monkeypatch.context() as patched:
        patched.setattr(checkpoint, "write", dies)
        with pytest.raises(KeyboardInterrupt):
            column.run(store, column.lanes)
    assert_same_bytes(column, column.run(store, column.lanes))


def test_lanes_whose_checkpoints_another_run_takes_away_just_then_begin_anew(column, monkeypatch):
    store, read = column.interrupted(column.store_with_baselines(), column.lanes, 2), Checkpoints.read

    def late(self, key, stage):
        self.store.drop_pack(key)
        return read(self, key, stage)

    monkeypatch.setattr(Checkpoints, "read", late)
    assert_same_bytes(column, column.run(store, column.lanes))


def test_a_run_that_is_behind_leaves_what_another_has_come_to(column):
    key, points = column.lanes[0].key, Checkpoints(column.store_with_baselines(), "fold-1", 1)
    for stage in (1, 3, 2):
        points.write(stage, {key: Checkpoint()})
    assert points.stages(key) == [2, 3]


def test_a_half_stored_pack_is_finished_without_training_or_evaluation(column, monkeypatch):
    store, put = column.store_with_baselines(), Store.put

    def dies(self, key, **rest):
        if key == column.lanes[1].key:
            raise KeyboardInterrupt
        return put(self, key, **rest)

    with monkeypatch.context() as patched:
        patched.setattr(Store, "put", dies)
        with pytest.raises(KeyboardInterrupt):
            column.run(store, column.lanes)
    assert [cell.key in store for cell in column.lanes] == [True, False, False]
    spent = Checkpoints(store, "fold-1", 2)
    spent.stages(column.lanes[2].key)
    wall, _ = spent.earlier(column.lanes[2].key)
    monkeypatch.setattr(fit.LaneTrainer, "__init__", lambda *_, **__: pytest.fail("a lane was set up again"))
    assert_same_bytes(column, column.run(store, column.lanes[1:]))
    record = store.get(column.lanes[2].key)
    assert record.provenance["lanes"] == 2
    assert record.provenance["chunk"] == 3
    assert record.provenance["wall_seconds"] >= round(wall, 3) > 0, "the time of the interrupted run is lost"


def test_lanes_at_different_epochs_go_on_in_groups(column):
    store = column.store_with_baselines()
    column.interrupted(store, column.lanes[:1], 2)
    column.interrupted(store, column.lanes[1:2], 1)
    told = []
    column.run(store, column.lanes, lambda what, epoch, epochs: told.append(epoch))
    assert told == [2, 3, 1, 2, 3, 0, 1, 2, 3]
    assert_close(column, store)


def test_the_stage_of_a_half_written_group_is_the_one_that_all_have():
    assert together({"a": [1, 2], "b": [1], "c": [1, 2]}) == {1: ["a", "b", "c"]}
    assert together({"a": [0, 1], "b": []}) == {0: ["a", "b"]}
    assert together({"a": [1, 2], "b": [1, 2]}) == {2: ["a", "b"]}
    assert together({"a": [3], "b": [2], "c": []}) == {3: ["a"], 2: ["b"], 0: ["c"]}


def damaged(path, how, other):
    raw = path.read_bytes()
    if how == "cut":
        path.write_bytes(raw[: len(raw) // 2])
    elif how == "changed":
        path.write_bytes(raw[:-9] + bytes([raw[-9] ^ 1]) + raw[-8:])
    elif how == "another cell's":
        path.write_bytes(other.read_bytes())
    elif how == "another torch's":
        path.write_bytes(raw.replace(torch.__version__.encode(), b"9" * len(torch.__version__)))
    else:
        path.unlink()
        path.mkdir()


@pytest.mark.parametrize("how", ["cut", "changed", "another cell's", "another torch's", "a folder"])
def test_a_checkpoint_that_cannot_be_trusted_is_named_and_ignored(column, how, caplog):
    store = column.interrupted(column.store_with_baselines(), column.lanes, 2)
    first, second = (store.pack_folder(cell.key) / "fold-1.2.safetensors" for cell in column.lanes[:2])
    damaged(first, how, second)
    told = []
    with caplog.at_level(logging.WARNING):
        column.run(store, column.lanes, lambda what, epoch, epochs: told.append(epoch))
    assert told == [2, 3, 0, 1, 2, 3]
    assert_close(column, store)
    lines = [line for line in caplog.messages if str(first) in line]
    assert lines
    assert "ignored" in lines[0]


def test_training_goes_on_where_no_checkpoint_can_be_written(column, monkeypatch, caplog):
    def full(path, content):
        path.write_bytes(content[:10])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint, "write", full)
    with caplog.at_level(logging.WARNING):
        store = column.run(column.store_with_baselines(), column.lanes)
    assert_same_bytes(column, store)
    assert "No space left on device" in caplog.messages[0]


@pytest.fixture
def folded(column):
    """A lane of a task with two folds, and its splits."""
    splits = column.splits["one"]
    rows = (*splits.train, *splits.validation, *splits.test)
    parts = [
        dataclasses.replace(splits, train=rows[:40], validation=rows[40:50], test=rows[50:]),
        dataclasses.replace(splits, train=rows[24:], validation=rows[14:24], test=rows[:14]),
    ]
    both = dataclasses.replace(splits, folds=tuple(parts), content_hash="f" * 64)
    lane = make_cell(column.study, column.tiny, both, seed=1, setting="full", intermediate=column.full["two"])
    return lane, both


def test_every_fold_has_checkpoints_of_its_own(column, folded):
    lane, splits = folded
    whole, store = column.store_with_baselines(), column.store_with_baselines()
    run_cells([lane], column.tiny, splits, whole, lambda *_: None)
    told = []

    def watch(_, epoch, epochs):
        told.append(epoch)
        if len(told) == 4 + 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_cells([lane], column.tiny, splits, store, watch)
    run_cells([lane], column.tiny, splits, store, watch)
    assert told == [0, 1, 2, 3, 0, 1, 2, 2, 3]
    assert content(store, lane) == content(whole, lane)


def test_a_record_that_cannot_be_stored_costs_only_the_lanes_after_it(column, monkeypatch):
    store, put, asked = column.store_with_baselines(), Store.put, []

    def failing(self, key, **rest):
        asked.append(key)
        if len(asked) == 2:
            raise StoreError("no room")
        return put(self, key, **rest)

    monkeypatch.setattr(Store, "put", failing)
    runner = PackRunner(column.tiny, column.splits, store, lambda *_: None)
    found = list(runner.run_pack(Pack(tuple(column.lanes))))
    assert [one.error is None for one in found] == [True, False, False]
    assert "no room" in found[1].error
    monkeypatch.setattr(Store, "put", put)
    again = runner.run_pack(Pack(tuple(one.cell for one in found[1:])))
    assert all(one.error is None for one in again)
    assert_same_bytes(column, store)


def test_the_time_spent_is_that_of_the_latest_stage(tmp_path):
    ours = Checkpoints(Store(tmp_path / "runs"), "run", lanes=1)
    for stage, seconds in ((1, [500.0, 400.0]), (2, [900.0, 800.0])):
        content = Checkpoint({}, {})
        path = ours._path("a" * 64, stage)
        path.parent.mkdir(parents=True, exist_ok=True)
        before = Checkpoints(ours.store, "run", lanes=1, _earlier={"a" * 64: seconds})
        path.write_bytes(before._seal("a" * 64, stage, content))
    assert ours.stages("a" * 64) == [1, 2]
    wall, cpu = ours.earlier("a" * 64)
    assert (wall >= 900.0, cpu >= 800.0) == (True, True)
