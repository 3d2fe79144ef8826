"""How small a gain could have been seen, and what other numbers of seeds would show."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import nct
from scipy.stats import t as student

from analysis.gains import power
from analysis.gains.cells import cells
from analysis.gains.gains import ERRORS, SIZES, Growth, gains, growths, with_growth
from benchmarks.calibrations.forecasts import ASKED, FORECAST, KNOWN, forecasts, frames_of
from benchmarks.calibrations.gains import METRICS, QUALITY_SD, Design, simulated
from tests.support.studies.fake_study import FakeTask, fake_study

TASKS = (FakeTask("hope"), FakeTask("role"), FakeTask("distress", "continuous"))


def smallest_visible(error, df):
    """Of an error that is the same whatever the gain."""
    return power.Error(Growth.constant(error**2), df).smallest()


@pytest.mark.parametrize("df", [2, 5, 23, 200])
def test_its_power_is_that_of_the_noncentral_t_of_scipy(df):
    critical, size = student.ppf(0.975, df), smallest_visible(1.0, df)
    assert nct.sf(critical, df, size) + nct.cdf(-critical, df, size) == pytest.approx(0.8, abs=2e-5)


def test_every_target_has_its_smallest_visible_gain(tmp_path):
    store, manifest = fake_study(tmp_path, TASKS, constant=[("hope", "distress")])
    frame = with_growth(gains(store, manifest, draws=200), growths(store, manifest))
    found = power.visible_gains(frame).set_index("target")
    assert found.n_pairs.to_dict() == {"hope": 2, "role": 2, "distress": 1}
    one = next(frame[(frame.target == "distress") & frame.p.notna()].itertuples())
    own = power.Error.of(one)
    assert found.visible["distress"] == pytest.approx(own.smallest())
    assert found.visible_in_grid["distress"] == pytest.approx(own.smallest(level=0.01))
    error, df = own.at(found.visible["distress"])
    assert smallest_visible(error, df) == pytest.approx(found.visible["distress"], rel=1e-3)
    untested = power.visible_gains(frame.assign(p=np.nan))
    assert untested.n_pairs.eq(0).all()
    assert untested.visible.isna().all()


GAIN = {"seed_error": 0.0, "standard_error": 2.0, "df": 19.0, "points": 5.0, "effective_groups": 20.0}
GROWN = pd.DataFrame([GAIN | dict(zip(ERRORS, (1.0, 1.2, 2.0, 3.0, 4.0, np.nan), strict=True))])


def test_the_error_of_a_gain_is_that_of_its_size():
    own = power.Error.of(next(GROWN.itertuples()))
    assert own.at(0.0) == pytest.approx((1.0, 19.0))
    assert own.at(5.0) == pytest.approx((2.0, 19.0))
    assert own.at(7.5)[0] == pytest.approx(np.sqrt((4 + 9) / 2))
    assert own.at(90.0)[0] == pytest.approx(4.0)
    assert np.isnan(power.Error.of(next(GROWN.assign(**dict.fromkeys(ERRORS, np.nan)).itertuples())).smallest())
    assert power.Error(Growth.constant(1e6), 19.0).smallest() == np.inf


def test_printed_scores_have_the_error_that_they_were_printed_with():
    printed = next(GROWN.drop(columns=[*ERRORS, "effective_groups", "seed_error"]).itertuples())
    assert power.Error.of(printed).at(3.0) == power.Error.of(printed).at(30.0) == pytest.approx((2.0, 19.0))


def test_the_part_of_the_seeds_stays_as_it_is():
    with_seeds = GROWN.assign(seed_error=1.2, df=15.0, standard_error=np.sqrt(4 + 1.2**2))
    error, df = power.Error.of(next(with_seeds.itertuples())).at(5.0)
    assert (error, df) == pytest.approx((np.sqrt(4 + 1.2**2), 15.0))


@pytest.mark.parametrize("kind", ["multiclass", "continuous"])
def test_no_gain_is_called_visible_that_the_test_rows_cannot_show(tmp_path, kind):
    tasks = [FakeTask(name, kind) for name in ("hope", "role", "fear")]
    store, manifest = fake_study(tmp_path, tasks)
    visible = power.visible_gains(with_growth(gains(store, manifest, draws=200), growths(store, manifest)))
    rows = tasks[0].test()
    assert (visible.visible > power.smallest_at_best(tasks[0].metric, rows.label, rows.group)).all()


@pytest.mark.parametrize("metric", ["macro_f1", "pearson_r"])
def test_more_rows_show_smaller_gains_and_four_groups_none(metric):
    rng = np.random.default_rng(5)
    labels = rng.integers(3, size=1600) if metric == "macro_f1" else rng.normal(size=1600)
    few, many = (power.smallest_at_best(metric, labels[:n], np.arange(n)) for n in (100, 1600))
    assert many < few / 4
    assert np.isnan(power.smallest_at_best(metric, labels, np.arange(1600) % 4))
    assert np.isfinite(power.smallest_at_best(metric, labels, np.arange(1600) % 5))
    assert np.isnan(power.smallest_at_best(metric, np.ones(1600), np.arange(1600)))


def test_seeds_and_groups_are_told_apart_in_a_finished_study(tmp_path):
    store, manifest = fake_study(tmp_path, TASKS, seeds=(1, 2, 3), baseline_seeds=(1, 2, 3, 4))
    frame = gains(store, manifest, draws=400)
    found = power.spreads(frame, cells(store, manifest)).set_index("target")
    scores = cells(store, manifest).query("target == 'hope'")
    base, role, distress = (
        100 * scores[scores.intermediate.fillna("") == name].sort_values("seed").score.to_numpy()
        for name in ("", "role", "distress")
    )
    row = found.loc["hope"]
    own = frame[frame.target == "hope"]
    assert (row.n_pairs, row.n_seeds, row.groups_df) == (2, 4, 23)
    few = power.spreads(frame.assign(effective_groups=3.0), cells(store, manifest))
    assert (few.groups_df == 2).all()  # what the test of such a gain has
    assert row.baseline == pytest.approx(base.var(ddof=1))
    assert row.transfer == pytest.approx((role.var(ddof=1) + distress.var(ddof=1)) / 2)
    covariances = [np.cov(base[:3], one)[0, 1] for one in (role, distress)]
    assert row.shared == pytest.approx(np.mean(covariances))
    assert row.groups == pytest.approx((own.standard_error**2 - own.seed_error**2).median())


def test_gains_that_know_of_no_answers_have_one_error_through_groups_without_the_seeds(tmp_path):
    store, manifest = fake_study(tmp_path, TASKS, seeds=(1, 2, 3))
    frame = gains(store, manifest, draws=200).drop(columns=list(ERRORS))
    found = power.spreads(frame, cells(store, manifest))
    assert (found[list(ERRORS)].pow(2).sub(found.groups, axis=0).abs() < 1e-9).all(axis=None)
    assert (found.groups < frame.groupby("target", sort=False).standard_error.median().pow(2).to_numpy()).all()


def _spread(**changed):
    row = {"target": "a", "setting": "full", "n_pairs": 9, "groups": 4.0, "groups_df": 99.0, "n_seeds": 3}
    row |= {"baseline": 2.0, "transfer": 3.0, "shared": 1.5} | changed
    return pd.DataFrame([dict.fromkeys(ERRORS, row["groups"] ** 0.5) | row], columns=list(power.SPREADS))


def _by_seeds(*, room=100.0, **changed):
    visible = pd.DataFrame([{"target": "a", "setting": "full", "room": room}])
    return power.visible_by_seeds(_spread(**changed), visible)


def test_the_parts_of_a_standard_error_are_those_of_simulated_seeds():
    rng, found = np.random.default_rng(0), _by_seeds(n_seeds=10**6).set_index(["seeds", "baseline_seeds"])
    covariance = np.array([[2.0, 1.5], [1.5, 3.0]])
    for seeds, baseline_seeds in [(2, 2), (2, 10), (5, 20)]:
        drawn = rng.multivariate_normal([0, 0], covariance, size=(40_000, baseline_seeds))
        errors = drawn[:, :seeds, 1].mean(axis=1) - drawn[:, :, 0].mean(axis=1)
        variance = 4.0 + errors.var()
        assert found.standard_error[seeds, baseline_seeds] ** 2 == pytest.approx(variance, rel=0.02)


def test_what_a_gain_adds_to_its_error_stays_however_many_seeds_there_are():
    errors = [np.sqrt(3.0 + 0.5 * size) for size in SIZES]
    flat, grown = (_by_seeds(**dict(zip(ERRORS, of, strict=True))).visible for of in ([errors[0]] * len(SIZES), errors))
    assert (grown > flat).all()
    own = power.Error(Growth(tuple(error**2 for error in errors)), 99.0)
    assert grown.iloc[-1] > own.smallest() > smallest_visible(np.sqrt(3.0), 99)


def test_a_transfer_of_one_seed_is_taken_to_vary_as_its_baseline_and_nothing_is_said_without_seeds():
    unpaired = {"transfer": np.nan, "shared": np.nan, "n_seeds": 10**6}
    found = _by_seeds(**unpaired).set_index(["seeds", "baseline_seeds"])
    assert found.standard_error[1, 5] ** 2 == pytest.approx(4 + 2 * (1 + 1 / 5))
    assert found.standard_error[2, 2] ** 2 == pytest.approx(4 + (2 + 2) / 2)
    known = _by_seeds(transfer=0.5, n_seeds=10**6).set_index(
        ["seeds", "baseline_seeds"]
    )  # which the test of one seed cannot know
    assert known.standard_error[1, 5] == found.standard_error[1, 5]
    assert _by_seeds(baseline=np.nan).empty


@pytest.mark.parametrize("n_seeds", [2, 3, 6])
def test_a_spread_between_few_seeds_is_right_in_the_mean(n_seeds):
    drawn = np.random.default_rng(n_seeds).normal(0, 3, size=(200_000, n_seeds)).std(axis=1, ddof=1)
    spread = _by_seeds(groups=0.0, transfer=np.nan, shared=np.nan, n_seeds=n_seeds, baseline=drawn.mean() ** 2)
    error = spread.set_index(["seeds", "baseline_seeds"]).standard_error[1, 10]
    assert error == pytest.approx(3 * np.sqrt(1 + 1 / 10), rel=0.005)


def test_one_seed_is_tested_with_no_more_degrees_of_freedom_than_its_baseline_has():
    found = _by_seeds(baseline=0.1).set_index(["seeds", "baseline_seeds"])
    assert found.df[1, 5] == 4 and found.df[1, 10] == 9
    assert found.visible[1, 5] == pytest.approx(smallest_visible(found.standard_error[1, 5], 4))
    assert found.df[3, 3] > 4


def test_a_gain_beyond_a_perfect_score_is_not_called_visible(tmp_path):
    study = fake_study(tmp_path, TASKS)
    frame = with_growth(gains(*study, draws=200), growths(*study))
    wide = frame.assign(**{name: frame[name] + 60.0 for name in ERRORS})
    found = power.visible_gains(wide)
    assert (found.room == 100 * (1 - wide.groupby("target", sort=False).baseline.first().to_numpy())).all()
    assert found.visible.isna().all() and not found.is_detectable.any()
    assert {power.in_words(one.visible, one.is_detectable) for one in found.itertuples()} == {power.NOT_DETECTABLE}
    fine = power.visible_gains(frame)
    assert (fine.visible.isna() | (fine.visible <= fine.room)).all()
    assert power.in_words(3.04, True) == "3.0"
    assert power.in_words(np.nan, pd.NA) == "not defined"
    assert _by_seeds(room=0.5).visible.isna().all() and not _by_seeds(room=0.5).is_detectable.any()


# What ``power`` forecasts of further seeds: against the tests that studies of these seeds go through, and the docs.

FILE = Path(__file__).resolve().parents[3] / "docs" / "power_forecast.csv"


@pytest.mark.parametrize("df", [1, 3.5, 12, 200])
@pytest.mark.parametrize("size", [0.0, 0.7, 2.5, 6.0])
def test_the_chance_to_find_a_gain_is_that_of_the_noncentral_t_of_scipy(size, df):
    critical = student.ppf(0.975, df)
    wanted = nct.sf(critical, df, size) + nct.cdf(-critical, df, size)
    assert power.chance_to_find(size, df) == pytest.approx(wanted, abs=2e-4)
    assert power.chance_to_find(power.Error(Growth.constant(1.0), df).smallest(), df) == pytest.approx(0.8, abs=1e-6)
    assert np.isnan(power.chance_to_find(np.nan, df))


@pytest.mark.simulation
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(("seeds", "baseline_seeds"), [(1, 5), (3, 3), (5, 5)])
def test_a_study_forecasts_of_its_own_seeds_the_errors_of_its_own_gains(metric, seeds, baseline_seeds):
    design = Design("gain", metric, 60, "equal", seeds, baseline_seeds, QUALITY_SD[metric])
    rng = np.random.default_rng(4)
    visible = pd.DataFrame({"target": ["target"], "setting": ["full"], "room": [100.0]})
    own, forecast = [], []
    for _ in range(30):
        evidence, _, scores = simulated(design, rng)
        by_seeds = power.visible_by_seeds(power.spreads(*frames_of(evidence, scores, design)), visible)
        row = by_seeds.set_index(["seeds", "baseline_seeds"]).loc[(seeds, baseline_seeds)]
        forecast.append(row.standard_error)
        own.append(np.mean([(100 * gain.standard_error) ** 2 for gain in evidence]))
    assert np.mean(forecast) == pytest.approx(np.sqrt(np.mean(own)), rel=0.06)


def test_the_forecasts_in_the_docs_are_those_of_the_designs_that_are_asked():
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


def lines_of_the_page(frame):
    """A line per metric and number of seeds that is asked."""
    lines = []
    for (metric, seeds, baseline_seeds), rows in frame.groupby(["metric", "seeds", "baseline_seeds"], sort=False):
        cells = [f"{row.forecast:.2f} ({row.low:.2f} to {row.high:.2f})" for row in rows.itertuples()]
        name = {"macro_f1": "F1", "pearson_r": "r"}[metric]
        lines.append(f"| {name} | {seeds}, {baseline_seeds} | {rows.detected.iloc[0]:.2f} | {' | '.join(cells)} |")
    return [line.replace(" 0.", " .").replace("(0.", "(.") for line in lines]


@pytest.mark.simulation
def test_five_seeds_forecast_about_what_five_and_three_seeds_find():
    frame = pd.concat(forecasts(("macro_f1",), studies=60, seed=7))
    rows = frame[(frame.known == 5) & frame.seeds.isin([3, 5])]
    assert len(rows) == 2
    assert ((rows.forecast - rows.detected).abs() < 0.1 + 3 * rows.detected_error).all()
