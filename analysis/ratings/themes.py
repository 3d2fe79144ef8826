"""What classes of tasks give and take: ratings by theme, the paper's counts of gains and harms, and tested contrasts.

A count of significant pairs depends on the sizes of test sets and counts every task up to 34 times. Beside the counts
stand contrasts of mean gains between themes, in which a task counts once in each role, tested by permuting the themes
over tasks.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.gains.significance import DRAWS, LEVEL
from analysis.results.results import Results
from analysis.tables import Declared, framed
from tasks.ratings import constructs, themes

SEED = 20_240_906
ROLES = ("intermediate", "target")
LARGER = 0.02  # of a score: twice the smallest step in print, asked of a gain or harm where nothing can be tested
TIE = 1e-9
ALL, NOT_COLLAPSED, NOT_CONTAMINATED, WITHOUT = "all", "not collapsed", "not contaminated", "without "

_ROLE = Declared("str", "which of the pair's two tasks is of the theme")
_THEME = Declared("str", "class of tasks")
COUNTS = {
    "role": _ROLE,
    "theme": _THEME,
    "n_tasks": Declared("int64", "tasks of the theme in this role"),
    "n_pairs": Declared("int64", "finished pairs"),
    "n_tested": Declared("int64", "pairs that have a p"),
    "gains": Declared("int64", f"pairs above the baseline with p <= {LEVEL}, uncorrected"),
    "harms": Declared("int64", f"pairs below the baseline with p <= {LEVEL}, uncorrected"),
    "gains_bh": Declared("int64", f"gains with p <= {LEVEL} after Benjamini and Hochberg over all pairs"),
    "harms_bh": Declared("int64", f"harms with p <= {LEVEL} after Benjamini and Hochberg over all pairs"),
    "larger_gains": Declared("int64", f"pairs at least {LARGER} of a score above the baseline, tested or not"),
    "larger_harms": Declared("int64", f"pairs at least {LARGER} of a score below the baseline, tested or not"),
}
EFFECTS = {
    "cells": Declared("str", "which pairs are used"),
    "role": Declared("str", "intermediate: what the task gives; target: what it takes"),
    "task": Declared("str", "id of the task"),
    "theme": _THEME,
    "n_pairs": Declared("int64", "finished pairs of the task in this role"),
    "points": Declared("float64", "its gain in points (x 100) beyond the role's mean, free of its partners' effects"),
}
CONTRASTS = {
    "cells": Declared("str", "which pairs are used"),
    "role": _ROLE,
    "theme_a": Declared("str", "first theme"),
    "theme_b": Declared("str", "second theme"),
    "n_a": Declared("int64", "tasks of the first"),
    "n_b": Declared("int64", "tasks of the second"),
    "difference": Declared("float64", "mean points of the first theme's tasks less the second's"),
    "by_chance": Declared("float64", "size that 95 % of the differences between permuted themes stay below"),
    "p": Declared("float64", "share of permutations of themes over tasks with as large a difference"),
    "p_max": Declared("float64", "the same for the largest difference of all contrasts in this role"),
}


def rating_means(results: Results) -> pd.DataFrame:
    """One row per task, by theme and falling overall mean: raters, mean of every construct over raters, and overall.

    ``overall`` is the mean of the constructs' means, if each of them is declared with its scale.
    A task without ratings has a row without means.
    """
    means = results.ratings.pivot_table(index="task", columns="construct", values="value", aggfunc="mean")
    rated = results.constructs
    frame = results.tasks[["task", "title", "theme"]].merge(means[rated], left_on="task", right_index=True, how="left")
    raters = results.ratings.groupby("task").rater.nunique()
    frame.insert(3, "n_raters", frame.task.map(raters).fillna(0).astype("int64"))
    frame["overall"] = frame[rated].mean(axis=1) if rated and set(rated) <= set(constructs()) else np.nan
    order = {name: position for position, name in enumerate(themes())}
    frame["place"] = frame.theme.map(order).fillna(len(order))
    frame = frame.sort_values(["place", "overall"], ascending=[True, False], kind="stable")
    return frame.drop(columns="place").reset_index(drop=True)


def theme_counts(results: Results) -> pd.DataFrame:
    """One row per role and theme: the columns of COUNTS; every theme that a task of the results has is there."""
    of_task = _themes_of(results)
    rows = []
    for role in ROLES:
        for theme in _present_themes(results):
            tasks = [task for task, theme_of_task in of_task.items() if theme_of_task == theme]
            part = results.gains[results.gains[role].isin(tasks) & results.gains.gain.notna()]
            rows.append((role, theme, part[role].nunique(), len(part), int(part.p.notna().sum()), *_signs(part)))
    return framed(pd.DataFrame(rows, columns=list(COUNTS)), COUNTS)


def task_effects(results: Results) -> pd.DataFrame:
    """One row per choice of pairs, role and task: the columns of EFFECTS.

    Gains are taken apart by least squares into what the intermediate gives and what the target takes, so that missing
    pairs bias no effect. Points are undefined where the pairs fall into parts that share no task.
    """
    rows = []
    of_task = _themes_of(results)
    for name, kept in _pair_choices(results):
        for role, effects in zip(ROLES, _side_effects(kept), strict=True):
            counts = kept[role].value_counts()
            rows += [
                (name, role, task, of_task.get(str(task), ""), counts[task], points) for task, points in effects.items()
            ]
    return framed(pd.DataFrame(rows, columns=list(EFFECTS)), EFFECTS)


def theme_contrasts(effects: pd.DataFrame, *, draws: int = DRAWS, seed: int = SEED) -> pd.DataFrame:
    """One row per choice of pairs, role and two themes, from ``task_effects``: the columns of CONTRASTS.

    Tasks without a theme take no part. Two themes of one task each are compared too, with the p that permutation gives.
    """
    rows = [
        (cells, role, *row)
        for (cells, role), part in effects[effects.theme.isin(list(themes()))].groupby(["cells", "role"], sort=False)
        for row in _contrasts(part, draws, seed)
    ]
    return framed(pd.DataFrame(rows, columns=list(CONTRASTS)), CONTRASTS)


def _themes_of(results: Results) -> dict[str, str]:
    return dict(zip(results.tasks.task, results.tasks.theme, strict=True))


def _present_themes(results: Results) -> list[str]:
    """Themes that tasks have, in the order of their declaration."""
    return [name for name in themes() if (results.tasks.theme == name).any()]


def _signs(pairs: pd.DataFrame) -> Iterator[int]:
    """Gains and harms of pairs: uncorrected, corrected, and larger ones."""
    for counts in (pairs.p <= LEVEL, pairs.p_bh <= LEVEL, pairs.gain.abs() >= LARGER - TIE):
        yield from (int((counts & (pairs.gain > 0)).sum()), int((counts & (pairs.gain < 0)).sum()))


def _pair_choices(results: Results) -> Iterator[tuple[str, pd.DataFrame]]:
    """All finished pairs; those not collapsed or contaminated, where some are; and those without each family."""
    done = results.gains[results.gains.gain.notna()]
    yield ALL, done
    for name, mark in ((NOT_COLLAPSED, done.collapsed), (NOT_CONTAMINATED, done.contaminated)):
        marked = mark.fillna(False).astype(bool)
        if marked.any():
            yield name, done[~marked]
    families = results.tasks.groupby("family", sort=False).task.agg(set)
    for family, members in families.items() if len(families) > 2 else ():
        yield f"{WITHOUT}{family}", done[~done[list(ROLES)].isin(members).any(axis=1)]


def _side_effects(pairs: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
    """Points by intermediate and by target, each with mean 0; NaN where the pairs do not tell them apart."""
    # Least squares on one column per intermediate and one per target. The columns of either side add up to 1, so that
    # effects are known but for a constant (rank: all columns less 1), which centring each side takes off.
    sides = [pd.get_dummies(pairs[role], dtype=float) for role in ROLES]
    design = np.concatenate([side.to_numpy() for side in sides], axis=1)
    if not len(pairs) or np.linalg.matrix_rank(design) < design.shape[1] - 1:
        return pd.Series(np.nan, sides[0].columns), pd.Series(np.nan, sides[1].columns)
    effects = 100 * np.linalg.lstsq(design, pairs.gain.to_numpy(), rcond=None)[0]
    parts = np.split(effects, [sides[0].shape[1]])
    first, second = (pd.Series(part - part.mean(), side.columns) for part, side in zip(parts, sides, strict=True))
    return first, second


def _contrasts(effects: pd.DataFrame, draws: int, seed: int) -> Iterator[tuple[object, ...]]:
    """Contrasts of one role: themes, numbers of tasks, difference, its size by chance, p and p of the largest."""
    points, of_task = effects.points.to_numpy(), effects.theme.to_numpy()
    present = [name for name in themes() if name in set(of_task)]
    pairs = list(combinations(present, 2))
    if not pairs or np.isnan(points).any():
        return
    # The null: themes say nothing, so every assignment of the tasks' points to the themes is as likely. Contrasts of
    # small themes vary more; for the largest of all, each is put in units of its own spread by chance.
    rng = np.random.default_rng(seed)
    permuted = rng.permuted(np.tile(points, (draws, 1)), axis=1)
    members = {name: of_task == name for name in present}
    observed = np.array([_difference(points[None], members, pair)[0] for pair in pairs])
    chance = np.abs(np.stack([_difference(permuted, members, pair) for pair in pairs], axis=1))
    widths = np.sqrt([sum(1 / members[name].sum() for name in pair) for pair in pairs])  # in units of a task's sd
    largest = (chance / widths).max(axis=1)
    for number, (first, second) in enumerate(pairs):
        size = abs(observed[number])
        p = (1 + np.count_nonzero(chance[:, number] >= size - TIE)) / (draws + 1)
        p_max = (1 + np.count_nonzero(largest >= size / widths[number] - TIE)) / (draws + 1)
        counts = (int(members[first].sum()), int(members[second].sum()))
        yield first, second, *counts, observed[number], np.quantile(chance[:, number], 1 - LEVEL), p, p_max


def _difference(
    points: NDArray[np.float64], members: dict[str, NDArray[np.bool_]], pair: tuple[str, str]
) -> NDArray[np.float64]:
    """Mean of the first theme's tasks less that of the second, of each row of ``points`` ``[draws, tasks]``."""
    first, second = (points[:, members[name]].mean(axis=1) for name in pair)
    difference: NDArray[np.float64] = first - second
    return difference
