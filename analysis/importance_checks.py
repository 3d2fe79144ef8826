"""What the paper's model is worth where it was not fitted: tasks left out, and ratings handed round among tasks."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from analysis.features import CONSTRUCT, features_of, pair_features
from analysis.importance import Array, KernelFit, PaperSetting, Progress, one_seed, paper_blocks
from analysis.nulls import permutation_p, permuted_ratings, task_orders
from analysis.results import Results

SCHEMES = ("target", "intermediate", "both")


def unseen_tasks(results: Results, setting: PaperSetting, *, similarities: pd.DataFrame | None = None) -> pd.DataFrame:
    """One row per scheme: Q2 of all pairs together, each predicted without its target, its intermediate, or both.

    Q2 compares with the mean of the training pairs, not of all, and is NaN where no pair is left to test on or nothing
    varies. Similarities take part if they were measured of every pair.
    """
    blocks, percent, gains = _without_stand_ins(results, setting, similarities)
    roles = {role: gains[role].to_numpy() for role in ("intermediate", "target")}
    found = []
    for scheme in SCHEMES:
        of_model, of_mean = 0.0, 0.0
        for train, test in _left_out(scheme, **roles):
            fit = KernelFit({name: block[train] for name, block in blocks.items()}, percent[train], setting)
            predicted = fit.predicted({name: block[test] for name, block in blocks.items()})
            of_model += ((percent[test] - predicted) ** 2).sum()
            of_mean += ((percent[test] - percent[train].mean()) ** 2).sum()
        q2 = float(1 - of_model / of_mean) if of_mean else np.nan
        found.append({"left_out": scheme, "q2": q2, "n_pairs": len(percent)})
    return pd.DataFrame(found)


def shuffled_ratings(
    results: Results,
    setting: PaperSetting,
    *,
    permutations: int,
    seed: int,
    similarities: pd.DataFrame | None = None,
    progress: Progress = lambda done, of: None,
) -> pd.DataFrame:
    """One row per construct: its importance, and what it is where ratings are handed round among tasks.

    A construct has to be known of every task. ``p_largest`` compares it with the largest of the constructs. Splits stay
    the same; similarities take part if they were measured of every pair.
    """
    blocks, _, _ = _without_stand_ins(results, setting, similarities)
    names = [name for name, one in features_of(results).items() if one.kind == CONSTRUCT and name in blocks]
    if not names:
        return pd.DataFrame(columns=["feature", "importance", "null_mean", "null_95", "p", "p_largest"])
    observed = _importances(results, setting, similarities, seed, names)
    null = []
    for order in task_orders(len(results.tasks), permutations, np.random.default_rng((seed, 3))):
        null.append(_importances(permuted_ratings(results, order), setting, similarities, seed, names))
        progress(len(null), permutations)
    drawn = pd.DataFrame(null)
    largest = drawn.max(axis=1).to_numpy()
    return pd.DataFrame(
        {
            "feature": name,
            "importance": observed[name],
            "null_mean": drawn[name].mean(),
            "null_95": drawn[name].quantile(0.95),
            "p": permutation_p(observed[name], drawn[name].to_numpy()),
            "p_largest": permutation_p(observed[name], largest),
        }
        for name in names
    )


def _importances(
    results: Results, setting: PaperSetting, similarities: pd.DataFrame | None, seed: int, names: list[str]
) -> dict[str, float]:
    blocks, percent, _ = _without_stand_ins(results, setting, similarities)
    rows, _ = one_seed(blocks, percent, setting, seed, names)
    return {row["feature"]: row["importance"] for row in rows}


def _without_stand_ins(
    results: Results, setting: PaperSetting, similarities: pd.DataFrame | None
) -> tuple[dict[str, Array], Array, pd.DataFrame]:
    percent = results.gains.percent.to_numpy("float64")
    usable = np.isfinite(percent)
    blocks = paper_blocks(results, pair_features(results, similarities=similarities), setting, None)
    return {name: block[usable] for name, block in blocks.items()}, percent[usable], results.gains[usable]


def _left_out(scheme: str, intermediate: Array, target: Array) -> Iterator[tuple[Array, Array]]:
    """Training and test rows, once per task left out, or once per pair of tasks."""
    if scheme == "both":
        for below, above in sorted({(min(one), max(one)) for one in zip(intermediate, target, strict=True)}):
            touched = np.isin(intermediate, [below, above]) | np.isin(target, [below, above])
            inside = np.isin(intermediate, [below, above]) & np.isin(target, [below, above])
            yield ~touched, inside
        return
    left = target if scheme == "target" else intermediate
    for task in dict.fromkeys(left):
        yield left != task, left == task
