"""Whether a ranking of intermediates was better than a random order: tasks are permuted, in both roles at once.

A ranking often has one order for all targets, such as by size, and intermediates differ in what they teach whatever the
target. Targets then agree by luck, and an interval over targets calls a ranking of random numbers better than a random
order far too often. So the tasks of the ranking change places instead (Hubert and Schultz 1976: quadratic assignment;
Mantel 1967), which keeps whatever its columns and rows have in common, and the gains stay. All rankings are permuted
alike, and p is that of the largest among them (Westfall and Young 1993).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations, product
from math import factorial, prod

import numpy as np
import pandas as pd

from analysis.importance.similarity import PAIR

DRAWS, SEED = 999, 20_241_123
BLOCK = 100  # arrangements at a time
ROUNDING = 1e-12  # of sums in another order
Array = np.ndarray


def p_of_orders(ranked: pd.DataFrame, gains: pd.DataFrame, names: Sequence[str], fewest: int) -> pd.DataFrame:
    """The columns ``p`` and ``p_corrected`` by ranking, one-sided for its mean NDCG over targets; those of ``names``.

    ``ranked`` has a row per pair with a column per ranking, ``gains`` the same pairs with ``score``. A target counts
    with at least ``fewest`` finished candidates that do not all score the same. Undefined for a ranking that lacks a
    pair of those, and for all where no target counts.
    """
    grid = _Grid.of(ranked, gains, names, fewest)
    shown = [name for name in names if name in grid.orders]
    if not shown or not grid.targets:
        return pd.DataFrame({"p": np.nan, "p_corrected": np.nan}, index=list(names))
    values = np.stack([grid.orders[name] for name in shown])
    moved = _arrangements(grid.roles)
    blocks = np.array_split(moved, -(-len(moved) // BLOCK))
    draws = np.concatenate([grid.mean_ndcg(values, block) for block in blocks])
    spread = draws.std(axis=0)
    sizes = (draws - draws.mean(axis=0)) / np.where(spread > 0, spread, np.inf)
    # The observed order is one of all, or counts as a draw: either way it is among those that it is compared with.
    share = (draws >= draws[0] - ROUNDING).mean(axis=0)
    joint = (sizes.max(axis=1, keepdims=True) >= sizes[0] - ROUNDING).mean(axis=0)
    return pd.DataFrame({"p": share, "p_corrected": joint}, index=shown).reindex(list(names))


class _Grid:
    """Orders and scores as [tasks, tasks] (intermediate, target), undefined where there is no pair."""

    def __init__(self, orders: dict[str, Array], score: Array, fewest: int) -> None:
        self.orders = orders
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
        return cls(orders, score, fewest)

    def mean_ndcg(self, values: Array, moved: Array) -> Array:
        """Mean NDCG over targets [draws, rankings] of ``values`` [rankings, tasks, tasks].

        In draw d ``moved[d, k]`` stands for task k, in both roles.
        """
        total = np.zeros((len(values), len(moved)))
        for (target, candidates), relevance, best in zip(self.targets, self.relevances, self.best, strict=True):
            places = values[:, moved[:, candidates], moved[:, target, None]]
            total += _expected_discounts(places) @ relevance / best
        return np.asarray(total.T / len(self.targets))


def _expected_discounts(values: Array) -> Array:
    """Discounts of candidates' places, the highest of ``values`` [..., candidates] first; ties share their mean."""
    above = (values[..., None, :] > values[..., None]).sum(axis=-1)
    equal = (values[..., None, :] == values[..., None]).sum(axis=-1)
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
