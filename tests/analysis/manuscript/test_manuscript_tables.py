"""Tables that are broken before they run over: nothing is lost, nothing is said twice but the labels."""

from __future__ import annotations

import re
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from analysis.manuscript.frames import best_and_worst
from analysis.manuscript.layout import (
    POINTS_PER_CM,
    SIZES,
    VENUES,
    Best,
    Float,
    Head,
    of_width,
    points_wide,
    table_as_latex,
    table_as_markdown,
)
from analysis.manuscript.tables import best_and_worst as best_and_worst_table
from tasks.errors import BadInput

ACL = VENUES["acl"]
ROW = re.compile(r"^(.*) \\\\$", re.M)


def grid(n_rows, n_columns, *, cell="0.85*\u2020", turned=True):
    columns = (Head("Intermediate", "label"), *(Head(f"Task {place}") for place in range(n_columns)))
    rows = tuple((f"row {row}", *(cell for _ in range(n_columns))) for row in range(n_rows))
    return Float("grid", "Scores.", columns, rows, is_turned=turned, rules=(1,))


def floats(text):
    return re.findall(r"\\begin\{(table\*?)\}\[tbp\](.*?)\\end\{\1\}", text, re.S)


def body(one):
    """The rows of a float's body as lists of cells, without the heads."""
    inside = one.split(r"\midrule", 1)[1].split(r"\bottomrule")[0]
    return [row.replace(r"\dag{}", "\u2020").split(" & ") for row in ROW.findall(inside)]


def test_a_small_table_stands_in_a_column_and_a_wider_one_over_the_page():
    (small,), (wide,) = floats(table_as_latex(grid(3, 3), ACL)), floats(table_as_latex(grid(3, 12), ACL))
    assert (small[0], wide[0]) == ("table", "table*")
    assert r"\label{tab:grid}" in small[1]


@pytest.mark.parametrize(("n_rows", "n_columns"), [(18, 18), (38, 38), (120, 4), (1, 1)])
def test_a_table_is_broken_by_columns_and_rows_and_every_cell_is_there_once(n_rows, n_columns):
    table = grid(n_rows, n_columns)
    found = floats(table_as_latex(table, ACL))
    cells = [cell for _, one in found for row in body(one) for cell in row[1:]]
    assert len(cells) == n_rows * n_columns
    heads = re.findall(r"\\rotatebox\{90\}\{(Task \d+)\}", "".join(one for _, one in found))
    assert set(heads) == {f"Task {place}" for place in range(n_columns)}
    assert len(found) == 1 or "(part 2 of" in found[1][1]


@pytest.mark.parametrize("venue", [ACL, of_width(8.5)])
def test_no_part_is_wider_than_its_place_by_the_widths_of_its_letters(venue):
    for kind, one in floats(table_as_latex(grid(4, 30), venue)):
        size = next(size for name, size in SIZES.items() if rf"\{name}" in one)
        widest = [max(points_wide(cell, size) for cell in column) for column in zip(*body(one), strict=True)]
        gap = float(re.search(r"tabcolsep\}\{([0-9.]+)pt", one)[1])
        room = (venue.page if kind == "table*" else venue.column) * POINTS_PER_CM
        assert sum(widest) + 2 * gap * (len(widest) - 1) <= room


def test_long_labels_are_folded_and_no_page_is_longer_than_a_page():
    rows = tuple((f"A data set whose title is longer than most of them {place}", "1") for place in range(90))
    text = table_as_latex(Float("long", "Caption.", (Head("Data set", "label"), Head("Rows")), rows), ACL)
    assert r"\begin{tabularx}{\columnwidth}" in text
    assert sum(len(body(one)) for _, one in floats(text)) == 90
    assert max(len(body(one)) for _, one in floats(text)) < 45


def test_rows_between_rules_stay_together_over_pages():
    rows = tuple((f"group {row // 6}", "1.0") for row in range(108))
    columns = (Head("Group", "label"), Head("Gain"))
    text = table_as_latex(Float("groups", "Caption.", columns, rows, rules=tuple(range(6, 108, 6))), ACL)
    parts = [body(one) for _, one in floats(text)]
    assert len(parts) > 1 and sum(map(len, parts)) == 108
    assert all(len(part) % 6 == 0 for part in parts)


