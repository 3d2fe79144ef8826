"""The error of a gain of a size, against fresh samples of a population and by hand, and where nothing can be gained."""

import numpy as np
import pytest
from numpy.typing import NDArray

from adapters_store.roles import BASELINE, TRANSFER
from analysis.gains.cells import planned_cells, predictions
from analysis.gains.gains import ERRORS, SIZES, Growth, PairAnswers, gains, growths, right_answers, with_growth
from analysis.gains.significance import Groups
from tasks.metrics import MEASURES
from tests.support.studies.fake_study import FakeTask, fake_study

Answers = NDArray[np.float64]


def _sample(metric, n, share, rng):
    """Labels, answers right in half of the rows or correlating by .5, and the same with a share put right."""
    if metric == "pearson_r":
        labels = rng.normal(size=n)
        base = labels + np.sqrt(3) * rng.normal(size=n)
    else:
        labels = rng.choice(3, size=n, p=[0.6, 0.3, 0.1]).astype(float)
        base = np.where(rng.random(n) < 0.5, labels, rng.choice(3, size=n, p=[0.6, 0.3, 0.1]))
    top = np.where(rng.random(n) < share, right_answers(metric, labels, base), base)
    return labels, base, top


def _alone(metric, labels, base, names=None):
    """A transfer whose answers are those of its target alone; every row is a group if there are no names."""
    groups = Groups.of(np.arange(len(labels)) if names is None else names)
    return PairAnswers(metric, labels, groups, np.atleast_2d(base), np.atleast_2d(base))


@pytest.mark.parametrize("metric", ["macro_f1", "pearson_r"])
@pytest.mark.parametrize("share", [0.1, 0.3])
def test_gains_of_fresh_samples_vary_as_much_as_is_said(metric, share):
    rng, score, n = np.random.default_rng(7), MEASURES[metric], 400
    fresh = [_sample(metric, n, share, rng) for _ in range(600)]
    points = np.array([100 * (score(labels, top) - score(labels, base)) for labels, base, top in fresh])
    said = []
    for labels, base, _ in fresh[:12]:
        said.append(_alone(metric, labels, base).growth().variance(points.mean()))
    assert np.mean(said) == pytest.approx(points.var(), rel=0.2)


def test_of_right_answers_alone_it_is_that_of_mcnemar():
    rng, n = np.random.default_rng(1), 2000
    labels = rng.integers(2, size=n)
    base = np.where(rng.random(n) < 0.5, labels, 1 - labels)
    own = _alone("macro_f1", labels, base).growth()
    assert own.variance(0.0) == 0.0
    assert own.variance(10.0) == pytest.approx(1e4 * (0.1 - 0.1**2) / n, rel=0.1)


def test_answers_that_change_for_nothing_add_theirs_whatever_the_gain_was():
    rng, n = np.random.default_rng(6), 2000
    labels = rng.integers(2, size=n)
    base = np.where(np.arange(n) % 2, labels, 1 - labels)
    swapped = np.where(rng.random(n) < 0.3, 1 - base, base)  # as many become right as become wrong
    harmed = np.where((rng.random(n) < 0.2) & (base == labels), 1 - labels, swapped)
    for top in (swapped, harmed):
        own = PairAnswers("macro_f1", labels, Groups.of(np.arange(n)), base[None], top[None]).growth()
        assert own.variance(0.0) == pytest.approx(1e4 * np.mean(swapped != base) / n, rel=0.2)
        assert own.variance(10.0) > own.variance(0.0)


@pytest.mark.parametrize("metric", ["macro_f1", "pearson_r"])
def test_the_gain_that_is_put_in_is_as_large_as_was_asked_and_a_harm_is_taken_out(metric):
    rng = np.random.default_rng(8)
    labels, base, _ = _sample(metric, 500, 0.0, rng)
    worse = np.where(rng.random(500) < 0.2, rng.permutation(labels), base)
    pair = PairAnswers(metric, labels, Groups.of(np.arange(500)), base[None], worse[None])
    assert pair.gain(worse[None]) < -2
    assert pair.gain(pair.without_gain(rng)) == pytest.approx(0, abs=0.5)
    assert [pair.gain(top) for top in pair.with_gains((5, 20), rng)] == pytest.approx([5, 20], abs=0.5)


