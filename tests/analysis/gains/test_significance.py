import numpy as np
import pytest
from scipy.stats import false_discovery_control

from analysis.gains.corrections import benjamini_hochberg, benjamini_yekutieli
from analysis.gains.significance import (
    DRAWS_AT_A_TIME,
    LEVEL,
    Blocks,
    Groups,
    difference_evidence,
    evidence,
    p_text,
    score_draws,
)
from tasks.metrics import MEASURES


def _small(metric, seed=0):
    """Labels ``[60]``, names of 12 uneven groups ``[60]`` and predictions of three lanes ``[3, 60]``."""
    rng = np.random.default_rng(seed)
    names = np.array([f"g{place}" for place in rng.integers(12, size=60)])
    if metric == "pearson_r":
        truth = 100 + rng.normal(size=60)
        return truth, names, truth + rng.normal(size=(3, 60))
    if metric == "multilabel_f1":  # label 2 is rare: some draws do not contain it
        shares = (0.5, 0.3, 0.03)
        return (rng.random((60, 3)) < shares).astype(int), names, rng.integers(2, size=(3, 60, 3))
    return rng.integers(3, size=60), names, rng.integers(4, size=(3, 60))  # class 3 is only ever predicted


def _by_rows(metric, labels, names, lanes, draws, seed):
    """The same draws the long way: collect the rows of every drawn group, then apply the project's metric."""
    groups = Groups.of(names)
    members = [np.flatnonzero(groups.index == place) for place in range(groups.count)]
    chosen = np.random.default_rng(seed).integers(groups.count, size=(draws, groups.count))
    rows = [np.concatenate([members[one] for one in draw]) for draw in chosen]
    return np.array([[MEASURES[metric](labels[row], lane[row]) for lane in lanes] for row in rows])


@pytest.mark.parametrize("metric", MEASURES)
def test_draws_equal_those_of_resampled_rows(metric):
    labels, names, lanes = _small(metric)
    count = DRAWS_AT_A_TIME + 50  # in two batches, against all at once
    quick = score_draws(metric, labels, Groups.of(names), lanes, draws=count, rng=np.random.default_rng(7))
    np.testing.assert_allclose(quick, _by_rows(metric, labels, names, lanes, count, 7), atol=1e-9)


def test_a_draw_without_a_class_averages_over_the_others():
    labels, names = np.array([0, 0, 1]), np.array(["a", "b", "c"])
    draws = score_draws("macro_f1", labels, Groups.of(names), labels, draws=200, rng=np.random.default_rng(0))
    assert (draws == 1).all()


def test_a_constant_prediction_has_no_correlation_in_any_draw():
    labels, names, lanes = _small("pearson_r")
    lanes[1] = 0.1
    draws = score_draws("pearson_r", labels, Groups.of(names), lanes, draws=50, rng=np.random.default_rng(0))
    assert np.isnan(draws[:, 1]).all()
    assert np.isfinite(draws[:, [0, 2]]).all()


def test_correlation_survives_a_large_offset():
    labels, names, lanes = _small("pearson_r")
    groups = Groups.of(names)
    near = score_draws("pearson_r", labels, groups, lanes, draws=50, rng=np.random.default_rng(0))
    far = score_draws("pearson_r", labels + 1e8, groups, lanes - 1e8, draws=50, rng=np.random.default_rng(0))
    np.testing.assert_allclose(near, far, atol=1e-5)


def test_effective_groups_count_equal_ones_and_discount_uneven_ones():
    assert Groups.of(["a", "b", "c", "d"]).effective == 4
    assert Groups.of(["a"] * 97 + ["b", "c", "d"]).effective < 1.1


def test_one_seed_with_many_groups_gives_the_normal_interval():
    rng = np.random.default_rng(0)
    groups, draws = Groups.of(np.arange(2000)), rng.normal(0.3, 0.1, size=(20_000, 1))
    found = evidence([0.3], draws, groups, rng)
    assert found.low == pytest.approx(0.3 - 0.196, abs=0.005)
    assert found.p == pytest.approx(0.0027, abs=0.002)


