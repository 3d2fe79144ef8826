"""People's ratings, a model's, and both: how far they agree, and the results of a grid with each of them.

A model's value is the mean of its readings, as a person's rating is what that person said once: a mean of several
readings agrees better with others than a single reading does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.gains.significance import DRAWS
from analysis.ratings.agreement import AGREEMENT, LEVELS, OVERALL, PAIRS, SEED, agreement, rater_pairs
from analysis.results.own_table import rating_rows
from analysis.results.results import GAINS, RATINGS, TASKS, Results
from analysis.tables import Declared, framed
from tasks.errors import BadRow
from tasks.ratings import Rating, Repeat, ratings_in, readings_in

PEOPLE, MODEL, BOTH = "people's", "the model's", "both"
MEAN = "mean of people"
WITH_PERSON, WITH_MEAN, AMONG_PEOPLE = "model and person", "model and people's mean", "person and person"
WHAT = ["task", "construct", "rater"]

_ALPHAS = {f"{part}_{level}": AGREEMENT[f"{part}_{level}"] for level in LEVELS for part in ("alpha", "low", "high")}
AGREEMENTS = {
    "construct": AGREEMENT["construct"],
    "comparison": Declared("str", f"{WITH_PERSON}, {WITH_MEAN}, or for scale {AMONG_PEOPLE}"),
    "rater": Declared("str", "the model, or a person"),
    "other": Declared("str", "whom it is compared with"),
    "n_tasks": PAIRS["n_tasks"],
    "n_units": PAIRS["n_units"],
    **_ALPHAS,
    "spearman": PAIRS["spearman"],
    "low_spearman": PAIRS["low"],
    "high_spearman": PAIRS["high"],
    "mean_difference": Declared("float64", "rater's less the other's: who rates higher"),
}
REPEATS = {
    "construct": AGREEMENT["construct"],
    "rater": Declared("str", "the model"),
    "n_readings": Declared("int64", "how often it was asked"),
    "n_tasks": Declared("int64", "tasks of which it gave at least two readings"),
    "same": Declared("float64", "share of pairs of readings of a task and construct that are the same number"),
    **_ALPHAS,
}


@dataclass(frozen=True)
class Beside:
    """A model's ratings (RATINGS) and the readings behind them (a row each: task, construct, rater, value, repeat)."""

    ratings: pd.DataFrame
    readings: pd.DataFrame

    @classmethod
    def of(cls, rated: Sequence[Rating], readings: Sequence[Repeat]) -> Beside:
        """The same of the rows of a file."""
        return cls(frame_of(rated), pd.DataFrame(readings, columns=list(Repeat._fields)))

    @classmethod
    def read(cls, file: Path, results: Results, *, any_construct: bool = False) -> Beside:
        """What a file says of the tasks of these results.

        Of a table of scores ``any_construct`` may be rated; else values are checked against the declared scales.
        BadRow where the file rates none of these tasks, or contradicts ratings that the results have.
        """
        names = results.tasks.task.tolist()
        if any_construct:
            rated = [Rating(**row) for row in rating_rows(file, names)[0]]
        else:
            rated = [rating for rating in ratings_in([file]) if rating.task in names]
        if not rated:
            raise BadRow(f"{file}: rates no task of {results.name}; ask for its tasks, or name another file")
        own = cls.of(rated, [repeat for repeat in readings_in(file) if repeat.task in names])
        own._check(file, results.ratings)
        return own

    def _check(self, file: Path, others: pd.DataFrame) -> None:
        """BadRow where a rater of the file says something else in the results."""
        shared = self.ratings.merge(others, on=WHAT, suffixes=("", "_of_results"))
        odd = shared[shared.value != shared.value_of_results]
        if len(odd):
            row = odd.iloc[0]
            raise BadRow(
                f"{file}: {row.rater} rated {row.task} on {row.construct} with {row.value:g}, and with"
                f" {row.value_of_results:g} elsewhere; a model needs a name of its own in the column rater"
            )

    def people(self, results: Results) -> pd.DataFrame:
        """The ratings of these results that are not in the file."""
        keys = pd.MultiIndex.from_frame(self.ratings[WHAT])
        return results.ratings[~pd.MultiIndex.from_frame(results.ratings[WHAT]).isin(keys)].reset_index(drop=True)

    def sets(self, results: Results) -> dict[str, Results]:
        """The same results with people's ratings, the model's, and both; of these only the last but one without people.

        With both every rater counts once.
        """
        people = self.people(results)
        frames = {PEOPLE: people, MODEL: self.ratings, BOTH: pd.concat([people, self.ratings], ignore_index=True)}
        return {name: replace(results, ratings=frame) for name, frame in frames.items() if len(people) or name == MODEL}


