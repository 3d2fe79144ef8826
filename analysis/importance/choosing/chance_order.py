"""Whether a ranking of intermediates was better than a random order: tasks are permuted, and families of tasks.

A ranking often has one order for all targets, such as by size, and intermediates differ in what they teach whatever the
target. Targets then agree by luck, and an interval over targets calls a ranking of random numbers better than a random
order far too often. So the tasks of the ranking change places instead, in both roles at once (Hubert and Schultz 1976:
quadratic assignment; Mantel 1967), which keeps whatever its columns and rows have in common, and the gains stay. All
rankings are permuted alike, and p is that of the largest among them (Westfall and Young 1993).

Where tasks of a family are alike, in what they teach and in how they are ranked, tasks are no units that may change
places, and this alone alarms in .16 of simulated grids (docs/similarity.md). So in a second null what is typical of
pairs of families changes places with families, and what tells tasks of a family apart with the tasks within it. The
larger p counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations, product
from math import factorial, prod

import numpy as np
import pandas as pd

from analysis.importance.permutations import task_orders
from analysis.importance.similarity import PAIR

DRAWS, FAMILY_DRAWS, SEED = 999, 499, 20_241_123
BLOCK = 100  # arrangements at a time
FEWEST_FAMILIES = 4  # fewer have too few orders for a p of .05
ROUNDING = 1e-12  # of sums in another order
Array = np.ndarray


def p_of_orders(
    ranked: pd.DataFrame, gains: pd.DataFrame, names: Sequence[str], fewest: int, family: Mapping[str, str]
) -> pd.DataFrame:
    """The columns ``p`` and ``p_corrected`` by ranking, one-sided for its mean NDCG over targets; those of ``names``.

    ``ranked`` has a row per pair with a column per ranking, ``gains`` the same pairs with ``score``, ``family`` that
    of every task. A target counts with at least ``fewest`` finished candidates that do not all score the same.
    Undefined for a ranking that lacks a pair of those, and for all where no target counts.
    """
    grid = _Grid.of(ranked, gains, names, fewest)
    shown = [name for name in names if name in grid.orders]
    if not shown or not grid.targets:
        return pd.DataFrame({"p": np.nan, "p_corrected": np.nan}, index=list(names))
    values = np.stack([grid.orders[name] for name in shown])
    moved = _arrangements(grid.roles)
    blocks = np.array_split(moved, -(-len(moved) // BLOCK))
    share, joint = _shares(np.concatenate([grid.mean_ndcg(values, block) for block in blocks]))
    codes = np.unique([family[task] for task in grid.tasks], return_inverse=True)[1]
    if codes.max() + 1 >= FEWEST_FAMILIES:
        of_families = _shares(_over_families(grid, values, codes))
        share, joint = (np.maximum(pair, other) for pair, other in zip((share, joint), of_families, strict=True))
    return pd.DataFrame({"p": share, "p_corrected": joint}, index=shown).reindex(list(names))


def _shares(draws: Array) -> tuple[Array, Array]:
    """Of draws [draws, rankings], the first of them observed, the share as large as that, alone and by the largest."""
    spread = draws.std(axis=0)
    sizes = (draws - draws.mean(axis=0)) / np.where(spread > 0, spread, np.inf)
    # The observed order is one of all, or counts as a draw: either way it is among those that it is compared with.
    share = (draws >= draws[0] - ROUNDING).mean(axis=0)
    joint = (sizes.max(axis=1, keepdims=True) >= sizes[0] - ROUNDING).mean(axis=0)
    return share, joint


def _over_families(grid: _Grid, values: Array, codes: Array) -> Array:
    """Mean NDCG [draws, rankings], the observed first, where families change places, and tasks within families."""
    known = np.where(np.isfinite(values), values, np.nanmean(values, axis=(1, 2), keepdims=True))
    typical = np.stack([family_typical(value, codes) for value in known])
    own = values - typical[:, codes[:, None], codes]
    total, arranged = np.empty((FAMILY_DRAWS + 1, len(values))), _family_arrangements(codes)
    for draws in np.array_split(np.arange(FAMILY_DRAWS + 1), -(-FAMILY_DRAWS // BLOCK)):
        families, tasks = arranged[0][draws], arranged[1][draws]
        between = typical[:, families[:, codes][:, :, None], families[:, codes][:, None]]
        total[draws] = grid.mean_ndcg_of(own[:, tasks[:, :, None], tasks[:, None]] + between)
    return total


def family_typical(values: Array, family: Array) -> Array:
    """What is typical of two families [families, families]: the mean of their pairs in values [tasks, tasks].

    A family of one task has no pair of its own; it gets the mean of the families that have one.
    """
    members = [family == number for number in range(family.max() + 1)]
    off = ~np.eye(len(values), dtype=bool)  # a task with itself is no pair
    typical = np.array([[_mean(values[np.outer(first, other) & off]) for other in members] for first in members])
    single = np.isnan(typical)
    within = np.diag(typical)[~np.diag(single)]
    return np.where(single, within.mean() if within.size else values[off].mean(), typical)


def _mean(values: Array) -> float:
    return float(values.mean()) if values.size else float("nan")


def _family_arrangements(codes: Array) -> tuple[Array, Array]:
    """Orders of families [draws, families] and of tasks that stay in them [draws, tasks], their own first."""
    rng, count = np.random.default_rng(SEED), int(codes.max()) + 1
    families = np.vstack([np.arange(count), task_orders(count, FAMILY_DRAWS, rng)])
    tasks = np.tile(np.arange(len(codes)), (FAMILY_DRAWS + 1, 1))
    for order in tasks[1:]:
        order[np.argsort(codes, kind="stable")] = np.lexsort((rng.random(len(codes)), codes))
    return families, tasks


class _Grid:
    """Orders and scores as [tasks, tasks] (intermediate, target), undefined where there is no pair."""

    def __init__(self, tasks: list[str], orders: dict[str, Array], score: Array, fewest: int) -> None:
        self.tasks, self.orders = tasks, orders
        self.targets: list[tuple[int, Array]] = []
        self.relevances: list[Array] = []
        self.roles = _roles(~np.isnan(np.stack(list(orders.values()))).any(axis=0)) if orders else ()
        for target in range(score.shape[1]):
            candidates = np.flatnonzero(np.isfinite(score[:, target]))
            own = score[candidates, target]
            if len(candidates) >= fewest and np.ptp(own):
                self.targets.append((target, candidates))
                self.relevances.append((own - own.min()) / np.ptp(own))
        self.best = [np.sort(own)[::-1] @ _discounts(len(own)) for own in self.relevances]
        others = len(score) - 1
        self.is_full = len(self.roles) == 1 and all(len(candidates) == others for _, candidates in self.targets)

    @classmethod
    def of(cls, ranked: pd.DataFrame, gains: pd.DataFrame, names: Sequence[str], fewest: int) -> _Grid:
        """From frames of pairs; tasks without a finished pair are left out, and rankings without one of the pairs."""
        finished = gains[np.isfinite(gains.gain)]
        ranked = ranked[ranked.intermediate.isin(finished.intermediate) | ranked.intermediate.isin(finished.target)]
        ranked = ranked[ranked.target.isin(finished.target) | ranked.target.isin(finished.intermediate)]
        tasks = list(dict.fromkeys([*ranked.intermediate, *ranked.target]))
        place = {task: number for number, task in enumerate(tasks)}
        rows, columns = (ranked[role].map(place).to_numpy() for role in PAIR)
        score = np.full((len(tasks), len(tasks)), np.nan)
        score[finished.intermediate.map(place), finished.target.map(place)] = finished.score
        orders = {}
        for name in names:
            values = ranked[name].to_numpy("float64")
            if np.isfinite(values).all() and len(values):
                orders[name] = np.full_like(score, np.nan)
                orders[name][rows, columns] = values
        return cls(tasks, orders, score, fewest)

    def mean_ndcg(self, values: Array, moved: Array) -> Array:
        """Mean NDCG over targets [draws, rankings] of ``values`` [rankings, tasks, tasks].

        In draw d ``moved[d, k]`` stands for task k, in both roles.
        """
        total = np.zeros((len(values), len(moved)))
        # Where all other tasks are candidates, a task has one place among those of a column, whoever draws the column.
        known = _expected_discounts(values.swapaxes(1, 2)).swapaxes(1, 2) if self.is_full else values
        for (target, candidates), relevance, best in zip(self.targets, self.relevances, self.best, strict=True):
            places = known[:, moved[:, candidates], moved[:, target, None]]
            total += (places if self.is_full else _expected_discounts(places)) @ relevance / best
        return np.asarray(total.T / len(self.targets))

    def mean_ndcg_of(self, values: Array) -> Array:
        """The same [draws, rankings] of values [rankings, draws, tasks, tasks] that differ from draw to draw."""
        total = np.zeros(values.shape[:2])
        for (target, candidates), relevance, best in zip(self.targets, self.relevances, self.best, strict=True):
            total += _expected_discounts(values[:, :, candidates, target]) @ relevance / best
        return np.asarray(total.T / len(self.targets))


def _expected_discounts(values: Array) -> Array:
    """Discounts of candidates' places, the highest of ``values`` [..., candidates] first; ties share their mean.

    What is undefined has no place, and any number.
    """
    above = (values[..., None, :] > values[..., None]).sum(axis=-1)
    equal = np.maximum((values[..., None, :] == values[..., None]).sum(axis=-1), 1)
    sums = np.concatenate([[0.0], np.cumsum(_discounts(values.shape[-1]))])
    return np.asarray((sums[above + equal] - sums[above]) / equal)


def _discounts(length: int) -> Array:
    return np.asarray(1 / np.log2(np.arange(2, length + 2)))


def _roles(is_pair: Array) -> tuple[Array, ...]:
    """Tasks that may change places: those that serve in the same roles."""
    teaches, learns = is_pair.any(axis=1), is_pair.any(axis=0)
    kinds = (teaches & learns, teaches & ~learns, learns & ~teaches)
    return tuple(np.flatnonzero(kind) for kind in kinds if kind.any())


def _arrangements(roles: Sequence[Array]) -> Array:
    """Orders of tasks [draws, tasks], their own first; all others where they are few, else ``DRAWS`` random ones."""
    own = np.arange(sum(len(tasks) for tasks in roles))
    is_all = prod(factorial(len(tasks)) for tasks in roles) <= DRAWS + 1
    rng = np.random.default_rng(SEED)
    others = [[rng.permutation(tasks) for tasks in roles] for _ in range(0 if is_all else DRAWS)]
    moved = list(product(*map(permutations, roles))) if is_all else [roles, *others]
    orders = np.tile(own, (len(moved), 1))
    for number, tasks in enumerate(roles):
        orders[:, tasks] = [order[number] for order in moved]
    return orders
