"""Controls beside transfers: compared alike, and averaged over the same targets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from adapters_store.roles import CONTROLS
from analysis.gains.comparisons import control_means, controls
from analysis.gains.gains import gains
from tests.support.studies.fake_study import FakeTask, fake_study

TASKS = (FakeTask("hope"), FakeTask("role"), FakeTask("distress", "continuous"), FakeTask("polarity", "continuous"))
DRAWS = 400


def test_a_control_is_compared_as_a_transfer_is_and_averaged_over_targets(tmp_path: Path) -> None:
    store, manifest = fake_study(tmp_path, TASKS, seeds=(1, 2), controls=CONTROLS, helpful=[("random", "hope")])
    frame, pairs = controls(store, manifest, draws=DRAWS), gains(store, manifest, draws=DRAWS)
    assert list(zip(frame.control, frame.target, strict=True)) == [
        (role, task.id) for task in TASKS for role in CONTROLS
    ]
    assert not {"p_bh", "significant"} & set(frame)
    found = frame.set_index(["control", "target"])
    assert found.points["random", "hope"] > found.points["self", "hope"] + 10
    means = control_means(frame, pairs).set_index(["control", "metric"])
    assert list(means.loc["control"].intermediate) == ["chat", "chat"]
    row, own = means.loc["self", "macro_f1"], found.points[[("self", "hope"), ("self", "role")]]
    of_target = pairs[pairs.metric == "macro_f1"].groupby("target").points.mean()
    assert (row.n_targets, row.points) == (2, pytest.approx(own.mean()))
    assert row.transfers_less_control == pytest.approx(of_target.mean() - own.mean())
    half = 12.706 * own.std() / np.sqrt(2)
    assert (row.low, row.high) == (
        pytest.approx(own.mean() - half, rel=1e-3),
        pytest.approx(own.mean() + half, rel=1e-3),
    )
    assert means.points["transfer", "macro_f1"] == pytest.approx(of_target.mean())


def test_a_control_s_mean_is_over_the_targets_that_have_transfers_too(tmp_path: Path) -> None:
    unfinished = [(one.id, "hope") for one in TASKS if one.id != "hope"]
    store, manifest = fake_study(tmp_path, TASKS, controls=("self",), absent=unfinished)
    frame, pairs = controls(store, manifest, draws=DRAWS), gains(store, manifest, draws=DRAWS)
    row = control_means(frame, pairs).set_index(["control", "metric"]).loc["self", "macro_f1"]
    of_role, transfers = frame.set_index("target").points["role"], pairs.points[pairs.target == "role"].mean()
    assert (row.n_targets, row.points, row.transfer_points) == (1, of_role, pytest.approx(transfers))
    assert row.transfers_less_control == pytest.approx(transfers - of_role)
