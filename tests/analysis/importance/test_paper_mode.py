"""The paper's procedure: as it is published, by hand, and as an answer."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr
from sklearn.metrics import r2_score
from sklearn.svm import SVR

from analysis.gains.gains import gains
from analysis.importance import paper_mode
from analysis.importance.grid import Primary, pair_features
from analysis.importance.paper_mode import (
    SETTINGS,
    TABLE_6,
    against_table6,
    importances_by_chance,
    mark_of_chance,
    paper_blocks,
    paper_importances,
    r2,
    shuffled_ratings,
    split_rows,
    unseen_tasks,
)
from analysis.importance.question import of_grids, of_published
from analysis.results.published import results, table
from analysis.results.results import Results
from analysis.sections import importance
from analysis.sections.answers import write_answers
from analysis.sections.importance import guarded_answer, paper_answer
from tasks.errors import BadInput
from tests.support.studies.fake_study import FakeTask, fake_study


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


def test_a_grid_too_small_for_random_splits_is_refused_in_one_line(published):
    small = replace(published, name="tiny", gains=published.gains.head(6))
    with pytest.raises(BadInput, match="tiny: 6 pairs"):
        paper_importances(small, SETTINGS["V1"], [0])


# The paper's importances the long way: scikit-learn's own SVR, refitted and shuffled row by row.

SPLITS, SHUFFLES = 2, 3


@pytest.fixture(scope="module")
def part():
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
def test_an_importance_is_what_shuffling_costs_scikit_learns_own_model(part, name, monkeypatch):
    monkeypatch.setattr(paper_mode, "N_SPLITS", SPLITS)
    monkeypatch.setattr(paper_mode, "N_PERMUTATIONS", SHUFFLES)
    setting, seed = SETTINGS[name], 3
    own = paper_importances(part, setting, [seed])
    blocks = paper_blocks(part, pair_features(part), setting, seed)
    percent = part.gains.percent.to_numpy()
    costs = {feature: [] for feature in blocks}
    for split in range(SPLITS):
        train, test = split_rows(len(percent), setting.test_share, seed, split)
        columns = np.hstack(list(blocks.values()))
        model = SVR(C=setting.penalty, epsilon=setting.epsilon, gamma="scale", tol=1e-12)
        model.fit(columns[train], percent[train])
        whole = r2_score(percent[train], model.predict(columns[train]))
        fit = own.fits[own.fits.split == split].iloc[0]
        assert fit.r2_train == pytest.approx(whole, abs=1e-8)
        assert fit.r2_test == pytest.approx(r2_score(percent[test], model.predict(columns[test])), abs=1e-8)
        rng = np.random.default_rng((seed, 2, split))
        for feature in blocks:
            for order in rng.permuted(np.tile(np.arange(len(train)), (SHUFFLES, 1)), axis=1):
                shuffled = [block[train][order] if one == feature else block[train] for one, block in blocks.items()]
                costs[feature].append(whole - r2_score(percent[train], model.predict(np.hstack(shuffled))))
    frame = own.importances.set_index("feature")
    for feature, falls in costs.items():
        assert frame.importance[feature] == pytest.approx(np.mean(falls), abs=1e-8)
        assert frame.sd[feature] == pytest.approx(np.std(falls, ddof=1), abs=1e-8)
    means = own.mean()
    assert means.importance.is_monotonic_decreasing
    assert set(own.importances.seed) == set(own.fits.seed) == {seed}


def test_importances_by_chance_are_those_of_gains_that_other_tasks_got(part, monkeypatch):
    """Facts permuted over tasks are gains permuted the other way: each pair is renamed and looked up anew."""
    monkeypatch.setattr(paper_mode, "N_SHUFFLES", SHUFFLES)
    setting, seed = SETTINGS["V1"], 3
    kept = part.gains.drop(index=[4, 17]).reset_index(drop=True)
    results = replace(part, gains=kept)
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
        model = SVR(C=setting.penalty, epsilon=setting.epsilon, gamma="scale", tol=1e-12)
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
            assert null[feature][number] == pytest.approx(np.mean(costs), abs=1e-8)


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


def test_constructs_signs_and_codes_are_those_of_the_setting(part):
    pairs = pair_features(part)
    first, second = (paper_blocks(part, pairs, SETTINGS[name], 1) for name in ("V1", "V3"))
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


def test_stand_ins_of_similarities_vary_as_such_similarities_do(part):
    pairs = pair_features(part)
    blocks = paper_blocks(part, pairs, SETTINGS["V1"], 1)
    assert 0.2 <= blocks["data_similarity"].min() < 0.4 < 0.7 < blocks["data_similarity"].max() <= 0.9
    assert 0.005 < blocks["task_similarity"].std() < 0.015
    assert abs(blocks["task_similarity"].mean()) < 0.005
    other = paper_blocks(part, pairs, SETTINGS["V1"], 2)
    assert not np.array_equal(other["data_similarity"], blocks["data_similarity"])
    assert "data_similarity" not in paper_blocks(part, pairs, SETTINGS["V1"], None)


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


def test_measured_similarities_take_the_place_of_random_ones_and_every_seed_is_told(part, monkeypatch):
    monkeypatch.setattr(paper_mode, "N_SPLITS", 1)
    monkeypatch.setattr(paper_mode, "N_PERMUTATIONS", 1)
    pairs = part.gains[["intermediate", "target"]]
    rng = np.random.default_rng(0)
    both = pairs.assign(**{name: rng.uniform(size=len(pairs)) for name in ("data_similarity", "task_similarity")})
    steps = []
    drawn, measured = (
        paper_importances(
            part, SETTINGS["V1"], [1, 2, 3], similarities=known, progress=lambda *step: steps.append(step)
        )
        for known in (None, both)
    )
    assert steps == [(1, 3), (2, 3), (3, 3)] * 2
    assert ["random placeholder" in " ".join(one.notes) for one in (drawn, measured)] == [True, False]
    assert not np.allclose(drawn.fits.r2_train, measured.fits.r2_train)


# What both modes answer for stored studies and for results with gaps: reported, never dropped, never a crash.

FAMILIES = ("one", "two", "three", "four")
MODES = {"guarded": guarded_answer, "paper": paper_answer}


@pytest.fixture(autouse=True)
def few_seeds(monkeypatch):
    monkeypatch.setattr(importance, "SEEDS", 2)
    monkeypatch.setattr(importance, "PERMUTATIONS", 3)


def answered(question, mode="guarded"):
    """The answer of a mode, after its page was written and found to be free of undefined numbers."""
    steps = []
    answer = MODES[mode](question, lambda *step: steps.append(step))
    parts = [part for part in (answer.section, answer.further) if part]
    page = write_answers(question, parts).read_text(encoding="utf-8")
    json.dumps(answer.facts, allow_nan=False)
    for text in (page, *answer.lines):
        assert "nan" not in text.lower().replace("finance", "")
    assert all(done <= of for done, of, _ in steps)
    return answer, page


def question_of(tmp_path, **changes):
    """The question to the paper's scores with other gains, tasks or ratings."""
    question = of_published(tmp_path)
    return replace(question, results=replace(question.results, **changes))


