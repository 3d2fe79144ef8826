"""The mixed model of gains on ratings: what it finds, and what it does not."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t as student

from analysis.importance import detection, likelihood, mixed_test
from analysis.importance import mixed as answer_of
from analysis.importance.grid import PRIMARY, grid_of
from analysis.importance.likelihood import Effects, Model, standardised
from analysis.importance.mixed import NOT_TESTED, ONLY_TOGETHER, SUPPORTED, mixed, slopes_by_choice
from benchmarks.calibrations.mixed import (
    GRIDS,
    MANY,
    NAMED,
    REPEATS,
    SUPPORTED_ALONE,
    TOGETHER,
    _overlapping,
    calibration,
    drawn_grid,
)
from benchmarks.grids.backgrounds import BACKGROUNDS
from tests.analysis.importance.mixed.grids import NAMES, noise_of, small_grid, with_outcome

STEP = 6.0  # points per step that are planted


@pytest.fixture(autouse=True, scope="module")
def few_grids():
    """Few grids and few slopes to try: none of these tests is about the third digit of what follows from them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(detection, "SLOPE_GRIDS", 20)
        patch.setattr(answer_of, "STEPS", 41)
        yield


def _planted(published, per_step, seed=1):
    """The published study with made-up scores: noise, and points per step of Link."""
    link = published.ratings[published.ratings.construct == "link"].groupby("task").value.mean()
    gains, rng = published.gains.copy(), np.random.default_rng(seed)
    apart = gains.intermediate.map(link).to_numpy() - gains.target.map(link).to_numpy()
    gains["score"] = gains.baseline + (per_step * apart + rng.normal(size=len(gains)) * 4) / 100
    gains["metric"] = "macro_f1"
    return replace(published, gains=gains)


@pytest.fixture(scope="module")
def supported(published):
    return mixed(_planted(published, STEP))


def _of(answer, construct, question=mixed_test.SIGNED):
    return answer.slopes[(answer.slopes.construct == construct) & (answer.slopes.question == question)].iloc[0]


def test_a_planted_slope_is_found_in_points_per_step(supported):
    row = _of(supported, "link")
    assert row.verdict == SUPPORTED
    assert row.low < STEP < row.high
    assert row.slope == pytest.approx(STEP, abs=1.5)
    assert 0.3 < row.share <= 1.0
    assert "supported for" in supported.headline


def test_intervals_leave_out_no_slope_exactly_where_the_verdict_is_supported(supported):
    for row in supported.slopes.itertuples():
        assert (row.low > 0 or row.high < 0) == (row.verdict == SUPPORTED)
        assert row.low <= row.slope <= row.high
        assert row.p == max(row.p_ratio, row.p_families)


def test_the_profile_is_highest_at_the_slope_and_its_p_falls_with_distance(supported):
    own = supported.profile[supported.profile.construct == "link"]
    best = own.loc[own["drop"].idxmin()]
    row = _of(supported, "link")
    assert best.slope == pytest.approx(row.slope, abs=(own.slope.max() - own.slope.min()) / 20)
    assert own["drop"].min() == 0
    assert own.p.iloc[[0, -1]].max() < 0.05 < best.p


def test_of_noise_nothing_is_supported_and_the_smallest_visible_slope_is_said(published):
    answer = mixed(_planted(published, 0.0))
    rows = answer.slopes[answer.slopes.question == mixed_test.SIGNED]
    assert (rows.verdict == "not supported").all()
    assert (rows.detectable > 0).all()
    assert rows.why.str.contains("would have been seen in four of five such studies").all()
    assert answer.headline.count("not supported") == 1


def test_ratings_in_other_units_change_slopes_and_nothing_else(published, supported):
    ratings = published.ratings.copy()
    ratings.loc[ratings.construct == "link", "value"] *= 2
    other = mixed(replace(_planted(published, STEP), ratings=ratings))
    first, second = _of(supported, "link"), _of(other, "link")
    assert second.slope == pytest.approx(first.slope / 2, rel=1e-9)
    assert second.p == pytest.approx(first.p)
    assert second.high == pytest.approx(first.high / 2, rel=1e-6)


