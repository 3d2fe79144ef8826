"""A cell that came to nothing gets one more attempt, if its study says so; test rows have no say in it."""

import dataclasses
import json

import numpy as np
import pytest

from adapters_store import Store, key_of
from harness.run import pack
from harness.run.pack import run_cells
from harness.study.cell import make_cell
from harness.training import recipe
from harness.training.inputs import Rows
from harness.training.recipe import KeptEpoch, Trained, collapsed_on_validation
from tasks.task import Example

FILES = ("test.parquet", "adapter/adapter.safetensors")
HIGH, SANE = 1e30, 2e-3


def made(logits, *, loss=0.5, test=None, labels=(0, 1, 0, 1), train=(0, 0, 1)):
    """A training with these validation logits."""
    arrays = {"validation": np.array(logits, np.float32), "test": np.array(test or logits, np.float32)}
    rows = Rows(rows_with(train), rows_with(labels), rows_with(labels))
    history = [{"epoch": 1, "train_loss": loss, "validation": 0.5}]
    return Trained(None, rows, arrays, KeptEpoch(1, 0.5, history))


def rows_with(labels):
    return tuple(Example(str(i), str(i), str(i), (), "text", label) for i, label in enumerate(labels))


GOOD = [[1, 0], [0, 1], [1, 0], [0, 1]]
CONSTANT = [[1, 0]] * 4
NONE = float("nan")


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (made(GOOD), False),
        (made(GOOD, test=CONSTANT), False),
        (made(CONSTANT, test=GOOD), True),
        (made([[0, 1], [1, 0], [0, 1], [1, 0]]), True),
        (made([[1, 0], [1, 0], [1, 0], [0, 1]]), False),
        (made([[1, NONE], [0, 1], [1, 0], [0, 1]]), True),
        (made(GOOD, loss=None), True),
    ],
)
def test_collapse_is_told_from_training_and_validation_alone(one, expected):
    assert collapsed_on_validation("macro_f1", one) is expected


def test_a_number_collapses_when_it_does_not_vary_or_runs_the_other_way():
    options = dict(labels=(0.1, 0.4, 0.2, 0.9), train=(0.1, 0.5))
    assert collapsed_on_validation("pearson_r", made([[0.3]] * 4, **options))
    assert collapsed_on_validation("pearson_r", made([[-0.1], [-0.4], [-0.2], [-0.9]], **options))
    assert not collapsed_on_validation("pearson_r", made([[1], [4], [2], [9]], **options))


class Cells:
    """Cells of one toy task that differ in their rates alone."""

    def __init__(self, study, tiny, splits, trainer):
        self.tiny, self.splits = tiny, splits
        self.study = dataclasses.replace(study, trainer=trainer, retry_collapsed=True)

    def cell(self, rate, retry=True):
        cell = make_cell(self.study, self.tiny, self.splits, seed=1, setting="full")
        training = {**cell.spec["training"], "learning_rate": rate}
        spec = {**cell.spec, "training": training, "retry_collapsed": retry}
        return dataclasses.replace(cell, spec=spec, key=key_of(spec))

    def run(self, store, cells, watch=lambda *_: None):
        run_cells(cells, self.tiny, self.splits, store, watch)
        return [store.get(cell.key).results for cell in cells]


@pytest.fixture(params=["lanes", "library"])
def cells(request, study, tiny, toy_splits):
    return Cells(study, tiny, toy_splits("one", train=24), request.param)


def test_a_cell_that_diverged_is_trained_once_more_as_if_with_the_smaller_rate(cells, store, tmp_path, monkeypatch):
    monkeypatch.setattr(recipe, "SHARE_OF_RATE", SANE / HIGH)
    wild = cells.cell(HIGH)
    again = wild.spec["training"]["learning_rate"] * (SANE / HIGH)
    (results,) = cells.run(store, [wild])
    plain, other = cells.cell(again, retry=False), Store(tmp_path / "other")
    (expected,) = cells.run(other, [plain])
    kept = results.pop("retried")
    assert results == expected
    assert kept["learning_rates"] == [HIGH, again]
    assert kept["first"]["flags"] == ["collapsed", "constant_prediction"]
    assert set(kept["first"]) == {"validation", "test", "best_epoch", "flags"}
    for name in FILES:
        assert store.open(wild.key, name).read_bytes() == other.open(plain.key, name).read_bytes()


def test_lanes_that_collapsed_are_retried_together_and_once(study, tiny, toy_splits, store, monkeypatch):
    diverged = lambda _, one: one.fitted.history[-1]["train_loss"] is None  # noqa: E731 - the calm lane may learn nothing
    monkeypatch.setattr(pack, "collapsed_on_validation", diverged)
    cells, told = Cells(study, tiny, toy_splits("one", train=24), "lanes"), []
    lanes = [cells.cell(rate) for rate in (HIGH, SANE, 2 * HIGH)]
    results = cells.run(store, lanes, lambda what, epoch, epochs: told.append((what, epoch)))
    assert [epoch for _, epoch in told] == [0, 1, 2] * 2
    assert [("2 more" in what, "1 more" in what) for what, _ in told] == [(True, False)] * 3 + [(False, True)] * 3
    assert ["retried" in one for one in results] == [True, False, True]
    assert [store.get(cell.key).provenance["chunk"] for cell in (lanes[0], lanes[2])] == [2, 2]


def test_an_interrupted_retry_goes_on(study, tiny, toy_splits, tmp_path, monkeypatch):
    monkeypatch.setattr(recipe, "SHARE_OF_RATE", SANE / HIGH)
    cells, told = Cells(study, tiny, toy_splits("one", train=24), "lanes"), []
    lanes = [cells.cell(HIGH), cells.cell(2 * HIGH)]
    whole, store = Store(tmp_path / "whole"), Store(tmp_path / "interrupted")
    expected = cells.run(whole, lanes)

    def watch(_, epoch, epochs):
        told.append(epoch)
        if len(told) == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cells.run(store, lanes, watch)
    assert json.dumps(cells.run(store, lanes, watch)) == json.dumps(expected)
    assert told == [0, 1, 2, 0, 1, 1, 2]
    for cell in lanes:
        assert store.open(cell.key, FILES[0]).read_bytes() == whole.open(cell.key, FILES[0]).read_bytes()
