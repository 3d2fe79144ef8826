"""The simulated rates of non-inferiority: by hand, and as the page has them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t as student

from analysis.ratings.themes import lower_bound
from benchmarks.calibrations.less_data import LOSSES, less_data_calibration

DOCS = Path(__file__).parents[3] / "docs"
LARGE, NONE = LOSSES


def test_a_bound_is_the_mean_less_as_many_errors_as_the_fewer_tasks_allow() -> None:
    points = np.random.default_rng(1).normal(size=(7, 3))
    error = np.sqrt(np.var(points.mean(1), ddof=1) / 7 + np.var(points.mean(0), ddof=1) / 3)
    assert lower_bound(points.mean(1), points.mean(0)) == pytest.approx(points.mean() - student.ppf(0.95, 2) * error)
    assert np.isnan(lower_bound(points.mean(1), points[:1, 0]))


def test_losses_are_simulated_with_and_without_a_difference() -> None:
    frame = less_data_calibration(studies=10)
    assert len(frame) == 4 * 4 * 2
    rates = frame.set_index(["targets", "differ", "loss"]).rate
    assert rates[18, "pairs alone", NONE] > rates[18, "pairs alone", LARGE]


def test_the_page_has_the_rates_of_the_file_and_none_is_above_five_in_a_hundred() -> None:
    lines = (DOCS / "what-explains-gains.md").read_text(encoding="utf-8").splitlines()
    frame = pd.read_csv(DOCS / "less_data_calibration.csv")
    rates = frame.set_index(["targets", "differ", "loss"]).rate
    assert (rates[:, :, LARGE] <= 0.05).all() and frame.studies.eq(1000).all()
    for differ in frame.differ.unique():
        cells = [
            "; ".join(
                f"{rates[n, differ, loss]:.{digits}f}".removeprefix("0") for loss, digits in ((LARGE, 3), (NONE, 2))
            )
            for n in (2, 4, 6, 18)
        ]
        assert f"| {differ} | {' | '.join(cells)} |" in lines
