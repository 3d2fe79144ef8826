"""The leaderboard as a figure: all contestants of every target with their intervals, legible for 2 to 60 tasks."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from analysis.figures.boards import OTHERS, board_frame, board_parts, board_plan
from analysis.figures.plan import Dot, Line
from tests.analysis.figures.test_uncertainty_map import A_PAGE, HOSTILE, LONG, check_legible
from tests.support.made_up_gains import made_up_manifest

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
    frame = board_frame(made_up_board(manifest, systems), manifest, "full")
    parts = list(board_parts(frame, "leaderboard"))
    assert pd.concat([part for _, part in parts], ignore_index=True).equals(frame)
    assert len({name for name, _ in parts}) == len(parts)
    for _, part in parts[:2]:
        plan = board_plan(part, "SYNTHETIC DATA: a leaderboard\nof made-up scores")
        assert plan.width <= A_PAGE[0] and plan.height <= A_PAGE[1]
        check_legible(plan)


def test_scores_and_ends_of_intervals_stand_in_proportion_and_ties_are_full():
    manifest = made_up_manifest(2, metrics=("macro_f1",))
    frame = board_frame(made_up_board(manifest), manifest, "full")
    part = frame[frame.target == "task_00"]
    plan = board_plan(part, "t")
    dots = [mark for mark in plan.layers["marks"] if isinstance(mark, Dot)]
    lines = [mark for mark in plan.layers["marks"] if isinstance(mark, Line) and mark.y == mark.to_y]
    assert len(dots) == len(lines) == 5
    slope, start = np.polyfit(part.score, [dot.x for dot in dots], 1)
    np.testing.assert_allclose([dot.x for dot in dots], start + slope * part.score, atol=0.02)
    np.testing.assert_allclose([line.x for line in lines], start + slope * part.low, atol=0.02)
    np.testing.assert_allclose([line.to_x for line in lines], start + slope * part.high, atol=0.02)
    assert [dot.fill == dot.edge for dot in dots] == [True, True, False, False, False]
    assert [dot.edge == OTHERS for dot in dots] == [True, True, True, False, False]
    assert "1 other tied with it" in plan.alt
    assert {label.text for label in plan.labels()} >= {*SYSTEMS[:-1], "on Task 1", "macro-F1"}


def test_what_leaks_says_so_and_is_not_the_best():
    manifest = made_up_manifest(1, metrics=("macro_f1",))
    board = made_up_board(manifest)
    names = board.system.tolist()
    board.loc[0, ["rank", "is_tied", "is_leaking"]] = [pd.NA, pd.NA, True]
    frame = board_frame(board, manifest, "full")
    assert frame.row[0] == f"{names[0]} (leaks)"
    plan = board_plan(frame, "t")
    assert f"{names[0]} (leaks)" in {label.text for label in plan.labels()}
    assert f"{frame.row[1]}, " in plan.alt and "(leaks)" not in plan.alt
    (line,) = {mark.x for mark in plan.layers["marks"] if isinstance(mark, Line) and mark.x == mark.to_x}
    dots = sorted(mark.x for mark in plan.layers["marks"] if isinstance(mark, Dot))
    assert line == dots[-2]  # the best of those that are ranked
