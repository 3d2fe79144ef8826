"""The grid that an analysis looks at, and the features of its pairs."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from analysis.importance.grid import (
    PRIMARY,
    Specification,
    features_of,
    grid_of,
    pair_features,
    permutation_p,
    specifications,
    task_orders,
)
from analysis.importance.likelihood import _other_features
from analysis.importance.paper_mode import SETTINGS, paper_importances
from analysis.results.published import results
from tasks.errors import BadInput


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


# What is known of a pair of tasks.


@pytest.fixture
def fresh():
    return results()


def test_a_frame_of_pairs_has_the_declared_columns_and_no_other(fresh):
    pairs = pair_features(fresh)
    declared = [column for feature in features_of(fresh).values() for column in feature.columns]
    assert list(pairs.columns) == ["intermediate", "target", *declared]
    assert len(pairs) == 306
    assert all(one.meaning for feature in features_of(fresh).values() for one in feature.columns.values())


def test_features_compare_the_intermediate_with_the_target(fresh):
    pairs = pair_features(fresh).set_index(["intermediate", "target"])
    one = pairs.loc[("condolence", "news_emotion")]
    assert one.samples == pytest.approx(np.log2(1004 / 2700))
    assert (one.data_source, one.setting) == ("reddit>crowdsourced", "social_media>essay")
    assert (one.definition, one.definition_intermediate, one.definition_target) == (2.0, 5.0, 3.0)
    assert pairs.loc[("news_emotion", "condolence")].definition == -2.0
    assert pairs.loc[("news_emotion", "condolence")].definition_distance == 2.0


def test_context_sensitivity_is_a_difference_where_tasks_were_probed(fresh):
    assert "context_sensitivity" not in pair_features(fresh)
    tasks = fresh.tasks.task.tolist()
    probed = replace(fresh, sensitivity={task: 0.01 * place for place, task in enumerate(tasks)})
    pairs = pair_features(probed).set_index(["intermediate", "target"])
    assert list(pairs.reset_index().columns[2:]) == [c for f in features_of(probed).values() for c in f.columns]
    assert pairs.loc[(tasks[7], tasks[2])].context_sensitivity == pytest.approx(0.05)
    assert pairs.loc[(tasks[2], tasks[7])].context_sensitivity == pytest.approx(-0.05)


def test_a_grid_has_context_sensitivity_once_every_task_was_probed(fresh):
    tasks = fresh.tasks.task.tolist()
    lost = {task: 0.01 * (place % 5) for place, task in enumerate(tasks)}
    whole = grid_of(replace(fresh, sensitivity=lost), Specification())
    assert "context_sensitivity" in whole.others
    assert whole.facts["context_sensitivity"] == pytest.approx([lost[task] for task in tasks])
    part = grid_of(replace(fresh, sensitivity={tasks[0]: 0.1}), Specification())
    assert part.left_out["context_sensitivity"] == "not measured for every task"
    assert "context_sensitivity" not in grid_of(fresh, Specification()).left_out
    assert _other_features(whole).shape[1] == 1 + _other_features(grid_of(fresh, Specification())).shape[1]


def test_a_rater_can_be_left_out(fresh):
    pairs = pair_features(fresh, without_rater="A").set_index(["intermediate", "target"])
    assert pairs.loc[("condolence", "conv_emoint")].conduciveness_intermediate == 4.0  # B's; the mean is 3.5


def test_unknown_facts_are_undefined_and_never_zero(fresh):
    pairs = pair_features(fresh)
    assert pairs.data_similarity.isna().all()
    fresh.tasks.loc[0, "tokens"] = pd.NA
    touched = (pairs.intermediate == "condolence") | (pairs.target == "condolence")
    assert pair_features(fresh).tokens.isna().equals(touched)


def test_a_pair_with_two_similarities_is_refused(fresh):
    twice = pd.DataFrame({"intermediate": ["a", "a"], "target": ["b", "b"], "data_similarity": [0.1, 0.2]})
    with pytest.raises(BadInput, match="a > b is given twice"):
        pair_features(fresh, similarities=twice)
