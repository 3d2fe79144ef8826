"""Whether a ranking beats a random order: by enumeration, and how often it is said of random numbers."""

from itertools import permutations, product

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import ndcg_score

from analysis.importance.choosing import family_typical, ndcg, p_of_orders

FEWEST = 4
ALONE = {f"t{number}": "the same" for number in range(18)}  # of one family nothing but tasks can change places


def pairs(score, **orders):
    """Frames of all pairs of two tasks, rankings and gains; arrays are [intermediates, targets]."""
    rows = [(i, t) for t in range(len(score)) for i in range(len(score)) if i != t]
    where = tuple(np.array(rows).T)
    names = {"intermediate": [f"t{i}" for i, _ in rows], "target": [f"t{t}" for _, t in rows]}
    ranked = pd.DataFrame({**names, **{name: order[where] for name, order in orders.items()}})
    return ranked, pd.DataFrame({**names, "score": score[where], "gain": score[where]})


def mean_ndcg(score, order):
    """The mean over targets by scikit-learn, a target at a time."""
    values = []
    for target in range(len(score)):
        others = [i for i in range(len(score)) if i != target]
        own = score[others, target]
        values.append(ndcg_score([(own - own.min()) / np.ptp(own)], [order[others, target]]))
    return np.mean(values)


def test_p_is_the_share_of_all_arrangements_of_tasks_that_rank_as_well():
    rng = np.random.default_rng(4)
    score, order = rng.normal(size=(2, 5, 5))
    order = np.round(order + score, 1)  # with ties
    frame = p_of_orders(*pairs(score, mine=order), ["mine"], FEWEST, ALONE)
    means = [mean_ndcg(score, order[np.ix_(moved, moved)]) for moved in permutations(range(5))]
    assert frame.p["mine"] == pytest.approx(np.mean(np.array(means) >= mean_ndcg(score, order) - 1e-12))
    assert frame.p_corrected["mine"] == frame.p["mine"]


def test_a_transfer_that_is_not_finished_leaves_its_target_the_other_candidates():
    missing = [(1, 0), (4, 2)]
    rng = np.random.default_rng(9)
    score, order = rng.normal(size=(2, 6, 6))
    order = np.round(order, 1)
    ranked, gains = pairs(score, mine=order)
    for intermediate, target in missing:
        gains.loc[(gains.intermediate == f"t{intermediate}") & (gains.target == f"t{target}"), "gain"] = np.nan

    def mean(moved):
        values = []
        for target in range(6):
            own = [i for i in range(6) if i != target and (i, target) not in missing]
            values.append(ndcg(order[moved[own], moved[target]], score[own, target]))
        return np.mean(values)

    means = np.array([mean(np.array(moved)) for moved in permutations(range(6))])
    expected = (means >= mean(np.arange(6)) - 1e-12).mean()
    assert p_of_orders(ranked, gains, ["mine"], FEWEST, ALONE).p["mine"] == pytest.approx(expected)


def test_families_change_places_and_tasks_within_them_and_the_larger_p_counts():
    rng = np.random.default_rng(11)
    family = np.array([0, 0, 1, 1, 2, 2, 3])  # a family of one has no pair of its own
    order = rng.normal(size=(4, 4))[np.ix_(family, family)] + 0.3 * rng.normal(size=(7, 7))
    score = order + 1.5 * rng.normal(size=(7, 7))
    typical = np.empty((4, 4))
    for first, other in np.ndindex(4, 4):
        places = [(i, t) for i in range(7) for t in range(7) if i != t and (family[i], family[t]) == (first, other)]
        typical[first, other] = np.mean([order[place] for place in places]) if places else np.nan
    typical[3, 3] = np.nanmean(np.diag(typical))
    own = order - typical[np.ix_(family, family)]
    means = [
        mean_ndcg(score, typical[np.ix_(moved, moved)][np.ix_(family, family)] + own[np.ix_(tasks, tasks)])
        for moved in map(list, permutations(range(4)))
        for a, b, c in product([[0, 1], [1, 0]], [[2, 3], [3, 2]], [[4, 5], [5, 4]])
        for tasks in [[*a, *b, *c, 6]]
    ]
    of_families = (np.array(means) >= mean_ndcg(score, order) - 1e-12).mean()
    names = {f"t{number}": f"family {code}" for number, code in enumerate(family)}
    both, alone = (p_of_orders(*pairs(score, mine=order), ["mine"], FEWEST, of).p["mine"] for of in (names, ALONE))
    assert alone + 0.05 < both == pytest.approx(of_families, abs=0.04)  # of 499 draws
    few = {name: of.replace("3", "2") for name, of in names.items()}  # three families have too few orders
    assert p_of_orders(*pairs(score, mine=order), ["mine"], FEWEST, few).p["mine"] == alone


