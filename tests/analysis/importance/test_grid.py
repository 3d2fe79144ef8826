"""The grid of gains and features, its specifications, and permutations of tasks."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from analysis.importance.grid import PRIMARY, Specification, grid_of, permutation_p, specifications, task_orders
from analysis.importance.paper_mode import SETTINGS, paper_importances
from analysis.results.published import results


@pytest.fixture(scope="module")
def published():
    return results()


@pytest.fixture(scope="module")
def grid(published):
    return grid_of(published, PRIMARY)


def test_a_rater_who_rated_nothing_is_named(published):
    notes = grid_of(published, replace(PRIMARY, without_rater="Z")).notes
    assert notes == ("no rating is by Z, so that nobody's ratings are left out",)


def test_specifications_are_named_by_what_they_ask(published):
    keys = [one.key for one in specifications(published)]
    assert keys[0] == PRIMARY.key == Specification().key
    assert len(set(keys)) == len(keys) == 9


def test_points_of_a_correlation_are_differences_of_fishers_z(published, grid):
    one = published.gains.set_index(["intermediate", "target"]).loc[("news_empathy", "news_distress")]
    place = grid.tasks.index("news_empathy"), grid.tasks.index("news_distress")
    assert grid.outcome[place] == pytest.approx(100 * (np.arctanh(one.score) - np.arctanh(one.baseline)))


@pytest.mark.parametrize("outcome", ["points", "percent"])
def test_the_variance_between_pairs_is_dersimonian_and_lairds(outcome):
    published = results()
    one = published.gains[published.gains.target == "mi_adherent"]
    grid = grid_of(replace(published, gains=one), replace(PRIMARY, outcome=outcome))
    unit = 100 if outcome == "points" else 100 / one.baseline.to_numpy()
    gains, own = unit * one.gain.to_numpy(), 1 / (unit * one.standard_error.to_numpy()) ** 2
    mean = np.average(gains, weights=own)
    q = (own * (gains - mean) ** 2).sum()
    expected = (q - (len(gains) - 1)) / (own.sum() - (own**2).sum() / own.sum())
    assert expected > 0
    assert grid.outcome[grid.mask] == pytest.approx(gains[np.argsort([grid.tasks.index(x) for x in one.intermediate])])
    assert grid.heterogeneity == pytest.approx(expected)
    assert grid.weights[grid.mask].sum() == pytest.approx((1 / (1 / own + expected)).sum())


def test_missing_cells_and_unrated_tasks_are_noted(published):
    gains = published.gains.copy()
    gains.loc[[0, 5], ["score", "gain", "percent", "standard_error"]] = np.nan
    ratings = published.ratings[published.ratings.task != "mi_adherent"]
    grid = grid_of(replace(published, gains=gains, ratings=ratings), PRIMARY)
    assert grid.notes[0] == "2 pairs without a defined outcome left out"
    assert grid.notes[1] == "tasks without ratings are left out: mi_adherent"
    assert grid.mask.sum() == 17 * 16 - 2


def test_a_feature_that_is_not_known_of_every_task_is_left_out_with_the_reason(published):
    tasks = published.tasks.copy()
    tasks.loc[0, "tokens"] = pd.NA
    grid = grid_of(replace(published, tasks=tasks), PRIMARY)
    assert grid.left_out["tokens"] == "not measured for every task"
    assert "tokens" not in grid.kinds


def test_a_change_of_unit_moves_the_papers_importances(published):
    ratings = published.ratings.copy()
    ratings.loc[ratings.construct == "definition", "value"] *= 100
    asked = (published, replace(published, ratings=ratings))
    before, after = (paper_importances(results, SETTINGS["V1"], [0]).mean() for results in asked)
    moved = (after.set_index("feature").importance - before.set_index("feature").importance).abs()
    assert moved.max() > 0.1


def test_every_order_has_all_tasks():
    assert (np.sort(task_orders(5, 4, np.random.default_rng(0))) == np.arange(5)).all()


def test_the_observed_arrangement_counts_in_a_p():
    assert permutation_p(5.0, [1.0, 2.0, 3.0]) == 0.25
    assert permutation_p(2.0, [1.0, 2.0, 3.0]) == 0.75
