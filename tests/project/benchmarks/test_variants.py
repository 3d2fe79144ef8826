"""Variants of the kept test of ratings: their parts computed in another way."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import trapezoid
from scipy.stats import multivariate_normal, norm
from scipy.stats import t as student

from analysis.importance.likelihood import DATA_SETS, TASKS
from analysis.importance.mixed_test import SIGNED, MixedTest, replication
from benchmarks.grids.variants import (
    ALIKE,
    DATA_SETS_TOO,
    NO_FLOOR,
    NOT_CORRECTED,
    OF_SLOPES,
    VARIANTS,
    averaged,
    normal_slope,
    of_largest,
    of_smallest,
    variants,
    without_floor,
)
from tests.analysis.importance.mixed.grids import noise_of, small_grid


@pytest.fixture(scope="module")
def test_of_ratings() -> MixedTest:
    return MixedTest.of(small_grid(3), draws=99)


def test_a_normal_slope_is_integrated_out_of_every_likelihood(test_of_ratings):
    model = test_of_ratings.model
    contrasts = np.random.default_rng(5).normal(size=(model.effects.count, 1)) * 5
    deviation = np.sqrt(OF_SLOPES * model.unit)
    slopes, every = np.linspace(-12, 12, 4801) * deviation, slice(None, None, 40)
    statistics = normal_slope(_at_points(model, every), contrasts)
    for construct, facts in enumerate(model.effects.of_facts(test_of_ratings.ratings).T):
        without, within = [], []
        for root in model.roots[every]:
            density = multivariate_normal(cov=root @ root.T)
            without.append(density.pdf(contrasts[:, 0]))
            moved = contrasts[:, 0] - np.outer(slopes, facts)
            within.append(trapezoid(density.pdf(moved) * norm.pdf(slopes, scale=deviation), slopes))
        expected = 2 * np.log(np.sum(within) / np.sum(without))
        assert statistics[construct, 0] == pytest.approx(expected, rel=1e-5)


def _at_points(model, places):
    """The model at some of its points."""
    kept = {name: getattr(model, name)[places] for name in ("points", "forms", "log_determinants", "roots")}
    kept |= {name: getattr(model, name)[:, places] for name in ("projections", "information")}
    return type(model)(**{**{name: getattr(model, name) for name in model.__dataclass_fields__}, **kept})


def test_the_smallest_p_measures_each_construct_by_its_own_null():
    rng = np.random.default_rng(6)
    null = rng.normal(size=(2, 999)) ** 2 * np.array([[1.0], [100.0]])
    observed = np.array([[4.0], [400.0]])
    alone = [(1 + (own >= value).sum()) / 1000 for own, value in zip(null, observed, strict=True)]
    ranks = [[(1 + (own >= value).sum()) / 1000 for value in own] for own in null]
    smallest = np.min(ranks, axis=0)
    expected = [[(1 + (smallest <= p).sum()) / 1000] for p in np.ravel(alone)]
    np.testing.assert_allclose(of_smallest(null, observed), expected)
    assert of_largest(null, observed)[0, 0] > 0.5, "the wider null holds the first one back"


def test_means_over_other_points_and_guards_are_those_of_their_definitions(test_of_ratings):
    gains = noise_of(test_of_ratings.grid, 6, 4, intermediates=3.0)
    part, model = test_of_ratings.asked(SIGNED, gains), test_of_ratings.model
    contrasts = model.effects.estimated(gains / test_of_ratings.unit(gains))
    both = variants(test_of_ratings, part, contrasts, {})
    assert tuple(both) == VARIANTS
    names = [component.name for component in model.parts]
    dense = np.exp(
        [multivariate_normal(cov=root @ root.T).logpdf(contrasts.T) - 0.5 * model.effects.count for root in model.roots]
    )
    observed = model.fitted(contrasts).ratio
    shares = np.stack(
        [(1 + (model._null(k)[:, None, None] >= observed).sum(0)) / 100 for k in range(len(model.points))]
    )
    differ = (model.points[:, [names.index(TASKS), names.index(DATA_SETS)]] > 0).all(1)
    for title, weight in ((ALIKE, dense), (DATA_SETS_TOO, dense * differ[:, None])):
        expected = np.einsum("pg,pcg->cg", weight / weight.sum(0), shares)
        np.testing.assert_allclose(both[title][0], expected, atol=5e-3)  # points of weight below 1e-4 are left out
        np.testing.assert_array_equal(both[title][1], part.guard.corrected)
    np.testing.assert_array_equal(both[NOT_CORRECTED][1], part.guard.alone)
    assert (both[NO_FLOOR][1] <= part.guard.corrected).all()


def test_the_mean_over_points_of_the_kept_ratio_is_the_kept_p(test_of_ratings):
    gains = noise_of(test_of_ratings.grid, 3, 5, intermediates=3.0)
    model = test_of_ratings.model
    contrasts = model.effects.estimated(gains / test_of_ratings.unit(gains))
    p = averaged(model, contrasts, lambda own, values: own.fitted(values).ratio, {})
    np.testing.assert_allclose(p, test_of_ratings.asked(SIGNED, gains).ratio_p)


def test_without_a_floor_slopes_that_agree_have_the_p_of_students_test():
    slopes = np.array([1.0, 1.02, 0.98, 1.01, 0.99])[:, None, None]
    guard = replication(slopes, np.full_like(slopes, 1.0), np.eye(1))
    own = slopes[:, 0, 0]
    expected = 2 * student.sf(own.mean() / (own.std(ddof=1) / np.sqrt(5)), 4)
    assert without_floor(guard, np.eye(1))[0, 0] == pytest.approx(expected, abs=1e-4)
    assert guard.corrected[0, 0] > 0.05
