"""The guarded analysis: what it leaves out, what does not move it, and what it says of the published study."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from analysis.importance.grid import grid_of
from analysis.importance.guarded import guarded
from analysis.importance.null_tests import (
    Arrangements,
    against_nulls,
    family_orders,
    family_typical,
    largest_p,
    permutation_p,
    task_orders,
)
from analysis.importance.paper_mode import SETTINGS, paper_importances
from analysis.importance.ridge import PENALTIES, SCHEMES, USUAL_PENALTY, FamilyFits
from analysis.importance.specification import PRIMARY, Specification, specifications
from analysis.results.published import results


@pytest.fixture(scope="module")
def published():
    return results()


@pytest.fixture(scope="module")
def grid(published):
    return grid_of(published, PRIMARY)


def with_definition_times(published, factor):
    ratings = published.ratings.copy()
    ratings.loc[ratings.construct == "definition", "value"] *= factor
    return replace(published, ratings=ratings)


def gate(grid, draws=19):
    return against_nulls(grid, "target", grid.constructs, Arrangements.of(grid, draws, 0))


def test_no_construct_of_the_published_study_is_supported_and_the_numbers_are_said(published):
    steps = []
    found = guarded(published, draws=39, progress=lambda done, of, what: steps.append((done, of)))
    constructs = found.features[found.features.kind == "construct"]
    assert list(constructs.verdict) == ["not supported"] * 3
    assert constructs.why.str.contains("to Q2 .p = ").all()
    assert "not supported" in found.headline
    q2 = found.models.set_index(["left_out", "model"]).q2
    assert q2["target", "all features"] < 0.05
    assert set(found.models.left_out) == set(SCHEMES)
    untested = found.features[found.features.verdict == "not tested"]
    assert list(untested.feature) == ["data_similarity", "task_similarity"]
    assert (found.features.dropna(subset="low").low < found.features.dropna(subset="low").high).all()
    assert len(found.lines()) == 13
    assert steps[-1][0] == steps[-1][1]
    assert steps == sorted(steps)
    assert found.curve.key.is_unique
    assert set(found.curve.cells) == {"all", "not collapsed", "not contaminated"}
    assert set(found.curve.without_rater) == {"", "A", "B"}
    assert not found.curve.passes.any()


def test_a_change_of_unit_moves_the_paper_and_not_the_guarded_answer(published, grid):
    hundredfold = with_definition_times(published, 100)
    own, scaled = gate(grid), gate(grid_of(hundredfold, PRIMARY))
    assert scaled.added == pytest.approx(own.added, abs=1e-9)
    assert scaled.by_tasks == pytest.approx(own.by_tasks, abs=1e-9)
    assert (scaled.p == own.p).all()
    before, after = (paper_importances(one, SETTINGS["V1"], [0]).mean() for one in (published, hundredfold))
    moved = (after.set_index("feature").importance - before.set_index("feature").importance).abs()
    assert moved.max() > 0.1


def test_units_of_sizes_and_similarities_do_not_matter_either(published):
    rng = np.random.default_rng(4)
    pairs = published.gains[["intermediate", "target"]]
    similar = pairs.assign(data_similarity=rng.uniform(size=306), task_similarity=rng.uniform(size=306))
    own = grid_of(published, PRIMARY, similar)
    tasks = published.tasks.assign(tokens=100 * published.tasks.tokens)
    scaled = grid_of(
        replace(published, tasks=tasks), PRIMARY, similar.assign(data_similarity=100 * similar.data_similarity)
    )
    arrangements = Arrangements.of(own, 9, 0)
    for names in (["tokens"], ["data_similarity"], own.constructs):
        before, after = (against_nulls(one, "target", names, arrangements) for one in (own, scaled))
        assert after.by_tasks == pytest.approx(before.by_tasks, abs=1e-9)
        assert (after.p == before.p).all()


def test_a_rater_who_rated_nothing_is_named(published):
    notes = grid_of(published, replace(PRIMARY, without_rater="Z")).notes
    assert notes == ("no rating is by Z, so that nobody's ratings are left out",)


def test_signed_differences_lie_in_the_span_of_intermediate_and_target_effects(published, grid):
    below, above = np.nonzero(grid.mask)
    effects = np.hstack([np.eye(18)[below], np.eye(18)[above]])
    for name in grid.constructs:
        signed, distance = (block[..., 0][grid.mask] for block in grid.blocks(name))
        slopes = np.linalg.lstsq(effects, signed, rcond=None)[0]
        assert np.abs(effects @ slopes - signed).max() < 1e-8
        assert np.abs(effects @ np.linalg.lstsq(effects, distance, rcond=None)[0] - distance).max() > 0.1


@pytest.mark.parametrize("scheme", SCHEMES)
def test_no_family_is_tested_in_a_role_in_which_it_was_trained_on(grid, scheme):
    fits, tested_pairs = FamilyFits(grid, scheme, {"link": grid.blocks("link")}), np.zeros(grid.mask.size, dtype=int)
    for left in fits.folds:
        trained, tested = fits.trained_pairs(np.array(left)), fits.tested_pairs(left, left)
        trained_below, trained_above = (grid.family[places] for places in np.divmod(trained, len(grid.mask)))
        tested_below, tested_above = (grid.family[places] for places in np.divmod(tested, len(grid.mask)))
        if scheme != "intermediate":
            assert not {*trained_above} & {*tested_above}
        if scheme != "target":
            assert not {*trained_below} & {*tested_below}
        if scheme == "both":
            assert not {*tested_below, *tested_above} & {*trained_below, *trained_above}
        tested_pairs[tested] += 1
    assert tested_pairs.max() == 1
    is_pair = grid.mask.ravel()
    assert not tested_pairs[~is_pair].any()
    assert (tested_pairs[is_pair] == 1).mean() > 0.8  # too little may be left to train on without two large families


def test_what_is_typical_of_a_family_without_a_pair_is_that_of_the_families_that_have_one():
    family = np.array([0, 0, 1, 2, 2])
    alike = np.full((5, 5), 0.5)
    alike[0, 1] = alike[1, 0] = 0.9
    alike[3, 4] = alike[4, 3] = 0.7
    np.fill_diagonal(alike, 1.0)
    typical = family_typical(alike, family, is_code=False)
    assert np.diag(typical) == pytest.approx([0.9, 0.8, 0.7])
    assert typical[~np.eye(3, dtype=bool)] == pytest.approx(np.full(6, 0.5))
    assert family_typical(alike[1:4, 1:4], np.arange(3), is_code=False) == pytest.approx(np.full((3, 3), 0.5))


def test_what_belongs_to_a_target_alone_explains_no_gain(grid):
    raised = replace(grid, outcome=grid.outcome + 100 * np.arange(18)[None, :])
    assert gate(raised).added == pytest.approx(gate(grid).added, abs=1e-9)


def test_a_large_effect_of_a_rating_is_supported(grid):
    noise = np.random.default_rng(1).normal(size=grid.mask.shape)
    planted = replace(grid, outcome=grid.mask * (2 * grid.blocks("link")[0][..., 0] + noise), weights=grid.mask * 1.0)
    arrangements = Arrangements.of(planted, 99, 0)
    together = against_nulls(planted, "target", planted.constructs, arrangements)
    alone = [against_nulls(planted, "target", [name], arrangements) for name in planted.constructs]
    assert together.passes[0]
    assert largest_p(alone)[planted.constructs.index("link")] <= 0.05


def test_ratings_that_say_the_same_are_supported_only_together(published):
    ratings = published.ratings[published.ratings.construct == "link"]
    same = pd.concat([ratings.assign(construct=name) for name in ("definition", "link", "conduciveness")])
    link = ratings.groupby("task").value.mean()
    gains, rng = published.gains.copy(), np.random.default_rng(3)
    apart = gains.intermediate.map(link).to_numpy() - gains.target.map(link).to_numpy()
    gains["score"] = gains.baseline + (8 * apart + rng.normal(size=len(gains)) * 3) / 100
    gains["metric"] = "macro_f1"
    answer = guarded(replace(published, ratings=same.reset_index(drop=True), gains=gains), draws=99)
    rows = answer.features.set_index("feature")
    assert "families that were not seen: supported" in answer.headline
    assert set(rows.verdict[["definition", "link", "conduciveness"]]) == {"only together"}
    assert "beside Link, with which it correlates over tasks (r = 1.00)" in rows.why["definition"]


def test_a_rating_that_is_the_same_for_all_tasks_is_not_tested(published):
    ratings = published.ratings.copy()
    ratings.loc[ratings.construct == "link", "value"] = 3.0
    row = guarded(replace(published, ratings=ratings), draws=9).features.set_index("feature").loc["link"]
    assert (row.verdict, row.why) == ("not tested", "the same for all tasks")


def test_specifications_are_named_by_what_they_ask(published):
    keys = [one.key for one in specifications(published)]
    assert keys[0] == PRIMARY.key == Specification().key
    assert len(set(keys)) == len(keys) == 11


def test_points_of_a_correlation_are_differences_of_fishers_z(published, grid):
    one = published.gains.set_index(["intermediate", "target"]).loc[("news_empathy", "news_distress")]
    place = grid.tasks.index("news_empathy"), grid.tasks.index("news_distress")
    assert grid.outcome[place] == pytest.approx(100 * (np.arctanh(one.score) - np.arctanh(one.baseline)))


def test_a_study_of_three_tasks_gets_a_reason_and_no_verdict(published):
    names = ["condolence", "empathy_hope", "mi_adherent"]
    small = replace(
        published,
        gains=published.gains[published.gains.intermediate.isin(names) & published.gains.target.isin(names)],
        tasks=published.tasks[published.tasks.task.isin(names)].reset_index(drop=True),
        ratings=published.ratings[published.ratings.task.isin(names)],
    )
    found = guarded(small, draws=9)
    assert found.headline == (
        "nothing can be said: 6 pairs of 3 tasks in 3 families; leaving families out needs 30 pairs and 4 families"
    )
    assert set(found.features.verdict) == {"not tested"}


def test_a_study_without_ratings_gets_a_reason(published):
    found = guarded(replace(published, ratings=published.ratings.head(0)), draws=9)
    assert found.headline == "nothing can be said: no task has ratings"


def test_missing_cells_and_unrated_tasks_are_noted(published):
    gains = published.gains.copy()
    gains.loc[[0, 5], ["score", "gain", "percent", "standard_error"]] = np.nan
    ratings = published.ratings[published.ratings.task != "mi_adherent"]
    grid = grid_of(replace(published, gains=gains, ratings=ratings), PRIMARY)
    assert grid.notes[0] == "2 pairs without a defined outcome left out"
    assert grid.notes[1] == "tasks without ratings are left out: mi_adherent"
    assert grid.mask.sum() == 17 * 16 - 2
    assert np.isfinite(gate(grid).added).all()


def test_a_feature_that_is_not_known_of_every_task_is_left_out_with_the_reason(published):
    tasks = published.tasks.copy()
    tasks.loc[0, "tokens"] = pd.NA
    grid = grid_of(replace(published, tasks=tasks), PRIMARY)
    assert grid.left_out["tokens"] == "not measured for every task"
    assert "tokens" not in grid.kinds


def test_all_arrangements_of_six_families_are_gone_through_once():
    orders = family_orders(6, 10, np.random.default_rng(0))
    assert orders.shape == (719, 6)
    assert len({tuple(one) for one in orders}) == 719
    assert family_orders(8, 10, np.random.default_rng(0)).shape == (10, 8)
    assert (np.sort(task_orders(5, 4, np.random.default_rng(0))) == np.arange(5)).all()


def test_the_observed_arrangement_counts_in_a_p():
    assert permutation_p(5.0, [1.0, 2.0, 3.0]) == 0.25
    assert permutation_p(2.0, [1.0, 2.0, 3.0]) == 0.75


@pytest.mark.parametrize("n_families", [1, 2, 3])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_where_tuning_would_leave_all_families_out_the_usual_penalty_stands_and_nothing_is_divided_by_0(
    published, n_families, scheme
):
    """Of two families, a fold and one left out within it leave no pair to train on, whose weights sum to 0."""
    largest = published.tasks.family.value_counts().index[:n_families]
    tasks = published.tasks[published.tasks.family.isin(largest)].reset_index(drop=True)
    gains = published.gains
    gains = gains[gains.target.isin(tasks.task) & gains.intermediate.isin(tasks.task)].reset_index(drop=True)
    ratings = published.ratings[published.ratings.task.isin(tasks.task)]
    few = grid_of(replace(published, tasks=tasks, gains=gains, ratings=ratings), PRIMARY)
    with np.errstate(all="raise"):
        fits = FamilyFits(few, scheme, {name: few.blocks(name) for name in few.kinds})
        penalties = fits.penalties
        assert np.isfinite(fits.q2()).all() == (n_families > 1)
    if n_families == 2:
        assert (penalties == PENALTIES.index(USUAL_PENALTY)).all()
