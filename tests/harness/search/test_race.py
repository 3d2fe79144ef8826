"""The race of a target's intermediates: who leaves, who stays, and that a run would have stored the same."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file

from adapters_store import Store
from adapters_store.archive import archive
from adapters_store.restore import restore
from adapters_store.store import has_weights
from adapters_store.verify import verify
from analysis.importance.choosing.race import candidates as replayed
from analysis.importance.choosing.race import rounds_of
from harness.api import Study
from harness.engines.races import races
from harness.search.choice import BadJournal, Journal, Round, choice_of, to_leave
from harness.search.journal import CannotSearch, alone_in
from harness.search.outcome import RESULT
from harness.search.race import CannotRace, race_for
from harness.sharing.brief import brief_copy
from harness.study.cell import Cell
from harness.study.manifest import manifest_of
from tasks.errors import BadInput, BadStudy
from tests.support.faults.warm_start import completed

TASKS = ("conv_empathy", "news_emotion", "news_empathy", "empdial_role", "empdial_ei")
TARGET = "conv_empathy"  # of a correlation: no two candidates score the same
OVERRIDES = (
    f"tasks={json.dumps(TASKS)}",
    *(f"max_{part}=16" for part in ("train", "val", "test")),
    *("training.epochs=4", "training.batch_size=8", "training.learning_rate=5e-3", 'trainer="lanes"'),
)
FILES = ("test.parquet", "validation.parquet", "adapter/adapter.safetensors", "adapter/model_head.safetensors")


def study_in(root, *overrides):
    return Study("tiny", store=root, overrides=[*OVERRIDES, *overrides])


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The study after a run of the target's whole column."""
    study = study_in(tmp_path_factory.mktemp("whole") / "runs")
    assert study.run(only_targets=[TARGET]).is_complete
    return study


@pytest.fixture
def fresh(whole, tmp_path):
    """The same study in a store that has the baselines alone."""
    study = study_in(tmp_path / "runs")
    objects = study.store.root / "objects"
    objects.mkdir(parents=True)
    for cell in study.plan.cells:
        if cell.intermediate is None:
            (objects / cell.key).symlink_to(whole.store.root / "objects" / cell.key)
    return study


@pytest.fixture(scope="module")
def raced(whole, tmp_path_factory):
    """The study after a race, which also trained the baselines, and its choice."""
    study = study_in(tmp_path_factory.mktemp("raced") / "runs")
    return study, study.choose(TARGET)


def candidates(study):
    return [cell for cell in study.plan.cells if (cell.target, cell.role) == (TARGET, "transfer")]


def content(store, cell):
    record = store.get(cell.key)
    return {name: store.open(cell.key, name).read_bytes() for name in FILES} | {"results": record.results}


def test_who_stays_is_stored_as_by_a_run_of_the_whole_column(whole, raced):
    """Under the grid's keys, equal up to rounding, which AdamW magnifies in this encoder, as of any lanes."""
    study, choice = raced
    stayed = [cell for cell in candidates(study) if cell.key in study.store]
    assert {cell.intermediate for cell in stayed} == {own.intermediate for own in choice.candidates if own.seeds}
    assert len(stayed) == 2
    for cell in stayed:
        assert scores(study.store, cell) == pytest.approx(scores(whole.store, cell), abs=1e-3)
        ours, theirs = (one.store.get(cell.key) for one in (study, whole))
        assert ours.spec == theirs.spec
        assert set(ours.files) == set(theirs.files)
        assert ours.results["test"] == pytest.approx(theirs.results["test"], abs=1e-3)
        assert ours.results["best_epoch"] == theirs.results["best_epoch"]
        ours, theirs = (load_file(one.store.open(cell.key, FILES[2])) for one in (study, whole))
        assert max(float((ours[name] - theirs[name]).abs().max()) for name in ours) < 1e-4


def test_who_leaves_is_told_by_validation_until_then_alone(whole, raced):
    """Against the histories of the whole column."""
    _, choice = raced
    seen = {cell.intermediate: scores(whole.store, cell) for cell in candidates(whole)}
    first = sorted(seen, key=lambda name: -seen[name][0])
    assert {own.intermediate for own in choice.candidates if own.left_after == 1} == set(first[2:])
    assert choice.rounds == (1,)  # two of four stay, and two always do
    for own in choice.candidates:
        until = own.left_after or 4
        assert own.validation == pytest.approx(max(seen[own.intermediate][:until]), abs=1e-3)
        assert own.epochs == until
    assert [own.validation for own in choice.candidates[:2]] == sorted(
        (own.validation for own in choice.candidates[:2]), reverse=True
    )
    assert (choice.epochs, choice.whole_column) == (4 + 2 * 3, 16)


