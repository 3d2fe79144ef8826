"""One cell at a time: what is trained, what stays frozen, what is equal to what."""

import json
from itertools import pairwise

import numpy as np
import pytest
import torch
from adapters.composition import Stack

from adapters_store import Store
from harness.run.pack import run_cells
from harness.study.cell import make_cell, seed_of
from harness.training import model
from harness.training.batches import training_batches
from harness.training.library import composed
from harness.training.recipe import Recipe
from tests.support.studies.toy_column import silent


@pytest.fixture
def cells(study, tiny, store, toy_splits):
    """A stored baseline of each toy task and the transfer two -> one, with their splits."""
    splits = {"one": toy_splits("one"), "two": toy_splits("two", seed=1)}
    one, two = (make_cell(study, tiny, splits[name], seed=1, setting="full") for name in ("one", "two"))
    transfer = make_cell(study, tiny, splits["one"], seed=1, setting="full", intermediate=two)
    for cell in (one, two, transfer):
        run_cells([cell], tiny, splits[cell.target], store, silent)
    return splits, one, two, transfer


def test_seed_recipe_is_golden():
    assert seed_of(1, "epitome_er", "adapter") == 2903527413000523772


def test_the_best_epoch_is_the_first_of_the_best_and_no_record_names_a_path_or_a_text(cells, store, tmp_path):
    history = json.loads(store.open(cells[1].key, "history.json").read_text())
    scores = [row["validation"] for row in history]
    assert store.get(cells[1].key).results["best_epoch"] == 1 + int(np.argmax(scores))
    assert [row["epoch"] for row in history] == [1, 2]
    for cell in cells[1:]:
        for file in (store.root / "objects" / cell.key).rglob("*"):
            if file.is_file():
                assert str(tmp_path).encode() not in file.read_bytes()
                assert b"harsh" not in file.read_bytes()


def test_a_store_may_keep_the_adapters_of_baselines_only(cells, tiny, tmp_path, store):
    splits, _, two, transfer = cells
    lean = Store(tmp_path / "lean")
    for cell in (two, transfer):
        run_cells([cell], tiny, splits[cell.target], lean, silent, keep="baselines")
    assert lean.get(two.key).files == store.get(two.key).files
    weights = {name: stamp for name, stamp in store.get(transfer.key).files.items() if name.startswith("adapter/")}
    assert weights
    assert {**lean.get(transfer.key).files, **weights} == store.get(transfer.key).files
    assert lean.get(transfer.key).results == store.get(transfer.key).results


def test_an_identity_intermediate_gives_the_baseline_exactly(study, tiny, store, monkeypatch, toy_splits):
    splits = {"one": toy_splits("one"), "two": toy_splits("two", seed=1)}
    one, two = (make_cell(study, tiny, splits[name], seed=1, setting="full") for name in ("one", "two"))
    for cell in (one, two):
        run_cells([cell], tiny, splits[cell.target], store, silent)
    load = model.add_intermediate

    def load_zeroed(network, folder, name):
        load(network, folder, name)
        with torch.no_grad():
            for name, parameter in network.named_parameters():
                if f".adapters.{model.INTERMEDIATE}." in name:
                    parameter.zero_()

    monkeypatch.setattr(model, "add_intermediate", load_zeroed)
    transfer = make_cell(study, tiny, splits["one"], seed=1, setting="full", intermediate=two)
    run_cells([transfer], tiny, splits["one"], store, silent)
    assert store.open(transfer.key, "test.parquet").read_bytes() == store.open(one.key, "test.parquet").read_bytes()
    flags = [set(store.get(cell.key).results["flags"]) for cell in (one, transfer)]
    assert flags[1] == flags[0] | {"dead_intermediate"}


def test_the_wrong_call_order_fails_the_composition_and_the_liveness_check(cells, tiny, store):
    transfer = cells[3]
    network = composed(transfer, tiny, store)
    network.set_active_adapters(Stack(model.INTERMEDIATE, transfer.target))
    network.train_adapter([transfer.target])  # sets what is active, too: the intermediate is silently gone
    with pytest.raises(model.WrongComposition, match="active adapters"):
        model.check_composition(network, Recipe.of([transfer]), transfer.label)
    batch = {"input_ids": torch.randint(5, 60, (4, 12)), "attention_mask": torch.ones(4, 12, dtype=torch.long)}
    assert model.liveness(network, transfer.target, batch) <= model.ALIVE


def test_batches_are_a_permutation_sorted_from_long_to_short():
    lengths = [3, 9, 4, 4, 1, 7, 2]
    batches = list(training_batches(lengths, 3, seed=1, target="t", epoch=1))
    assert sorted(i for batch in batches for i in batch) == list(range(7))
    assert [len(batch) for batch in batches] == [3, 3, 1]
    assert all(lengths[a] >= lengths[b] for batch in batches for a, b in pairwise(batch))
    assert batches != list(training_batches(lengths, 3, seed=1, target="t", epoch=2))
