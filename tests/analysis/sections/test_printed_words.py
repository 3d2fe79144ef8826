"""Numbers and counts as they are printed: never -0, never 1 families, never a random number for a result."""

from __future__ import annotations

import pandas as pd
import pytest

from analysis.manuscript.paper import numbers
from analysis.manuscript.tables import importances
from analysis.tables import bare, interval, number, signed
from tasks.plain_text import counted


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (number(-0.00004, 4), "0.0000"),
        (number(-0.00006, 4), "-0.0001"),
        (signed(-0.00004, 4), "0.0000"),
        (signed(0.00004, 4), "0.0000"),
        (signed(0.02, 2), "+0.02"),
        (interval(-0.001, 0.2, 2), "0.00 to 0.20"),
        (bare(-0.001), ".00"),
        (bare(0.845), f"{0.845:.2f}".removeprefix("0")),
    ],
)
def test_nothing_is_printed_as_minus_0(said, text):
    assert said == text


def test_a_count_agrees_with_its_noun():
    assert [counted(n, "family") for n in (0, 1, 2)] == ["0 families", "1 family", "2 families"]
    assert counted(1, "gain") == "1 gain"
    assert counted(3, "analysis", "analyses") == "3 analyses"


@pytest.fixture
def frames():
    """What a manuscript's table of importances is made from; a random placeholder stands for the second feature."""
    fitted = pd.DataFrame({"series": "V1", "feature": ["a", "b"], "title": ["Link", "Data similarity"]})
    fitted = fitted.assign(importance=[0.5, 0.0063], sd=[0.1, 0.005], is_stand_in=[False, True])
    run = pd.DataFrame({"fact": ["tasks"], "value": [2.0]})
    return {"figure-2-importances": fitted, "run": run}


def test_a_random_stand_in_is_no_number_in_the_table_of_importances(frames):
    (table,) = importances(frames)
    assert [row[1] for row in table.rows] == ["0.500 (0.100)", "--"]
    assert "Not measured, so that random numbers stood in for it in that fit (--): Data similarity." in table.caption
    (measured,) = importances(
        frames | {"figure-2-importances": frames["figure-2-importances"].assign(is_stand_in=False)}
    )
    assert measured.rows[1][1] == "0.006 (0.005)"
    assert "random" not in measured.caption


def test_a_random_stand_in_has_no_macro(frames):
    named = [number.row for number in numbers(frames) if number.file == "data/figure-2-importances.csv"]
    assert named == ["series=V1; feature=a; is_stand_in=False"] * 2
