"""A grid of gains and its features as arrays [intermediate, target], made ready for the guarded analysis."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.importance.features import CATEGORY, CONSTRUCT, SIMILARITY, SIZE, features_of, log_ratios, task_facts
from analysis.importance.specification import Specification
from analysis.results.results import Results
from tasks.plain_text import counted

Array = np.ndarray
WINSORISED_SHARE = 0.05  # of the centred gains at either end
LARGEST_R = 0.9999  # beyond it Fisher's z says nothing


@dataclass(frozen=True)
class Grid:
    """Gains [tasks, tasks] with their weights, and what is known of the tasks [tasks] and pairs [tasks, tasks].

    ``family`` and ``data_set`` [tasks] count from 0; ``notes`` say what was left out and why,
    ``left_out`` names features.
    """

    tasks: tuple[str, ...]
    family: Array
    families: tuple[str, ...]
    mask: Array
    outcome: Array
    weights: Array
    facts: Mapping[str, Array]
    kinds: Mapping[str, str]
    left_out: Mapping[str, str]
    notes: tuple[str, ...]
    heterogeneity: float
    data_set: Array

    @property
    def constructs(self) -> list[str]:
        """The features that people rated."""
        return [name for name, kind in self.kinds.items() if kind == CONSTRUCT]

    @property
    def others(self) -> list[str]:
        """All other features."""
        return [name for name, kind in self.kinds.items() if kind != CONSTRUCT]


def grid_of(results: Results, specification: Specification, similarities: pd.DataFrame | None = None) -> Grid:
    """The arrays of one specification; what cannot be used is masked or left out, and noted."""
    gains, notes = _cells(results.gains, specification.cells)
    values, errors = _outcomes(gains, specification.outcome)
    facts, kinds, left_out = _facts(results, similarities, specification.without_rater)
    rated = [facts[name] for name, kind in kinds.items() if kind == CONSTRUCT]
    tasks = results.tasks.task.tolist()
    kept = [k for k in range(len(tasks)) if np.isfinite([fact[k] for fact in rated]).all()]
    position = {tasks[k]: row for row, k in enumerate(kept)}
    usable = (np.isfinite(values) & gains.intermediate.isin(position) & gains.target.isin(position)).to_numpy()
    pairs = tuple(gains[role][usable].map(position).to_numpy("int64") for role in ("intermediate", "target"))
    mask, outcome, error = (np.zeros((len(kept), len(kept)), dtype=kind) for kind in (bool, float, float))
    mask[pairs], outcome[pairs], error[pairs] = True, values[usable], errors[usable]
    if specification.outcome == "winsorised" and mask.any():
        outcome = _winsorised(outcome, mask)
    weights, heterogeneity = _weights(outcome, error, mask, specification.weights)
    families, family = np.unique(results.tasks.family.iloc[kept].fillna("").astype(str), return_inverse=True)
    unrated = [task for task in tasks if task not in position]
    notes += _left_out_notes(results, specification, np.isfinite(values), unrated)
    return Grid(
        tuple(position),
        family,
        tuple(families),
        mask,
        outcome,
        weights,
        {name: fact[np.ix_(kept, kept)] if fact.ndim == 2 else fact[kept] for name, fact in facts.items()},
        kinds,
        left_out,
        tuple(notes),
        heterogeneity,
        np.unique(results.tasks.dataset.iloc[kept].fillna("").astype(str), return_inverse=True)[1],
    )


def _left_out_notes(
    results: Results, specification: Specification, is_defined: Array, unrated: list[str]
) -> Iterator[str]:
    """Notes on pairs and tasks that take no part, and on a rater to be left out who rated nothing."""
    rater = specification.without_rater
    if rater and rater not in set(results.ratings.rater):
        yield f"no rating is by {rater}, so that nobody's ratings are left out"
    if undefined := int((~is_defined).sum()):
        yield f"{counted(undefined, 'pair')} without a defined outcome left out"
    if unrated:
        yield f"tasks without ratings are left out: {', '.join(unrated)}"


def _cells(gains: pd.DataFrame, which: str) -> tuple[pd.DataFrame, list[str]]:
    """The rows to use, with a note on those that are not."""
    if which == "all":
        return gains, []
    flag = gains[which.removeprefix("not ")]
    dropped = flag.fillna(False).astype(bool)
    notes = [f"{counted(int(dropped.sum()), 'pair')} {which.removeprefix('not ')}, left out"]
    notes += [f"of {counted(int(flag.isna().sum()), 'pair')} it is not known; they stay"] * bool(flag.isna().any())
    return gains[~dropped], notes


def _outcomes(gains: pd.DataFrame, outcome: str) -> tuple[Array, Array]:
    """What is explained, per pair, and its standard error (NaN for ranks, which have none)."""
    score, baseline, error = (gains[column].to_numpy("float64") for column in ("score", "baseline", "standard_error"))
    if outcome == "percent":
        return gains.percent.to_numpy("float64"), 100 * error / baseline
    points, errors = 100 * (score - baseline), 100 * error
    is_r = (gains.metric == "pearson_r").to_numpy()
    inside = (np.abs(score) < LARGEST_R) & (np.abs(baseline) < LARGEST_R)
    with np.errstate(invalid="ignore", divide="ignore"):
        z = np.where(inside, 100 * (np.arctanh(score) - np.arctanh(baseline)), np.nan)
        points = np.where(is_r, z, points)
        errors = np.where(is_r, errors / (1 - ((score + baseline) / 2) ** 2), errors)
    if outcome == "ranks":
        ranks = pd.Series(points, index=gains.index).groupby(gains.target).rank(pct=True)
        return 100 * ranks.to_numpy(), np.full(len(gains), np.nan)
    return points, errors


def _facts(
    results: Results, similarities: pd.DataFrame | None, without_rater: str
) -> tuple[dict[str, Array], dict[str, str], dict[str, str]]:
    """Per feature its facts and kind; and why a feature is left out."""
    table = task_facts(results, without_rater=without_rater or None)
    facts: dict[str, Array] = {}
    kinds, left_out = {}, {}
    for name, feature in features_of(results).items():
        if feature.kind == SIMILARITY:
            fact = _matrix(similarities, name, list(table.index))
        elif feature.kind == CATEGORY:
            words = table[feature.of].fillna("").astype(str)
            fact = np.unique(words, return_inverse=True)[1] if (words != "").all() else None
        else:
            numbers = table[feature.of].astype("Float64").to_numpy("float64", na_value=np.nan)
            fact = log_ratios(numbers, np.ones(1)) if feature.kind == SIZE else numbers
        if fact is None or (feature.kind != CONSTRUCT and not np.isfinite(fact).all()):
            left_out[name] = "not measured for every task"
        elif np.nanmax(fact) == np.nanmin(fact):
            left_out[name] = "the same for all tasks"
        else:
            facts[name], kinds[name] = fact, feature.kind
    return facts, kinds, left_out


def _matrix(similarities: pd.DataFrame | None, name: str, tasks: list[str]) -> Array | None:
    """A similarity [tasks, tasks] with 0 in the diagonal, or None where a pair has none."""
    if similarities is None or name not in similarities:
        return None
    wide = similarities.pivot(index="intermediate", columns="target", values=name).reindex(index=tasks, columns=tasks)
    similarity: Array = wide.to_numpy("float64").copy()
    np.fill_diagonal(similarity, 0.0)
    return similarity


def _winsorised(outcome: Array, mask: Array) -> Array:
    """The outcome with the 5 % largest deviations from its target's mean pulled in at either end."""
    means = np.where(mask, outcome, 0.0).sum(0) / np.maximum(mask.sum(0), 1)
    centred = outcome - means
    low, high = np.quantile(centred[mask], [WINSORISED_SHARE, 1 - WINSORISED_SHARE])
    pulled: Array = np.where(mask, np.clip(centred, low, high), 0.0)
    return pulled


