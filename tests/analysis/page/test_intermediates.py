"""The leaderboard of intermediates: its ranks against slow loops, and its intervals where the truth is known."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from analysis.page.document import document
from analysis.page.parts import FEWEST, leaders
from tests.support.studies.fake_study import FakeTask, fake_study
from tests.support.studies.page_study import page_content

NO = float("nan")


def slow_advantages(points, targets):
    """The advantage of every intermediate over these targets, some of them several times, by loops."""
    advantages = []
    for row in points:
        differences = []
        for target in targets:
            known = [other[target] for other in points if np.isfinite(other[target])]
            if np.isfinite(row[target]):
                differences.append(row[target] - sum(known) / len(known))
        advantages.append(sum(differences) / len(differences) if differences else NO)
    return advantages


def slow_rank(values, place):
    """1 more than the number of larger values, and half of the others that are equal."""
    larger = sum(value > values[place] + 1e-9 for value in values)
    equal = sum(abs(value - values[place]) <= 1e-9 for value in values) - 1
    return 1 + larger + equal / 2


def grid(rows, columns, seed=0):
    points = np.random.default_rng(seed).normal(scale=3, size=(rows, columns))
    points[range(min(rows, columns)), range(min(rows, columns))] = NO  # no task is learned on top of itself
    return points


@pytest.mark.parametrize("shape", [(2, 2), (4, 5), (6, 6)])
def test_ranks_and_advantages_are_those_of_slow_loops(shape):
    points = grid(*shape)
    board = leaders(points, [str(column) for column in range(shape[1])], draws=20)
    expected = slow_advantages(points, range(shape[1]))
    assert board.advantage.to_numpy() == pytest.approx(expected)
    assert board["rank"].tolist() == [slow_rank(expected, place) for place in range(shape[0])]
    assert board["mean"].to_numpy() == pytest.approx(np.nanmean(points, axis=1))
    assert board.n.tolist() == np.isfinite(points).sum(axis=1).tolist()


def test_intervals_are_the_quantiles_over_all_resamples():
    points = grid(3, FEWEST, seed=4)
    board = leaders(points, [f"target {column}" for column in range(FEWEST)], draws=40_000)
    ranks = []
    for picked in itertools.product(range(FEWEST), repeat=FEWEST):
        advantages = slow_advantages(points, picked)
        if all(np.isfinite(advantages)):
            ranks.append([slow_rank(advantages, place) for place in range(3)])
    low, high = np.quantile(ranks, [0.025, 0.975], axis=0, method="inverted_cdf")
    assert board.low.tolist() == low.tolist() and board.high.tolist() == high.tolist()
    assert (high > low).any()


def test_targets_of_one_unit_are_drawn_together():
    points = np.repeat(grid(4, 6, seed=1), 3, axis=1)
    apart, together = ([str(column // size) for column in range(18)] for size in (1, 3))
    widths = [(board.high - board.low).sum() for board in (leaders(points, units) for units in (apart, together))]
    assert widths[0] < widths[1]


def test_few_targets_have_ranks_without_intervals():
    board = leaders(grid(3, FEWEST - 1), [str(column) for column in range(FEWEST - 1)])
    assert board["rank"].notna().all() and board.low.isna().all() and board.high.isna().all()


def test_an_intermediate_without_any_gain_has_no_rank():
    points = grid(3, 6)
    points[1] = NO
    board = leaders(points, list("abcdef"))
    assert board.loc[1, ["advantage", "rank", "low"]].isna().all()
    assert sorted(board["rank"].dropna()) == [1.0, 2.0]


@pytest.mark.parametrize("size", [2, 6])
def test_a_study_has_its_intermediates_ranked_with_counts_of_significant_gains(tmp_path, size):
    tasks = [FakeTask(f"task_{place}") for place in range(size)]
    store, manifest = fake_study(tmp_path / "store", tasks, helpful=[("task_1", "task_0")])
    for name, task in manifest["tasks"].items():
        task["family"] = "one" if size == 6 else name
    (board,) = document(*page_content(store, manifest, tmp_path))["leaderboards"]
    assert board["resampled"] == ("targets" if size == 6 else "")
    ranks = [row["rank"] for row in board["rows"]]
    assert len(ranks) == size and ranks == sorted(ranks)
    assert ranks[0] == (1 if size == 6 else 1.5), "of two tasks each is the only intermediate of the other"
    *_, targets, gains, harms = next(row["texts"] for row in board["rows"] if row["intermediate"] == "task_1")
    assert (targets, gains) == (str(size - 1), "1") and int(harms) < size
