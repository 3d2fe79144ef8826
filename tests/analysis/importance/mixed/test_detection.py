"""Planted effects: their size, the noise beside them, and what is found."""

import numpy as np
import pandas as pd
import pytest

from analysis.importance.detection import (
    HARDER,
    OWN,
    SHARES,
    SMALLEST,
    detection,
    effect_sizes,
    own_noise,
    smallest_detected,
    smallest_slopes,
)
from analysis.importance.grid import PRIMARY, grid_of
from analysis.importance.mixed_test import SIGNED, MixedTest
from analysis.results.published import results


@pytest.fixture(scope="module")
def grid():
    return grid_of(results(), PRIMARY)


def test_a_planted_effect_explains_its_share_of_a_weighted_regression(grid):
    noise = np.random.default_rng(0).normal(size=(*grid.mask.shape, 1)) * grid.mask[..., None]
    link = np.subtract.outer(grid.facts["link"], grid.facts["link"])
    size = effect_sizes(grid, link * grid.mask, noise, 0.3)[0]

    def squares(values):  # weighted, about the plain mean of each target's own pairs
        pairs = [(values[rows, column], grid.weights[rows, column]) for column, rows in enumerate(grid.mask.T)]
        return sum(float(weights @ (own - own.mean()) ** 2) for own, weights in pairs)

    of_effect, of_noise = squares(size * link), squares(noise[..., 0])
    assert of_effect / (of_effect + of_noise) == pytest.approx(0.3)


def test_own_noise_varies_as_the_fit_of_the_study_does(grid):
    test = MixedTest.of(grid, draws=19)
    drawn = own_noise(test, 4000, np.random.default_rng(0))
    gains = grid.outcome[..., None]
    fit, scale = test.fit(gains / test.unit(gains)), test.scale(gains)[0]
    point = test.model.points[fit.without[0]] * test.model.unit
    of_intermediates = sum(v * part.kernel for v, part in zip(point, test.model.parts, strict=True))
    assert of_intermediates.trace() > 0
    of_pairs = np.broadcast_to(np.diag(of_intermediates)[:, None], (18, 18))[grid.mask]
    expected = scale * (1 / grid.weights[grid.mask] + of_pairs)
    np.testing.assert_allclose(drawn.var(axis=2)[grid.mask], expected, rtol=0.12)
    same = np.mean([np.cov(drawn[k, (k + 1) % 18], drawn[k, (k + 2) % 18])[0, 1] for k in range(18)])
    assert same == pytest.approx(scale * np.diag(of_intermediates).mean(), rel=0.2)


def test_the_slope_that_could_be_seen_is_seen_in_four_of_five_other_grids(grid):
    test = MixedTest.of(grid, draws=99)
    smallest = smallest_slopes(test)
    noise = own_noise(test, 200, np.random.default_rng(99))
    for construct, slope in enumerate(smallest):
        gains = noise + slope * test.effect(SIGNED, construct)[..., None]
        assert 0.68 < (test.answer(SIGNED, gains).p[construct] <= 0.05).mean() < 0.91  # .8, four standard errors


def test_larger_effects_are_found_more_often_and_equal_seeds_give_equal_rates(grid):
    steps: list[tuple[int, int]] = []
    frame = detection(grid, grids=6, progress=lambda done, of, what: steps.append((done, of)))
    assert steps[-1] == (len(frame), len(frame)) == (3 * (1 + 3 * len(SHARES)),) * 2
    own = frame[frame.background == OWN]
    assert own.loc[own.share == SHARES[-1], "rate"].min() > own.loc[own.share == 0, "rate"].max()
    assert ((frame.low <= frame.rate) & (frame.rate <= frame.high)).all()
    again = detection(grid, grids=6)
    pd.testing.assert_frame_equal(frame, again)


def test_the_size_that_is_found_often_enough_lies_between_those_tried():
    def rows(name, rates):
        sizes = {"share": SHARES, "points_per_step": (1.0, 2.0, 3.0, 4.0, 5.0), "rate": rates}
        return [
            {"background": OWN, "planted": name} | {key: values[place] for key, values in sizes.items()}
            for place in range(len(SHARES))
        ]

    none = [{"background": OWN, "planted": "", "share": 0.0, "points_per_step": 0.0, "rate": 0.03}]
    frame = pd.DataFrame(
        none
        + rows("between", [0.1, 0.4, 0.6, 1.0, 1.0])
        + rows("falling", [0.7, 0.6, 0.9, 1.0, 1.0])
        + rows("never", [0.1, 0.2, 0.3, 0.4, 0.5])
        + rows("at once", [0.9, 1.0, 1.0, 1.0, 1.0])
    )
    found = smallest_detected(frame).set_index("construct")
    assert list(found.columns) == [name for name in SMALLEST if name != "construct"]
    assert found.points_per_step["between"] == pytest.approx(3.5)  # half of the way from .6 to 1
    assert found.share["between"] == pytest.approx(0.225)
    assert found.points_per_step["falling"] == pytest.approx(2.5)  # from .7, as .6 is below what came before
    assert np.isnan(found.share["never"])
    assert found.share["at once"] == SHARES[0]


def test_intermediates_of_a_family_are_alike_where_families_differ_and_not_where_tasks_do(grid):
    first, other = np.flatnonzero(grid.family == np.bincount(grid.family).argmax())[:2]
    alike = {}
    for name, background in HARDER.items():
        rows = background(grid, 500, np.random.default_rng(1)).mean(axis=1)  # over targets [tasks, grids]
        alike[name] = np.corrcoef(rows[first], rows[other])[0, 1]
    assert alike["family effects"] > 0.6 and abs(alike["task effects"]) < 0.3
