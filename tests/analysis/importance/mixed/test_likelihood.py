"""The likelihood of the mixed model against slower ways to compute it."""

import numpy as np
import pytest
from scipy.optimize import minimize

from analysis.importance.likelihood import (
    DATA_SETS,
    FAMILIES,
    FEATURES,
    TASKS,
    Effects,
    Model,
    components,
    contrasts,
    differs,
    points,
    share_reaching,
)
from tests.analysis.importance.mixed.grids import NAMES, noise_of, small_grid


def _ratings(grid):
    facts = np.stack([grid.facts[name] for name in NAMES], axis=1)
    return (facts - facts.mean(0)) / facts.std(0)


def _of_pairs(grid, variances, slope_on, gains):
    """Restricted log likelihood [grids] of all pairs: means of targets integrated out, the slope maximised."""
    without, *with_slope = _with_each(grid, variances, [] if slope_on is None else [slope_on], gains)
    return with_slope[0] if with_slope else without


def _with_each(grid, variances, slopes, gains):
    """Those likelihoods [1 + slopes, grids] without a slope and with each alone, of a covariance inverted once.

    Pairs of one intermediate share its effect: a dense covariance of pairs, without any effect being estimated first.
    """
    intermediate, target = np.nonzero(grid.mask)
    kernel = sum(v * part.kernel for v, part in zip(variances, components(grid), strict=True))
    covariance = np.diag(1 / grid.weights[grid.mask]) + kernel[np.ix_(intermediate, intermediate)]
    means = (target[:, None] == np.unique(target)[None]) * 1.0
    basis = np.linalg.qr(means, mode="complete")[0][:, means.shape[1] :]  # error contrasts: orthogonal to the means
    inner, values = basis.T @ covariance @ basis, basis.T @ gains[grid.mask]
    weighed = np.linalg.solve(inner, values)
    fits = [(values * weighed).sum(0)]
    for slope_on in slopes:
        column = basis.T @ slope_on[intermediate]
        fits.append(fits[0] - (column @ weighed) ** 2 / (column @ np.linalg.solve(inner, column)))
    return -0.5 * (np.linalg.slogdet(inner)[1] + np.array(fits))


def test_the_ratio_is_that_of_the_likelihood_of_all_pairs_on_fifty_grids():
    for seed in range(5):
        grid = small_grid(seed)
        ratings, gains = _ratings(grid), noise_of(grid, 10, seed, intermediates=5.0)
        model = Model.of(grid, ratings, draws=9)
        fit = model.fitted(model.effects.estimated(gains))
        tried = model.points * model.unit
        without, *full = np.max([_with_each(grid, point, list(ratings.T), gains) for point in tried], axis=0)
        np.testing.assert_allclose(fit.ratio, 2 * (np.array(full) - without), rtol=1e-3, atol=1e-6)


def test_between_the_points_the_likelihood_is_hardly_larger():
    grid = small_grid(3)
    ratings, gains = _ratings(grid), noise_of(grid, 8, 3, intermediates=5.0)
    model = Model.of(grid, ratings, draws=9)
    fit = model.fitted(model.effects.estimated(gains))

    def largest(slope_on, number, start):
        own = gains[..., [number]]
        result = minimize(
            lambda logs: -_of_pairs(grid, np.exp(logs), slope_on, own)[0],
            np.log(start + 0.1),
            method="L-BFGS-B",
            bounds=[(-8, 8)] * len(start),
        )
        return float(-result.fun)

    for number in range(8):
        starts = [model.points[point] * model.unit for point in (fit.without[number], fit.with_slope[0, number])]
        full, without = (max(largest(on, number, start) for start in starts) for on in (ratings[:, 0], None))
        assert fit.ratio[0, number] == pytest.approx(2 * (full - without), abs=0.5)


def test_slopes_and_their_errors_are_those_of_generalised_least_squares():
    grid = small_grid(4)
    ratings, gains = _ratings(grid), noise_of(grid, 6, 4, intermediates=5.0)
    model = Model.of(grid, ratings, draws=9)
    fit = model.fitted(model.effects.estimated(gains))
    intermediate, target = np.nonzero(grid.mask)
    for number in range(6):
        variances = model.points[fit.with_slope[1, number]] * model.unit
        kernel = sum(v * part.kernel for v, part in zip(variances, model.parts, strict=True))
        inverse = np.linalg.inv(np.diag(1 / grid.weights[grid.mask]) + kernel[np.ix_(intermediate, intermediate)])
        design = np.hstack([ratings[intermediate, 1:2], (target[:, None] == np.unique(target)[None]) * 1.0])
        covariance = np.linalg.inv(design.T @ inverse @ design)
        slope = (covariance @ design.T @ inverse @ gains[grid.mask][:, number])[0]
        assert fit.slope[1, number] == pytest.approx(slope, rel=1e-6)
        assert fit.error[1, number] == pytest.approx(np.sqrt(covariance[0, 0]), rel=1e-6)


def test_weights_of_points_are_their_likelihoods_where_tasks_differ_and_else_none():
    grid = small_grid(6)
    model = Model.of(grid, _ratings(grid), draws=9)
    gains = noise_of(grid, 3, 6, intermediates=6.0)
    fit = model.fitted(model.effects.estimated(gains))
    dense = np.stack([_of_pairs(grid, point, None, gains) for point in model.points * model.unit])
    shares = np.exp(dense - dense.max(0)) * (model.points[:, [0]] > 0)
    np.testing.assert_allclose(fit.weight, shares / shares.sum(0), rtol=1e-6, atol=1e-12)