def test_a_rating_that_is_the_same_for_all_tasks_is_not_tested(published):
    ratings = published.ratings.copy()
    ratings.loc[ratings.construct == "link", "value"] = 3.0
    answer = mixed(replace(published, ratings=ratings))
    row = _of(answer, "link")
    assert (row.verdict, row.why) == (NOT_TESTED, "the same for all tasks")
    assert set(answer.slopes[answer.slopes.verdict != NOT_TESTED].construct) == {"definition", "conduciveness"}


def test_ratings_that_say_the_same_are_named_together(published):
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


def test_the_published_scores_support_no_rating(published):
    answer = mixed(published)
    assert answer.headline.startswith("ratings (Definition, Link, Conduciveness) explain gains: not supported")
    assert (answer.slopes.df == 5).all()
    assert answer.slopes.p.min() > 0.3


def _only(published, tasks):
    pairs = published.gains[published.gains.intermediate.isin(tasks.task) & published.gains.target.isin(tasks.task)]
    ratings = published.ratings[published.ratings.task.isin(tasks.task)]
    return replace(published, gains=pairs, tasks=tasks.reset_index(drop=True), ratings=ratings)


def test_slopes_by_choice_begin_with_the_answer_and_differ_in_one_respect_each(published):
    few = _only(published, published.tasks[published.tasks.family.isin(["wassa", "empathetic_dialogues", "epitome"])])
    chosen, answer = slopes_by_choice(few), mixed(few).slopes
    own = answer[answer.question == mixed_test.SIGNED].set_index("construct")
    names = ["outcome", "weights", "cells", "without_rater"]
    first = chosen[(chosen[names] == chosen[names].iloc[0]).all(axis=1)].set_index("construct")
    for name in ("slope", "p"):
        np.testing.assert_allclose(first[name], own.loc[first.index, name])
    assert chosen.groupby(names, sort=False).size().eq(3).all()
    changes = (chosen[names] != chosen[names].iloc[0]).sum(axis=1)
    assert set(changes) == {0, 1} and chosen.outcome.nunique() == 4
    equal = chosen[chosen.weights == "equal"].set_index("construct")
    again = mixed(few, replace(PRIMARY, weights="equal")).slopes
    again = again[again.question == mixed_test.SIGNED].set_index("construct")
    np.testing.assert_allclose(equal.p, again.loc[equal.index, "p"])


def test_three_families_get_an_answer_that_names_its_degrees_of_freedom(published):
    families = ["wassa", "empathetic_dialogues", "epitome"]
    answer = mixed(_only(published, published.tasks[published.tasks.family.isin(families)]))
    assert answer.slopes.df.eq(2).all()
    assert answer.slopes.why.str.contains("2 degrees of freedom").all()


def test_targets_of_one_family_get_a_reason_however_many_families_teach_them(published):
    family = published.tasks.set_index("task").family
    gains = published.gains[published.gains.target.map(family) == "empathetic_dialogues"]
    answer = mixed(replace(published, gains=gains))
    assert "with targets of 1 family, whose slopes leave 0 degrees of freedom" in answer.headline
    assert (answer.slopes.verdict == NOT_TESTED).all()


def test_two_families_get_a_reason(published):
    tasks = published.tasks[published.tasks.family.isin(["wassa", "epitome"])]
    answer = mixed(_only(published, tasks))
    assert answer.headline.startswith(
        f"nothing can be said: {len(tasks)} rated tasks, with targets of 2 families, whose slopes leave 1 degree of"
    )
    assert answer.headline.endswith("it needs 5 tasks and targets of 3 families, which leave 2")
    assert (answer.slopes.verdict == NOT_TESTED).all()
    assert answer.profile.empty


