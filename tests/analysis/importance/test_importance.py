"""The paper's importances, and what they are worth; expected numbers are those of the reference analysis."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from analysis.importance.grid import pair_features
from analysis.importance.paper_mode import (
    SETTINGS,
    KernelFit,
    against_table6,
    paper_blocks,
    paper_importances,
    shuffled_ratings,
    split_rows,
    unseen_tasks,
)
from tasks.errors import BadInput


@pytest.fixture(scope="module")
def found(published):
    return {name: paper_importances(published, setting, range(20)) for name, setting in SETTINGS.items()}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "rho", "rmse", "first"), [("V1", 0.80, 0.08, 0.75), ("V3", 0.95, 0.05, 0.95)])
def test_the_mean_over_20_seeds_comes_close_to_table_6(found, name, rho, rmse, first):
    close = against_table6(found[name].importances)
    wide = found[name].importances.pivot(index="seed", columns="feature", values="importance")
    assert close.rho.mean() >= rho
    assert np.isfinite(close.rho).all()
    assert found[name].mean().set_index("feature").importance["data_similarity"] <= 0.02
    assert close.rmse.mean() <= rmse
    assert (wide.idxmax(axis=1) == "definition").mean() >= first


@pytest.mark.slow
def test_random_splits_explain_next_to_nothing_of_their_test_pairs(found):
    for one in found.values():
        by_seed = one.fits.groupby("seed").r2_test.mean()
        assert -0.05 <= by_seed.mean() <= 0.20
        assert one.fits.r2_train.mean() > 0.25


def test_unseen_targets_are_predicted_worse_than_by_the_mean(published):
    q2 = unseen_tasks(published, SETTINGS["V1"]).set_index("left_out").q2
    assert q2["target"] == pytest.approx(-0.10, abs=0.02)
    assert q2["intermediate"] == pytest.approx(0.07, abs=0.02)
    assert q2["both"] == pytest.approx(-0.14, abs=0.02)


def test_similarities_that_were_measured_of_every_pair_take_part_in_what_a_fit_is_worth(published):
    percent = published.gains.percent
    known = published.gains[["intermediate", "target"]].assign(
        data_similarity=1.5 * (percent - percent.mean()) / percent.std(), task_similarity=0.0
    )
    bare, with_them, with_a_gap = (
        unseen_tasks(published, SETTINGS["V1"], similarities=one).set_index("left_out").q2["target"]
        for one in (None, known, known.assign(data_similarity=known.data_similarity.mask(known.index == 7)))
    )
    assert with_them > bare + 0.1
    assert with_a_gap == pytest.approx(bare, abs=0.02)


@pytest.mark.slow
def test_ratings_handed_round_among_tasks_look_important_too(published):
    null = shuffled_ratings(published, SETTINGS["V1"], permutations=60, seed=0).set_index("feature")
    assert null.null_mean["definition"] == pytest.approx(0.16, abs=0.03)
    assert null.p["definition"] <= 0.10
    assert null.p["link"] > 0.05


def test_random_numbers_are_important_where_their_unit_is_large(published):
    def largest(scale):
        rng = np.random.default_rng(0)
        pairs = published.gains[["intermediate", "target"]]
        drawn = pairs.assign(data_similarity=scale * rng.normal(size=306), task_similarity=0.01 * rng.normal(size=306))
        given = paper_importances(published, SETTINGS["V1"], range(2), similarities=drawn)
        return given.mean().set_index("feature").importance["data_similarity"]

    assert largest(0.2) <= 0.02
    assert largest(1.5) >= 0.05


def test_equal_seeds_give_equal_bits_and_others_do_not(published):
    once, again, other = (paper_importances(published, SETTINGS["V3"], [seed]).importances for seed in (3, 3, 4))
    pd.testing.assert_frame_equal(once, again, check_exact=True)
    assert not np.allclose(once.importance, other.importance)


def test_shuffling_by_looking_up_equals_predicting_the_shuffled_rows(published):
    blocks = paper_blocks(published, pair_features(published), SETTINGS["V3"], 1)
    outcome = published.gains.percent.to_numpy()
    rows, _ = split_rows(306, 0.3, 1, 0)
    train = {name: block[rows] for name, block in blocks.items()}
    fit = KernelFit(train, outcome[rows], SETTINGS["V3"])
    order = np.random.default_rng(1).permutation(len(rows))
    predicted = fit.predicted(train | {"link": train["link"][order]})
    own = outcome[rows]
    by_hand = fit.r2() - (1 - ((own - predicted) ** 2).sum() / ((own - own.mean()) ** 2).sum())
    assert fit.falls("link", order[None])[0] == pytest.approx(by_hand, abs=1e-9)


def test_missing_similarities_and_percentages_are_said(published):
    gains = published.gains.copy()
    gains.loc[:4, "percent"] = np.nan
    notes = paper_importances(replace(published, gains=gains), SETTINGS["V1"], [0]).notes
    assert "random placeholder" in notes[0]
    assert "5 of 306 pairs have no percent change" in notes[1]


def test_a_grid_too_small_for_random_splits_is_refused_in_one_line(published):
    small = replace(published, name="tiny", gains=published.gains.head(6))
    with pytest.raises(BadInput, match="tiny: 6 pairs"):
        paper_importances(small, SETTINGS["V1"], [0])