def frame_of(ratings: Sequence[Rating]) -> pd.DataFrame:
    """Ratings as a frame with the columns RATINGS."""
    return framed(pd.DataFrame(ratings, columns=list(Rating._fields)), RATINGS)


def agreements(model: pd.DataFrame, people: pd.DataFrame, *, draws: int = DRAWS, seed: int = SEED) -> pd.DataFrame:
    """A row per construct, and overall, and comparison of a model's ratings with people's: the columns AGREEMENTS.

    Alpha and Spearman's correlation are those of the two raters alone; intervals come from resampled tasks.
    """
    rows = [
        {**row, "comparison": comparison, "rater": first, "other": second}
        for comparison, first, second, pair in _comparisons(model, people)
        for row in _pair_rows(pair, draws, seed)
    ]
    return framed(pd.DataFrame(rows, columns=list(AGREEMENTS)), AGREEMENTS)


def repeats(readings: pd.DataFrame, *, draws: int = DRAWS, seed: int = SEED) -> pd.DataFrame:
    """A row per model and construct, and overall, on how its readings agree from run to run: the columns REPEATS.

    Nothing where there is a single reading of everything.
    """
    rows = []
    for rater, own in readings.groupby("rater", sort=False):
        named = own.assign(rater=[f"{repeat:03d}" for repeat in own.repeat])[list(RATINGS)]
        for row in agreement(_rated(named), draws=draws, seed=seed).to_dict("records"):
            counted = own if row["construct"] == OVERALL else own[own.construct == row["construct"]]
            rows.append({**row, "rater": rater, "n_readings": row["n_raters"], "same": _same(counted)})
    return framed(pd.DataFrame(rows, columns=list(REPEATS)), REPEATS)


def _comparisons(model: pd.DataFrame, people: pd.DataFrame) -> Iterator[tuple[str, str, str, pd.DataFrame]]:
    """What is compared, the two raters, and their ratings, called a and b."""
    models, persons = (list(dict.fromkeys(frame.rater)) for frame in (model, people))
    mean = people.groupby(["task", "construct"], as_index=False, sort=False).value.mean()
    for name in models:
        own = model[model.rater == name]
        for person in persons:
            yield WITH_PERSON, name, person, _side_by_side(own, people[people.rater == person])
        if len(persons) > 1:
            yield WITH_MEAN, name, MEAN, _side_by_side(own, mean)
    for first, second in combinations(persons, 2):
        pair = (people[people.rater == person] for person in (first, second))
        yield AMONG_PEOPLE, first, second, _side_by_side(*pair)


def _side_by_side(first: pd.DataFrame, second: pd.DataFrame) -> pd.DataFrame:
    return pd.concat([first.assign(rater="a"), second.assign(rater="b")], ignore_index=True)[list(RATINGS)]


def _pair_rows(pair: pd.DataFrame, draws: int, seed: int) -> list[dict[str, Any]]:
    """Alphas and correlation of raters a and b, a row per construct; none where they share no task."""
    results = _rated(pair)
    alphas = agreement(results, draws=draws, seed=seed)[["construct", *_ALPHAS]]
    ranks = rater_pairs(results, draws=draws, seed=seed)
    ranks = ranks.rename(columns={"low": "low_spearman", "high": "high_spearman"})
    rows: list[dict[str, Any]] = alphas.merge(ranks.drop(columns="p"), on="construct").to_dict("records")
    return rows


def _rated(ratings: pd.DataFrame) -> Results:
    """These ratings and nothing else."""
    return Results("", framed(pd.DataFrame(), GAINS), framed(pd.DataFrame(), TASKS), framed(ratings, RATINGS))


def _same(readings: pd.DataFrame) -> float:
    """The share of pairs of readings of one task and construct that are the same number."""
    pairs = [
        first == second
        for _, own in readings.groupby(["task", "construct"])
        for first, second in combinations(own.value, 2)
    ]
    return sum(pairs) / len(pairs) if pairs else float("nan")