def test_three_seeds_need_the_tails_of_student_t():
    """Seeds alone vary, so the interval is that of a t test with two degrees of freedom."""
    rng = np.random.default_rng(0)
    estimates = np.array([0.1, 0.2, 0.3])
    draws = np.repeat(estimates[None], 20_000, axis=0) + rng.normal(0, 1e-6, size=(20_000, 3))
    found = evidence(estimates, draws, Groups.of(np.arange(500)), rng)
    assert found.high - found.low == pytest.approx(2 * 4.303 * 0.1 / np.sqrt(3), rel=0.05)


def test_p_and_interval_agree_about_zero():
    rng = np.random.default_rng(3)
    for shift in np.linspace(0, 0.4, 30):
        found = evidence([shift], rng.normal(shift, 0.1, size=(2000, 1)), Groups.of(np.arange(40)), rng)
        assert (found.low > 0) == (found.p <= 0.05)


@pytest.mark.parametrize(("estimates", "names"), [([0.1], "aa"), ([np.nan], "ab"), ([0.1, np.nan], "ab")])
def test_what_cannot_be_judged_has_no_p(estimates, names):
    draws = np.full((100, len(estimates)), 0.1)
    found = evidence(estimates, draws, Groups.of(list(names)), np.random.default_rng(0))
    assert np.isnan([found.low, found.high, found.p]).all()


def test_draws_without_a_value_count_against_rejection():
    draws = np.random.default_rng(0).normal(1.0, 0.01, size=(1000, 1))
    draws[:300] = np.nan
    found = evidence([1.0], draws, Groups.of(np.arange(50)), np.random.default_rng(0))
    assert found.p == pytest.approx(0.3, abs=0.01)
    assert found.low == -np.inf
    assert np.isinf(found.sizes).tolist() == np.isnan(draws[:, 0]).tolist()


def test_equal_cells_have_p_of_one():
    found = evidence([0.0, 0.0], np.zeros((500, 2)), Groups.of(np.arange(30)), np.random.default_rng(0))
    assert (found.low, found.high, found.p) == (0, 0, 1)


def test_benjamini_hochberg_is_scipys_and_skips_the_undefined():
    raw = np.random.default_rng(0).random(100) ** 3
    raw[5] = raw[6]
    holed = np.insert(raw, [0, 50, 100], np.nan)
    adjusted = benjamini_hochberg(holed)
    np.testing.assert_allclose(adjusted[np.isfinite(holed)], false_discovery_control(raw))
    np.testing.assert_allclose(benjamini_yekutieli(raw), false_discovery_control(raw, method="by"))
    assert np.isnan(adjusted[[0, 51, 102]]).all()
    assert np.isnan(benjamini_hochberg([np.nan])).all()


def _covariance(first, second):
    return float(np.mean([(x - first.mean()) * (y - second.mean()) for x, y in zip(first, second, strict=True)]))


def _by_formula(top, base, top_draws, base_draws, groups):
    """Variance through groups, through seeds, and degrees of freedom of a difference, summed pair by pair."""
    n_top, n_base = top.size, base.size
    tops, bases = list(top_draws.T), list(base_draws.T)
    pairs = [(i, j) for i in range(n_base) for j in range(n_base) if i != j]
    of_base = float(np.mean([_covariance(bases[i], bases[j]) for i, j in pairs]))
    if n_top == 1:
        own = float(np.mean([_covariance(one, one) for one in bases])) - of_base
        of_top = _covariance(tops[0], tops[0]) - own
        seeds = [(base.var(ddof=1) + base.var(ddof=1) / n_base, n_base - 1)]
    else:
        of_top = float(np.mean([_covariance(tops[i], tops[j]) for i, j in pairs if max(i, j) < n_top]))
        shared = [top[k] / n_top - base[k] / n_base for k in range(n_top)]
        others = base.var(ddof=1) / n_base**2 * (n_base - n_top)
        seeds = [(n_top * float(np.var(shared, ddof=1)), n_top - 1), (others, n_base - 1)]
    between = float(np.mean([_covariance(tops[i], bases[j]) for i in range(n_top) for j in range(n_base) if i != j]))
    of_groups = (of_top + of_base - 2 * between) * groups.count / (groups.count - 1)
    assert min(of_base, of_groups, own if n_top == 1 else of_top) > 0  # nothing is cut off at 0
    parts = [(of_groups, groups.effective - 1), *seeds]
    total = sum(variance for variance, _ in parts)
    return total, total - of_groups, total**2 / sum(variance**2 / freedom for variance, freedom in parts)


