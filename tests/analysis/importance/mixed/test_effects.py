"""Effects of intermediates, against a regression on one column per task."""

from __future__ import annotations

import numpy as np

from analysis.importance.grid import Grid
from analysis.importance.likelihood import (
    DATA_SETS,
    FAMILIES,
    FEATURES,
    TASKS,
    Effects,
    components,
    contrasts,
    differs,
    points,
)
from tests.analysis.importance.mixed.grids import noise_of, small_grid


def _regression(grid: Grid, gains: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
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


def test_contrasts_of_effects_are_those_of_a_regression_on_both_roles() -> None:
    for seed in range(5):
        grid = small_grid(seed)
        gains, effects = noise_of(grid, 3, seed, intermediates=4.0), Effects.of(grid)
        for number in range(3):
            own, covariance, scale = _regression(grid, gains[..., number])
            basis = contrasts(np.zeros(len(grid.tasks), dtype=int))
            np.testing.assert_allclose(effects.estimated(gains)[:, number], basis.T @ own, rtol=1e-8, atol=1e-8)
            np.testing.assert_allclose(effects.covariance, basis.T @ covariance @ basis, rtol=1e-8, atol=1e-10)
            np.testing.assert_allclose(effects.scale(gains)[number], scale, rtol=1e-8)


def test_an_intermediate_without_a_pair_takes_no_part() -> None:
    grid = small_grid()
    grid.mask[2] = False
    grid.weights[2] = 0.0
    effects = Effects.of(grid)
    assert not effects.present[2]
    assert effects.count == len(grid.tasks) - 2
    assert np.isfinite(effects.covariance).all()


def test_sets_of_tasks_without_a_common_target_are_not_compared() -> None:
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


def test_components_that_say_the_same_are_taken_once() -> None:
    grid = small_grid()
    assert [part.name for part in components(grid)] == [TASKS, DATA_SETS, FAMILIES, FEATURES]
    grid.data_set[:] = np.arange(len(grid.tasks))  # every task its own data set
    assert [part.name for part in components(grid)] == [TASKS, FAMILIES, FEATURES]
    grid.data_set[:] = grid.family
    assert [part.name for part in components(grid)] == [TASKS, DATA_SETS, FEATURES]
    grid.family[:] = 0  # one family: nothing that tells intermediates apart
    grid.data_set[:] = 0
    assert [part.name for part in components(grid)] == [TASKS, FEATURES]


def test_points_are_all_combinations_and_begin_with_no_variance_at_all() -> None:
    tried = points(components(small_grid()))
    assert (tried[0] == 0).all()
    assert len(np.unique(tried, axis=0)) == len(tried) == 6 * 4 * 4 * 4


def test_tasks_differ_at_points_whose_first_variance_is_not_zero() -> None:
    parts = components(small_grid())
    tried = points(parts)
    assert parts[0].name == TASKS
    np.testing.assert_array_equal(differs(parts, tried), tried[:, 0] > 0)
    np.testing.assert_array_equal(differs(parts[::-1], tried[:, ::-1]), tried[:, 0] > 0)
