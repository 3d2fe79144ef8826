"""The numbers of the guarded analysis against slow, plain accounts of them, Q2 with scikit-learn's ridge regression."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from analysis.importance.exchange import Exchange
from analysis.importance.grid import grid_of
from analysis.importance.null_tests import Arrangements, against_nulls, delete_a_family, fits_of, largest_p
from analysis.importance.null_tests import NullTest as Outcome
from analysis.importance.ridge import FamilyFits, why_no_fold
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


def columns_of(grid, names, train, test, reference):
    """Columns of training and test rows; a block has a weighted variance of 1 over the training rows."""
    weights = grid.weights[train] / grid.weights[train].sum()
    below, above = [], []
    for block in (one for name in names for one in grid.blocks(name)):
        own = np.stack([rows_of(block[..., k], train, train) for k in range(block.shape[2])], axis=1)
        new = np.stack([rows_of(block[..., k], test, reference) for k in range(block.shape[2])], axis=1)
        spread = np.sqrt(sum(weights @ own[:, k] ** 2 for k in range(own.shape[1])))
        below.append(own / spread if spread > 1e-9 else 0 * own)
        above.append(new / spread if spread > 1e-9 else 0 * new)
    return np.hstack(below), np.hstack(above)


def errors(grid, names, train, test, reference, penalties):
    """Weighted squares that the fits on ``train`` miss of ``test``, one for each penalty."""
    below, above = columns_of(grid, names, train, test, reference)
    own, new = rows_of(grid.outcome, train, train), rows_of(grid.outcome, test, reference)
    weights = grid.weights[train] / grid.weights[train].sum()
    models = [Ridge(alpha=one, fit_intercept=False).fit(below, own, sample_weight=weights) for one in penalties]
    return np.array([grid.weights[test] @ (new - one.predict(above)) ** 2 for one in models])


def splits(grid, mask, scheme):
    """Training, test and reference pairs of every fold that leaves families out of these pairs."""
    count = len(grid.families)
    for one, other in itertools.combinations_with_replacement(range(count), 2):
        if scheme != "both" and one != other:
            continue
        below = [np.repeat((grid.family == k)[:, None], len(grid.tasks), 1) for k in (one, other)]
        above = [rows.T for rows in below]
        if scheme == "target":
            train, test = mask & ~above[0], mask & above[0]
            reference = test
        elif scheme == "intermediate":
            train = reference = mask & ~below[0]
            test = mask & below[0] & train.any(0)
        else:
            train = mask & ~(below[0] | below[1] | above[0] | above[1])
            test, reference = mask & ((below[0] & above[1]) | (below[1] & above[0])), mask
        if test.any() and train.sum() >= 10:
            yield train, test, reference


def plain_q2(grid, scheme, names):
    """Q2 of all features and of those but ``names``, every fold tuned on all features and fitted on its own."""
    missed = np.zeros(3)
    others = [name for name in grid.kinds if name not in names]
    for train, *rest in splits(grid, grid.mask, scheme):
        inner = list(splits(grid, train, scheme))
        tuned = sum(errors(grid, list(grid.kinds), *pairs, PENALTIES) for pairs in inner) if inner else None
        chosen = [10.0 if tuned is None else PENALTIES[int(np.argmin(tuned))]]
        missed[:2] += [errors(grid, of, train, *rest, chosen)[0] for of in (list(grid.kinds), others)]
        missed[2] += grid.weights[rest[0]] @ rows_of(grid.outcome, *rest) ** 2
    return 1 - missed[:2] / missed[2]


@pytest.fixture(scope="module")
def few(grid):
    """Two tasks of each family at most, with gaps, one target with pairs of a single family, and three features."""
    kept = np.sort(np.concatenate([np.flatnonzero(grid.family == k)[:2] for k in range(6)]))
    pairs = np.ix_(kept, kept)
    mask = grid.mask[pairs].copy()
    mask[np.random.default_rng(0).random(mask.shape) < 0.1] = False
    mask[grid.family[kept] != 1, 0] = False
    kinds = {name: grid.kinds[name] for name in ("samples", "setting", "link")}
    facts = {name: grid.facts[name][kept] for name in kinds}
    return replace(
        grid,
        tasks=tuple(grid.tasks[k] for k in kept),
        family=grid.family[kept],
        mask=mask,
        facts=facts,
        kinds=kinds,
        outcome=grid.outcome[pairs] * mask,
        weights=grid.weights[pairs],
    )


@pytest.mark.parametrize("scheme", ["target", "intermediate", "both"])
def test_q2_with_and_without_features_is_what_a_plain_nested_ridge_regression_says(few, scheme):
    fits = fits_of(few, scheme)
    own = [fits.q2()[0], fits.q2(["samples", "setting"])[0]]
    assert own == pytest.approx(plain_q2(few, scheme, ["link"]), rel=1e-9)


@pytest.mark.parametrize("scheme", ["target", "intermediate", "both"])
def test_blocks_that_are_exchanged_are_what_their_own_features_would_say(few, scheme):
    several = np.random.default_rng(2).normal(size=(*few.mask.shape, 3)) * few.mask[..., None]
    fits = fits_of(few, scheme, several)
    orders = np.random.default_rng(3).permuted(np.tile(np.arange(len(few.tasks)), (3, 1)), axis=1)
    names = ["setting", "link"]
    permuted = {name: few.facts[name][orders] for name in names}
    together = Exchange(fits, ["samples"]).q2([block for name in names for block in few.blocks(name, permuted[name])])
    for draw in range(3):
        own = replace(few, facts=few.facts | {name: permuted[name][draw] for name in names})
        alone = fits_of(own, scheme, several)
        alone.penalties = fits.penalties
        assert together[draw] == pytest.approx(alone.q2(), rel=1e-9)


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
    def added(of):
        fits = fits_of(of, "target")
        return (fits.q2() - fits.q2([name for name in grid.kinds if name != "link"]))[0]

    parts = np.array([added(grid.without_family(one)) for one in range(6)])
    error = parts.std(ddof=1) * 5 / np.sqrt(6)
    low, high = delete_a_family(grid, "target", ["link"], fits_of(grid, "target"))["link"]
    assert (low + high) / 2 == pytest.approx(added(grid))
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
    fits, others = fits_of(grid, "target"), [name for name in grid.kinds if name not in names]
    exchange, without = Exchange(fits, others), fits.q2(others)[0]
    for draw, order in enumerate(orders):
        blocks = []
        for name in names:
            typical = [np.mean([grid.facts[name][k] for k in range(18) if grid.family[k] == one]) for one in range(6)]
            given = np.array([typical[order[grid.family[k]]] for k in range(18)])
            blocks += grid.blocks(name, given)
        given_out = exchange.q2([block[None] for block in blocks])[0, 0]
        assert own.by_families[draw, 0] == pytest.approx(given_out - without, abs=1e-12)
    assert own.by_tasks.shape == (0, 1)


@pytest.mark.parametrize(("added", "reached", "passes"), [(0.1, 0, True), (0.1, 1, False), (-0.1, 0, False)])
def test_features_pass_that_add_something_and_reach_the_level_exactly(added, reached, passes):
    null = np.full((19, 1), -1.0)  # 19 arrangements and the observed one: p = 1/20 is the level
    null[:reached] = 1.0
    outcome = Outcome(np.zeros(1), np.array([added]), null, np.full((19, 1), -1.0))
    assert outcome.p[0] == (1 + reached) / 20
    assert outcome.passes.tolist() == [passes]


@pytest.mark.parametrize("scheme", ["target", "intermediate", "both"])
def test_r2_of_the_training_pairs_is_that_of_plain_ridge_regressions(few, scheme):
    fits = fits_of(few, scheme)
    shares, places = [], dict(zip(fits.folds, fits.penalties[:, 0], strict=True))
    for train, _, _ in splits(few, few.mask, scheme):
        trained = train.any(0) if scheme == "target" else train.any(1)
        left = [family for family in range(6) if not trained[few.family == family].any()]
        missed = errors(few, list(few.kinds), train, train, train, [PENALTIES[places[tuple(left)]]])[0]
        shares.append(1 - missed / (few.weights[train] @ rows_of(few.outcome, train, train) ** 2))
    assert fits.r2_train() == pytest.approx(np.mean(shares))


@pytest.mark.parametrize(("n_pairs", "n_folds"), [(9, 0), (10, 1)])
def test_ten_training_pairs_are_enough_for_a_fold_and_nine_are_not(grid, n_pairs, n_folds):
    family = np.array([0] * 6 + [1])
    mask = np.zeros((7, 7), dtype=bool)
    mask[:2, 6] = True  # two pairs of the target that is left out, and n to train on
    mask[tuple(np.argwhere(~np.eye(6, dtype=bool))[:n_pairs].T)] = True
    own = replace(grid, mask=mask, family=family, outcome=mask * 1.0, weights=mask * 1.0)
    assert len(FamilyFits(own, "target", {}).folds) == n_folds


def test_gains_that_do_not_vary_are_the_reason_why_nothing_is_tested(grid):
    still = replace(grid, outcome=np.zeros(grid.mask.shape))
    assert why_no_fold(still, "target") == "the gains of each target are all the same"
    assert why_no_fold(grid, "target") is None


def test_gains_that_vary_by_rounding_alone_do_not_vary(grid):
    rounding = np.random.default_rng(1).normal(size=grid.mask.shape) * 1e-14
    assert why_no_fold(replace(grid, outcome=rounding), "target") == "the gains of each target are all the same"
    assert why_no_fold(replace(grid, outcome=rounding * 1e8), "target") is None
