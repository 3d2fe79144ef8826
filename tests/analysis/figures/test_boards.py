"""The leaderboard and the reliability of probabilities as figures: in proportion, and legible for 2 to 60 tasks."""

import numpy as np
import pandas as pd
import pytest

from analysis.figures import boards
from analysis.figures.plan import Dot, Stroke
from analysis.results.leaderboard import leaderboard
from tests.analysis.figures.test_uncertainty_map import A_PAGE, HOSTILE, LONG, check_legible
from tests.support.made_up_gains import made_up_manifest
from tests.support.studies.fake_study import FakeTask, fake_study

SYSTEMS = ("bi-encoder", "tfidf", "majority", "adapter alone", "adapter on task_01")


def made_up_board(manifest, systems=SYSTEMS):
    """A leaderboard of made-up scores; the last of every second target has none."""
    rng, rows = np.random.default_rng(5), []
    for number, (target, task) in enumerate(manifest["tasks"].items()):
        scores = np.sort(rng.uniform(-0.2 if task["metric"] == "pearson_r" else 0.2, 0.9, len(systems)))[::-1]
        scores[-1] = np.nan if number % 2 else scores[-1]
        for place, (system, score) in enumerate(zip(systems, scores, strict=True)):
            row = {"target": target, "setting": "full", "metric": task["metric"], "system": system, "score": score}
            below = system.removeprefix("adapter on ") if system.startswith("adapter on") else ""
            role = "transfer" if below else "baseline" if system.startswith("adapter") else "system"
            row |= {"role": role, "intermediate": below, "rank": place + 1, "is_leaking": False}
            rows.append(row | {"low": score - 0.04, "high": score + 0.05, "is_tied": place < 2})
    return pd.DataFrame(rows).astype({"is_tied": "boolean", "rank": "Int64"})


@pytest.mark.parametrize("n", [2, 18, 60])
@pytest.mark.parametrize("facts", [{}, {"title": LONG}, {"title": HOSTILE}], ids=["short", "long", "hostile"])
def test_two_to_sixty_tasks_are_legible_on_pages(n, facts):
    manifest = made_up_manifest(n, **facts)
    systems = SYSTEMS if not facts else (*SYSTEMS[:4], "adapter on task_00")
    frame = boards.board_frame(made_up_board(manifest, systems), manifest, "full")
    parts = list(boards.board_parts(frame, "leaderboard"))
    assert pd.concat([part for _, part in parts], ignore_index=True).equals(frame)
    assert len({name for name, _ in parts}) == len(parts)
    for _, part in parts[:2]:
        plan = boards.board_plan(part, "SYNTHETIC DATA: a leaderboard\nof made-up scores")
        assert plan.width <= A_PAGE[0] and plan.height <= A_PAGE[1]
        check_legible(plan)


def test_scores_and_ends_of_intervals_stand_in_proportion_and_ties_are_full():
    manifest = made_up_manifest(2, metrics=("macro_f1",))
    frame = boards.board_frame(made_up_board(manifest), manifest, "full")
    part = frame[frame.target == "task_00"]
    plan = boards.board_plan(part, "t")
    dots = [mark for mark in plan.layers["marks"] if isinstance(mark, Dot)]
    lines = [mark for mark in plan.layers["marks"] if isinstance(mark, Stroke) and mark.y == mark.to_y]
    assert len(dots) == len(lines) == 5
    slope, start = np.polyfit(part.score, [dot.x for dot in dots], 1)
    np.testing.assert_allclose([dot.x for dot in dots], start + slope * part.score, atol=0.02)
    np.testing.assert_allclose([line.x for line in lines], start + slope * part.low, atol=0.02)
    np.testing.assert_allclose([line.to_x for line in lines], start + slope * part.high, atol=0.02)
    assert [dot.fill == dot.edge for dot in dots] == [True, True, False, False, False]
    assert [dot.edge == boards.OTHERS for dot in dots] == [True, True, True, False, False]
    assert "1 other tied with it" in plan.alt
    assert {label.text for label in plan.labels()} >= {*SYSTEMS[:-1], "on Task 1", "macro-F1"}


def test_what_leaks_says_so_and_is_not_the_best():
    manifest = made_up_manifest(1, metrics=("macro_f1",))
    board = made_up_board(manifest)
    names = board.system.tolist()
    board.loc[0, ["rank", "is_tied", "is_leaking"]] = [pd.NA, pd.NA, True]
    frame = boards.board_frame(board, manifest, "full")
    assert frame.row[0] == f"{names[0]} (leaks)"
    plan = boards.board_plan(frame, "t")
    assert f"{names[0]} (leaks)" in {label.text for label in plan.labels()}
    assert f"{frame.row[1]}, " in plan.alt and "(leaks)" not in plan.alt
    (line,) = {mark.x for mark in plan.layers["marks"] if isinstance(mark, Stroke) and mark.x == mark.to_x}
    dots = sorted(mark.x for mark in plan.layers["marks"] if isinstance(mark, Dot))
    assert line == dots[-2]  # the best of those that are ranked


# The figure of reliability: which panels, where bins stand, and its files.


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    tasks = [FakeTask("hope"), FakeTask("fear", kind="continuous"), FakeTask("needs", kind="multilabel")]
    systems = ("words", "floor", "twin", "other")
    store, manifest = fake_study(tmp_path_factory.mktemp("reliable") / "runs", tasks, systems=systems)
    return leaderboard(store, manifest, draws=50), manifest


def test_every_bin_stands_at_its_probability_and_share(study):
    frame = boards.reliability_frame(*study, "full")
    assert list(frame) == list(boards.RELIABILITY_COLUMNS)
    one = frame[(frame.target == "hope") & (frame.system == "words")].reset_index(drop=True)
    plan = boards.reliability_plan(one, "t")
    dots = sorted((mark for mark in plan.layers["marks"] if isinstance(mark, Dot)), key=lambda dot: dot.x)
    assert len(dots) == len(one)
    for values, places in ((one.probability, [dot.x for dot in dots]), (-one.right, [dot.y for dot in dots])):
        slope, start = np.polyfit(values, places, 1)
        np.testing.assert_allclose(places, start + slope * values, atol=0.02)
        assert slope > 0


def test_targets_are_bands_of_panels_and_numbers_have_none(study):
    frame = boards.reliability_frame(*study, "full")
    assert set(frame.target) == {"hope", "needs"}
    assert frame.groupby("target").system.nunique().eq(6).all()
    plan = boards.reliability_plan(frame, "Title")
    labels = {label.text for label in plan.labels()}
    assert labels >= {"Title of hope", "Title of needs", "words", "on Title of fear"}
    assert plan.alt.startswith("Title. The figure has") and "calibration error from" in plan.alt
    for label in plan.labels():
        assert 0 <= label.x <= plan.width and 0 <= label.y <= plan.height
    assert 6 > boards.ACROSS  # so that a band has a second line


def test_many_targets_are_parted_into_pages(study):
    frame = boards.reliability_frame(*study, "full")
    many = pd.concat([frame.assign(target=f"{frame.target.iloc[0]}-{number}") for number in range(9)])
    parts = list(boards.reliability_parts(many.reset_index(drop=True), "reliability-full"))
    assert len(parts) > 1
    assert pd.concat([part for _, part in parts]).target.nunique() == 9