def history(store, cell):
    return json.loads(store.open(cell.key, "history.json").read_bytes())


def scores(store, cell):
    return [epoch["validation"] for epoch in history(store, cell)]


def test_who_left_is_no_record_and_no_gain_and_leaves_no_checkpoint(raced):
    study, choice = raced
    left = {own.key for own in choice.candidates if own.state == "left"}
    assert len(left) == 2
    assert not left & study.store.keys()
    assert not list((study.store.root / "packs").glob("*"))
    gains = study.gains()
    finished = set(gains[gains.points.notna()].intermediate)
    assert finished == {own.intermediate for own in choice.candidates if own.seeds}
    assert all(own.gain is None for own in choice.candidates if own.state == "left")
    assert not verify(study.store).damaged


def test_the_replay_of_the_whole_column_comes_to_the_race_that_was_run(whole, raced):
    _, choice = raced
    (column,) = replayed(whole.store, whole.manifest())
    place, epochs = column.race(rounds_of(*column.history.shape))
    assert candidates(whole)[place].intermediate == choice.chosen.intermediate
    assert epochs == choice.epochs


def test_gains_are_those_of_the_table_of_gains(raced):
    study, choice = raced
    points = study.gains().set_index(["intermediate", "target"]).points
    for own in choice.candidates[:2]:
        assert own.gain == pytest.approx(points[own.intermediate, TARGET])


def test_the_same_command_again_trains_nothing_and_says_the_same(raced, monkeypatch):
    study, choice = raced
    monkeypatch.setattr("harness.training.lanes.train.train_until", None)
    monkeypatch.setattr("harness.run.pack.run_cells", None)
    assert study_in(study.store.root).choose(TARGET) == choice


@pytest.mark.parametrize("stop", [1, 2, 3, 5, 6])
def test_a_race_that_is_stopped_after_any_epoch_ends_as_one_that_was_not(fresh, raced, stop):
    seen = []

    def watch(what, epoch, epochs):
        seen.append(epoch)
        if len(seen) == stop:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fresh.choose(TARGET, on_epoch=watch)
    study, choice = raced
    assert study_in(fresh.store.root).choose(TARGET) == choice
    for cell in candidates(fresh):
        assert (cell.key in fresh.store) == (cell.key in study.store)
        if cell.key in fresh.store:
            assert content(fresh.store, cell) == content(study.store, cell)


def test_status_has_a_race_running_while_it_runs_stalled_when_stopped_and_done_in_the_end(fresh):
    seen = []

    def watch(what, epoch, epochs):
        now = fresh.status()
        seen.append((races(now)[0].state, now.counts["running"], now.packs[0].note.epoch))
        if epoch == 2:
            raise KeyboardInterrupt

    assert fresh.run(only_keys=[]).is_complete  # so that the store knows the study
    with pytest.raises(KeyboardInterrupt):
        fresh.choose(TARGET, on_epoch=watch)
    assert {state for state, _, _ in seen} == {"running"}
    assert (seen[0][1:], seen[-1][1:]) == ((4, 0), (2, 2)), "candidates under way, and the epoch of the note"
    (stopped,) = races(fresh.status())
    assert (stopped.state, len(stopped.left), len(stopped.going)) == ("stalled", 2, 2)
    fresh.choose(TARGET)
    assert races(fresh.status())[0].state == "done"


KILLED = """
import os, signal
from harness.training import checkpoint
original, done = checkpoint.write, []
def dying(*args, **rest):
    given = original(*args, **rest)
    done.append(None)
    if len(done) == 14:
        os.kill(os.getpid(), signal.SIGKILL)
    return given
checkpoint.write = dying
"""


@pytest.mark.slow
def test_a_race_that_is_killed_ends_as_one_that_was_not(fresh, raced):
    """While lanes of the last epochs are being written: some have a checkpoint that others have not."""
    typed = [word for override in OVERRIDES for word in ("--set", override)]
    words = ["choose", TARGET, "--study", "tiny", *typed, "--store", fresh.store.root, "--threads", "1", "--json"]
    died = completed([*words, "--out", fresh.store.root / "out"], patch=KILLED)
    assert died.returncode < 0, died.stderr
    assert races(fresh.status())[0].state == "stalled"
    study, choice = raced
    assert fresh.choose(TARGET) == choice
    for cell in candidates(fresh):
        if cell.key in study.store:
            assert content(fresh.store, cell) == content(study.store, cell)


