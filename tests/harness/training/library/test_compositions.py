"""Three ways of using an intermediate: under the target and frozen, under it and trained, or going on as the target."""

import dataclasses

import numpy as np
import pytest
import torch
from adapters.composition import Stack
from safetensors.torch import load_file

from adapters_store import Store
from harness.run.pack import run_cells
from harness.study.cell import make_cell
from harness.training import model
from harness.training.lanes.fit import LaneTrainer
from harness.training.lanes.frozen import freeze
from harness.training.lanes.state import INNER, parameter_names, stacked
from harness.training.lanes.train import check_intermediates, digests, state_of, with_target
from harness.training.library import Trainer, composed
from harness.training.recipe import Recipe, encoded
from tests.support.studies.toy_column import logits_of
from tests.support.studies.toy_lanes import undropped

COMPOSITIONS = ("stack", "stack-trainable", "sequential")
TRAINERS = ("lanes", "library")


@pytest.fixture(scope="module")
def world(tiny, toy_splits, tmp_path_factory):
    """A store with two trained baselines, and a function that makes the transfer cells of a composition."""
    from harness.study.config import StudyConfig

    training = {"epochs": 1, "batch_size": 8, "learning_rate": 5e-4, "weight_decay": 0.01}
    study = StudyConfig("toy", ("one", "two", "three"), backbone="random-tiny", training=training, max_tokens=48)
    splits = {name: toy_splits(name, seed=seed, train=96) for seed, name in enumerate(study.tasks)}
    store = Store(tmp_path_factory.mktemp("store"))
    full = [make_cell(study, tiny, splits[name], seed=1, setting="full") for name in ("two", "three")]
    for cell in full:
        run_cells([cell], tiny, splits[cell.target], store, lambda *_: None)

    def cells(composition, trainer="lanes"):
        other = dataclasses.replace(study, composition=composition, trainer=trainer)
        return [make_cell(other, tiny, splits["one"], seed=1, setting="full", intermediate=one) for one in full]

    return store, splits["one"], cells


@pytest.fixture
def calm(monkeypatch):
    """Backbones without dropout, so that both ways of training see the same numbers."""
    load = model.load_backbone

    def without_dropout(backbone):
        network = load(backbone)
        network.config.hidden_dropout_prob = network.config.attention_probs_dropout_prob = 0.0
        return undropped(network)

    monkeypatch.setattr(model, "load_backbone", without_dropout)


def lanes_of(cells, store, backbone, dtype):
    recipe = Recipe.of(cells)
    network = with_target(recipe, backbone)
    state = state_of(network, recipe, cells, store)
    for group in (state.trained, state.frozen):
        group.update({name: value.to(dtype) for name, value in group.items()})
    return LaneTrainer(freeze(network, dtype), state, recipe, 1, has_segments=False)


def fresh_state(cells, store, backbone):
    """The lanes of the cells before any training."""
    recipe = Recipe.of(cells)
    return state_of(with_target(recipe, backbone), recipe, cells, store)


def named(network, cell):
    """Trained weights of a library model under our names."""
    parameters = dict(network.named_parameters())
    names = parameter_names(network, cell.target)
    if cell.spec["composition"] == "stack-trainable":
        names |= {INNER + ours: theirs for ours, theirs in parameter_names(network, model.INTERMEDIATE).items()}
    return {ours: parameters[theirs].detach().clone() for ours, theirs in names.items()}


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.float64, 1e-9)])
@pytest.mark.parametrize("composition", COMPOSITIONS)
def test_lanes_equal_the_library_training_that_cell_alone(world, tiny, calm, composition, dtype, tolerance):
    """This backbone's gradients are near AdamW's epsilon, which magnifies rounding: double precision is the proof."""
    store, splits, cells_of = world
    cells = cells_of(composition)
    _, parts, _ = encoded(cells[0], tiny, splits)
    together = lanes_of(cells, store, tiny, dtype)
    before = digests(together.state, 2)
    together.fit(parts["train"], parts["validation"], lambda *_: None)
    check_intermediates(cells, together.state, before)
    for lane, cell in enumerate(cells):
        alone = Trainer(composed(cell, tiny, store).to(dtype), Recipe.of([cell]), 1)
        model.check_trainable(alone.model, Recipe.of([cell]), cell.label)
        start = named(alone.model, cell)
        alone.fit(parts["train"], parts["validation"], lambda *_: None)
        single = named(alone.model, cell)
        assert set(single) == set(together.state.trained)
        apart = {
            name: float((value - together.state.trained[name][lane].detach()).abs().max())
            for name, value in single.items()
        }
        moved = {name: float((value - start[name]).abs().max()) for name, value in single.items()}
        assert max(apart.values()) < tolerance < max(moved.values()) / 20
        if composition == "stack-trainable":
            assert tolerance < max(value for name, value in moved.items() if name.startswith(INNER)) / 20


