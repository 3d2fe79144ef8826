"""How alike tasks are, read from stored measures: cosines, fused ranks, and what was not measured."""

import numpy as np
import pytest
from scipy.stats import rankdata

from adapters_store.measures import (
    DATA_EMBEDDING,
    LOGME,
    MINILM,
    POOLED,
    SAMPLED,
    TASK_EMBEDDING,
    VOCABULARY,
    WEIGHTS,
    baseline_keys,
    data_embedding_inputs,
    logme_inputs,
    task_embedding_inputs,
    vocabulary_inputs,
    weights_inputs,
)
from analysis.importance.grid import pair_features
from analysis.results.results import Results
from analysis.results.similarity import (
    SIMILARITIES,
    _fused_ranks,
    cosine,
    data_embeddings,
    reciprocal_rank_fusion,
    stored_similarities,
)
from tests.support.studies.fake_study import FakeTask, fake_study

TASKS = (FakeTask("hope"), FakeTask("role"), FakeTask("distress", "continuous"))
VECTORS = {"hope": [1.0, 0.0], "role": [1.0, 1.0], "distress": [0.0, 2.0]}


@pytest.fixture
def study(tmp_path):
    """A finished study whose tasks have hashes of their splits."""
    store, manifest = fake_study(tmp_path / "store", TASKS)
    for name, task in manifest["tasks"].items():
        task["splits_hash"] = name
    return store, manifest


def put_vectors(store, vectors, encoder=POOLED):
    for name, vector in vectors.items():
        store.put_measure(DATA_EMBEDDING, data_embedding_inputs(name, encoder, "random-tiny"), {"vector": vector}, 1)


def test_fused_ranks_are_those_counted_by_hand():
    lists = np.array([[0.9, 0.5, 0.1], [0.2, 0.2, 0.8]])  # ranks 1, 2, 3 and 2.5, 2.5, 1
    expected = [1 / 61 + 1 / 62.5, 1 / 62 + 1 / 62.5, 1 / 63 + 1 / 61]
    assert reciprocal_rank_fusion(lists) == pytest.approx(expected)
    assert reciprocal_rank_fusion(lists, k=0)[2] == pytest.approx(1 / 3 + 1)


def test_an_undefined_similarity_is_no_rank_and_takes_none_from_others_nor_in_other_lists():
    of_both = reciprocal_rank_fusion(np.array([[np.nan, 0.1, 0.2], [np.nan, 0.5, 0.4]]))
    assert of_both == pytest.approx([np.nan, 1 / 62 + 1 / 61, 1 / 61 + 1 / 62], nan_ok=True)
    of_one = reciprocal_rank_fusion(np.array([[np.nan, 0.1, 0.2], [0.9, 0.5, 0.4]]))
    assert of_one == pytest.approx([1 / 61, 1 / 62 + 1 / 62, 1 / 61 + 1 / 63])


def test_ranks_are_scipy_s_with_equal_and_with_nearly_equal_values():
    rng = np.random.default_rng(0)
    for row in (*rng.integers(0, 4, (20, 12)).astype(float), *rng.normal(size=(5, 12)), np.array([0.5, 0.5 + 1e-15])):
        row[rng.random(len(row)) < 0.2] = np.nan
        expected = np.nan_to_num(1 / (60 + rankdata(-row, nan_policy="omit")))
        np.testing.assert_array_equal(np.nan_to_num(reciprocal_rank_fusion(row)), expected)


def test_the_cosine_of_a_vector_with_itself_is_one_and_symmetric():
    one, other = np.random.default_rng(0).normal(size=(2, 40))
    assert cosine(one, one) == pytest.approx(1.0)
    assert cosine(one, other) == cosine(other, one)
    assert np.isnan(cosine(one, np.zeros(40)))


def test_a_study_without_measures_has_every_pair_and_no_number(study):
    frame = stored_similarities(*study)
    assert list(frame.columns) == list(SIMILARITIES)
    assert len(frame) == 6
    assert frame.drop(columns=["intermediate", "target"]).isna().all(axis=None)