def test_a_distance_of_which_nothing_is_left_is_not_asked(published):
    names = ["condolence", "empathy_hope", "epitome_er", "epitome_ex", "epitome_ip"]
    small = _only(published, published.tasks[published.tasks.task.isin(names)])
    same = small.ratings.assign(value=small.ratings.value.where(small.ratings.construct != "link", 2.0))
    same.loc[(same.construct == "link") & (same.task == "condolence"), "value"] = 4.0  # one task apart: a role effect
    answer = mixed(replace(small, ratings=same))
    assert "link" not in set(answer.slopes[answer.slopes.question == mixed_test.DISTANCE].construct)
    assert answer.slopes.slope.abs().max() < 1e6


def test_weights_in_any_unit_give_the_same_p():
    grid = drawn_grid(4, 3, np.random.default_rng(4))
    gains = noise_of(grid, 5, 8, intermediates=3.0)
    first = mixed_test.MixedTest.of(grid, draws=99)
    second = mixed_test.MixedTest.of(replace(grid, weights=grid.weights / 100), draws=99)
    for question in (mixed_test.SIGNED, mixed_test.DISTANCE):
        one, other = first.answer(question, gains), second.answer(question, 10 * gains)
        np.testing.assert_allclose(one.p, other.p, atol=0.02)  # ratios of 0 are tied but for rounding
        np.testing.assert_allclose(10 * one.slope, other.slope, rtol=1e-7)


def test_a_grid_without_ratings_or_with_equal_gains_cannot_be_asked():
    empty = drawn_grid(4, 3, np.random.default_rng(4))
    grid = with_outcome(empty, noise_of(empty, 1)[..., 0])
    assert mixed_test.why_not(grid) is None
    assert mixed_test.why_not(replace(grid, kinds={"samples": "size"})) == "no task has ratings"
    alike = replace(
        grid, kinds={}, left_out={"link": "the same for all tasks", "tokens": "not measured for every task"}
    )
    assert mixed_test.why_not(alike) == "ratings do not differ between tasks"
    targets = np.arange(12.0)[None] * grid.mask
    for gains in (empty.outcome, targets):
        assert mixed_test.why_not(with_outcome(empty, gains)) == "gains differ by nothing but their tasks"
    kept = (np.arange(12) < 3)[:, None]
    few = replace(grid, mask=grid.mask & kept, weights=grid.weights * kept)
    assert Effects.of(few).left == 33 - 12 - 2, "pairs less means of targets and differences of three intermediates"
    assert mixed_test.why_not(few) == (
        "33 pairs can tell 3 intermediates apart and leave 19 degrees of freedom beside them and the targets; a test"
        " of ratings needs 5 and 1, from more tasks or the cells that are missing"
    )


@pytest.mark.simulation
def test_p_without_an_effect_is_seldom_small_and_a_planted_effect_is_seen(published):
    frame = calibration(grid_of(published, PRIMARY), grids=50)
    frame = frame[frame.test == "mixed model"]
    without = frame[frame.planted == ""]
    assert len(without) == 14
    assert (without.alarms <= 9).all()  # ten or more of 50 at 5.5 %: 2 in 10,000, of 14 backgrounds 3 in 1,000
    assert without.alarms.sum() <= 55  # of 700 at 5 %: 56 or more with 1 in 1,000
    noise = frame[(frame.background == "independent noise") & (frame.planted != "")]
    assert (noise.rate > 0.8).all()


# The test of distances, against a restricted likelihood of all pairs with a dense covariance.


def _restricted(design, covariance, values, column):
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


def test_ratios_are_those_of_the_likelihood_of_all_pairs():
    for seed in range(3):
        grid = small_grid(seed, sizes=(3, 3, 2, 2))
        facts = np.stack([grid.facts[name] for name in NAMES], axis=1)
        gains, distances = noise_of(grid, 4, seed), mixed_test.Distances.of(grid, facts, draws=9)
        intermediate, target = np.nonzero(grid.mask)
        design = np.hstack([np.eye(10)[intermediate], np.eye(10)[target]])
        noise = 1 / grid.weights[grid.mask]
        same = (grid.family[intermediate][:, None] == grid.family[intermediate]) & (
            grid.family[target][:, None] == grid.family[target]
        )
        covariances = [np.diag(noise) + variance * np.median(noise) * same for variance in mixed_test.VARIANCES]
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