def test_the_correction_is_by_the_largest_of_all_rankings():
    rng = np.random.default_rng(5)
    score = rng.normal(size=(5, 5))
    orders = {"good": score + rng.normal(0, 0.4, size=(5, 5)), "bad": rng.normal(size=(5, 5))}
    ranked, gains = pairs(score, **orders)
    frame = p_of_orders(ranked.assign(unknown=np.nan), gains, [*orders, "unknown"], FEWEST, ALONE)
    means = np.array(
        [[mean_ndcg(score, order[np.ix_(m, m)]) for order in orders.values()] for m in permutations(range(5))]
    )
    sizes = (means - means.mean(axis=0)) / means.std(axis=0)
    expected = [(sizes.max(axis=1) >= size - 1e-9).mean() for size in sizes[0]]
    assert frame.p_corrected[list(orders)].tolist() == pytest.approx(expected)
    assert frame.loc["unknown"].isna().all()
    assert (frame.p_corrected >= frame.p)[list(orders)].all()


def test_a_task_without_a_finished_pair_and_a_ranking_with_a_gap_change_nothing_for_the_others():
    rng = np.random.default_rng(6)
    score, order = rng.normal(size=(2, 6, 6))
    ranked, gains = pairs(score, mine=order, gappy=order)
    ranked.loc[0, "gappy"] = np.nan
    is_new = (ranked.intermediate == "t5") | (ranked.target == "t5")
    gains.loc[is_new, ["score", "gain"]] = np.nan
    ranked.loc[is_new, "mine"] = np.nan
    old = p_of_orders(*pairs(score[:5, :5], mine=order[:5, :5]), ["mine"], FEWEST, ALONE)
    new = p_of_orders(ranked, gains, ["mine", "gappy"], FEWEST, ALONE)
    assert new.p["mine"] == old.p["mine"]
    assert np.isnan(new.p["gappy"])


def test_without_enough_candidates_nothing_is_said():
    score = np.random.default_rng(7).normal(size=(4, 4))
    assert p_of_orders(*pairs(score, mine=score), ["mine"], FEWEST, ALONE).isna().all(axis=None)


def test_the_ndcg_is_the_one_that_is_printed():
    rng = np.random.default_rng(8)
    score, order = rng.normal(size=(2, 5, 5))
    others = [1, 2, 3, 4]
    assert ndcg(order[others, 0], score[others, 0]) == pytest.approx(
        ndcg_score([(score[others, 0] - score[others, 0].min()) / np.ptp(score[others, 0])], [order[others, 0]])
    )


@pytest.mark.simulation
@pytest.mark.parametrize("tasks", [6, 12])
@pytest.mark.parametrize("kind", ["one order for all targets", "an order for each pair"])
def test_random_numbers_are_called_better_in_one_grid_of_twenty(tasks, kind):
    rng = np.random.default_rng(tasks)
    grids, wrong = 200, 0
    for _ in range(grids):
        score = rng.normal(size=(tasks, 1)) + rng.normal(size=(1, tasks)) + rng.normal(size=(tasks, tasks))
        shape = (tasks, 1) if kind.startswith("one") else (tasks, tasks)
        order = np.broadcast_to(rng.normal(size=shape), (tasks, tasks))
        wrong += p_of_orders(*pairs(score, mine=order), ["mine"], FEWEST, ALONE).p["mine"] <= 0.05
    assert wrong / grids <= 0.05 + 2.6 * np.sqrt(0.05 * 0.95 / grids)


@pytest.mark.simulation
def test_a_ranking_that_knows_half_of_what_differs_is_mostly_found():
    rng = np.random.default_rng(1)
    right = 0
    for _ in range(40):
        score = rng.normal(size=(12, 12))
        order = score + rng.normal(size=(12, 12))
        right += p_of_orders(*pairs(score, mine=order), ["mine"], FEWEST, ALONE).p_corrected["mine"] <= 0.05
    assert right >= 38


def test_what_is_typical_of_a_family_without_a_pair_is_that_of_the_families_that_have_one():
    family = np.array([0, 0, 1, 2, 2])
    alike = np.full((5, 5), 0.5)
    alike[0, 1] = alike[1, 0] = 0.9
    alike[3, 4] = alike[4, 3] = 0.7
    np.fill_diagonal(alike, 1.0)
    typical = family_typical(alike, family)
    assert np.diag(typical) == pytest.approx([0.9, 0.8, 0.7])
    assert typical[~np.eye(3, dtype=bool)] == pytest.approx(np.full(6, 0.5))
    assert family_typical(alike[1:4, 1:4], np.arange(3)) == pytest.approx(np.full((3, 3), 0.5))
