"""Scores over repeated random splits, whose test sets overlap: the variance that Nadeau and Bengio (2003) correct.

Of R repeats on the same rows the differences d of two systems are not independent: training sets overlap, and so do
test sets. Their plain variance s2 / R is far too small. Nadeau and Bengio put (1 / R + n_test / n_train) s2 in its
place, where s2 is the variance of d between repeats, and refer mean d to Student's t with R - 1 degrees of freedom.

Of several systems every pair has such a t, and these hang on each other. ``pairwise`` draws them together: the means
from a normal distribution with the systems' covariance between repeats, and that covariance itself from the Wishart
distribution of R - 1 degrees of freedom, so that every t alone keeps its own distribution, whatever the covariance is.
The step-down maximum of these draws (Westfall and Young 1993) bounds the probability of a single false difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri, stdtr, stdtrit

from adapters_store.record import Record
from adapters_store.store import Store
from analysis.gains.cells import predictions
from analysis.gains.maxima import GainTest, reaches, step_down
from analysis.gains.significance import LEVEL, FloatArray
from tasks.metrics import MEASURES

Answers = tuple[NDArray[Any], NDArray[Any]]  # labels, and decisions


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


def pairwise(
    scores: FloatArray, ratio: float, *, draws: int, rng: np.random.Generator
) -> tuple[list[Corrected], FloatArray]:
    """Differences of all pairs of systems ``scores [systems, repeats]``, as combinations has them, and their p_max.

    A pair without p has no p_max and is not counted among the others.
    """
    pairs = list(combinations(range(len(scores)), 2))
    differences = np.array([scores[a] - scores[b] for a, b in pairs]).reshape(len(pairs), -1)
    own = [nadeau_bengio(difference, ratio) for difference in differences]
    is_tested = np.array([np.isfinite(pair.p) for pair in own], dtype=bool)
    adjusted = np.full(len(pairs), np.nan)
    if is_tested.any():
        p = np.array([pair.p for pair in own])[is_tested]
        sizes = _drawn_sizes(differences[is_tested], draws, rng)
        df, column = differences.shape[1] - 1, ("", "")
        observed = -ndtri(np.maximum(p, np.finfo(float).tiny) / 2)  # of a normal deviate with the p of that t
        tests = [GainTest(column, 0, *test, df=df) for test in zip(observed, sizes.T, strict=True)]
        (reach,), _ = reaches(enumerate(tests))
        adjusted[is_tested] = np.maximum(step_down([reach])[0], p)  # drawn, it may fall below by chance
    return own, adjusted


def _drawn_sizes(differences: FloatArray, draws: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """Joint sizes of t of these ``differences [pairs, repeats]`` if all true ones are 0: ``[draws, pairs]``.

    A standard normal vector over repeats times centred differences has their covariance, times R - 1. One that never
    varies has a size of 0.
    """
    centred = (differences - differences.mean(axis=1, keepdims=True)).T
    repeats = len(centred)
    mean = rng.normal(size=(draws, repeats)) @ centred
    squares = np.zeros_like(mean)
    for _ in range(repeats - 1):
        squares += np.square(rng.normal(size=(draws, repeats)) @ centred)
    error = np.sqrt(squares / (repeats - 1))
    sizes: FloatArray = np.divide(np.abs(mean), error, out=np.zeros_like(mean), where=error > 0)
    return sizes.astype(np.float32)


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
    measure = MEASURES[record.results["metric"]]
    return np.array([measure(*answers) for answers in answers_by_repeat(store, record)])


def answers_by_repeat(store: Store, record: Record) -> list[Answers]:
    """Labels and decisions of every repeat of a record, whose test sets share rows."""
    shown = predictions(store, record)
    repeat = pq.ParquetFile(store.open(record.key, "test.parquet")).read(["fold"])["fold"].to_numpy()
    each = [repeat == number for number in np.unique(repeat)]
    return [(shown.labels[own], shown.decisions[own]) for own in each]
