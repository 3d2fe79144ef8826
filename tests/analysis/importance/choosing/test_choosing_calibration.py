"""The simulation of what ``suggest`` says: judgements by enumeration, its parts, and its rates as the page has them."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis.importance.choosing import FUSION, advice_for, better
from analysis.importance.detection import BACKGROUNDS, independent
from analysis.importance.grid import PRIMARY, grid_of
from analysis.results.published import results
from benchmarks.calibrations import suggestions as simulation
from benchmarks.calibrations.suggestions import (
    KINDS,
    MEASURED,
    NAMED,
    NOTHING,
    RANDOM,
    SINGLE,
    SUGGESTED,
    _frame,
    _judged,
    _part,
    _surface,
    _with_gains,
    advice,
    calibration,
)

DOCS = Path(__file__).parents[4] / "docs"


@pytest.fixture(scope="module")
def study():
    return _part(results(), 2)


@pytest.mark.parametrize("order", [[5, 4, 3, 2, 1], [1, 3, 2, 5, 4], [0, 0, 0, 0, 0], [2, 2, 1, 1, 1]])
def test_an_order_is_judged_as_the_mean_over_the_ways_to_try_equal_ranks(order):
    order, true = np.array(order, float), np.array([3.0, 1.0, 7.0, 7.0, 2.0])
    ways = [way for way in permutations(range(5)) if (np.diff(order[list(way)]) <= 0).all()]
    tried = np.array([true[list(way)] for way in ways])
    assert _judged(order, true) == pytest.approx(
        {
            "first": np.mean(tried[:, 0] == 7),
            "of_three": np.mean(tried[:, :3].max(1) == 7),
            "rank": np.mean([1 + (true > first).sum() for first in tried[:, 0]]),
            "regret": np.mean(7 - tried[:, 0]),
            "regret_of_three": np.mean(7 - tried[:, :3].max(1)),
        }
    )


def test_of_gains_that_are_all_the_same_none_is_best_and_none_is_missed():
    judged = _judged(np.arange(4.0), np.ones(4))
    assert judged["regret"] == judged["regret_of_three"] == 0
    assert np.isnan([judged["first"], judged["of_three"], judged["rank"]]).all()


@pytest.mark.parametrize("background", KINDS)
def test_what_lasts_of_gains_is_what_they_have_beside_the_noise_of_pairs(study, background):
    grid = grid_of(study, PRIMARY)
    drawn, noise = (make(grid, 3, np.random.default_rng(5)) for make in (BACKGROUNDS[background], independent))
    lasting = drawn - noise
    means = lasting.mean(0) + lasting.mean(1)[:, None] - lasting.mean((0, 1))
    effects = {"independent noise": 0 * lasting, "task effects": means}.get(background)
    if effects is not None:
        np.testing.assert_allclose(lasting, effects, atol=1e-9)
    else:  # two intermediates differ alike for all targets of a family
        families = [np.flatnonzero(grid.family == family) for family in range(len(grid.families))]
        for targets in families:
            own = lasting[:, targets] - lasting[:, targets].mean(0)
            np.testing.assert_allclose(own, np.broadcast_to(own[:, :1], own.shape), atol=1e-9)


def test_the_advice_that_is_simulated_is_that_of_the_command(study):
    grid, rng = grid_of(study, PRIMARY), np.random.default_rng(3)
    measures = {name: _surface(grid, rng) for name in MEASURED}
    gains = 3 * measures["logme"] + rng.normal(size=grid.mask.shape)
    known, frame = _with_gains(study, grid, gains, 4), _frame(study, grid, measures)
    ranked, p = advice(known, frame)
    said = advice_for(grid.tasks[4], known, frame, {})
    assert set(better(said.quality)) == set(p.index[p <= 0.05]) >= {"logme"}
    own = ranked[ranked.target == grid.tasks[4]].sort_values(FUSION, ascending=False)
    assert said.intermediates.intermediate.tolist() == own.intermediate.tolist()
    assert said.intermediates.gain.isna().all() and len(own) == len(grid.tasks) - 1


def test_a_measure_that_gains_follow_is_named_and_random_numbers_are_not(monkeypatch):
    monkeypatch.setattr(simulation, "EVERY", (2,))
    monkeypatch.setattr(simulation, "KINDS", KINDS[:1])
    monkeypatch.setattr(simulation, "PLANTED", ((NOTHING, 0.0), (SINGLE, 0.6)))
    frame = pd.concat(calibration(results(), 16, seed=1)).set_index(["tasks", "planted", "order"])
    assert frame.measure_named[9, NOTHING, SUGGESTED] <= 0.25 < 0.75 <= frame.named[9, SINGLE, "measure"]
    assert frame.regret[9, SINGLE, "measure"] < frame.regret[9, SINGLE, RANDOM]
    assert frame["rank"][9, SINGLE, "measure"] < frame["rank"][9, SINGLE, RANDOM] == 4.5


def laid_down() -> pd.DataFrame:
    return pd.read_csv(DOCS / "suggest_calibration.csv", keep_default_na=False, na_values=["nan", ""]).fillna(
        {"planted": NOTHING}
    )


def short(value: float, digits: int = 2) -> str:
    """A share or a rank as the page has it."""
    if np.isnan(value):
        return "-"
    return f"{value:.{digits}f}".replace("0.", ".", 1) if value < 1 else f"{value:.{digits}f}"


def lines_of_the_page() -> list[str]:
    """The lines of both tables: where nothing is planted, and where something is."""
    lines, orders = [], (SUGGESTED, NAMED, RANDOM)
    keys = ["tasks", "background", "planted", "share_planted"]
    for (tasks, background, planted, share), part in laid_down().groupby(keys, sort=False):
        rows = part.set_index("order")
        if planted == NOTHING:
            ranks = [f"{rows['rank'][order]:.1f}".replace("nan", "-") for order in (SUGGESTED, "model", RANDOM)]
            named = [short(rows.measure_named[SUGGESTED], 3), short(rows.named["model"], 3)]
            lines.append(f"| {tasks} | {background} | {' | '.join([*named, *ranks])} |")
            continue
        cells = [short(rows.measure_named[SUGGESTED])]
        cells += [", ".join(short(rows[column][order]) for order in orders) for column in ("first", "of_three")]
        cells.append(", ".join(f"{rows.regret[order]:.1f}" for order in orders))
        lines.append(f"| {tasks} | {background} | {planted}, {100 * share:.0f} % | {' | '.join(cells)} |")
    return lines


def test_the_page_has_every_rate_of_the_file():
    page = (DOCS / "similarity.md").read_text(encoding="utf-8").splitlines()
    frame = laid_down()
    assert len(lines_of_the_page()) == 30 == len(frame) / 6
    assert [line for line in lines_of_the_page() if line not in page] == []
    assert set(frame.grids[frame.planted == NOTHING]) == {300} and set(frame.grids[frame.planted != NOTHING]) == {75}
