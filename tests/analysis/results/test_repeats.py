"""Repeated splits: the corrected variance against its formula by hand, its level by simulation, and the leaderboard."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.metrics import accuracy_score, precision_recall_fscore_support

from analysis.results.comparisons import _drawn_sizes, nadeau_bengio, pairwise
from analysis.results.leaderboard import Contestant, leaderboard
from benchmarks.calibrations.repeats import repeats_calibration
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


def test_a_pair_alone_keeps_its_p_and_draws_have_its_distribution():
    scores = np.random.default_rng(2).normal([[0.8], [0.0]], 1, (2, REPEATS))
    rng = np.random.default_rng(3)
    (pair,), (adjusted,) = pairwise(scores, RATIO, draws=20_000, rng=rng)
    assert pair == nadeau_bengio(scores[0] - scores[1], RATIO)
    assert adjusted == pytest.approx(pair.p, abs=0.01)
    sizes = _drawn_sizes(scores[:1] - scores[1:], 20_000, rng)[:, 0]
    for share in (0.5, 0.9, 0.95, 0.99):
        assert (sizes <= stats.t.ppf((1 + share) / 2, REPEATS - 1)).mean() == pytest.approx(share, abs=0.01)


def slow_p_max(scores, ratio, draws, seed):
    """Step-down over all pairs with draws of means and covariances from scipy's distributions, a step at a time."""
    systems, repeats = scores.shape
    pairs = [(a, b) for a in range(systems) for b in range(a + 1, systems)]
    covariance = np.cov(scores)
    means = stats.multivariate_normal(np.zeros(systems), covariance, allow_singular=True, seed=seed).rvs(draws)
    spreads = stats.wishart(repeats - 1, covariance / (repeats - 1), seed=seed + 1).rvs(draws)
    sizes = {
        (a, b): np.abs(means[:, a] - means[:, b]) / np.sqrt(spreads[:, a, a] + spreads[:, b, b] - 2 * spreads[:, a, b])
        for a, b in pairs
    }
    observed = {}
    for a, b in pairs:
        d = scores[a] - scores[b]
        observed[a, b] = abs(d.mean()) / np.sqrt((1 / repeats + ratio) * d.var(ddof=1))
    adjusted, before = {}, 0.0
    for pair in sorted(pairs, key=observed.get, reverse=True):
        left = [other for other in pairs if observed[other] <= observed[pair]]
        largest = np.max([sizes[other] for other in left], axis=0)
        before = adjusted[pair] = max(before, float(np.mean(largest >= observed[pair])))
    return [adjusted[pair] for pair in pairs]


def test_the_maximum_over_pairs_is_that_of_draws_from_normal_and_wishart_distributions():
    rng = np.random.default_rng(4)
    scores = rng.normal([[0.0], [3.0], [0.4], [0.2]], [[0.3], [1.0], [1.0], [2.0]], (4, REPEATS))
    scores += rng.normal(size=(1, REPEATS))
    _, adjusted = pairwise(scores, RATIO, draws=40_000, rng=rng)
    np.testing.assert_allclose(adjusted, slow_p_max(scores, RATIO, 40_000, 5), atol=0.015)
    assert adjusted.max() > 0.2 > adjusted.min()


def test_no_p_is_lowered_by_few_draws_of_the_maximum():
    rng = np.random.default_rng(12)
    for _ in range(30):
        own, adjusted = pairwise(rng.normal(size=(3, REPEATS)), RATIO, draws=19, rng=rng)
        assert (adjusted >= [pair.p for pair in own]).all()


def test_what_never_varies_or_is_unknown_takes_no_part_in_the_others_maximum():
    rng = np.random.default_rng(6)
    scores = np.array([rng.normal(0, 1, REPEATS), rng.normal(1, 1, REPEATS)])
    more = np.array([*scores, scores[0] + 0.5, np.full(REPEATS, np.nan)])
    pairs, adjusted = pairwise(more, RATIO, draws=4000, rng=rng)
    assert np.isnan(adjusted[[2, 4, 5]]).all(), "every pair with the last"
    assert pairs[1].p == 0 and adjusted[1] < 1e-3, "a difference that never varies is no chance"
    assert (adjusted[[0, 3]] >= [pairs[0].p, pairs[3].p]).all()
    same, of_same = pairwise(np.array([scores[0], scores[0]]), RATIO, draws=100, rng=rng)
    assert same[0].p == of_same[0] == 1.0