def test_intermediates_without_weights_are_trained_again_and_the_race_is_the_same(fresh, raced, tmp_path):
    fresh.store.write_manifest("tiny", manifest_of(fresh.plan))
    light = brief_copy(fresh.store, "tiny", [], tmp_path / "brief")
    archive(light, "tiny", [], tmp_path / "light.tar.gz", is_light=True)
    own = study_in(tmp_path / "own")
    restore(tmp_path / "light.tar.gz", own.store)
    stored = [cell.key for cell in own.plan.cells if cell.key in own.store]
    assert stored and not any(has_weights(own.store.get(key)) for key in stored)
    choice = own.choose(TARGET)
    assert choice == raced[1]
    again = {cell.intermediate_key for cell in candidates(own)}
    assert {key for key in stored if has_weights(own.store.get(key))} == again, "the target alone stays as it is"


def test_a_candidate_that_is_stored_costs_nothing_and_never_leaves(whole, fresh, raced):
    _, choice = raced
    worst = choice.candidates[-1]
    (fresh.store.root / "objects" / worst.key).symlink_to(whole.store.root / "objects" / worst.key)
    again = fresh.choose(TARGET)
    own = next(own for own in again.candidates if own.key == worst.key)
    assert (own.state, own.epochs, own.seeds) == ("stored", 0, 1)
    assert own.left_after is None
    assert again.epochs < choice.epochs
    everything = whole.choose(TARGET)
    assert everything.epochs == 0
    assert {own.state for own in everything.candidates} == {"stored"}
    best = max(candidates(whole), key=lambda cell: max(scores(whole.store, cell)))
    assert everything.chosen.validation == max(scores(whole.store, best))


def test_the_best_are_trained_again_with_all_seeds_and_rank_by_the_mean(fresh):
    study = study_in(fresh.store.root, "seeds=[1, 2]")
    plain = study.choose(TARGET)
    choice = study.choose(TARGET, again=3)
    assert (plain.seeds, choice.seeds) == ((1,), (1, 2))
    assert [own.seeds for own in choice.candidates] == [2, 2, 2, 0]
    assert {own.intermediate for own in choice.candidates[:3]} == {own.intermediate for own in plain.candidates[:3]}
    means = [own.validation for own in choice.candidates[:3]]
    assert means == sorted(means, reverse=True)
    cells = {(cell.intermediate, cell.seed): cell for cell in candidates(study)}
    for own in choice.candidates[:3]:
        records = [study.store.get(cells[own.intermediate, seed].key).results for seed in (1, 2)]
        assert own.validation == pytest.approx(np.mean([record["validation"] for record in records]))
    third = choice.candidates[[own.intermediate for own in choice.candidates].index(plain.candidates[2].intermediate)]
    assert third.epochs == 1 + 4  # it left, and was trained anew


def test_test_rows_are_not_read_while_candidates_race(fresh):
    class Untouchable:
        def __getattribute__(self, name):
            raise AssertionError("a race looked at a test row")

    splits = fresh.plan.splits | {
        TARGET: replace(fresh.plan.splits[TARGET], test=tuple(Untouchable() for _ in range(16)))
    }
    own = race_for(replace(fresh.plan, splits=splits), fresh.store, TARGET)
    journal = own.run(lambda *_: None, lambda *_: None)
    assert len(journal.left()) == 2


def test_another_process_may_not_race_for_the_same(fresh):
    own = race_for(fresh.plan, fresh.store, TARGET)
    with alone_in(own.folder), pytest.raises(CannotSearch, match="another process searches here"):
        own.run(lambda *_: None, lambda *_: None)


def test_a_damaged_journal_is_named_and_other_rounds_begin_anew(fresh):
    own = race_for(fresh.plan, fresh.store, TARGET)
    keys = tuple(cell.key for cell in own.cells)
    Journal((2,), keys, (), (Round(2, dict.fromkeys(keys), keys[:2]),)).write(own.folder, fresh.store)
    assert Journal.read(own.folder).ended[0].left == keys[:2]
    assert own._begun() == Journal((1,), keys, ())
    (own.folder / RESULT).write_text("{}")
    with pytest.raises(BadJournal, match=r"not the journal of a race .*choose anew"):
        own.run(lambda *_: None, lambda *_: None)


