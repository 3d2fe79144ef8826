"""Gains by second metrics: scores against scikit-learn and scipy, draws against resampling by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr
from sklearn.metrics import accuracy_score, f1_score

from analysis.gains.baselines import other_gains, other_scores, ratio_draws
from analysis.gains.cells import Predictions
from analysis.gains.gains import SEED, gains
from analysis.gains.significance import Groups, group_weights
from tests.support.studies.fake_study import FakeTask, fake_study

TASKS = (FakeTask("hope"), FakeTask("distress", "continuous"), FakeTask("felt", "multilabel"))


def stored(study, intermediate, target, seed=1):
    store, manifest = study
    wanted = (intermediate, target, seed)
    key = next(c["key"] for c in manifest["cells"] if (c["intermediate"], c["target"], c["seed"]) == wanted)
    frame = pd.read_parquet(store.open(key, "test.parquet"))
    return (frame.filter(like=name).to_numpy() for name in ("label", "logit_"))


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return fake_study(tmp_path_factory.mktemp("runs"), TASKS, helpful=[("distress", "hope"), ("hope", "felt")])


def test_scores_are_those_of_the_libraries(study):
    found = other_gains(*study, draws=200, seed=SEED).set_index(["intermediate", "target"])
    for below, column in (("distress", "score"), (None, "baseline")):
        labels, logits = stored(study, below, "hope")
        by_hand = accuracy_score(labels[:, 0], logits.argmax(axis=1))
        assert found.loc[("distress", "hope"), column] == pytest.approx(by_hand)
    labels, logits = stored(study, "hope", "felt")
    assert found.score["hope", "felt"] == pytest.approx(f1_score(labels, logits > 0, average="micro"))
    labels, logits = stored(study, "hope", "distress")
    assert found.score["hope", "distress"] == pytest.approx(spearmanr(labels[:, 0], logits[:, 0]).statistic)
    assert found.points["distress", "hope"] == pytest.approx(
        100 * (found.score["distress", "hope"] - found.baseline["distress", "hope"])
    )
    assert found.metric.to_dict()["hope", "felt"] == "micro-F1"


def test_rows_stand_in_the_order_of_gains_and_an_unfinished_pair_has_no_score(tmp_path):
    study = fake_study(tmp_path, TASKS[:2], absent=[("hope", "distress")])
    first, second = gains(*study, draws=100), other_gains(*study, draws=100, seed=SEED)
    pair = ["intermediate", "target", "setting"]
    pd.testing.assert_frame_equal(first[pair], second[pair])
    assert second[second.target == "distress"][["score", "p"]].isna().all(axis=None)


def test_draws_of_a_ratio_are_those_of_whole_groups_taken_again_and_again():
    rng = np.random.default_rng(5)
    names = np.array([f"g{one}" for one in rng.integers(6, size=40)])
    tops, bottoms = rng.integers(0, 3, size=(2, 40)).astype(float), rng.integers(1, 4, size=(2, 40)).astype(float)
    groups = Groups.of(names)
    found = ratio_draws(tops, bottoms, groups, 300, np.random.default_rng(1))
    weights = np.concatenate(list(group_weights(groups, 300, np.random.default_rng(1))))
    for draw, times in zip(found, weights, strict=True):
        rows = np.concatenate([np.repeat(np.flatnonzero(groups.index == one), n) for one, n in enumerate(times)])
        by_hand = tops[:, rows].sum(axis=1) / bottoms[:, rows].sum(axis=1)
        assert draw == pytest.approx(by_hand)


def test_a_draw_without_anything_to_count_has_no_value():
    groups = Groups.of(["a", "b"])
    found = ratio_draws(np.array([[0.0, 1.0]]), np.array([[0.0, 2.0]]), groups, 50, np.random.default_rng(0))
    assert set(found[np.isfinite(found)]) == {0.5}
    assert np.isnan(found).any()


def test_ranks_that_do_not_vary_have_no_correlation():
    shown = Predictions(np.arange(4), np.array(list("aabb")), np.array([0.1, 0.4, 0.2, 0.9]), np.zeros(4))
    decided = np.array([[1.0, 1.0, 1.0, 1.0], [0.0, 3.0, 1.0, 2.0]])
    scores, draws = other_scores("pearson_r", shown, decided, Groups.of(shown.groups), 20, np.random.default_rng(0))
    assert np.isnan(scores[0]) and np.isnan(draws[:, 0]).all()
    assert scores[1] == pytest.approx(spearmanr(shown.labels, decided[1]).statistic)
