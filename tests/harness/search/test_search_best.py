"""``run --best``: what a study makes of finished searches, and what wins over them."""

import dataclasses

import pytest

from harness.search.outcome import NoSearch, SearchResult, Trial, keep, search_folder, with_best
from harness.study import plan
from harness.study.file import load_study
from tasks.errors import BadStudy
from tasks.registry import Registry


def settled(store, study, task, intermediate=None, **settings):
    """A finished search without any training."""
    values = {"learning_rate": 3e-3, "batch_size": 16, "epochs": 3, "method": "seq_bn"} | settings
    found = SearchResult(study, task, intermediate, {}, (Trial(0, "complete", validation=0.5, best_epoch=1, **values),))
    search_folder(store, study, task, intermediate).mkdir(parents=True)
    keep(store, found)


def test_the_best_trial_wins_over_the_study_and_loses_to_the_task_and_the_command_line(store):
    settled(store, "tiny", "epitome_er")
    task = Registry.load().task("epitome_er")
    study = load_study("tiny", ["task.epitome_er.epochs=7"])
    values, origin = with_best(study, store).training_for(task)
    assert (values.learning_rate, origin["learning_rate"]) == (3e-3, "search")
    assert (values.epochs, origin["epochs"]) == (7, "study.task")
    said = ["training.learning_rate=1e-5"]
    values, origin = with_best(load_study("tiny", said), store, said).training_for(task)
    assert (values.learning_rate, origin["learning_rate"]) == (1e-5, "study")
    assert (values.batch_size, origin["batch_size"]) == (16, "search")
    other, origin = with_best(study, store).training_for(Registry.load().task("news_empathy"))
    assert (other.learning_rate, origin["learning_rate"]) == (2e-3, "study")


def test_without_a_search_or_with_a_changed_digit_in_it_best_says_how_to_start_one(store):
    with pytest.raises(NoSearch, match="empathy-transfer study search tiny"):
        with_best(load_study("tiny"), store)
    settled(store, "tiny", "epitome_er")
    path = search_folder(store, "tiny", "epitome_er") / "result.json"
    path.write_bytes(path.read_bytes().replace(b"0.003", b"0.001"))
    with pytest.raises(NoSearch, match=f"^{path}: not the result of a search .*; run the same search again"):
        with_best(load_study("tiny"), store)


def test_a_method_that_makes_no_stack_is_refused_where_there_are_transfers(store):
    settled(store, "tiny", "epitome_er", method="prompt_tuning")
    with pytest.raises(BadStudy, match=r"best trial of epitome_er: adapter\.method 'prompt_tuning' makes no stack"):
        with_best(load_study("tiny"), store)


def test_a_target_on_an_adapter_of_another_method_trains_through_the_library(store, study, tiny, toy_splits):
    settled(store, "toy", "two", method="double_seq_bn")
    best = with_best(dataclasses.replace(study, trainer="lanes"), store)
    splits = {name: toy_splits(name, seed=i) for i, name in enumerate(best.tasks)}
    _, transfers = plan._packs(plan._Grid(best, tiny, splits, ()), None)
    specs = {pack.target: pack.cells[0].spec for pack in transfers}
    assert (specs["one"]["trainer"], specs["one"]["adapter"]["method"]) == ("library", "seq_bn")
    assert (specs["two"]["trainer"], specs["two"]["adapter"]["method"]) == ("library", "double_seq_bn")


def test_a_pair_with_a_search_of_its_own_leaves_its_column_s_pack(store, study, tiny, toy_splits):
    settled(store, "toy", "one")
    settled(store, "toy", "one", "two", batch_size=32)
    three = dataclasses.replace(study, tasks=("one", "two", "three"), trainer="lanes")
    best = with_best(three, store)
    splits = {name: toy_splits(name, seed=i) for i, name in enumerate(best.tasks)}
    _, transfers = plan._packs(plan._Grid(best, tiny, splits, ()), None)
    sizes = {
        (cell.intermediate, cell.target): (cell.spec["training"]["batch_size"], len(pack.cells))
        for pack in transfers
        for cell in pack.cells
    }
    assert sizes[("two", "one")] == (32, 1)
    assert sizes[("three", "one")] == (16, 1)
    assert sizes[("one", "two")] == sizes[("three", "two")] == (8, 2)
