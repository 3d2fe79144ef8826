"""The search: lanes that are dropped, trials that survive, and what a run makes of the best."""

import dataclasses
import json
import math
import re
import signal
import sys
import time

import numpy as np
import pytest
import torch
from adapters import RobertaAdapterModel, SeqBnConfig
from transformers import RobertaConfig

from adapters_store import Store
from adapters_store.roles import BASELINE
from harness.run.pack import run_cells
from harness.search import search, trials
from harness.search.outcome import search_folder
from harness.search.search import CannotSearch, open_journal
from harness.study.cell import make_cell
from harness.study.file import load_study
from harness.study.plan import make_plan
from harness.training.inputs import Encoded
from harness.training.lanes.fit import LaneTrainer
from harness.training.lanes.frozen import freeze
from harness.training.lanes.state import rate_factor, stacked
from harness.training.lanes.train import lane_trainer
from harness.training.objective import Best
from harness.training.recipe import Part, Recipe
from tasks.errors import BadInput
from tasks.registry import Registry
from tests.support.faults.kill_drill import SMALL
from tests.support.faults.warm_start import Command, completed

SHAPE = dict(vocab_size=99, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64)
RATES = [1e-3, 3e-3, 1e-4, 5e-3]
DECAYS = dict(zip(RATES, [0.5, 0.0, 0.1, 0.3], strict=True))  # of the lanes with these rates


def part(count, seed=0):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(3, 20, count).tolist()
    rows = [(Encoded(tuple(rng.integers(5, 99, n).tolist()), (0,) * n, False, False),) for n in lengths]
    return Part(rows, rng.integers(0, 3, count))


def lanes_of(rates, epochs=4):
    """A trainer with a lane for each learning rate, dropout on."""
    torch.manual_seed(0)
    made = RobertaAdapterModel(RobertaConfig(**SHAPE, max_position_embeddings=64, pad_token_id=1))
    made.add_adapter("t", config=SeqBnConfig(reduction_factor=16))
    made.add_classification_head("t", num_labels=3, layers=2, activation_function="tanh")
    state, decays = stacked(made.eval(), "t", [None] * len(rates)), [DECAYS[rate] for rate in rates]
    recipe = Recipe("t", 1, "macro_f1", epochs, 8, 0.1, 1.0, "none", rates, decays)
    return LaneTrainer(freeze(made), state, recipe, 1, has_segments=False)


def trained(rates, dropped=()):
    """Weights, best epochs and kept weights after four epochs; ``dropped`` lanes leave after the second."""
    one, train, validation = lanes_of(rates), part(40), part(16, seed=9)
    best, step = Best(one.state.trained, len(rates)), 0
    for epoch in range(1, 5):
        _, step = one.train_epoch(train, epoch, step, 20)
        scores = one.predict(validation)[:, :, 0].mean(axis=1).tolist()
        best.keep(one.state.trained, scores, epoch)
        if epoch == 2:
            kept = [lane for lane in range(len(rates)) if lane not in dropped]
            one.only(kept)
            best.only(kept)
    return one, best


def apart(some, others):
    return max(float((some[name].detach() - others[name].detach()).abs().max()) for name in some)


def test_lanes_that_stay_end_as_if_the_others_had_never_been_there():
    """With rates, weight decays, moments and best epochs of their own."""
    sliced, best = trained(RATES, dropped=(0, 2))
    alone, own = trained([RATES[1], RATES[3]])
    assert apart(sliced.state.trained, alone.state.trained) < 1e-5
    assert apart(best.kept, own.kept) < 1e-5
    assert best.epochs == own.epochs
    assert best.scores == pytest.approx(own.scores, abs=1e-5)
    start = lanes_of([RATES[1], RATES[3]])
    assert apart(start.state.trained, alone.state.trained) > 1e-3


def test_every_lane_has_the_schedule_of_its_own_number_of_steps():
    together = rate_factor(3, torch.tensor([4, 10, 100]), 0.1)
    each = [float(rate_factor(3, steps, 0.1)) for steps in (4, 10, 100)]
    assert together.tolist() == each == pytest.approx([1 / 4, 7 / 9, 3 / 10])
    assert float(rate_factor(10, 4, 0.0)) == 0.0


@pytest.fixture
def short(monkeypatch):
    """Rounds of six trials, and rates at which a few steps can differ."""
    monkeypatch.setattr(search, "ROUND", 6)
    monkeypatch.setattr(search, "LEARNING_RATES", (1e-4, 2e-2))


