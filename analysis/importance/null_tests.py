"""The tests of the guarded analysis: what features add to Q2 against what they add when they belong to other tasks.

Two nulls have to be refuted, and the larger p counts. Facts permuted over tasks are the null for tasks that differ each
in its own way; but families share both facts and gains, and where gains differ by family this null alone alarms in 13
of 100 grids at 5 % (docs/calibration.csv). So the second null permutes the typical facts of families over families: the
most that facts which only tell families apart would add.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations

import numpy as np
from scipy.stats import t as student

from analysis.importance.features import CATEGORY
from analysis.importance.grid import Grid
from analysis.importance.ridge import AddedQ2
from analysis.results.results import Results

Array = np.ndarray
TIE = 1e-12  # rounding is no difference
MOST_FAMILIES = 6  # whose arrangements are gone through one by one: 720
LEVEL = 0.05
BATCH_NUMBERS = 1_000_000  # of the columns of one batch of arrangements: what a core's cache holds


@dataclass(frozen=True)
class Arrangements:
    """Orders of the tasks [draws, tasks] and of the families [draws, families]."""

    tasks: Array
    families: Array

    @classmethod
    def of(cls, grid: Grid, draws: int, seed: int) -> Arrangements:
        """The arrangements of a grid: ``draws`` of its tasks, and all of its families where they are at most six."""
        rng = np.random.default_rng(seed)
        return cls(task_orders(len(grid.tasks), draws, rng), family_orders(len(grid.families), draws, rng))


@dataclass(frozen=True)
class NullTest:
    """Q2 that features add [grids], and add under both nulls [draws, grids]; ``full`` [grids] is the Q2 with them."""

    full: Array
    added: Array
    by_tasks: Array
    by_families: Array

    @property
    def full_q2(self) -> float:
        """Q2 of all features, of the first grid."""
        return float(self.full[0])

    @property
    def p_tasks(self) -> Array:
        """[grids], against facts permuted over tasks."""
        return permutation_ps(self.added, self.by_tasks)

    @property
    def p_families(self) -> Array:
        """[grids], against typical facts permuted over families."""
        return permutation_ps(self.added, self.by_families)

    @property
    def p(self) -> Array:
        """[grids], the larger of the two: both nulls have to be refuted."""
        larger: Array = np.maximum(self.p_tasks, self.p_families)
        return larger

    @property
    def passes(self) -> Array:
        """[grids], whether both nulls are refuted and the features add something at all."""
        passed: Array = (self.p <= LEVEL) & (self.added > 0)
        return passed


def against_nulls(
    grid: Grid, left_out: str, names: Sequence[str], arrangements: Arrangements, outcomes: Array | None = None
) -> NullTest:
    """What the features ``names`` together add to all the others, and permuted facts of both nulls in their place."""
    # 1. The other features are fixed, penalties are tuned with the true facts, and both stay for every permutation.
    added = added_by(grid, left_out, names, outcomes)
    # 2. Null of tasks: facts change places among all tasks. Null of families: every task gets what is typical of a
    #    family, and families change places as wholes.
    typical = {
        name: family_typical(grid.facts[name], grid.family, is_code=grid.kinds[name] == CATEGORY) for name in names
    }
    of_tasks = _added_q2_when_permuted(grid, added, {name: grid.facts[name] for name in names}, arrangements.tasks)
    of_families = _added_q2_when_permuted(grid, added, typical, arrangements.families[:, grid.family])
    own = _blocks_of(grid, names)
    return NullTest(added.q2(own)[0], added(own)[0], of_tasks, of_families)


def _added_q2_when_permuted(grid: Grid, added: AddedQ2, facts: Mapping[str, Array], orders: Array) -> Array:
    """What features add [draws, grids] with their facts permuted over tasks in every order [draws, tasks], by batch."""
    columns = sum(block.shape[-1] for name in facts for block in grid.blocks(name))
    n_pairs, n_grids = grid.mask.size, added.q2_without.shape[1]
    at_once = max(1, BATCH_NUMBERS // (columns * (n_pairs + n_grids)))
    parts = [orders[start : start + at_once] for start in range(0, len(orders), at_once)]
    q2 = [
        added([block for name in facts for block in grid.blocks(name, permuted_facts(facts[name], part))])
        for part in parts
    ]
    return np.concatenate(q2) if q2 else np.empty((0, n_grids))


def added_by(grid: Grid, left_out: str, names: Sequence[str], outcomes: Array | None = None) -> AddedQ2:
    """The Q2 that blocks in place of the features ``names`` add to all other features of the grid."""
    others = [name for name in grid.kinds if name not in names]
    return AddedQ2(grid, left_out, _blocks_of(grid, others), _blocks_of(grid, names), outcomes)


def added_q2(grid: Grid, left_out: str, names: Sequence[str]) -> float:
    """Q2 that the features ``names`` together add to all the others."""
    return float(added_by(grid, left_out, names)(_blocks_of(grid, names))[0, 0])


def largest_p(tests: Sequence[NullTest]) -> Array:
    """P of every feature [features] corrected for all that were tested: the largest of a draw counts for each.

    What features add is first put in units of its own null, and again the larger p of the two nulls counts.
    """
    # A single-step maximum (Westfall and Young 1993): features share their permutations, so the largest standardised Q2
    # of a permutation is what the best of features without any effect would have added.
    by_null = []
    for null in ("by_tasks", "by_families"):
        draws = np.stack([getattr(test, null)[:, 0] for test in tests])  # [features, draws]
        middle, spread = draws.mean(1, keepdims=True), np.maximum(draws.std(1, keepdims=True), 1e-12)
        largest = ((draws - middle) / spread).max(0)
        observed = (np.array([test.added[0] for test in tests]) - middle[:, 0]) / spread[:, 0]
        by_null.append(permutation_ps(observed, np.tile(largest[:, None], (1, len(tests)))))
    corrected: Array = np.maximum(*by_null)
    return corrected


def delete_a_family(grid: Grid, left_out: str, names: Sequence[str]) -> tuple[float, float]:
    """95 % interval of the Q2 that features add, from leaving out all pairs of one family after the other.

    With six families it has 5 degrees of freedom, and is wide. NaN where a family cannot be spared.
    """
    # The delete-a-group jackknife (Kott 2001): with m families the variance is (m - 1) / m times the squares of what
    # the estimates without each of them are apart from their mean, and Student's t has m - 1 degrees of freedom.
    whole = added_q2(grid, left_out, names)
    count = len(grid.families)
    parts = np.array([added_q2(grid.without_family(family), left_out, names) for family in range(count)])
    error = np.sqrt((count - 1) / count * ((parts - parts.mean()) ** 2).sum())
    half = float(student.ppf(1 - LEVEL / 2, count - 1) * error)
    return whole - half, whole + half


def _blocks_of(grid: Grid, names: Sequence[str]) -> list[Array]:
    return [block for name in names for block in grid.blocks(name)]


# Permutations: who gets whose facts when features say nothing.


def permuted_ratings(results: Results, order: Array) -> Results:
    """The results with ratings permuted over tasks: the k-th task gets those of task ``order[k]``."""
    names = results.tasks.task.to_numpy()
    recipient = dict(zip(names[order], names, strict=True))
    return replace(results, ratings=results.ratings.assign(task=results.ratings.task.map(recipient)))


def task_orders(n_tasks: int, draws: int, rng: np.random.Generator) -> Array:
    """Random orders of the tasks, [draws, tasks]."""
    return rng.permuted(np.tile(np.arange(n_tasks), (draws, 1)), axis=1)


def family_orders(n_families: int, draws: int, rng: np.random.Generator) -> Array:
    """Every order of the families but their own, [720 - 1, families] for six; of more than six ``draws`` at random.

    Fewer than four families have too few orders for a p of .05.
    """
    # All orders of up to six families make the p exact. permutations() begins with the observed order, which is left
    # out, because permutation_ps counts it.
    if n_families > MOST_FAMILIES:
        return task_orders(n_families, draws, rng)
    return np.array(list(permutations(range(n_families)))[1:]).reshape(-1, n_families)


def permuted_facts(facts: Array, orders: Array) -> Array:
    """Facts of tasks [tasks], or of pairs [tasks, tasks], permuted over the tasks in every order.

    ``orders`` is [draws, tasks]; permuted facts have the draws before the axes of the facts.
    """
    permuted: Array = facts[orders[:, :, None], orders[:, None, :]] if facts.ndim == 2 else facts[orders]
    return permuted


def family_typical(facts: Array, family: Array, *, is_code: bool) -> Array:
    """What is typical of each family, [families] or [families, families]: the mean, or of codes the commonest.

    A family of one task has no pair of its own; it gets the mean of the families that have one.
    """
    # Means of facts, and of similarities over all pairs of two families; a task with itself (diagonal) is no pair.
    members = [family == number for number in range(family.max() + 1)]
    if facts.ndim == 2:
        off = ~np.eye(len(facts), dtype=bool)
        typical = np.array([[_mean(facts[np.outer(first, other) & off]) for other in members] for first in members])
        single = np.isnan(typical)
        within = np.diag(typical)[~np.diag(single)]
        return np.where(single, within.mean() if within.size else facts[off].mean(), typical)
    if is_code:
        return np.array([np.bincount(facts[mask]).argmax() for mask in members])
    return np.array([facts[mask].mean() for mask in members])


def _mean(values: Array) -> float:
    return float(values.mean()) if values.size else float("nan")


def permutation_p(observed: float, null: Sequence[float] | Array) -> float:
    """Share of the arrangements [draws], the observed one counted, that reach the observed value."""
    return float(permutation_ps(np.array([observed]), np.asarray(null, dtype="float64")[:, None])[0])


def permutation_ps(observed: Array, null: Array) -> Array:
    """The same for several observed values at once, [grids] and [draws, grids]."""
    reached: Array = (1 + (null >= observed - TIE).sum(0)) / (1 + len(null))
    return reached
