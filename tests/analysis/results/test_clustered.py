"""Two means of grouped rows: by hand, against the matrices of the sandwich, and with groups that are everything."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from analysis.gains.corrections import reaches, step_down
from analysis.results.people import TwoMeans, joint_tests


def by_matrices(values, is_with, group, shared):
    """Variance of the difference and its degrees of freedom from Bell and McCaffrey's matrices, written out."""
    rows, contrast = np.stack([is_with, ~is_with], axis=1).astype(float), np.array([1.0, -1.0])
    inverse = np.linalg.inv(rows.T @ rows)
    hat, same = rows @ inverse @ rows.T, group[:, None] == group[None, :]
    left, middle, terms = values - hat @ values, 0.0, []
    for name in np.unique(group):
        own = group == name
        share, axes = np.linalg.eigh(np.eye(own.sum()) - hat[np.ix_(own, own)])
        root = axes @ np.diag(share**-0.5) @ axes.T
        part = inverse @ rows[own].T @ root
        middle = middle + np.outer(part @ left[own], part @ left[own])
        terms.append((np.eye(len(values)) - hat)[:, own] @ (contrast @ part))
    shape = np.stack(terms, axis=1)
    form = shape.T @ ((1 - shared) * np.eye(len(values)) + shared * same) @ shape
    return contrast @ middle @ contrast, np.trace(form) ** 2 / np.sum(form**2)


def share_by_pairs(left, group):
    """The mean product of two rows of a group over the mean square, pair by pair."""
    products = [
        left[i] * left[j] for i in range(len(left)) for j in range(len(left)) if i != j and group[i] == group[j]
    ]
    return float(np.clip(np.mean(products) / np.mean(left**2), 0, 1)) if products else 0.0


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(3, 9), st.floats(0.15, 0.8), st.floats(0, 2))
def test_error_and_degrees_are_those_of_the_matrices(seed, count, rate, level):
    rng = np.random.default_rng(seed)
    group = rng.integers(0, count, 45)
    values = level * rng.normal(size=count)[group] + rng.normal(size=45)
    is_with = rng.random(45) < rate
    pair = TwoMeans.of(values, is_with, group, count)
    if not pair.is_testable:
        sizes = [[np.sum((group == name) & side) for name in range(count)] for side in (is_with, ~is_with)]
        assert any(max(own) == sum(own) for own in sizes)
        return
    left = values - np.where(is_with, values[is_with].mean(), values[~is_with].mean())
    variance, df = by_matrices(values, is_with, group, share_by_pairs(left, group))
    assert (pair.error**2, pair.df) == pytest.approx((variance, df), rel=1e-9)


def test_rows_of_their_own_give_the_unequal_variances_of_welch():
    rng = np.random.default_rng(3)
    values, is_with = rng.normal(size=40), np.arange(40) < 14
    pair = TwoMeans.of(values, is_with, np.arange(40), 40)
    assert pair.errors == pytest.approx([stats.sem(values[is_with]), stats.sem(values[~is_with])])
    welch = stats.ttest_ind(values[is_with], values[~is_with], equal_var=False)
    assert pair.difference / pair.error == pytest.approx(welch.statistic)
    assert pair.p == pytest.approx(2 * stats.t.sf(abs(welch.statistic), pair.df))
    assert list(pair.rows) == list(pair.groups) == [14, 26]


def test_two_groups_by_hand():
    values, is_with = np.array([5.0, 3.0, 4.0, 2.0]), np.array([True, False, True, False])
    pair = TwoMeans.of(values, is_with, np.array([0, 0, 1, 1]), 2)
    # Means 4.5 and 2.5; what is left is .5, .5, -.5, -.5. A group has half of both sides, so each term is stretched by
    # the root of 2 and divided by 2 rows: .3536 with and .3536 without in either group, and nothing in the difference.
    assert pair.means.tolist() == [4.5, 2.5]
    assert pair.errors == pytest.approx([0.5, 0.5])
    assert pair.error == pytest.approx(0) and not pair.is_testable
    assert np.isnan([pair.p, pair.half_width]).all()


def test_what_one_group_alone_shows_has_no_test():
    pair = TwoMeans.of(np.array([5.0, 4.0, 1.0, 2.0]), np.array([True, True, False, False]), np.array([0, 0, 1, 2]), 3)
    assert np.isnan([pair.p, pair.df, pair.half_width, pair.errors[0]]).all() and np.isfinite(pair.errors[1])
    empty = TwoMeans.of(np.array([5.0, 4.0]), np.array([True, True]), np.array([0, 1]), 2)
    assert np.isnan(empty.difference) and empty.rows.tolist() == [2, 0] and not empty.is_testable


def test_draws_depend_on_each_other_as_the_tests_do():
    rng = np.random.default_rng(8)
    group, base = np.repeat(np.arange(60), 3), rng.normal(size=180)
    is_with = rng.random(180) < 0.4
    near, far = base + 0.3 * rng.normal(size=180), rng.normal(size=180)
    tests = [TwoMeans.of(values, is_with, group, 60) for values in (base, near, far)]
    joint = [test for _, test in joint_tests(tests, ["a", "b", "c"], 20_000, np.random.default_rng(1))]
    for test in joint:
        assert np.mean(test.sizes >= 1.96) == pytest.approx(0.05, abs=0.006)
    terms = np.stack([test.terms / test.error for test in tests])
    expected = terms @ terms.T
    signless = np.corrcoef([test.sizes**2 for test in joint])  # of normal deviates the square of their correlation
    assert signless == pytest.approx(expected**2, abs=0.04)
    single = step_down(reaches([(0, joint[0])])[1])[0]
    assert single[0] == pytest.approx(tests[0].p, abs=0.01)
