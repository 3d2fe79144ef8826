"""The answer of the mixed model: what it says of planted slopes, of nothing, and of what cannot be asked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from analysis.importance import detection
from analysis.importance import mixed as answer_of
from analysis.importance.grid import PRIMARY, grid_of
from analysis.importance.likelihood import Effects
from analysis.importance.mixed import NOT_TESTED, ONLY_TOGETHER, SUPPORTED, Mixed, mixed, slopes_by_choice
from analysis.importance.mixed_test import DISTANCE, SIGNED, MixedTest, why_not
from analysis.results.results import Results
from benchmarks.calibrations.mixed import calibration, drawn_grid
from tests.analysis.importance.mixed.grids import noise_of, with_outcome

STEP = 6.0  # points per step that are planted


@pytest.fixture(autouse=True, scope="module")
def few_grids() -> Iterator[None]:
    """Few grids and few slopes to try: none of these tests is about the third digit of what follows from them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(detection, "SLOPE_GRIDS", 20)
        patch.setattr(answer_of, "STEPS", 41)
        yield


def _planted(published: Results, per_step: float, seed: int = 1) -> Results:
    """The published study with made-up scores: noise, and points per step of Link."""
    link = published.ratings[published.ratings.construct == "link"].groupby("task").value.mean()
    gains, rng = published.gains.copy(), np.random.default_rng(seed)
    apart = gains.intermediate.map(link).to_numpy() - gains.target.map(link).to_numpy()
    gains["score"] = gains.baseline + (per_step * apart + rng.normal(size=len(gains)) * 4) / 100
    gains["metric"] = "macro_f1"
    return replace(published, gains=gains)


@pytest.fixture(scope="module")
def supported(published: Results) -> Mixed:
    return mixed(_planted(published, STEP))


def _of(answer: Mixed, construct: str, question: str = SIGNED) -> pd.Series:
    return answer.slopes[(answer.slopes.construct == construct) & (answer.slopes.question == question)].iloc[0]


def test_a_planted_slope_is_found_in_points_per_step(supported: Mixed) -> None:
    row = _of(supported, "link")
    assert row.verdict == SUPPORTED
    assert row.low < STEP < row.high
    assert row.slope == pytest.approx(STEP, abs=1.5)
    assert 0.3 < row.share <= 1.0
    assert "supported for" in supported.headline


def test_intervals_leave_out_no_slope_exactly_where_the_verdict_is_supported(supported: Mixed) -> None:
    for row in supported.slopes.itertuples():
        assert (row.low > 0 or row.high < 0) == (row.verdict == SUPPORTED)
        assert row.low <= row.slope <= row.high
        assert row.p == max(row.p_ratio, row.p_families)


def test_the_profile_is_highest_at_the_slope_and_its_p_falls_with_distance(supported: Mixed) -> None:
    own = supported.profile[supported.profile.construct == "link"]
    best = own.loc[own["drop"].idxmin()]
    row = _of(supported, "link")
    assert best.slope == pytest.approx(row.slope, abs=(own.slope.max() - own.slope.min()) / 20)
    assert own["drop"].min() == 0
    assert own.p.iloc[[0, -1]].max() < 0.05 < best.p


def test_of_noise_nothing_is_supported_and_the_smallest_visible_slope_is_said(published: Results) -> None:
    answer = mixed(_planted(published, 0.0))
    rows = answer.slopes[answer.slopes.question == SIGNED]
    assert (rows.verdict == "not supported").all()
    assert (rows.detectable > 0).all()
    assert rows.why.str.contains("would have been seen in four of five such studies").all()
    assert answer.headline.count("not supported") == 1


def test_ratings_in_other_units_change_slopes_and_nothing_else(published: Results, supported: Mixed) -> None:
    ratings = published.ratings.copy()
    ratings.loc[ratings.construct == "link", "value"] *= 2
    other = mixed(replace(_planted(published, STEP), ratings=ratings))
    first, second = _of(supported, "link"), _of(other, "link")
    assert second.slope == pytest.approx(first.slope / 2, rel=1e-9)
    assert second.p == pytest.approx(first.p)
    assert second.high == pytest.approx(first.high / 2, rel=1e-6)


def test_a_rating_that_is_the_same_for_all_tasks_is_not_tested(published: Results) -> None:
    ratings = published.ratings.copy()
    ratings.loc[ratings.construct == "link", "value"] = 3.0
    answer = mixed(replace(published, ratings=ratings))
    row = _of(answer, "link")
    assert (row.verdict, row.why) == (NOT_TESTED, "the same for all tasks")
    assert set(answer.slopes[answer.slopes.verdict != NOT_TESTED].construct) == {"definition", "conduciveness"}


def test_ratings_that_say_the_same_are_named_together(published: Results) -> None:
    same = published.ratings[published.ratings.construct == "link"].assign(construct="definition")
    ratings = pd.concat([published.ratings[published.ratings.construct != "definition"], same], ignore_index=True)
    answer = mixed(replace(_planted(published, STEP), ratings=ratings))
    first, second = _of(answer, "definition"), _of(answer, "link")
    assert first.p == second.p
    assert (first.overlaps, second.overlaps) == ("link", "definition")
    assert first.correlation == pytest.approx(1.0)
    assert "correlates with Link over tasks (r = 1.00)" in first.why
    assert (first.verdict, second.verdict) == (ONLY_TOGETHER, ONLY_TOGETHER)
    assert (first.p_beside, second.p_beside) == (1.0, 1.0)
    assert "supported for Link, Definition only together (r up to 1.00" in answer.headline


def test_the_published_scores_support_no_rating(published: Results) -> None:
    answer = mixed(published)
    assert answer.headline.startswith("ratings (Definition, Link, Conduciveness) explain gains: not supported")
    assert (answer.slopes.df == 5).all()
    assert answer.slopes.p.min() > 0.3


