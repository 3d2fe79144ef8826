"""Contrasts with random families: likelihoods by dense matrices, by direct optimisation, and how often they alarm."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.optimize import minimize_scalar

from analysis.ratings.themes import RATIOS, Classes, numbered
from analysis.results.published import results
from benchmarks.calibrations.themes import theme_calibration

LAID_DOWN = Path(__file__).resolve().parents[3] / "docs" / "themes_calibration.csv"


@pytest.fixture(scope="module")
def classes():
    tasks = results().tasks
    return Classes(numbered(tasks.theme.tolist()), numbered(tasks.family.tolist()))


def covariance(classes, ratio):
    same = classes.of_family[:, None] == classes.of_family
    return np.eye(same.shape[0]) + ratio * same


def dummies(classes, merged=()):
    number = np.where(np.isin(classes.of_class, merged), merged[0] if merged else -1, classes.of_class)
    return (number[:, None] == np.unique(number)).astype(float)


def log_likelihood(effects, design, ratio, classes, restricted=False):
    """By the density of scipy, at the likeliest mean and variance; restricted: of what is free of the mean."""
    whole, values = covariance(classes, ratio), effects
    if restricted:
        basis = np.linalg.svd(design.T)[2][design.shape[1] :]
        whole, values, design = basis @ whole @ basis.T, basis @ effects, np.zeros((len(basis), 1))
    root = np.linalg.cholesky(np.linalg.inv(whole)).T
    mean = design @ np.linalg.lstsq(root @ design, root @ values, rcond=None)[0]
    variance = ((root @ (values - mean)) ** 2).mean()
    return stats.multivariate_normal(mean, variance * whole).logpdf(values)


def some_effects(classes, sets, seed):
    rng = np.random.default_rng(seed)
    families = rng.normal(scale=rng.gamma(1.0, size=sets), size=(classes.of_family.max() + 1, sets))
    return rng.normal(size=(classes.of_class.size, sets)) + families[classes.of_family]


def test_fits_are_those_of_dense_matrices(classes):
    effects = some_effects(classes, 12, 0)
    fits = classes.fits(effects)
    for number, values in enumerate(effects.T):
        free = [log_likelihood(values, dummies(classes), ratio, classes) for ratio in RATIOS]
        for place, pair in enumerate(classes.contrasts):
            equal = [log_likelihood(values, dummies(classes, pair), ratio, classes) for ratio in RATIOS]
            assert fits.statistics[place, number] == pytest.approx(2 * (max(free) - max(equal)), abs=1e-8)
        common = [log_likelihood(values, np.ones((18, 1)), ratio, classes, restricted=True) for ratio in RATIOS]
        assert fits.ratio[number] == np.argmax(common)
        inverse = np.linalg.inv(covariance(classes, RATIOS[np.argmax(free)]))
        design = dummies(classes)
        means = np.linalg.solve(design.T @ inverse @ design, design.T @ inverse @ values)
        assert fits.differences[:, number] == pytest.approx([means[a] - means[b] for a, b in classes.contrasts])


def test_statistics_are_those_of_direct_optimisation_up_to_the_grid(classes):
    effects = some_effects(classes, 25, 1)
    fits = classes.fits(effects)

    def best(values, design):  # over the share of variance between families, not over the ratio
        tried = np.linspace(0, 0.99, 12)
        heights = [log_likelihood(values, design, share / (1 - share), classes) for share in tried]
        near = tried[max(np.argmax(heights) - 1, 0)], tried[min(np.argmax(heights) + 1, 11)]
        top = minimize_scalar(
            lambda share: -log_likelihood(values, design, share / (1 - share), classes), bounds=near, method="bounded"
        )
        return max(-top.fun, heights[0])

    free = np.array([best(values, dummies(classes)) for values in effects.T])
    equal = [[best(values, dummies(classes, pair)) for values in effects.T] for pair in classes.contrasts]
    missed = np.abs(fits.statistics - 2 * (free - np.array(equal)))
    assert missed.max() < 0.2 and missed.mean() < 0.03  # the grid's steps are a factor of 2


def test_with_each_task_a_family_of_its_own_the_statistic_is_students_t():
    of_class = np.repeat([0, 1], [7, 5])
    alone = Classes(of_class, np.arange(12))
    values = np.random.default_rng(2).normal(size=12)
    t = stats.ttest_ind(values[:7], values[7:]).statistic
    fits = alone.fits(values[:, None])
    assert fits.statistics[0, 0] == pytest.approx(12 * np.log1p(t**2 / 10))
    p = alone.chance(fits, 20_000, 3).p[0, 0]
    assert p == pytest.approx(stats.ttest_ind(values[:7], values[7:]).pvalue, abs=0.02)


def test_families_do_not_make_contrasts_alarm_as_permuting_themes_does(classes):
    frame = theme_calibration(classes, grids=300, draws=999, seed=5).set_index(["planted", "family_sd"])
    without = frame.loc[0.0]
    assert (without.alarms <= stats.binom.ppf(0.999, 300, 0.06)).all()
    assert without.rate_permuted[2.0] > 2 * without.rate[2.0]
    assert frame.rate[2.0, 0.0] > 0.6


def test_the_rates_that_are_laid_down_are_of_a_thousand_grids_each():
    frame = pd.read_csv(LAID_DOWN)
    asked = frame[(frame.planted == 0) & frame.family_sd.isin([0.0, 1.0, 2.0])]
    assert asked.grids.tolist() == [1000] * 3
    assert (asked.rate <= 0.06).all()
