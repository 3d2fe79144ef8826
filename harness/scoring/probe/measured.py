"""What trained cells answer to their own test rows with another context, each answer kept in the store.

A probe is a measure named by the record that answers and by the operation. It holds places of rows, decisions and
probabilities, never a text. What the store has is not asked again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray
from scipy.special import expit, softmax

from adapters_store import MissingRecord, Store, StoreError
from adapters_store.measures import (
    OTHER_TASK,
    PROBE,
    PROBE_SEED,
    PROBES,
    UNCHANGED,
    donors_of,
    probe_inputs,
)
from harness.scoring import scorer_of
from harness.scoring.probe.operations import OPERATIONS, Context, Material
from harness.study.cell import later_turns
from tasks import metrics
from tasks.errors import BadInput
from tasks.readers.rows import kept_turns
from tasks.splits.loading import Splits, after_hash
from tasks.task import Example

DIGITS = 6  # of a probability
Logits = NDArray[np.float32]
Watch = Callable[[str, int, int], None]


class Asked(NamedTuple):
    """A finished cell that is to be probed: its key, its task, and what the study calls its system (none: adapters)."""

    key: str
    task: str
    system: str = ""


@dataclass
class Probe:
    """A probe of a stored study: ``splits_of`` gives a task's rows, ``missing`` says by name what was not probed."""

    store: Store
    manifest: Mapping[str, Any]
    splits_of: Callable[[str], Splits]
    device: str = "auto"
    missing: dict[str, str] = field(default_factory=dict)

    def run(self, cells: Sequence[Asked], watch: Watch) -> None:
        """Put into the store what these cells answer; a task without context is named and left out."""
        done = 0
        for task in dict.fromkeys(cell.task for cell in cells):
            own = [cell for cell in cells if cell.task == task]
            try:
                self._task(task, own, lambda before=done: watch("probes", before, len(cells)))  # type: ignore[misc]
            except BadInput as reason:
                self.missing[task] = str(reason)
            done += len(own)
            watch("probes", done, len(cells))

    def _task(self, task: str, cells: Sequence[Asked], tick: Callable[[], None]) -> None:
        splits = self.splits_of(task)
        turns = kept_turns(splits.task.history)
        if not any(row.context[turns] for row in tested(splits)):
            raise BadInput("its rows have no context that it reads")
        material = Material(PROBE_SEED, self._foreign(task, splits))
        for cell in cells:
            tick()
            rows = tested_rows(self.store, cell.key, splits)
            try:
                check_later_turns(self.store, cell.key, splits)
                self._cell(cell, rows, material)
            except (BadInput, StoreError) as reason:
                self.missing[f"{task} by {cell.system or 'adapter'}, {cell.key[:12]}"] = str(reason)

    def _foreign(self, task: str, splits: Splits) -> list[Context]:
        """Contexts of test rows of other families' tasks, cut as the task cuts its own."""
        turns = kept_turns(splits.task.history)
        contexts: list[Context] = []
        try:
            for donor in donors_of(self.manifest, task):
                contexts += [row.context[turns] for row in tested(self.splits_of(donor)) if row.context[turns]]
        except BadInput as reason:
            self.missing[f"{task}, {OTHER_TASK}"] = str(reason)
            return []
        if not contexts:
            self.missing[f"{task}, {OTHER_TASK}"] = "the study has no task of another family with a context"
        return contexts

    def _cell(self, cell: Asked, rows: Sequence[Example], material: Material) -> None:
        donors = donors_of(self.manifest, cell.task)
        known = [name for name in PROBES if name != OTHER_TASK or material.foreign]
        wanted = [name for name in known if not self._is_stored(probe_inputs(cell.key, name, donors))]
        if not wanted:
            return
        scorer = scorer_of(self.store, self.manifest, cell.system, cells=[cell.key], device=self.device)

        def logits_of(changed: Sequence[Example]) -> Logits:
            return scorer.answers(changed)[0].logits

        metric = scorer.tasks[0].metric
        unchanged = OPERATIONS[UNCHANGED](rows, material)
        base = logits_of(unchanged.rows)
        decided = metrics.decisions(metric, base)
        for name in wanted:
            started = time.perf_counter()
            changed = OPERATIONS[name](rows, material)
            own = base if name == UNCHANGED else logits_of(changed.rows) if changed.rows else base[:0]
            chosen = decided[np.searchsorted(unchanged.places, changed.places)]
            result = {
                "places": changed.places.tolist(),
                "left_out": changed.left_out,
                "answers": metrics.decisions(metric, own).tolist(),
                "probability": probability_of(metric, own, chosen),
            }
            inputs = probe_inputs(cell.key, name, donors)
            self.store.put_measure(PROBE, inputs, result, time.perf_counter() - started)

    def _is_stored(self, inputs: Mapping[str, Any]) -> bool:
        try:
            self.store.measure(PROBE, inputs)
        except MissingRecord:
            return False
        return True


def tested(splits: Splits) -> Sequence[Example]:
    """The test rows of a task's own weights: with folds or repeats those of the first, whose weights are kept."""
    return splits.folds[0].test if splits.folds else splits.test


def tested_rows(store: Store, key: str, splits: Splits) -> list[Example]:
    """The rows that a record was tested on, as its weights are those of the first fold; contexts as far as read."""
    table = pq.ParquetFile(store.open(key, "test.parquet")).read(use_threads=False)
    ids = table["id"].to_pylist()
    if "fold" in table.column_names:
        ids = [id for id, fold in zip(ids, table["fold"].to_pylist(), strict=True) if fold == 1]
    by_id = {row.id: row for row in tested(splits)}
    if absent := [id for id in ids if id not in by_id]:
        raise BadInput(f"{len(absent)} test rows of record {key[:12]} are not in the raw files")
    turns = kept_turns(splits.task.history)
    return [by_id[id]._replace(context=by_id[id].context[turns]) for id in ids]


def check_later_turns(store: Store, key: str, splits: Splits) -> None:
    """BadInput where a system asked for later turns, which are not in the content hash, and these differ here."""
    spec = store.get(key).spec
    if "after_hash" in spec and after_hash(splits, later_turns(spec)) != spec["after_hash"]:
        raise BadInput("the turns that follow its rows are others in the raw files than in its training")


def probability_of(metric: str, logits: Logits, chosen: NDArray[Any]) -> list[float] | None:
    """The probability of what was ``chosen`` on unchanged rows; of several labels its mean over these; None of numbers.

    For example logits of 0 and log 3 give the second of two classes a probability of .75.
    """
    values = logits.astype(np.float64)
    if metric == "pearson_r":
        return None
    if metric == "multilabel_f1":
        shares = expit(values)
        own: NDArray[np.float64] = np.where(chosen == 1, shares, 1 - shares).mean(axis=1)
    else:
        own = softmax(values, axis=1)[np.arange(len(values)), chosen]
    return [round(float(share), DIGITS) for share in own]
