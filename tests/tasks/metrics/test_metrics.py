"""Every metric against scikit-learn or scipy, and what the floor and the decisions mean."""

import numpy as np
import pytest
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import cohen_kappa_score, f1_score

from tasks import metrics


@pytest.mark.parametrize("seed", range(5))
def test_metrics_are_those_of_the_libraries_and_f1_averages_the_classes_that_occur(seed):
    rng = np.random.default_rng(seed)
    true, predicted = rng.integers(0, 5, 60), rng.integers(0, 4, 60)
    kappa = cohen_kappa_score(true, predicted, weights="quadratic", labels=range(5))
    assert metrics.quadratic_kappa(true, predicted) == pytest.approx(kappa, abs=1e-12)
    assert metrics.spearman_r(true, predicted) == pytest.approx(spearmanr(true, predicted).statistic, abs=1e-12)
    true, predicted = rng.integers(0, 2, (40, 4)), rng.integers(0, 2, (40, 4))
    true[:, 2] = 0
    each = f1_score(true, predicted, average=None, zero_division=0)
    assert metrics.multilabel_f1(true, predicted) == pytest.approx(np.delete(each, 2).mean(), abs=1e-12)
    true, predicted = rng.choice([0, 1, 3], 60), rng.integers(0, 5, 60)  # 2 and 4 are only ever predicted
    expected = pytest.approx(f1_score(true, predicted, average="macro", labels=[0, 1, 3]), abs=1e-12)
    assert metrics.macro_f1(true, predicted) == metrics.score("macro_f1", true, np.eye(5)[predicted]) == expected
    numbers = rng.normal(size=40)
    guesses = 1e3 + 0.3 * numbers + rng.normal(size=40)
    expected = pytest.approx(pearsonr(numbers, guesses).statistic, abs=1e-12)
    logits = np.stack([guesses, numbers], axis=1)
    assert metrics.pearson_r(numbers, guesses) == metrics.score("pearson_r", numbers, logits) == expected


def test_metrics_are_not_defined_without_rows_classes_or_spread():
    assert np.isnan([metrics.macro_f1([], []), metrics.pearson_r([1.0], [2.0]), metrics.quadratic_kappa([], [])]).all()
    assert np.isnan([metrics.pearson_r([1.0, 1.0], [1.0, 2.0]), metrics.pearson_r([1.0, 2.0], [1.0, 1.0])]).all()
    assert np.isnan([metrics.quadratic_kappa([1, 1], [1, 1]), metrics.spearman_r([1, 2], [1, 1])]).all()
    for count in (3, 0):
        assert np.isnan(metrics.multilabel_f1(np.zeros((count, 2), int), np.ones((count, 2), int)))
    assert metrics.pearson_r([0.1, 0.2, 0.3], [3, 2, 1]) == -1.0
    assert metrics.quadratic_kappa([0, 1, 2], [0, 1, 2]) == 1.0


def test_a_multilabel_decision_is_a_logit_above_0():
    assert metrics.decisions("multilabel_f1", [[-0.1, 0.1], [0.0, 3.0]]).tolist() == [[0, 1], [0, 1]]


def test_the_floor_is_the_commonest_training_answer_on_the_test_labels_or_an_answer_per_row():
    assert metrics.commonest("macro_f1", np.array([2, 2, 0])) == 2
    assert metrics.floor("macro_f1", [2, 2, 1, 1], 2) == pytest.approx(1 / 3)
    assert metrics.floor("macro_f1", [0, 1], np.array([0, 1])) == 1.0
    train = np.array([[1, 0], [1, 0], [0, 1]])
    assert metrics.commonest("multilabel_f1", train).tolist() == [1, 0]
    train = np.array([[1, 1, 0], [1, 0, 0], [0, 1, 0], [0, 1, 1]])  # half of the rows hold the first, which is no part
    assert metrics.commonest("multilabel_f1", train).tolist() == [0, 1, 0]
    assert metrics.floor("multilabel_f1", [[1, 0], [0, 1]], [1, 0]) == pytest.approx((2 / 3 + 0) / 2)
    assert metrics.commonest("pearson_r", np.array([0.5])) is None
    assert metrics.floor("pearson_r", [0.5, 1.0], None) == 0.0


def test_only_an_ordinal_label_has_further_metrics():
    logits = np.eye(3)[[0, 1, 2, 2]]
    assert set(metrics.secondary("ordinal", "macro_f1", [0, 1, 2, 1], logits)) == {"quadratic_kappa", "spearman_r"}
    assert metrics.secondary("multiclass", "macro_f1", [0, 1, 2, 1], logits) == {}
