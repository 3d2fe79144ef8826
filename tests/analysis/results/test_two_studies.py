"""The difference of gains of two studies: on shared items that of a bootstrap of the difference itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t as student

from adapters_store import Store
from analysis.gains.cells import planned_cells, predictions
from analysis.gains.significance import difference_evidence, score_draws
from analysis.results.comparisons import Stored, covariance_through_groups, p_of_differences, shared_errors
from benchmarks.calibrations.two_studies import BETTER, TESTS, Design, _cells, two_studies_calibration
from tasks.metrics import MEASURES, macro_f1
from tests.support.studies.fake_study import FakeTask, fake_study

DOCS = Path(__file__).parents[3] / "docs"
TASKS = (FakeTask("hope"), FakeTask("role"), FakeTask("distress", "continuous"))


@pytest.mark.parametrize("metric", ["macro_f1", "pearson_r"])
def test_of_single_runs_the_p_is_that_of_the_difference_resampled_as_a_whole(metric: str) -> None:
    design, rng = Design(metric, 30, 1, 0.5), np.random.default_rng(3)
    labels, groups, lanes = _cells(design, 0.8, rng)
    flat = lanes.reshape(4, -1)  # two studies, each alone and with the transfer
    draws = score_draws(metric, labels, groups, flat, draws=400, rng=rng)
    scores = np.array([MEASURES[metric](labels, lane) for lane in flat])
    parts = [
        difference_evidence(scores[[k + 1]], scores[[k]], draws[:, [k + 1]], draws[:, [k]], groups, rng) for k in (0, 2)
    ]
    gains = scores[[1, 3]] - scores[[0, 2]]
    resampled = draws[:, [1, 3]] - draws[:, [0, 2]]
    row = {"difference": gains[1] - gains[0], "group_df": groups.effective - 1}
    row["covariance"] = covariance_through_groups(resampled[:, 0], resampled[:, 1], groups.count)
    for side, evidence in zip("ab", parts, strict=True):
        row |= {f"{name}_{side}": getattr(evidence, name) for name in ("standard_error", "seed_error", "df")}
    whole = difference_evidence(gains[[1]], gains[[0]], resampled[:, [1]], resampled[:, [0]], groups, rng)
    expected = 2 * student.sf(abs(row["difference"]) / whole.standard_error, whole.df)
    assert p_of_differences(pd.DataFrame([row]))[0] == pytest.approx(expected, rel=1e-6)
    unshared = p_of_differences(pd.DataFrame([{**row, "covariance": np.nan}]))[0]
    total = sum(evidence.standard_error**2 for evidence in parts)
    freedom = total**2 / sum(evidence.standard_error**4 / evidence.df for evidence in parts)
    assert unshared == pytest.approx(2 * student.sf(abs(row["difference"]) / np.sqrt(total), freedom), rel=1e-9)


def _stored(root: Path, name: str, seeds: tuple[int, ...]) -> Stored:
    store, manifest = fake_study(root, TASKS, seeds=seeds)
    manifest = manifest | {"name": name}
    store.write_manifest(name, manifest)
    return Stored(Store(root), manifest)


def _decisions(study: Stored, intermediate: str | None, target: str) -> list[np.ndarray]:
    frame = planned_cells(*study)
    role = frame.role == ("transfer" if intermediate else "baseline")
    rows = frame[(frame.target == target) & role & (frame.intermediate.isna() | (frame.intermediate == intermediate))]
    return [predictions(study.store, study.store.get(key)).decisions for key in rows.key]


def test_the_covariance_is_that_of_groups_drawn_by_hand(tmp_path: Path) -> None:
    a, b = _stored(tmp_path, "a", (1,)), _stored(tmp_path, "b", (3, 4))
    frame = shared_errors(a, b, draws=4000).set_index(["intermediate", "target"])
    assert len(frame) == 6
    shown = predictions(a.store, a.store.get(planned_cells(*a).query("target == 'hope'").key.iloc[0]))
    names, index = np.unique(shown.groups, return_inverse=True)
    rows = [np.flatnonzero(index == number) for number in range(len(names))]
    rng, gains = np.random.default_rng(0), []
    cells = [[_decisions(study, name, "hope") for name in ("role", None)] for study in (a, b)]
    for _ in range(400):
        chosen = np.concatenate([rows[number] for number in rng.integers(len(names), size=len(names))])
        means = [
            [np.mean([macro_f1(shown.labels[chosen], d[chosen]) for d in decisions]) for decisions in study]
            for study in cells
        ]
        gains.append([100 * (top - alone) for top, alone in means])
    spread = np.cov(np.array(gains).T) * len(names) / (len(names) - 1)
    tolerance = 4 * np.sqrt(spread[0, 0] * spread[1, 1] / 400)
    assert frame.covariance["role", "hope"] == pytest.approx(spread[0, 1], abs=tolerance)


def test_other_test_items_are_not_taken_together(tmp_path: Path) -> None:
    a = _stored(tmp_path / "a", "a", (1,))
    store, manifest = fake_study(tmp_path / "b", (FakeTask("hope", rows=90), FakeTask("role")), seeds=(1,))
    frame = shared_errors(a, Stored(store, manifest))
    assert set(frame.target) == {"role"}


def test_a_simulated_design_counts_both_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.calibrations.two_studies.DESIGNS", [Design("macro_f1", 20, 3, 0.6)])
    frame = two_studies_calibration(12)
    assert list(frame.test) == ["shared items", "as independent"] * 2
    assert list(frame.quality) == [0.0, 0.0, BETTER, BETTER]
    assert (frame.studies == 12).all() and frame.rate.between(0, 1).all()


def _short(rate: float, digits: int) -> str:
    return f"{rate:.{digits}f}".removeprefix("0")


def test_every_rate_of_the_page_is_that_of_the_file() -> None:
    lines = (DOCS / "significance.md").read_text(encoding="utf-8").splitlines()
    frame = pd.read_csv(DOCS / "compare_calibration.csv")
    assert frame.studies.eq(500).all()
    for where, part in frame.groupby(["metric", "groups", "seeds", "alike"], sort=False):
        rates = part.set_index(["quality", "test"]).rate
        cells = [
            *(f"{value:g}" if not isinstance(value, str) else value for value in where),
            *(_short(rates[0.0, test], 3) for test in TESTS),
            *(_short(rates[BETTER, test], 2) for test in TESTS),
        ]
        assert f"| {' | '.join(cells)} |" in lines
    equal = frame[(frame.quality == 0) & (frame.test == "shared items")]
    assert (equal.low <= 0.05).all()
    assert equal.alarms.sum() <= 0.055 * equal.studies.sum()
