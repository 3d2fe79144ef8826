"""The test of distances, against a restricted likelihood of all pairs with a dense covariance."""

from __future__ import annotations

import numpy as np
import pytest

from analysis.importance.mixed_test import VARIANCES, Distances
from tests.analysis.importance.mixed.grids import NAMES, noise_of, small_grid


def _restricted(design: np.ndarray, covariance: np.ndarray, values: np.ndarray, column: np.ndarray | None) -> float:
    """Log likelihood of error contrasts with the scale, and a slope if any, maximised."""
    left, sizes, _ = np.linalg.svd(design)
    basis = left[:, (sizes > 1e-9).sum() :]
    inner = basis.T @ covariance @ basis
    inverse, own = np.linalg.inv(inner), basis.T @ values
    form = own @ inverse @ own
    if column is not None:
        fact = basis.T @ column
        form -= (fact @ inverse @ own) ** 2 / (fact @ inverse @ fact)
    return float(-0.5 * np.linalg.slogdet(inner)[1] - 0.5 * len(own) * np.log(form))


def test_ratios_are_those_of_the_likelihood_of_all_pairs() -> None:
    for seed in range(3):
        grid = small_grid(seed, sizes=(3, 3, 2, 2))
        facts = np.stack([grid.facts[name] for name in NAMES], axis=1)
        gains, distances = noise_of(grid, 4, seed), Distances.of(grid, facts, draws=9)
        intermediate, target = np.nonzero(grid.mask)
        design = np.hstack([np.eye(10)[intermediate], np.eye(10)[target]])
        noise = 1 / grid.weights[grid.mask]
        same = (grid.family[intermediate][:, None] == grid.family[intermediate]) & (
            grid.family[target][:, None] == grid.family[target]
        )
        covariances = [np.diag(noise) + variance * np.median(noise) * same for variance in VARIANCES]
        values = np.linalg.norm(distances.facts)  # not 0: distances are left when both roles went
        assert values > 0
        roots = distances.roots * gains[distances.pairs]
        without_roles = roots - distances.basis @ (distances.basis.T @ roots)
        ratios = distances._ratios(without_roles)[1]
        for number in range(4):
            own = gains[grid.mask][:, number]
            null = max(_restricted(design, covariance, own, None) for covariance in covariances)
            for construct in range(len(NAMES)):
                column = np.abs(facts[intermediate, construct] - facts[target, construct])
                full = max(_restricted(design, covariance, own, column) for covariance in covariances)
                assert ratios[construct, number] == pytest.approx(2 * (full - null), rel=1e-5, abs=1e-7)


def test_a_planted_distance_is_found_with_its_size() -> None:
    grid = small_grid(1, sizes=(4, 4, 4, 4), missing=0)
    facts = np.stack([grid.facts[name] for name in NAMES], axis=1)
    distances = Distances.of(grid, facts, draws=199)
    apart = np.abs(facts[:, None, 0] - facts[None, :, 0]) * grid.mask
    gains = noise_of(grid, 1, 9) - 8.0 * apart[..., None]
    slope, error, corrected, guard = distances.tested(gains)
    assert abs(slope[0, 0] + 8.0) < 4 * error[0, 0]
    assert corrected[0, 0] <= 0.01
    assert guard.df == 3