@pytest.fixture
def one(study, tiny, store, toy_splits, short):
    """A search over a task of 32 rows whose test rows may not be looked at."""
    lanes = dataclasses.replace(study, trainer="lanes", max_train=32, training=study.training | {"epochs": 4})
    poisoned = dataclasses.replace(toy_splits("one"), test=tuple(Untouchable() for _ in range(24)))
    return search.Search(lanes, tiny, poisoned, store, 1, ("seq_bn",))


class Untouchable:
    def __getattribute__(self, name):
        raise AssertionError("a search looked at a test row")


def run(one, trials, watch=lambda *_: None, on_trial=lambda _: None):
    return one.run(trials, watch, on_trial)


def test_a_search_finds_the_best_trial_on_validation_and_stores_no_cell(one, store):
    found = run(dataclasses.replace(one, is_halving=False), 8)
    assert [trial.number for trial in found.trials] == list(range(8))
    assert {trial.state for trial in found.trials} == {"complete"}
    assert found.best.validation == max(trial.validation for trial in found.trials)
    assert {trial.batch_size for trial in found.trials} <= {8, 16, 32, 64}
    assert all(1e-4 <= trial.learning_rate <= 2e-2 and 1 <= trial.epochs <= 4 for trial in found.trials)
    assert len({trial.learning_rate for trial in found.trials}) == 8
    assert not (store.root / "objects").exists()
    assert store.manifests() == []


def test_a_trial_scores_what_a_cell_of_its_settings_scores(one, tiny, store, toy_splits):
    found = run(dataclasses.replace(one, is_halving=False), 6)
    for trial in found.trials[:3]:
        cell = one.cell({name: trial.settings[name] for name in search.SEARCHED}, trial.method)
        run_cells([cell], tiny, toy_splits("one"), store, lambda *_: None)
        assert store.get(cell.key).results["validation"] == pytest.approx(trial.validation, abs=1e-6)
        assert store.get(cell.key).results["best_epoch"] == trial.best_epoch


def test_halving_drops_the_worse_half_and_changes_no_trial_that_stays(one, store):
    whole = run(dataclasses.replace(one, is_halving=False), 12)
    halved = run(dataclasses.replace(one, store=Store(store.root / "other")), 6)
    dropped = [trial for trial in halved.trials if trial.state == "dropped"]
    assert dropped
    assert halved.best.state == "complete"
    for full, half in zip(whole.trials, halved.trials, strict=False):
        assert full.settings == half.settings
        if half.state == "complete":
            assert full.validation == pytest.approx(half.validation, abs=1e-6)


def test_the_worse_half_is_what_scores_less():
    assert trials._worse_half({0: 0.5, 1: 0.9, 2: math.nan, 3: 0.5, 4: 0.1}) == {4, 2}
    assert trials._worse_half({3: 0.5, 4: 0.5}) == {4}
    assert trials._worse_half({3: math.nan}) == set()
    assert [epoch for epoch in range(1, 20) if trials._is_rung(epoch)] == [1, 2, 4, 8, 16]


def test_a_stopped_search_ends_with_the_trials_of_one_that_was_not(one, store):
    def stop(finished):
        if len(finished) >= 4:
            raise KeyboardInterrupt

    calm = run(dataclasses.replace(one, store=Store(store.root / "calm")), 9)
    with pytest.raises(KeyboardInterrupt):
        run(one, 9, on_trial=stop)
    with (one.folder / "journal.jsonl").open("a") as file:
        file.write('{"op_code": 4, "unfin')
    seen = []
    resumed = run(one, 9, on_trial=lambda finished: seen.append(len(finished)))
    assert seen[0] >= 4
    assert resumed.trials == calm.trials


def test_a_search_goes_on_to_more_trials_and_repeats_none(one):
    first = run(one, 4)
    more = run(one, 7)
    assert more.trials[:4] == first.trials
    assert len(more.trials) == 7
    assert run(one, 5).trials == more.trials


def test_a_search_with_other_settings_is_refused(one):
    run(one, 2)
    wider = dataclasses.replace(one.study.adapter, reduction_factor=2)
    for name, changes in (("caps", {"max_val": 8}), ("adapter", {"adapter": wider})):
        other = dataclasses.replace(one, study=dataclasses.replace(one.study, **changes))
        with pytest.raises(CannotSearch, match=rf"other settings \({name}; .*move the file away"):
            run(other, 4)


