"""T-F1 and IOU-F1 in each form, by hand and against slow definitions that share nothing with the module."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import f1_score

from tasks.rationales import FORMS, iou_f1, marked, token_f1

NAN = float("nan")


def marks(text):
    return np.array([letter == "x" for letter in text], dtype=bool)


# Gold and predicted marks of a post, then T-F1 and IOU-F1 in the forms epitome, micromodels, corrected.
BY_HAND = {
    "two halves of a gold span": ("xxxx....", "x.xx....", (6 / 7,) * 3, (2 / 3, 2 / 3, 2 / 3)),
    "two halves that both reach half": (".xxxxx.", ".xxxxx.", (1.0,) * 3, (1.0,) * 3),
    "a span that ends the text": ("..xx", "..xx", (1.0,) * 3, (1.0, 1.0, 1.0)),
    "one token that ends the text": ("...x", "...x", (1.0,) * 3, (1.0, 0.0, 1.0)),
    "one token in all": ("x", "x", (1.0,) * 3, (1.0, 0.0, 1.0)),  # epitome: the end token is beside it
    "no gold, some predicted": ("....", "xx..", (4 / 7, 0.0, NAN), (0.0, 0.0, NAN)),
    "neither": ("....", "....", (0.0, 1.0, NAN), (0.0, 1.0, NAN)),
    "no gold, all predicted": ("....", "xxxx", (1.0, 0.0, NAN), (1.0, 0.0, NAN)),
    "all predicted": ("xx..", "xxxx", (4 / 7, 2 / 3, 2 / 3), (0.0, 1.0, 1.0)),
    "none predicted": ("xx..", "....", (0.0,) * 3, (0.0,) * 3),
}


@pytest.mark.parametrize("case", BY_HAND)
def test_every_form_gives_what_a_hand_computes(case):
    gold, predicted, tokens, spans = BY_HAND[case]
    for form, by_token, by_span in zip(FORMS, tokens, spans, strict=True):
        assert token_f1([marks(gold)], [marks(predicted)], form) == pytest.approx(by_token, nan_ok=True), form
        assert iou_f1([marks(gold)], [marks(predicted)], form) == pytest.approx(by_span, nan_ok=True), form


def test_a_post_of_a_length_of_its_own_is_refused():
    with pytest.raises(ValueError, match="shape"):
        token_f1([marks("xx")], [marks("xxx")], "corrected")
    assert np.isnan(token_f1([], [], "epitome"))


def test_batches_of_the_published_code_weigh_the_last_posts_more():
    gold = [marks("xx.")] * 33
    predicted = [marks("xx.")] * 32 + [marks("...")]
    assert token_f1(gold, predicted, "epitome") == 0.5
    assert token_f1(gold, predicted, "corrected") == pytest.approx(32 / 33)


def slow_runs(values, form):
    runs, start = [], None
    for position, value in enumerate([*values, 0]):
        if value and start is None:
            start = position
        elif not value and start is not None:
            last = position - 1 if form != "corrected" and position == len(values) else position
            runs.append(set(range(start, last)))
            start = None
    return runs


def slow(gold, predicted, form):
    """T-F1 and IOU-F1 of a post, from lists and sets."""
    gold, predicted = [int(value) for value in gold], [int(value) for value in predicted]
    if form == "corrected" and not any(gold):
        return None
    if form == "epitome":
        gold = gold if any(gold) else [1] * len(gold)
        gold, predicted = ([*values[:62], int(all(values[:62]))] for values in (gold, predicted))
        places = min(len(",".join(map(str, gold))), 63)
        gold, predicted = ((values + [0] * 63)[:places] for values in (gold, predicted))
    empty = 0 if form == "epitome" else 1
    tokens = f1_score(gold, predicted, zero_division=empty)
    true, found = slow_runs(gold, form), slow_runs(predicted, form)
    if not true and not found:
        return tokens, empty
    near = [[bool(a | b) and 2 * len(a & b) >= len(a | b) for b in true] for a in found]
    if form == "corrected":  # at most one predicted span for each gold one, by trying every pairing
        wide = max(len(found), len(true))
        square = [[*row, *[False] * (wide - len(true))] for row in near] + [[False] * wide] * (wide - len(found))
        hits = max(sum(square[row][column] for row, column in enumerate(order)) for order in permutations(range(wide)))
    else:
        hits = sum(any(row) for row in near)
    precision, recall = hits / (len(found) or 1), hits / (len(true) or 1)
    return tokens, 2 * precision * recall / (precision + recall) if hits else 0


@pytest.mark.parametrize("form", FORMS)
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=11))
def test_a_post_scores_as_by_a_slow_definition(form, post):
    gold, predicted = (np.array(side, dtype=bool) for side in zip(*post, strict=True))
    expected = slow(gold, predicted, form)
    scored = token_f1([gold], [predicted], form), iou_f1([gold], [predicted], form)
    if expected is None:
        assert np.isnan(scored).all()
    else:
        assert scored == pytest.approx(expected)


def test_a_long_post_is_judged_on_the_first_63_places_of_the_published_code():
    gold = np.zeros(80, dtype=bool)
    gold[60:80] = True
    assert slow(gold, gold, "epitome") == (1.0, 1.0)
    assert token_f1([gold], [gold], "epitome") == iou_f1([gold], [gold], "epitome") == 1.0
    late = np.zeros(80, dtype=bool)
    late[70:] = True
    assert token_f1([gold], [late], "epitome") == 0.0


def test_a_token_is_marked_where_a_span_touches_it():
    tokens = [(0, 2), (2, 5), (5, 5), (6, 9)]
    assert marked(tokens, [(1, 3), (8, 20)]).tolist() == [True, True, False, True]
    assert not marked(tokens, [(5, 6)]).any()
    assert marked([], [(0, 4)]).shape == (0,)
