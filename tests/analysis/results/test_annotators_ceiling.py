"""One annotator against the others: by scikit-learn and scipy, on planted noise, and on the leaderboard."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import pearsonr
from sklearn.metrics import f1_score

from adapters_store.measures import ANNOTATORS, annotators_inputs
from analysis.gains.cells import Predictions
from analysis.results.answers import PERSON, Annotated, ceiling, people_rows
from analysis.results.leaderboard import leaderboard
from tests.support.studies.fake_study import FakeTask, fake_study


def by_scikit_learn(marks: np.ndarray, answers: np.ndarray | None = None) -> float:
    """The same by spreading each row over the tied classes as rows with weights, an annotator after the other."""
    scores, weights = [], []
    for annotator in range(marks.shape[1]):
        truth, said, share = [], [], []
        for place, row in enumerate(marks):
            rest = np.delete(row, annotator)
            rest = rest[np.isfinite(rest)]
            if np.isnan(row[annotator]) or not rest.size:
                continue
            values, counts = np.unique(rest, return_counts=True)
            tied = values[counts == counts.max()]
            truth += [*tied]
            said += [row[annotator] if answers is None else answers[place]] * len(tied)
            share += [1 / len(tied)] * len(tied)
        if truth:
            named = sorted(set(truth))
            scores.append(f1_score(truth, said, labels=named, average="macro", sample_weight=share, zero_division=0))
            weights.append(sum(share))
    return float(np.average(scores, weights=weights))


ROWS = st.lists(st.lists(st.sampled_from([0.0, 1.0, 2.0, np.nan]), min_size=5, max_size=5), min_size=1, max_size=12)


@given(ROWS)
def test_of_classes_it_is_scikit_learn_s_macro_f1_with_tied_rows_shared_out(rows):
    marks = np.array(rows)
    annotated = Annotated.of(marks, 3)
    if len(annotated.places):
        assert ceiling(annotated) == pytest.approx(by_scikit_learn(marks))


def test_of_numbers_it_is_the_mean_of_correlations_with_the_mean_of_the_others():
    rng = np.random.default_rng(1)
    marks = rng.normal(size=(40, 1)) + rng.normal(size=(40, 4))
    marks[:10, 3] = np.nan
    each = [pearsonr(marks[:, a], np.nanmean(np.delete(marks, a, axis=1), axis=1)).statistic for a in range(3)]
    last = pearsonr(marks[10:, 3], marks[10:, :3].mean(axis=1)).statistic
    assert ceiling(Annotated.of(marks, 0)) == pytest.approx(np.average([*each, last], weights=[40, 40, 40, 30]))


def predictions_of(answers: np.ndarray, groups: np.ndarray) -> Predictions:
    return Predictions(np.arange(len(answers)), groups, answers, answers)


def noisy(rng: np.random.Generator, groups: int, rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Marks of three annotators, a system's answers with the same errors as theirs, and group names."""
    truth = rng.integers(2, size=(groups * rows, 1))
    said = np.where(rng.random((groups * rows, 4)) < 0.2, 1 - truth, truth)
    return said[:, :3].astype(float), said[:, 3], np.repeat(np.arange(groups), rows)


def test_a_system_is_held_against_the_same_others_as_the_person():
    marks, answers, groups = noisy(np.random.default_rng(4), 60, 2)
    rows = people_rows(
        Annotated.of(marks, 2), "macro_f1", groups, [("twin", [predictions_of(answers, groups)])], draws=400, seed=1
    )
    person, twin = rows
    assert person["system"] == PERSON
    assert person["score"] == pytest.approx(by_scikit_learn(marks))
    assert twin["score"] == pytest.approx(by_scikit_learn(marks, answers))
    assert twin["difference"] == pytest.approx(100 * (twin["score"] - person["score"]))
    assert twin["difference_low"] < twin["difference"] < twin["difference_high"]
    assert (person["n_rows"], person["n_groups"], person["n_annotators"], person["n_seeds"]) == (120, 60, 3, 0)


