"""Text on its way into a manuscript: escaped letters, names of macros, printed numbers, sentences with both in them."""

from __future__ import annotations

import re

import pytest

from analysis.manuscript import layout
from analysis.manuscript.layout import Best, aligned, escaped, letters, points_aligned, points_wide, printed, spanned


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
    assert spanned("score", 0.1, 0.2) == "[0.10, 0.20]"
    assert spanned("score", float("nan"), 0.2, "?") == "?"


def test_a_sentence_has_the_number_in_markdown_and_the_macro_in_latex():
    sentence = "100 % of [[StudyTasks]] tasks [@a-b; @c], not [[Nothing]]."
    assert layout.as_markdown(sentence, {"StudyTasks": "7"}) == "100 % of 7 tasks [@a-b; @c], not (not known)."
    assert layout.as_latex(sentence, {"StudyTasks": "7"}) == (
        r"100 \% of \StudyTasks{} tasks \citep{a-b,c}, not (not known)."
    )


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
        ["1.5", "-12.0***", Best("3.1*"), "10.2\u2020"],
        ["[-1.5, 2.0]", "[-11.0, -3.0]", Best("[0.1, 15.6]"), "[-20.0, 0.3]"],
        ["0.0504", "0.012", "<0.001", Best("0.600")],
        ["0.006 (0.005)", "0.116 (0.015)", "0.000 (0.001)"],
    ],
)
def test_decimals_of_a_column_stand_under_each_other_whatever_follows_them(cells):
    shown = aligned(cells)
    assert len({tuple(points_from_the_right(cell)) for cell in shown}) == 1
    assert len({tuple(points_from_the_right(cell)) for cell in cells}) > 1 or "(" in cells[0]  # as they were
    assert not any("-" in cell for cell in shown)  # a hyphen is no minus
    assert max(points_wide(cell, 9) for cell in cells) <= points_aligned(cells, 9)