def test_a_search_of_two_processes_or_without_optuna_is_refused(one, monkeypatch):
    with open_journal(one.folder, one.inputs), pytest.raises(CannotSearch, match="another process searches here"):
        run(one, 2)
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(CannotSearch, match=r"pip install 'empathy-transfer\[search\]'"):
        run(one, 2)


def test_a_group_that_fails_is_told_and_stops_no_other(one, monkeypatch):
    first = []

    def once(attempt, *rest):
        first.append(len(attempt.cells))
        if len(first) == 1:
            raise RuntimeError("no luck")
        return lane_trainer(attempt, *rest)

    monkeypatch.setattr(trials, "lane_trainer", once)
    found = run(one, 6)
    failed = [trial for trial in found.trials if trial.state == "failed"]
    assert len(failed) == first[0] < 6
    assert all(trial.reason.startswith("RuntimeError: no luck (test_search.py:") for trial in failed)
    assert found.best is not None


def test_what_lanes_do_not_serve_is_tried_through_the_library(one):
    alone = dataclasses.replace(one.study, transfers=False)
    found = run(dataclasses.replace(one, study=alone, methods=("double_seq_bn", "lora")), 2)
    assert [trial.state for trial in found.trials] == ["complete"] * 2
    assert {trial.method for trial in found.trials} <= {"double_seq_bn", "lora"}
    assert found.best.validation is not None


def test_unusable_requests_are_refused_in_one_line(one):
    for methods, number, said in (
        (("seq_bn",), 0, "--trials 0"),
        (("lora_",), 2, "method 'lora_': adapter.method 'lora_' is not one of"),
        (("prompt_tuning",), 2, "makes no stack"),
    ):
        with pytest.raises(BadInput, match=re.escape(said)):
            run(dataclasses.replace(one, methods=methods), number)


def test_a_transfer_is_searched_on_its_stored_baseline(one, tiny, store, toy_splits):
    baseline = make_cell(one.study, tiny, toy_splits("two", seed=2), seed=1, setting="full")
    run_cells([baseline], tiny, toy_splits("two", seed=2), store, lambda *_: None)
    stacked_on = run(dataclasses.replace(one, intermediate=baseline), 3)
    alone = run(one, 3)
    assert (stacked_on.task, stacked_on.intermediate) == ("one", "two")
    assert stacked_on.inputs["intermediate_key"] == baseline.key
    assert [t.settings for t in stacked_on.trials] == [t.settings for t in alone.trials]
    assert search_folder(store, "toy", "one", "two") != search_folder(store, "toy", "one")


def test_a_transfer_is_searched_on_the_baseline_of_a_study_with_floors(data, store, folder):
    study, registry = dataclasses.replace(load_study("tiny"), floors=True), Registry.load()
    planned = make_plan(study, registry, data).cells
    baseline = next(cell for cell in planned if (cell.target, cell.role) == ("news_emotion", BASELINE))
    store.put(baseline.key, baseline.spec, {}, {}, folder)
    searching = search.search_for(study, registry, data, store, "epitome_er", "news_emotion")
    assert searching.intermediate == baseline


def words(store, *arguments):
    return [*arguments, "tiny", "--set", "trainer='lanes'", *SMALL, "--store", store, "--threads", "1", "--json"]


def searching(store):
    return words(store, "study", "search", "--task", "epitome_er", "--trials", "24", "--quiet")


@pytest.mark.slow
def test_a_search_that_is_killed_again_and_again_ends_as_one_that_was_not(tmp_path, printed):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    calm = json.loads(completed(searching(whole), check=True).stdout)
    journal = killed / "searches" / "tiny" / "epitome_er" / "journal.jsonl"
    died = []
    for size in (1, 8_000, 14_000):
        process = Command(searching(killed))
        deadline = time.monotonic() + 120
        while not (journal.is_file() and journal.stat().st_size > size) and time.monotonic() < deadline:
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)  # nothing happens to a search that is already over
        died.append(process.wait() == -signal.SIGKILL)
    assert any(died), "every search was over before it was killed"
    again = json.loads(completed(searching(killed), check=True).stdout)
    assert len(again[0]["trials"]) == 24
    assert again[0]["best"] == calm[0]["best"]
    assert again[0]["trials"] == calm[0]["trials"]
    out = printed("study", "show", "tiny", "--best", "--store", killed, "--json")
    rows = json.loads(out)["tasks"]
    assert rows[0]["learning_rate"] == {"value": calm[0]["best"]["learning_rate"], "from": "search"}