def test_a_planted_distance_is_found_with_its_size():
    grid = small_grid(1, sizes=(4, 4, 4, 4), missing=0)
    facts = np.stack([grid.facts[name] for name in NAMES], axis=1)
    distances = mixed_test.Distances.of(grid, facts, draws=199)
    apart = np.abs(facts[:, None, 0] - facts[None, :, 0]) * grid.mask
    gains = noise_of(grid, 1, 9) - 8.0 * apart[..., None]
    slope, error, corrected, guard = distances.tested(gains)
    assert abs(slope[0, 0] + 8.0) < 4 * error[0, 0]
    assert corrected[0, 0] <= 0.01
    assert guard.df == 3


# Ratings that overlap: a slope beside another is that of a regression on both, and verdicts name what can be told.

NAN = float("nan")


def _beside(grid):
    test = mixed_test.MixedTest.of(grid, draws=19)
    beside = mixed_test.MixedTest.joint(test, 0, np.array([1]))
    assert beside is not None
    return test, beside


def test_a_slope_beside_another_is_that_of_generalised_least_squares_on_both():
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


def test_within_families_of_targets_the_other_slope_is_in_the_regression_too():
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


def test_no_answer_hangs_on_which_of_its_bases_a_decomposition_gives(monkeypatch):
    """An axis has either sign, a space has many bases, and the processor decides: no number is drawn of them."""
    grid = small_grid(3)
    gains = noise_of(grid, 3, 5, intermediates=3.0)

    def answered():
        test, beside = _beside(grid)
        parts = [test.answer(mixed_test.SIGNED, gains), test.answer(mixed_test.DISTANCE, gains)]
        parts.append(beside.answer(mixed_test.SIGNED, gains))
        noise = detection.own_noise(mixed_test.MixedTest.of(with_outcome(grid, gains[..., 0]), draws=19), 2, _rng())
        return [*(number for part in parts for number in (part.slope, part.ratio_p, part.p)), noise]

    first = answered()
    svd, eigh, space = np.linalg.svd, np.linalg.eigh, likelihood.null_space
    signs = np.resize([-1.0, 1.0, -1.0], 99)
    monkeypatch.setattr(np.linalg, "svd", lambda *of, **options: _signed(svd(*of, **options), signs))
    monkeypatch.setattr(np.linalg, "eigh", lambda of: (eigh(of)[0], eigh(of)[1] * signs[: len(of)]))
    monkeypatch.setattr(
        likelihood, "null_space", lambda of: space(of) @ np.linalg.qr(_rng().normal(size=(space(of).shape[1],) * 2))[0]
    )
    for number, again in zip(first, answered(), strict=True):
        np.testing.assert_allclose(again, number, rtol=1e-7, atol=1e-10)


def _rng():
    return np.random.default_rng(0)


def _signed(parts, signs):
    left, sizes, right = parts
    return left * signs[: left.shape[1]], sizes, right * signs[: len(right), None]


def test_what_was_taken_beside_leaves_no_degree_of_freedom_to_the_noise():
    grid = small_grid(2)
    test, beside = _beside(grid)
    assert isinstance(beside.model.effects, Effects)
    assert beside.model.effects.count == test.model.effects.count - 1
    gains = noise_of(grid, 3, 2)
    np.testing.assert_allclose(beside.scale(gains), test.scale(gains))


def test_ratings_that_correlate_by_eight_tenths_overlap_whichever_way_that_is_rounded():
    grid = drawn_grid(4, 3, np.random.default_rng(2))
    first = standardised(grid.facts["definition"])

    def with_other(r, seed):
        other = _overlapping(first, r, np.random.default_rng(seed))
        return mixed_test.MixedTest.of(replace(grid, facts={**grid.facts, "link": other}), draws=9)

    tests = [with_other(0.8, seed) for seed in range(30)]
    rounded = [np.corrcoef(test.ratings.T)[0, 1] for test in tests]
    assert min(rounded) < 0.8 <= max(rounded)
    assert all(mixed_test.Overlaps.of(tests[place(rounded)]).partners[0, 1] for place in (np.argmin, np.argmax))
    assert not mixed_test.Overlaps.of(with_other(0.799, 0)).partners[0, 1]


