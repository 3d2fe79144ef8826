"""The replication guard: its meta-analysis by hand, and slopes of families of targets by regression."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import t as student

from analysis.importance.likelihood import Model
from analysis.importance.mixed_test import FamilySlopes, pooled, replication
from tests.analysis.importance.mixed.grids import NAMES, noise_of, small_grid


def _by_hand(slopes: list[float], variances: list[float]) -> tuple[float, float]:
    """DerSimonian and Laird's variance between families; Hartung and Knapp's error, not below the fixed one."""
    weights = [1 / v for v in variances]
    mean = sum(w * b for w, b in zip(weights, slopes, strict=True)) / sum(weights)
    q = sum(w * (b - mean) ** 2 for w, b in zip(weights, slopes, strict=True))
    between = max(0.0, (q - (len(slopes) - 1)) / (sum(weights) - sum(w * w for w in weights) / sum(weights)))
    weights = [1 / (v + between) for v in variances]
    mean = sum(w * b for w, b in zip(weights, slopes, strict=True)) / sum(weights)
    q = sum(w * (b - mean) ** 2 for w, b in zip(weights, slopes, strict=True)) / (len(slopes) - 1)
    return mean, (max(1.0, q) / sum(weights)) ** 0.5


@pytest.mark.parametrize("spread", [0.0, 3.0])
def test_the_mean_and_its_error_are_those_of_the_formulas(spread: float) -> None:
    rng = np.random.default_rng(int(spread))
    for _ in range(20):
        variances = rng.uniform(0.2, 2.0, size=5)
        slopes = 1 + rng.normal(size=5) * np.sqrt(variances + spread)
        mean, error = pooled(slopes[:, None, None], variances[:, None, None])
        assert (mean[0, 0], error[0, 0]) == pytest.approx(_by_hand(list(slopes), list(variances)))


def test_of_one_rating_the_p_is_students_and_of_several_it_is_larger() -> None:
    slopes = np.array([1.0, 1.4, 0.8, 1.3])[:, None, None]
    variances = np.full_like(slopes, 0.1)
    single = replication(slopes, variances, np.eye(1))
    mean, error = _by_hand([1.0, 1.4, 0.8, 1.3], [0.1] * 4)
    assert single.df == 3
    assert single.alone[0, 0] == pytest.approx(2 * student.sf(mean / error, 3))
    assert single.corrected[0, 0] == pytest.approx(single.alone[0, 0], abs=0.01)
    twice = np.repeat(slopes, 2, axis=1), np.repeat(variances, 2, axis=1)
    independent, same = (replication(*twice, np.array([[1.0, r], [r, 1.0]])) for r in (0.0, 1.0))
    alone = single.alone[0, 0]
    assert independent.corrected[0, 0] == pytest.approx(1 - (1 - alone) ** 2, abs=0.01)
    assert same.corrected[0, 0] == pytest.approx(alone, abs=0.01)


def test_fewer_than_two_families_never_support_anything() -> None:
    slopes = np.ones((1, 2, 3))
    assert (replication(slopes, slopes, np.eye(2)).corrected == 1).all()


def test_without_other_components_slopes_are_those_of_weighted_regressions_within_targets() -> None:
    grid = small_grid(2)
    facts = np.stack([grid.facts[name] for name in NAMES], axis=1)
    model = Model.of(grid, facts, draws=9)
    gains = noise_of(grid, 2, 2)
    guard = FamilySlopes.of(grid, model, facts)
    answer = guard.replication(gains, np.zeros((2, 2), dtype=int))  # the first point: no variance of anything
    for row, family in enumerate(guard.families):
        mask = grid.mask & family.targets[None]
        intermediate, target = np.nonzero(mask)
        roots = np.sqrt(grid.weights[mask])
        dummies = (target[:, None] == np.unique(target)[None]) * 1.0
        for construct in range(2):
            design = roots[:, None] * np.hstack([facts[intermediate, construct][:, None], dummies])
            covariance = np.linalg.inv(design.T @ design)
            for number in range(2):
                slope = (covariance @ design.T @ (roots * gains[mask][:, number]))[0]
                assert answer.slopes[row, construct, number] == pytest.approx(slope, rel=1e-6)
                assert answer.variances[row, construct, number] == pytest.approx(covariance[0, 0], rel=1e-6)


def test_slopes_that_differ_by_family_are_not_taken_for_a_slope() -> None:
    variances = np.full((6, 1, 1), 0.01)
    same, differing = (np.array(values)[:, None, None] for values in ([1.0] * 6, [3.0, -2.0, 2.5, -1.0, 3.0, 0.5]))
    assert replication(same, variances, np.eye(1)).corrected[0, 0] < 0.001
    assert replication(differing, variances, np.eye(1)).corrected[0, 0] > 0.2
