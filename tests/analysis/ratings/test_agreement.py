"""Agreement of raters: known values, an independent count, and raters who must not be compared."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr

from analysis.ratings.agreement import agreement, alpha, differences, rater_pairs
from analysis.results.published import results, table
from analysis.results.results import RATINGS, Results, framed
from tasks.ratings import constructs as declared_constructs

GAP = np.nan
# Krippendorff, "Computing Krippendorff's alpha-reliability" (2011), section D: four observers, twelve units
FOUR_OBSERVERS = np.array(
    [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, GAP, GAP, GAP],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, GAP, 3],
        [GAP, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, GAP],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, GAP],
    ]
).T


def rated(rows):
    """Results with these ratings (task, construct, rater, value) and nothing else."""
    ours = results()
    return Results("rated", ours.gains, ours.tasks, framed(pd.DataFrame(rows, columns=list(RATINGS)), RATINGS))


def alpha_by_counting(values, level):
    """One minus observed over expected disagreement, from every ordered pair of ratings, one at a time."""
    units = [[one for one in row if np.isfinite(one)] for row in values]
    units = [unit for unit in units if len(unit) > 1]
    pool = [one for unit in units for one in unit]

    def apart(a, b):
        if level == "interval":
            return (a - b) ** 2
        low, high = sorted((a, b))
        between = sum(low <= one <= high for one in pool)
        return (between - (pool.count(a) + pool.count(b)) / 2) ** 2

    observed = sum(apart(a, b) / (len(unit) - 1) for unit in units for a, b in permutations(unit, 2)) / len(pool)
    expected = sum(apart(a, b) for a, b in permutations(pool, 2)) / (len(pool) * (len(pool) - 1))
    return 1 - observed / expected


def test_of_a_single_unit_alpha_is_undefined():
    assert alpha_by_counting([[2.0, 5.0]], "interval") == 0  # whatever they said
    assert np.isnan(alpha(np.array([[2.0, 5.0], [1.0, GAP]])))
    assert np.isfinite(alpha(np.array([[2.0, 5.0], [1.0, 1.0]])))


def test_alphas_of_the_paper(published):
    frame = agreement(published, draws=50).set_index("construct")
    order = ["definition", "link", "conduciveness", "overall"]
    assert frame.alpha_interval[order].tolist() == pytest.approx([0.8562, 0.8324, 0.4569, 0.7220], abs=1e-4)
    assert frame.alpha_ordinal[order].tolist() == pytest.approx([0.8700, 0.8335, 0.3208, 0.6912], abs=1e-4)
    assert frame.n_units[order].tolist() == [18, 18, 18, 54]
    assert frame.alpha_interval[order].round(2).tolist() == table("table3_agreement").alpha.tolist()


def test_rank_correlations_of_the_paper(published):
    frame = rater_pairs(published, draws=50).set_index("construct")
    order = ["definition", "link", "conduciveness", "overall"]
    assert frame.spearman[order].tolist() == pytest.approx([0.9068, 0.8948, 0.4943, 0.7023], abs=1e-4)
    assert frame.p["conduciveness"] == pytest.approx(0.0370, abs=1e-4)
    assert frame.p[order].tolist() == pytest.approx([2.1e-7, 5.4e-7, 0.0370, 3.3e-9], rel=0.02)
    assert frame.spearman[order].round(2).tolist() == table("table3_agreement").spearman_r.tolist()


def test_difference_counts_of_figure_8(published):
    frame = differences(published)
    counts = {name: dict(zip(one.difference, one.n_tasks, strict=True)) for name, one in frame.groupby("construct")}
    assert counts["definition"] == {0: 12, -1: 6}
    assert counts["link"] == {0: 11, 1: 6, 2: 1}
    assert counts["conduciveness"] == {-1: 7, 0: 5, -2: 4, 1: 2}


@pytest.mark.parametrize(("level", "value"), [("interval", 0.849), ("ordinal", 0.815)])
def test_alpha_of_a_known_example_with_gaps(level, value):
    assert alpha(FOUR_OBSERVERS, level) == pytest.approx(value, abs=5e-4)


@pytest.mark.parametrize("level", ["interval", "ordinal"])
def test_alpha_is_what_counting_every_pair_gives(level):
    rng = np.random.default_rng(1)
    for _ in range(40):
        values = rng.integers(1, 6, size=(rng.integers(4, 12), rng.integers(2, 6))).astype(float)
        values[rng.random(values.shape) < 0.25] = GAP
        assert alpha(values, level) == pytest.approx(alpha_by_counting(values, level), abs=1e-12)


def test_alpha_of_ratings_that_do_not_vary_is_undefined():
    assert np.isnan(alpha(np.full((5, 2), 3.0)))
    assert np.isnan(alpha(np.array([[1.0, GAP], [GAP, 2.0]])))


def test_raters_without_a_common_task_are_never_compared():
    first = [("a b c d e f".split()[i], "link", rater, value) for rater in "AB" for i, value in enumerate([1, 2, 3])]
    second = [("a b c d e f".split()[3 + i], "link", rater, i + 1) for rater in "CD" for i in range(3)]
    found = rated([*first, *second])
    assert agreement(found).raters.tolist() == ["A, B", "C, D"]
    assert agreement(found).n_tasks.tolist() == [3, 3]
    pairs = rater_pairs(found)
    assert list(zip(pairs.rater_a, pairs.rater_b, strict=True)) == [("A", "B"), ("C", "D")]
    assert pairs.spearman.tolist() == [1, 1]
    assert pairs.p.isna().all()  # three tasks ranked alike are no proof


def test_a_rater_in_common_links_a_panel_but_no_pair():
    rows = [(task, "link", rater, value) for value, task in enumerate("abc", 1) for rater in ("A", "B")]
    rows += [(task, "link", rater, value) for value, task in enumerate("de", 1) for rater in ("B", "C")]
    found = rated(rows)
    assert agreement(found).raters.tolist() == ["A, B, C"]
    pairs = rater_pairs(found)
    assert list(zip(pairs.rater_a, pairs.rater_b, strict=True)) == [("A", "B"), ("B", "C")]
    assert np.isnan(pairs.spearman[1])  # two tasks say nothing


def test_many_undefined_draws_have_no_interval():
    nearly_constant = [(f"t{i}", "link", rater, 1 + (i == 0)) for i in range(12) for rater in "AB"]
    frame = agreement(rated(nearly_constant), draws=200)  # a third of the draws do not hold the one task that differs
    assert (frame.alpha_interval[0], np.isnan(frame.low_interval[0])) == (1.0, True)


def test_what_cannot_be_said_is_left_undefined():
    constant = rated([(task, "link", rater, 3) for task in "abcdef" for rater in "AB"])
    frame = agreement(constant, draws=100)
    assert frame[["alpha_interval", "low_interval", "alpha_ordinal"]].isna().all(axis=None)
    assert rater_pairs(constant, draws=100).spearman.isna().all()
    for nobody in (rated([]), rated([("a", "link", "A", 1)])):
        assert len(agreement(nobody)) == len(rater_pairs(nobody)) == len(differences(nobody)) == 0


def ratings_with_ties(n_tasks, constructs=("link",)):
    """Ratings of two raters who often agree, in whole numbers, so that there are ties."""
    rng = np.random.default_rng(n_tasks)
    rows = []
    for construct in constructs:
        for place in range(n_tasks):
            value = int(rng.integers(1, 6))
            rows += [(f"t{place}", construct, "A", value), (f"t{place}", construct, "B", value)]
            rows[-1] = (*rows[-1][:3], int(np.clip(value + rng.integers(-1, 2), 1, 5)))
    return rated(rows)


def resampled(panel, draws, seed):
    """The rows ``[units, raters]`` of every draw, each task as often as it was drawn."""
    tasks = sorted(set(panel.index))
    times = np.random.default_rng(seed).multinomial(len(tasks), np.full(len(tasks), 1 / len(tasks)), size=draws)
    for row in times:
        yield np.concatenate([panel.loc[[task]].to_numpy() for task in np.repeat(tasks, row)])


@pytest.mark.parametrize("constructs", [("link",), ("link", "definition")])
def test_an_interval_is_that_of_tasks_resampled_by_hand(constructs):
    ratings = ratings_with_ties(11, constructs)
    wide = ratings.ratings.pivot(index=["task", "construct"], columns="rater", values="value").droplevel("construct")
    drawn = list(resampled(wide.astype(float), 25, seed=7))
    frame, pairs = agreement(ratings, draws=25, seed=7), rater_pairs(ratings, draws=25, seed=7)
    row, pair = frame.iloc[-1], pairs.iloc[-1]  # overall where there are two constructs
    assert (row.n_tasks, row.n_units, pair.n_tasks, pair.n_units) == (11, 11 * len(constructs)) * 2
    for level in ("interval", "ordinal"):
        alphas = [alpha_by_counting(values, level) for values in drawn]
        assert (row[f"low_{level}"], row[f"high_{level}"]) == pytest.approx(np.quantile(alphas, [0.025, 0.975]))
    correlations = [spearmanr(*values.T).statistic for values in drawn]
    assert (pair.low, pair.high) == pytest.approx(np.quantile(correlations, [0.025, 0.975]))


@pytest.mark.parametrize(("n_tasks", "has_interval"), [(9, False), (10, True)])
def test_ten_tasks_have_an_interval_and_nine_have_none(n_tasks, has_interval):
    ratings = ratings_with_ties(n_tasks)
    assert agreement(ratings, draws=50).low_interval.notna().tolist() == [has_interval]
    assert rater_pairs(ratings, draws=50)[["low", "p"]].notna().to_numpy().tolist() == [[has_interval] * 2]


def test_a_rater_who_gives_less_has_a_negative_difference():
    pairs = rater_pairs(rated([(task, "link", rater, mark) for task in "abc" for rater, mark in (("A", 1), ("B", 4))]))
    assert pairs[["rater_a", "rater_b", "mean_difference"]].to_numpy().tolist() == [["A", "B", -3.0]]


def test_units_of_one_rater_do_not_count():
    both = [(task, "link", rater, place) for place, task in enumerate("abcd", 1) for rater in "AB"]
    frame = agreement(rated([*both, ("e", "link", "A", 5), ("f", "link", "B", 1)]), draws=20)
    assert frame[["n_tasks", "n_units"]].to_numpy().tolist() == [[4, 4]]


def test_scales_that_differ_have_no_overall(monkeypatch):
    ratings = ratings_with_ties(10, ("link", "definition"))
    assert agreement(ratings, draws=20).construct.tolist() == ["definition", "link", "overall"]
    known = declared_constructs()
    wider = {**known, "link": replace(known["link"], maximum=known["link"].maximum + 2)}
    monkeypatch.setattr("analysis.ratings.agreement.constructs", lambda: wider)
    assert agreement(ratings, draws=20).construct.tolist() == ["definition", "link"]
    assert rater_pairs(ratings, draws=20).construct.tolist() == ["definition", "link"]
    unknown = ratings_with_ties(10, ("definition", "kindness"))  # nobody said on what scale
    assert agreement(unknown, draws=20).construct.tolist() == ["definition", "kindness"]