def stored(tmp_path, tasks, families=FAMILIES, rated=True, **options):
    """The question to a stored study of made-up predictions, whose tasks are rated by two raters."""
    store, manifest = fake_study(tmp_path / "runs", tasks, **options)
    for place, one in enumerate(manifest["tasks"].values()):
        one["family"] = families[place % len(families)]
    by_setting = Results.by_setting(store, manifest, gains(store, manifest, draws=100))
    ratings = pd.DataFrame(
        [
            (task.id, construct, rater, float(1 + (place * step + shift) % 5))
            for place, task in enumerate(tasks)
            for step, construct in ((1, "definition"), (2, "link"))
            for shift, rater in enumerate("AB")
        ],
        columns=["task", "construct", "rater", "value"],
    )
    full = by_setting["full"]
    results = replace(full, ratings=ratings if rated else full.ratings.head(0))
    return of_grids({"full": results}, tmp_path / "out")


def several(count=8):
    """Tasks, of which the third has a single class in its test set and the second predicts a number."""
    kinds = {1: {"kind": "continuous"}, 2: {"only_class": 1}}
    return [FakeTask(f"task{place}", rows=60, groups=12, **kinds.get(place, {})) for place in range(count)]


def test_a_study_with_gaps_one_class_and_a_constant_prediction_is_analyzed_and_they_are_told(tmp_path):
    question = stored(tmp_path, several(), absent=[("task0", "task3")], constant=[("task4", "task1")])
    answer, page = answered(question)
    assert "explain gains" in answer.lines[1]
    assert "2 pairs without a defined outcome left out" in page
    _, page = answered(question, "paper")
    assert "2 of 56 pairs have no percent change and are left out" in page


