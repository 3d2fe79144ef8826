"""What classes of tasks give and take: ratings by theme, the paper's counts of gains and harms, and tested contrasts.

A count of significant pairs depends on the sizes of test sets and counts every task up to 34 times. Beside the counts
stand contrasts of mean gains between themes, in which a task counts once in each role, tested in a model in which
families of tasks differ at random (``analysis.ratings.random_families``).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from analysis.gains.significance import DRAWS, LEVEL
from analysis.ratings.random_families import RATIOS, Chance, Classes, numbered
from analysis.results.results import Results
from analysis.tables import Declared, framed
from tasks.ratings import constructs, themes

SEED = 20_240_906
ROLES = ("intermediate", "target")
LARGER = 0.02  # of a score: twice the smallest step in print, asked of a gain or harm where nothing can be tested
TIE = 1e-9
ALL, NOT_COLLAPSED, NOT_CONTAMINATED, WITHOUT = "all", "not collapsed", "not contaminated", "without "
CLASSIFIED = "targets of classes"  # points of F1 and of a correlation are not the same

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
    "family": Declared("str", "family of the task"),
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
    "difference": Declared("float64", "points of the first theme's tasks less the second's, families being random"),
    "by_chance": Declared("float64", "size that 95 % of the differences stay below where themes do not differ"),
    "p": Declared("float64", "share of such draws in which the likelihood ratio of the contrast is as large"),
    "p_max": Declared("float64", "the same for the largest of all contrasts in this role"),
    "between_families": Declared("float64", "share of the variance that is between families, if themes are alike"),
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
    of_task, family = _themes_of(results), dict(zip(results.tasks.task, results.tasks.family, strict=True))
    for name, kept in _pair_choices(results):
        for role, effects in zip(ROLES, _side_effects(kept), strict=True):
            counts = kept[role].value_counts()
            rows += [
                (name, role, task, of_task.get(task, ""), family.get(task, task), counts[task], points)
                for task, points in effects.items()
            ]
    return framed(pd.DataFrame(rows, columns=list(EFFECTS)), EFFECTS)


def theme_contrasts(effects: pd.DataFrame, *, draws: int = DRAWS, seed: int = SEED) -> pd.DataFrame:
    """One row per choice of pairs, role and two themes, from ``task_effects``: the columns of CONTRASTS.

    Tasks without a theme take no part. Themes of one task each are compared too, without a p.
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
    """All finished pairs; those not collapsed, contaminated or scored by r, where some are; those without a family."""
    done = results.gains[results.gains.gain.notna()]
    yield ALL, done
    for name, mark in ((NOT_COLLAPSED, done.collapsed), (NOT_CONTAMINATED, done.contaminated)):
        marked = mark.fillna(False).astype(bool)
        if marked.any():
            yield name, done[~marked]
    is_classified = done.metric != "pearson_r"
    if is_classified.nunique() > 1:
        yield CLASSIFIED, done[is_classified]
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
    order = {name: place for place, name in enumerate(themes())}
    rows = effects.sort_values("theme", key=lambda column: column.map(order), kind="stable")
    present, points = list(dict.fromkeys(rows.theme)), rows.points.to_numpy()[:, None]
    if len(present) < 2 or np.isnan(points).any():
        return
    classes = Classes(numbered(rows.theme.tolist()), numbered(rows.family.tolist()))
    observed = classes.fits(points - points.mean())
    unknown = np.full(observed.differences.shape, np.nan)
    chance = classes.chance(observed, draws, seed) if classes.is_testable else Chance(unknown, unknown, unknown)
    ratio = RATIOS[observed.ratio[0]]
    counts = rows.theme.value_counts()
    for number, (first, second) in enumerate((present[a], present[b]) for a, b in classes.contrasts):
        tested = (values[number, 0] for values in (observed.differences, chance.differences, chance.p, chance.p_max))
        yield first, second, int(counts[first]), int(counts[second]), *tested, ratio / (1 + ratio)
