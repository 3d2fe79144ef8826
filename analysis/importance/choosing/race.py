"""What a race of a target's intermediates (``choose``) would have found and cost, replayed from a finished grid.

Every record keeps its validation score after each epoch. A race trains at the rates of a whole training, so that a
candidate's scores until it leaves are those that the grid has: who would have left when, and whom validation would
have chosen, is read off. Test scores judge the choice and take no part in it.

Beside a race stand all candidates trained to their end, and random ones trained to their end, of which validation
chooses too: their regret is the mean over all draws, computed exactly. Regret is by how many points the test score of
the chosen candidate falls short of the best one's of its column.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, comb
from typing import Any

import numpy as np
import pandas as pd

from adapters_store import disk
from adapters_store.record import Record
from adapters_store.roles import TRANSFER, planned_role
from adapters_store.store import Store
from analysis.gains.cells import Manifest
from analysis.importance.choosing.budget import RANDOM, limits_over_targets
from analysis.importance.choosing.ranking import DRAWS, SEED
from analysis.tables import Declared, framed

Array = np.ndarray
ROUNDS, FEWEST = (1, 2, 4), 2  # epochs after which the worse half leaves, and how many stay in any case
RACE, ALL = "race", "all"
THREE = 3  # random candidates of a column that are trained to their end, beside a single one
RACED = {
    "way": Declared("str", "race: the worse half leaves early; all, random: candidates trained to their end"),
    "trained": Declared("Int64", "candidates of a column trained to their end; undefined of a race and of all"),
    "epochs": Declared("float64", "epochs trained, mean over columns"),
    "share": Declared("float64", "of the epochs of whole columns"),
    "n_columns": Declared("int64", "columns (a target and a seed) that are finished and could race"),
    "n_targets": Declared("int64", "targets that these are of"),
    "regret": Declared("float64", "points by which the chosen falls short of the best on test, mean of targets"),
    "low": Declared("float64", "lower end of its 95 % interval, targets resampled"),
    "high": Declared("float64", "its upper end"),
    "chance": Declared("float64", "regret of random candidates trained to their end for as many epochs"),
    "difference": Declared("float64", "regret - chance; below 0: better than chance"),
    "difference_low": Declared("float64", "lower end of its 95 % interval, targets resampled"),
    "difference_high": Declared("float64", "its upper end"),
}


@dataclass(frozen=True)
class Candidates:
    """A column in the study's order: validation by epoch [candidates, epochs], and scores [candidates].

    ``validation`` is the score that a record is chosen by, ``points`` the test score times 100. An undefined validation
    score is -inf.
    """

    target: str
    history: Array
    validation: Array
    points: Array

    @property
    def ranked(self) -> list[int]:
        """All candidates, the best on validation first; of equals the earlier."""
        return sorted(range(len(self.validation)), key=lambda place: -self.validation[place])

    def regret(self, place: int) -> float:
        """Points by which a candidate falls short of the best on test."""
        return float(self.points.max() - self.points[place])

    def race(self, rounds: Sequence[int]) -> tuple[int, int]:
        """The candidate that a race chooses, and the epochs that it trains."""
        staying, left = list(range(len(self.validation))), dict[int, int]()
        for after in rounds:
            best = self.history[:, :after].max(axis=1)
            order = sorted(staying, key=lambda place: -best[place])
            left |= dict.fromkeys(order[max(FEWEST, ceil(len(order) / 2)) :], after)
            staying = [place for place in staying if place not in left]
        epochs = len(staying) * self.history.shape[1] + sum(left.values())
        return next(place for place in self.ranked if place in staying), epochs

    def random(self, count: float) -> float:
        """The expected regret where validation chooses among ``count`` random candidates trained to their end.

        Of a number between two whole ones, such that so many are trained on average.
        """
        low, part = int(count), count - int(count)
        return self._random(low) if not part else (1 - part) * self._random(low) + part * self._random(low + 1)

    def _random(self, count: int) -> float:
        """The candidate at a place of the ranking is chosen where all others drawn stand behind it."""
        total = len(self.validation)
        chances = [comb(total - place - 1, count - 1) / comb(total, count) for place in range(total)]
        return float(sum(chance * self.regret(own) for chance, own in zip(chances, self.ranked, strict=True)))


def raced(store: Store, manifest: Manifest, *, draws: int = DRAWS, seed: int = SEED) -> pd.DataFrame:
    """A row per way to choose, the columns ``RACED``; none where no finished column could race."""
    return ways(list(candidates(store, manifest)), draws=draws, seed=seed)


def candidates(store: Store, manifest: Manifest) -> Iterator[Candidates]:
    """The finished columns with all training data, of which every candidate has one training.

    A column with a repeated training is left out, since a record keeps the scores of the last one alone, and so is one
    in which a test score is not defined.
    """
    columns: dict[tuple[str, int], list[str]] = {}
    for cell in manifest["cells"]:
        if planned_role(cell) == TRANSFER and cell["setting"] == "full":
            columns.setdefault((cell["target"], cell["seed"]), []).append(cell["key"])
    stored = store.keys()
    for (target, _), keys in columns.items():
        if not stored.issuperset(keys):
            continue
        records = [store.get(key) for key in keys]
        if not all(_is_replayed(record) for record in records):
            continue
        histories = [_scores(store, record) for record in records]
        if len({len(history) for history in histories}) == 1:
            validation = np.array([_height(record.results["validation"]) for record in records])
            points = np.array([100 * record.results["test"] for record in records])
            yield Candidates(target, np.array(histories), validation, points)


def _is_replayed(record: Record) -> bool:
    """Whether a record has all that a replay asks for."""
    results = record.results
    return "history.json" in record.files and "retried" not in results and results["test"] is not None


def _scores(store: Store, record: Record) -> list[float]:
    """The validation score after every epoch, of a task with folds those of the first, as a race has them."""
    history: list[Any] = json.loads(disk.content(store.open(record.key, "history.json")))
    epochs = history[0] if history and isinstance(history[0], list) else history
    return [_height(epoch.get("validation")) for epoch in epochs]


def _height(score: float | None) -> float:
    return -np.inf if score is None or np.isnan(score) else float(score)


def rounds_of(count: int, epochs: int) -> tuple[int, ...]:
    """The rounds of a race of so many candidates: before the last epoch, and as long as somebody could leave."""
    rounds = [after for after in ROUNDS if after < epochs]
    useful = 0
    while count > FEWEST:
        count, useful = max(FEWEST, ceil(count / 2)), useful + 1
    return tuple(rounds[:useful])


def ways(columns: Sequence[Candidates], *, draws: int = DRAWS, seed: int = SEED) -> pd.DataFrame:
    """The same of columns that were read before; those in which nobody could leave are no race."""
    columns = [own for own in columns if rounds_of(*own.history.shape)]
    if not columns:
        return framed(pd.DataFrame(columns=list(RACED)), RACED)
    races = [own.race(rounds_of(*own.history.shape)) for own in columns]
    total, epochs = np.array([own.history.shape for own in columns], dtype=float).T
    chosen = [own.regret(place) for own, (place, _) in zip(columns, races, strict=True)]
    trained: list[tuple[str, Any, Array]] = [
        (RACE, pd.NA, np.array([cost for _, cost in races]) / epochs),
        (ALL, pd.NA, total),
        *((RANDOM, count, np.minimum(float(count), total)) for count in (THREE, 1)),
    ]
    rows = []
    for way, count, full in trained:
        chance = [own.random(many) for own, many in zip(columns, full, strict=True)]
        cost = {"epochs": (full * epochs).mean(), "share": (full * epochs).sum() / (total * epochs).sum()}
        judged = _judged(columns, chosen if way == RACE else chance, chance, draws, seed)
        rows.append({"way": way, "trained": count, "n_columns": len(columns), **cost, **judged})
    return framed(pd.DataFrame(rows), RACED)


def _judged(
    columns: Sequence[Candidates], regret: Sequence[float], chance: Sequence[float], draws: int, seed: int
) -> dict[str, float]:
    """Regrets of columns, and those of chance, as means over targets with limits; a target is the mean of its seeds."""
    values = pd.DataFrame({"target": [own.target for own in columns], "regret": regret, "chance": chance})
    means = values.groupby("target", sort=False)[["regret", "chance"]].mean()
    means["difference"] = means.regret - means.chance
    resampled = np.random.default_rng(seed).integers(len(means), size=(draws, len(means)))
    ends = {
        name: limits_over_targets(means[column].to_numpy(), resampled)
        for name, column in (("", "regret"), ("difference_", "difference"))
    }
    limits = {
        f"{name}{end}": value for name, pair in ends.items() for end, value in zip(("low", "high"), pair, strict=True)
    }
    return {**means.mean().to_dict(), **limits, "n_targets": len(means)}
