"""Ratings that overlap: a slope beside another is that of a regression on both, and verdicts name what can be told."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from analysis.importance.grid import Grid
from analysis.importance.likelihood import Effects, standardised
from analysis.importance.mixed_test import SIGNED, MixedTest, Overlaps
from benchmarks.calibrations.mixed import _overlapping, drawn_grid, of_overlaps
from tests.analysis.importance.mixed.grids import noise_of, small_grid

NAN = float("nan")


def _beside(grid: Grid) -> tuple[MixedTest, MixedTest]:
    test = MixedTest.of(grid, draws=19)
    beside = MixedTest.beside(test, 0, np.array([1]))
    assert beside is not None
    return test, beside


def test_a_slope_beside_another_is_that_of_generalised_least_squares_on_both() -> None:
    grid = small_grid(3)
    test, beside = _beside(grid)
    gains = noise_of(grid, 2, 5, intermediates=3.0)
    intermediate, target = np.nonzero(grid.mask)
    tasks = np.eye(len(grid.tasks))
    design = np.hstack([test.ratings[intermediate], tasks[target][:, tasks[target].any(0)]])
    contrasts = beside.model.effects.estimated(gains)
    for point in (0, 17, 250):
        variances = beside.model.points[point] * beside.model.unit
        kernel = sum(v * part.kernel for v, part in zip(variances, beside.model.parts, strict=True))
        covariance = np.diag(1 / grid.weights[grid.mask]) + kernel[np.ix_(intermediate, intermediate)]
        solved = np.linalg.solve(covariance, design)
        spread = np.linalg.inv(design.T @ solved)
        expected = (spread @ solved.T @ gains[grid.mask])[0]
        slope = beside.model.projections[0, point] @ contrasts / beside.model.information[0, point]
        assert slope == pytest.approx(expected, rel=1e-6)
        assert 1 / beside.model.information[0, point] == pytest.approx(spread[0, 0], rel=1e-6)


def test_within_families_of_targets_the_other_slope_is_in_the_regression_too() -> None:
    grid = small_grid(2)
    test, beside = _beside(grid)
    gains = noise_of(grid, 2, 2)
    answer = beside.families.replication(gains, np.zeros((1, 2), dtype=int))  # no variance of anything
    for row, family in enumerate(beside.families.families):
        mask = grid.mask & family.targets[None]
        intermediate, target = np.nonzero(mask)
        roots = np.sqrt(grid.weights[mask])[:, None]
        design = roots * np.hstack([test.ratings[intermediate], (target[:, None] == np.unique(target)[None]) * 1.0])
        spread = np.linalg.inv(design.T @ design)
        expected = (spread @ design.T @ (roots * gains[mask]))[0]
        assert answer.slopes[row, 0] == pytest.approx(expected, rel=1e-6)
        assert answer.variances[row, 0, 0] == pytest.approx(spread[0, 0], rel=1e-6)


def test_what_was_taken_beside_leaves_no_degree_of_freedom_to_the_noise() -> None:
    grid = small_grid(2)
    test, beside = _beside(grid)
    assert isinstance(beside.model.effects, Effects)
    assert beside.model.effects.count == test.model.effects.count - 1
    gains = noise_of(grid, 3, 2)
    np.testing.assert_allclose(beside.scale(gains), test.scale(gains))


def test_ratings_that_correlate_by_eight_tenths_overlap_whichever_way_that_is_rounded() -> None:
    grid = drawn_grid(4, 3, np.random.default_rng(2))
    first = standardised(grid.facts["definition"])

    def with_other(r: float, seed: int) -> MixedTest:
        other = _overlapping(first, r, np.random.default_rng(seed))
        return MixedTest.of(replace(grid, facts={**grid.facts, "link": other}), draws=9)

    tests = [with_other(0.8, seed) for seed in range(30)]
    rounded = [np.corrcoef(test.ratings.T)[0, 1] for test in tests]
    assert min(rounded) < 0.8 <= max(rounded)
    assert all(Overlaps.of(tests[place(rounded)]).partners[0, 1] for place in (np.argmin, np.argmax))
    assert not Overlaps.of(with_other(0.799, 0)).partners[0, 1]


def test_verdicts_name_a_rating_only_if_it_is_supported_beside_those_that_overlap() -> None:
    pair = Overlaps(np.array([[False, True], [True, False]]), {})
    cases = [  # p, p beside, named alone, only together
        ((0.01, 0.02), (0.03, 0.50), (True, False), (False, True)),
        ((0.01, 0.02), (0.30, 0.50), (False, False), (True, True)),
        ((0.01, 0.20), (0.30, 0.90), (False, False), (True, True)),
        ((0.01, 0.20), (0.03, 0.90), (True, False), (False, False)),
        ((0.20, 0.30), (0.01, 0.01), (False, False), (False, False)),
    ]
    p, beside, named, together = (np.array(column).T for column in zip(*cases, strict=True))
    np.testing.assert_array_equal(pair.named(p, beside), named)
    np.testing.assert_array_equal(pair.together(p, beside), together)
    alone = Overlaps(np.zeros((2, 2), dtype=bool), {})
    unasked = np.full(p.shape, NAN)
    np.testing.assert_array_equal(alone.named(p, unasked), p <= 0.05)
    assert not alone.together(p, unasked).any()


def test_ratings_that_are_the_same_are_never_told_apart() -> None:
    grid = drawn_grid(4, 3, np.random.default_rng(4))
    grid = replace(grid, facts=grid.facts | {"link": 2 * grid.facts["definition"]})
    test = MixedTest.of(grid, draws=99)
    overlaps = Overlaps.of(test)
    gains = noise_of(grid, 4) + 8 * test.effect(SIGNED, 0)[..., None]
    p, beside = test.asked(SIGNED, gains).p, overlaps.p_beside(gains)
    assert (p[:2] <= 0.05).all() and (beside[:2] == 1).all() and np.isnan(beside[2]).all()
    assert overlaps.together(p, beside)[:2].all()


def test_ratings_that_overlap_are_drawn_with_their_correlation_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.calibrations.mixed.CORRELATIONS", (0.9,))
    monkeypatch.setattr("benchmarks.calibrations.mixed.RATINGS_PER_SHAPE", 1)
    monkeypatch.setattr("benchmarks.calibrations.mixed.OF_SHAPES", ("independent noise",))
    grid = drawn_grid(4, 3, np.random.default_rng(4))
    frame = of_overlaps(grid, grids=20)
    assert len(frame) == 2 * 3 * 2
    counts = frame[(frame.planted == "first") & (frame.rating == "first")].set_index("verdict").alarms
    assert counts["named alone"] + counts["only together"] >= counts["supported without the other"]