@pytest.mark.parametrize("trainer", TRAINERS)
@pytest.mark.parametrize("composition", COMPOSITIONS)
def test_a_record_says_what_was_trained_and_predicts_the_same_in_the_library(world, tiny, composition, trainer):
    store, splits, cells_of = world
    cell = cells_of(composition, trainer)[0]
    run_cells([cell], tiny, splits, store, lambda *_: None)
    record = store.get(cell.key)
    results, stacks = record.results, composition != "sequential"
    unchanged = {"stack": True, "stack-trainable": False, "sequential": None}
    assert results["intermediate_unchanged"] == unchanged[composition]
    assert (results["liveness"] is not None) == stacks
    assert not stacks or results["liveness"] > 0
    assert ("dead_intermediate" in results["flags"]) == (stacks and results["liveness"] <= model.ALIVE)
    folder = store.open(cell.key, "adapter/adapter_config.json").parent
    network = model.load_backbone(tiny)
    network.load_adapter(str(folder), load_as="one", use_safetensors=True, set_active=True)
    if composition == "stack":
        model.add_intermediate(network, model.stored_adapter(store, cell.spec["intermediate_key"]))
    if composition == "stack-trainable":
        own = store.open(cell.key, "adapter/intermediate/adapter.safetensors")
        network.load_adapter(str(own.parent), load_as=model.INTERMEDIATE, use_safetensors=True)
        theirs = load_file(store.open(cell.spec["intermediate_key"], "adapter/adapter.safetensors"))
        assert {name.replace(".intermediate.", ".two."): value.shape for name, value in load_file(own).items()} == {
            name: value.shape for name, value in theirs.items()
        }
    network.set_active_adapters(Stack(model.INTERMEDIATE, "one") if stacks else "one")
    _, parts, _ = encoded(cell, tiny, splits)
    again = Trainer(network, Recipe.of([cell]), 1).predict(parts["test"])
    np.testing.assert_allclose(again, logits_of(store, cell), atol=1e-5)
    assert results["trainable_parameters"] == trained_count(network, cell)


def trained_count(network, cell):
    """How many weights the cell trains, counted on a model that has its adapters."""
    names = [cell.target] + ([model.INTERMEDIATE] if cell.spec["composition"] == "stack-trainable" else [])
    own = [p for n, p in network.named_parameters() if any(f".adapters.{one}." in n for one in names)]
    return sum(p.numel() for p in (*own, *network.heads[cell.target].parameters()))


def test_a_baseline_is_never_a_lane_among_trained_intermediates(world, tiny):
    _, _, cells_of = world
    for composition in COMPOSITIONS[1:]:
        network = with_target(Recipe.of(cells_of(composition)), tiny)
        with pytest.raises(ValueError, match="baseline among lanes"):
            stacked(network, "one", [None], composition)


def test_a_trainable_stack_whose_intermediate_is_not_trained_fails_its_proofs(world, tiny):
    store, _, cells_of = world
    cells = cells_of("stack-trainable")
    state = fresh_state(cells, store, tiny)
    for value in state.trained.values():
        value.requires_grad_(True)
    with pytest.raises(model.WrongComposition, match="were not trained"):
        check_intermediates(cells, state, digests(state, len(cells)))
    with pytest.raises(model.WrongComposition, match="changed during training"):
        model.check_intermediate(cells_of("stack")[0], unchanged=False)
    cell = cells_of("stack-trainable")[0]
    network = composed(cell, tiny, store)
    network.train_adapter("one")
    with pytest.raises(model.WrongComposition, match=r"intermediate.* is not trained"):
        model.check_trainable(network, Recipe.of([cell]), cell.label)
