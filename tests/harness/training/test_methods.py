"""Adapter methods beside seq_bn, and whole models: what is trained, what is stored, what is refused."""

import dataclasses

import adapters
import numpy as np
import pytest
import torch
from adapters.composition import Stack

from harness.run.pack import run_cells
from harness.study.cell import make_cell, trainer_of
from harness.study.file import load_study
from harness.study.methods import METHODS, Adapter, settings_of
from harness.study.plan import make_plan
from harness.training import model
from harness.training.library import Trainer, composed
from harness.training.recipe import Recipe, encoded
from tasks.errors import BadStudy
from tasks.registry import Registry
from tests.support.studies.toy_column import logits_of, silent

STACKING = [name for name, method in METHODS.items() if not method.no_stack]
SMALL = {"compacter": 4}  # reduction factors that fit a width of 64


@pytest.fixture
def study_of(study):
    """The toy study with another adapter method, trained as lanes where they serve it."""

    def study_of(method, **changes):
        adapter = Adapter(method, SMALL.get(method))
        return dataclasses.replace(study, trainer="lanes", adapter=adapter, **changes)

    return study_of


@pytest.mark.parametrize("method", METHODS)
def test_a_baseline_of_every_method_is_trained_and_its_record_predicts_alike(study_of, tiny, store, toy_splits, method):
    splits = toy_splits("one")
    cell = make_cell(study_of(method), tiny, splits, seed=1, setting="full")
    assert cell.spec["trainer"] == ("lanes" if method == "seq_bn" else "library")
    run_cells([cell], tiny, splits, store, silent)
    fresh = composed(cell, tiny, store)
    count = sum(p.numel() for p in fresh.parameters() if p.requires_grad)
    assert store.get(cell.key).results["trainable_parameters"] == count
    network = model.load_backbone(tiny)
    folder = store.open(cell.key, "adapter/adapter_config.json").parent
    network.load_adapter(str(folder), use_safetensors=True, set_active=True)
    start, end = dict(fresh.named_parameters()), dict(network.named_parameters())
    moved = {name: not torch.equal(start[name], end[name]) for name, value in start.items() if value.requires_grad}
    assert all(moved.values()), [name for name, has_moved in moved.items() if not has_moved]
    _, parts, _ = encoded(cell, tiny, splits)
    predicted = Trainer(network, Recipe.of([cell]), 1).predict(parts["test"])
    np.testing.assert_allclose(predicted, logits_of(store, cell), atol=1e-5)


def pair(method, tiny):
    """A model with two adapters of a method, a and b, and functions that fill one and that give the logits."""
    settings = settings_of(Adapter(method, SMALL.get(method)))
    del settings["method"]
    network = model.load_backbone(tiny)
    for name in ("a", "b"):
        network.add_adapter(name, config=getattr(adapters, METHODS[method].config)(**settings))
    network.add_classification_head("b", num_labels=2, layers=2, activation_function="tanh")
    ids = torch.randint(5, 200, (4, 12), generator=torch.Generator().manual_seed(1))

    def fill(name, spread):
        own, generator = model.is_of_adapter(network, name), torch.Generator().manual_seed(ord(name))
        with torch.no_grad():
            for key, value in network.named_parameters():
                if own(key):
                    value.copy_(torch.randn(value.shape, generator=generator) * spread)

    def logits(active):
        network.eval().set_active_adapters(active)
        with torch.no_grad():
            return network(input_ids=ids, head="b").logits

    return fill, logits


def apart(one, other):
    return float((one - other).abs().max())


@pytest.mark.parametrize("method", METHODS)
def test_a_stack_is_a_stack_exactly_where_a_method_is_said_to_make_one(tiny, method):
    """Both adapters count, and the first one also under an adapter that does nothing yet."""
    fill, logits = pair(method, tiny)
    fill("a", 0.3)
    fill("b", 0.3)
    both = [apart(logits(Stack("a", "b")), logits(one)) > 1e-4 for one in ("a", "b")]
    fill("b", 0.0)
    is_heard = apart(logits(Stack("a", "b")), logits("b")) > 1e-4
    assert (all(both) and is_heard) == (method in STACKING)


@pytest.mark.parametrize("method", [name for name in STACKING if name != "seq_bn"])
@pytest.mark.parametrize("composition", ["stack", "stack-trainable"])
def test_a_transfer_of_each_stacking_method_trains_what_it_says(study_of, tiny, store, toy_splits, method, composition):
    study = study_of(method, composition=composition, training={"epochs": 1, "learning_rate": 2e-3})
    splits = {name: toy_splits(name, seed=seed, train=16) for seed, name in enumerate(("one", "two"))}
    below = make_cell(study, tiny, splits["two"], seed=1, setting="full")
    run_cells([below], tiny, splits["two"], store, silent)
    cell = make_cell(study, tiny, splits["one"], seed=1, setting="full", intermediate=below)
    run_cells([cell], tiny, splits["one"], store, silent)
    results = store.get(cell.key).results
    assert results["intermediate_unchanged"] == (composition == "stack")
    assert results["liveness"] > 0
    assert ("adapter/intermediate/adapter.safetensors" in store.get(cell.key).files) == (composition != "stack")


