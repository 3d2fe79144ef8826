"""Calibration: against scikit-learn and a loop, and a calibrated system whose error is its known null value."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, softmax
from sklearn.calibration import calibration_curve
from sklearn.metrics import brier_score_loss

from analysis.gains.cells import planned_cells
from analysis.gains.significance import Groups
from analysis.results.answers import (
    BINS,
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
    reliability_rows,
)
from analysis.results.leaderboard import leaderboard
from tests.support.studies.fake_study import FakeTask, fake_study


def made_up(rng: np.random.Generator, count: int, *, confidence: float = 1.0, groups: int = 0) -> Answered:
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