@pytest.mark.parametrize(("n_top", "n_base"), [(1, 2), (1, 4), (2, 5), (3, 4)])
def test_the_variance_of_unequal_seeds_is_that_of_its_formula_by_hand(n_top, n_base):
    rng = np.random.default_rng(n_top + n_base)
    groups = Groups.of([f"g{place}" for place in rng.integers(6, size=40)])
    common = rng.normal(size=(300, 1))
    top_draws = 0.5 + 0.3 * common + 0.2 * rng.normal(size=(300, 1)) + 0.1 * rng.normal(size=(300, n_top))
    base_draws = 0.4 + 0.2 * common + 0.1 * rng.normal(size=(300, n_base))
    base_draws[:, :n_top] += 0.5 * (top_draws - 0.5)  # of a shared seed they have more in common
    top, base = rng.normal(0.5, 0.1, n_top), rng.normal(0.4, 0.1, n_base)
    judged = difference_evidence(top, base, top_draws, base_draws, groups, rng)
    total, of_seeds, freedom = _by_formula(top, base, top_draws, base_draws, groups)
    assert judged.standard_error == pytest.approx(np.sqrt(total), rel=1e-9)
    assert judged.seed_error == pytest.approx(np.sqrt(of_seeds), rel=1e-9)
    assert judged.df == pytest.approx(freedom, rel=1e-9)


def test_equal_generators_draw_equal_blocks_and_go_on_alike_whether_drawn_or_remembered():
    blocks, rng = Blocks(10**6), np.random.default_rng(3)
    chosen = np.random.default_rng(3).integers(300, size=(20, 300))
    drawn = [np.bincount(row, minlength=300) for row in chosen]
    again = np.random.default_rng(3)
    np.testing.assert_array_equal(blocks.block(300, 20, rng), drawn)
    assert blocks.block(300, 20, again) is blocks.block(300, 20, np.random.default_rng(3))
    assert again.bit_generator.state == rng.bit_generator.state
    assert blocks.block(299, 20, np.random.default_rng(3)).shape == (20, 299)
    assert blocks.block(300, 20, np.random.default_rng(4)).tolist() != np.stack(drawn).tolist()


def test_remembered_blocks_are_never_more_than_there_is_room_for():
    blocks, rng = Blocks(1000), np.random.default_rng(0)
    for _ in range(5):
        blocks.block(10, 40, rng)
        assert blocks.held == sum(weights.nbytes for weights, _ in blocks.weights.values()) <= 1000
    assert len(blocks.weights) == 2


@pytest.mark.parametrize(
    ("p", "digits", "text"),
    [
        (0.0504, 3, "0.0504"),
        (0.05004, 4, "0.05004"),
        (0.0496, 3, "0.050"),
        (0.05, 3, "0.050"),
        (0.0514, 3, "0.051"),
        (0.5, 3, "0.500"),
        (0.00004, 4, "<0.0001"),
        (0.0004, 3, "<0.001"),
        (0.0005, 4, "0.0005"),
        (float("nan"), 3, "not defined"),
    ],
)
def test_a_p_near_the_level_is_written_on_its_side_of_it(p, digits, text):
    assert p_text(p, digits) == text


def test_no_p_is_written_on_the_other_side_of_the_level():
    for p in (*np.linspace(0.045, 0.055, 2001), np.nextafter(LEVEL, 1), np.nextafter(LEVEL, 0)):
        assert (float(p_text(p)) <= LEVEL) == (p <= LEVEL), p
