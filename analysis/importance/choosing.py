"""Choosing an intermediate before any transfer is run: rankings, how far they were right, and what a budget costs.

A ranking often has one order for all targets, such as by size, and intermediates differ in what they teach whatever the
target. Targets then agree by luck, and an interval over targets calls a ranking of random numbers better than a random
order far too often. So the tasks of the ranking change places instead, in both roles at once (Hubert and Schultz 1976:
quadratic assignment; Mantel 1967), which keeps whatever its columns and rows have in common, and the gains stay. All
rankings are permuted alike, and p is that of the largest among them (Westfall and Young 1993).

Where tasks of a family are alike, in what they teach and in how they are ranked, tasks are no units that may change
places, and this alone alarms in .16 of simulated grids (docs/similarity.md). So in a second null what is typical of
pairs of families changes places with families, and what tells tasks of a family apart with the tasks within it. The
larger p counts. Tasks change places with those that serve in the same roles, families with those that have tasks in the
same roles: where few tasks are targets, a ranking has no number for the others in that role.

A budget is replay on a finished grid. Every target trains one candidate more at a time, in an order that is known
before (random, the size of the intermediate's data, its family, a stored similarity) or that follows the transfers
trained so far (the effects of rows and columns). Its regret is the best gain of its column less the best of those
trained, in points. The gain that judges also chooses, so after all candidates the regret is 0; and a column's best is
the best of noisy scores, which no order could have foreseen in full. So an order is held against a random one, never
against 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations, product
from math import comb, factorial, prod

import numpy as np
import pandas as pd

from analysis.gains.significance import LEVEL
from analysis.importance.grid import CATEGORY, features_of, pair_features, task_orders
from analysis.results.results import Results
from analysis.results.similarity import HEURISTICS, PAIR, reciprocal_rank_fusion
from analysis.tables import Declared, framed, interval_columns

ORDERS, FAMILY_DRAWS, ORDER_SEED = 999, 499, 20_241_123
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
    grid = _OrderGrid.of(ranked, gains, names, fewest)
    shown = [name for name in names if name in grid.orders]
    if not shown or not grid.targets:
        return pd.DataFrame({"p": np.nan, "p_corrected": np.nan}, index=list(names))
    known = np.stack([grid.orders[name] for name in shown])
    values, moved = _without_gaps(known), _arrangements(grid.roles)
    blocks = np.array_split(moved, -(-len(moved) // BLOCK))
    share, joint = _shares(np.concatenate([grid.mean_ndcg(values, block) for block in blocks]))
    codes = np.unique([family[task] for task in grid.tasks], return_inverse=True)[1]
    families, tasks = _family_arrangements(codes, grid.roles)
    if len(np.unique(families, axis=0)) >= factorial(FEWEST_FAMILIES):
        # Mean NDCG [draws, rankings], the observed first, where families change places, and tasks within families.
        typical = np.stack([family_typical(value, codes) for value in known])
        residuals = values - typical[:, codes[:, None], codes]
        total = np.empty((FAMILY_DRAWS + 1, len(values)))
        for draws in np.array_split(np.arange(FAMILY_DRAWS + 1), -(-FAMILY_DRAWS // BLOCK)):
            drawn, order = families[draws][:, codes], tasks[draws]
            between = typical[:, drawn[:, :, None], drawn[:, None]]
            total[draws] = grid.mean_ndcg_of(residuals[:, order[:, :, None], order[:, None]] + between)
        of_families = _shares(total)
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


def family_typical(values: Array, family: Array) -> Array:
    """What is typical of two families [families, families]: the mean of their pairs in values [tasks, tasks].

    A family of one task has no pair of its own; it gets the mean of the families that have one, and so do families of
    which no pair is defined, which no order asks for.
    """
    members = [family == number for number in range(family.max() + 1)]
    known = np.isfinite(values) & ~np.eye(len(values), dtype=bool)  # a task with itself is no pair
    pairs = [[values[np.outer(first, other) & known] for other in members] for first in members]
    typical = np.array([[block.mean() if block.size else np.nan for block in row] for row in pairs])
    within = np.diag(typical)[~np.isnan(np.diag(typical))]
    return np.where(np.isnan(typical), within.mean() if within.size else values[known].mean(), typical)


def _without_gaps(values: Array) -> Array:
    """Values [rankings, tasks, tasks] with what a row and a column let expect where a pair has none.

    An order may move such a place onto a finished pair. A task with itself is none, and stays undefined.
    """
    known = np.isfinite(values)
    row, column, mean = (
        np.where(known, values, 0).sum(axis, keepdims=True) / np.maximum(known.sum(axis, keepdims=True), 1)
        for axis in (2, 1, (1, 2))
    )
    return np.where(known | np.eye(values.shape[1], dtype=bool), values, row + column - mean)


def _family_arrangements(codes: Array, roles: Sequence[Array]) -> tuple[Array, Array]:
    """Orders of families [draws, families] and of tasks that stay in them [draws, tasks], their own first."""
    rng, role = np.random.default_rng(ORDER_SEED), np.empty_like(codes)
    for number, tasks in enumerate(roles):
        role[tasks] = number
    serves = np.zeros((codes.max() + 1, len(roles)), bool)
    serves[codes, role] = True
    families = np.tile(np.arange(len(serves)), (FAMILY_DRAWS + 1, 1))
    for kind in np.unique(serves, axis=0):
        alike = np.flatnonzero((serves == kind).all(axis=1))
        families[1:, alike] = alike[task_orders(len(alike), FAMILY_DRAWS, rng)]
    unit = codes * len(roles) + role
    orders = np.tile(np.arange(len(codes)), (FAMILY_DRAWS + 1, 1))
    for order in orders[1:]:
        order[np.argsort(unit, kind="stable")] = np.lexsort((rng.random(len(unit)), unit))
    return families, orders


class _OrderGrid:
    """Orders and scores as [tasks, tasks] (intermediate, target), undefined where there is no pair."""

    def __init__(self, tasks: list[str], orders: dict[str, Array], score: Array, fewest: int) -> None:
        self.tasks, self.orders = tasks, orders
        self.targets: list[tuple[int, Array]] = []
        self.relevances: list[Array] = []
        self.roles = _roles(~np.isnan(np.stack(list(orders.values()))).any(axis=0)) if orders else ()
        for target in range(score.shape[1]):
            candidates = np.flatnonzero(np.isfinite(score[:, target]))
            scores = score[candidates, target]
            if len(candidates) >= fewest and np.ptp(scores):
                self.targets.append((target, candidates))
                self.relevances.append((scores - scores.min()) / np.ptp(scores))
        self.best = [np.sort(relevance)[::-1] @ _discounts(len(relevance)) for relevance in self.relevances]
        others = len(score) - 1
        self.is_full = len(self.roles) == 1 and all(len(candidates) == others for _, candidates in self.targets)

    @classmethod
    def of(cls, ranked: pd.DataFrame, gains: pd.DataFrame, names: Sequence[str], fewest: int) -> _OrderGrid:
        """From frames of pairs; tasks without a finished pair are left out, and rankings without one of the pairs."""
        finished = gains[np.isfinite(gains.gain)]
        ranked = ranked[ranked.intermediate.isin(finished.intermediate) | ranked.intermediate.isin(finished.target)]
        ranked = ranked[ranked.target.isin(finished.target) | ranked.target.isin(finished.intermediate)]
        tasks = list(dict.fromkeys([*ranked.intermediate, *ranked.target]))
        position = {task: number for number, task in enumerate(tasks)}
        rows, columns = (ranked[role].map(position).to_numpy() for role in PAIR)
        score = np.full((len(tasks), len(tasks)), np.nan)
        score[finished.intermediate.map(position), finished.target.map(position)] = finished.score
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
        weights = _expected_discounts(values.swapaxes(1, 2)).swapaxes(1, 2) if self.is_full else values
        for (target, candidates), relevance, best in zip(self.targets, self.relevances, self.best, strict=True):
            places = weights[:, moved[:, candidates], moved[:, target, None]]
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
    identity = np.arange(sum(len(tasks) for tasks in roles))
    is_all = prod(factorial(len(tasks)) for tasks in roles) <= ORDERS + 1
    rng = np.random.default_rng(ORDER_SEED)
    others = [[rng.permutation(tasks) for tasks in roles] for _ in range(0 if is_all else ORDERS)]
    moved = list(product(*map(permutations, roles))) if is_all else [roles, *others]
    orders = np.tile(identity, (len(moved), 1))
    for number, tasks in enumerate(roles):
        orders[:, tasks] = [order[number] for order in moved]
    return orders


SIZE, FUSION, MODEL = "size", "fusion", "model"
RANKINGS = (*HEURISTICS, SIZE, FUSION, MODEL)
FEWEST_CANDIDATES = 4  # of three, the best is always among the first three
FEWEST_TARGETS = 3  # below it there is no interval
FEWEST_PAIRS = 20  # that a model is fitted on
PENALTIES = (1.0, 10.0, 100.0, 1000.0)
DRAWS, SEED = 2000, 20_240_901
QUALITIES = {
    "ndcg": Declared("float64", "normalised discounted cumulative gain; relevance is the gain from worst 0 to best 1"),
    "regret_1": Declared("float64", "percent by which the first falls short of the best score of the target"),
    "regret_3": Declared("float64", "the same for the best of the first three"),
    "tau": Declared("float64", "Kendall's tau b of ranking and gains"),
}
RANKING_QUALITIES = {
    "ranking": Declared("str", "what intermediates were ranked by"),
    "target": Declared("str", "the task they were ranked for"),
    "n_candidates": Declared("int64", "intermediates whose transfer is finished"),
    **QUALITIES,
    **{f"{name}_chance": Declared("float64", f"{name} of a random order") for name in QUALITIES},
}


@dataclass(frozen=True)
class Advice:
    """Which intermediates a task should be tried on first, and how right such rankings were on finished targets.

    ``intermediates`` has one row each, best first by ``fusion``: ``RANKINGS`` and the ``gain`` in points where it is
    stored. ``targets`` has ``RANKING_QUALITIES``, ``quality`` their means and limits (``summary``). ``missing`` says by
    measure and task why there is none.
    """

    task: str
    intermediates: pd.DataFrame
    targets: pd.DataFrame
    quality: pd.DataFrame
    missing: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def advice_for(
    task: str, results: Results, similarities: pd.DataFrame, missing: Mapping[str, Mapping[str, str]]
) -> Advice:
    """The intermediates of a study for ``task``, a target of its; no rows if it is none."""
    ranked = rankings(results, similarities)
    pairs = ranked.assign(gain=100 * results.gains.gain)
    of_task = pairs[pairs.target == task].sort_values(FUSION, ascending=False, kind="stable")
    rows = ranking_qualities(results, ranked)
    return Advice(task, of_task, rows, summary(rows, results, ranked), missing)


def better(quality: pd.DataFrame) -> list[str]:
    """The rankings of ``summary`` that are better than a random order, by NDCG, corrected for all of them."""
    return [] if quality.empty else quality.ranking[quality.p_corrected <= LEVEL].tolist()


def rankings(results: Results, similarities: pd.DataFrame) -> pd.DataFrame:
    """One row per pair of ``results.gains``, with a column for each of ``RANKINGS``: higher is to be preferred.

    ``size`` is the intermediate's number of rows; ``fusion`` the reciprocal rank fusion, within the target, of the
    similarities and the size; ``model`` the gain (points, from the target's mean) that a ridge regression expects
    which has seen no target of the target's family, from the features that are known of every pair. What cannot be
    known is undefined.
    """
    pairs = results.gains[list(PAIR)].reset_index(drop=True)
    frame = pairs.merge(similarities, on=list(PAIR), how="left")
    samples = results.tasks.set_index("task").samples.astype("Float64")
    frame[SIZE] = frame.intermediate.map(samples).to_numpy("float64", na_value=np.nan)
    frame[FUSION] = np.nan
    for _, rows in frame.groupby("target", sort=False):
        measured = [name for name in (*HEURISTICS, SIZE) if rows[name].notna().all()]
        if measured:
            frame.loc[rows.index, FUSION] = reciprocal_rank_fusion(rows[measured].to_numpy().T)
    frame[MODEL] = _expected_gains(results, similarities)
    return frame[[*PAIR, *RANKINGS]]


def ranking_qualities(results: Results, ranked: pd.DataFrame) -> pd.DataFrame:
    """One row per (ranking, target) with the columns ``RANKING_QUALITIES``, of targets of 4 finished transfers or more.

    A target whose transfers all score the same has no right order, and no row. A ranking that lacks one of a target's
    candidates has no row for it. Equal ranks count as all their orders.
    """
    finished = results.gains.merge(ranked, on=list(PAIR))
    finished = finished[np.isfinite(finished.gain)]
    rows = []
    for target, pairs in finished.groupby("target", sort=False):
        score = pairs.score.to_numpy()
        if len(pairs) < FEWEST_CANDIDATES or not np.ptp(score):
            continue
        chance = {f"{name}_chance": value for name, value in qualities(np.zeros(len(pairs)), score).items()}
        for name in RANKINGS:
            order = pairs[name].to_numpy("float64")
            if np.isfinite(order).all():
                about = {"ranking": name, "target": target, "n_candidates": len(pairs), "tau_chance": 0.0}
                rows.append({**chance, **about, **qualities(order, score)})
    return framed(pd.DataFrame(rows, columns=list(RANKING_QUALITIES)), RANKING_QUALITIES)


def qualities(order: np.ndarray, score: np.ndarray) -> dict[str, float]:
    """The ``QUALITIES`` of one ranking: ``order`` [candidates] is higher for what it prefers, ``score`` the truth."""
    from scipy.stats import kendalltau  # half a second, which a report of a kept answer does not need

    return {
        "ndcg": ndcg(order, score),
        "regret_1": regret(order, score, 1),
        "regret_3": regret(order, score, 3),
        "tau": float(kendalltau(order, score).statistic) if np.ptp(order) and np.ptp(score) else float("nan"),
    }


def ndcg(order: np.ndarray, score: np.ndarray) -> float:
    """Discounted cumulative gain (Jarvelin and Kekalainen 2002, discount log2(1 + rank)) over that of the best order.

    Relevance is linear in the score, from 0 for the worst to 1 for the best; undefined if all scores are equal. Equal
    places in the order share the mean of their discounts.
    """
    from sklearn.metrics import ndcg_score

    spread = np.ptp(score)
    return float(ndcg_score([(score - score.min()) / spread], [order])) if spread else float("nan")


def regret(order: np.ndarray, score: np.ndarray, k: int) -> float:
    """Percent by which the best of the first ``k`` falls short of the best; undefined unless the best is positive."""
    best = score.max()
    return float(100 * max(best - best_of_first(order, score, k), 0.0) / best) if best > 0 else float("nan")


def best_of_first(order: np.ndarray, score: np.ndarray, k: int) -> float:
    """Expected best score of the first k, where equal ranks are drawn at random: the largest of m of g tied ones."""
    last = np.sort(order)[::-1][k - 1]
    above, tied = score[order > last], np.sort(score[order == last])
    # Of g tied ones m are among the first k. The largest of m drawn from g is the i-th smallest (from 0) in C(i, m - 1)
    # of C(g, m) draws; a better one that is certain to be among the first k replaces it.
    m, g = k - len(above), len(tied)
    chances = np.array([comb(i, m - 1) for i in range(g)]) / comb(g, m)
    return float(chances @ np.maximum(tied, above.max() if len(above) else -np.inf))


def summary(
    rows: pd.DataFrame, results: Results, ranked: pd.DataFrame, *, draws: int = DRAWS, seed: int = SEED
) -> pd.DataFrame:
    """One row per ranking: the mean of every quality over targets, its chance, and 95 % limits ``_low``, ``_high``.

    Limits resample targets. Targets agree in what intermediates differ by, so the limits are too narrow to tell a
    ranking from a random order; ``p`` and ``p_corrected`` do that (``analysis.importance.choosing``).
    """
    family = results.tasks.set_index("task").family
    chances = p_of_orders(ranked, results.gains, RANKINGS, FEWEST_CANDIDATES, family)
    rng = np.random.default_rng(seed)
    lines = []
    for name, of_ranking in rows.groupby("ranking", sort=False):
        line: dict[str, object] = {"ranking": name, "n_targets": len(of_ranking), **chances.loc[str(name)].to_dict()}
        chosen = rng.integers(len(of_ranking), size=(draws, len(of_ranking)))
        for quality in QUALITIES:
            values = of_ranking[quality].to_numpy()
            means = _mean_over_targets(values[chosen])
            means = means[np.isfinite(means)]
            limits = (
                np.percentile(means, [2.5, 97.5]) if len(of_ranking) >= FEWEST_TARGETS and len(means) else [np.nan] * 2
            )
            line[quality] = float(_mean_over_targets(values[None])[0])
            line[f"{quality}_low"], line[f"{quality}_high"] = map(float, limits)
            line[f"{quality}_chance"] = float(_mean_over_targets(of_ranking[f"{quality}_chance"].to_numpy()[None])[0])
        lines.append(line)
    return pd.DataFrame(lines)


def _mean_over_targets(values: np.ndarray) -> np.ndarray:
    """Means [draws] of values [draws, targets] over the defined ones."""
    is_known = np.isfinite(values)
    with np.errstate(invalid="ignore"):
        means: np.ndarray = np.where(is_known, values, 0).sum(1) / is_known.sum(1)
    return means


def _expected_gains(results: Results, similarities: pd.DataFrame) -> np.ndarray:
    """The model's expectation [pairs], in points from the target's mean; undefined where too few pairs are known."""
    # Imported where they compute: scikit-learn takes a third of a second, which reports of kept rankings do without.
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import RidgeCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    features = pair_features(results, similarities=similarities)
    kinds = features_of(results)
    words = [column for feature in kinds.values() if feature.kind == CATEGORY for column in feature.columns]
    columns = [column for feature in kinds.values() for column in feature.columns if features[column].notna().all()]
    numbers = [column for column in columns if column not in words]
    gain = 100 * results.gains.gain
    centred = (gain - gain.groupby(results.gains.target).transform("mean")).to_numpy()
    family = results.gains.target.map(results.tasks.set_index("task").family).to_numpy()
    expected = np.full(len(features), np.nan)
    for left_out in dict.fromkeys(family):
        train = np.isfinite(centred) & (family != left_out)
        if columns and train.sum() >= FEWEST_PAIRS:
            prepared = make_column_transformer(
                (StandardScaler(), numbers),
                (OneHotEncoder(handle_unknown="ignore"), [name for name in words if name in columns]),
            )
            model = make_pipeline(prepared, RidgeCV(PENALTIES)).fit(features[train], centred[train])
            expected[family == left_out] = model.predict(features[family == left_out])
    return expected


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
    **interval_columns("{}", ", targets resampled"),
    "chance": Declared("float64", "regret of a random order, exactly"),
    "difference": Declared("float64", "regret - chance; below 0: better than a random order"),
    **interval_columns("difference_{}", ", targets resampled"),
}


def budget(results: Results, ranked: pd.DataFrame, *, draws: int = DRAWS, seed: int = SEED) -> pd.DataFrame:
    """One row per order and number of transfers per target, the columns ``BUDGET``; none without two candidates.

    ``ranked`` has a row per pair of ``results.gains`` with a column for every stored order, as ``rankings`` returns it;
    one that lacks a finished pair is left out. Limits resample targets, which are too few and too alike for a test.
    """
    gains, orders = _columns(results, ranked)
    counts = [len(order) for order in gains]
    if not gains:
        return framed(pd.DataFrame(columns=list(BUDGET)), BUDGET)
    regrets = {name: _regrets(gains, order) for name, order in orders.items()}
    regrets[EFFECTS] = replay(_grid(results), np.random.default_rng(seed))
    chosen = np.random.default_rng(seed).integers(len(gains), size=(draws, len(gains)))
    rows = []
    for name, regret in regrets.items():
        for k, (loss, chance) in enumerate(zip(regret, regrets[RANDOM], strict=True), start=1):
            about = {"order": name, "transfers": k, "cells": sum(min(k, count) for count in counts)}
            difference = dict(
                zip(("difference_low", "difference_high"), limits_over_targets(loss - chance, chosen), strict=True)
            )
            limits = dict(zip(("low", "high"), limits_over_targets(loss, chosen), strict=True))
            means = {"regret": loss.mean(), "chance": chance.mean(), "difference": (loss - chance).mean()}
            rows.append({**about, "n_targets": len(gains), **means, **limits, **difference})
    return framed(pd.DataFrame(rows), BUDGET)


def enough(frame: pd.DataFrame, order: str, points: float) -> int | None:
    """The fewest transfers per target after which an order's regret is below so many points; None if there are none."""
    rows = frame[(frame.order == order) & (frame.regret < points)]
    return int(rows.transfers.min()) if len(rows) else None


def row_share(results: Results) -> float:
    """The share of the variance of gains within targets that intermediates explain, as rows of a table with columns.

    That of a least-squares fit; undefined where nothing varies. ``share_by_chance`` has what noise alone would give.
    """
    values = _grid(results)
    mask = np.isfinite(values)
    centred = _deviations(values, mask)
    effects = _deviations(np.where(mask, _row_effects(values, mask, 1e-9)[:, None], np.nan), mask)
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
    pairs = results.gains.merge(ranked, on=list(PAIR))
    pairs = pairs[np.isfinite(pairs.gain)]
    family = results.tasks.set_index("task").family
    pairs = pairs.assign(**{RANDOM: 0.0, FAMILY: 1.0 * (pairs.intermediate.map(family) == pairs.target.map(family))})
    columns = [column for _, column in pairs.groupby("target", sort=False) if len(column) >= FEWEST]
    orders = {}
    for name in (RANDOM, SIZE, FAMILY, *HEURISTICS, FUSION):
        values = [column[name].to_numpy("float64") for column in columns]
        if columns and np.isfinite(np.concatenate(values)).all():
            orders[name] = values
    if not set(HEURISTICS) & set(orders):
        orders.pop(FUSION, None)  # it would be the size again
    return [100 * column.gain.to_numpy("float64") for column in columns], orders


def _regrets(gains: list[Array], orders: list[Array]) -> Array:
    """Regrets [transfers, targets] of an order that is known before; equal ranks count as all their orders."""
    most = max(map(len, gains))
    regrets = [
        [gain.max() - best_of_first(order, gain, min(k, len(gain))) for gain, order in zip(gains, orders, strict=True)]
        for k in range(1, most + 1)
    ]
    return np.maximum(np.array(regrets), 0.0)


# The order by effects: what an intermediate has given to the targets that tried it says who is tried next.


def _grid(results: Results) -> Array:
    """Gains in points [intermediates, targets] of targets with two candidates or more, undefined where not finished."""
    finished = results.gains[np.isfinite(results.gains.gain)]
    wide = finished.pivot(index="intermediate", columns="target", values="gain")
    wide = wide[[name for name in dict.fromkeys(finished.target) if wide[name].notna().sum() >= FEWEST]]
    return np.asarray(100 * wide.to_numpy("float64"))


def replay(gains: Array, rng: np.random.Generator, replays: int = REPLAYS, penalty: float = PENALTY) -> Array:
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
    sums = np.where(mask, _deviations(gains, mask), 0.0).sum(-1, keepdims=True)
    return np.asarray(np.linalg.solve(normal, sums)[..., 0])


def _deviations(values: Array, mask: Array) -> Array:
    """Values [rows, columns] less the mean of their column over ``mask`` [..., rows, columns]."""
    inside = np.where(mask, values, 0.0)
    return np.asarray(inside - inside.sum(-2, keepdims=True) / np.maximum(mask.sum(-2, keepdims=True), 1))
