"""What a budget of transfers costs: the regret of training some candidates of every target and taking the best.

A finished grid is replayed. Every target trains one candidate more at a time, in an order that is known before (random,
the size of the intermediate's data, its family, a stored similarity) or that follows the transfers trained so far (the
effects of rows and columns). Its regret is the best gain of its column less the best of those trained, in points.

The gain that judges also chooses, so after all candidates the regret is 0; and a column's best is the best of noisy
scores, which no order could have foreseen in full. So an order is held against a random one, never against 0.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.importance.choosing.ranking import DRAWS, FEWEST_TARGETS, FUSION, SEED, SIZE, best_of_first
from analysis.importance.similarity import HEURISTICS, PAIR
from analysis.results.results import Results
from analysis.tables import Declared, framed

Array = np.ndarray
RANDOM, FAMILY, EFFECTS = "random", "family", "effects"
FEWEST = 2  # candidates of a target: with one there is nothing to choose
REPLAYS = 2000  # of the order by effects, whose first transfers and ties are drawn
ROUNDED = 9  # decimals of effects, beyond which they are equal
PENALTY = 10.0  # as if so many transfers had shown an intermediate to be like any other
BUDGET = {
    "order": Declared("str", "by what the next candidate is chosen"),
    "transfers": Declared("int64", "trained per target"),
    "cells": Declared("int64", "trained in all; a target with fewer candidates has them all"),
    "n_targets": Declared("int64", "targets with two candidates or more"),
    "regret": Declared("float64", "points by which the best of those trained falls short of the best, mean of targets"),
    "low": Declared("float64", "lower end of its 95 % interval, targets resampled"),
    "high": Declared("float64", "its upper end"),
    "chance": Declared("float64", "regret of a random order, exactly"),
    "difference": Declared("float64", "regret - chance; below 0: better than a random order"),
    "difference_low": Declared("float64", "lower end of its 95 % interval, targets resampled"),
    "difference_high": Declared("float64", "its upper end"),
}


def budget(results: Results, ranked: pd.DataFrame, *, draws: int = DRAWS, seed: int = SEED) -> pd.DataFrame:
    """One row per order and number of transfers per target, the columns ``BUDGET``; none without two candidates.

    ``ranked`` has a row per pair of ``results.gains`` with a column for every stored order, as ``rankings`` returns it;
    one that lacks a finished pair is left out. Limits resample targets, which are too few and too alike for a test.
    """
    gains, orders = _columns(results, ranked)
    counts = [len(own) for own in gains]
    if not gains:
        return framed(pd.DataFrame(columns=list(BUDGET)), BUDGET)
    regrets = {name: _known(gains, own) for name, own in orders.items()}
    regrets[EFFECTS] = replayed(_grid(results), np.random.default_rng(seed))
    chosen = np.random.default_rng(seed).integers(len(gains), size=(draws, len(gains)))
    rows = []
    for name, regret in regrets.items():
        for k, (own, chance) in enumerate(zip(regret, regrets[RANDOM], strict=True), start=1):
            about = {"order": name, "transfers": k, "cells": sum(min(k, count) for count in counts)}
            difference = dict(
                zip(("difference_low", "difference_high"), limits_over_targets(own - chance, chosen), strict=True)
            )
            limits = dict(zip(("low", "high"), limits_over_targets(own, chosen), strict=True))
            means = {"regret": own.mean(), "chance": chance.mean(), "difference": (own - chance).mean()}
            rows.append({**about, "n_targets": len(gains), **means, **limits, **difference})
    return framed(pd.DataFrame(rows), BUDGET)


def enough(frame: pd.DataFrame, order: str, points: float) -> int | None:
    """The fewest transfers per target after which an order's regret is below so many points; None if there are none."""
    own = frame[(frame.order == order) & (frame.regret < points)]
    return int(own.transfers.min()) if len(own) else None


def row_share(results: Results) -> float:
    """The share of the variance of gains within targets that intermediates explain, as rows of a table with columns.

    That of a least-squares fit; undefined where nothing varies. ``share_by_chance`` has what noise alone would give.
    """
    values = _grid(results)
    mask = np.isfinite(values)
    centred = _centred(values, mask)
    effects = _centred(np.where(mask, _row_effects(values, mask, 1e-9)[:, None], np.nan), mask)
    total = (centred[mask] ** 2).sum()
    return float(1 - ((centred - effects)[mask] ** 2).sum() / total) if total else float("nan")


def share_by_chance(results: Results) -> float:
    """What ``row_share`` expects where intermediates do not differ: (rows - 1) / (pairs - columns)."""
    values = _grid(results)
    return float((len(values) - 1) / (np.isfinite(values).sum() - values.shape[1]))


