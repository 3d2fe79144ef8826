"""Figures of a manuscript: legible and inside their sheet at the width that they are given."""

from __future__ import annotations

from itertools import pairwise

import pandas as pd
import pytest
from matplotlib.text import Text

from analysis.figures.boards import BOARD, board_frame, board_of
from analysis.figures.forest import forest_caption
from analysis.figures.heatmaps import Square, heatmap_of
from analysis.figures.paper_figures import difference_figure, importance_figure, theme_figure
from analysis.figures.register import figures_of
from analysis.manuscript.figures import SMALLEST, fitted, sheets
from analysis.manuscript.layout import VENUES, of_width
from analysis.results.study_results import StudyResults
from tests.analysis.figures.test_boards import made_up_board
from tests.support.made_up_gains import made_up_manifest
from tests.support.studies.fake_study import FakeTask, fake_study

ACL = VENUES["acl"]
THEMES = ("direct", "abstract", "adjacent")


def heat(n_tasks):
    """A full heatmap of tasks with scores and marks."""
    rows = []
    for target in range(n_tasks):
        column = f"Target number {target}"
        rows.append(Square("", f"t{target}", "baseline (no intermediate)", column, "baseline", 0.5))
        for below in range(n_tasks):
            status = "not_planned" if below == target else "done"
            score = float("nan") if below == target else 0.85
            rows.append(Square(f"t{below}", f"t{target}", f"Task {below}", column, status, score, 1.0, True, True))
    return heatmap_of(pd.DataFrame(rows, columns=list(Square._fields)), "", "macro_f1", "full")


def bars():
    """Every kind of figure that is no heatmap."""
    themes = pd.DataFrame(
        [
            {"panel": panel, "role": role, "theme": theme, "n_tested": 102, "gains": 12, "harms": 48}
            for panel in ("assumed correlation 0", "assumed correlation 0.8")
            for role in ("intermediate", "target")
            for theme in THEMES
        ]
    )
    features = [f"Data embedding similarity {place}" for place in range(12)]
    importances = pd.DataFrame(
        {"series": "printed (Table 6)", "feature": features, "title": features, "importance": 0.3, "sd": 0.1}
    ).assign(is_stand_in=[True, *[False] * 11], by_chance=0.35, arrangements=39)
    differing = pd.DataFrame(
        [("definition", "A", "B", size, 3) for size in (-1.0, 0.0, 2.0)],
        columns=["construct", "rater_a", "rater_b", "difference", "n_tasks"],
    )
    return [theme_figure(themes, ""), importance_figure(importances, ""), difference_figure(differing, "")]


def test_a_leaderboard_is_drawn_as_wide_as_the_venue_allows():
    manifest = made_up_manifest(4)
    figure = board_of(board_frame(made_up_board(manifest), manifest, "full"), "", "half")
    for venue in (ACL, of_width(8.5)):
        (sheet,) = sheets([figure], venue)
        assert sheet.is_planned and "Training data: half." in sheet.caption
        assert "1 other tied with it" in sheet.alt
        width, _ = sheet.draw(sheet.frame, "").get_size_inches()
        assert width * 2.54 <= venue.page + 0.01


def test_the_leaderboard_of_a_study_with_systems_is_in_its_manuscript(tmp_path):
    tasks = [FakeTask("hope"), FakeTask("role")]
    (board,) = figures_of(StudyResults.of(*fake_study(tmp_path, tasks, systems=("words",))), BOARD)
    assert set(board.frame.row) == {"words", "adapter alone", "on Title of role", "on Title of hope"}
    figures = figures_of(StudyResults.of(*fake_study(tmp_path / "without", tasks)))
    assert not [figure.name for figure in figures if figure.name.startswith(BOARD)]


def shown(figure):
    """The texts that a drawn figure shows."""
    figure.canvas.draw()
    return [one for one in figure.findobj(Text) if one.get_visible() and one.get_text().strip()]


def check_names_apart(axes):
    """Names below the axes do not touch, unless they are turned."""
    flat = [one.get_window_extent() for one in axes.get_xticklabels() if one.get_text() and not one.get_rotation()]
    places = sorted((box.x0, box.x1) for box in flat)
    assert all(left[1] <= right[0] for left, right in pairwise(places))


@pytest.mark.parametrize(("venue", "n_tasks"), [(ACL, 13), (of_width(6.0), 2), (of_width(24.0), 4)])
def test_all_text_is_legible_and_inside_the_sheet(venue, n_tasks):
    for sheet in sheets([heat(n_tasks), *bars()], venue):
        width = venue.page if sheet.is_wide else venue.column
        figure = fitted(sheet, width, "SYNTHETIC DATA: ")
        assert min(one.get_fontsize() for one in shown(figure)) >= SMALLEST, sheet.name
        box = figure.get_tightbbox()
        assert box.x0 >= -0.01, sheet.name
        assert box.x1 <= width / 2.54 + 0.01, sheet.name
        assert box.y0 >= -0.01, sheet.name
        assert box.y1 <= sheet.height / 2.54 + 0.01, sheet.name
        assert figure.get_figwidth() == pytest.approx(width / 2.54)
        for axes in figure.axes:
            check_names_apart(axes)
        assert any(one.get_text() == "SYNTHETIC DATA" for one in shown(figure))


def test_scores_of_neighbouring_squares_do_not_touch():
    for sheet in sheets([heat(18)], ACL):
        figure = fitted(sheet, ACL.page, "")
        row = [one.get_window_extent() for one in shown(figure) if one.get_text().startswith(".85")]
        lines = {}
        for box in row:
            lines.setdefault(round(box.y0), []).append(box)
        for boxes in lines.values():
            places = sorted((box.x0, box.x1) for box in boxes)
            assert all(left[1] <= right[0] for left, right in pairwise(places))


def test_a_heatmap_too_wide_for_its_page_is_drawn_in_parts_that_hold_every_target_once():
    parts = list(sheets([heat(38)], ACL))
    assert len(parts) > 1
    targets = [target for part in parts for target in dict.fromkeys(part.frame.target)]
    assert len(targets) == len(set(targets)) == 38
    assert [part.caption.endswith(f"Part {n} of {len(parts)}.") for n, part in enumerate(parts, 1)] == [True] * len(
        parts
    )


def test_the_caption_of_a_forest_names_the_marks_that_it_has():
    kinds = ["alone", "floor", "transfer", "seed"]
    bare = pd.DataFrame({"kind": kinds})
    assert forest_caption(bare) == (
        "Gains on each target with 95 % intervals, the largest first; small dots are seeds; short dashes are the floor."
    )
    full = forest_caption(pd.DataFrame({"kind": [*kinds, "control", "merged", "whole model"]}))
    assert "merged intermediates stand below the line" in full
    assert "the grey band is the range of the controls" in full and "long dashes are the whole model" in full
