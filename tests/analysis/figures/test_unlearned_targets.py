"""A target that has not learned alone: no figure gives its gains a mark of significance, and each says so."""

from __future__ import annotations

import pytest

from analysis.figures.forest import forest_frame
from analysis.figures.heatmaps import heatmap, squares
from analysis.figures.uncertainty_map import BRACKETS, map_frame, map_plan
from analysis.results.study_results import StudyResults
from tests.analysis.gains.test_learned import RESPONSE, WORDS
from tests.support.studies.fake_study import FakeTask, fake_study

HOPE, ROLE = FakeTask("hope", rows=300, groups=60), FakeTask("role", rows=300, groups=60)


def results_of(root, last):
    """Two tasks that help each other; the baselines of those in ``last`` are best at the last of their epochs."""
    history = [{"epoch": epoch} for epoch in (1, 2, 3, 4)]
    study = fake_study(
        root / "store",
        (HOPE, ROLE),
        systems=WORDS,
        study=RESPONSE,
        history=history,
        helpful=[("role", "hope"), ("hope", "role")],
        best_epoch={((None, target), 1): 4 for target in last},
    )
    return study, StudyResults.of(*study)


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return results_of(tmp_path_factory.mktemp("one"), ["hope"])


def test_the_study_has_a_target_of_either_kind_and_both_gains_are_significant(study) -> None:
    _, results = study
    assert dict(zip(results.learned.target, results.learned.has_learned, strict=True)) == {"hope": False, "role": True}
    assert results.gains.significant.all()


def test_the_map_frames_only_what_may_be_claimed_and_sets_the_other_title_in_brackets(study) -> None:
    (_, manifest), results = study
    frame = map_frame(results.gains, manifest, setting="full")
    shown = frame[frame.intermediate != frame.target].set_index("target")
    assert dict(shown.is_significant) == {"hope": False, "role": True}
    assert dict(shown.column) == {"hope": "(Title of hope)", "role": "Title of role"}
    texts = {label.text for label in map_plan(frame, "a title").labels()}
    assert BRACKETS in texts


def test_the_heatmap_marks_only_what_may_be_claimed_and_says_so_in_the_title_of_the_column(study) -> None:
    (_, manifest), results = study
    frame = squares(results.gains, results.baselines, manifest, metric="macro_f1", setting="full")
    assert {"Title of hope (not learned)", "Title of role"} == set(frame.column)
    figure = heatmap(frame, title="a title", metric="macro_f1", limit=5.0)
    assert sum("*" in text.get_text() for text in figure.axes[0].texts) == 1


def test_the_forest_marks_only_what_may_be_claimed_and_says_so_in_the_title_of_the_panel(study) -> None:
    frame = forest_frame(study[1], "full")
    assert set(frame.panel) == {"Title of hope (not learned)", "Title of role"}
    assert set(frame[frame.is_significant].target) == {"role"}


@pytest.mark.parametrize("doubt", ["collapsed", "contaminated"])
def test_a_pair_in_doubt_has_no_frame_on_the_map(tmp_path, doubt) -> None:
    (_, manifest), results = results_of(tmp_path, [])
    gains = results.gains.assign(**{doubt: (results.gains.target == "hope").astype("boolean")})
    frame = map_frame(gains, manifest, setting="full")
    shown = frame[frame.intermediate != frame.target].set_index("target")
    assert dict(shown.is_significant) == {"hope": False, "role": True}
    assert dict(shown[f"is_{doubt}"]) == {"hope": True, "role": False}
