"""The paper's importances the long way: scikit-learn's own SVR, refitted and shuffled row by row."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr
from sklearn.metrics import r2_score
from sklearn.svm import SVR

from analysis.importance import paper_mode
from analysis.importance.grid import pair_features
from analysis.importance.paper_mode import (
    SETTINGS,
    TABLE_6,
    against_table6,
    importances_by_chance,
    mark_of_chance,
    paper_blocks,
    paper_importances,
    r2,
    split_rows,
)
from analysis.results.published import results, table

SPLITS, SHUFFLES = 2, 3


@pytest.fixture(scope="module")
def published():
    """A part of the paper's grid: eight of its tasks."""
    whole = results()
    names = set(whole.tasks.task[::2][:8])
    kept = whole.gains[whole.gains.intermediate.isin(names) & whole.gains.target.isin(names)].reset_index(drop=True)
    return replace(
        whole,
        gains=kept,
        tasks=whole.tasks[whole.tasks.task.isin(names)].reset_index(drop=True),
        ratings=whole.ratings[whole.ratings.task.isin(names)],
    )


@pytest.mark.parametrize("name", SETTINGS)
def test_an_importance_is_what_shuffling_costs_scikit_learns_own_model(published, name, monkeypatch):
    monkeypatch.setattr(paper_mode, "N_SPLITS", SPLITS)
    monkeypatch.setattr(paper_mode, "N_PERMUTATIONS", SHUFFLES)
    setting, seed = SETTINGS[name], 3
    own = paper_importances(published, setting, [seed])
    blocks = paper_blocks(published, pair_features(published), setting, seed)
    percent = published.gains.percent.to_numpy()
    costs = {feature: [] for feature in blocks}
    for split in range(SPLITS):
        train, test = split_rows(len(percent), setting.test_share, seed, split)
        columns = np.hstack(list(blocks.values()))
        model = SVR(C=setting.penalty, epsilon=setting.epsilon, gamma="scale").fit(columns[train], percent[train])
        whole = r2_score(percent[train], model.predict(columns[train]))
        fit = own.fits[own.fits.split == split].iloc[0]
        assert fit.r2_train == pytest.approx(whole, abs=1e-4)
        assert fit.r2_test == pytest.approx(r2_score(percent[test], model.predict(columns[test])), abs=1e-4)
        rng = np.random.default_rng((seed, 2, split))
        for feature in blocks:
            for order in rng.permuted(np.tile(np.arange(len(train)), (SHUFFLES, 1)), axis=1):
                shuffled = [block[train][order] if one == feature else block[train] for one, block in blocks.items()]
                costs[feature].append(whole - r2_score(percent[train], model.predict(np.hstack(shuffled))))
    frame = own.importances.set_index("feature")
    for feature, falls in costs.items():
        assert frame.importance[feature] == pytest.approx(np.mean(falls), abs=1e-4)
        assert frame.sd[feature] == pytest.approx(np.std(falls, ddof=1), abs=1e-4)
    means = own.mean()
    assert means.importance.is_monotonic_decreasing
    assert set(own.importances.seed) == set(own.fits.seed) == {seed}


def test_importances_by_chance_are_those_of_gains_that_other_tasks_got(published, monkeypatch):
    """Facts permuted over tasks are gains permuted the other way: each pair is renamed and looked up anew."""
    monkeypatch.setattr(paper_mode, "N_SHUFFLES", SHUFFLES)
    setting, seed = SETTINGS["V1"], 3
    kept = published.gains.drop(index=[4, 17]).reset_index(drop=True)
    results = replace(published, gains=kept)
    null = importances_by_chance(results, setting, arrangements=2, seed=seed)
    blocks = paper_blocks(results, pair_features(results), setting, seed)
    assert set(null) == set(blocks) - {"data_similarity", "task_similarity"}  # random placeholders stand for those
    tasks = list(dict.fromkeys([*kept.intermediate, *kept.target]))
    orders = np.random.default_rng((seed, 4)).permuted(np.tile(np.arange(len(tasks)), (2, 1)), axis=1)
    for number, order in enumerate(orders):
        new_names = {task: tasks[other] for task, other in zip(tasks, order, strict=True)}
        renamed = kept.assign(intermediate=kept.intermediate.map(new_names), target=kept.target.map(new_names))
        arranged = replace(results, gains=renamed)
        codes = paper_blocks(arranged, pair_features(arranged), setting, seed)
        train, _ = split_rows(len(kept), setting.test_share, seed, number)
        percent = kept.percent.to_numpy()[train]
        model = SVR(C=setting.penalty, epsilon=setting.epsilon, gamma="scale")
        model.fit(np.hstack(list(codes.values()))[train], percent)
        whole = r2_score(percent, model.predict(np.hstack(list(codes.values()))[train]))
        rng = np.random.default_rng((seed, 5, number))
        shuffles = rng.permuted(np.tile(np.arange(len(train)), (SHUFFLES, 1)), axis=1)
        for feature in null:
            costs = [
                whole
                - r2_score(
                    percent,
                    model.predict(
                        np.hstack([b[train][order] if one == feature else b[train] for one, b in codes.items()])
                    ),
                )
                for order in shuffles
            ]
            assert null[feature][number] == pytest.approx(np.mean(costs), abs=1e-4)


