"""Rows with other contexts: what each operation changes, what it leaves, and whom it cannot serve."""

import hashlib
from collections import Counter
from importlib.resources import files

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters_store.measures import (
    BAD_NEWS,
    GOOD_NEWS,
    IN_CLASS,
    OTHER_REPLY,
    OTHER_TASK,
    PROBE_VERSION,
    PROBES,
    REMOVED,
    SWAPPED,
    UNCHANGED,
)
from harness.scoring.probe import measured
from harness.scoring.probe.measured import NOBODY, OPERATIONS, Material, derangement, news_pairs
from tasks.task import Example, Turn

FOREIGN = [(Turn("speaker", f"elsewhere {number}"),) for number in range(50)]


def rows_of(count=24, groups=8, classes=3):
    """Rows of groups of three, each group with a context of its own; every eighth row has none."""
    return [
        Example(
            f"r{number}",
            f"g{number % groups}",
            "b",
            () if number % 8 == 7 else (Turn("prompt", "where"), Turn("speaker", f"context of {number % groups}")),
            f"reply {number}",
            (number * 7) % classes,
        )
        for number in range(count)
    ]


@pytest.mark.parametrize("name", PROBES)
def test_an_operation_keeps_ids_groups_and_labels_and_all_but_what_it_is_about(name):
    rows = rows_of()
    changed = OPERATIONS[name](rows, Material(3, FOREIGN))
    assert len(changed.rows) == len(changed.places) > 0
    assert list(changed.places) == sorted(changed.places)
    about = "text" if name == OTHER_REPLY else "context"
    for place, row in zip(changed.places, changed.rows, strict=True):
        assert row._replace(**{about: None}) == rows[place]._replace(**{about: None})
        assert (getattr(row, about) == getattr(rows[place], about)) == (name == UNCHANGED)
    assert len(changed.rows) + changed.left_out == sum(bool(row.context) for row in rows)


def test_a_context_is_swapped_with_one_of_another_group_and_each_is_given_away_once():
    rows = [row for row in rows_of() if row.context]
    origin = {row.context: row.group for row in rows}
    changed = OPERATIONS[SWAPPED](rows, Material(1)).rows
    assert all(origin[row.context] != row.group for row in changed)
    assert Counter(row.context for row in changed) == Counter(row.context for row in rows)


def test_inside_a_class_contexts_stay_with_their_label():
    rows = [row._replace(context=(Turn("speaker", row.id),)) for row in rows_of()]
    label = {row.context: row.label for row in rows}
    changed = OPERATIONS[IN_CLASS](rows, Material(1)).rows
    assert {label[row.context] == row.label for row in changed} == {True}


def test_numbers_are_swapped_inside_the_thirds_of_their_order():
    rows = [row._replace(label=float(n), context=(Turn("speaker", str(n)),)) for n, row in enumerate(rows_of())]
    changed = OPERATIONS[IN_CLASS](rows, Material(1)).rows
    assert {int(row.context[0].text) // 8 == int(row.label) // 8 for row in changed} == {True}


def test_good_and_bad_news_of_a_row_are_halves_of_one_pair_in_the_place_of_the_last_turn():
    rows = rows_of()
    good, bad = (OPERATIONS[name](rows, Material(5)).rows for name in (GOOD_NEWS, BAD_NEWS))
    halves = {(a.context[0].text, b.context[0].text) for a, b in zip(good, bad, strict=True)}
    assert halves <= set(news_pairs())
    assert len(halves) > 3
    assert {len(row.context) for row in good} == {1}
    assert {row.context[0].speaker for row in good} == {"speaker"}


def test_the_same_seed_draws_the_same_and_another_seed_does_not():
    rows = rows_of()
    for name in (SWAPPED, IN_CLASS, OTHER_TASK, GOOD_NEWS, OTHER_REPLY):
        first, again, other = (OPERATIONS[name](rows, Material(seed, FOREIGN)) for seed in (1, 1, 2))
        assert first.rows == again.rows != other.rows


def test_a_removed_context_is_empty_and_rows_that_have_none_take_no_part():
    changed = OPERATIONS[REMOVED](rows_of(), Material(1))
    assert {row.context for row in changed.rows} == {()}
    assert 7 not in changed.places


def test_without_another_task_no_row_gets_a_foreign_context():
    changed = OPERATIONS[OTHER_TASK](rows_of(), Material(1))
    assert (changed.rows, changed.left_out) == ([], 21)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 4)), max_size=30), st.integers(0, 99))
def test_nobody_gets_what_is_of_its_own_group_or_equal_to_its_own(pairs, seed):
    groups, contents = [group for group, _ in pairs], [content for _, content in pairs]
    givers = derangement(groups, contents, np.random.default_rng(seed))
    served = np.flatnonzero(givers != NOBODY)
    assert len(set(givers[served])) == len(served)
    for taker in served:
        assert groups[taker] != groups[givers[taker]]
        assert contents[taker] != contents[givers[taker]]


def test_a_group_of_more_than_half_of_the_rows_leaves_as_many_out_as_it_must():
    groups = [0] * 7 + [1, 2, 3]
    givers = derangement(groups, list(range(10)), np.random.default_rng(1))
    assert (givers == NOBODY).sum() == 7 - 3  # three others can serve three of the seven


def test_groups_of_half_of_the_rows_are_all_served():
    for seed in range(20):
        givers = derangement([0] * 5 + [1] * 5, list(range(10)), np.random.default_rng(seed))
        assert NOBODY not in givers


def test_single_rows_get_any_other_row_equally_often():
    draws = [derangement(range(5), range(5), np.random.default_rng(seed))[0] for seed in range(2000)]
    shares = np.bincount(draws, minlength=5) / 2000
    assert shares[0] == 0
    assert np.abs(shares[1:] - 0.25).max() < 4 * np.sqrt(0.25 * 0.75 / 2000)


def test_the_pairs_of_news_are_those_of_this_version_of_the_probe():
    content = files(measured.__package__).joinpath(measured.PAIRS).read_bytes()
    assert (PROBE_VERSION, hashlib.sha256(content).hexdigest()[:16]) == (1, "c6024465405e44f9")
    assert "Licence: CC0 1.0." in content.decode()
    pairs = news_pairs()
    assert 30 <= len(pairs) <= 60
    assert len({half for pair in pairs for half in pair}) == 2 * len(pairs)
