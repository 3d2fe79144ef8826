"""A manuscript's numbers of what has learned: scores of words, differences from them, and what may be counted."""

from __future__ import annotations

import pytest

from analysis.manuscript.frames import read_data, stored_study, write_data
from analysis.manuscript.paper import numbers
from tests.analysis.figures.test_unlearned_targets import results_of


@pytest.fixture(scope="module")
def quoted(tmp_path_factory):
    root = tmp_path_factory.mktemp("manuscript")
    (store, manifest), results = results_of(root, ["hope"])
    write_data(stored_study(store, manifest), root / "data")
    return results, {number.macro: number.printed for number in numbers(read_data(root / "data"))}


def test_words_and_the_difference_from_them_are_those_of_the_table(quoted) -> None:
    results, macros = quoted
    for row in results.learned.itertuples():
        name = row.target.title()
        assert macros[f"LearnedWords{name}"] == f"{row.words:.2f}"
        assert macros[f"LearnedDifference{name}"] == f"{row.difference:.1f}"
        assert macros[f"LearnedLow{name}"] == f"{row.low:.1f}" and macros[f"LearnedHigh{name}"] == f"{row.high:.1f}"


def test_counts_are_of_gains_onto_targets_that_have_learned(quoted) -> None:
    _, macros = quoted
    counted = ("StudyTargetsLearned", "StudyCountedPairs", "StudyCountedGains", "StudyCountedHarms")
    assert [macros[name] for name in counted] == ["1", "1", "1", "0"]
    assert macros["StudyCellsStillLearning"] == "1"