def test_gains_that_no_difference_of_tasks_could_make_have_a_p_all_the_same():
    grid = small_grid(6)
    model = Model.of(grid, _ratings(grid), draws=49)
    fit = model.fitted(np.zeros((model.effects.count, 1)))
    assert fit.without[0] == 0, "the likelihood is largest where nothing differs"
    assert fit.weight.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(model.corrected(fit), 1.0)


def test_p_is_the_mean_over_points_of_the_share_of_null_draws_that_reach_the_ratio():
    grid = small_grid(7)
    model = Model.of(grid, _ratings(grid), draws=200, seed=3)
    gains = noise_of(grid, 2, 7, intermediates=6.0)
    fit = model.fitted(model.effects.estimated(gains))
    expected = np.zeros(fit.ratio.shape)
    for point, covariance_root in enumerate(model.roots):
        rng = np.random.default_rng((3, point))
        drawn = model.fitted(covariance_root @ rng.normal(size=(model.effects.count, 200))).ratio.max(0)
        for place in np.ndindex(*fit.ratio.shape):
            expected[place] += fit.weight[point, place[1]] * (1 + (drawn >= fit.ratio[place]).sum()) / 201
    np.testing.assert_allclose(model.corrected(fit), expected, atol=2e-3)  # points of weight below 1e-4 are left out


def test_share_reaching_counts_ties_and_the_observation():
    null = np.array([1.0, 2.0, 2.0, 3.0])
    np.testing.assert_allclose(share_reaching(null, np.array([0.0, 2.0, 3.5])), [1.0, 0.8, 0.2])


# Effects of intermediates, against a regression on one column per task.


def _regression(grid, gains):
    """Effects, their covariance for known weights, and the residual variance, by least squares on dummies."""
    intermediate, target = np.nonzero(grid.mask)
    count = len(grid.tasks)
    roots = np.sqrt(grid.weights[grid.mask])[:, None]
    design = roots * np.hstack([np.eye(count)[intermediate], np.eye(count)[target]])
    inverse = np.linalg.pinv(design.T @ design)
    values = roots[:, 0] * gains[grid.mask]
    fitted = inverse @ design.T @ values
    left = len(values) - np.linalg.matrix_rank(design)
    return fitted[:count], inverse[:count, :count], float(((values - design @ fitted) ** 2).sum() / left)


def test_contrasts_of_effects_are_those_of_a_regression_on_both_roles():
    for seed in range(5):
        grid = small_grid(seed)
        gains, effects = noise_of(grid, 3, seed, intermediates=4.0), Effects.of(grid)
        for number in range(3):
            own, covariance, scale = _regression(grid, gains[..., number])
            basis = contrasts(np.zeros(len(grid.tasks), dtype=int))
            np.testing.assert_allclose(effects.estimated(gains)[:, number], basis.T @ own, rtol=1e-8, atol=1e-8)
            np.testing.assert_allclose(effects.covariance, basis.T @ covariance @ basis, rtol=1e-8, atol=1e-10)
            np.testing.assert_allclose(effects.scale(gains)[number], scale, rtol=1e-8)


def test_an_intermediate_without_a_pair_takes_no_part():
    grid = small_grid()
    grid.mask[2] = False
    grid.weights[2] = 0.0
    effects = Effects.of(grid)
    assert not effects.present[2]
    assert effects.count == len(grid.tasks) - 2
    assert np.isfinite(effects.covariance).all()


def test_sets_of_tasks_without_a_common_target_are_not_compared():
    grid = small_grid(missing=0)
    first = np.arange(len(grid.tasks)) < 4
    apart = first[:, None] == first[None, :]
    grid.mask[:] &= apart
    grid.weights[:] *= apart
    effects = Effects.of(grid)
    assert effects.count == len(grid.tasks) - 2
    assert effects.left == grid.mask.sum() - 2 * len(grid.tasks) + 2
    assert np.linalg.eigvalsh(effects.covariance).min() > 0
    shifted = noise_of(grid, 2) + 50.0 * (first[:, None] * grid.mask)[..., None]
    np.testing.assert_allclose(effects.estimated(shifted), effects.estimated(noise_of(grid, 2)), atol=1e-8)


def test_components_that_say_the_same_are_taken_once():
    grid = small_grid()
    assert [part.name for part in components(grid)] == [TASKS, DATA_SETS, FAMILIES, FEATURES]
    grid.data_set[:] = np.arange(len(grid.tasks))  # every task its own data set
    assert [part.name for part in components(grid)] == [TASKS, FAMILIES, FEATURES]
    grid.data_set[:] = grid.family
    assert [part.name for part in components(grid)] == [TASKS, DATA_SETS, FEATURES]
    grid.family[:] = 0  # one family: nothing that tells intermediates apart
    grid.data_set[:] = 0
    assert [part.name for part in components(grid)] == [TASKS, FEATURES]


def test_points_are_all_combinations_and_begin_with_no_variance_at_all():
    tried = points(components(small_grid()))
    assert (tried[0] == 0).all()
    assert len(np.unique(tried, axis=0)) == len(tried) == 6 * 4 * 4 * 4


def test_tasks_differ_at_points_whose_first_variance_is_not_zero():
    parts = components(small_grid())
    tried = points(parts)
    assert parts[0].name == TASKS
    np.testing.assert_array_equal(differs(parts, tried), tried[:, 0] > 0)
    np.testing.assert_array_equal(differs(parts[::-1], tried[:, ::-1]), tried[:, 0] > 0)