@pytest.mark.simulation
def test_intervals_hold_the_true_ceiling_and_an_equal_system_is_rarely_told_apart():
    """95 of 100 intervals should hold .68 = .8^2 + .2^2, and 5 of 100 p of a system as good as people be below .05."""
    rng, times = np.random.default_rng(5), 400
    holds, rejects = 0, 0
    for _ in range(times):
        marks, answers, groups = noisy(rng, 80, 2)
        person, twin = people_rows(
            Annotated.of(marks, 2), "macro_f1", groups, [("twin", [predictions_of(answers, groups)])], draws=400, seed=1
        )
        holds += person["low"] <= 0.68 <= person["high"]
        rejects += twin["p"] <= 0.05
    assert 0.92 <= holds / times <= 0.985
    assert rejects / times <= 0.08


def test_rows_of_one_mark_and_annotators_alone_count_nothing():
    nan = np.nan
    marks = np.array([[1, nan, nan], [nan, nan, nan], [0, 0, nan], [1, 1, nan]])
    annotated = Annotated.of(marks, 2)
    assert annotated.places.tolist() == [2, 3]
    assert ceiling(annotated) == 1.0
    alone = people_rows(Annotated.of(marks[:2], 2), "macro_f1", np.arange(2), [], draws=50, seed=1)
    assert alone == []


@pytest.fixture(scope="module")
def annotated_board(tmp_path_factory):
    tasks = [FakeTask("hope"), FakeTask("fear", kind="continuous"), FakeTask("plain")]
    store, manifest = fake_study(
        tmp_path_factory.mktemp("annotated") / "runs",
        tasks,
        seeds=(1, 2),
        systems=("words",),
        helpful=[("words", task.id) for task in tasks],
    )
    rng = np.random.default_rng(6)
    for task in tasks[:2]:
        test = task.test()
        own = test.label.to_numpy(dtype=float)
        noise = (
            rng.normal(size=(len(own), 3))
            if task.kind == "continuous"
            else rng.integers(-1, 2, (len(own), 3)) * (rng.random((len(own), 3)) < 0.3)
        )
        marks = own[:, None] + noise
        marks = marks if task.kind == "continuous" else np.clip(marks, 0, 2)
        told = [[float(mark) for mark in row] for row in marks]
        told[0][1] = None
        facts = manifest["tasks"][task.id]
        facts |= {"splits_hash": "0" * 64, "marks_hash": "m" * 64}
        inputs = annotators_inputs(task.id, facts["splits_hash"], facts["marks_hash"])
        order = rng.permutation(len(own))  # a measure is read by ids, whatever its order
        store.put_measure(
            ANNOTATORS, inputs, {"ids": [test.id[i] for i in order], "marks": [told[i] for i in order]}, 0.0
        )
    return leaderboard(store, manifest, draws=200), store, manifest


def test_the_leaderboard_has_people_of_tasks_with_several_annotators_alone(annotated_board):
    board, *_ = annotated_board
    assert set(board.people.target) == {"hope", "fear"}
    for target, (_, rows) in zip(("hope", "fear"), board.people.groupby("target", sort=False), strict=True):
        assert rows.target.eq(target).all()
        names = set(board.board.system[board.board.target == target])
        assert set(rows.system) == names | {PERSON}
        assert rows.score.is_monotonic_decreasing
        assert rows.n_rows.eq(120).all() and rows.n_annotators.eq(3).all()
        assert rows.score.between(rows.low, rows.high).all()


def test_a_nearly_right_system_is_ahead_of_a_noisy_annotator_and_marks_are_read_by_id(annotated_board):
    board, store, _ = annotated_board
    own = board.people.set_index(["target", "system"])
    for target in ("hope", "fear"):
        assert own.loc[(target, "words"), "difference"] > 0
        assert own.loc[(target, "words"), "n_seeds"] == 2
    marks = np.array(
        store.measure(ANNOTATORS, annotators_inputs("hope", "0" * 64, "m" * 64)).result["marks"], dtype=float
    )
    assert own.loc[("hope", PERSON), "score"] == pytest.approx(by_scikit_learn(marks))


def test_without_the_measure_there_are_no_people(annotated_board):
    _, store, manifest = annotated_board
    facts = {name: {**own, "splits_hash": "0" * 64, "marks_hash": "other"} for name, own in manifest["tasks"].items()}
    other = {**manifest, "tasks": facts}
    assert leaderboard(store, other, draws=50).people.empty
