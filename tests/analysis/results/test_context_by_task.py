"""Context sensitivity beside what tasks teach and learn, by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from analysis.gains.comparisons import over_targets
from analysis.results.comparisons import BY_TASK, LEARNS, TEACHES, context_by_task

TASKS = ("a", "b", "c", "d", "e")
POINTS = np.random.default_rng(3).normal(size=(5, 5))
DROPS = {"a": 0.1, "b": 0.0, "c": 0.05, "d": 0.2, "e": -0.02}


def probed(tasks=TASKS):
    rows = [
        {"target": task, "role": role, "operation": operation, "drop": DROPS[task], "drop_low": -0.5, "drop_high": 0.5}
        for task in tasks
        for role, operation in (("baseline", "swapped"), ("baseline", "removed"), ("transfer", "swapped"))
    ]
    return pd.DataFrame(rows)


def gains_of(tasks=TASKS):
    rows = [
        {
            "intermediate": a,
            "target": b,
            "setting": setting,
            "points": POINTS[i, j],
            "contaminated": (a, b) == ("a", "b"),
        }
        for i, a in enumerate(tasks)
        for j, b in enumerate(tasks)
        for setting in ("full", "half")
        if a != b
    ]
    return pd.DataFrame(rows).astype({"contaminated": "boolean"})


def test_a_task_has_its_drop_in_points_and_its_mean_gains_without_contaminated_ones():
    frame = context_by_task(probed(), gains_of())
    assert list(frame.columns) == list(BY_TASK) and len(frame) == 10
    of_a = frame[frame.task == "a"].set_index("part")
    assert of_a.loc[TEACHES, ["sensitivity", "sensitivity_low", "n"]].tolist() == pytest.approx([10.0, -50.0, 3])
    assert of_a.loc[TEACHES, "mean"] == pytest.approx(POINTS[0, 2:].mean())
    assert of_a.loc[LEARNS, "mean"] == pytest.approx(POINTS[1:, 0].mean())
    assert frame.loc[(frame.task == "b") & (frame.part == LEARNS), "n"].tolist() == [3]


def test_the_correlation_is_spearman_s_over_the_tasks_of_a_part_and_none_of_fewer_than_five():
    for _, rows in context_by_task(probed(), gains_of()).groupby("part"):
        rho = stats.spearmanr(rows.sensitivity, rows["mean"]).statistic
        assert rows.rho.to_numpy() == pytest.approx(np.full(5, rho))
    assert context_by_task(probed(TASKS[:4]), gains_of(TASKS[:4])).rho.isna().all()


def test_an_interval_is_student_s_and_of_one_gain_there_is_none():
    values = np.array([1.0, 4.0, -2.0, 3.0])
    expected = stats.t.interval(0.95, 3, values.mean(), stats.sem(values))
    assert over_targets(values)[1:] == pytest.approx(expected)
    assert np.isnan(over_targets(values[:1])[1:]).all()


def test_tasks_without_a_probe_or_a_gain_are_left_out():
    assert set(context_by_task(probed(TASKS[:2]), gains_of()).task) == {"a", "b"}
    waiting = gains_of()
    waiting.loc[(waiting.intermediate == "c") | (waiting.target == "c"), "points"] = np.nan
    assert set(context_by_task(probed(), waiting).task) == {"a", "b", "d", "e"}
    assert context_by_task(probed(), waiting.assign(points=np.nan)).empty
