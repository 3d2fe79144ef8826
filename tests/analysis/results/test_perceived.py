"""Expressed against perceived: means, errors clustered by groups, and corrections over the table."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from analysis.gains.corrections import reaches, step_down
from analysis.results.people import DECIDES, EXPRESSED, Rated, TwoMeans, correlations, expressed, joint_tests
from tasks.errors import BadInput

RATINGS = ("engaged", "understood", "sympathy", "helpful", "satisfied")
LEVEL = 0.05


def as_in_the_paper(rng, *, effect=0.44, dialogues=1_833, intents=16):
    """One rated row of every dialogue; ``i1`` raises sympathy as the paper's express sympathy does, 3.48 for 3.04."""
    rates = np.geomspace(0.03, 0.35, intents)
    has = (rng.random((dialogues, intents)) < rates).astype(float)
    names = [f"i{number}" for number in range(intents)]
    shared = rng.normal(size=(dialogues, 1))
    latent = 3.9 + 0.35 * (0.7 * shared + 0.7 * rng.normal(size=(dialogues, len(RATINGS))))
    latent[:, 2] += effect * has[:, 1] - 0.8
    ratings = np.clip(np.round(latent + 0.3 * rng.normal(size=latent.shape)), 1, 5)
    group = pd.Series([f"d{number}" for number in range(dialogues)])
    return Rated(group, pd.DataFrame(has, columns=names), pd.DataFrame(ratings, columns=list(RATINGS)))


def dialogues(rng, *, count=90, intents=6):
    """Marks of dialogues with levels of their own, of 1 to 16 rows; dialogues also differ in what they express."""
    sizes = np.clip(np.round(rng.lognormal(1.4, 0.6, count)), 1, 16).astype(int)
    group = np.repeat(np.arange(count), sizes)
    habit = rng.normal(size=(count, intents)) - np.linspace(0, 1, intents)
    has = (habit[group] + rng.normal(size=(len(group), intents)) > 0.6).astype(float)
    level = 1.1 * rng.normal(size=count)[group]
    latent = 3 + level[:, None] + rng.normal(size=(len(group), 2))
    ratings = pd.DataFrame(np.clip(np.round(latent), 1, 5), columns=["mark", "other"])
    ratings.loc[rng.random(len(group)) < 0.3, "other"] = np.nan
    return Rated(pd.Series(group.astype(str)), pd.DataFrame(has, columns=list("abcdef")[:intents]), ratings)


def shuffled(rated, rng):
    """Every dialogue gets the ratings of another, as many as it has rows: levels stay with ratings."""
    own = rated.group.to_numpy(int)
    other = rng.permutation(own.max() + 1)[own]
    places = [rng.choice(np.flatnonzero(own == name)) for name in other]
    return Rated(rated.group, rated.intents, rated.ratings.iloc[places].reset_index(drop=True))


def test_a_planted_effect_in_the_form_of_the_papers_table_is_the_only_difference():
    table = expressed(as_in_the_paper(np.random.default_rng(7)), draws=2_000)
    assert list(table.columns) == list(EXPRESSED) and len(table) == 16 * 5
    different = table[table[DECIDES] <= LEVEL]
    assert different[["intent", "rating"]].to_numpy().tolist() == [["i1", "sympathy"]]
    planted = different.iloc[0]
    assert planted.low <= 0.44 <= planted.high
    assert planted.rows_with + planted.rows_without == planted.groups_with + planted.groups_without == 1_833


def test_what_was_not_rated_or_is_not_known_counts_on_no_side():
    rated = dialogues(np.random.default_rng(2))
    rated.intents.loc[:9, "a"] = np.nan
    table = expressed(rated, draws=200).set_index(["rating", "intent"])
    has = rated.ratings.other.notna() & rated.intents.a.notna()
    assert table.loc[("other", "a"), ["rows_with", "rows_without"]].sum() == has.sum()
    assert table.loc[("mark", "b"), ["rows_with", "rows_without"]].sum() == len(rated.group)


