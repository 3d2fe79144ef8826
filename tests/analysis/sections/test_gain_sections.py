"""What a report says of corrections and of gains that could not have been seen."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.results.study_results import StudyResults
from analysis.sections import gains as gain_sections
from analysis.sections.blocks import markdown
from tests.support.studies.fake_study import FakeTask, fake_study
from tests.support.studies.page_study import with_frames


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> StudyResults:
    tasks = (FakeTask("hope"), FakeTask("role"), FakeTask("distress", "continuous"))
    folder: Path = tmp_path_factory.mktemp("study")
    return StudyResults.of(
        *fake_study(folder, tasks, helpful=[("role", "hope")], constant=[("hope", "distress")]), draws=300
    )


def test_every_correction_is_counted_from_its_own_column(study: StudyResults) -> None:
    page = markdown([gain_sections.gains(study), gain_sections.corrections(study)])
    for name, what in gain_sections.WAYS.items():
        sure = study.gains.points[study.gains[name] <= 0.05]
        assert f"| {what} | {(sure > 0).sum()} | {(sure < 0).sum()} | " in page
    more = int((study.gains.draws == 3000).sum())
    assert more > 0
    assert f"from 300 paired draws (of {more} gain{'s' * (more > 1)} 3000, where what is significant" in page


def test_the_smallest_visible_gain_of_every_tested_target_is_shown(study: StudyResults) -> None:
    page = markdown([gain_sections.visible(study)])
    for row in study.visible.itertuples():
        assert f"| {row.visible:.1f} | {row.visible_in_grid:.1f} |" in page
    assert "among all 5 gains" in page
    assert gain_sections.visible(with_frames(study, gains=study.gains.assign(p=float("nan")))) is None
