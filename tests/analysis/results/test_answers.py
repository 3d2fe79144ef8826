"""How good answers are beside their score: against annotators, by their probabilities, and by what they rest on."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, softmax
from scipy.stats import pearsonr
from sklearn.calibration import calibration_curve
from sklearn.metrics import brier_score_loss, f1_score

from adapters_store import Store, key_of
from adapters_store.measures import ANNOTATORS, annotators_inputs
from analysis.gains.cells import Predictions, planned_cells
from analysis.gains.significance import Groups
from analysis.results.answers import (
    BINS,
    CONSTANTS,
    FILE,
    PERSON,
    Annotated,
    Answered,
    _error_draws,
    answered_of,
    calibration_error,
    calibration_row,
    equal_mass,
    has_probabilities,
    null_errors,
    of_one,
    of_several,
    people_rows,
    rationale_rows,
    reliability_rows,
)
from analysis.results.leaderboard import leaderboard
from analysis.results.study_results import StudyResults
from analysis.sections.blocks import markdown
from analysis.sections.study import leaderboard as section
from tasks.rationales import FORMS
from tests.support.studies.fake_study import FakeTask, fake_study


def by_scikit_learn(marks, answers=None):
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


def ceiling(annotated):
    """The score of one annotator against the others."""
    groups = np.arange(annotated.places.max() + 1)
    return people_rows(annotated, "", groups, [], draws=2, seed=0)[0]["score"]


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


def predictions_of(answers, groups):
    return Predictions(np.arange(len(answers)), groups, answers, answers)


def noisy(rng, groups, rows):
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
        by_id = {"ids": [test.id[i] for i in order], "marks": [told[i] for i in order]}
        store.put_measure(ANNOTATORS, inputs, by_id, 0.0)
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
    kept = store.measure(ANNOTATORS, annotators_inputs("hope", "0" * 64, "m" * 64))
    marks = np.array(kept.result["marks"], dtype=float)
    assert own.loc[("hope", PERSON), "score"] == pytest.approx(by_scikit_learn(marks))


def test_without_the_measure_there_are_no_people(annotated_board):
    _, store, manifest = annotated_board
    facts = {name: {**own, "splits_hash": "0" * 64, "marks_hash": "other"} for name, own in manifest["tasks"].items()}
    other = {**manifest, "tasks": facts}
    assert leaderboard(store, other, draws=50).people.empty


# Calibration: against scikit-learn and a loop, and a calibrated system whose error is its known null value.


def made_up(rng, count, *, confidence=1.0, groups=0):
    """Answers of a system of three classes whose logits are ``confidence`` times what would be calibrated."""
    logits = rng.normal(size=(count, 3)) * 1.5
    labels = (rng.random((count, 1)) > softmax(logits, axis=1).cumsum(axis=1)).sum(axis=1)
    return of_one(confidence * logits, labels, np.arange(count) % (groups or count))


@given(seed=st.integers(0, 10_000), count=st.integers(20, 300), rounded=st.booleans())
def test_bins_and_error_are_those_of_scikit_learn_s_curve(seed, count, rounded):
    rng = np.random.default_rng(seed)
    own = made_up(rng, count, confidence=2.0)
    probability = own.probability.round(1) if rounded else own.probability  # rounded: many are equal
    own = Answered(probability, own.is_right, own.brier, own.groups)
    right, said = calibration_curve(own.is_right, probability, n_bins=BINS, strategy="quantile")
    binned = equal_mass(probability)
    sizes = np.bincount(binned.bins)
    assert len(sizes) == len(right)
    assert calibration_error(own) == pytest.approx(float((sizes / count * np.abs(right - said)).sum()))
    rows = reliability_rows([own], draws=50, seed=1)
    np.testing.assert_allclose([row["right"] for row in rows], right)
    np.testing.assert_allclose([row["probability"] for row in rows], said)
    assert [row["n"] for row in rows] == sizes.tolist()


def test_equal_probabilities_share_a_bin_whatever_their_number():
    binned = equal_mass(np.array([0.5] * 7 + [0.9] * 3))
    assert binned.n_bins == 2
    assert binned.bins.tolist() == [0] * 7 + [1] * 3


def test_equal_votes_for_different_classes_are_in_one_bin():
    logits = np.log(np.array([[2.6, 0.5, 0.5], [0.5, 2.6, 0.5], [0.5, 0.5, 2.6]]) / 3.6).astype(np.float32)
    own = of_one(logits[np.arange(30) % 3].astype(float), np.arange(30) % 3, np.arange(30))
    assert equal_mass(own.probability).n_bins == 1


def test_the_brier_score_is_scikit_learn_s_summed_over_classes():
    rng = np.random.default_rng(1)
    logits, labels = rng.normal(size=(50, 3)), rng.integers(3, size=50)
    shares = softmax(logits, axis=1)
    own = of_one(logits, labels, np.arange(50))
    expected = brier_score_loss(labels, shares, labels=[0, 1, 2], scale_by_half=False)
    assert own.brier.mean() == pytest.approx(expected)


def test_of_several_labels_each_is_an_answer_of_two_classes():
    rng = np.random.default_rng(2)
    logits, labels = rng.normal(size=(30, 4)), rng.integers(2, size=(30, 4))
    own = of_several(logits, labels, np.arange(30))
    held = expit(logits)
    np.testing.assert_allclose(own.probability, np.maximum(held, 1 - held).ravel(), atol=1e-7)
    np.testing.assert_array_equal(own.is_right, ((logits > 0) == labels).ravel())
    assert own.brier.mean() == pytest.approx(2 * np.mean((held - labels) ** 2))
    assert own.groups.tolist() == np.repeat(np.arange(30), 4).tolist()


def test_the_null_error_is_that_of_labels_drawn_one_by_one():
    own = made_up(np.random.default_rng(3), 200)
    rng = np.random.default_rng(4)
    drawn = [
        calibration_error(Answered(own.probability, rng.random(200) < own.probability, own.brier, own.groups))
        for _ in range(2_000)
    ]
    null = null_errors([own], draws=2_000)
    assert null.mean() == pytest.approx(np.mean(drawn), abs=4 * np.std(drawn) / np.sqrt(1_000))
    assert np.quantile(null, 0.95) == pytest.approx(np.quantile(drawn, 0.95), rel=0.08)


def test_of_training_runs_that_say_the_same_the_null_is_that_of_a_single_run():
    own = made_up(np.random.default_rng(5), 100)
    np.testing.assert_allclose(null_errors([own, own], draws=50), null_errors([own], draws=50))


def test_who_is_overconfident_has_a_small_p_and_who_is_calibrated_a_large_one():
    calibrated, sure = (made_up(np.random.default_rng(15), 400, confidence=of) for of in (1.0, 3.0))
    fine, off = (calibration_row([own], draws=200, seed=1) for own in (calibrated, sure))
    assert off["p"] < 0.01 < 0.1 < fine["p"]
    assert off["error"] > off["if_calibrated_high"] and fine["error"] < fine["if_calibrated_high"]
    assert off["overconfidence"] > 0.1 > abs(fine["overconfidence"])


def test_the_interval_of_an_error_lies_around_it_and_is_no_wider_for_what_resampling_adds():
    """Resampled errors of a calibrated system are larger than its own, by more than they vary."""
    own = made_up(np.random.default_rng(16), 400)
    drawn = _error_draws(own, Groups.of(own.groups), 2_000, 1)
    assert drawn.mean() - calibration_error(own) > drawn.std()
    row = calibration_row([own], draws=2_000, seed=1)
    assert row["high"] - row["error"] == pytest.approx(1.96 * drawn.std(), rel=0.1)
    assert row["brier_high"] - row["brier"] == pytest.approx(1.96 * own.brier.std() / np.sqrt(400), rel=0.1)


@pytest.mark.simulation
def test_a_calibrated_system_has_its_null_value_and_p_is_uniform():
    rng, times = np.random.default_rng(6), 300
    rows = [calibration_row([made_up(rng, 300)], draws=200, seed=1) for _ in range(times)]
    errors = np.array([row["error"] for row in rows])
    expected = np.array([row["if_calibrated"] for row in rows])
    assert errors.mean() == pytest.approx(expected.mean(), abs=3 * errors.std() / np.sqrt(times))
    assert 0.02 <= np.mean([row["p"] <= 0.05 for row in rows]) <= 0.085
    assert np.mean([row["p"] <= 0.5 for row in rows]) == pytest.approx(0.5, abs=0.09)


@pytest.mark.simulation
@pytest.mark.parametrize("confidence", [1.0, 2.5])
def test_intervals_hold_the_expected_error_of_so_many_rows(confidence):
    rng, times = np.random.default_rng(7), 300
    expected = np.mean([calibration_error(made_up(rng, 300, confidence=confidence)) for _ in range(2_000)])
    rows = [calibration_row([made_up(rng, 300, confidence=confidence)], draws=300, seed=1) for _ in range(times)]
    holds = np.mean([row["low"] <= expected <= row["high"] for row in rows])
    assert 0.91 <= holds <= 0.995
    if confidence > 1:
        assert np.mean([row["p"] <= 0.05 for row in rows]) == 1.0
        assert min(row["overconfidence"] for row in rows) > 0


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    tasks = [FakeTask("hope"), FakeTask("fear", kind="continuous"), FakeTask("needs", kind="multilabel")]
    root = tmp_path_factory.mktemp("calibrated") / "runs"
    return fake_study(root, tasks, seeds=(1, 2), systems=("words", "floor"), constant=[("floor", "hope")])


def test_the_leaderboard_has_a_row_of_everybody_with_probabilities(study):
    board = leaderboard(*study, draws=100)
    assert set(board.calibration.target) == {"hope", "needs"}  # numbers have none
    for (target, _), rows in board.calibration.groupby(["target", "setting"]):
        assert set(rows.system) == set(board.board.system[board.board.target == target])
        assert rows.n_answers.eq(120 * (3 if target == "needs" else 1)).all()
        assert rows.error.between(rows.low, rows.high).all()
        assert rows.error.is_monotonic_increasing
    bins = board.reliability[board.reliability.right.between(0.1, 0.9)]
    assert len(bins) > 20 and (bins.low < bins.right).all() and (bins.right < bins.high).all()
    own = board.reliability[(board.reliability.target == "hope") & (board.reliability.system == "floor")]
    assert len(own) == 1
    assert own.n.item() == 240


def test_a_model_that_was_asked_once_has_no_probabilities(study):
    store, manifest = study
    planned = planned_cells(store, manifest)
    record = store.get(planned.key[(planned.target == "hope") & (planned.system == "words")].iloc[0])
    assert has_probabilities(record)
    record.results["answers"] = {"calls": 120}
    assert not has_probabilities(record)
    record.results["answers"]["agreement"] = 0.9
    assert has_probabilities(record)
    record.results.pop("answers")
    assert len(answered_of(store, record).probability) == 120


# The table of rationales: scores of every form from what records hold, the constants beside them, and its printing.

# gold, predicted, then token F1 and IOU F1 in the forms epitome, micromodels, corrected; None: the text has no part
TEXTS = (
    ("1100", "1100", (1, 1), (1, 1), (1, 1)),
    ("0001", "0001", (1, 1), (1, 0), (1, 1)),  # a last token alone is lost by micromodels
    ("1111....".replace(".", "0"), "10110000", (6 / 7, 2 / 3), (6 / 7, 2 / 3), (6 / 7, 2 / 3)),
    ("0000", "0000", (0, 0), (1, 1), None),
    ("0000", "1111", (1, 1), (0, 0), None),
)


def put(store, name, frame, seed=1):
    with store.staging() as folder:
        frame.to_parquet(folder / FILE, index=False)
        return store.put(key_of(spec := {"system": name, "seed": seed}), spec, {}, {}, folder)


def frame_of(texts):
    return pd.DataFrame({"id": list(map(str, range(len(texts)))), "gold": [text[0] for text in texts],
                         "predicted": [text[1] for text in texts]})  # fmt: skip


def by_name(rows):
    return {(row["system"], row["form"]): (row["token_f1"], row["iou_f1"]) for row in rows}


def test_every_form_is_the_mean_of_what_a_hand_computes(tmp_path):
    rows = rationale_rows(store := Store(tmp_path), [("marker", [put(store, "marker", frame_of(TEXTS))])])
    for place, form in enumerate(("epitome", "micromodels", "corrected"), start=2):
        expected = np.mean([text[place] for text in TEXTS if text[place] is not None], axis=0)
        assert by_name(rows)["marker", form] == pytest.approx(tuple(expected)), form
    assert {(row["n_test"], row["n_marked"]) for row in rows} == {(5, 3)}


def test_the_constants_stand_below_in_each_form(tmp_path):
    store = Store(tmp_path)
    rows = rationale_rows(store, [("marker", [put(store, "marker", frame_of(TEXTS))])])
    assert [row["system"] for row in rows] == ["marker"] * 3 + [name for name in CONSTANTS for _ in range(3)]
    scores = by_name(rows)
    assert scores["none marked", "epitome"] == (0, 0)
    assert scores["none marked", "micromodels"] == (2 / 5, 2 / 5)  # the two texts without a rationale
    assert scores["none marked", "corrected"] == (0, 0)
    every = np.mean([4 / 6, 2 / 5, 8 / 12]), np.mean([1, 0, 1])  # tokens: 2 of 4, 1 of 4, 4 of 8
    assert scores["every word marked", "corrected"] == pytest.approx(every)


def test_scores_are_means_over_repeats_and_then_over_seeds(tmp_path):
    store, right, wrong = Store(tmp_path), ("1000", "1000"), ("1000", "0010")
    first = pd.concat([frame_of([right, right]).assign(fold=1), frame_of([wrong]).assign(fold=2)])
    second = pd.concat([frame_of([right, right]).assign(fold=1), frame_of([right]).assign(fold=2)])
    records = [put(store, "marker", frame, seed) for seed, frame in enumerate((first, second))]
    rows = rationale_rows(store, [("marker", records)])
    assert by_name(rows)["marker", "corrected"] == (0.75, 0.75)  # a half and one; of all texts it would be 5 / 6
    assert [row["n_seeds"] for row in rows[::3]] == [2, 0, 0]
    assert rows[0]["n_test"] == 3


def test_there_is_no_table_where_nobody_marks(tmp_path):
    store, manifest = fake_study(tmp_path, [FakeTask("hope")], systems=("words",))
    board = leaderboard(store, manifest, draws=50)
    assert board.rationales.empty
    assert rationale_rows(store, [("nobody", [])]) == []


def test_a_study_s_rationales_are_printed_with_their_constants(tmp_path, command, monkeypatch):
    store, manifest = fake_study(tmp_path / "runs", [FakeTask("hope")], systems=("marker", "words"))
    rows = frame_of(TEXTS * 24)
    put_in, opened = Store.get, Store.open
    marker = next(cell["key"] for cell in manifest["cells"] if cell.get("system") == "marker")
    rows.to_parquet(tmp_path / FILE, index=False)

    def get(self, key):
        record = put_in(self, key)
        if key == marker:
            record.files[FILE] = ""  # in memory: a record on the disk says its hash
        return record

    def open_(self, key, name):
        return tmp_path / name if name == FILE else opened(self, key, name)

    monkeypatch.setattr(Store, "get", get)
    monkeypatch.setattr(Store, "open", open_)
    study = StudyResults.of(store, manifest, draws=50)
    board = study.leaderboard
    page = markdown([section(study)])
    assert "**Title of hope** full data, 72 of 120 test rows have a rationale:" in page
    for name in ("marker", *CONSTANTS):
        scores = [by_name(board.rationales.to_dict("records"))[name, form] for form in FORMS]
        assert f"| {name} | {' | '.join(f'{score:.3f}' for pair in scores for score in pair)} |" in page
    code, out, _ = command("systems", "leaderboard", "fake", "--store", store.root, "--out", tmp_path / "out")
    assert code == 0 and "every word marked" in out and "epitome token F1" in out
    code, out, _ = command("systems", "leaderboard", "fake", "--store", store.root, "--out", tmp_path / "out", "--json")
    shown = json.loads(out)["rationales"]
    assert [row["system"] for row in shown[::3]] == ["marker", *CONSTANTS]
    written = pd.read_csv(tmp_path / "out" / "tables" / "leaderboard_rationales.csv")
    assert written.token_f1.tolist() == pytest.approx([row["token_f1"] for row in shown])