def test_the_worse_half_leaves_ties_by_order_undefined_first():
    assert to_leave({"a": 0.5, "b": 0.9, "c": math.nan, "d": 0.5, "e": None}) == ("c", "e")
    assert to_leave({"a": 0.1, "b": 0.1, "c": 0.1}) == ("c",)
    assert to_leave({"a": 0.1, "b": 0.2}) == ()
    assert to_leave({"a": 0.1, "b": 0.2, "c": 0.3, "d": 0.4}, free=["a"]) == ("b",)


@given(st.lists(st.one_of(st.none(), st.floats(-1, 1)), min_size=1, max_size=20))
def test_two_always_stay_and_nobody_who_leaves_is_better_than_who_stays(values):
    scores = {str(place): value for place, value in enumerate(values)}
    left = to_leave(scores)
    stay = [scores[key] for key in scores if key not in left]
    assert len(stay) == max(min(2, len(scores)), -(-len(scores) // 2))
    height = [-2 if value is None else value for value in stay]
    assert all((-2 if scores[key] is None else scores[key]) <= min(height) for key in left)


def made_up(count):
    """Journal and cells of candidates that have nothing but a name."""
    spec = {"training": {"epochs": 4}, "intermediate_key": None}
    return [Cell(TARGET, f"task_{i}", 1, "full", "transfer", spec, str(i)) for i in range(count)]


def test_who_left_last_stands_before_who_left_first_and_ties_keep_the_study_s_order(fresh):
    cells = made_up(5)
    ended = (
        Round(1, {"0": 0.2, "1": 0.2, "2": 0.9, "3": 0.8, "4": 0.1}, ("1", "4")),
        Round(2, {"0": 0.2, "2": 0.9, "3": None}, ("0", "3")),
    )
    journal = Journal((1, 2), tuple("01234"), (), ended)
    choice = choice_of(fresh.plan, fresh.store, journal, cells, (1,))
    assert [own.key for own in choice.candidates] == ["0", "3", "1", "4", "2"]
    assert [own.state for own in choice.candidates] == ["left"] * 4 + ["unfinished"]
    assert (choice.chosen, choice.tied, choice.epochs) == (None, [], 2 + 2 + 1 + 1)


@pytest.mark.parametrize(
    ("changes", "task", "rounds", "said"),
    [
        ((), "conv_empathyy", (), "task 'conv_empathyy' is not of study 'tiny'"),
        (("transfers=false",), TARGET, (), "has no transfers"),
        ((f'tasks=["{TARGET}"]',), TARGET, (), "conv_empathy has no candidates in study 'tiny'"),
        (("training.epochs=1",), TARGET, (), "is trained for 1 epoch, so that nobody can leave after epoch 1"),
        ((), TARGET, (1, 4), "is trained for 4 epochs, so that nobody can leave after epoch 4"),
        ((), TARGET, (1, 2), "4 candidates for conv_empathy, of which 2 stay to the end"),
        ((), TARGET, (2, 1), "--rounds 2,1 is not a rising list of epochs from 1"),
        ((), TARGET, (0,), "--rounds 0 is not"),
        ((f'tasks=["{TARGET}", "news_emotion"]',), TARGET, (), "1 candidate for conv_empathy, of which 2 stay"),
        (('trainer="library"',), TARGET, (), "and only lanes can race"),
    ],
)
def test_unusable_requests_are_refused_in_one_line(tmp_path, changes, task, rounds, said):
    study = study_in(tmp_path / "runs", *changes)
    with pytest.raises(BadInput) as problem:
        study.choose(task, rounds=rounds)
    assert said in str(problem.value)
    assert "\n" not in str(problem.value)
    assert not any((study.store.root / name).exists() for name in ("objects", "studies", "searches", "packs"))


def test_trained_again_needs_other_seeds_and_no_more_than_there_are(fresh):
    with pytest.raises(CannotRace, match=r"--again 5 is not a number of candidates from 1 to 4"):
        fresh.choose(TARGET, again=5)
    with pytest.raises(CannotRace, match=r"1 is the only one; name all, as --seeds 1,2,3"):
        fresh.choose(TARGET, again=2)


def test_an_intermediate_that_could_not_be_trained_is_named(fresh, monkeypatch):
    empty = Store(fresh.store.root.parent / "empty")
    own = replace(race_for(fresh.plan, fresh.store, TARGET), store=empty)
    with pytest.raises(CannotSearch, match=r"news_emotion alone could not be trained.*logs news_emotion --study tiny"):
        own.need_intermediates()


def test_a_target_of_no_study_is_an_error_of_the_study(fresh):
    with pytest.raises(BadStudy, match="is not of study"):
        race_for(fresh.plan, fresh.store, "news_emotions")
