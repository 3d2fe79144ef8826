"""The numbers of the guarded analysis against slow, plain accounts of them, Q2 with scikit-learn's ridge regression."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from analysis.importance.grid import grid_of
from analysis.importance.null_tests import Arrangements, added_by, added_q2, against_nulls, delete_a_family, largest_p
from analysis.importance.null_tests import NullTest as Outcome
from analysis.importance.ridge import FoldFit, folds, why_no_fold
from analysis.importance.specification import PRIMARY
from analysis.results.published import results

PENALTIES = (0.1, 1.0, 10.0, 100.0)


@pytest.fixture(scope="module")
def grid():
    return grid_of(results(), PRIMARY)


def rows_of(values, rows, reference):
    """Values [tasks, tasks] at these rows, each less the mean that its target has over the reference pairs."""
    found = []
    for below, above in zip(*np.nonzero(rows), strict=True):
        others = values[reference[:, above], above]
        found.append(values[below, above] - (others.mean() if len(others) else 0.0))
    return np.array(found)


def columns_of(grid, names, train, test):
    """Columns of training and test rows; a block has a weighted variance of 1 over the training rows."""
    weights = grid.weights[train] / grid.weights[train].sum()
    below, above = [], []
    for block in (one for name in names for one in grid.blocks(name)):
        own = np.stack([rows_of(block[..., k], train, train) for k in range(block.shape[2])], axis=1)
        new = np.stack([rows_of(block[..., k], test, test) for k in range(block.shape[2])], axis=1)
        spread = np.sqrt(sum(weights @ own[:, k] ** 2 for k in range(own.shape[1])))
        below.append(own / spread if spread > 1e-9 else 0 * own)
        above.append(new / spread if spread > 1e-9 else 0 * new)
    return np.hstack(below), np.hstack(above)


def errors(grid, names, train, test, penalties):
    """Weighted squares that the fits on ``train`` miss of ``test``, one for each penalty."""
    below, above = columns_of(grid, names, train, test)
    own, new = rows_of(grid.outcome, train, train), rows_of(grid.outcome, test, test)
    weights = grid.weights[train] / grid.weights[train].sum()
    models = [Ridge(alpha=one, fit_intercept=False).fit(below, own, sample_weight=weights) for one in penalties]
    return np.array([grid.weights[test] @ (new - one.predict(above)) ** 2 for one in models])


def targets_left_out(grid, mask):
    """Training and test pairs, once for every family that is left out as target."""
    for family in range(len(grid.families)):
        inside = np.broadcast_to(grid.family == family, mask.shape)
        if (mask & inside).any():
            yield mask & ~inside, mask & inside


def test_what_the_constructs_add_is_what_a_plain_nested_ridge_regression_says(grid):
    missed = {"all": 0.0, "others": 0.0, "mean": 0.0}
    for train, test in targets_left_out(grid, grid.mask):
        tuned = sum(errors(grid, list(grid.kinds), *inner, PENALTIES) for inner in targets_left_out(grid, train))
        chosen = [PENALTIES[int(np.argmin(tuned))]]
        missed["all"] += errors(grid, list(grid.kinds), train, test, chosen)[0]
        missed["others"] += errors(grid, grid.others, train, test, chosen)[0]
        missed["mean"] += grid.weights[test] @ rows_of(grid.outcome, test, test) ** 2
    added = (missed["others"] - missed["all"]) / missed["mean"]
    own = added_by(grid, "target", grid.constructs)
    blocks = [block for name in grid.constructs for block in grid.blocks(name)]
    assert own(blocks)[0, 0] == pytest.approx(added, abs=1e-10)
    assert own.q2(blocks)[0, 0] == pytest.approx(1 - missed["all"] / missed["mean"], abs=1e-10)


@pytest.mark.parametrize("outcome", ["points", "percent"])
def test_the_variance_between_pairs_is_dersimonian_and_lairds(outcome):
    published = results()
    one = published.gains[published.gains.target == "mi_adherent"]
    grid = grid_of(replace(published, gains=one), replace(PRIMARY, outcome=outcome))
    unit = 100 if outcome == "points" else 100 / one.baseline.to_numpy()
    gains, own = unit * one.gain.to_numpy(), 1 / (unit * one.standard_error.to_numpy()) ** 2
    mean = np.average(gains, weights=own)
    q = (own * (gains - mean) ** 2).sum()
    expected = (q - (len(gains) - 1)) / (own.sum() - (own**2).sum() / own.sum())
    assert expected > 0
    assert grid.outcome[grid.mask] == pytest.approx(gains[np.argsort([grid.tasks.index(x) for x in one.intermediate])])
    assert grid.heterogeneity == pytest.approx(expected)
    assert grid.weights[grid.mask].sum() == pytest.approx((1 / (1 / own + expected)).sum())


def test_an_interval_is_that_of_the_jackknife_over_families(grid):
    parts = np.array([added_q2(grid.without_family(one), "target", ["link"]) for one in range(6)])
    error = parts.std(ddof=1) * 5 / np.sqrt(6)
    low, high = delete_a_family(grid, "target", ["link"])
    assert (low + high) / 2 == pytest.approx(added_q2(grid, "target", ["link"]))
    assert (high - low) / 2 == pytest.approx(2.570582 * error, rel=1e-6)  # t of 5 degrees of freedom at 97.5 %


def test_a_corrected_p_counts_the_largest_of_all_features_in_units_of_their_own_null():
    rng = np.random.default_rng(0)
    tests = [
        Outcome(np.zeros(1), np.array([size]), scale * rng.normal(size=(19, 1)), scale * rng.normal(size=(9, 1)))
        for size, scale in ((2.5, 1.0), (0.01, 0.01), (30.0, 100.0))
    ]
    corrected = []
    for one in tests:
        by_null = []
        for null in ("by_tasks", "by_families"):
            standard = [
                (getattr(two, null)[:, 0] - getattr(two, null).mean()) / getattr(two, null).std() for two in tests
            ]
            own = (one.added[0] - getattr(one, null).mean()) / getattr(one, null).std()
            reached = [max(part[draw] for part in standard) >= own for draw in range(len(standard[0]))]
            by_null.append((1 + sum(reached)) / (1 + len(reached)))
        corrected.append(max(by_null))
    assert largest_p(tests) == pytest.approx(corrected)
    assert len(set(corrected)) > 1


def test_the_null_of_families_hands_typical_facts_round(grid):
    orders = np.random.default_rng(5).permuted(np.tile(np.arange(6), (3, 1)), axis=1)
    names = ["link", "samples"]
    own = against_nulls(grid, "target", names, Arrangements(orders[:0, [0] * 18], orders))
    added = added_by(grid, "target", names)
    for draw, order in enumerate(orders):
        blocks = []
        for name in names:
            typical = [np.mean([grid.facts[name][k] for k in range(18) if grid.family[k] == one]) for one in range(6)]
            given = np.array([typical[order[grid.family[k]]] for k in range(18)])
            blocks += grid.blocks(name, given)
        assert own.by_families[draw, 0] == pytest.approx(added(blocks)[0, 0], abs=1e-12)
    assert own.by_tasks.shape == (0, 1)


@pytest.mark.parametrize(("added", "reached", "passes"), [(0.1, 0, True), (0.1, 1, False), (-0.1, 0, False)])
def test_features_pass_that_add_something_and_reach_the_level_exactly(added, reached, passes):
    null = np.full((19, 1), -1.0)  # 19 arrangements and the observed one: p = 1/20 is the level
    null[:reached] = 1.0
    outcome = Outcome(np.zeros(1), np.array([added]), null, np.full((19, 1), -1.0))
    assert outcome.p[0] == (1 + reached) / 20
    assert outcome.passes.tolist() == [passes]


@pytest.mark.parametrize("penalty", PENALTIES)
def test_the_error_on_the_training_pairs_is_that_of_a_plain_ridge_regression(grid, penalty):
    fold = folds(grid.mask, grid.family, "target")[0]
    blocks = [block for name in ("link", "samples") for block in grid.blocks(name)]
    fit = FoldFit(fold, grid.outcome[..., None], grid.weights, blocks[:1])
    below, _ = columns_of(grid, ["link", "samples"], fold.train, fold.test)
    outcome, weights = rows_of(grid.outcome, fold.train, fold.train), grid.weights[fold.train]
    weights = weights / weights.sum()
    model = Ridge(alpha=penalty, fit_intercept=False).fit(below, outcome, sample_weight=weights)
    assert fit.training_error(blocks[1:], penalty)[0] == pytest.approx(weights @ (outcome - model.predict(below)) ** 2)
    assert fit.training_total()[0] == pytest.approx(weights @ outcome**2)


@pytest.mark.parametrize(("n_pairs", "n_folds"), [(9, 0), (10, 1)])
def test_ten_training_pairs_are_enough_for_a_fold_and_nine_are_not(n_pairs, n_folds):
    family = np.array([0] * 6 + [1])
    mask = np.zeros((7, 7), dtype=bool)
    mask[:2, 6] = True  # two pairs of the target that is left out, and n to train on
    mask[tuple(np.argwhere(~np.eye(6, dtype=bool))[:n_pairs].T)] = True
    assert [int(fold.train.sum()) for fold in folds(mask, family, "target")] == [n_pairs] * n_folds


def test_gains_that_do_not_vary_are_the_reason_why_nothing_is_tested(grid):
    still = replace(grid, outcome=np.zeros(grid.mask.shape))
    assert why_no_fold(still, "target") == "the gains of each target are all the same"
    assert why_no_fold(grid, "target") is None


def test_gains_that_vary_by_rounding_alone_do_not_vary(grid):
    rounding = np.random.default_rng(1).normal(size=grid.mask.shape) * 1e-14
    assert why_no_fold(replace(grid, outcome=rounding), "target") == "the gains of each target are all the same"
    assert why_no_fold(replace(grid, outcome=rounding * 1e8), "target") is None
