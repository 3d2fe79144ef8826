"""What the cells of a pack share is read from their specs once, and an attempt is handed down in parts."""

import dataclasses

import pytest

from harness.study.cell import make_cell
from harness.study.device import Device
from harness.training import recipe
from harness.training.recipe import Attempt, Recipe


@pytest.fixture
def cells(study, tiny, toy_splits):
    """A transfer onto the first task from each of two others, at rates of their own."""
    study = dataclasses.replace(study, best={"three -> one": {"learning_rate": 0.009}}, shared_noise=False)
    full = [make_cell(study, tiny, toy_splits(name, seed=2), seed=1, setting="full") for name in ("two", "three")]
    return [make_cell(study, tiny, toy_splits("one"), seed=1, setting="half", intermediate=cell) for cell in full]


def attempt_at(cells, tiny, splits, store):
    return Attempt(cells, Recipe.of(cells), tiny, splits, store, lambda *_: None, Device("cpu"))


def test_cells_keep_their_own_rates_and_noise_and_systems_may_leave_out_what_adapters_need(cells):
    assert Recipe.of(cells).only([1]) == Recipe.of(cells[1:])
    spec = {name: cells[0].spec[name] for name in ("metric", "label", "role")}
    made = Recipe.of([dataclasses.replace(cells[0], spec=spec)])
    assert (made.adapter, made.composition, made.retries_collapsed, made.noise) == (None, None, False, ())


def test_a_second_attempt_is_the_same_one_at_smaller_rates_with_checkpoints_of_its_own(
    cells, tiny, toy_splits, store, monkeypatch
):
    monkeypatch.setattr(recipe, "SHARE_OF_RATE", 0.5)
    splits = toy_splits("one")
    first = attempt_at(cells, tiny, splits, store)
    second = first.again([1])
    assert (second.cells, second.recipe.learning_rates) == ([cells[1]], [0.0045])
    assert [attempt.run for attempt in (*first.folds(), *second.folds())] == ["fold-1", "fold-1-again"]
    folded = dataclasses.replace(first, splits=dataclasses.replace(splits, folds=(splits,) * 3))
    assert [attempt.run for attempt in folded.folds()] == ["fold-1", "fold-2", "fold-3"]
