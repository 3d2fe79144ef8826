"""What a true gain adds to its error, against fresh samples of a population, and where nothing can be added."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from analysis.gains.gains import gains
from analysis.gains.growth import Growth, grown, growth, growths, right_answers
from analysis.gains.significance import Groups
from tasks.metrics import MEASURES
from tests.support.studies.fake_study import FakeTask, fake_study

Answers = NDArray[np.float64]


def _sample(metric: str, n: int, share: float, rng: np.random.Generator) -> tuple[Answers, Answers, Answers]:
    """Labels, answers right in half of the rows or correlating by .5, and the same with a share put right."""
    if metric == "pearson_r":
        labels = rng.normal(size=n)
        base = labels + np.sqrt(3) * rng.normal(size=n)
    else:
        labels = rng.choice(3, size=n, p=[0.6, 0.3, 0.1]).astype(float)
        base = np.where(rng.random(n) < 0.5, labels, rng.choice(3, size=n, p=[0.6, 0.3, 0.1]))
    top = np.where(rng.random(n) < share, right_answers(metric, labels, base), base)
    return labels, base, top


@pytest.mark.parametrize("metric", ["macro_f1", "pearson_r"])
@pytest.mark.parametrize("share", [0.1, 0.3])
def test_gains_of_fresh_samples_vary_as_much_as_is_said(metric: str, share: float) -> None:
    rng, score, n = np.random.default_rng(7), MEASURES[metric], 400
    fresh = [_sample(metric, n, share, rng) for _ in range(600)]
    points = np.array([100 * (score(labels, top) - score(labels, base)) for labels, base, top in fresh])
    said = []
    for labels, base, _ in fresh[:12]:
        said.append(growth(metric, labels, base[None], Groups.of(np.arange(n))).variance(points.mean()))
    assert np.mean(said) == pytest.approx(points.var(), rel=0.2)


def test_groups_that_are_wrong_together_add_more() -> None:
    rng, n = np.random.default_rng(2), 600
    labels, names = rng.integers(2, size=n), np.arange(n) % 30
    is_wrong = (names < 15) & (rng.random(n) < 0.9)
    base = np.where(is_wrong, 1 - labels, labels)
    together, apart = (growth("macro_f1", labels, base[None], Groups.of(of)) for of in (names, rng.permutation(names)))
    assert together.variance(20.0) > 1.3 * apart.variance(20.0)


def test_variances_never_fall_below_those_of_smaller_gains() -> None:
    falling = Growth(1.0, -0.05)
    assert falling.variance(10.0) == falling.variance(50.0) == pytest.approx(5.0)
    assert Growth(0.0, 0.1).variance(2.0) == pytest.approx(0.4)


def test_several_seeds_count_where_they_are_wrong_alike() -> None:
    rng, n = np.random.default_rng(3), 1500
    labels, groups = rng.integers(2, size=n), Groups.of(np.arange(n))
    lanes = np.where(rng.random((3, n)) < 0.6, labels, 1 - labels)
    alike, apart = (growth("macro_f1", labels, of, groups) for of in (np.stack([lanes[0]] * 3), lanes))
    alone = growth("macro_f1", labels, lanes[:1], groups)
    assert alike.variance(8.0) == pytest.approx(alone.variance(8.0))
    assert apart.variance(8.0) < 0.7 * alone.variance(8.0)


def test_a_whole_answer_of_several_classes_becomes_right() -> None:
    rng, n = np.random.default_rng(4), 500
    labels = rng.integers(2, size=(n, 4))
    base = np.where(rng.random((n, 4)) < 0.6, labels, 1 - labels)
    assert growth("multilabel_f1", labels, base[None], Groups.of(np.arange(n))).variance(5.0) > 0


@pytest.mark.parametrize("metric", ["macro_f1", "pearson_r"])
def test_nothing_is_said_where_no_answer_is_wrong_or_no_score_is_defined(metric: str) -> None:
    labels = np.arange(90) % 3
    groups = Groups.of(np.arange(90))
    assert np.isnan(growth(metric, labels, labels[None], groups).linear)
    if metric == "pearson_r":
        assert np.isnan(growth(metric, labels, np.ones((1, 90)), groups).linear)


def test_a_collapsed_target_has_none_and_the_others_theirs(tmp_path: Path) -> None:
    tasks = (FakeTask("hope"), FakeTask("role"), FakeTask("distress", "continuous"))
    store, manifest = fake_study(tmp_path, tasks, seeds=(1, 2), flags={(None, "hope"): ["collapsed"]})
    frame = growths(store, manifest).set_index("target")
    assert frame.growth_linear.isna().to_dict() == {"hope": True, "role": False, "distress": False}
    assert (frame.effective_groups > 20).all()
    marked = grown(gains(store, manifest, draws=50), frame.reset_index())
    assert marked.growth_linear.isna().equals(marked.target == "hope")
    assert list(marked.columns) == list(gains(store, manifest, draws=50).columns)
