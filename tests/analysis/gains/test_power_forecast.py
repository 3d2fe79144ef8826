"""What ``power`` forecasts of further seeds: against the tests that studies of these seeds go through, and the docs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import nct
from scipy.stats import t as student

from analysis.gains.gains import Growth
from analysis.gains.power import Error, chance_to_find, spreads, visible_by_seeds
from benchmarks.calibrations.forecasts import ASKED, FORECAST, KNOWN, forecasts, frames_of
from benchmarks.calibrations.gains import METRICS, QUALITY_SD, Design, simulated

FILE = Path(__file__).resolve().parents[3] / "docs" / "power_forecast.csv"


@pytest.mark.parametrize("df", [1, 3.5, 12, 200])
@pytest.mark.parametrize("size", [0.0, 0.7, 2.5, 6.0])
def test_the_chance_to_find_a_gain_is_that_of_the_noncentral_t_of_scipy(size: float, df: float) -> None:
    critical = student.ppf(0.975, df)
    wanted = nct.sf(critical, df, size) + nct.cdf(-critical, df, size)
    assert chance_to_find(size, df) == pytest.approx(wanted, abs=2e-4)
    assert chance_to_find(Error(Growth.constant(1.0), df).smallest(), df) == pytest.approx(0.8, abs=1e-6)
    assert np.isnan(chance_to_find(np.nan, df))


@pytest.mark.simulation
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(("seeds", "baseline_seeds"), [(1, 5), (3, 3), (5, 5)])
def test_a_study_forecasts_of_its_own_seeds_the_errors_of_its_own_gains(
    metric: str, seeds: int, baseline_seeds: int
) -> None:
    design = Design("gain", metric, 60, "equal", seeds, baseline_seeds, QUALITY_SD[metric])
    rng = np.random.default_rng(4)
    visible = pd.DataFrame({"target": ["target"], "setting": ["full"], "room": [100.0]})
    own, forecast = [], []
    for _ in range(30):
        evidence, _, scores = simulated(design, rng)
        by_seeds = visible_by_seeds(spreads(*frames_of(evidence, scores, design)), visible)
        row = by_seeds.set_index(["seeds", "baseline_seeds"]).loc[(seeds, baseline_seeds)]
        forecast.append(row.standard_error)
        own.append(np.mean([(100 * gain.standard_error) ** 2 for gain in evidence]))
    assert np.mean(forecast) == pytest.approx(np.sqrt(np.mean(own)), rel=0.06)


def test_the_forecasts_in_the_docs_are_those_of_the_designs_that_are_asked() -> None:
    frame = pd.read_csv(FILE)
    assert list(frame) == list(FORECAST)
    rows = [(metric, known, *asked) for metric in METRICS for known in KNOWN for asked in ASKED]
    assert [tuple(row) for row in frame[["metric", "known", "seeds", "baseline_seeds"]].itertuples(index=False)] == rows
    assert (frame.studies == 1000).all()
    paired = frame[(frame.seeds == frame.known) & (frame.seeds == frame.baseline_seeds)]
    excess = paired.forecast - paired.detected
    assert (len(paired), round(excess.min(), 2), round(excess.max(), 2)) == (6, 0.0, 0.06)
    assert frame.detected_error.max() < 0.0125
    assert (frame.forecast > frame.detected - 3 * frame.detected_error).all()  # as the docs say
    ratio = (frame.forecast / frame.detected)[frame.seeds == 1]
    assert (round(ratio.min(), 1), round(ratio.max(), 1)) == (1.4, 2.1)
    page = (FILE.parent / "significance.md").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines_of_the_page(frame) if line not in page] == []


def lines_of_the_page(frame: pd.DataFrame) -> list[str]:
    """A line per metric and number of seeds that is asked."""
    lines = []
    for (metric, seeds, baseline_seeds), rows in frame.groupby(["metric", "seeds", "baseline_seeds"], sort=False):
        cells = [f"{row.forecast:.2f} ({row.low:.2f} to {row.high:.2f})" for row in rows.itertuples()]
        name = {"macro_f1": "F1", "pearson_r": "r"}[metric]
        lines.append(f"| {name} | {seeds}, {baseline_seeds} | {rows.detected.iloc[0]:.2f} | {' | '.join(cells)} |")
    return [line.replace(" 0.", " .").replace("(0.", "(.") for line in lines]


@pytest.mark.simulation
def test_five_seeds_forecast_about_what_five_and_three_seeds_find() -> None:
    frame = pd.concat(forecasts(("macro_f1",), studies=60, seed=7))
    rows = frame[(frame.known == 5) & frame.seeds.isin([3, 5])]
    assert len(rows) == 2
    assert ((rows.forecast - rows.detected).abs() < 0.1 + 3 * rows.detected_error).all()