def is_held(frame):
    """Whether every rate of the maximum, of Holm and of a pair alone is where the level wants it."""
    rates = frame.set_index("test").rate
    held = rates.loc[["maximum", "first pair"]].between(0.035, 0.065).all() and (rates["Holm"] <= 0.065).all()
    return held and (rates["first pair, plain variance"] > 0.15).all()


@pytest.mark.simulation
def test_equal_systems_are_told_apart_as_often_as_the_level_says():
    assert is_held(repeats_calibration(600, seed=77))


def test_the_table_of_the_documents_says_so_too():
    docs = Path(__file__).resolve().parents[3] / "docs"
    frame = pd.read_csv(docs / "repeats_calibration.csv")
    assert len(frame) == 24 and (frame.studies >= 2000).all()
    assert is_held(frame)
    text = (docs / "significance.md").read_text()
    for (systems, alike), own in frame.groupby(["systems", "alike"]):
        rates = " | ".join(f"{rate:.3f}".removeprefix("0") for rate in own.rate)
        assert f"| {systems} | {alike:g} | {rates} |" in text


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
    test = pd.read_parquet(study.store.open(key, "test.parquet"))
    logits = test.filter(like="logit_").to_numpy()
    by_hand = [
        (accuracy_score(own.label, logits[own.index].argmax(axis=1)),
         *(np.mean(part) for part in precision_recall_fscore_support(
             own.label, logits[own.index].argmax(axis=1), labels=own.label.unique(), zero_division=0)[:3]))
        for _, own in test.groupby("fold")
    ]  # fmt: skip
    shares = row[["accuracy", "macro_precision", "macro_recall", "macro_f1"]].astype(float)
    np.testing.assert_allclose(shares, np.mean(by_hand, axis=0))
    assert row.macro_f1 == pytest.approx(row.score), "averages are over repeats as scores are"
    sizes = {name: sum(part[name] for part in record.results["folds"]) for name in ("n_test", "n_train")}
    assert abs(np.log(sizes["n_test"] / sizes["n_train"])) > 1  # so that it matters which is divided by which
    own = nadeau_bengio([by_hand[place][3] for place in range(3)], sizes["n_test"] / sizes["n_train"])
    assert (row.low, row.high) == pytest.approx((max(own.low, 0.0), min(own.high, 1.0)))
    own = shown.classes[shown.classes.system == "tfidf"]
    assert own.n.sum() == len(test) == row.n_test
    pair = shown.pairs[(shown.pairs.a == "majority") & (shown.pairs.b == "tfidf")].iloc[0]
    scores = shown.board.set_index("system").score
    assert pair.points == pytest.approx(100 * (scores["majority"] - scores["tfidf"]))
    assert (shown.pairs.p_max >= shown.pairs.p).all()


def test_what_leaks_takes_no_part_in_the_maxima_over_repeats(tmp_path, monkeypatch):
    study = small_study(
        tmp_path / "runs",
        *("transfers=false", 'systems=["majority", "tfidf"]', f'tasks=["{ONE}"]'),
        *("protocol.shares=[0.6, 0.2, 0.2]", "protocol.repeats=4", "max_test=60"),
    )
    assert study.run().is_complete
    manifest = study.store.manifest("tiny")
    every = leaderboard(study.store, manifest, draws=400)
    monkeypatch.setattr(Contestant, "is_leaking", property(lambda own: own.name == "tfidf"))
    shown = leaderboard(study.store, manifest, draws=400)
    of_leak = (shown.pairs.a == "tfidf") | (shown.pairs.b == "tfidf")
    assert of_leak.sum() == 2 and shown.pairs.p_max[of_leak].isna().all()
    assert not shown.pairs.significant[of_leak].any()
    (alone,) = shown.pairs[~of_leak].itertuples()
    assert alone.p_max == pytest.approx(alone.p, abs=0.05)  # a maximum over one pair is that pair's own test
    before = every.pairs.set_index(["a", "b"]).p_max[alone.a, alone.b]
    assert alone.p_max <= before  # a smaller family
    assert pd.isna(shown.board.set_index("system")["rank"]["tfidf"])