def test_a_whole_model_is_trained_as_a_reference_and_not_stored(study_of, tiny, store, toy_splits):
    splits = toy_splits("one")
    study = study_of("seq_bn", finetune_learning_rate=1e-4)
    cell = make_cell(study, tiny, splits, seed=1, setting="full", role="finetuned")
    assert (cell.spec["trainer"], cell.spec["adapter"]) == ("library", None)
    assert cell.spec["training"]["learning_rate"] == 1e-4
    run_cells([cell], tiny, splits, store, silent)
    record = store.get(cell.key)
    assert set(record.files) == {"history.json", "test.parquet", "validation.parquet"}
    network = model.load_backbone(tiny)
    model.add_target(network, Recipe.of([cell]))
    every = sum(p.numel() for n, p in network.named_parameters() if ".pooler." not in n)
    assert record.results["trainable_parameters"] == every


def test_a_whole_model_moves_every_weight_and_starts_from_the_head_of_the_baseline(study_of, tiny, store, toy_splits):
    splits, study = toy_splits("one"), study_of("seq_bn")
    cell = make_cell(study, tiny, splits, seed=1, setting="full", role="finetuned")
    trainer = Trainer(composed(cell, tiny, store), Recipe.of([cell]), 1)
    start = {name: value.detach().clone() for name, value in trainer.parameters.items()}
    baseline = dict(composed(make_cell(study, tiny, splits, seed=1, setting="full"), tiny, store).named_parameters())
    _, parts, _ = encoded(cell, tiny, splits)
    trainer.fit(parts["train"], parts["validation"], silent)
    still = {name for name, value in trainer.parameters.items() if torch.equal(value, start[name])}
    assert not still
    assert all(torch.equal(start[name], baseline[name]) for name in start if name.startswith("heads."))


def test_a_compacter_that_does_not_fit_the_backbone_is_refused_in_one_line_when_it_is_planned(study, tiny, toy_splits):
    narrow = dataclasses.replace(study, adapter=Adapter("compacter"))
    with pytest.raises(BadStudy, match=r"width 64 over reduction_factor 32 leaves 2, not a multiple of 4") as problem:
        make_cell(narrow, tiny, toy_splits("one"), seed=1, setting="full")
    assert "\n" not in str(problem.value)
    fitting = dataclasses.replace(study, adapter=Adapter("compacter", reduction_factor=16))
    assert make_cell(fitting, tiny, toy_splits("one"), seed=1, setting="full").spec["adapter"]["phm_dim"] == 4


def test_other_settings_are_other_cells_and_the_library_trains_what_lanes_do_not_serve(study, tiny, toy_splits):
    made = {}
    for adapter in (Adapter(), Adapter(non_linearity="gelu"), *(Adapter(name, SMALL.get(name)) for name in METHODS)):
        other = dataclasses.replace(study, trainer="lanes", adapter=adapter)
        cell = make_cell(other, tiny, toy_splits("one"), seed=1, setting="full")
        made[adapter.method, adapter.non_linearity] = cell
    assert len({cell.key for cell in made.values()}) == len(METHODS) + 1  # seq_bn is what is meant by default
    assert {name for name, cell in made.items() if cell.spec["trainer"] == "lanes"} == {("seq_bn", None)}


def test_two_shapes_in_one_stack_are_trained_by_the_library_and_what_makes_no_stack_is_refused(study, tiny, toy_splits):
    laned = dataclasses.replace(study, trainer="lanes")
    other = dataclasses.replace(laned, adapter=Adapter("double_seq_bn"))
    below = make_cell(other, tiny, toy_splits("two"), seed=1, setting="full")
    assert trainer_of(laned, "transfer", below) == "library"
    sequential = dataclasses.replace(laned, composition="sequential")
    cell = make_cell(sequential, tiny, toy_splits("one"), seed=1, setting="full", intermediate=below)
    assert cell.spec["adapter"] == below.spec["adapter"]
    other = dataclasses.replace(study, adapter=Adapter("lora"))
    below = make_cell(other, tiny, toy_splits("two"), seed=1, setting="full")
    with pytest.raises(BadStudy, match="'lora' makes no stack"):
        make_cell(study, tiny, toy_splits("one"), seed=1, setting="full", intermediate=below)


@pytest.mark.parametrize("method", [name for name in METHODS if name not in STACKING])
def test_methods_without_a_stack_are_allowed_for_baselines_and_for_going_on(method):
    for change in ("transfers=false", "composition=sequential"):
        assert load_study("tiny", [f"adapter.method={method}", change]).adapter.method == method


def planned(data, *changes):
    study = load_study("tiny", ["tasks=['epitome_er', 'news_empathy']", "data=files", *changes])
    return make_plan(study, Registry.load(), data)


def test_references_are_one_further_cell_for_each_target_setting_and_baseline_seed(data):
    changes = ["references=['finetuned']", "baseline_seeds=[1, 2]", "settings=['full', 'half']"]
    plan, plain = planned(data, *changes), planned(data, *changes[1:])
    further = [cell for cell in plan.cells if cell.role == "finetuned"]
    assert {(cell.target, cell.seed, cell.setting) for cell in further} == {
        (target, seed, setting)
        for target in ("epitome_er", "news_empathy")
        for seed in (1, 2)
        for setting in ("full", "half")
    }
    assert [cell.key for cell in plan.cells if cell not in further] == [cell.key for cell in plain.cells]
    assert {cell.target for cell in plan.only(["epitome_er"]).cells if cell.role == "finetuned"} == {"epitome_er"}
