"""The tests of the guarded analysis: what features add to Q2 against what they add when they belong to other tasks.

Two nulls have to be refuted, and the larger p counts. Facts permuted over tasks are the null for tasks that differ each
in its own way; but families share both facts and gains, and where gains differ by family this null alone alarms in 13
of 100 grids at 5 % (docs/calibration.csv). So the second null permutes the typical facts of families over families: the
most that facts which only tell families apart would add.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations

import numpy as np
from scipy.special import stdtrit

from analysis.gains.significance import LEVEL
from analysis.importance.exchange import Exchange
from analysis.importance.features import CATEGORY
from analysis.importance.grid import Grid
from analysis.importance.ridge import FamilyFits
from analysis.results.results import Results

Array = np.ndarray
TIE = 1e-12  # rounding is no difference
MOST_FAMILIES = 6  # whose arrangements are gone through one by one: 720
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
    return null_test(grid, fits_of(grid, left_out, outcomes), names, arrangements)


def fits_of(grid: Grid, left_out: str, outcomes: Array | None = None) -> FamilyFits:
    """The fits of a grid on all its features, which the tests of all of them share."""
    return FamilyFits(grid, left_out, {name: grid.blocks(name) for name in grid.kinds}, outcomes)


def null_test(grid: Grid, fits: FamilyFits, names: Sequence[str], arrangements: Arrangements) -> NullTest:
    """The same with fits that were made before."""
    # 1. The other features are fixed, penalties are tuned with the true facts, and both stay for every permutation.
    others = [name for name in grid.kinds if name not in names]
    without = fits.q2(others) if others else np.zeros(len(fits.total))
    exchange = Exchange(fits, others)
    # 2. Null of tasks: facts change places among all tasks. Null of families: every task gets what is typical of a
    #    family, and families change places as wholes.
    own = {name: grid.facts[name] for name in names}
    typical = {name: family_typical(own[name], grid.family, is_code=grid.kinds[name] == CATEGORY) for name in names}
    of_tasks = _q2_when_permuted(grid, exchange, own, arrangements.tasks) - without
    of_families = _q2_when_permuted(grid, exchange, typical, arrangements.families[:, grid.family]) - without
    full = fits.q2()
    return NullTest(full, full - without, of_tasks, of_families)


def _q2_when_permuted(grid: Grid, exchange: Exchange, facts: Mapping[str, Array], orders: Array) -> Array:
    """Q2 [draws, grids] with facts permuted over tasks in every order [draws, tasks], by batch."""
    columns = sum(block.shape[-1] for name in facts for block in grid.blocks(name))
    at_once = max(1, BATCH_NUMBERS // (columns * (grid.mask.size + exchange.n_grids)))
    parts = [orders[start : start + at_once] for start in range(0, len(orders), at_once)]
    q2 = [
        exchange.q2([block for name in facts for block in grid.blocks(name, permuted_facts(facts[name], part))])
        for part in parts
    ]
    return np.concatenate(q2) if q2 else np.empty((0, exchange.n_grids))


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


def delete_a_family(
    grid: Grid,
    left_out: str,
    names: Sequence[str],
    fits: FamilyFits,
    progress: Callable[[int], None] = lambda done: None,
) -> dict[str, tuple[float, float]]:
    """95 % intervals of the Q2 that each feature adds, from leaving out all pairs of one family after the other.

    With six families they have 5 degrees of freedom, and are wide. NaN where a family cannot be spared.
    """
    # The delete-a-group jackknife (Kott 2001): with m families the variance is (m - 1) / m times the squares of what
    # the estimates without each of them are apart from their mean, and Student's t has m - 1 degrees of freedom.
    whole, count = _added_by_each(fits, names), len(grid.families)
    parts = np.empty((count, len(names)))
    for family in range(count):
        parts[family] = _added_by_each(fits_of(grid.without_family(family), left_out), names)
        progress(family + 1)
    error = np.sqrt((count - 1) / count * ((parts - parts.mean(0)) ** 2).sum(0))
    half = stdtrit(count - 1, 1 - LEVEL / 2) * error
    return {name: (float(low), float(high)) for name, low, high in zip(names, whole - half, whole + half, strict=True)}


def _added_by_each(fits: FamilyFits, names: Sequence[str]) -> Array:
    """Q2 [names] that every feature adds to all others, of the first grid."""
    full = fits.q2()[0]
    return np.array([full - _q2_without(fits, name) for name in names])


def _q2_without(fits: FamilyFits, name: str) -> float:
    """Q2 of all features but one; 0 where it is the only one."""
    others = [other for other in fits.widths if other != name]
    return float(fits.q2(others)[0]) if others else 0.0


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
