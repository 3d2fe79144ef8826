"""Every gain once more by a second metric, from the stored predictions, so that no claim hangs on one of them.

Targets of classes are scored by accuracy beside macro-F1, of several classes by micro-F1 (all decisions pooled), of
numbers by Spearman's correlation beside Pearson's. Test items are resampled as for the first metric.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from adapters_store.roles import GAIN_ROLES
from adapters_store.store import Store
from analysis.gains.cells import Manifest, Predictions
from analysis.gains.corrections import benjamini_hochberg
from analysis.gains.gains import uncorrected_gains
from analysis.gains.significance import FloatArray, Groups, group_weights, score_draws
from analysis.tables import Declared, framed

OTHER = {"macro_f1": "accuracy", "multilabel_f1": "micro-F1", "pearson_r": "Spearman r"}
OTHERS = {
    "intermediate": Declared("str", "task whose adapter is below"),
    "target": Declared("str", "task that was trained and tested"),
    "setting": Declared("str", "share of the target's training data"),
    "metric": Declared("str", "the second metric, by its name"),
    "baseline": Declared("float64", "score of the target alone"),
    "score": Declared("float64", "score of the transfer"),
    "points": Declared("float64", "100 (score - baseline)"),
    "low": Declared("float64", "lower end of its 95 % interval"),
    "high": Declared("float64", "its upper end"),
    "p": Declared("float64", "two-sided, that the true gain is 0; not corrected"),
    "p_bh": Declared("float64", "p after Benjamini and Hochberg over all gains by second metrics"),
}


def other_gains(store: Store, manifest: Manifest, *, draws: int, seed: int) -> pd.DataFrame:
    """One row per planned (intermediate, target, setting), in the order of ``gains``: the columns OTHERS."""
    frame = uncorrected_gains(store, manifest, GAIN_ROLES, draws=draws, seed=seed, scored=other_scores)
    rows = frame.assign(metric=frame.metric.map(OTHER), p_bh=benjamini_hochberg(frame.p.to_numpy(float)))
    return framed(rows, OTHERS)


def other_scores(
    metric: str, shown: Predictions, decided: NDArray[Any], groups: Groups, draws: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Scores ``[lanes]`` of decisions ``[lanes, n]`` by the second metric, and resampled ``[draws, lanes]``.

    Ranks behind Spearman's correlation are those among all test items, in every draw.
    """
    if metric == "pearson_r":
        from scipy.stats import rankdata  # half a second, which a report of kept gains does not need

        ranks, labels = rankdata(decided, axis=1), rankdata(shown.labels)
        resampled = score_draws(metric, labels, groups, ranks, draws=draws, rng=rng)
        return np.array([_correlation(labels, lane) for lane in ranks]), resampled
    tops, bottoms = _counts(metric, shown.labels, decided)
    return tops.sum(axis=1) / bottoms.sum(axis=1), ratio_draws(tops, bottoms, groups, draws, rng)


def ratio_draws(
    tops: FloatArray, bottoms: FloatArray, groups: Groups, draws: int, rng: np.random.Generator
) -> FloatArray:
    """Resampled sums of ``tops`` over those of ``bottoms``, both ``[lanes, n]``: ``[draws, lanes]``, NaN over 0."""
    above, bottom_sums = (
        np.stack([np.bincount(groups.index, weights=lane, minlength=groups.count) for lane in part], axis=1)
        for part in (tops, bottoms)
    )
    blocks = []
    for weights in group_weights(groups, draws, rng):
        totals = weights @ bottom_sums
        blocks.append(np.where(totals > 0, (weights @ above) / np.where(totals > 0, totals, 1.0), np.nan))
    return np.concatenate(blocks)


def _counts(metric: str, labels: NDArray[Any], decided: NDArray[Any]) -> tuple[FloatArray, FloatArray]:
    """Numerator and denominator of every item ``[lanes, n]``: right of one, or twice the hits of all labels."""
    if metric == "multilabel_f1":
        return 2.0 * (labels * decided).sum(axis=2), (labels + decided).sum(axis=2).astype(np.float64)
    right = (decided == labels).astype(np.float64)
    return right, np.ones(right.shape)


def _correlation(first: FloatArray, other: FloatArray) -> float:
    """Pearson's correlation; NaN where a side does not vary."""
    is_varied = np.ptp(first) > 0 and np.ptp(other) > 0
    return float(np.corrcoef(first, other)[0, 1]) if is_varied else float("nan")
