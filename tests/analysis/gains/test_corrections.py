"""Corrections for many tests, by hand, by enumeration and from joint draws."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest, norm

from analysis.gains import corrections
from analysis.gains.significance import LEVEL, Evidence


def test_holm_is_that_of_a_hand_computed_case():
    # .01 x 4 = .04, .02 x 3 = .06, .03 x 2 = .06, .04 x 1 = .04 but not below .06
    np.testing.assert_allclose(corrections.holm([0.03, np.nan, 0.01, 0.04, 0.02]), [0.06, np.nan, 0.04, 0.06, 0.06])
    np.testing.assert_allclose(corrections.holm([0.9, 0.8]), [1.0, 1.0])


def test_benjamini_yekutieli_is_that_of_a_hand_computed_case():
    # m = 3, 1 + 1/2 + 1/3 = 11/6; .01 x 3 = .03, .03 x 3/2 = .045, .04 x 1 = .04: stepped up .03, .04, .04
    expected = np.array([0.04, 0.03, np.nan, 0.04]) * 11 / 6
    np.testing.assert_allclose(corrections.benjamini_yekutieli([0.03, 0.01, np.nan, 0.04]), expected)


def _judged(observed, sizes, column="a", block="a"):
    return corrections.GainTest((column, "full"), block, observed, sizes.astype(np.float32))


def _corrected(p, tests):
    return corrections.corrections_of(p, *corrections.reaches((at, test) for at, test in enumerate(tests) if test))


def test_what_can_never_be_found_takes_no_part_in_the_maximum():
    sizes = np.linspace(0, 2, 999)
    often_undefined = np.where(np.arange(999) % 10 == 0, np.inf, sizes)
    found = _corrected(np.array([0.001, 0.3, np.nan]), [_judged(3, sizes), _judged(1, often_undefined), None])
    assert found.p_max_target.tolist()[:2] == pytest.approx([0.001, 1.0])
    assert found.iloc[2].isna().all()


def test_gains_with_the_same_test_groups_are_corrected_from_joint_draws():
    sizes = np.abs(np.random.default_rng(0).normal(size=4000))
    p, seen = np.array([0.05, 0.05]), [(sizes >= 1.96).mean()]
    joint = [_judged(1.96, sizes, column) for column in "ab"]  # one and the same evidence, twice
    apart = [_judged(1.96, sizes, column, column) for column in "ab"]
    assert _corrected(p, joint).p_max_grid.tolist() == pytest.approx([max(0.05, *seen)] * 2, abs=0.001)
    assert _corrected(p, apart).p_max_grid.tolist() == pytest.approx([1 - 0.95**2] * 2, abs=0.01)


def test_the_maximum_of_a_target_ignores_other_targets():
    rng = np.random.default_rng(3)
    tests = [_judged(2.0, np.abs(rng.normal(size=2000)), column) for column in "aab"]  # all of the same test groups
    p = np.full(3, 0.0455)
    together = _corrected(p, tests)
    alone = [_corrected(p[:2], tests[:2]), _corrected(p[2:], tests[2:])]
    assert together.p_max_target.tolist() == [*alone[0].p_max_target, *alone[1].p_max_target]
    assert together.p_max_target[2] == pytest.approx(0.0455, abs=0.01)
    assert (together.p_max_grid > together.p_max_target + 0.02).all()


def test_the_monte_carlo_error_is_the_spread_of_a_p_over_repeats():
    rng, p, draws = np.random.default_rng(0), np.array([0.02, 0.4]), 500
    repeats = rng.binomial(draws, p, size=(20_000, 2)) / draws
    np.testing.assert_allclose(corrections.monte_carlo_error(p, np.full(2, draws)), repeats.std(axis=0), rtol=0.03)


def test_p_that_draws_have_not_decided_are_named():
    p, draws = np.array([1 / 10_001, 0.0500, 0.5, 0.02, np.nan]), np.array([10_000.0] * 4 + [np.nan])
    assert corrections.undecided(p, draws).tolist() == [False, True, False, False, False]
    of_bonferroni = corrections.undecided(p, draws, lambda raw: np.minimum(306 * np.asarray(raw), 1))
    assert of_bonferroni.tolist() == [True] + [False] * 4


def test_a_p_that_decides_over_smaller_ones_is_undecided_with_them():
    draws = np.full(4, 10_000.0)
    stepped = np.array([0.030, 0.0501, 0.0499, 0.0500])  # the largest of them near .05: all four are found, or none
    assert corrections.undecided(stepped, draws, corrections.benjamini_hochberg).tolist() == [True] * 4
    settled = np.array([0.001, 0.0003, 0.3, 0.0500])  # a p at .05 among two small ones is far from its .0375
    assert not corrections.undecided(settled, draws, corrections.benjamini_hochberg).any()
    alone = np.array([0.001, 0.0003, 0.3, 0.0375])  # and one at .0375 leaves the small ones as they are
    assert corrections.undecided(alone, draws, corrections.benjamini_hochberg).tolist() == [False, False, False, True]


@pytest.mark.parametrize("correct", [corrections.benjamini_hochberg, corrections.benjamini_yekutieli, corrections.holm])
def test_what_is_decided_stays_so_wherever_all_p_lie_within_their_intervals(correct):
    rng, draws = np.random.default_rng(1), 300
    for _ in range(12):
        true = np.where(rng.random(12) < 0.6, rng.uniform(0, 0.03, 12), rng.random(12))
        p = (rng.binomial(draws, true) + 1) / (draws + 1)
        is_open = corrections.undecided(p, np.full(12, float(draws)), correct)
        low, high = _interval_by_hand(p, draws)
        for _ in range(10):
            elsewhere = correct(low + (high - low) * rng.random(12)) <= LEVEL
            assert (elsewhere == (correct(p) <= LEVEL))[~is_open].all()


def test_more_draws_of_the_undecided_find_what_more_draws_of_all_would():
    rng, alike, n_anew = np.random.default_rng(16), {"undecided": 0, "none": 0}, 0
    for _ in range(100):
        effects = np.where(rng.random(306) < rng.uniform(0.05, 0.7), rng.normal(0, 3, 306), 0)
        true = 2 * norm.sf(np.abs(effects + rng.normal(size=306)))
        counts = rng.binomial(10_000, true)
        few, many = (counts + 1) / 10_001, (counts + rng.binomial(90_000, true) + 1) / 100_001
        is_open = corrections.undecided(few, np.full(306, 10_000.0), corrections.benjamini_hochberg)
        n_anew += is_open.sum()
        for name, anew in (("undecided", is_open), ("none", False)):
            mixed = corrections.benjamini_hochberg(np.where(anew, many, few)) <= LEVEL
            alike[name] += (mixed == (corrections.benjamini_hochberg(many) <= LEVEL)).all()
    assert alike["undecided"] >= 99 > 80 > alike["none"]  # 1,999 and 1,045 of 2,000
    assert n_anew < 100 * 306 / 20


def _interval_by_hand(p, draws):
    exact = [binomtest(round(value * (draws + 1) - 1), draws).proportion_ci(0.99) for value in p]
    return np.array([ends.low for ends in exact]), np.array([ends.high for ends in exact])


def test_of_a_frame_every_correction_is_undecided_by_its_own_draws():
    frame = pd.DataFrame({"p": [0.05, 0.9], "draws": [100_000, 10_000], "draws_of_maxima": [10_000, 10_000]})
    frame = frame.assign(p_max_target=[0.052, 0.9], p_max_grid=[0.09, 0.9])
    found = corrections.undecided_corrections(frame)
    assert list(found) == list(corrections.CORRECTIONS)
    assert found.p_max_target.tolist() == [True, False]
    assert not corrections.undecided_corrections(frame.assign(draws_of_maxima=100_000)).p_max_target.any()
    assert not found.drop(columns="p_max_target").any(axis=None)


def test_without_any_variance_a_difference_is_infinite_and_equality_is_not():
    still = Evidence(0, 0, 1, 0, np.nan, 0, np.zeros(99, np.float32))
    tests = [corrections.GainTest.of(estimate, still, ("a", "full"), "a") for estimate in (0.0, 0.1)]
    assert [one.observed for one in tests] == [0, np.inf]
    assert _corrected(np.array([1.0, 0.01]), tests).p_max_target.tolist() == pytest.approx([1.0, 0.01])


# The step-down maximum from counts that are kept of draws, against the draws themselves and by enumeration.


def _block(observed, null, name="a", first=0):
    """Tests of one column with their positions, from sizes ``[tests]`` and draws ``[draws, tests]``."""
    return [
        (first + place, corrections.GainTest((name, "full"), name, float(size), null[:, place].astype(np.float32)))
        for place, size in enumerate(observed)
    ]


def _stepped(*blocks):
    return corrections.step_down([corrections.Reach.of(_block(*block)) for block in blocks])


def _by_hand(observed, null):
    """The step-down maximum the long way: from the largest, each against the maximum of all that are left."""
    left, adjusted, least = list(np.argsort(-observed)), np.empty(observed.size), 0.0
    while left:
        largest = null[:, left].max(axis=1)
        least = max(least, (1 + sum(one >= observed[left[0]] for one in largest)) / (len(null) + 1))
        adjusted[left.pop(0)] = least
    return adjusted


def _with_all_draws(tests):
    """The same of several blocks, from all draws as normal deviates: every size is looked up in every draw."""
    sizes = [[corrections.as_normal(test.sizes, test.df).astype(np.float32) for test in block] for block in tests]
    observed = np.array([test.observed for block in tests for test in block])
    own = [number for number, block in enumerate(tests) for _ in block]
    adjusted, least = np.empty(observed.size), 0.0
    for place in np.argsort(-observed, kind="stable"):
        missed = 1.0
        for number, block in enumerate(tests):
            among = [size for test, size in zip(block, sizes[number], strict=True) if test.observed <= observed[place]]
            if among:
                largest, is_own = np.max(among, axis=0).astype(np.float64), own[place] == number
                reaching = np.count_nonzero(largest >= observed[place] * (1 - corrections.TIE))
                missed *= 1 - (reaching + is_own) / (largest.size + is_own)
        adjusted[place] = least = max(least, 1 - missed)
    return adjusted


def _random_tests(rng, name, n_tests, draws):
    """Tests that share a part of their draws, with tails of their own, some alike, some undefined in a few draws."""
    shared, tests = rng.normal(size=draws), []
    for _ in range(n_tests):
        df = float(rng.choice([1.7, 4.0, 31.5, 249.0]))
        sizes = np.abs(0.6 * shared + 0.8 * rng.standard_t(df, size=draws))
        sizes[rng.random(draws) < 0.01] = np.inf
        error = float(rng.uniform(0.01, 3))
        evidence = Evidence(0, 0, 0.5, error, df, 0, (error * sizes).astype(np.float32))
        estimate = error * float(rng.choice([0.0, 0.7, abs(rng.standard_t(df)), abs(rng.normal(0, 3))]))
        tests.append(corrections.GainTest.of(estimate, evidence, (name, "full"), name))
    return tests


@pytest.mark.parametrize("seed", range(6))
def test_counts_that_are_kept_say_what_all_draws_say(seed):
    rng = np.random.default_rng(seed)
    names = "abcd"[: rng.integers(1, 5)]
    tests = [_random_tests(rng, name, rng.integers(1, 9), int(rng.choice([40, 200]))) for name in names]
    numbered = list(enumerate(test for block in tests for test in block))
    columns, blocks = corrections.reaches(numbered)
    found = dict(
        (position, p)
        for block, values in zip(blocks, corrections.step_down(blocks), strict=True)
        for position, p in zip(block.positions, values, strict=True)
    )
    np.testing.assert_array_equal([found[position] for position, _ in numbered], _with_all_draws(tests))
    assert [column.positions.tolist() for column in columns] == [block.positions.tolist() for block in blocks]


def test_of_draws_no_more_is_kept_than_lies_between_neighbouring_sizes():
    rng, n_tests, draws = np.random.default_rng(3), 150, 400
    null = np.abs(rng.normal(size=(draws, n_tests)))
    kept = corrections.Reach.of(_block(np.abs(rng.normal(size=n_tests)), null)).between.size
    assert draws <= kept < 10 * draws  # of 150 x 400


def test_independent_blocks_are_their_joint_distribution_by_enumeration():
    first, second = np.array([[0.0], [1], [2], [3]]), np.array([[0.0, 5], [4, 0]])
    joint = np.array([[*one, *other] for one in first for other in second])
    found = np.concatenate(_stepped((np.array([2.5]), first), (np.array([4.5, 1.0]), second)))
    # 4.5 against all: half of the second block reach it, 2/3 with the observation; nothing of the first
    assert (joint.max(axis=1) >= 4.5).mean() == 1 / 2
    assert found[1] == pytest.approx(2 / 3)
    # 2.5 against itself and 1.0: a quarter of its block, 2/5 with the observation, and half of the other
    assert (joint[:, [0, 2]].max(axis=1) >= 2.5).mean() == 1 - 3 / 4 * 1 / 2
    assert found[0] == pytest.approx(1 - 3 / 5 * 1 / 2)
    assert found[2] == pytest.approx(0.7)  # 1.0 alone would have 2/3


def test_columns_with_joint_draws_have_a_block_together_and_one_each_of_their_own():
    rng = np.random.default_rng(2)
    null = np.abs(rng.normal(size=(300, 4))).astype(np.float32)
    tests = [
        corrections.GainTest((name, "full"), block, size, null[:, place])
        for place, (name, block, size) in enumerate([("a", "x", 1), ("b", "x", 2), ("c", "y", 0.5), ("a", "x", 3)])
    ]
    columns, blocks = corrections.reaches(enumerate(tests))
    assert [column.positions.tolist() for column in columns] == [[0, 3], [1], [2]]
    assert [block.positions.tolist() for block in blocks] == [[0, 1, 3], [2]]
    joint = np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(corrections.step_down(blocks[:1])[0], _by_hand(joint, null[:, [0, 1, 3]]))
