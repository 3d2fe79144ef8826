"""The step-down maximum from counts that are kept of draws, against the draws themselves and by enumeration."""

from __future__ import annotations

import numpy as np
import pytest

from analysis.gains.corrections import TIE, GainTest, Reach, as_normal, reaches, step_down
from analysis.gains.significance import Evidence


def _block(observed: np.ndarray, null: np.ndarray, name: str = "a", first: int = 0) -> list[tuple[int, GainTest]]:
    """Tests of one column with their positions, from sizes ``[tests]`` and draws ``[draws, tests]``."""
    return [
        (first + place, GainTest((name, "full"), name, float(size), null[:, place].astype(np.float32)))
        for place, size in enumerate(observed)
    ]


def _stepped(*blocks: tuple[np.ndarray, np.ndarray]) -> list[np.ndarray]:
    return step_down([Reach.of(_block(*block)) for block in blocks])


def _by_hand(observed: np.ndarray, null: np.ndarray) -> np.ndarray:
    """The step-down maximum the long way: from the largest, each against the maximum of all that are left."""
    left, adjusted, least = list(np.argsort(-observed)), np.empty(observed.size), 0.0
    while left:
        largest = null[:, left].max(axis=1)
        least = max(least, (1 + sum(one >= observed[left[0]] for one in largest)) / (len(null) + 1))
        adjusted[left.pop(0)] = least
    return adjusted


def _with_all_draws(tests: list[list[GainTest]]) -> np.ndarray:
    """The same of several blocks, from all draws as normal deviates: every size is looked up in every draw."""
    sizes = [[as_normal(test.sizes, test.df).astype(np.float32) for test in block] for block in tests]
    observed = np.array([test.observed for block in tests for test in block])
    own = [number for number, block in enumerate(tests) for _ in block]
    adjusted, least = np.empty(observed.size), 0.0
    for place in np.argsort(-observed, kind="stable"):
        missed = 1.0
        for number, block in enumerate(tests):
            among = [size for test, size in zip(block, sizes[number], strict=True) if test.observed <= observed[place]]
            if among:
                largest, is_own = np.max(among, axis=0).astype(np.float64), own[place] == number
                reaching = np.count_nonzero(largest >= observed[place] * (1 - TIE))
                missed *= 1 - (reaching + is_own) / (largest.size + is_own)
        adjusted[place] = least = max(least, 1 - missed)
    return adjusted


def _random_tests(rng: np.random.Generator, name: str, n_tests: int, draws: int) -> list[GainTest]:
    """Tests that share a part of their draws, with tails of their own, some alike, some undefined in a few draws."""
    shared, tests = rng.normal(size=draws), []
    for _ in range(n_tests):
        df = float(rng.choice([1.7, 4.0, 31.5, 249.0]))
        sizes = np.abs(0.6 * shared + 0.8 * rng.standard_t(df, size=draws))
        sizes[rng.random(draws) < 0.01] = np.inf
        error = float(rng.uniform(0.01, 3))
        evidence = Evidence(0, 0, 0.5, error, df, 0, (error * sizes).astype(np.float32))
        estimate = error * float(rng.choice([0.0, 0.7, abs(rng.standard_t(df)), abs(rng.normal(0, 3))]))
        tests.append(GainTest.of(estimate, evidence, (name, "full"), name))
    return tests


@pytest.mark.parametrize("seed", range(6))
def test_counts_that_are_kept_say_what_all_draws_say(seed: int) -> None:
    rng = np.random.default_rng(seed)
    tests = [
        _random_tests(rng, name, rng.integers(1, 9), int(rng.choice([40, 200])))
        for name in "abcd"[: rng.integers(1, 5)]
    ]
    numbered = list(enumerate(test for block in tests for test in block))
    columns, blocks = reaches(numbered)
    found = dict(
        (position, p)
        for block, values in zip(blocks, step_down(blocks), strict=True)
        for position, p in zip(block.positions, values, strict=True)
    )
    np.testing.assert_array_equal([found[position] for position, _ in numbered], _with_all_draws(tests))
    assert [column.positions.tolist() for column in columns] == [block.positions.tolist() for block in blocks]


def test_of_draws_no_more_is_kept_than_lies_between_neighbouring_sizes() -> None:
    rng, n_tests, draws = np.random.default_rng(3), 150, 400
    null = np.abs(rng.normal(size=(draws, n_tests)))
    kept = Reach.of(_block(np.abs(rng.normal(size=n_tests)), null)).between.size
    assert draws <= kept < 10 * draws  # of 150 x 400


def test_independent_blocks_are_their_joint_distribution_by_enumeration() -> None:
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


def test_columns_with_joint_draws_have_a_block_together_and_one_each_of_their_own() -> None:
    rng = np.random.default_rng(2)
    null = np.abs(rng.normal(size=(300, 4))).astype(np.float32)
    tests = [
        GainTest((name, "full"), block, size, null[:, place])
        for place, (name, block, size) in enumerate([("a", "x", 1), ("b", "x", 2), ("c", "y", 0.5), ("a", "x", 3)])
    ]
    columns, blocks = reaches(enumerate(tests))
    assert [column.positions.tolist() for column in columns] == [[0, 3], [1], [2]]
    assert [block.positions.tolist() for block in blocks] == [[0, 1, 3], [2]]
    joint = np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(step_down(blocks[:1])[0], _by_hand(joint, null[:, [0, 1, 3]]))
