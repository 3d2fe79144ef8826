"""Themes: counts of significant pairs, contrasts of families at random, and whether less data do as well."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.optimize import minimize_scalar
from scipy.stats import t as student

from analysis.gains.gains import gains
from analysis.ratings import themes
from analysis.results.published import results, table, with_approximate_p
from analysis.results.results import Results
from benchmarks.calibrations.less_data import LOSSES
from benchmarks.calibrations.themes import theme_calibration
from tasks.errors import BadInput
from tests.support.studies.fake_study import FakeTask, fake_study

RATED = ["definition", "link", "conduciveness"]


def planted(published, gain):
    """The published grid with gains that ``gain`` makes of the frames of intermediates' and targets' facts."""
    facts = published.tasks.set_index("task")
    sides = (facts.loc[published.gains[role]].reset_index() for role in ("intermediate", "target"))
    return replace(published, gains=published.gains.assign(gain=gain(*sides), collapsed=False, contaminated=False))


def test_means_of_table_5(published):
    printed = table("table5_themes").set_index("task")
    means = themes.rating_means(published).set_index("task").loc[printed.index]
    assert np.abs(means[RATED] - printed[RATED]).to_numpy().max() < 1e-9
    assert means[RATED].size == 54
    assert np.abs(means.overall - printed.overall).max() <= 0.005
    assert (means.theme == printed.theme).all()


def test_tasks_stand_by_theme_and_falling_mean(published):
    means = themes.rating_means(published)
    assert list(dict.fromkeys(means.theme)) == ["direct", "abstract", "adjacent"]
    assert all(part.overall.is_monotonic_decreasing for _, part in means.groupby("theme"))


def test_directions_of_figure_3_hold_for_larger_changes(published):
    frame = themes.theme_counts(published).set_index(["role", "theme"])
    gains, harms = ((frame[name] / frame.n_pairs).round(3) for name in ("larger_gains", "larger_harms"))
    assert gains["intermediate"].to_dict() == {"direct": 0.147, "abstract": 0.069, "adjacent": 0.098}
    assert gains["target"].to_dict() == {"direct": 0.225, "abstract": 0.020, "adjacent": 0.069}
    assert harms["intermediate"].to_dict() == {"direct": 0.431, "abstract": 0.480, "adjacent": 0.480}
    assert pytest.approx(0.02) == themes.LARGER


@pytest.mark.parametrize(("correlation", "up", "down"), [(0.0, 16, 49), (0.5, 24, 98), (0.8, 30, 155)])
def test_the_approximate_counts_depend_on_the_assumed_correlation(published, correlation, up, down):
    frame = themes.theme_counts(with_approximate_p(published, correlation=correlation))
    for _, part in frame.groupby("role"):
        assert (part.gains.sum(), part.harms.sum()) == (up, down)
    assert frame.set_index(["role", "theme"]).gains["target", "abstract"] <= 1


def test_nothing_is_counted_as_significant_without_a_p(published):
    frame = themes.theme_counts(published)
    assert frame[["n_tested", "gains", "harms", "gains_bh", "harms_bh"]].sum().sum() == 0
    assert frame.n_pairs.sum() == 2 * 306


def test_effects_of_tasks_are_found_whatever_pairs_are_missing(published):
    rng = np.random.default_rng(0)
    gives, takes = (pd.Series(rng.normal(size=18), published.tasks.task) for _ in range(2))
    whole = planted(published, lambda top, bottom: gives[top.task].to_numpy() + takes[bottom.task].to_numpy())
    holes = whole.gains.assign(gain=whole.gains.gain.mask(rng.random(306) < 0.3))
    for found in (whole, replace(whole, gains=holes)):
        frame = themes.task_effects(found)
        for role, truth in (("intermediate", gives), ("target", takes)):
            points = frame[(frame.cells == themes.ALL) & (frame.role == role)].set_index("task").points
            assert np.allclose(points, 100 * (truth - truth.mean())[points.index])


def test_effects_that_the_pairs_do_not_tell_apart_are_undefined(published):
    two = published.gains.intermediate.isin(["condolence", "mi_adherent"]) & published.gains.target.isin(
        ["condolence", "mi_adherent"]
    )
    frame = themes.task_effects(replace(published, gains=published.gains[two]))
    assert frame.points[frame.cells == themes.ALL].isna().all()
    assert themes.theme_contrasts(frame).empty


def test_a_planted_difference_of_themes_is_found_in_its_role_only(published):
    rng = np.random.default_rng(1)
    noise = rng.normal(scale=0.01, size=306)
    found = planted(published, lambda _, bottom: 0.05 * (bottom.theme == "direct") + noise)
    contrasts = themes.theme_contrasts(themes.task_effects(found), draws=2000)
    frame = contrasts.set_index(["cells", "role", "theme_a"]).sort_index()
    direct = frame.loc[(themes.ALL, "target", "direct")]
    assert direct.difference.to_numpy() == pytest.approx([5, 5], abs=0.6)
    assert (direct.p_max <= 0.01).all()
    assert (frame.loc[(themes.ALL, "intermediate")].p > 0.05).all()
    assert (frame.p_max >= frame.p - 0.02).all()


def effects_of(published, points, **facts):
    facts = {"cells": themes.ALL, "role": "target", "n_pairs": 17, "points": points, **facts}
    return published.tasks[["task", "theme", "family"]].assign(**facts)


def test_themes_that_are_families_are_not_told_from_them(published):
    rng = np.random.default_rng(4)
    points = rng.normal(size=18) + 9.0 * (published.tasks.theme == "direct")
    apart = themes.theme_contrasts(effects_of(published, points, family=published.tasks.task), draws=999)
    alike = themes.theme_contrasts(effects_of(published, points, family=published.tasks.theme), draws=999)
    for frame, bound in ((apart, (0.0, 0.01)), (alike, (0.05, 1.0))):
        direct = frame[frame.theme_a == "direct"]
        assert direct.p_max.between(*bound).all()
        assert (np.abs(direct.difference - 9) < 2).all()
    assert (apart.between_families.iloc[0], alike.between_families.iloc[0]) == pytest.approx((0.0, 1.0), abs=0.1)


def test_contrasts_without_what_they_need_have_no_p_or_are_not_there(published):
    unknown = np.where(np.arange(18) == 3, np.nan, 1.0)
    assert themes.theme_contrasts(effects_of(published, unknown), draws=19).empty
    each = effects_of(published, np.arange(18.0)).drop_duplicates("theme")
    frame = themes.theme_contrasts(each, draws=19)
    assert frame[["n_a", "n_b"]].eq(1).all(axis=None)
    assert frame.difference.notna().all() and frame[["p", "p_max", "by_chance"]].isna().all(axis=None)
    assert themes.theme_contrasts(effects_of(published, np.ones(18)), draws=19).p_max.eq(1).all()


def test_contrasts_stand_once_more_where_all_targets_are_scored_alike(published):
    frame = themes.task_effects(published)
    alike = frame[(frame.cells == themes.CLASSIFIED) & (frame.role == "target")]
    scored = published.tasks.set_index("task").metric[alike.task]
    assert len(alike) == (published.tasks.metric == "macro_f1").sum() < 18
    assert (scored == "macro_f1").all()
    same = replace(published, gains=published.gains.assign(metric="macro_f1"))
    assert themes.CLASSIFIED not in set(themes.task_effects(same).cells)


def test_no_change_is_neither_a_gain_nor_a_harm(published):
    still = replace(published, gains=published.gains.assign(gain=0.0, p=0.01, p_bh=0.01))
    counts = themes.theme_counts(still)
    assert counts.n_tested.sum() == 2 * 306
    assert counts[["gains", "harms", "gains_bh", "harms_bh"]].sum().sum() == 0


def test_tasks_without_a_theme_take_no_part(published):
    facts = published.tasks.assign(theme=published.tasks.theme.where(published.tasks.theme == "direct", ""))
    found = replace(published, tasks=facts)
    assert set(themes.theme_counts(found).theme) == {"direct"}
    assert themes.theme_contrasts(themes.task_effects(found)).empty
    assert len(themes.rating_means(found)) == 18


def halved(published, over_full, error, *, df=np.inf, p=0.5):
    """The published grid as if with half data, at these points over full with this standard error in points."""
    reach = stats.t.ppf(0.975, df) * error / 100
    frame = published.gains.assign(gain_over_full=over_full / 100)
    frame = frame.assign(low_over_full=frame.gain_over_full - reach, high_over_full=frame.gain_over_full + reach)
    frame = frame.assign(standard_error_over_full=error / 100, df_over_full=df, p_over_full=p)
    return replace(published, gains=frame, setting="half")


@pytest.mark.parametrize(
    ("over_full", "error", "df", "non_inferior", "not_significant", "undecided"),
    [
        (-0.5, 0.1, np.inf, True, False, False),  # worse beyond doubt, and yet within the margin
        (-1.0, 5.0, np.inf, False, True, True),  # not significant, but not therefore as good
        (-1.0, 0.5, np.inf, True, False, False),  # 1.0 + 1.64 x 0.5 < 2
        (-1.0, 0.5, 2.0, False, True, True),  # of few seeds: 1.0 + 2.92 x 0.5 > 2
    ],
)
def test_a_loss_is_non_inferior_where_its_bound_is_within_the_margin(
    published, over_full, error, df, non_inferior, not_significant, undecided
):
    frame = themes.non_inferiority(halved(published, over_full, error, df=df), margin=2.0)
    assert (frame.pairs_non_inferior == frame.n_pairs * non_inferior).all()
    assert (frame.pairs_not_significant == frame.n_pairs * not_significant).all()
    assert (frame.pairs_undecided == frame.n_pairs * undecided).all()
    assert frame.non_inferior.all() or error > 0.1


@pytest.mark.parametrize("side", ["intermediate", "target"])
def test_the_bound_of_a_mean_is_students_over_the_side_that_varies(published, side):
    rng = np.random.default_rng(2)
    of_task = pd.Series(rng.normal(-1, 1, 18), published.tasks.task)
    found = halved(published, published.gains[side].map(of_task), 1.0)
    frame = themes.non_inferiority(found).set_index(["role", "theme"])
    assert frame.n_tasks["target", "all"] == 18
    for role in ("intermediate", "target"):
        assert frame.points_over_full[role, "all"] == pytest.approx(of_task.mean())
        error = of_task.std() / np.sqrt(18) * np.sqrt(1 + 1 / 17**2)  # no task is paired with itself
        expected = of_task.mean() - 1.739607 * error
        assert frame.lower[role, "all"] == pytest.approx(expected, abs=1e-6)


def test_the_side_with_fewer_tasks_gives_the_degrees_of_freedom(published):
    rng = np.random.default_rng(5)
    three = published.gains.intermediate.isin(published.tasks.task[:3])
    found = halved(published, rng.normal(-1, 1, 306), 1.0)
    part = replace(found, gains=found.gains[three])
    points = 100 * part.gains.gain_over_full
    sides = [points.groupby(part.gains[side]).mean() for side in ("intermediate", "target")]
    assert [len(side) for side in sides] == [3, 18]
    error = np.sqrt(sum(side.std() ** 2 / len(side) for side in sides))
    row = themes.non_inferiority(part, margin=20.0).set_index(["role", "theme"]).loc[("target", "all")]
    assert row.lower == pytest.approx(points.mean() - stats.t.ppf(0.95, 2) * error)
    strict = themes.non_inferiority(part, margin=1e-6).set_index(["role", "theme"]).non_inferior["target", "all"]
    assert (bool(row.non_inferior), bool(strict)) == (True, False)
    one = replace(part, gains=part.gains[part.gains.intermediate == published.tasks.task[0]])
    assert pd.isna(themes.non_inferiority(one).non_inferior).all()


def test_an_interval_that_touches_0_is_not_significant(published):
    found = halved(published, 1.0, 0.5)
    for low, high in ((0.0, 0.02), (-0.02, 0.0)):
        touching = replace(found, gains=found.gains.assign(low_over_full=low, high_over_full=high))
        frame = themes.non_inferiority(touching)
        assert (frame.pairs_not_significant == frame.n_pairs).all()


def test_a_baseline_that_all_intermediates_share_does_not_make_them_sure(published):
    of_target = pd.Series(np.linspace(-12, 10, 18), published.tasks.task)
    found = halved(published, published.gains.target.map(of_target), 1.0)
    frame = themes.non_inferiority(found).set_index(["role", "theme"])
    assert (frame.loc["intermediate"].lower < -3).all()  # intermediates hardly differ, targets do


def test_gains_over_full_are_counted_with_their_own_p(published):
    against = themes.against_full(halved(published, 3.0, 1.0, p=0.02))
    assert against.gains.gain.to_numpy() == pytest.approx(np.full(306, 0.03))
    assert against.gains.standard_error.to_numpy() == pytest.approx(np.full(306, 0.01))
    assert (against.gains[["p", "p_bh"]] == 0.02).all(axis=None)
    assert themes.theme_counts(against).gains.sum() == 2 * 306


def test_a_margin_of_nothing_is_refused(published):
    with pytest.raises(BadInput, match="margin"):
        themes.non_inferiority(published, margin=0.0)


def test_a_study_of_three_tasks_with_a_gap_and_without_ratings_is_told(tmp_path):
    tasks = [FakeTask("one"), FakeTask("two"), FakeTask("three", kind="continuous")]
    store, manifest = fake_study(
        tmp_path, tasks, settings=("full", "half"), absent=[("one", "two")], constant=[("one", "three")]
    )
    full = Results.of(store, manifest, draws=200)
    half = Results.of(store, manifest, setting="half", draws=200)
    assert themes.rating_means(full).overall.isna().all()
    assert themes.theme_counts(full).n_pairs.tolist() == [4, 4]  # one missing, one without a correlation
    assert len(themes.theme_contrasts(themes.task_effects(full))) == 0
    assert themes.non_inferiority(half).n_pairs.max() == 4


def test_results_have_the_standard_errors_of_their_gains(tmp_path):
    tasks = [FakeTask("one"), FakeTask("two"), FakeTask("three", kind="continuous")]
    store, manifest = fake_study(tmp_path, tasks, seeds=(1, 2), settings=("full", "half"))
    pairs = gains(store, manifest, draws=200)
    for setting, part in pairs.groupby("setting"):
        frame = Results.from_gains(store, manifest, pairs, setting).gains
        for name in ("standard_error", "standard_error_over_full"):
            assert (100 * frame[name]).to_numpy() == pytest.approx(part[name].to_numpy())
        for name in ("p", "df_over_full", "p_over_full"):
            assert frame[name].to_numpy() == pytest.approx(part[name].to_numpy())
    half = pairs[pairs.setting == "half"]
    assert (half.p_over_full <= 0.05).equals((half.low_over_full > 0) | (half.high_over_full < 0))


# Contrasts with random families: likelihoods by dense matrices, by direct optimisation, and how often they alarm.

LAID_DOWN = Path(__file__).resolve().parents[3] / "docs" / "themes_calibration.csv"


@pytest.fixture(scope="module")
def classes():
    tasks = results().tasks
    return themes.Classes(themes.numbers_of(tasks.theme.tolist()), themes.numbers_of(tasks.family.tolist()))


def covariance(classes, ratio):
    same = classes.of_family[:, None] == classes.of_family
    return np.eye(same.shape[0]) + ratio * same


def dummies(classes, merged=()):
    number = np.where(np.isin(classes.of_class, merged), merged[0] if merged else -1, classes.of_class)
    return (number[:, None] == np.unique(number)).astype(float)


def log_likelihood(effects, design, ratio, classes, restricted=False):
    """By the density of scipy, at the likeliest mean and variance; restricted: of what is free of the mean."""
    whole, values = covariance(classes, ratio), effects
    if restricted:
        basis = np.linalg.svd(design.T)[2][design.shape[1] :]
        whole, values, design = basis @ whole @ basis.T, basis @ effects, np.zeros((len(basis), 1))
    root = np.linalg.cholesky(np.linalg.inv(whole)).T
    mean = design @ np.linalg.lstsq(root @ design, root @ values, rcond=None)[0]
    variance = ((root @ (values - mean)) ** 2).mean()
    return stats.multivariate_normal(mean, variance * whole).logpdf(values)


def some_effects(classes, sets, seed):
    rng = np.random.default_rng(seed)
    families = rng.normal(scale=rng.gamma(1.0, size=sets), size=(classes.of_family.max() + 1, sets))
    return rng.normal(size=(classes.of_class.size, sets)) + families[classes.of_family]


def test_fits_are_those_of_dense_matrices(classes):
    effects = some_effects(classes, 12, 0)
    fits = classes.fits(effects)
    for number, values in enumerate(effects.T):
        free = [log_likelihood(values, dummies(classes), ratio, classes) for ratio in themes.RATIOS]
        for place, pair in enumerate(classes.contrasts):
            equal = [log_likelihood(values, dummies(classes, pair), ratio, classes) for ratio in themes.RATIOS]
            assert fits.statistics[place, number] == pytest.approx(2 * (max(free) - max(equal)), abs=1e-8)
        common = [log_likelihood(values, np.ones((18, 1)), ratio, classes, restricted=True) for ratio in themes.RATIOS]
        assert fits.ratio[number] == np.argmax(common)
        inverse = np.linalg.inv(covariance(classes, themes.RATIOS[np.argmax(free)]))
        design = dummies(classes)
        means = np.linalg.solve(design.T @ inverse @ design, design.T @ inverse @ values)
        assert fits.differences[:, number] == pytest.approx([means[a] - means[b] for a, b in classes.contrasts])


def test_statistics_are_those_of_direct_optimisation_up_to_the_grid(classes):
    effects = some_effects(classes, 25, 1)
    fits = classes.fits(effects)

    def best(values, design):  # over the share of variance between families, not over the ratio
        tried = np.linspace(0, 0.99, 12)
        heights = [log_likelihood(values, design, share / (1 - share), classes) for share in tried]
        near = tried[max(np.argmax(heights) - 1, 0)], tried[min(np.argmax(heights) + 1, 11)]
        top = minimize_scalar(
            lambda share: -log_likelihood(values, design, share / (1 - share), classes), bounds=near, method="bounded"
        )
        return max(-top.fun, heights[0])

    free = np.array([best(values, dummies(classes)) for values in effects.T])
    equal = [[best(values, dummies(classes, pair)) for values in effects.T] for pair in classes.contrasts]
    missed = np.abs(fits.statistics - 2 * (free - np.array(equal)))
    assert missed.max() < 0.2 and missed.mean() < 0.03  # the grid's steps are a factor of 2


def test_with_each_task_a_family_of_its_own_the_statistic_is_students_t():
    of_class = np.repeat([0, 1], [7, 5])
    alone = themes.Classes(of_class, np.arange(12))
    values = np.random.default_rng(2).normal(size=12)
    t = stats.ttest_ind(values[:7], values[7:]).statistic
    fits = alone.fits(values[:, None])
    assert fits.statistics[0, 0] == pytest.approx(12 * np.log1p(t**2 / 10))
    p = alone.chance(fits, 20_000, 3).p[0, 0]
    assert p == pytest.approx(stats.ttest_ind(values[:7], values[7:]).pvalue, abs=0.02)


def test_families_do_not_make_contrasts_alarm_as_permuting_themes_does(classes):
    frame = theme_calibration(classes, grids=300, draws=999, seed=5).set_index(["planted", "family_sd"])
    without = frame.loc[0.0]
    assert (without.alarms <= stats.binom.ppf(0.999, 300, 0.06)).all()
    assert without.rate_permuted[2.0] > 2 * without.rate[2.0]
    assert frame.rate[2.0, 0.0] > 0.6


def test_the_rates_that_are_laid_down_are_of_a_thousand_grids_each():
    frame = pd.read_csv(LAID_DOWN)
    asked = frame[(frame.planted == 0) & frame.family_sd.isin([0.0, 1.0, 2.0])]
    assert asked.grids.tolist() == [1000] * 3
    assert (asked.rate <= 0.06).all()


# The simulated rates of non-inferiority: by hand, and as the page has them.

DOCS = Path(__file__).parents[3] / "docs"
LARGE, NONE = LOSSES


def test_a_bound_is_the_mean_less_as_many_errors_as_the_fewer_tasks_allow():
    points = np.random.default_rng(1).normal(size=(7, 3))
    error = np.sqrt(np.var(points.mean(1), ddof=1) / 7 + np.var(points.mean(0), ddof=1) / 3)
    expected = points.mean() - student.ppf(0.95, 2) * error
    assert themes.lower_bound(points.mean(1), points.mean(0)) == pytest.approx(expected)
    assert np.isnan(themes.lower_bound(points.mean(1), points[:1, 0]))


def test_the_page_has_the_rates_of_the_file_and_none_is_above_five_in_a_hundred():
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
