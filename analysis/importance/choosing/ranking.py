"""Choosing an intermediate before any transfer is run: rankings, and how far they were right on a finished grid."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import comb

import numpy as np
import pandas as pd

from analysis.gains.significance import LEVEL
from analysis.importance.choosing.chance_order import p_of_orders
from analysis.importance.features import CATEGORY, features_of, pair_features
from analysis.importance.similarity import HEURISTICS, PAIR, reciprocal_rank_fusion
from analysis.results.results import Results
from analysis.tables import Declared, framed

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
    known = ranked.assign(gain=100 * results.gains.gain)
    own = known[known.target == task].sort_values(FUSION, ascending=False, kind="stable")
    rows = ranking_qualities(results, ranked)
    return Advice(task, own, rows, summary(rows, results, ranked), missing)


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
        known = [name for name in (*HEURISTICS, SIZE) if rows[name].notna().all()]
        if known:
            frame.loc[rows.index, FUSION] = reciprocal_rank_fusion(rows[known].to_numpy().T)
    frame[MODEL] = _expected_gains(results, similarities)
    return frame[[*PAIR, *RANKINGS]]


def ranking_qualities(results: Results, ranked: pd.DataFrame) -> pd.DataFrame:
    """One row per (ranking, target) with the columns ``RANKING_QUALITIES``, of targets of 4 finished transfers or more.

    A target whose transfers all score the same has no right order, and no row. A ranking that lacks one of a target's
    candidates has no row for it. Equal ranks count as all their orders.
    """
    known = results.gains.merge(ranked, on=list(PAIR))
    known = known[np.isfinite(known.gain)]
    rows = []
    for target, pairs in known.groupby("target", sort=False):
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
    ranking from a random order; ``p`` and ``p_corrected`` do that (``analysis.importance.choosing.chance_order``).
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
            means = _mean(values[chosen])
            means = means[np.isfinite(means)]
            limits = (
                np.percentile(means, [2.5, 97.5]) if len(of_ranking) >= FEWEST_TARGETS and len(means) else [np.nan] * 2
            )
            line[quality] = float(_mean(values[None])[0])
            line[f"{quality}_low"], line[f"{quality}_high"] = map(float, limits)
            line[f"{quality}_chance"] = float(_mean(of_ranking[f"{quality}_chance"].to_numpy()[None])[0])
        lines.append(line)
    return pd.DataFrame(lines)


def _mean(values: np.ndarray) -> np.ndarray:
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