def test_verdicts_name_a_rating_only_if_it_is_supported_beside_those_that_overlap():
    pair = mixed_test.Overlaps(np.array([[False, True], [True, False]]), {})
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
    alone = mixed_test.Overlaps(np.zeros((2, 2), dtype=bool), {})
    unasked = np.full(p.shape, NAN)
    np.testing.assert_array_equal(alone.named(p, unasked), p <= 0.05)
    assert not alone.together(p, unasked).any()


def test_ratings_that_are_the_same_are_never_told_apart():
    grid = drawn_grid(4, 3, np.random.default_rng(4))
    grid = replace(grid, facts=grid.facts | {"link": 2 * grid.facts["definition"]})
    test = mixed_test.MixedTest.of(grid, draws=99)
    overlaps = mixed_test.Overlaps.of(test)
    gains = noise_of(grid, 4) + 8 * test.effect(mixed_test.SIGNED, 0)[..., None]
    p, beside = test.answer(mixed_test.SIGNED, gains).p, overlaps.p_beside(gains)
    assert (p[:2] <= 0.05).all() and (beside[:2] == 1).all() and np.isnan(beside[2]).all()
    assert overlaps.together(p, beside)[:2].all()


# The replication guard: its meta-analysis by hand, and slopes of families of targets by regression.


def _by_hand(slopes, variances):
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
def test_the_mean_and_its_error_are_those_of_the_formulas(spread):
    rng = np.random.default_rng(int(spread))
    for _ in range(20):
        variances = rng.uniform(0.2, 2.0, size=5)
        slopes = 1 + rng.normal(size=5) * np.sqrt(variances + spread)
        mean, error = mixed_test.pool(slopes[:, None, None], variances[:, None, None])
        assert (mean[0, 0], error[0, 0]) == pytest.approx(_by_hand(list(slopes), list(variances)))


def test_of_one_rating_the_p_is_students_and_of_several_it_is_larger():
    slopes = np.array([1.0, 1.4, 0.8, 1.3])[:, None, None]
    variances = np.full_like(slopes, 0.1)
    single = mixed_test.replication(slopes, variances, np.eye(1))
    mean, error = _by_hand([1.0, 1.4, 0.8, 1.3], [0.1] * 4)
    assert single.df == 3
    assert single.alone[0, 0] == pytest.approx(2 * student.sf(mean / error, 3))
    assert single.corrected[0, 0] == pytest.approx(single.alone[0, 0], abs=0.01)
    twice = np.repeat(slopes, 2, axis=1), np.repeat(variances, 2, axis=1)
    independent, same = (mixed_test.replication(*twice, np.array([[1.0, r], [r, 1.0]])) for r in (0.0, 1.0))
    alone = single.alone[0, 0]
    assert independent.corrected[0, 0] == pytest.approx(1 - (1 - alone) ** 2, abs=0.01)
    assert same.corrected[0, 0] == pytest.approx(alone, abs=0.01)


def test_fewer_than_two_families_never_support_anything():
    slopes = np.ones((1, 2, 3))
    assert (mixed_test.replication(slopes, slopes, np.eye(2)).corrected == 1).all()


def test_without_other_components_slopes_are_those_of_weighted_regressions_within_targets():
    grid = small_grid(2)
    facts = np.stack([grid.facts[name] for name in NAMES], axis=1)
    model = Model.of(grid, facts, draws=9)
    gains = noise_of(grid, 2, 2)
    guard = mixed_test.FamilySlopes.of(grid, model, facts)
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


# The tables of the test's own page are those of the simulation that was written.

DOCS = Path(__file__).parents[4] / "docs"
RATED = ("definition", "link", "conduciveness")


def _rates(frame, design, test, background):
    rows = frame[(frame.design == design) & (frame.test == test) & (frame.background == background)]
    return dict(zip(rows.planted.fillna(""), rows.rate, strict=True))


