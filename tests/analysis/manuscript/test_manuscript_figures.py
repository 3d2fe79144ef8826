"""The text of a manuscript for LaTeX: how wide it is, and the figures that are fitted into it."""

import re
from itertools import pairwise

import pandas as pd
import pytest
from matplotlib.text import Text

from analysis.figures.boards import BOARD, board_frame, board_of
from analysis.figures.forest import forest_caption
from analysis.figures.heatmaps import Square, heatmap_of
from analysis.figures.paper_figures import difference_figure, importance_figure, theme_figure
from analysis.figures.register import figures_of
from analysis.manuscript import layout
from analysis.manuscript.figures import SMALLEST, fitted, sheets
from analysis.manuscript.layout import (
    VENUES,
    BoldCell,
    align,
    escaped,
    letters,
    of_width,
    points_aligned,
    points_wide,
    printed,
    span,
)
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
        assert sheet.alt and "Training data: half." in sheet.caption
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
    assert all(part.caption.endswith(f"Part {n} of {len(parts)}.") for n, part in enumerate(parts, 1))


def test_the_caption_of_a_forest_names_the_marks_that_it_has():
    kinds = ["alone", "floor", "transfer", "seed"]
    bare = pd.DataFrame({"kind": kinds})
    assert forest_caption(bare) == (
        "Gains on each target with 95 % intervals, the largest first; small dots are seeds; short dashes are the floor."
    )
    full = forest_caption(pd.DataFrame({"kind": [*kinds, "control", "merged", "whole model"]}))
    assert "merged intermediates stand below the line" in full
    assert "the grey band is the range of the controls" in full and "long dashes are the whole model" in full


# Text on its way into a manuscript: escaped letters, names of macros, printed numbers, sentences with both in them.


@pytest.mark.parametrize("letter", list('\\{}$&#%_^~<>|"'))
def test_no_letter_with_a_meaning_in_latex_stays_as_it_is(letter):
    text = escaped(f"a{letter}b")
    assert text != f"a{letter}b"
    bare = re.sub(r"\\[a-zA-Z]+\{\}|\\[{}$&#%_]", "", text)
    assert bare == "ab"


def test_accents_are_written_out_and_letters_without_a_font_are_named():
    assert escaped("Jo\u00e3o Vuli\u0107 \u2264 1") == r"Jo\~{a}o Vuli\'{c} $\leq$ 1"
    assert escaped("\u4e2d and \U0001f642") == r"[U+4E2D]\allowbreak{} and [U+1F642]\allowbreak{}"
    assert points_wide("\u4e2d", 10) == points_wide("[U+4E2D]", 10)
    assert escaped("two\nlines\t here") == "two lines here"


def test_names_of_macros_are_letters_alone():
    assert letters("epitome_er 2") == "EpitomeErTwo"
    assert letters("assumed correlation 0.5") == "AssumedCorrelationZeroFive"
    assert re.fullmatch("[A-Za-z]*", letters("\u00c4hnlich-keit/\u4e2d 90%"))


def test_wide_letters_are_wider_than_narrow_ones_and_twice_the_text_is_twice_as_wide():
    assert points_wide("WWW", 10) > points_wide("iii", 10)
    assert points_wide("abcabc", 10) == pytest.approx(2 * points_wide("abc", 10))
    assert points_wide("0123456789", 9) >= 10 * 0.5 * 9  # a digit of Times is half as wide as its size


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("points", -0.04, "0.0"),
        ("points", -1.25, "-1.2"),
        ("p", 0.0004, "<0.001"),
        ("p", 0.0496, "0.050"),
        ("p", 0.0504, "0.0504"),
        ("count", 1073.0, "1073"),
        ("score", 0.845, f"{0.845:.2f}"),
        ("importance", -0.0001, "0.000"),
        ("score", float("nan"), "--"),
    ],
)
def test_a_number_is_printed_in_the_way_of_its_kind(kind, value, text):
    assert printed(kind, value, "--") == text


def test_an_interval_without_an_end_is_none():
    assert span("score", 0.1, 0.2) == "[0.10, 0.20]"
    assert span("score", float("nan"), 0.2, "?") == "?"


def test_a_sentence_has_the_number_in_markdown_and_the_macro_in_latex():
    sentence = "100 % of [[StudyTasks]] tasks [@a-b; @c], not [[Nothing]]."
    assert layout.as_markdown(sentence, {"StudyTasks": "7"}) == "100 % of 7 tasks [@a-b; @c], not (not known)."
    latex = layout.as_latex(sentence, {"StudyTasks": "7"})
    assert latex == r"100 \% of \StudyTasks{} tasks \citep{a-b,c}, not (not known)."


def test_a_line_may_end_inside_a_hash():
    text = layout.as_latex(f"hash {'0123456789abcdef' * 4}.", {})
    assert max(len(one) for one in text.split(r"\allowbreak{}")) <= len("hash 01234567")
    assert text.replace(r"\allowbreak{}", "") == f"hash {'0123456789abcdef' * 4}."


def points_from_the_right(cell):
    """How far each decimal point of a cell, as LaTeX sets it, stands from the cell's right edge."""
    text = cell.replace(r"\textminus{}", "\u2212").replace(r"\dag{}", "\u2020")
    text = re.sub(r"^\\textbf\{(.*)\}$", r"\1", text)
    at, points = 0.0, []
    for kind, inside, letter in re.findall(r"\\(phantom|rlap|llap)\{([^}]*)\}|(.)", text):
        width = points_wide(inside or letter, 10)
        drawn = "" if kind == "phantom" else inside or letter
        begin = at - width if kind == "llap" else at
        points += [begin + points_wide(drawn[:place], 10) for place, sign in enumerate(drawn) if sign == "."]
        at += width if kind in ("phantom", "") else 0.0
    return [round(at - point, 6) for point in points]


@pytest.mark.parametrize(
    "cells",
    [
        ["1.5", "-12.0***", BoldCell("3.1*"), "10.2\u2020"],
        ["[-1.5, 2.0]", "[-11.0, -3.0]", BoldCell("[0.1, 15.6]"), "[-20.0, 0.3]"],
        ["0.0504", "0.012", "<0.001", BoldCell("0.600")],
        ["0.006 (0.005)", "0.116 (0.015)", "0.000 (0.001)"],
    ],
)
def test_decimals_of_a_column_stand_under_each_other_whatever_follows_them(cells):
    shown = align(cells)
    assert len({tuple(points_from_the_right(cell)) for cell in shown}) == 1
    assert len({tuple(points_from_the_right(cell)) for cell in cells}) > 1 or "(" in cells[0]  # as they were
    assert not any("-" in cell for cell in shown)  # a hyphen is no minus
    assert max(points_wide(cell, 9) for cell in cells) <= points_aligned(cells, 9)
