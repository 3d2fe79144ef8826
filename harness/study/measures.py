"""What is measured of a study's rows before anything is trained: contamination and statistics, kept in the store.

Each is computed once for every content of the splits, and read from the store from then on.
"""

import math
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from adapters_store import Store
from adapters_store.measures import (
    ANNOTATORS,
    CONTAMINATION,
    STATISTICS,
    WORDS,
    annotators_inputs,
    contamination_inputs,
    statistics_inputs,
    words_inputs,
)
from harness.study.systems import Fit, kind_of
from tasks.metrics import score
from tasks.quality import statistics
from tasks.splits.contamination import Contact, Texts, contacts, texts_of
from tasks.splits.loading import Splits, marks_hash

MOST_ROWS = 10_000  # that words are fitted on; a task of 66,000 rows and 32 classes would take minutes


def contacts_of(splits: Mapping[str, Splits], store: Store, texts: Texts | None = None) -> list[Contact]:
    """A Contact for every ordered pair of tasks, each with itself too: from the store, or computed and kept there.

    ``texts`` are those of the splits, if they were compared before.
    """
    inputs = contamination_inputs({name: facts_of(task_splits) for name, task_splits in splits.items()})

    def computed() -> dict[str, Any]:
        compared = texts or texts_of(splits.values())
        pairs = contacts(splits, [(target, other) for target in splits for other in splits], compared)
        left_out = {"left_out": compared.left_out._asdict()} if any(compared.left_out) else {}
        return {"fields": list(Contact._fields), "contacts": [list(contact) for contact in pairs], **left_out}

    return [Contact(*row) for row in _result_of(store, CONTAMINATION, inputs, computed)["contacts"]]


def _result_of(
    store: Store, kind: str, inputs: Mapping[str, Any], compute: Callable[[], Mapping[str, Any]]
) -> Mapping[str, Any]:
    """The result of a measure: from the store, or computed and kept there."""
    if kept := store.find_measure(kind, inputs):
        return kept.result
    started = time.perf_counter()
    result = compute()
    store.put_measure(kind, inputs, result, time.perf_counter() - started)
    return result


def facts_of(splits: Splits) -> dict[str, Any]:
    """What of a task its stored contacts depend on."""
    dataset = splits.task.dataset
    return {"dataset": dataset.id, "family": dataset.family, "splits_hash": splits.content_hash}


def keep_measures(splits: Mapping[str, Splits], store: Store) -> None:
    """Keep the statistics of every task, and what its annotators answered."""
    statistics_of(splits, store)
    # keep what every annotator answered to the test rows of each task, where rows have it: ids and numbers alone. Of
    # a private task as of others: the ids are those that its records hold
    for name, task_splits in splits.items():
        if not (marks := marks_hash(task_splits)):
            continue
        inputs = annotators_inputs(name, task_splits.content_hash, marks)
        if not store.find_measure(ANNOTATORS, inputs):
            rows = {row.id: list(row.marks) for row in task_splits.test if row.marks}
            store.put_measure(ANNOTATORS, inputs, {"ids": list(rows), "marks": list(rows.values())}, 0.0)


def words_of(splits: Splits, store: Store) -> float:
    """The test score of a linear model of words (the floor ``tfidf`` of every study) on at most 10,000 training rows.

    From the store, or fitted and kept there: seconds. Of more rows, evenly spaced ones are read. Of a task in folds it
    is their mean; not a number where the score is undefined.
    """
    task, kind = splits.task, kind_of("tfidf")
    inputs = words_inputs(task.id, splits.content_hash, task.metric, kind.version)

    def computed() -> dict[str, float | None]:
        scores = []
        for fold in splits.folds or (splits,):
            train = fold.train[:: -(-len(fold.train) // MOST_ROWS)]
            fit = Fit(train, fold.validation, task.label, task.metric, 0, kind.configured({}, task.id), Path())
            logits = kind.fit(fit).predict(fold.test).logits
            scores.append(score(task.metric, [row.label for row in fold.test], logits))
        mean = float(np.mean(scores))
        return {"score": None if math.isnan(mean) else mean}

    kept = _result_of(store, WORDS, inputs, computed)["score"]
    return math.nan if kept is None else float(kept)


def statistics_of(splits: Mapping[str, Splits], store: Store) -> dict[str, dict[str, Any]]:
    """``statistics`` of every task, from the store, or counted and kept there."""
    counts = {}
    for name, task_splits in splits.items():
        label = task_splits.task.label
        inputs = statistics_inputs(name, task_splits.content_hash, label.names or label.classes)
        counts[name] = dict(_result_of(store, STATISTICS, inputs, partial(statistics, task_splits)))
    return counts