def test_correlations_are_spearmans_of_the_means_of_groups_and_of_rows():
    rated = dialogues(np.random.default_rng(4))
    row = correlations(rated).iloc[1]
    means = rated.ratings.groupby(rated.group).mean().dropna()
    both = rated.ratings.dropna()
    assert (row.rating, row.other, row.groups, row.rows) == ("mark", "other", len(means), len(both))
    assert row.rho == pytest.approx(stats.spearmanr(means.mark, means.other).statistic)
    assert row.rho_rows == pytest.approx(stats.spearmanr(both.mark, both.other).statistic)
    assert row.low < row.rho < row.high


def test_ratings_of_different_rows_go_together_over_groups_alone():
    group = pd.Series(list("aabbccdd"))
    ratings = pd.DataFrame({"mark": [1, np.nan, 2, np.nan, 3, np.nan, 4, np.nan], "end": [np.nan, 1.0] * 4})
    ratings.loc[1::2, "end"] = [2.0, 1.0, 4.0, 3.0]
    row = correlations(Rated(group, pd.DataFrame({"i": [1.0, 0.0] * 4}), ratings)).iloc[1]
    assert (row.groups, row.rows) == (4, 0) and row.rho == pytest.approx(0.6)
    assert np.isnan(row.rho_rows)


@pytest.mark.parametrize(
    ("groups", "intents", "line"),
    [
        (["a", "a"], [1.0, 0.0], "--group: 1 group with ratings; errors need two, and want thirty"),
        (["a", "b"], [0.0, 0.0], "intent 'i': nobody has it in 2 rated rows; leave it out"),
        (["a", "b"], [1.0, 1.0], "intent 'i': all 2 rated rows have it; leave it out"),
    ],
)
def test_what_cannot_be_compared_is_refused(groups, intents, line):
    with pytest.raises(BadInput, match=line):
        Rated(pd.Series(groups), pd.DataFrame({"i": intents}), pd.DataFrame({"r": [1.0, 2.0]}))


def test_what_one_dialogue_alone_expresses_takes_part_in_no_correction():
    rated = dialogues(np.random.default_rng(6))
    rated.intents["a"] = (rated.group == rated.group.value_counts().index[0]).astype(float)
    table = expressed(rated, draws=500).set_index(["rating", "intent"])
    assert np.isnan(table.loc[("mark", "a"), ["p", "error_with", "p_bh", "p_holm", DECIDES]].to_numpy(float)).all()
    tested = table.drop(index=[("mark", "a"), ("other", "a")])
    assert tested[["p_holm", DECIDES]].notna().all(axis=None)
    assert (tested[DECIDES] >= tested.p - 1e-12).all() and (tested[DECIDES] >= tested.p_max_rating - 1e-12).all()


@pytest.mark.simulation
def test_ratings_shuffled_between_dialogues_differ_no_more_often_than_the_level():
    rng, draws = np.random.default_rng(20261124), 400
    single, careless, any_of_table = [], [], []
    for number in range(draws):
        rated = shuffled(dialogues(rng), rng)
        table = expressed(rated, draws=499, seed=number)
        single.append((table.p <= LEVEL).sum() / table.p.notna().sum())
        any_of_table.append((table[DECIDES] <= LEVEL).any())
        values, has = rated.ratings.mark.to_numpy(float), rated.intents.a.to_numpy() == 1
        careless.append(TwoMeans.of(values, has, np.arange(len(values)), len(values)).p <= LEVEL)
    # Of 400 draws with a probability of .05, 1 in 32 samples has a share above .072.
    assert 0.03 <= np.mean(single) <= 0.055
    assert 0.01 <= np.mean(any_of_table) <= 0.072
    assert np.mean(careless) > 0.1  # rows taken for independent, where dialogues differ in what they express


# Two means of grouped rows: by hand, against the matrices of the sandwich, and with groups that are everything.


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
