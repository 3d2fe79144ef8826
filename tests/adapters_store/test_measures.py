"""Names and inputs of stored measures: old stores are read by them, so their keys are pinned."""

import pytest

from adapters_store import measures
from adapters_store.key import key_of
from adapters_store.measures import NEAR_DUPLICATES, baseline_keys, contamination_inputs, encoders, splits_hashes
from tasks.splits.contamination import SHORTEST, THRESHOLD

FACTS = {"dataset": "d", "family": "f", "splits_hash": "h"}
PINNED = [
    (measures.CONTAMINATION, contamination_inputs({"a": FACTS}), "a9543e4c8194"),
    (measures.STATISTICS, measures.statistics_inputs("a", "h", ("no", "yes")), "473b14221dd9"),
    (measures.DATA_EMBEDDING, measures.data_embedding_inputs("h", "backbone", "/models/roberta/"), "c5e9ec032de9"),
    (measures.TASK_EMBEDDING, measures.task_embedding_inputs("k", "vu"), "680c47aae5c5"),
    (measures.VOCABULARY, measures.vocabulary_inputs("h", "g"), "a29f75bb0ae9"),
    (measures.WEIGHTS, measures.weights_inputs("k", "j"), "642b40b293f1"),
    (measures.LOGME, measures.logme_inputs("k", "j"), "1048e4fc1393"),
]


@pytest.mark.parametrize(("kind", "inputs", "start"), PINNED, ids=[kind for kind, *_ in PINNED])
def test_the_key_of_a_measure_is_pinned(kind, inputs, start):
    assert key_of({"kind": kind, "inputs": inputs}).startswith(start)


def test_what_contamination_depends_on_is_in_its_inputs():
    changed = [contamination_inputs({"t": FACTS, "u": {**FACTS, name: "other"}}) for name in FACTS]
    assert len({str(inputs) for inputs in (*changed, contamination_inputs({"t": FACTS, "v": FACTS}))}) == 4


def test_the_inputs_name_the_thresholds_that_near_duplicates_are_found_by():
    assert (NEAR_DUPLICATES["threshold"], NEAR_DUPLICATES["shortest"]) == (THRESHOLD, SHORTEST)


def test_a_distance_of_weights_is_the_same_in_either_order_and_an_overlap_of_words_is_not():
    assert measures.weights_inputs("k", "j") == measures.weights_inputs("j", "k")
    assert measures.vocabulary_inputs("h", "g") != measures.vocabulary_inputs("g", "h")


def test_a_studys_own_encoder_comes_first_and_none_comes_twice():
    assert encoders("minilm") == ("minilm", "all-mpnet-base-v2", "backbone")
    assert encoders("random-tiny")[0] == "backbone"
    assert encoders("roberta-base") == ("all-mpnet-base-v2", "minilm", "backbone")


def test_baselines_are_those_with_all_data_and_the_first_seed_of_a_manifest_old_or_new():
    base = {"target": "a", "intermediate": None, "setting": "full", "seed": 1}
    cells = [
        {**base, "key": "first"},
        {**base, "key": "other seed", "seed": 2},
        {**base, "key": "less data", "setting": "half"},
        {**base, "key": "transfer", "intermediate": "b"},
        {**base, "key": "reference", "role": "finetuned"},
        {**base, "key": "of b", "target": "b", "role": "baseline"},
    ]
    assert baseline_keys({"study": {"seeds": [1, 2]}, "cells": cells}) == {"a": "first", "b": "of b"}


def test_a_task_of_an_old_manifest_without_a_hash_is_left_out():
    assert splits_hashes({"tasks": {"a": {"splits_hash": "h"}, "b": {}}}) == {"a": "h"}