def _short(rate, digits):
    return f"{rate:.{digits}f}".removeprefix("0") if round(rate, digits) < 1 else "1.00"


def test_every_rate_on_the_page_is_that_of_the_file():
    frame = pd.read_csv(DOCS / "calibration.csv")
    lines = (DOCS / "what-explains-gains.md").read_text(encoding="utf-8").splitlines()
    assert (frame.grids == GRIDS * np.where(frame.design == MANY, REPEATS, 1)).all()
    for (design, test, background), _ in frame.groupby(["design", "test", "background"], sort=False):
        if design == MANY or test not in ("mixed model", "mixed model, distance"):
            continue
        rates = _rates(frame, design, test, background)
        cells = [_short(rates[""], 3), *(_short(rates[name], 2) for name in RATED)]
        if design != "published":
            cells = [design, background, *cells]
        elif test == "mixed model":
            alone = _rates(frame, design, "likelihood ratio alone", background)
            many = _rates(frame, MANY, test, background)
            cells = [background, cells[0], _short(many[""], 3), *cells[1:], _short(alone[""], 3)]
        else:
            cells = [background, *cells]
        assert f"| {' | '.join(cells)} |" in lines


def test_false_alarms_are_at_most_five_in_a_hundred_in_every_background():
    frame = pd.read_csv(DOCS / "calibration.csv")
    without = frame[frame.planted.isna() & (frame.test == "mixed model")]
    many = without[without.design == MANY].set_index("background").rate
    assert len(many) == len(BACKGROUNDS)
    assert many.max() <= 0.05
    assert (without.low <= 0.05).all(), "of 1,000 grids by chance alone"
    text = " ".join((DOCS / "what-explains-gains.md").read_text(encoding="utf-8").split())
    assert f"the most is {many.idxmax()} ({_short(many.max(), 3)}," in text


def test_the_shares_of_the_papers_procedure_are_those_of_their_file():
    lines = (DOCS / "what-explains-gains.md").read_text(encoding="utf-8").splitlines()
    for row in pd.read_csv(DOCS / "paper_calibration.csv").itertuples():
        assert f"| {row.background} | {_short(row.rate, 2)} | {_short(row.above / row.grids, 2)} |" in lines


def test_every_rate_of_overlapping_ratings_is_that_of_the_file():
    lines = (DOCS / "what-explains-gains.md").read_text(encoding="utf-8").splitlines()
    frame = pd.read_csv(DOCS / "overlaps_calibration.csv", keep_default_na=False)
    assert frame.grids.eq(1000).all()
    for (r, background), part in frame.groupby(["correlation", "background"], sort=False):
        rates = part.set_index(["planted", "rating", "verdict"]).rate
        first, other = rates["first"]["first"], rates["first"]["other"]
        cells = [
            f"{r:g}",
            background,
            f"{_short(rates['', 'first', NAMED], 3)}, {_short(rates['', 'first', TOGETHER], 3)}",
            f"{_short(first[SUPPORTED_ALONE], 2)}, {_short(other[SUPPORTED_ALONE], 2)}",
            *(_short(first[NAMED], 2), _short(first[TOGETHER], 2), _short(other[NAMED], 3)),
        ]
        assert f"| {' | '.join(cells)} |" in lines
    planted = frame[frame.planted == "first"].set_index(["rating", "verdict"]).rate
    wrong = planted["other"][SUPPORTED_ALONE]
    assert (round(wrong.min(), 2), round(wrong.max(), 2)) == (0.15, 0.99)
    assert round(planted["other"][NAMED].max(), 3) == 0.03


def test_with_nothing_to_follow_a_rating_that_overlaps_is_seldom_named_or_taken_together():
    frame = pd.read_csv(DOCS / "overlaps_calibration.csv", keep_default_na=False)
    without = frame[(frame.planted == "") & (frame.verdict != SUPPORTED_ALONE)]
    assert (without.groupby(["correlation", "background", "rating"]).rate.sum() <= 0.05).all()
