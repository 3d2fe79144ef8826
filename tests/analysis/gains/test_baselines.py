"""Targets alone: whether they have learned, and gains by second metrics."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr
from sklearn.metrics import accuracy_score, f1_score

from adapters_store.key import key_of
from adapters_store.record import Record
from analysis.gains.baselines import LEARNED, claims, learned, other_gains, other_scores, ratio_draws, with_learning
from analysis.gains.cells import Predictions, cells, is_still_learning
from analysis.gains.gains import SEED, gains
from analysis.gains.significance import Groups, group_weights
from tasks.metrics import MEASURES
from tests.support.studies.fake_study import FakeTask, fake_study

HOPE, ROLE, DISTRESS = FakeTask("hope", rows=240, groups=48), FakeTask("role"), FakeTask("distress", "continuous")
WORDS = ("majority", "tfidf", "tfidf-response")
RESPONSE = {"system": {"tfidf-response": {"kind": "tfidf", "reads": "response"}}}


def study_of(root, tasks=(HOPE, ROLE), *, systems=WORDS, draws=2000, **options):
    """The store and manifest of a made-up study with words, and its frame."""
    store, manifest = fake_study(root, tasks, systems=systems, study=RESPONSE, **options)
    return store, manifest, learned(store, manifest, draws=draws)


def row_of(frame, target="hope", setting="full"):
    (row,) = frame[(frame.target == target) & (frame.setting == setting)].to_dict("records")
    return row


def decisions_of(store, manifest, role, target, system=""):
    """Labels, groups and decisions by seed of the stored predictions, read without the analysis."""
    keys = [
        cell["key"]
        for cell in manifest["cells"]
        if (cell["role"], cell["target"], cell.get("system", "")) == (role, target, system)
    ]
    frames = [pd.read_parquet(store.root / "objects" / key / "test.parquet") for key in keys]
    logits = [frame[[name for name in frame if name.startswith("logit")]].to_numpy() for frame in frames]
    return frames[0].label.to_numpy(), frames[0].group.to_numpy(), [own.argmax(axis=1) for own in logits]


def test_the_columns_are_declared_and_there_is_a_row_for_every_target_and_setting(tmp_path):
    _, _, frame = study_of(tmp_path, (HOPE, ROLE, DISTRESS), settings=("full", "half"), draws=100)
    assert list(frame.columns) == list(LEARNED) and all(column.meaning for column in LEARNED.values())
    assert {*zip(frame.target, frame.setting, strict=True)} == {
        (t, s) for t in ("hope", "role", "distress") for s in ("full", "half")
    }
    assert frame.has_learned.dtype == "boolean" and frame.words.notna().all()


@pytest.mark.parametrize("seeds", [(1,), (1, 2, 3)])
def test_the_one_sided_p_is_that_of_a_plain_bootstrap_of_groups_for_the_mean_of_these_runs(tmp_path, seeds):
    store, manifest, frame = study_of(tmp_path, helpful=[], seeds=seeds, draws=10_000)
    for target in ("hope", "role"):
        labels, groups, alone = decisions_of(store, manifest, "baseline", target)
        _, _, (words, *_) = decisions_of(store, manifest, "system", target, "tfidf")
        score, rng = MEASURES["macro_f1"], np.random.default_rng(1)
        members = [np.flatnonzero(groups == name) for name in np.unique(groups)]

        def difference(rows, labels=labels, alone=alone, words=words, score=score):
            return np.mean([score(labels[rows], run[rows]) for run in alone]) - score(labels[rows], words[rows])

        observed, drawn = difference(np.arange(len(labels))), []
        for _ in range(2000):
            chosen = rng.integers(len(members), size=len(members))
            drawn.append(difference(np.concatenate([members[group] for group in chosen])))
        row = row_of(frame, target)
        assert row["n_seeds"] == len(seeds) and row["difference"] == pytest.approx(100 * observed, abs=0.01)
        centred = np.array(drawn) - np.mean(drawn)
        assert row["p_below"] == pytest.approx(np.mean(centred <= observed), abs=0.03)
        assert (row["high"] - row["low"]) / 2 == pytest.approx(196 * np.std(drawn), rel=0.12)


def test_whether_a_task_has_learned_is_asked_of_targets_alone(tmp_path):
    store, manifest = fake_study(tmp_path, (HOPE, ROLE), systems=WORDS)
    kept = [cell for cell in manifest["cells"] if (cell["role"], cell["target"]) != ("transfer", "role")]
    assert list(learned(store, {**manifest, "cells": kept}, draws=50).target) == ["hope"]
    alone = [cell for cell in kept if cell["role"] != "transfer"]  # a study without transfers has targets, too
    assert list(learned(store, {**manifest, "cells": alone}, draws=50).target) == ["hope", "role"]


def test_a_baseline_far_below_words_has_not_learned_and_one_far_above_has(tmp_path):
    _, _, frame = study_of(tmp_path, helpful=[("tfidf", "hope"), (None, "role")])
    below, above = row_of(frame), row_of(frame, "role")
    assert below["is_below_words"] and below["p_below"] < 0.001 and not below["has_learned"]
    scores = f"{below['alone']:.3f} against {below['words']:.3f}".replace("0.", ".")
    assert below["reason"] == f"below words: {scores}"
    assert above["has_learned"] is True and above["p_below"] > 0.99 and above["reason"] == ""


def test_of_several_words_the_one_better_on_validation_is_taken_and_kinds_count_not_names(tmp_path):
    for better in ("tfidf", "tfidf-response"):
        _, _, frame = study_of(tmp_path / better, validation={(better, "hope"): 0.7}, draws=100)
        assert row_of(frame)["words_system"] == better and row_of(frame, "role")["words_system"] == "tfidf"
    for kind, system in (("tfidf", "own"), ("encoder", "")):
        options = {"systems": ("own",), "study": {"system": {"own": {"kind": kind}}}}
        row = row_of(learned(*fake_study(tmp_path / f"own-{kind}", (HOPE,), **options), draws=100))
        assert row["words_system"] == system
    assert row["whole_encoder"] > 0.5


def test_without_words_nobody_knows_but_of_a_baseline_at_its_floor_or_still_learning(tmp_path):
    tasks, still = (HOPE, ROLE, DISTRESS), {((None, "distress"), 1): 4}
    _, _, frame = study_of(tmp_path, tasks, systems=WORDS[:1], constant=[(None, "role")], best_epoch=still, draws=100)
    assert pd.isna(row_of(frame)["has_learned"]) and row_of(frame)["reason"] == "words were not run"
    assert row_of(frame, "role")["has_learned"] is False and row_of(frame, "role")["reason"] == "at the floor"
    assert row_of(frame, "distress")["has_learned"] is False
    assert row_of(frame, "distress")["reason"] == "best epoch is the last in 1 of 1 seeds"


def test_a_baseline_that_is_not_finished_or_words_of_one_group_are_not_known(tmp_path):
    _, _, frame = study_of(tmp_path / "a", absent=[(None, "hope")], draws=100)
    assert pd.isna(row_of(frame)["has_learned"]) and row_of(frame)["reason"] == "not finished"
    _, _, frame = study_of(tmp_path / "b", (replace(HOPE, groups=1), ROLE), draws=100)
    assert pd.isna(row_of(frame)["has_learned"]) and "could not be tested" in row_of(frame)["reason"]


@pytest.mark.parametrize(("last", "has"), [((), True), ((1,), True), ((1, 2), False), ((1, 2, 3), False)])
def test_a_target_is_still_learning_where_most_of_its_seeds_are_best_at_their_last_epoch(tmp_path, last, has):
    best = {((None, "hope"), seed): 4 for seed in last}
    _, _, frame = study_of(tmp_path, seeds=(1, 2, 3), helpful=[(None, "hope")], best_epoch=best, draws=200)
    row = row_of(frame)
    assert (row["still_learning"], row["n_seeds"], row["has_learned"]) == (len(last), 3, has)
    assert row["reason"] == ("" if has else f"best epoch is the last in {len(last)} of 3 seeds")


def test_every_cell_says_whether_its_best_epoch_is_its_last(tmp_path):
    best = {(("role", "hope"), 1): 4}
    store, manifest, _ = study_of(tmp_path, best_epoch=best, draws=100)
    frame = cells(store, manifest)
    last = frame[frame.is_still_learning.fillna(False).astype(bool)]
    assert [*zip(last.intermediate, last.target, strict=True)] == [("role", "hope")]
    assert frame.is_still_learning.isna().eq(frame.role == "system").all()  # they have no epochs


@pytest.mark.parametrize(
    ("spec", "results", "said"),
    [
        ({"training": {"epochs": 3}}, {"best_epoch": 3}, True),
        ({"training": {"epochs": 3}}, {"best_epoch": 2}, False),
        ({"training": {"epochs": 3}}, {"best_epoch": None}, pd.NA),
        ({"training": {"epochs": 3}}, {"best_epoch": 3, "folds": [{"best_epoch": e} for e in (3, 1, 2)]}, False),
        ({"training": {"epochs": 3}}, {"best_epoch": 1, "folds": [{"best_epoch": e} for e in (1, 3, 3)]}, True),
        ({"system": "encoder", "config": {"epochs": 3, "patience": 2}}, {"best_epoch": 3}, True),
        ({"system": "encoder", "config": {"epochs": 3, "patience": 0}}, {"best_epoch": 3}, pd.NA),
        ({"system": "tfidf", "config": {}}, {"best_epoch": None}, pd.NA),
    ],
)
def test_the_last_epoch_is_that_of_the_schedule_and_of_most_folds(spec, results, said):
    own = is_still_learning(Record(key_of(spec), spec, results, {}, {}))
    assert own is said


def test_gains_are_marked_by_their_target_and_setting(tmp_path):
    store, manifest, frame = study_of(tmp_path, helpful=[("tfidf", "hope"), (None, "role")])
    pairs = gains(store, manifest, draws=100)
    assert pairs.target_has_learned.isna().all()
    said = with_learning(pairs, frame).set_index("target").target_has_learned
    assert said.dtype == "boolean" and said.to_dict() == {"hope": False, "role": True}


def test_a_gain_is_claimed_onto_targets_that_have_learned_alone_and_not_if_collapsed_or_contaminated(tmp_path):
    tasks = (HOPE, ROLE, DISTRESS)
    helpful = [("tfidf", "hope"), (None, "role"), (None, "distress")]
    store, manifest, frame = study_of(tmp_path, tasks, helpful=helpful, draws=500)
    pairs = gains(store, manifest, draws=100)
    own = claims(pairs, frame)
    assert own.is_known and {*own.counted.target} == {"role", "distress"} and own.targets == 2
    assert {*zip(own.others.target, own.others.why, strict=True)} == {("hope", "below words")}
    on_role = pairs.target == "role"
    doubtful = pairs.assign(collapsed=on_role & (pairs.intermediate == "hope"), contaminated=on_role)
    own = claims(doubtful, frame)
    assert {*own.counted.target} == {"distress"}
    assert sorted(own.others.why) == ["below words", "below words", "collapsed", "contaminated"]
    assert len(own.counted) + len(own.others) == pairs.p.notna().sum()


def test_the_simulation_as_it_was_laid_down_keeps_the_size_and_finds_what_is_a_twentieth_below():
    laid_down = pd.read_csv(Path(__file__).resolve().parents[3] / "docs" / "learned_calibration.csv")
    own = laid_down[laid_down["of"] == "these runs"]
    alike, worse = own[own.points == 0], own[own.points == -5]
    assert len(alike) == len(worse) == 24
    error = (0.05 * 0.95 / alike.studies) ** 0.5
    assert (alike.below <= 0.05 + 3 * error).all()
    assert alike.below.mean() <= 0.05 + 2 * (0.05 * 0.95 / alike.studies.sum()) ** 0.5
    assert (worse[worse.rows == 2000].below >= 0.8).all()
    assert (worse[(worse.rows == 1000) & (worse.seeds > 1)].below >= 0.8).all()


# Gains by second metrics: scores against scikit-learn and scipy, draws against resampling by hand.

TASKS = (FakeTask("hope"), FakeTask("distress", "continuous"), FakeTask("felt", "multilabel"))


def stored(study, intermediate, target, seed=1):
    store, manifest = study
    wanted = (intermediate, target, seed)
    key = next(c["key"] for c in manifest["cells"] if (c["intermediate"], c["target"], c["seed"]) == wanted)
    frame = pd.read_parquet(store.open(key, "test.parquet"))
    return (frame.filter(like=name).to_numpy() for name in ("label", "logit_"))


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return fake_study(tmp_path_factory.mktemp("runs"), TASKS, helpful=[("distress", "hope"), ("hope", "felt")])


def test_scores_are_those_of_the_libraries(study):
    found = other_gains(*study, draws=200, seed=SEED).set_index(["intermediate", "target"])
    for below, column in (("distress", "score"), (None, "baseline")):
        labels, logits = stored(study, below, "hope")
        by_hand = accuracy_score(labels[:, 0], logits.argmax(axis=1))
        assert found.loc[("distress", "hope"), column] == pytest.approx(by_hand)
    labels, logits = stored(study, "hope", "felt")
    assert found.score["hope", "felt"] == pytest.approx(f1_score(labels, logits > 0, average="micro"))
    labels, logits = stored(study, "hope", "distress")
    assert found.score["hope", "distress"] == pytest.approx(spearmanr(labels[:, 0], logits[:, 0]).statistic)
    assert found.points["distress", "hope"] == pytest.approx(
        100 * (found.score["distress", "hope"] - found.baseline["distress", "hope"])
    )
    assert found.metric.to_dict()["hope", "felt"] == "micro-F1"


def test_rows_stand_in_the_order_of_gains_and_an_unfinished_pair_has_no_score(tmp_path):
    study = fake_study(tmp_path, TASKS[:2], absent=[("hope", "distress")])
    first, second = gains(*study, draws=100), other_gains(*study, draws=100, seed=SEED)
    pair = ["intermediate", "target", "setting"]
    pd.testing.assert_frame_equal(first[pair], second[pair])
    assert second[second.target == "distress"][["score", "p"]].isna().all(axis=None)


def test_draws_of_a_ratio_are_those_of_whole_groups_taken_again_and_again():
    rng = np.random.default_rng(5)
    names = np.array([f"g{one}" for one in rng.integers(6, size=40)])
    tops, bottoms = rng.integers(0, 3, size=(2, 40)).astype(float), rng.integers(1, 4, size=(2, 40)).astype(float)
    groups = Groups.of(names)
    found = ratio_draws(tops, bottoms, groups, 300, np.random.default_rng(1))
    weights = np.concatenate(list(group_weights(groups, 300, np.random.default_rng(1))))
    for draw, times in zip(found, weights, strict=True):
        rows = np.concatenate([np.repeat(np.flatnonzero(groups.index == one), n) for one, n in enumerate(times)])
        by_hand = tops[:, rows].sum(axis=1) / bottoms[:, rows].sum(axis=1)
        assert draw == pytest.approx(by_hand)


def test_a_draw_without_anything_to_count_has_no_value():
    groups = Groups.of(["a", "b"])
    found = ratio_draws(np.array([[0.0, 1.0]]), np.array([[0.0, 2.0]]), groups, 50, np.random.default_rng(0))
    assert set(found[np.isfinite(found)]) == {0.5}
    assert np.isnan(found).any()


def test_ranks_that_do_not_vary_have_no_correlation():
    shown = Predictions(np.arange(4), np.array(list("aabb")), np.array([0.1, 0.4, 0.2, 0.9]), np.zeros(4))
    decided = np.array([[1.0, 1.0, 1.0, 1.0], [0.0, 3.0, 1.0, 2.0]])
    scores, draws = other_scores("pearson_r", shown, decided, Groups.of(shown.groups), 20, np.random.default_rng(0))
    assert np.isnan(scores[0]) and np.isnan(draws[:, 0]).all()
    assert scores[1] == pytest.approx(spearmanr(shown.labels, decided[1]).statistic)
