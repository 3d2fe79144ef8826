"""Options asked otherwise, from made-up answers: numbers by hand and scikit-learn, and preferences that are chance."""

import numpy as np
import pytest
from sklearn.metrics import f1_score

from adapters_store.measures import ARRANGEMENTS, AS_ASKED, LETTERS, LETTERS_REVERSED, REVERSED
from analysis.gains.significance import Groups
from analysis.results.probes import NO_ANSWER, Stored, _options_compared, _shares, sides

CLASSES = ("low", "middle", "high")


def stored(labels, groups, answers, count=3):
    """Stored answers of a seed by arrangement; those that are not given are as asked."""
    every = {name: np.array(answers.get(name, answers[AS_ASKED])).reshape(-1, len(labels)) for name in ARRANGEMENTS}
    return Stored(every, dict.fromkeys(ARRANGEMENTS, np.nan), np.array(labels), Groups.of(groups), count)


def compared(own, draws=200):
    return {row["arrangement"]: row for row in _options_compared(own, draws, 1)}


def test_changes_and_scores_are_those_counted_by_hand():
    labels = [0, 1, 2, 0, 1, 2]
    answers = {AS_ASKED: [0, 1, 2, 0, 0, 0], REVERSED: [0, 1, 1, 1, 0, NO_ANSWER]}
    row = compared(stored(labels, range(6), answers))[REVERSED]
    assert row["changed"] == 3 / 6
    assert row["unanswered"] == pytest.approx(1 / 6)
    wrong = [0, 1, 1, 1, 0, 0]  # the last row's label is 2, and the next class in a circle is 0
    before, after = (f1_score(labels, said, average="macro") for said in (answers[AS_ASKED], wrong))
    assert (row["score"], row["score_after"]) == pytest.approx((before, after))
    assert row["shift"] == pytest.approx(100 * (after - before))
    assert row["shift_low"] <= row["shift"] <= row["shift_high"]
    first = np.array([1, 0, -1, 1, 1, 1])  # of the first half of the list; -1 of the second
    turned = np.array([-1, 0, 0, 0, -1, 0])  # class 0 stands last now, and no answer nowhere
    assert row["preference"] == pytest.approx(np.mean((first + turned) / 2))


@pytest.mark.parametrize(("count", "expected"), [(2, [1, -1]), (3, [1, 0, -1]), (4, [1, 1, -1, -1])])
def test_the_halves_of_a_list_are_as_large_and_its_middle_is_in_neither(count, expected):
    assert sides(np.arange(count), count).tolist() == expected
    assert sides(np.array([NO_ANSWER]), count).tolist() == [0]


def test_shares_of_positions_turn_with_the_order():
    answers = {AS_ASKED: [0, 0, 1, 2], REVERSED: [2, 2, 2, 0], LETTERS_REVERSED: [2, 1, 1, 0]}
    own = stored([0, 0, 1, 2], range(4), answers)
    shares = {(row["arrangement"], row["position"]): (row["class"], row["share"]) for row in _shares(own, CLASSES)}
    assert shares[AS_ASKED, 1] == ("low", 0.5)
    assert shares[REVERSED, 1] == ("high", 0.75)
    assert shares[LETTERS, 3] == ("high", 0.25)
    assert shares[LETTERS_REVERSED, 3] == ("low", 0.25)


@pytest.mark.simulation
def test_a_model_without_a_preference_is_rarely_said_to_have_one():
    """Answers that change by chance: 5 of 100 should have a preference with p at most .05."""
    rng, times = np.random.default_rng(2), 400
    shown = 0
    for _ in range(times):
        answers = {AS_ASKED: rng.integers(3, size=120), REVERSED: rng.integers(3, size=120)}
        own = stored(rng.integers(3, size=120), np.repeat(np.arange(60), 2), answers)
        shown += compared(own)[REVERSED]["prefers"] != "neither"
    assert shown / times <= 0.08