def test_two_of_forty_importances_of_nothing_lie_above_their_mark():
    drawn = np.random.default_rng(0).normal(size=40)
    above = [drawn[k] > mark_of_chance(pd.DataFrame({"x": np.delete(drawn, k)})).x for k in range(40)]
    assert sum(above) == 2


def test_splits_are_random_and_have_their_share_rounded_up():
    train, test = split_rows(11, 0.2, 5, 0)
    assert (len(train), len(test)) == (8, 3)
    assert sorted([*train, *test]) == list(range(11))
    others = [split_rows(11, 0.2, *which)[1].tolist() for which in ((5, 1), (6, 0))]
    assert test.tolist() not in others
    assert test.tolist() == split_rows(11, 0.2, 5, 0)[1].tolist()


def test_constructs_signs_and_codes_are_those_of_the_setting(published):
    pairs = pair_features(published)
    first, second = (paper_blocks(published, pairs, SETTINGS[name], 1) for name in ("V1", "V3"))
    np.testing.assert_array_equal(first["link"][:, 0], pairs.link)
    np.testing.assert_array_equal(second["link"], pairs[["link_intermediate", "link_target"]])
    np.testing.assert_array_equal(first["samples"][:, 0], [(x > 0) - (x < 0) for x in pairs.samples])
    np.testing.assert_array_equal(second["samples"], [[x < 0, x == 0, x > 0] for x in pairs.samples])
    kinds = pairs.setting.tolist()
    alphabetical = sorted(set(kinds), key=lambda kind: tuple(kind.split(">")))
    assert first["setting"][:, 0].tolist() == [alphabetical.index(kind) for kind in kinds]
    appearing = list(dict.fromkeys(kinds))
    assert second["setting"][:, 0].tolist() == [appearing.index(kind) for kind in kinds]
    assert alphabetical != appearing


def test_stand_ins_of_similarities_vary_as_such_similarities_do(published):
    pairs = pair_features(published)
    blocks = paper_blocks(published, pairs, SETTINGS["V1"], 1)
    assert 0.2 <= blocks["data_similarity"].min() < 0.4 < 0.7 < blocks["data_similarity"].max() <= 0.9
    assert 0.005 < blocks["task_similarity"].std() < 0.015
    assert abs(blocks["task_similarity"].mean()) < 0.005
    other = paper_blocks(published, pairs, SETTINGS["V1"], 2)
    assert not np.array_equal(other["data_similarity"], blocks["data_similarity"])
    assert "data_similarity" not in paper_blocks(published, pairs, SETTINGS["V1"], None)


def test_the_distance_to_table_6_is_scipys_correlation_and_the_root_mean_square():
    printed = table("table6_importances").set_index("feature").importance.rename(TABLE_6)
    rng = np.random.default_rng(0)
    rows = [(seed, name, rng.normal()) for seed in (1, 2) for name in printed.index]
    frame = pd.DataFrame(rows, columns=["seed", "feature", "importance"])
    found = against_table6(frame).set_index("seed")
    for seed, own in frame.groupby("seed"):
        values = own.set_index("feature").importance[printed.index]
        assert found.rho[seed] == pytest.approx(spearmanr(values, printed).statistic)
        assert found.rmse[seed] == pytest.approx(np.sqrt(np.mean((values - printed) ** 2)))


def test_r2_of_an_outcome_that_does_not_vary_is_undefined():
    assert np.isnan(r2(np.ones(3), np.zeros(3)))
    assert r2(np.array([1.0, 2.0, 4.0]), np.array([1.0, 2.0, 3.0])) == pytest.approx(
        r2_score([1.0, 2.0, 4.0], [1.0, 2.0, 3.0])
    )


def test_ten_splits_of_fifty_shuffles_are_drawn_in_both_readings_of_the_paper():
    assert (paper_mode.N_SPLITS, paper_mode.N_PERMUTATIONS) == (10, 50)  # its section 5.1
    readings = {name: (one.penalty, one.epsilon, one.test_share) for name, one in SETTINGS.items()}
    assert readings == {"V1": (100, 0.1, 0.2), "V3": (200, 0.5, 0.3)}


def test_measured_similarities_take_the_place_of_random_ones_and_every_seed_is_told(published, monkeypatch):
    monkeypatch.setattr(paper_mode, "N_SPLITS", 1)
    monkeypatch.setattr(paper_mode, "N_PERMUTATIONS", 1)
    pairs = published.gains[["intermediate", "target"]]
    rng = np.random.default_rng(0)
    both = pairs.assign(**{name: rng.uniform(size=len(pairs)) for name in ("data_similarity", "task_similarity")})
    steps = []
    drawn, measured = (
        paper_importances(
            published, SETTINGS["V1"], [1, 2, 3], similarities=known, progress=lambda *step: steps.append(step)
        )
        for known in (None, both)
    )
    assert steps == [(1, 3), (2, 3), (3, 3)] * 2
    assert ["random placeholder" in " ".join(one.notes) for one in (drawn, measured)] == [True, False]
    assert not np.allclose(drawn.fits.r2_train, measured.fits.r2_train)
