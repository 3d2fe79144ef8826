"""Scores over repeated random splits, whose test sets overlap: the variance that Nadeau and Bengio (2003) correct.

Of R repeats on the same rows the differences d of two systems are not independent: training sets overlap, and so do
test sets. Their plain variance s2 / R is far too small. Nadeau and Bengio put (1 / R + n_test / n_train) s2 in its
place, where s2 is the variance of d between repeats, and refer mean d to Student's t with R - 1 degrees of freedom.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import ArrayLike
from scipy.special import stdtr, stdtrit

from adapters_store.record import Record
from adapters_store.store import Store
from analysis.gains.cells import predictions
from analysis.gains.significance import LEVEL, FloatArray
from tasks.metrics import MEASURES


@dataclass(frozen=True)
class Corrected:
    """Mean over repeats, its corrected 95 % interval, and the two-sided p that the true mean is 0; NaN: unknown."""

    mean: float
    low: float
    high: float
    p: float


def nadeau_bengio(values: ArrayLike, ratio: float) -> Corrected:
    """The mean of ``values`` ``[repeats]``; ``ratio`` is n_test / n_train, from 0.

    For example, ten repeats of 75/5/20 have the ratio .27, and a standard error 1.9 times the plain one.
    """
    own = np.asarray(values, dtype=np.float64)
    count, mean = own.size, float(own.mean()) if own.size else np.nan
    if count < 2 or not np.isfinite(own).all():
        return Corrected(mean, np.nan, np.nan, np.nan)
    error = float(np.sqrt((1 / count + ratio) * own.var(ddof=1)))
    half = float(stdtrit(count - 1, 1 - LEVEL / 2)) * error
    if error == 0:
        return Corrected(mean, mean, mean, float(mean == 0))
    return Corrected(mean, mean - half, mean + half, float(2 * stdtr(count - 1, -abs(mean) / error)))


@dataclass(frozen=True)
class Repeats:
    """A contestant's scores ``[repeats]``, mean over seeds, and n_test / n_train."""

    scores: FloatArray
    ratio: float


def repeats_of(store: Store, records: Sequence[Record]) -> Repeats:
    """The scores of records with repeats, one record per seed, from their predictions."""
    counts = records[0].results["folds"]
    ratio = sum(part["n_test"] for part in counts) / sum(part["n_train"] for part in counts)
    return Repeats(np.mean([_scores(store, record) for record in records], axis=0), ratio)


def _scores(store: Store, record: Record) -> FloatArray:
    shown, metric = predictions(store, record), record.results["metric"]
    repeat = pq.ParquetFile(store.open(record.key, "test.parquet")).read(["fold"])["fold"].to_numpy()
    each = [repeat == number for number in np.unique(repeat)]
    return np.array([MEASURES[metric](shown.labels[own], shown.decisions[own]) for own in each])
