"""What would be seen if ratings said nothing: the same grid with the ratings of tasks handed round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations

import numpy as np

from analysis.results import Results

Array = np.ndarray
TIE = 1e-12  # rounding is no difference
MOST_FAMILIES = 6  # whose arrangements are gone through one by one: 720


def permuted_ratings(results: Results, order: Array) -> Results:
    """The results with every task's ratings given to another: the k-th task gets those of task ``order[k]``."""
    names = results.tasks.task.to_numpy()
    given_to = dict(zip(names[order], names, strict=True))
    return replace(results, ratings=results.ratings.assign(task=results.ratings.task.map(given_to)))


def task_orders(n_tasks: int, draws: int, rng: np.random.Generator) -> Array:
    """Random orders of the tasks, [draws, tasks]."""
    return rng.permuted(np.tile(np.arange(n_tasks), (draws, 1)), axis=1)


def family_orders(n_families: int, draws: int, rng: np.random.Generator) -> Array:
    """Every order of the families but the given one, [720 - 1, families] for six; of more than six ``draws`` at random.

    Fewer than four families have too few orders for a p of .05.
    """
    if n_families > MOST_FAMILIES:
        return task_orders(n_families, draws, rng)
    return np.array(list(permutations(range(n_families)))[1:]).reshape(-1, n_families)


def handed_round(facts: Array, orders: Array) -> Array:
    """Facts of tasks [tasks], or of pairs [tasks, tasks], with each task given those of another in every order.

    ``orders`` is [draws, tasks]; what is given has the draws before the axes of the facts.
    """
    given: Array = facts[orders[:, :, None], orders[:, None, :]] if facts.ndim == 2 else facts[orders]
    return given


def family_typical(facts: Array, family: Array, *, is_code: bool) -> Array:
    """What is typical of each family, [families] or [families, families]: the mean, or of codes the commonest.

    A family of one task has no pair of its own; it gets the mean of the families that have one.
    """
    members = [family == one for one in range(family.max() + 1)]
    if facts.ndim == 2:
        off = ~np.eye(len(facts), dtype=bool)
        typical = np.array([[_mean(facts[np.outer(one, other) & off]) for other in members] for one in members])
        single = np.isnan(typical)
        within = np.diag(typical)[~np.diag(single)]
        return np.where(single, within.mean() if within.size else facts[off].mean(), typical)
    if is_code:
        return np.array([np.bincount(facts[one]).argmax() for one in members])
    return np.array([facts[one].mean() for one in members])


def _mean(values: Array) -> float:
    return float(values.mean()) if values.size else float("nan")


def permutation_p(observed: float, null: Sequence[float] | Array) -> float:
    """Share of the arrangements [draws], the observed one counted, that reach the observed value."""
    return float(permutation_ps(np.array([observed]), np.asarray(null, dtype="float64")[:, None])[0])


def permutation_ps(observed: Array, null: Array) -> Array:
    """The same for several observed values at once, [grids] and [draws, grids]."""
    reached: Array = (1 + (null >= observed - TIE).sum(0)) / (1 + len(null))
    return reached
