"""How alike tasks are, from the measures that ``empathy-transfer study similarities`` keeps in the store."""

from collections.abc import Mapping, Sequence
from itertools import permutations

import numpy as np
import pandas as pd

from adapters_store.measures import (
    DATA_EMBEDDING,
    LOGME,
    SAMPLED,
    TASK_EMBEDDING,
    VOCABULARY,
    VU,
    WEIGHTS,
    baseline_keys,
    data_embedding_inputs,
    encoders,
    logme_inputs,
    splits_hashes,
    task_embedding_inputs,
    vocabulary_inputs,
    weights_inputs,
)
from adapters_store.store import Store
from analysis.gains.cells import Manifest
from analysis.tables import Declared, framed

K = 60  # of reciprocal rank fusion: Cormack et al. 2009
PAIR = ("intermediate", "target")
SIMILARITIES = {
    "intermediate": Declared("str", "task whose adapter would be below"),
    "target": Declared("str", "task that would be trained and tested"),
    "data_similarity": Declared("float64", "cosine of the data sets' mean sentence embeddings"),
    "task_similarity": Declared("float64", "cosines of the adapters' Fisher information by component, ranks fused"),
    "task_similarity_vu": Declared("float64", "the same with gold labels and squared gradients of whole batches"),
    "logme": Declared("float64", "log evidence per row of the target's labels on the intermediate's features"),
    "vocabulary_jaccard": Declared("float64", "distinct words of both tasks over those of either"),
    "vocabulary_share": Declared("float64", "share of the target's running words that the intermediate has"),
    "weight_similarity": Declared("float64", "cosine of the adapters' linear maps, mean over layers"),
    "subspace_similarity": Declared("float64", "overlap of the adapters' input and output spaces, mean over layers"),
}
HEURISTICS = tuple(name for name in SIMILARITIES if name not in PAIR)


def stored_similarities(store: Store, manifest: Manifest) -> pd.DataFrame:
    """One row per ordered pair of different tasks of a study, with the columns ``SIMILARITIES``.

    What is not in the store is undefined. Fused ranks are sums over components of 1 / (60 + rank of the intermediate
    among all whose adapter was measured), so they compare intermediates of one target and are not symmetric.
    """
    tasks = list(manifest["tasks"])
    vectors = data_embeddings(store, manifest)
    by_column = {
        "data_similarity": {
            (a, b): cosine(vector, other) for a, vector in vectors.items() for b, other in vectors.items() if a != b
        },
        "task_similarity": _fused_ranks(_task_embeddings(store, manifest, SAMPLED)),
        "task_similarity_vu": _fused_ranks(_task_embeddings(store, manifest, VU)),
        **_of_pairs(store, manifest),
    }
    pairs = [(intermediate, target) for target in tasks for intermediate in tasks if intermediate != target]
    frame = pd.DataFrame(pairs, columns=list(PAIR))
    for name, values in by_column.items():
        frame[name] = [values.get(pair, np.nan) for pair in pairs]
    return framed(frame, SIMILARITIES)


def reciprocal_rank_fusion(similarities: np.ndarray, *, k: int = K) -> np.ndarray:
    """Scores [candidates] from similarities [lists, candidates]: the sum over lists of 1 / (k + rank).

    Rank 1 is the most similar; equal ones share the mean of their ranks; an undefined one is not in that list. First in
    one list and third in another makes 1 / 61 + 1 / 63 (Cormack et al. 2009; over the components of task embeddings as
    in the study's section 5.1, after Vu et al. 2020).
    """
    ranks = np.array([_ranks(-row) for row in np.atleast_2d(np.asarray(similarities, dtype="float64"))])
    scores: np.ndarray = np.nansum(1 / (k + ranks), axis=0)
    return np.where(np.isfinite(ranks).any(axis=0), scores, np.nan)


def _ranks(values: np.ndarray) -> np.ndarray:
    """Ranks from 1 of the smallest; equal values share the mean of theirs, undefined ones have none."""
    # As ``scipy.stats.rankdata``, whose import takes a second of every report. That of pandas makes values equal that
    # differ by less than 1e-13, and so other ranks.
    ordered = np.sort(values[~np.isnan(values)])
    before, until = (np.searchsorted(ordered, values, side) for side in ("left", "right"))
    return np.where(np.isnan(values), np.nan, (before + until + 1) / 2)


def cosine(vector: Sequence[float], other: Sequence[float]) -> float:
    """Cosine of two vectors; undefined where one of them is 0."""
    first, second = np.asarray(vector, dtype="float64"), np.asarray(other, dtype="float64")
    lengths = np.linalg.norm(first) * np.linalg.norm(second)
    return float(first @ second / lengths) if lengths > 0 else float("nan")


def data_embeddings(store: Store, manifest: Manifest) -> dict[str, list[float]]:
    """The mean sentence embedding of every task that has one, all by the encoder that embedded most of them."""
    backbone = manifest["study"]["backbone"]
    by_encoder: list[dict[str, list[float]]] = []
    for encoder in encoders(backbone):
        inputs = {
            name: data_embedding_inputs(splits_hash, encoder, backbone)
            for name, splits_hash in splits_hashes(manifest).items()
        }
        stored = {name: store.find_measure(DATA_EMBEDDING, task_inputs) for name, task_inputs in inputs.items()}
        by_encoder.append({name: measure.result["vector"] for name, measure in stored.items() if measure})
    return max(by_encoder, key=len)


def _task_embeddings(store: Store, manifest: Manifest, mode: str) -> dict[str, dict[str, list[float]]]:
    """Components by name, of every task whose baseline was measured."""
    inputs = {name: task_embedding_inputs(key, mode) for name, key in baseline_keys(manifest).items()}
    stored = {name: store.find_measure(TASK_EMBEDDING, of_task) for name, of_task in inputs.items()}
    return {name: measure.result["components"] for name, measure in stored.items() if measure}


def _fused_ranks(embeddings: Mapping[str, Mapping[str, Sequence[float]]]) -> dict[tuple[str, str], float]:
    """Fused ranks by (intermediate, target): every component ranks the other tasks by their cosine to the target."""
    scores: dict[tuple[str, str], float] = {}
    for target, vectors in embeddings.items():
        others = [name for name in embeddings if name != target]
        if not others:
            continue
        lists = [
            [
                cosine(embeddings[task][name], vectors[name]) if name in embeddings[task] else float("nan")
                for task in others
            ]
            for name in vectors
        ]
        fused = reciprocal_rank_fusion(np.array(lists))
        scores |= {(task, target): float(score) for task, score in zip(others, fused, strict=True)}
    return scores


def _of_pairs(store: Store, manifest: Manifest) -> dict[str, dict[tuple[str, str], float]]:
    """The columns whose measures are stored by pair, each by (intermediate, target)."""
    hashes, keys = splits_hashes(manifest), baseline_keys(manifest)
    kinds = (
        (VOCABULARY, vocabulary_inputs, hashes, {"vocabulary_jaccard": "jaccard", "vocabulary_share": "share"}),
        (WEIGHTS, weights_inputs, keys, {"weight_similarity": "cosine", "subspace_similarity": "subspace"}),
        (LOGME, logme_inputs, keys, {"logme": "logme"}),
    )
    by_column: dict[str, dict[tuple[str, str], float]] = {column: {} for *_, fields in kinds for column in fields}
    for kind, inputs, contents, fields in kinds:
        for pair in permutations(contents, 2):
            if measure := store.find_measure(kind, inputs(*(contents[task] for task in pair))):
                for column, field in fields.items():
                    value = measure.result[field]
                    by_column[column][pair] = float("nan") if value is None else value
    return by_column