def test_groups_that_are_wrong_together_vary_more():
    rng, n = np.random.default_rng(2), 600
    labels, names = rng.integers(2, size=n), np.arange(n) % 30
    is_wrong = (names < 15) & (rng.random(n) < 0.9)
    base = np.where(is_wrong, 1 - labels, labels)
    together, apart = (_alone("macro_f1", labels, base, of).growth() for of in (names, rng.permutation(names)))
    assert together.variance(20.0) > 1.3 * apart.variance(20.0)


def test_variances_lie_on_lines_between_sizes_and_stay_beyond_the_largest_that_is_reached():
    own = Growth((1.0, 3.0, 6.0, np.nan, np.nan, np.nan))
    assert [own.variance(points) for points in (0, 1, SIZES[2], 30)] == [1.0, 2.0, 6.0, 6.0]
    assert np.isnan(Growth.constant(np.nan).variance(1.0))


def test_several_seeds_count_where_they_are_wrong_alike():
    rng, n = np.random.default_rng(3), 1500
    labels = rng.integers(2, size=n)
    lanes = np.where(rng.random((3, n)) < 0.6, labels, 1 - labels)
    alike, apart = (_alone("macro_f1", labels, of).growth() for of in (np.stack([lanes[0]] * 3), lanes))
    alone = _alone("macro_f1", labels, lanes[:1]).growth()
    assert alike.variance(8.0) == pytest.approx(alone.variance(8.0))
    assert apart.variance(8.0) < 0.7 * alone.variance(8.0)


def test_a_whole_answer_of_several_classes_becomes_right():
    rng, n = np.random.default_rng(4), 500
    labels = rng.integers(2, size=(n, 4))
    base = np.where(rng.random((n, 4)) < 0.6, labels, 1 - labels)
    pair = PairAnswers("multilabel_f1", labels, Groups.of(np.arange(n)), base[None], base[None])
    (top,) = pair.with_gains((5,), rng)
    changed = (top[0] != base).any(axis=1)
    assert changed.any()
    assert (top[0][changed] == labels[changed]).all()
    assert pair.growth().variance(5.0) > 0


@pytest.mark.parametrize("metric", ["macro_f1", "pearson_r"])
def test_nothing_is_said_where_no_answer_is_wrong_or_no_score_is_defined(metric):
    labels = np.arange(90) % 3
    assert np.isnan(_alone(metric, labels, labels).growth().variances).all()
    assert np.isnan(_alone(metric, labels, labels[::-1], np.zeros(90)).growth().variances).all()
    if metric == "pearson_r":
        assert np.isnan(_alone(metric, labels, np.ones(90)).growth().variances).all()


def test_transfers_onto_a_collapsed_target_have_none_and_the_others_theirs(tmp_path):
    tasks = (FakeTask("hope"), FakeTask("role"), FakeTask("distress", "continuous"))
    store, manifest = fake_study(tmp_path, tasks, seeds=(1, 2), flags={(None, "hope"): ["collapsed"]})
    frame = growths(store, manifest)
    assert len(frame) == 6
    assert frame.error_at_2.isna().equals(frame.target == "hope")
    assert (frame.effective_groups > 20).all()
    marked = with_growth(gains(store, manifest, draws=50), frame)
    assert marked.error_at_0.isna().equals(marked.target == "hope")
    assert list(marked.columns) == list(gains(store, manifest, draws=50).columns)


def test_every_transfer_has_the_errors_of_its_own_answers_and_seeds(tmp_path):
    store, manifest = fake_study(tmp_path, (FakeTask("hope"), FakeTask("role")), seeds=(1, 2), baseline_seeds=(1, 2, 3))
    row = growths(store, manifest).set_index(["intermediate", "target"]).loc[("role", "hope")]
    planned = planned_cells(store, manifest).query("target == 'hope' and seed < 3").sort_values("seed")
    shown = {
        role: [predictions(store, store.get(key)) for key in planned.key[planned.role == role]]
        for role in (BASELINE, TRANSFER)
    }
    first = shown[BASELINE][0]
    answers = (np.stack([of.decisions for of in shown[role]]) for role in (BASELINE, TRANSFER))
    own = PairAnswers("macro_f1", first.labels, Groups.of(first.groups), *answers).growth()
    assert [row[name] for name in ERRORS] == pytest.approx(np.sqrt(own.variances), nan_ok=True)
