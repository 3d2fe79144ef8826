"""Expressed against perceived: how ratings differ with and without what a supporter expresses.

The question is that of Xu and Jiang ("Multi-dimensional Evaluation of Empathetic Dialog Responses", Table 2): for every
intent and every rating, the mean rating where the intent appears and where it does not. There one utterance of each
dialogue was rated by a person who is no part of it; here rows may share a dialogue and then its level, so that errors,
tests and corrections take groups as the units that were drawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtri

from analysis.gains.corrections import corrections_of
from analysis.gains.maxima import reaches
from analysis.gains.significance import DRAWS, LEVEL
from analysis.results.people.clustered import WITH, WITHOUT, TwoMeans, joint_tests
from analysis.tables import Declared, framed
from tasks.errors import BadInput
from tasks.plain_text import counted

DECIDES = "p_max_table"
RENAMED = {"p_max_target": "p_max_rating", "p_max_grid": DECIDES}
FEWEST_GROUPS = 4  # below which a correlation has no interval
EXPRESSED = {
    "intent": Declared("str", "what a row expresses or does not"),
    "rating": Declared("str", "how a row was rated"),
    "rows_with": Declared("int64", "rated rows with the intent"),
    "groups_with": Declared("int64", "groups (dialogues) that have such rows"),
    "mean_with": Declared("float64", "mean rating of these rows"),
    "error_with": Declared("float64", "its standard error, clustered by group; undefined where they are of one group"),
    "rows_without": Declared("int64", "rated rows without it"),
    "groups_without": Declared("int64", "groups that have such rows"),
    "mean_without": Declared("float64", "mean rating of these"),
    "error_without": Declared("float64", "its standard error"),
    "difference": Declared("float64", "mean with less mean without"),
    "error": Declared("float64", "standard error of the difference, clustered by group"),
    "df": Declared("float64", "its degrees of freedom: how many independent groups it rests on, about"),
    "low": Declared("float64", "lower end of the difference's 95 % interval"),
    "high": Declared("float64", "upper end"),
    "p": Declared("float64", "two-sided p that there is no difference"),
    "p_bh": Declared("float64", "p after Benjamini and Hochberg over the table"),
    "p_by": Declared("float64", "p after Benjamini and Yekutieli over the table"),
    "p_holm": Declared("float64", "p after Holm over the table"),
    "p_max_rating": Declared("float64", "p after the step-down maximum over the intents of this rating"),
    DECIDES: Declared("float64", "p after the step-down maximum over the table: it decides what is called different"),
}
CORRELATIONS = {
    "rating": Declared("str", "a rating"),
    "other": Declared("str", "another rating, or the same"),
    "rho": Declared("float64", "Spearman's correlation of the groups' means of both; undefined where one never varies"),
    "low": Declared("float64", "lower end of its 95 % interval (Bonett and Wright 2000); undefined below 4 groups"),
    "high": Declared("float64", "upper end"),
    "groups": Declared("int64", "groups that have both"),
    "rho_rows": Declared("float64", "Spearman's correlation over the rows that have both"),
    "rows": Declared("int64", "these rows"),
}


@dataclass(frozen=True)
class Rated:
    """Rows with the name of their group, intents (1, 0, or NaN where unknown) and ratings (NaN where not rated).

    BadInput for fewer than two groups, and for an intent that no row or every row has.
    """

    group: pd.Series
    intents: pd.DataFrame
    ratings: pd.DataFrame

    def __post_init__(self) -> None:
        """Refuse what cannot be compared."""
        groups = self.group.nunique()
        if groups < 2:
            raise BadInput(f"--group: {counted(groups, 'group')} with ratings; errors need two, and want thirty")
        for name in self.intents:
            known = self.intents[name].dropna()
            if not (known == 1).any():
                raise BadInput(f"intent {name!r}: nobody has it in {counted(len(known), 'rated row')}; leave it out")
            if (known == 1).all():
                raise BadInput(f"intent {name!r}: all {counted(len(known), 'rated row')} have it; leave it out")


def expressed(rated: Rated, *, draws: int = DRAWS, seed: int = 0) -> pd.DataFrame:
    """The frame EXPRESSED, one row per rating and intent, in their order; ``draws`` are those of the maxima.

    A row without a test takes part in no correction: one side has no rows, or all of its rows are of one group, or no
    rating varies.
    """
    names, group = np.unique(rated.group.to_numpy(str), return_inverse=True)
    places = list(product(rated.ratings, rated.intents))
    means = [_means(rated, rating, intent, group, len(names)) for rating, intent in places]
    p = np.array([pair.p for pair in means])
    joint = joint_tests(means, [rating for rating, _ in places], draws, np.random.default_rng(seed))
    corrected = corrections_of(p, *reaches(joint)).rename(columns=RENAMED)
    rows = [_row(rating, intent, pair) for (rating, intent), pair in zip(places, means, strict=True)]
    return framed(pd.DataFrame(rows).assign(p=p).join(corrected), EXPRESSED)


def _means(rated: Rated, rating: str, intent: str, group: np.ndarray, count: int) -> TwoMeans:
    values, has = rated.ratings[rating].to_numpy(np.float64), rated.intents[intent].to_numpy(np.float64)
    known = np.isfinite(values) & np.isfinite(has)
    return TwoMeans.of(values[known], has[known] == 1, group[known], count)


def _row(rating: str, intent: str, pair: TwoMeans) -> dict[str, Any]:
    sides = {
        f"{what}_{side}": values[place]
        for side, place in (("with", WITH), ("without", WITHOUT))
        for what, values in (("rows", pair.rows), ("groups", pair.groups), ("mean", pair.means), ("error", pair.errors))
    }
    ends = {"low": pair.difference - pair.half_width, "high": pair.difference + pair.half_width}
    return {
        **{"intent": intent, "rating": rating, **sides, "difference": pair.difference},
        **{"error": pair.error, "df": pair.df, **ends},
    }


def correlations(rated: Rated) -> pd.DataFrame:
    """The frame CORRELATIONS: how ratings go together, over groups and over rows, every two of them both ways.

    Groups are what was drawn, and what two ratings may share that never stand on one row: marks within a dialogue, and
    a judgement at its end. Where every group is one row, both are the same.
    """
    of_groups = rated.ratings.groupby(rated.group.to_numpy()).mean()
    rows = []
    for rating, other in product(rated.ratings, repeat=2):
        rho, groups = _spearman(of_groups[rating], of_groups[other])
        rho_rows, both = _spearman(rated.ratings[rating], rated.ratings[other])
        low, high = _interval(rho, groups) if rating != other else (np.nan, np.nan)
        row = {"rating": rating, "other": other, "rho": rho, "low": low, "high": high, "groups": groups}
        rows.append({**row, "rho_rows": rho_rows, "rows": both})
    return framed(pd.DataFrame(rows), CORRELATIONS)


def _spearman(one_side: pd.Series, other: pd.Series) -> tuple[float, int]:
    """Spearman's correlation of what both have, and of how many; NaN where a side does not vary."""
    both = np.isfinite(one_side.to_numpy()) & np.isfinite(other.to_numpy())
    ranks = [side[both].rank().to_numpy() for side in (one_side, other)]
    varies = both.sum() > 1 and all(np.ptp(side) > 0 for side in ranks)
    return (float(np.corrcoef(*ranks)[0, 1]) if varies else float("nan")), int(both.sum())


def _interval(rho: float, n: int) -> tuple[float, float]:
    """95 % interval of Spearman's correlation by Fisher's z with the variance (1 + rho^2 / 2) / (n - 3)."""
    if n < FEWEST_GROUPS or not abs(rho) < 1:
        return float("nan"), float("nan")
    half = ndtri(1 - LEVEL / 2) * np.sqrt((1 + rho**2 / 2) / (n - 3))
    return float(np.tanh(np.arctanh(rho) - half)), float(np.tanh(np.arctanh(rho) + half))
