"""What is known of a pair of tasks."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from analysis.importance.grid import Specification, features_of, grid_of, pair_features
from analysis.importance.likelihood import _other_features
from analysis.results.published import results
from tasks.errors import BadInput


@pytest.fixture
def published():
    return results()


def test_a_frame_of_pairs_has_the_declared_columns_and_no_other(published):
    pairs = pair_features(published)
    declared = [column for feature in features_of(published).values() for column in feature.columns]
    assert list(pairs.columns) == ["intermediate", "target", *declared]
    assert len(pairs) == 306
    assert all(one.meaning for feature in features_of(published).values() for one in feature.columns.values())


def test_features_compare_the_intermediate_with_the_target(published):
    pairs = pair_features(published).set_index(["intermediate", "target"])
    one = pairs.loc[("condolence", "news_emotion")]
    assert one.samples == pytest.approx(np.log2(1004 / 2700))
    assert (one.data_source, one.setting) == ("reddit>crowdsourced", "social_media>essay")
    assert (one.definition, one.definition_intermediate, one.definition_target) == (2.0, 5.0, 3.0)
    assert pairs.loc[("news_emotion", "condolence")].definition == -2.0
    assert pairs.loc[("news_emotion", "condolence")].definition_distance == 2.0


def test_context_sensitivity_is_a_difference_where_tasks_were_probed(published):
    assert "context_sensitivity" not in pair_features(published)
    tasks = published.tasks.task.tolist()
    probed = replace(published, sensitivity={task: 0.01 * place for place, task in enumerate(tasks)})
    pairs = pair_features(probed).set_index(["intermediate", "target"])
    assert list(pairs.reset_index().columns[2:]) == [c for f in features_of(probed).values() for c in f.columns]
    assert pairs.loc[(tasks[7], tasks[2])].context_sensitivity == pytest.approx(0.05)
    assert pairs.loc[(tasks[2], tasks[7])].context_sensitivity == pytest.approx(-0.05)


def test_a_grid_has_context_sensitivity_once_every_task_was_probed(published):
    tasks = published.tasks.task.tolist()
    lost = {task: 0.01 * (place % 5) for place, task in enumerate(tasks)}
    whole = grid_of(replace(published, sensitivity=lost), Specification())
    assert "context_sensitivity" in whole.others
    assert whole.facts["context_sensitivity"] == pytest.approx([lost[task] for task in tasks])
    part = grid_of(replace(published, sensitivity={tasks[0]: 0.1}), Specification())
    assert part.left_out["context_sensitivity"] == "not measured for every task"
    assert "context_sensitivity" not in grid_of(published, Specification()).left_out
    assert _other_features(whole).shape[1] == 1 + _other_features(grid_of(published, Specification())).shape[1]


def test_a_rater_can_be_left_out(published):
    pairs = pair_features(published, without_rater="A").set_index(["intermediate", "target"])
    assert pairs.loc[("condolence", "conv_emoint")].conduciveness_intermediate == 4.0  # B's; the mean is 3.5


def test_unknown_facts_are_undefined_and_never_zero(published):
    pairs = pair_features(published)
    assert pairs.data_similarity.isna().all()
    published.tasks.loc[0, "tokens"] = pd.NA
    touched = (pairs.intermediate == "condolence") | (pairs.target == "condolence")
    assert pair_features(published).tokens.isna().equals(touched)


def test_a_pair_with_two_similarities_is_refused(published):
    twice = pd.DataFrame({"intermediate": ["a", "a"], "target": ["b", "b"], "data_similarity": [0.1, 0.2]})
    with pytest.raises(BadInput, match="a > b is given twice"):
        pair_features(published, similarities=twice)