def _only(published: Results, tasks: pd.DataFrame) -> Results:
    pairs = published.gains[published.gains.intermediate.isin(tasks.task) & published.gains.target.isin(tasks.task)]
    ratings = published.ratings[published.ratings.task.isin(tasks.task)]
    return replace(published, gains=pairs, tasks=tasks.reset_index(drop=True), ratings=ratings)


def test_slopes_by_choice_begin_with_the_answer_and_differ_in_one_respect_each(published: Results) -> None:
    few = _only(published, published.tasks[published.tasks.family.isin(["wassa", "empathetic_dialogues", "epitome"])])
    chosen, answer = slopes_by_choice(few), mixed(few).slopes
    own = answer[answer.question == SIGNED].set_index("construct")
    names = ["outcome", "weights", "cells", "without_rater"]
    first = chosen[(chosen[names] == chosen[names].iloc[0]).all(axis=1)].set_index("construct")
    for name in ("slope", "p"):
        np.testing.assert_allclose(first[name], own.loc[first.index, name])
    assert chosen.groupby(names, sort=False).size().eq(3).all()
    changes = (chosen[names] != chosen[names].iloc[0]).sum(axis=1)
    assert set(changes) == {0, 1} and chosen.outcome.nunique() == 4
    equal = chosen[chosen.weights == "equal"].set_index("construct")
    again = mixed(few, replace(PRIMARY, weights="equal")).slopes
    again = again[again.question == SIGNED].set_index("construct")
    np.testing.assert_allclose(equal.p, again.loc[equal.index, "p"])


def test_three_families_get_an_answer_that_names_its_degrees_of_freedom(published: Results) -> None:
    families = ["wassa", "empathetic_dialogues", "epitome"]
    answer = mixed(_only(published, published.tasks[published.tasks.family.isin(families)]))
    assert answer.slopes.df.eq(2).all()
    assert answer.slopes.why.str.contains("2 degrees of freedom").all()


def test_two_families_get_a_reason(published: Results) -> None:
    tasks = published.tasks[published.tasks.family.isin(["wassa", "epitome"])]
    answer = mixed(_only(published, tasks))
    assert answer.headline.startswith(
        f"nothing can be said: {len(tasks)} tasks in 2 families, whose slopes leave 1 degree of freedom"
    )
    assert answer.headline.endswith("it needs 5 tasks and 3 families, which leave 2")
    assert (answer.slopes.verdict == NOT_TESTED).all()
    assert answer.profile.empty


def test_a_distance_of_which_nothing_is_left_is_not_asked(published: Results) -> None:
    names = ["condolence", "empathy_hope", "epitome_er", "epitome_ex", "epitome_ip"]
    small = _only(published, published.tasks[published.tasks.task.isin(names)])
    same = small.ratings.assign(value=small.ratings.value.where(small.ratings.construct != "link", 2.0))
    same.loc[(same.construct == "link") & (same.task == "condolence"), "value"] = 4.0  # one task apart: a role effect
    answer = mixed(replace(small, ratings=same))
    assert "link" not in set(answer.slopes[answer.slopes.question == DISTANCE].construct)
    assert answer.slopes.slope.abs().max() < 1e6


def test_weights_in_any_unit_give_the_same_p() -> None:
    grid = drawn_grid(4, 3, np.random.default_rng(4))
    gains = noise_of(grid, 5, 8, intermediates=3.0)
    first = MixedTest.of(grid, draws=99)
    second = MixedTest.of(replace(grid, weights=grid.weights / 100), draws=99)
    for question in (SIGNED, DISTANCE):
        one, other = first.asked(question, gains), second.asked(question, 10 * gains)
        np.testing.assert_allclose(one.p, other.p, atol=0.02)  # ratios of 0 are tied but for rounding
        np.testing.assert_allclose(10 * one.slope, other.slope, rtol=1e-7)


def test_a_grid_without_ratings_or_with_equal_gains_cannot_be_asked() -> None:
    empty = drawn_grid(4, 3, np.random.default_rng(4))
    grid = with_outcome(empty, noise_of(empty, 1)[..., 0])
    assert why_not(grid) is None
    assert why_not(replace(grid, kinds={"samples": "size"})) == "no task has ratings"
    targets = np.arange(12.0)[None] * grid.mask
    for gains in (empty.outcome, targets):
        assert why_not(with_outcome(empty, gains)) == "gains differ by nothing but their tasks"
    kept = (np.arange(12) < 3)[:, None]
    few = replace(grid, mask=grid.mask & kept, weights=grid.weights * kept)
    assert Effects.of(few).left == 33 - 12 - 2, "pairs less means of targets and differences of three intermediates"
    assert why_not(few) == (
        "33 pairs can tell 3 intermediates apart and leave 19 degrees of freedom beside them and the targets; a test"
        " of ratings needs 5 and 1, from more tasks or the cells that are missing"
    )


@pytest.mark.simulation
def test_p_without_an_effect_is_seldom_small_and_a_planted_effect_is_seen(published: Results) -> None:
    frame = calibration(grid_of(published, PRIMARY), grids=50)
    frame = frame[frame.test == "mixed model"]
    without = frame[frame.planted == ""]
    assert len(without) == 14
    assert (without.alarms <= 9).all()  # ten or more of 50 at 5.5 %: 2 in 10,000, of 14 backgrounds 3 in 1,000
    assert without.alarms.sum() <= 55  # of 700 at 5 %: 56 or more with 1 in 1,000
    noise = frame[(frame.background == "independent noise") & (frame.planted != "")]
    assert (noise.rate > 0.8).all()
