"""Repeated splits: the corrected variance against its formula by hand, its level by simulation, and the leaderboard."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from analysis.results.leaderboard import leaderboard
from analysis.results.repeats import nadeau_bengio
from tests.support.studies.small_study import ONE, small_study

REPEATS, RATIO = 10, 0.2 / 0.75


def test_the_interval_and_p_are_those_of_a_t_with_the_corrected_error():
    values = np.random.default_rng(1).normal(0.3, 1.0, REPEATS)
    error = np.sqrt((1 / REPEATS + RATIO) * np.var(values, ddof=1))
    expected = stats.t(REPEATS - 1, values.mean(), error).interval(0.95)
    own = nadeau_bengio(values, RATIO)
    np.testing.assert_allclose((own.low, own.high), expected)
    assert own.p == pytest.approx(2 * stats.t.sf(abs(values.mean()) / error, REPEATS - 1))
    plain = stats.ttest_1samp(values, 0).pvalue
    assert nadeau_bengio(values, 0.0).p == pytest.approx(plain)
    assert own.p > plain


def test_what_does_not_vary_or_is_unknown_says_so():
    assert nadeau_bengio([0.0] * 4, RATIO).p == 1.0
    assert nadeau_bengio([0.5] * 4, RATIO).p == 0.0
    assert np.isnan(nadeau_bengio([0.5], RATIO).p)
    assert np.isnan(nadeau_bengio([0.5, np.nan, 0.1], RATIO).p)


def null_p(rng, corrected=True):
    """The p of two systems that are equally good, trained and tested on ten random splits of 300 made-up rows.

    Each sees a noisy feature of its own and learns the threshold between the means of the classes.
    """
    n, n_train, n_test = 300, 225, 60
    labels = rng.integers(0, 2, n)
    features = labels[:, None] + rng.normal(0, 1.2, (n, 2))
    differences = []
    for _ in range(REPEATS):
        order = rng.permutation(n)
        train, test = order[:n_train], order[n - n_test :]
        means = [features[train][labels[train] == value].mean(axis=0) for value in (0, 1)]
        right = (features[test] > (means[0] + means[1]) / 2) == (labels[test] == 1)[:, None]
        differences.append(right[:, 0].mean() - right[:, 1].mean())
    return nadeau_bengio(differences, n_test / n_train if corrected else 0.0).p


@pytest.mark.simulation
def test_equal_systems_are_told_apart_as_often_as_the_level_says():
    rng = np.random.default_rng(20_261_123)
    rejected = np.mean([null_p(rng) <= 0.05 for _ in range(4000)])
    assert 0.035 <= rejected <= 0.065


def test_without_the_correction_equal_systems_differ_far_too_often():
    rng = np.random.default_rng(3)
    assert np.mean([null_p(rng, corrected=False) <= 0.05 for _ in range(150)]) > 0.15


def test_a_leaderboard_over_repeats_has_means_over_them(tmp_path):
    study = small_study(
        tmp_path / "runs",
        *("transfers=false", 'systems=["majority", "tfidf"]', f'tasks=["{ONE}"]'),
        *("protocol.shares=[0.6, 0.2, 0.2]", "protocol.repeats=3", "max_test=60"),
    )
    assert study.run().is_complete
    manifest = study.store.manifest("tiny")
    assert "folds" not in manifest["tasks"][ONE]
    shown = leaderboard(study.store, manifest, draws=50)
    key = next(cell["key"] for cell in manifest["cells"] if cell.get("system") == "tfidf")
    record = study.store.get(key)
    assert len(record.results["folds"]) == 3
    row = shown.board.set_index("system").loc["tfidf"]
    assert row.conditional == "3 repeats"
    assert row.low <= row.score <= row.high
    pair = shown.pairs[(shown.pairs.a == "majority") & (shown.pairs.b == "tfidf")].iloc[0]
    scores = shown.board.set_index("system").score
    assert pair.points == pytest.approx(100 * (scores["majority"] - scores["tfidf"]))
    assert (shown.pairs.p_max >= shown.pairs.p).all()
