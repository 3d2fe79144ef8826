"""Corrections against hand-computed cases, a brute-force maximum, and simulated studies without an effect."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from analysis.gains.corrections import (
    GainTest,
    benjamini_yekutieli,
    corrections_of,
    holm,
    step_down,
    to_redraw,
    undecided,
)
from analysis.gains.significance import LEVEL, Evidence, Groups, difference_evidence, score_draws
from tasks.metrics import macro_f1


def test_holm_is_that_of_a_hand_computed_case() -> None:
    # .01 x 4 = .04, .02 x 3 = .06, .03 x 2 = .06, .04 x 1 = .04 but not below .06
    np.testing.assert_allclose(holm([0.03, np.nan, 0.01, 0.04, 0.02]), [0.06, np.nan, 0.04, 0.06, 0.06])
    np.testing.assert_allclose(holm([0.9, 0.8]), [1.0, 1.0])


def test_benjamini_yekutieli_is_that_of_a_hand_computed_case() -> None:
    # m = 3, 1 + 1/2 + 1/3 = 11/6; .01 x 3 = .03, .03 x 3/2 = .045, .04 x 1 = .04: stepped up .03, .04, .04
    expected = np.array([0.04, 0.03, np.nan, 0.04]) * 11 / 6
    np.testing.assert_allclose(benjamini_yekutieli([0.03, 0.01, np.nan, 0.04]), expected)


def _by_hand(observed: np.ndarray, null: np.ndarray) -> np.ndarray:
    """The step-down maximum the long way: from the largest, each against the maximum of all that are left."""
    left, adjusted, least = list(np.argsort(-observed)), np.empty(observed.size), 0.0
    while left:
        largest = null[:, left].max(axis=1)
        least = max(least, (1 + sum(one >= observed[left[0]] for one in largest)) / (len(null) + 1))
        adjusted[left.pop(0)] = least
    return adjusted


def test_one_block_is_the_maximum_by_hand() -> None:
    rng = np.random.default_rng(0)
    null = np.abs(rng.normal(size=(500, 7)) + rng.normal(size=(500, 1))).astype(np.float32)
    observed = np.array([3.0, 0.5, 2.5, 1.0, 4.5, 0.1, 2.0])
    np.testing.assert_allclose(step_down([observed], [null])[0], _by_hand(observed, null))


def test_independent_blocks_are_their_joint_distribution_by_enumeration() -> None:
    first, second = np.array([[0.0], [1], [2], [3]]), np.array([[0.0, 5], [4, 0]])
    joint = np.array([[*one, *other] for one in first for other in second])
    found = np.concatenate(step_down([np.array([2.5]), np.array([4.5, 1.0])], [first, second]))
    # 4.5 against all: half of the second block reach it, 2/3 with the observation; nothing of the first
    assert (joint.max(axis=1) >= 4.5).mean() == 1 / 2
    assert found[1] == pytest.approx(2 / 3)
    # 2.5 against itself and 1.0: a quarter of its block, 2/5 with the observation, and half of the other
    assert (joint[:, [0, 2]].max(axis=1) >= 2.5).mean() == 1 - 3 / 4 * 1 / 2
    assert found[0] == pytest.approx(1 - 3 / 5 * 1 / 2)
    assert found[2] == pytest.approx(0.7)  # 1.0 alone would have 2/3


def test_blocks_may_have_different_numbers_of_draws_and_none_at_all() -> None:
    rng = np.random.default_rng(1)
    null = [np.abs(rng.normal(size=(count, 2))).astype(np.float32) for count in (2000, 20_000)]
    found = np.concatenate(step_down([np.array([2.0, 2.2]), np.array([2.4, 2.6])], null))
    chance = [2 * 0.00466, 2 * 0.0082, 2 * 0.0139, 2 * 0.02275]  # of a standard normal beyond 2.6, 2.4, 2.2, 2.0
    expected = [1 - np.prod([1 - chance[place]] * (4 - place)) for place in range(4)]
    np.testing.assert_allclose(found[[3, 2, 1, 0]], np.maximum.accumulate(expected), atol=0.012)
    assert step_down([], []) == []


def _judged(observed: float, sizes: np.ndarray, column: str = "a", block: str = "a") -> GainTest:
    return GainTest((column, "full"), block, observed, sizes.astype(np.float32))


def test_what_can_never_be_found_takes_no_part_in_the_maximum() -> None:
    sizes = np.linspace(0, 2, 999)
    often_undefined = np.where(np.arange(999) % 10 == 0, np.inf, sizes)
    found = corrections_of(np.array([0.001, 0.3, np.nan]), [_judged(3, sizes), _judged(1, often_undefined), None])
    assert found.p_max_target.tolist()[:2] == pytest.approx([0.001, 1.0])
    assert found.iloc[2].isna().all()


def test_gains_with_the_same_test_groups_are_corrected_from_joint_draws() -> None:
    sizes = np.abs(np.random.default_rng(0).normal(size=4000))
    p, seen = np.array([0.05, 0.05]), [(sizes >= 1.96).mean()]
    joint = [_judged(1.96, sizes, column) for column in "ab"]  # one and the same evidence, twice
    apart = [_judged(1.96, sizes, column, column) for column in "ab"]
    assert corrections_of(p, joint).p_max_grid.tolist() == pytest.approx([max(0.05, *seen)] * 2, abs=0.001)
    assert corrections_of(p, apart).p_max_grid.tolist() == pytest.approx([1 - 0.95**2] * 2, abs=0.01)


def test_the_maximum_of_a_target_ignores_other_targets() -> None:
    rng = np.random.default_rng(3)
    tests = [_judged(2.0, np.abs(rng.normal(size=2000)), column) for column in "aab"]  # all of the same test groups
    p = np.full(3, 0.0455)
    together = corrections_of(p, tests)
    alone = [corrections_of(p[:2], tests[:2]), corrections_of(p[2:], tests[2:])]
    assert together.p_max_target.tolist() == [*alone[0].p_max_target, *alone[1].p_max_target]
    assert together.p_max_target[2] == pytest.approx(0.0455, abs=0.01)
    assert (together.p_max_grid > together.p_max_target + 0.02).all()


@pytest.mark.parametrize("correction", ["p_bh", "p_by", "p_holm", "p_max_target"])
def test_an_undecided_p_of_any_correction_is_drawn_anew(correction: str) -> None:
    sizes = np.abs(np.random.default_rng(0).normal(size=2000))
    tests = [_judged(8.0, sizes, "a", "x"), _judged(0.1, sizes, "b", "y")]
    p = np.array([0.05, 0.9])
    decided = pd.DataFrame({name: [0.5, 0.9] for name in ("p_bh", "p_by", "p_holm", "p_max_target", "p_max_grid")})
    assert to_redraw(p, tests, decided) == set()
    undecided_here = decided.assign(**{correction: [0.05, 0.9]})
    assert to_redraw(p, tests, undecided_here) == {("a", "full")}


def test_p_that_draws_have_not_decided_are_named() -> None:
    p, draws = np.array([1 / 10_001, 0.02, 0.5, 1 / 10_001, np.nan]), np.full(5, 10_000.0)
    adjusted = np.array([306 / 10_001, 0.0500, 0.9, 20 / 10_001, np.nan])
    assert undecided(p, adjusted, draws).tolist() == [True, True, False, False, False]


def test_more_draws_are_for_the_undecided_and_those_joint_with_them() -> None:
    sizes = np.abs(np.random.default_rng(0).normal(size=2000))
    tests = [_judged(0.1, sizes, "a", "x"), _judged(1.9, sizes, "b", "x"), _judged(8.0, sizes, "c", "y"), None]
    p = np.array([0.9, 0.05, 1 / 2001, np.nan])
    adjusted = corrections_of(p, tests).assign(p_max_grid=[0.9, 0.3, 0.001, np.nan])
    adjusted = adjusted.assign(p_bh=[0.9, 0.05, 0.001, np.nan])
    assert to_redraw(p, tests, adjusted) == {("a", "full"), ("b", "full")}
    in_grid = adjusted.assign(p_max_grid=[0.9, 0.05, 0.001, np.nan])
    assert to_redraw(p, tests, in_grid) == {("a", "full"), ("b", "full"), ("c", "full")}


def test_without_any_variance_a_difference_is_infinite_and_equality_is_not() -> None:
    still = Evidence(0, 0, 1, 0, np.nan, 0, np.zeros(99, np.float32))
    tests = [GainTest.of(estimate, still, ("a", "full"), "a") for estimate in (0.0, 0.1)]
    assert [one.observed for one in tests] == [0, np.inf]
    assert corrections_of(np.array([1.0, 0.01]), tests).p_max_target.tolist() == pytest.approx([1.0, 0.01])


def _null_column(
    rng: np.random.Generator, n_groups: int, n_transfers: int, n_seeds: int = 1, *, name: str = "a", drawn: int = 0
) -> tuple[list[float], list[GainTest]]:
    """P and tests of transfers that are as good as their baseline; items of a group err together, seeds on their own.

    Columns with the same ``drawn`` have the same groups, resampled alike.
    """
    index, shape = np.repeat(np.arange(n_groups), 6), (1 + n_transfers, n_seeds)
    truth = rng.normal(size=index.size)

    def noise(*shape: int) -> np.ndarray:
        return rng.normal(size=(*shape, n_groups))[..., index] + rng.normal(size=(*shape, index.size))

    skill = 1 + 0.25 * rng.normal(size=(*shape, 1)) * (n_seeds > 1)
    latent = skill * truth + noise(1 + n_transfers, 1) + 0.7 * noise(*shape) * (n_seeds > 1)
    labels, lanes = np.digitize(truth, [-0.4, 0.4]), np.digitize(latent, [-0.6, 0.6])
    groups, scores = Groups.of(index), np.array([[macro_f1(labels, one) for one in seeds] for seeds in lanes])
    source = np.random.default_rng(drawn)
    draws = score_draws("macro_f1", labels, groups, lanes.reshape(-1, labels.size), draws=300, rng=source)
    draws = draws.reshape(300, *shape)
    p, tests = [], []
    for lane in range(1, 1 + n_transfers):
        found = difference_evidence(scores[lane], scores[0], draws[:, lane], draws[:, 0], groups, rng)
        p.append(found.p)
        tests.append(GainTest.of(float(scores[lane].mean() - scores[0].mean()), found, (name, "full"), drawn))
    return p, tests


def test_a_gain_alone_keeps_its_own_p() -> None:
    p, tests = _null_column(np.random.default_rng(2), 30, 5, 2)
    for one, test in zip(p, tests, strict=True):
        found = corrections_of(np.array([one]), [test])
        assert found.p_max_target[0] == found.p_max_grid[0] == pytest.approx(one)


def _least(studies: list[tuple[list[float], list[GainTest]]]) -> pd.DataFrame:
    """The smallest p of each study by correction."""
    names = ["p_max_target", "p_max_grid", "p_holm"]
    return pd.DataFrame([corrections_of(np.array(p), tests)[names].min() for p, tests in studies])


def test_hardly_a_target_without_effects_has_a_discovery() -> None:
    rng = np.random.default_rng(5)
    rates = (_least([_null_column(rng, 40, 8, drawn=one) for one in range(300)]) <= LEVEL).mean()
    assert rates.p_max_target <= 0.08  # 300 studies: .05 and two and a half standard errors
    assert rates.p_max_target > rates.p_holm  # the maximum knows how gains of a target depend


def test_hardly_a_target_of_several_seeds_without_effects_has_a_discovery() -> None:
    rng = np.random.default_rng(6)
    rates = (_least([_null_column(rng, 40, 5, 3, drawn=one) for one in range(200)]) <= LEVEL).mean()
    assert 0 < rates.p_max_target <= 0.09  # few seeds have heavy tails, which must not make the test blind


def test_hardly_a_grid_of_joint_and_independent_targets_without_effects_has_a_discovery() -> None:
    rng, studies = np.random.default_rng(7), []
    for one in range(0, 300, 2):
        parts = [_null_column(rng, 40, 3, name=name, drawn=one + (name == "c")) for name in "abc"]
        studies.append(([one for p, _ in parts for one in p], [one for _, tests in parts for one in tests]))
    rates = (_least(studies) <= LEVEL).mean()
    assert rates.p_max_grid <= 0.1  # 150 studies
    assert rates.p_max_grid <= rates.p_max_target
