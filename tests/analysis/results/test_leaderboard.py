"""The leaderboard: every contestant once, its numbers against scikit-learn, and what pairs' tests may say."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.metrics import accuracy_score, precision_recall_fscore_support

from adapters_store import Store, key_of
from adapters_store.record import LEAKING
from analysis.gains.cells import MixedRecords, planned_cells, predictions
from analysis.results import leaderboard as leaderboards
from analysis.results.leaderboard import SCORES, leaderboard, parameters, picked_transfer
from tasks.metrics import accuracy, macro_f1, of_classes
from tests.support.studies.fake_study import FakeTask, fake_study

TASKS = [FakeTask("hope"), FakeTask("fear", kind="continuous"), FakeTask("needs", kind="multilabel")]


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return fake_study(
        tmp_path_factory.mktemp("board") / "runs",
        TASKS,
        seeds=(1, 2),
        systems=("words", "floor", "twin"),
        references=("finetuned",),
        helpful=[("words", task.id) for task in TASKS],
        constant=[("floor", task.id) for task in TASKS],
    )


@pytest.fixture(scope="module")
def board(study):
    return leaderboard(*study, draws=400)


def test_every_contestant_has_one_row_per_task_and_setting(board):
    for _, rows in board.board.groupby(["target", "setting"]):
        names = set(rows.system)
        assert len(rows) == 6
        assert {"adapter alone", "whole model", "words", "floor", "twin"} < names
        assert sum(name.startswith("adapter on ") for name in names) == 1
    assert len(board.pairs) == 3 * 15


def test_scores_are_means_over_seeds_of_scikit_learn_s(study, board):
    store, manifest = study
    planned = planned_cells(store, manifest)
    keys = planned.key[(planned.system == "words") & (planned.target == "hope")]
    expected = []
    for key in keys:
        shown = predictions(store, store.get(key))
        macro, weighted = (
            precision_recall_fscore_support(shown.labels, shown.decisions, average=average)[:3]
            for average in ("macro", "weighted")
        )
        expected.append([accuracy_score(shown.labels, shown.decisions), *macro, *weighted])
    row = board.board[(board.board.system == "words") & (board.board.target == "hope")].iloc[0]
    columns = ["accuracy", *(f"{average}_{name}" for average in ("macro", "weighted") for name in SCORES)]
    np.testing.assert_allclose(row[columns].astype(float), np.mean(expected, axis=0))
    assert row.score == pytest.approx(row.macro_f1)
    assert row.weighted_recall == pytest.approx(row.accuracy)
    assert abs(row.weighted_f1 - row.macro_f1) > 1e-6
    assert row.low <= row.score <= row.high
    assert (row["rank"], row.n_seeds, row.is_tied) == (1, 2, True)
    own = board.classes[(board.classes.system == "words") & (board.classes.target == "hope")]
    assert own["class"].tolist() == ["low", "middle", "high"]
    assert own.f1.mean() == pytest.approx(row.macro_f1)


def test_a_number_has_no_classes_and_an_undefined_score_no_rank(board):
    fear = board.board[board.board.target == "fear"].set_index("system")
    assert fear.accuracy.isna().all()
    assert fear.loc["floor", ["rank", "is_tied"]].isna().all()
    assert np.isnan(fear.loc["floor", "score"])
    assert fear.index[-1] == "floor"
    assert fear["rank"].dropna().tolist() == sorted(fear["rank"].dropna())


def test_ties_are_what_pairs_with_the_best_say(board):
    for target, rows in board.board.groupby("target"):
        best = rows.system[rows["rank"] == 1].iloc[0]
        pairs = board.pairs[board.pairs.target == target]
        for row in rows.itertuples():
            own = pairs[[{a, b} == {row.system, best} for a, b in zip(pairs.a, pairs.b, strict=True)]]
            if row.system != best and len(own) and own.p.notna().all():
                assert bool(row.is_tied) is not bool(own.significant.iloc[0])


def test_what_leaks_has_differences_but_no_rank_and_changes_nothing_of_the_others(study, monkeypatch):
    planned = leaderboards.planned_cells

    def flagged(*study):
        frame = planned(*study)
        return frame.assign(flags=frame["flags"].where(frame.system != "words", LEAKING))

    monkeypatch.setattr(leaderboards, "planned_cells", flagged)
    with_leak = leaderboard(*study, draws=400)
    monkeypatch.setattr(leaderboards, "planned_cells", lambda *study: planned(*study).query("system != 'words'"))
    without = leaderboard(*study, draws=400)
    own = with_leak.board[with_leak.board.system == "words"]
    assert own.is_leaking.all() and own["rank"].isna().all() and own.is_tied.isna().all()
    for frame in (with_leak.calibration, with_leak.reliability):  # who was told the answers has no probability
        assert "twin" in set(frame.system) and "words" not in set(frame.system)
    honest = with_leak.board[with_leak.board.system != "words"].reset_index(drop=True)
    names = ["target", "system", "rank", "score", "is_tied"]
    pd.testing.assert_frame_equal(honest[names], without.board[names])
    is_of_leak = (with_leak.pairs.a == "words") | (with_leak.pairs.b == "words")
    assert with_leak.pairs.points[is_of_leak].notna().any() and with_leak.pairs.p_max[is_of_leak].isna().all()
    pairs = with_leak.pairs[~is_of_leak].reset_index(drop=True)
    pd.testing.assert_frame_equal(pairs, without.pairs)


def test_the_maximum_over_pairs_never_lowers_a_p_and_keeps_their_order(board):
    for _, pairs in board.pairs[board.pairs.p.notna()].groupby("target"):
        assert (pairs.p_max >= pairs.p - 0.02).all()  # both count draws, the one of a single pair and of all
        assert ((pairs.low <= pairs.points) & (pairs.points <= pairs.high)).all()
        assert (pairs.significant == (pairs.p_max <= 0.05)).all()


def test_who_has_more_seeds_is_compared_by_all_of_them_and_from_either_side(tmp_path):
    study = fake_study(
        tmp_path, TASKS[:2], seeds=(1, 2), baseline_seeds=(1, 2, 3, 4), systems=("words",), helpful=[("words", "hope")]
    )
    board = leaderboard(*study, draws=2000)
    scores = board.board.set_index(["target", "system"]).score
    own = board.pairs[board.pairs.target == "hope"]
    sides = {(pair.a, pair.b): pair for pair in own.itertuples()}
    assert ("adapter alone", "words") in sides and len(sides) == 3
    for (a, b), pair in sides.items():
        assert pair.points == pytest.approx(100 * (scores["hope", a] - scores["hope", b]))
        assert pair.low < pair.points < pair.high
        assert pair.points - pair.low == pytest.approx(pair.high - pair.points)
    assert sides["adapter alone", "words"].points < 0  # of four seeds less two


def test_a_run_that_no_seed_would_change_is_tested_as_if_every_seed_had_it(study, board):
    store, manifest = study
    cells = [cell for cell in manifest["cells"] if (cell.get("system"), cell["seed"]) != ("floor", 2)]
    once = leaderboard(store, {**manifest, "cells": cells}, draws=400)
    assert set(once.board.n_seeds[once.board.system == "floor"]) == {1}
    wide, as_wide = ((pairs.high - pairs.low).to_numpy() for pairs in (once.pairs, board.pairs))
    np.testing.assert_allclose(wide, as_wide, rtol=0.2)  # what is drawn is drawn from the other side
    np.testing.assert_allclose(once.pairs.points, board.pairs.points)


def test_seconds_and_numbers_beside_scores_are_of_one_training(study, board):
    store, manifest = study
    planned = planned_cells(store, manifest)
    keys = planned.key[(planned.system == "words") & (planned.target == "hope")]
    seconds = [store.get(key).provenance["wall_seconds"] for key in keys]
    row = board.board[(board.board.system == "words") & (board.board.target == "hope")].iloc[0]
    assert len(seconds) == 2 and row.seconds == pytest.approx(np.mean(seconds))


def test_the_transfer_is_picked_by_validation_and_never_by_the_test():
    frame = pd.DataFrame(
        {"intermediate": list("aabbc"), "validation": [0.5, 0.5, 0.6, 0.5, 0.9], "score": [0.9, 0.9, 0.1, 0.1, 0.1]}
    )
    assert picked_transfer(frame) == "b"  # c has fewer seeds
    assert picked_transfer(frame[:0]) is None


def test_two_versions_of_one_system_do_not_compare(tmp_path, monkeypatch):
    store, manifest = fake_study(tmp_path / "runs", TASKS[:1], seeds=(1, 2), systems=("words",))
    second = next(cell["key"] for cell in manifest["cells"] if cell.get("system") and cell["seed"] == 2)
    get = Store.get

    def changed(self, key):
        record = get(self, key)
        if key == second:
            record.spec["version"] = 2  # in memory: a record on the disk has the key of its spec
        return record

    monkeypatch.setattr(Store, "get", changed)
    with pytest.raises(MixedRecords, match="training versions 1 and 2 cannot be compared"):
        leaderboard(store, manifest, draws=50)


def test_parameters_are_counted_from_headers(tmp_path, study):
    from safetensors.numpy import save_file

    store = Store(tmp_path / "runs")
    with store.staging() as folder:
        (folder / "model").mkdir()
        save_file({"a": np.zeros((3, 4)), "b": np.zeros(5)}, folder / "model" / "x.safetensors")
        record = store.put(key_of(spec := {"role": "system"}), spec, {}, {}, folder)
    assert parameters(store, record) == 17
    assert parameters(study[0], study[0].get(study[1]["cells"][0]["key"])) is None


answers = arrays(np.int64, 12, elements=st.integers(0, 3))


@given(answers, answers)
def test_class_scores_are_scikit_learn_s(labels, decided):
    scores, present = of_classes(labels, decided), sorted(set(labels.tolist()))
    expected = precision_recall_fscore_support(labels, decided, labels=present, zero_division=0)
    np.testing.assert_allclose(np.array([scores[index] for index in present]).T, expected)
    assert np.mean([score[2] for score in scores.values()]) == pytest.approx(macro_f1(labels, decided))
    assert accuracy(labels, decided) == pytest.approx(accuracy_score(labels, decided))


@given(arrays(np.int64, (9, 3), elements=st.integers(0, 1)), arrays(np.int64, (9, 3), elements=st.integers(0, 1)))
def test_class_scores_of_several_labels_are_scikit_learn_s(labels, decided):
    scores = of_classes(labels, decided)
    expected = np.array(precision_recall_fscore_support(labels, decided, average=None, zero_division=0))
    for index, score in scores.items():
        np.testing.assert_allclose(score, expected[:, index])
    assert set(scores) == set(np.flatnonzero(labels.sum(axis=0)).tolist())
    assert accuracy(labels, decided) == pytest.approx(accuracy_score(labels, decided))
