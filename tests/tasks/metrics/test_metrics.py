"""Every metric against scikit-learn or scipy, and what the floor and the decisions mean."""

import numpy as np
import pytest
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import cohen_kappa_score, f1_score

from tasks import metrics


@pytest.mark.parametrize("seed", range(5))
def test_kappa_and_spearman_are_those_of_the_libraries(seed):
    rng = np.random.default_rng(seed)
    true, predicted = rng.integers(0, 5, 60), rng.integers(0, 4, 60)
    kappa = cohen_kappa_score(true, predicted, weights="quadratic", labels=range(5))
    assert metrics.quadratic_kappa(true, predicted) == pytest.approx(kappa, abs=1e-12)
    assert metrics.spearman_r(true, predicted) == pytest.approx(spearmanr(true, predicted).statistic, abs=1e-12)


def test_kappa_and_spearman_are_not_defined_where_nothing_varies():
    assert np.isnan(metrics.quadratic_kappa([1, 1], [1, 1]))
    assert np.isnan(metrics.spearman_r([1, 2], [1, 1]))
    assert metrics.quadratic_kappa([0, 1, 2], [0, 1, 2]) == 1.0


@pytest.mark.parametrize("seed", range(5))
def test_multilabel_f1_averages_the_classes_that_occur(seed):
    rng = np.random.default_rng(seed)
    true, predicted = rng.integers(0, 2, (40, 4)), rng.integers(0, 2, (40, 4))
    true[:, 2] = 0
    each = f1_score(true, predicted, average=None, zero_division=0)
    assert metrics.multilabel_f1(true, predicted) == pytest.approx(np.delete(each, 2).mean(), abs=1e-12)


def test_multilabel_f1_is_not_defined_without_a_class():
    assert np.isnan(metrics.multilabel_f1(np.zeros((3, 2), int), np.ones((3, 2), int)))
    assert np.isnan(metrics.multilabel_f1(np.zeros((0, 2), int), np.zeros((0, 2), int)))


def test_a_multilabel_decision_is_a_logit_above_0():
    assert metrics.decisions("multilabel_f1", [[-0.1, 0.1], [0.0, 3.0]]).tolist() == [[0, 1], [0, 1]]


def test_the_floor_is_the_commonest_training_answer_on_the_test_labels():
    assert metrics.commonest("macro_f1", np.array([2, 2, 0])) == 2
    assert metrics.floor("macro_f1", [2, 2, 1, 1], 2) == pytest.approx(1 / 3)
    train = np.array([[1, 0], [1, 0], [0, 1]])
    assert metrics.commonest("multilabel_f1", train).tolist() == [1, 0]
    assert metrics.floor("multilabel_f1", [[1, 0], [0, 1]], [1, 0]) == pytest.approx((2 / 3 + 0) / 2)
    assert metrics.commonest("pearson_r", np.array([0.5])) is None
    assert metrics.floor("pearson_r", [0.5, 1.0], None) == 0.0


def test_the_floor_takes_an_answer_per_row():
    assert metrics.floor("macro_f1", [0, 1], np.array([0, 1])) == 1.0


def test_only_an_ordinal_label_has_further_metrics():
    logits = np.eye(3)[[0, 1, 2, 2]]
    found = metrics.secondary("ordinal", "macro_f1", [0, 1, 2, 1], logits)
    assert set(found) == {"quadratic_kappa", "spearman_r"}
    assert metrics.secondary("multiclass", "macro_f1", [0, 1, 2, 1], logits) == {}


@pytest.mark.parametrize("seed", range(5))
def test_macro_f1_averages_the_classes_that_occur_as_scikit_learn_does(seed):
    rng = np.random.default_rng(seed)
    true, predicted = rng.choice([0, 1, 3], 60), rng.integers(0, 5, 60)  # 2 and 4 are only ever predicted
    expected = f1_score(true, predicted, average="macro", labels=[0, 1, 3])
    assert metrics.macro_f1(true, predicted) == pytest.approx(expected, abs=1e-12)
    logits = np.eye(5)[predicted]
    assert metrics.score("macro_f1", true, logits) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_pearson_r_is_scipys(seed):
    rng = np.random.default_rng(seed)
    true = rng.normal(size=40)
    predicted = 1e3 + 0.3 * true + rng.normal(size=40)
    expected = pearsonr(true, predicted).statistic
    assert metrics.pearson_r(true, predicted) == pytest.approx(expected, abs=1e-12)
    assert metrics.score("pearson_r", true, np.stack([predicted, true], axis=1)) == pytest.approx(expected, abs=1e-12)


def test_metrics_are_not_defined_without_rows_or_without_spread():
    assert np.isnan([metrics.macro_f1([], []), metrics.pearson_r([1.0], [2.0]), metrics.quadratic_kappa([], [])]).all()
    assert np.isnan([metrics.pearson_r([1.0, 1.0], [1.0, 2.0]), metrics.pearson_r([1.0, 2.0], [1.0, 1.0])]).all()
    assert metrics.pearson_r([0.1, 0.2, 0.3], [3, 2, 1]) == -1.0


def test_a_class_that_half_of_the_rows_hold_is_no_part_of_the_commonest_answer():
    train = np.array([[1, 1, 0], [1, 0, 0], [0, 1, 0], [0, 1, 1]])
    assert metrics.commonest("multilabel_f1", train).tolist() == [0, 1, 0]