@pytest.mark.parametrize("mode", MODES)
def test_three_tasks_get_a_reason(tmp_path, mode):
    answer, page = answered(stored(tmp_path, several(3)), mode)
    assert "nothing can be said: " in page.lower()
    assert any(
        ("3 rated tasks, with targets of 3 families" if mode == "guarded" else "6 pairs") in line
        for line in answer.lines
    )


def test_tasks_without_ratings_get_a_reason_and_the_paper_leaves_constructs_out(tmp_path):
    question = stored(tmp_path, several(), rated=False)
    answer, _ = answered(question)
    assert "no task has ratings" in answer.facts["headline"]
    answer, page = answered(question, "paper")
    assert answer.facts["null"] == []
    assert "definition" not in page


@pytest.mark.parametrize("mode", MODES)
def test_a_study_of_which_nothing_is_finished_gets_a_reason(tmp_path, mode):
    pairs = [(f"task{a}", f"task{b}") for a in range(4) for b in range(4)]
    answer, page = answered(stored(tmp_path, several(4), absent=pairs), mode)
    assert "nothing can be said: " in page.lower()
    assert answer.facts


@pytest.mark.parametrize("mode", MODES)
def test_gains_that_are_all_alike_get_a_reason_or_undefined_numbers(tmp_path, mode):
    own = of_published(tmp_path).results.gains
    flat = own.assign(score=own.baseline, gain=0.0, percent=0.0)
    _, page = answered(question_of(tmp_path, gains=flat), mode)
    assert ("gains differ by nothing but their tasks" if mode == "guarded" else "not defined") in page


def test_the_page_says_what_was_declared_and_how_much_was_trained_before(tmp_path):
    question = stored(tmp_path, several(3))
    _, page = answered(question)
    assert "Not preregistered: no study file declares it" in page
    assert question.primary.key in page
    store, manifest = fake_study(tmp_path / "declared", several(2))
    manifest["study"]["analysis"] = {
        **{"outcome": "ranks", "left_out": "both", "cells": "all", "without_rater": "", "weights": "equal"},
        **{"draws": 99, "margin": 3},
    }
    manifest["declared"] = "2025-01-01T00:00:00+00:00"
    primary = Primary.of(manifest, store)
    assert (primary.specification.outcome, primary.specification.left_out, primary.draws) == ("ranks", "both", 99)
    assert "declared 2025-01-01T00:00:00+00:00; 4 of 4 cells were trained before that" in primary.line()
    assert of_grids({"full": question.results}, tmp_path, primary=primary).margin == 3
    assert of_grids({"full": question.results}, tmp_path, 1.0, primary=primary).margin == 1
    assert primary.key != Primary().key


def test_a_declared_specification_is_the_one_that_is_asked(tmp_path):
    question = stored(tmp_path, several())
    asked = replace(question.primary.specification, outcome="ranks")
    answer, _ = answered(replace(question, primary=Primary(asked, declared="2025-01-01")))
    assert answer.facts["choices"][0]["outcome"] == "ranks"
    assert [row["outcome"] for row in answer.facts["choices"]].count("points") == len(question.results.constructs)
    for place in ("figures/mixed_choices.png", "figures/mixed_choices.csv", "tables/mixed_choices.parquet"):
        assert (question.out / place).stat().st_size > 500
    slopes = (question.out / "figures" / "mixed_choices.svg").read_text(encoding="utf-8")
    assert all(label in slopes for label in ("primary", "outcome points", "without rater B"))


def test_the_papers_way_stands_beside_table_6_with_what_it_is_worth(tmp_path):
    answer, page = answered(of_published(tmp_path), "paper")
    assert "| Definition |" in page
    assert "Table 6" in page
    assert "random placeholder" in page
    assert answer.facts["importances"]["V1"][0]["feature"] == "definition"
    assert {row["variant"] for row in answer.facts["unseen"]} == {"V1", "V3"}
    assert {path.stem for path in (tmp_path / "tables").glob("paper_*.csv")} == {
        f"paper_{name}" for name in ("importances", "fits", "unseen", "null", "table6")
    }