def test_data_similarities_are_cosines_and_reach_the_features_of_pairs(study):
    store, manifest = study
    put_vectors(store, VECTORS)
    similarities = stored_similarities(store, manifest)
    found = similarities.set_index(["intermediate", "target"]).data_similarity
    assert found["hope", "role"] == found["role", "hope"] == pytest.approx(np.sqrt(0.5))
    assert found["hope", "distress"] == 0
    features = pair_features(Results.of(store, manifest), similarities=similarities)
    assert features.data_similarity.notna().all()


def test_vectors_of_two_encoders_are_never_compared(study):
    store, manifest = study
    put_vectors(store, {"hope": [1.0, 0.0]})
    put_vectors(store, {name: VECTORS[name] for name in ("role", "distress")}, MINILM)
    assert set(data_embeddings(store, manifest)) == {"role", "distress"}


def test_task_similarities_rank_by_component_and_are_not_symmetric(study):
    store, manifest = study
    first = {"hope": [1.0, 0.0], "role": [1.0, 0.1], "distress": [0.0, 1.0]}
    second = {"hope": [0.0, 1.0], "role": [1.0, 0.4], "distress": [1.0, 0.5]}
    for name, key in baseline_keys(manifest).items():
        components = {"a": first[name], "b": second[name]}
        store.put_measure(TASK_EMBEDDING, task_embedding_inputs(key, SAMPLED), {"components": components}, 1)
    found = stored_similarities(store, manifest).set_index(["intermediate", "target"])
    assert found.task_similarity["role", "hope"] == pytest.approx(1 / 61 + 1 / 62)  # nearer in a, farther in b
    assert found.task_similarity["hope", "role"] == pytest.approx(1 / 61 + 1 / 62)
    assert found.task_similarity["hope", "distress"] == pytest.approx(1 / 62 + 1 / 62)
    assert found.task_similarity["distress", "hope"] == pytest.approx(1 / 62 + 1 / 61)
    assert found.task_similarity_vu.isna().all()


def test_measures_of_pairs_stand_in_their_direction(study):
    store, manifest = study
    keys = baseline_keys(manifest)
    store.put_measure(VOCABULARY, vocabulary_inputs("hope", "role"), {"jaccard": 0.2, "share": 0.7}, 1)
    store.put_measure(WEIGHTS, weights_inputs(keys["role"], keys["hope"]), {"cosine": 0.1, "subspace": 0.3}, 1)
    store.put_measure(LOGME, logme_inputs(keys["role"], keys["hope"]), {"logme": None}, 1)
    found = stored_similarities(store, manifest).set_index(["intermediate", "target"])
    assert found.vocabulary_share.dropna().to_dict() == {("hope", "role"): 0.7}
    assert found.weight_similarity.dropna().to_dict() == {("role", "hope"): 0.1, ("hope", "role"): 0.1}
    assert found.logme.isna().all()


def test_only_full_baselines_of_the_first_seed_are_compared(tmp_path):
    _, manifest = fake_study(tmp_path / "store", TASKS, seeds=(3, 4), settings=("half", "full"), controls=("self",))
    keys = baseline_keys(manifest)
    cells = {cell["key"]: cell for cell in manifest["cells"]}
    assert set(keys) == {task.id for task in TASKS}
    assert {(cells[key]["seed"], cells[key]["setting"], cells[key]["role"]) for key in keys.values()} == {
        (3, "full", "baseline")
    }


def test_components_that_one_adapter_lacks_rank_the_others():
    embeddings = {
        "a": {"x": [1.0, 0.0], "y": [1.0, 0.0]},
        "b": {"x": [1.0, 0.1]},
        "c": {"x": [0.0, 1.0], "y": [1.0, 1.0]},
    }
    ranks = _fused_ranks(embeddings)
    assert ranks["b", "a"] == pytest.approx(1 / 61) and ranks["c", "a"] == pytest.approx(1 / 62 + 1 / 61)
