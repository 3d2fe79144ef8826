"""A copy of a study's store with what its tables, figures and tests are computed from, and little else.

Twelve tasks and three seeds are 25 MB without weights: predictions on validation rows, which nothing reads again, and
logits of test rows, digit by digit. A brief copy has neither adapters nor validation predictions. Logits of classes are
rounded to a multiple of STEP, so that a probability moves by less than STEP / 4; where that would turn a decision, or
make or break a tie, the row stays as it is. Numbers that a task predicts are never rounded. So every decision, and with
it every score, gain and test, is exactly that of the study; what is computed from probabilities moves in its fourth
digit, and the tables of a brief archive are computed from what is in it.

Each record is sealed anew and says in its provenance what was left out, and from which file a rewritten one was made.
"""

from __future__ import annotations

import io
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from adapters_store import Store, StoreError
from adapters_store.archive import keys_of, stored_measures
from adapters_store.record import Record
from adapters_store.store import REWRITTEN, without
from tasks.metrics import decisions, labels_and_logits, score

STEP = 2.0**-10  # of a logit: half of it changes a probability by at most STEP / 4
TEST, VALIDATION = "test.parquet", "validation.parquet"
EXACT = "pearson_r"  # the metric of numbers, whose every digit counts

Logits = NDArray[np.floating[Any]]


class BriefRefused(StoreError):
    """A record's predictions would not score the same in a brief copy."""


def brief_copy(store: Store, study: str, measures: Iterable[tuple[str, Mapping[str, Any]]], root: Path) -> Store:
    """A new store at ``root`` with a study's manifest, its records made brief, and the ``measures`` that are stored.

    CorruptRecord names a file that is not as it was written.
    """
    copy, manifest = Store(root), store.manifest(study)
    stored = [key for key in keys_of(manifest, f"study {study}") if key in store]
    for key in stored:
        _copy_record(store, store.get(key), copy)
    for _, measure in stored_measures(store, measures):
        copy.put_measure(measure.kind, measure.inputs, measure.result, measure.cost_seconds)
    copy.write_manifest(study, manifest)
    return copy


def _copy_record(store: Store, record: Record, copy: Store) -> None:
    """Put a record with fewer and shorter files into the copy; one that is brief already goes in as it is."""
    fewer = without(record, lambda name: not _is_kept(name))
    provenance = dict(fewer.provenance)
    with copy.staging() as folder:
        for name in fewer.files:
            path = store.open(record.key, name)
            if name == TEST and REWRITTEN not in provenance:
                step = 0.0 if record.results["metric"] == EXACT else STEP
                (folder / name).write_bytes(brief_predictions(record.results["metric"], path))
                provenance[REWRITTEN] = {name: {**vars(record.files[name]), "step": step}}
            else:
                shutil.copyfile(path, folder / name)
        copy.put(record.key, record.spec, record.results, provenance, folder)


def _is_kept(name: str) -> bool:
    """Whether a file of a record stays: adapters and saved systems lie in folders of their own."""
    return "/" not in name and name != VALIDATION


def brief_predictions(metric: str, path: Path) -> bytes:
    """The predictions of a file with rounded logits, as Parquet that packs well; BriefRefused if their score moves."""
    table = pq.ParquetFile(path).read(use_threads=False)
    labels, logits = _labels_and_logits(table)
    names = [f"logit_{place}" for place in range(logits.shape[1])]
    for name, values in zip(names, rounded(metric, logits).T, strict=True):
        table = table.set_column(table.column_names.index(name), table.schema.field(name), pa.array(values))
    raw = _parquet(table, names)
    again = pq.ParquetFile(io.BytesIO(raw)).read(use_threads=False)
    before, after = score(metric, labels, logits), score(metric, *_labels_and_logits(again))
    if not np.array_equal(before, after, equal_nan=True):
        raise BriefRefused(f"{path}: scores {before!r}, but rounded {after!r}; archive with --light instead")
    return raw


def rounded(metric: str, logits: Logits) -> Logits:
    """Logits ``[n, outputs]`` as multiples of STEP, but rows in which that would change what is decided, or a tie.

    >>> rounded("macro_f1", np.array([[0.30001, 2.0], [0.30001, 0.3]])).tolist()
    [[0.2998046875, 2.0], [0.30001, 0.3]]
    """
    if metric == EXACT:
        return logits
    near = (np.round(logits.astype(np.float64) / STEP) * STEP).astype(logits.dtype)
    same = (decisions(metric, near) == decisions(metric, logits)).reshape(len(logits), -1).all(axis=1)
    same &= np.isfinite(logits).all(axis=1) & (_at_the_top(near) == _at_the_top(logits))
    return np.where(same[:, None], near, logits)


def _at_the_top(logits: Logits) -> NDArray[np.int64]:
    """How many outputs share the largest logit of a row ``[n]``."""
    shared: NDArray[np.int64] = (logits == logits.max(axis=1, keepdims=True)).sum(axis=1)
    return shared


def _labels_and_logits(table: pa.Table) -> tuple[NDArray[Any], NDArray[Any]]:
    return labels_and_logits({name: table[name].to_numpy() for name in table.column_names})


def _parquet(table: pa.Table, logits: list[str]) -> bytes:
    """The table as Parquet that is not packed, so that an archive packs all records together.

    The bytes of logits lie by place, all signs and exponents first: what rounding made zero stands together.
    """
    out = io.BytesIO()
    pq.write_table(
        table,
        out,
        compression="none",
        use_dictionary=False,
        write_statistics=False,
        column_encoding=dict.fromkeys(logits, "BYTE_STREAM_SPLIT"),
    )
    return out.getvalue()
