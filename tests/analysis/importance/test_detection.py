"""Planted effects: their size, the noise beside them, and what is found."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from analysis.importance.calibration import effect_sizes
from analysis.importance.detection import (
    OWN,
    SHARES,
    SMALLEST,
    detection,
    intermediate_variance,
    own_noise,
    smallest_detected,
)
from analysis.importance.grid import Grid, grid_of
from analysis.importance.specification import PRIMARY
from analysis.results.published import results


@pytest.fixture(scope="module")
def grid() -> Grid:
    return grid_of(results(), PRIMARY)


def _variance(grid: Grid) -> np.ndarray:
    return np.where(grid.mask, 1 / np.where(grid.mask, grid.weights, 1), 0)


def test_a_planted_effect_explains_its_share_of_a_weighted_regression(grid: Grid) -> None:
    noise = np.random.default_rng(0).normal(size=(*grid.mask.shape, 1)) * grid.mask[..., None]
    size = effect_sizes(grid, "link", noise, 0.3)[0]
    link = np.subtract.outer(grid.facts["link"], grid.facts["link"])

    def squares(values: np.ndarray) -> float:  # weighted, about the plain mean of each target's own pairs
        pairs = [(values[rows, column], grid.weights[rows, column]) for column, rows in enumerate(grid.mask.T)]
        return sum(float(weights @ (own - own.mean()) ** 2) for own, weights in pairs)

    of_effect, of_noise = squares(size * link), squares(noise[..., 0])
    assert of_effect / (of_effect + of_noise) == pytest.approx(0.3)


def test_own_noise_is_as_large_as_the_weights_say_and_partly_that_of_intermediates(grid: Grid) -> None:
    drawn = own_noise(grid, 20_000, np.random.default_rng(0))
    variance, between = _variance(grid), intermediate_variance(grid, _variance(grid))
    np.testing.assert_allclose(drawn.var(axis=2)[grid.mask], variance[grid.mask], rtol=0.08)
    same = np.mean([np.cov(drawn[k, (k + 1) % 18], drawn[k, (k + 2) % 18])[0, 1] for k in range(18)])
    assert same == pytest.approx(between, abs=0.25)
    assert 0 < between < grid.heterogeneity


def test_the_variance_between_intermediates_is_that_which_was_put_in(grid: Grid) -> None:
    rng, found = np.random.default_rng(1), []
    mask = ~np.eye(18, dtype=bool)
    for _ in range(200):
        outcome = np.where(mask, 2.0 * rng.normal(size=(18, 1)) + 3.0 * rng.normal(size=(18, 18)), 0.0)
        one = Grid(*[getattr(grid, name) for name in grid.__dataclass_fields__])
        object.__setattr__(one, "outcome", outcome)
        object.__setattr__(one, "heterogeneity", 50.0)
        found.append(intermediate_variance(one, mask * 13.0))
    assert np.mean(found) == pytest.approx(4.0, rel=0.15)


def test_without_known_errors_nothing_is_ascribed_to_intermediates(grid: Grid) -> None:
    ranks = grid_of(results(), PRIMARY.__class__(outcome="ranks"))
    assert intermediate_variance(ranks, _variance(ranks)) == 0


def test_larger_effects_are_found_more_often_and_equal_seeds_give_equal_rates(grid: Grid) -> None:
    steps: list[tuple[int, int]] = []
    frame = detection(grid, "target", grids=6, draws=39, progress=lambda done, of, what: steps.append((done, of)))
    assert steps[-1] == (len(frame), len(frame)) == (3 * (1 + 3 * len(SHARES)),) * 2
    own = frame[frame.background == OWN]
    assert own.loc[own.share == SHARES[-1], "rate"].min() > own.loc[own.share == 0, "rate"].max()
    assert ((frame.low <= frame.rate) & (frame.rate <= frame.high)).all()
    again = detection(grid, "target", grids=6, draws=39)
    pd.testing.assert_frame_equal(frame, again)


def test_the_size_that_is_found_often_enough_lies_between_those_tried() -> None:
    def rows(name: str, rates: list[float]) -> list[dict[str, object]]:
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