def _weights(outcome: Array, error: Array, mask: Array, how: str) -> tuple[Array, float]:
    """Weights [tasks, tasks], and the variance between pairs beyond their standard errors that they allow for.

    The variance is that of DerSimonian and Laird, within targets: without it the few targets with large test sets would
    decide alone. Where errors are not known, all pairs weigh the same.
    """
    errors = error[mask]
    if how == "equal" or not len(errors) or not np.isfinite(errors).all() or (errors <= 0).any():
        return mask * 1.0, float("nan")
    # 1. Fixed-effect weights 1 / error^2, and Cochran's Q: the weighted squares of gains about the means of targets.
    own = np.zeros(mask.shape)
    own[mask] = 1 / errors**2
    totals = own.sum(0)
    means = (own * outcome).sum(0) / np.where(totals > 0, totals, 1)
    excess = (own * (outcome - means) ** 2).sum() - (mask.sum() - (totals > 0).sum())
    # 2. Without a variance between pairs Q would be its degrees of freedom; its excess, over what one unit of variance
    #    adds to Q, is the variance between pairs (DerSimonian and Laird 1986), from 0.
    scale = (totals - (own**2).sum(0) / np.where(totals > 0, totals, 1)).sum()
    between = max(0.0, float(excess / scale)) if scale > 0 else 0.0
    weights = np.zeros(mask.shape)
    weights[mask] = 1 / (errors**2 + between)
    return weights, between
