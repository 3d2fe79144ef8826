"""Tables that are broken before they run over: nothing is lost, nothing is said twice but the labels."""

from __future__ import annotations

import re

import pytest

from analysis.manuscript.latex import points_wide
from analysis.manuscript.layout import (
    POINTS_PER_CM,
    SIZES,
    VENUES,
    Column,
    Table,
    as_latex,
    as_markdown,
    of_width,
)
from tasks.errors import BadInput

ACL = VENUES["acl"]
ROW = re.compile(r"^(.*) \\\\$", re.M)


def grid(n_rows, n_columns, *, cell="0.85*\u2020", turned=True):
    columns = (Column("Intermediate", "label"), *(Column(f"Task {place}") for place in range(n_columns)))
    rows = tuple((f"row {row}", *(cell for _ in range(n_columns))) for row in range(n_rows))
    return Table("grid", "Scores.", columns, rows, is_turned=turned, rules=(1,))


def floats(text):
    return re.findall(r"\\begin\{(table\*?)\}\[tbp\](.*?)\\end\{\1\}", text, re.S)


def body(one):
    """The rows of a float's body as lists of cells, without the heads."""
    inside = one.split(r"\midrule", 1)[1].split(r"\bottomrule")[0]
    return [row.replace(r"\dag{}", "\u2020").split(" & ") for row in ROW.findall(inside)]


def test_a_small_table_stands_in_a_column_and_a_wider_one_over_the_page():
    (small,), (wide,) = floats(as_latex(grid(3, 3), ACL)), floats(as_latex(grid(3, 12), ACL))
    assert (small[0], wide[0]) == ("table", "table*")
    assert r"\label{tab:grid}" in small[1]


@pytest.mark.parametrize(("n_rows", "n_columns"), [(18, 18), (38, 38), (120, 4), (1, 1)])
def test_a_table_is_broken_by_columns_and_rows_and_every_cell_is_there_once(n_rows, n_columns):
    table = grid(n_rows, n_columns)
    found = floats(as_latex(table, ACL))
    cells = [cell for _, one in found for row in body(one) for cell in row[1:]]
    assert len(cells) == n_rows * n_columns
    heads = re.findall(r"\\rotatebox\{90\}\{(Task \d+)\}", "".join(one for _, one in found))
    assert set(heads) == {f"Task {place}" for place in range(n_columns)}
    assert len(found) == 1 or "(part 2 of" in found[1][1]


@pytest.mark.parametrize("venue", [ACL, of_width(8.5)])
def test_no_part_is_wider_than_its_place_by_the_widths_of_its_letters(venue):
    for kind, one in floats(as_latex(grid(4, 30), venue)):
        size = next(size for name, size in SIZES.items() if rf"\{name}" in one)
        widest = [max(points_wide(cell, size) for cell in column) for column in zip(*body(one), strict=True)]
        gap = float(re.search(r"tabcolsep\}\{([0-9.]+)pt", one)[1])
        room = (venue.page if kind == "table*" else venue.column) * POINTS_PER_CM
        assert sum(widest) + 2 * gap * (len(widest) - 1) <= room


def test_long_labels_are_folded_and_no_page_is_longer_than_a_page():
    rows = tuple((f"A data set whose title is longer than most of them {place}", "1") for place in range(90))
    text = as_latex(Table("long", "Caption.", (Column("Data set", "label"), Column("Rows")), rows), ACL)
    assert r"\begin{tabularx}{\columnwidth}" in text
    assert sum(len(body(one)) for _, one in floats(text)) == 90
    assert max(len(body(one)) for _, one in floats(text)) < 45


def test_text_of_a_table_is_escaped_in_latex_and_harmless_in_markdown():
    table = Table("t", "50 % & more", (Column("a_b", "label"), Column("n")), (("x|y & z", "1"),))
    assert r"x\textbar{}y \& z & 1 \\" in as_latex(table, ACL)
    assert r"\caption{50 \% \& more}" in as_latex(table, ACL)
    assert r"| x\|y & z | 1 |" in as_markdown(table)


@pytest.mark.parametrize("title", ["\u4e2d\u6587", "[x]", "*y"])
def test_a_line_that_begins_with_a_bracket_or_a_star_is_no_argument_of_the_line_break(title):
    columns = (Column(f"{title} and a head in two lines", "label"), Column("n"))
    text = as_latex(Table("t", "Caption.", columns, (("first", "1"), (title, "2"))), ACL)
    assert not re.search(r"\\\\\s*[\[*]", text)
    assert "{}" in text


@pytest.mark.parametrize("width", [0, 5.9, 41, float("nan")])
def test_a_width_in_which_nothing_can_stand_is_refused(width):
    with pytest.raises(BadInput, match="not a width in cm from 6 to 40"):
        of_width(width)
