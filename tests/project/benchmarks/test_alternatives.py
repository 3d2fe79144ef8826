"""Tests of ratings that were tried: each by its definition, and the rates that the page has."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import trapezoid
from scipy.stats import multivariate_normal, norm
from scipy.stats import t as student

from analysis.importance.likelihood import DATA_SETS, TASKS
from analysis.importance.mixed_test import SIGNED, MixedTest, replication
from benchmarks.calibrations.mixed import drawn_grid
from benchmarks.grids import alternatives
from benchmarks.grids.alternatives import (
    DIFFERING,
    FOLLOWED,
    KINDS,
    RATIO,
    RESTRICTED,
    SLOPE,
    Crossed,
    _covariances,
    _within,
    projections,
    without_products,
)
from benchmarks.grids.backgrounds import SLOPE_SPREAD
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

DOCS = Path(__file__).parents[3] / "docs"
OTHERS = ("permutation in families", "crossed pairs", "crossed pairs, targets free", SLOPE, RATIO)
TRIED = ("kept", *OTHERS, *alternatives.REMOVED, *alternatives.NOISES, *VARIANTS)


@pytest.fixture(scope="module")
def grid():
    return drawn_grid(3, 2, np.random.default_rng(4))


def test_a_crossed_likelihood_is_the_largest_normal_density_over_points_scales_means_and_slopes(grid, monkeypatch):
    for name, few in (("TASKS", (0.0, 1.0)), ("REVERSED", (0.3,)), ("FAMILIES", (0.3,)), ("BOTH", (0.0,))):
        monkeypatch.setattr(alternatives, name, few)
    ratings = MixedTest.of(grid).ratings[:, :1]
    crossed = Crossed.of(grid, ratings, (1.0,), (0.5,))
    values = np.random.default_rng(5).normal(size=(len(crossed.pairs[0]), 1))
    x = ratings[crossed.pairs[0], 0] - ratings[crossed.pairs[1], 0]
    logs: dict[bool, list[float]] = {False: [], True: []}
    for covariance in _covariances(grid, crossed.pairs, (1.0,), (0.5,)):
        inverse = np.linalg.inv(covariance)
        for sloped, of in logs.items():
            design = np.column_stack([np.ones_like(x), x][: 1 + sloped])
            left = values[:, 0] - design @ np.linalg.solve(
                design.T @ inverse @ design, design.T @ inverse @ values[:, 0]
            )
            scale = left @ inverse @ left / len(left)
            of.append(multivariate_normal(cov=scale * covariance, allow_singular=True).logpdf(left))
    without, ratios = crossed._fitted(values)
    assert np.diff(without[:, 0]) == pytest.approx(np.diff(logs[False]), abs=1e-3)
    assert ratios[0, 0] == pytest.approx(2 * (max(logs[True]) - max(logs[False])), abs=1e-3)


def test_projections_of_ratings_are_those_of_the_model_and_stay_so_in_their_families(grid):
    test = MixedTest.of(grid)
    weighted, information = projections(test.model, test.ratings)
    np.testing.assert_allclose(weighted.swapaxes(0, 1), test.model.projections, atol=1e-8)
    np.testing.assert_allclose(information.T, test.model.information)
    orders = [_within(grid.family, np.random.default_rng(seed)) for seed in range(9)]
    assert all((grid.family[order] == grid.family).all() for order in orders)
    assert len({tuple(order) for order in orders}) > 1


def test_restricted_maxima_weigh_a_point_by_what_its_slope_is_known_to(grid):
    test = MixedTest.of(grid)
    model, contrasts = test.model, np.random.default_rng(6).normal(size=(5, 1)) * 5
    slopes, ratios = (RESTRICTED[name](model, contrasts)[:, 0] for name in (SLOPE, RATIO))
    for construct in range(3):
        rows = []
        for root in model.roots:
            covariance, facts = root @ root.T, model.effects.of_facts(test.ratings[:, construct])
            known = facts @ np.linalg.solve(covariance, facts)
            square = (facts @ np.linalg.solve(covariance, contrasts[:, 0])) ** 2 / known
            own = multivariate_normal(cov=covariance).logpdf(contrasts[:, 0])
            rows.append((own + square / 2 - np.log(known) / 2, square, own, known))
        full, squares, without, known = np.array(rows).T
        assert slopes[construct] == pytest.approx(squares[full.argmax()])
        assert ratios[construct] == pytest.approx(2 * (full.max() + np.log(known[0]) / 2 - without.max()), abs=1e-6)


def test_a_product_is_removed_and_what_roles_add_stays():
    grid = drawn_grid(5, 2, np.random.default_rng(4))
    rng = np.random.default_rng(7)
    roles = rng.normal(size=(10, 1)) + rng.normal(size=(1, 10))
    u, v = (part - part.mean() for part in rng.normal(size=(2, 10)))
    gains = ((roles + 3 * np.outer(u, v)) * grid.mask)[..., None]
    left = without_products(grid, gains, 1)
    whole = np.abs(gains[..., 0] - roles * grid.mask).max()
    assert np.abs(left[..., 0] - roles * grid.mask).max() < 0.25 * whole


def tried() -> pd.DataFrame:
    return pd.read_csv(DOCS / "tried_calibration.csv", keep_default_na=False)


def short(rate: float, digits: int) -> str:
    return f"{rate:.{digits}f}".removeprefix("0") if round(rate, digits) < 1 else "1.00"


def lines_of_the_page() -> list[str]:
    """A line per test: false alarms by background, and what is seen where tasks, or families and tasks, differ."""
    rates, lines = tried().set_index(["test", "background", "planted"]).rate, []
    for test in TRIED:
        cells = [short(rates[test, background, ""], 3) for background in KINDS]
        for background in ("task effects", "family and task effects"):
            found = (rates[test, background, name] for name in ("definition", "link", "conduciveness"))
            cells.append(" ".join(short(rate, 2) for rate in found))
        lines.append(f"| {test} | {' | '.join(cells)} |")
    return lines


def test_the_page_has_the_rates_of_all_tests_that_were_tried():
    text = (DOCS / "what-explains-gains.md").read_text(encoding="utf-8")
    assert [line for line in lines_of_the_page() if line not in text.splitlines()] == []
    frame = tried()
    assert frame.grids.eq(1000).all()
    harder = frame[frame.background == FOLLOWED].set_index("test").rate
    words = " ".join(text.split())
    assert f"they alarm in {short(harder['crossed pairs'], 3)} of grids" in words
    slopes = frame[frame.background == DIFFERING].set_index("test").rate
    kept, *guards = (short(slopes[test], 3) for test in ("kept", NO_FLOOR, NOT_CORRECTED))
    assert f"all three ratings differ a little, {' and '.join(guards)} alarms (kept test {kept})" in words


def test_slopes_of_all_ratings_differ_by_family_of_targets_and_as_little_as_said(grid):
    test, count = MixedTest.of(grid), 400
    ((name, gains),) = alternatives._harder(test, "independent noise", "", np.zeros((*grid.mask.shape, count)), 1)
    assert name == DIFFERING
    slopes = []
    for target in range(len(grid.tasks)):
        rows = grid.mask[:, target]
        slope, residuals, _, _ = np.linalg.lstsq(test.ratings[rows], gains[rows, target], rcond=None)
        np.testing.assert_allclose(residuals, 0, atol=1e-9)
        slopes.append(slope)
    for family in range(3):
        np.testing.assert_allclose(*(slopes[target] for target in np.flatnonzero(grid.family == family)), atol=1e-9)
    little = alternatives.LITTLE * SLOPE_SPREAD * 5.0  # every pair has a standard deviation of 5
    np.testing.assert_allclose(np.std(slopes[::2], axis=(0, 2)), little, rtol=0.1)


def test_the_kept_test_was_put_to_the_grids_on_which_it_was_calibrated():
    names = {"mixed model": "kept", "likelihood ratio alone": "kept, alone"}
    known = pd.read_csv(DOCS / "calibration.csv", keep_default_na=False).query("design == 'published'")
    known = known.assign(test=known.test.map(names)).dropna(subset="test")
    both = tried().merge(known, on=["test", "background", "planted"])
    assert len(both) == 2 * len(KINDS) * 4
    assert (both.alarms_x == both.alarms_y).all()


# Variants of the kept test of ratings: their parts computed in another way.


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