def limits_over_targets(values: Array, chosen: Array) -> tuple[float, float]:
    """The 95 % limits of a mean over targets [targets], resampled by ``chosen`` [draws, targets]."""
    if len(values) < FEWEST_TARGETS:
        return float("nan"), float("nan")
    low, high = np.percentile(values[chosen].mean(1), [2.5, 97.5])
    return float(low), float(high)


def _columns(results: Results, ranked: pd.DataFrame) -> tuple[list[Array], dict[str, list[Array]]]:
    """The gains in points of every target's candidates, and by order what they are ranked by: higher comes first."""
    known = results.gains.merge(ranked, on=list(PAIR))
    known = known[np.isfinite(known.gain)]
    family = results.tasks.set_index("task").family
    known = known.assign(**{RANDOM: 0.0, FAMILY: 1.0 * (known.intermediate.map(family) == known.target.map(family))})
    columns = [own for _, own in known.groupby("target", sort=False) if len(own) >= FEWEST]
    orders = {}
    for name in (RANDOM, SIZE, FAMILY, *HEURISTICS, FUSION):
        values = [own[name].to_numpy("float64") for own in columns]
        if columns and np.isfinite(np.concatenate(values)).all():
            orders[name] = values
    if not set(HEURISTICS) & set(orders):
        orders.pop(FUSION, None)  # it would be the size again
    return [100 * own.gain.to_numpy("float64") for own in columns], orders


def _known(gains: list[Array], orders: list[Array]) -> Array:
    """Regrets [transfers, targets] of an order that is known before; equal ranks count as all their orders."""
    most = max(map(len, gains))
    regrets = [
        [own.max() - best_of_first(order, own, min(k, len(own))) for own, order in zip(gains, orders, strict=True)]
        for k in range(1, most + 1)
    ]
    return np.maximum(np.array(regrets), 0.0)


# The order by effects: what an intermediate has given to the targets that tried it says who is tried next.


def _grid(results: Results) -> Array:
    """Gains in points [intermediates, targets] of targets with two candidates or more, undefined where not finished."""
    known = results.gains[np.isfinite(results.gains.gain)]
    wide = known.pivot(index="intermediate", columns="target", values="gain")
    wide = wide[[name for name in dict.fromkeys(known.target) if wide[name].notna().sum() >= FEWEST]]
    return np.asarray(100 * wide.to_numpy("float64"))


def replayed(gains: Array, rng: np.random.Generator, replays: int = REPLAYS, penalty: float = PENALTY) -> Array:
    """Regrets [transfers, targets] of the order by effects, the mean over ``replays``; ``gains`` [rows, columns].

    In every round each target trains the candidate whose row has the largest effect in all that is trained by then, of
    equals any. Before the first round all are equal.
    """
    is_pair, best = np.isfinite(gains), np.nanmax(gains, axis=0)
    mask, regrets = np.zeros((replays, *gains.shape), bool), []
    for _ in range(int(is_pair.sum(0).max())):
        effects = np.round(_row_effects(gains, mask, penalty), ROUNDED)
        wanted = np.where(is_pair & ~mask, effects[:, :, None], -np.inf)
        is_best = (wanted == wanted.max(axis=1, keepdims=True)) & np.isfinite(wanted)
        next_row = np.where(is_best, rng.random(mask.shape), -1.0).argmax(axis=1)
        mask |= is_best & (np.arange(len(gains))[:, None] == next_row[:, None])
        regrets.append((best - np.where(mask, gains, -np.inf).max(axis=1)).mean(axis=0))
    return np.array(regrets)


def _row_effects(gains: Array, mask: Array, penalty: float) -> Array:
    """Effects of rows [..., rows] beside those of columns, by least squares, from the gains in ``mask`` [..., r, c].

    The squares of rows' effects are penalised. With the columns' effects solved for, (N - P P' + penalty I) x = b: N
    has the number of values of each row, P the mask over the square root of the number of each column, and b the sums
    of rows of values less their column's mean.
    """
    shared = mask / np.sqrt(np.maximum(mask.sum(-2, keepdims=True), 1))
    unit = np.eye(len(gains))
    normal = (mask.sum(-1) + penalty)[..., None] * unit - shared @ np.swapaxes(shared, -1, -2)
    sums = np.where(mask, _centred(gains, mask), 0.0).sum(-1, keepdims=True)
    return np.asarray(np.linalg.solve(normal, sums)[..., 0])


def _centred(values: Array, mask: Array) -> Array:
    """Values [rows, columns] less the mean of their column over ``mask`` [..., rows, columns]."""
    inside = np.where(mask, values, 0.0)
    return np.asarray(inside - inside.sum(-2, keepdims=True) / np.maximum(mask.sum(-2, keepdims=True), 1))
