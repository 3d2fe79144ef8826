"""The figure of reliability: which panels, where bins stand, and its files."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from analysis.figures.boards import ACROSS, RELIABILITY_COLUMNS, reliability_frame, reliability_parts, reliability_plan
from analysis.figures.plan import Dot
from analysis.results.leaderboard import leaderboard
from tests.support.studies.fake_study import FakeTask, fake_study


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    tasks = [FakeTask("hope"), FakeTask("fear", kind="continuous"), FakeTask("needs", kind="multilabel")]
    systems = ("words", "floor", "twin", "other")
    store, manifest = fake_study(tmp_path_factory.mktemp("reliable") / "runs", tasks, systems=systems)
    return leaderboard(store, manifest, draws=50), manifest


def test_every_bin_stands_at_its_probability_and_share(study):
    frame = reliability_frame(*study, "full")
    assert list(frame) == list(RELIABILITY_COLUMNS)
    one = frame[(frame.target == "hope") & (frame.system == "words")].reset_index(drop=True)
    plan = reliability_plan(one, "t")
    dots = sorted((mark for mark in plan.layers["marks"] if isinstance(mark, Dot)), key=lambda dot: dot.x)
    assert len(dots) == len(one)
    for values, places in ((one.probability, [dot.x for dot in dots]), (-one.right, [dot.y for dot in dots])):
        slope, start = np.polyfit(values, places, 1)
        np.testing.assert_allclose(places, start + slope * values, atol=0.02)
        assert slope > 0


def test_targets_are_bands_of_panels_and_numbers_have_none(study):
    frame = reliability_frame(*study, "full")
    assert set(frame.target) == {"hope", "needs"}
    assert frame.groupby("target").system.nunique().eq(6).all()
    plan = reliability_plan(frame, "Title")
    labels = {label.text for label in plan.labels()}
    assert labels >= {"Title of hope", "Title of needs", "words", "on Title of fear"}
    assert plan.alt.startswith("Title. The figure has") and "calibration error from" in plan.alt
    for label in plan.labels():
        assert 0 <= label.x <= plan.width and 0 <= label.y <= plan.height
    assert 6 > ACROSS  # so that a band has a second line


def test_many_targets_are_parted_into_pages(study):
    frame = reliability_frame(*study, "full")
    many = pd.concat([frame.assign(target=f"{frame.target.iloc[0]}-{number}") for number in range(9)])
    parts = list(reliability_parts(many.reset_index(drop=True), "reliability-full"))
    assert len(parts) > 1
    assert pd.concat([part for _, part in parts]).target.nunique() == 9
