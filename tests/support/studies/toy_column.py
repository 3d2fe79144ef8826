"""A column of toy tasks trained as lanes, with what its uninterrupted run has stored."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
from safetensors.torch import load_file

from adapters_store import Store
from harness.run.pack import run_cells
from harness.study.cell import make_cell
from harness.study.config import StudyConfig
from harness.study.intermediates import MergedRows
from harness.training.recipe import encoded

EPOCHS = 3
FILES = ("test.parquet", "validation.parquet", "adapter/adapter.safetensors", "adapter/model_head.safetensors")


class Column:
    """Baselines of four toy tasks in a store, and the transfer cells onto the first of them."""

    def __init__(self, tiny, toy_splits, root):
        self.tiny, self.root, self.made = tiny, root, 0
        training = {"epochs": EPOCHS, "batch_size": 8, "learning_rate": 2e-3}
        tasks = ("one", "two", "three", "four")
        self.study = StudyConfig("toy", tasks, backbone="random-tiny", max_tokens=48, training=training)
        self.splits = {name: toy_splits(name, seed=i, train=24) for i, name in enumerate(tasks)}
        self.full = {name: self.cell(name) for name in self.splits}
        self.lanes = [self.cell("one", self.full[name]) for name in ("two", "three", "four")]
        self.base = self.store()
        for name in ("two", "three", "four"):
            run_cells([self.full[name]], tiny, self.splits[name], self.base, lambda *_: None)
        self.whole = self.run(self.store_with_baselines(), self.lanes)

    def cell(self, name, intermediate=None):
        options = dict(seed=1, setting="full", intermediate=intermediate)
        return make_cell(self.study, self.tiny, self.splits[name], **options)

    def on_merges(self, **tables):
        """The cells of the first task on merges of the others, by row."""
        study = dataclasses.replace(self.study, merged=tables)
        rows = MergedRows(study, self.tiny, self.splits, set(), self.full)
        return {cell.intermediate: cell for cell in rows.cells("one", "full", 1, self.full, self.lanes)}

    def encoded(self, name):
        """The rows of a split of the first task as they are trained."""
        return encoded(self.lanes[0], self.tiny, self.splits["one"])[1][name]

    def store(self):
        self.made += 1
        return Store(self.root / f"runs{self.made}")

    def store_with_baselines(self):
        """A new store whose baselines are those of the first one."""
        store = self.store()
        (store.root / "objects").mkdir(parents=True)
        for name in ("two", "three", "four"):
            key = self.full[name].key
            (store.root / "objects" / key).symlink_to(self.base.root / "objects" / key)
        return store

    def run(self, store, cells, watch=lambda *_: None):
        run_cells(cells, self.tiny, self.splits["one"], store, watch)
        return store

    def interrupted(self, store, cells, epoch):
        def watch(_, now, epochs):
            if now == epoch:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            self.run(store, cells, watch)
        return store


def silent(*_):
    """Watch nothing."""


def logits_of(store, cell):
    """The stored logits of a cell's test rows."""
    frame = pd.read_parquet(store.open(cell.key, "test.parquet"))
    return frame[[name for name in frame if name.startswith("logit_")]].to_numpy()


def content(store, cell):
    record = store.get(cell.key)
    return {name: store.open(cell.key, name).read_bytes() for name in FILES} | {"results": record.results}


def assert_same_bytes(column, store):
    for cell in column.lanes:
        assert content(store, cell) == content(column.whole, cell)
    assert not list((store.root / "packs").iterdir())


def assert_close(column, store):
    """Equal up to rounding, which AdamW magnifies here: this encoder's gradients are near its epsilon."""
    for cell in column.lanes:
        for name in FILES[2:]:
            ours, theirs = (load_file(one.open(cell.key, name)) for one in (store, column.whole))
            assert max(float((ours[n] - theirs[n]).abs().max()) for n in ours) < 1e-4
        ours, theirs = (pd.read_parquet(one.open(cell.key, "test.parquet")) for one in (store, column.whole))
        np.testing.assert_allclose(ours["logit_0"], theirs["logit_0"], atol=1e-4)
