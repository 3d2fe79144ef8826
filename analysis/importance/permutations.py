"""Permutations of tasks: who gets whose ratings when ratings say nothing, and the p of what was observed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from analysis.results.results import Results

Array = np.ndarray
TIE = 1e-12  # rounding is no difference


def task_orders(n_tasks: int, draws: int, rng: np.random.Generator) -> Array:
    """Random orders of the tasks, [draws, tasks]."""
    return rng.permuted(np.tile(np.arange(n_tasks), (draws, 1)), axis=1)


def permuted_ratings(results: Results, order: Array) -> Results:
    """The results with ratings permuted over tasks: the k-th task gets those of task ``order[k]``."""
    names = results.tasks.task.to_numpy()
    recipient = dict(zip(names[order], names, strict=True))
    return replace(results, ratings=results.ratings.assign(task=results.ratings.task.map(recipient)))


def permutation_p(observed: float, null: Sequence[float] | Array) -> float:
    """Share of the arrangements [draws], the observed one counted, that reach the observed value."""
    drawn = np.asarray(null, dtype="float64")
    return float((1 + (drawn >= observed - TIE).sum()) / (1 + len(drawn)))