def test_text_of_a_table_is_escaped_in_latex_and_harmless_in_markdown():
    table = Float("t", "50 % & more", (Head("a_b", "label"), Head("n")), (("x|y & z", "1"),))
    assert r"x\textbar{}y \& z & 1 \\" in table_as_latex(table, ACL)
    assert r"\caption{50 \% \& more}" in table_as_latex(table, ACL)
    assert r"| x\|y & z | 1 |" in table_as_markdown(table)


@pytest.mark.parametrize("title", ["\u4e2d\u6587", "[x]", "*y"])
def test_a_line_that_begins_with_a_bracket_or_a_star_is_no_argument_of_the_line_break(title):
    columns = (Head(f"{title} and a head in two lines", "label"), Head("n"))
    text = table_as_latex(Float("t", "Caption.", columns, (("first", "1"), (title, "2"))), ACL)
    assert not re.search(r"\\\\\s*[\[*]", text)
    assert "{}" in text


@pytest.mark.parametrize("width", [0, 5.9, 41, float("nan")])
def test_a_width_in_which_nothing_can_stand_is_refused(width):
    with pytest.raises(BadInput, match="not a width in cm from 6 to 40"):
        of_width(width)


def test_a_column_that_says_the_same_everywhere_is_said_once_in_the_caption():
    columns = (Head("Target", "label"), Head("Setting", "label"), Head("Score"), Head("Raters"))
    rows = (("A", "full", "0.5", "2"), ("B", "full", "0.5", "2"), ("C", "full", "0.6", "2"))
    short = Float("t", "Scores.", columns, rows, labels=2).without_constants()
    assert [column.head for column in short.columns] == ["Target", "Score"]
    assert short.rows == (("A", "0.5"), ("B", "0.5"), ("C", "0.6"))
    assert short.caption == "Scores. The same in all rows: Setting: full; Raters: 2."
    assert short.labels == 1
    single = Float("t", "Scores.", columns, rows[:1])
    assert single.without_constants() is single


def made_up_gains(n_intermediates, seed=0):
    """Gains of two targets in random order, with intervals and p values."""
    rng = np.random.default_rng(seed)
    rows = [(f"task_{one}", target, "full") for target in ("s", "t") for one in range(n_intermediates)]
    frame = pd.DataFrame(rows, columns=["intermediate", "target", "setting"])
    points = rng.normal(0, 5, len(frame))
    return frame.assign(points=points, low=points - 2, high=points + 2, p_max_grid=rng.uniform(0, 0.1, len(frame)))


@pytest.mark.parametrize(("n_intermediates", "n_best", "n_worst"), [(1, 1, 0), (4, 2, 2), (5, 3, 2), (17, 3, 3)])
def test_best_and_worst_are_those_that_a_sort_by_hand_finds_and_none_is_both(n_intermediates, n_best, n_worst):
    gains = made_up_gains(n_intermediates)
    gains.loc[len(gains)] = ["lost", "t", "full", *[float("nan")] * 4]  # not finished
    chosen = best_and_worst(SimpleNamespace(stored=SimpleNamespace(gains=gains)))
    for target, part in chosen.groupby("target"):
        by_hand = sorted(gains.points[gains.target == target].dropna(), reverse=True)
        assert list(part.points) == by_hand[:n_best] + by_hand[len(by_hand) - n_worst :]
        assert list(part.place) == [*range(1, n_best + 1), *range(n_worst, 0, -1)]
        assert part.intermediate.is_unique


def test_best_and_worst_are_printed_with_interval_and_stars_of_the_corrected_p_and_the_best_is_bold():
    gains = made_up_gains(6)
    chosen = best_and_worst(SimpleNamespace(stored=SimpleNamespace(gains=gains)))
    titles = pd.Series({name: name.upper() for name in [*gains.intermediate, *gains.target]})
    (table,) = best_and_worst_table({"best_and_worst": chosen}, titles)
    known = gains.set_index(["intermediate", "target"])
    targets = [row[0] for row in table.rows if row[0]]
    assert targets == ["S", "T"]
    for place, row in enumerate(table.rows):
        gain = known.loc[(row[2].lower(), targets[place // 6].lower())]
        limits = [0.05, 0.01, 0.001]
        assert row[3] == f"{gain.points:.1f}".replace("-0.0", "0.0") + "*" * sum(gain.p_max_grid <= p for p in limits)
        assert row[4].startswith(f"[{gain.low:.1f}, ")
        assert isinstance(row[3], Best) == (place % 6 == 0)
    text = table_as_latex(table, ACL)
    assert text.count(r"\textbf{") == 2
    assert r"\begin{table}" in text
