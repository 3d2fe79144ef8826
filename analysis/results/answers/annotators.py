"""How well people answer a task, in its own metric: one annotator against the others, and systems against the same.

Where several annotators have marked a row, each is left out in turn and held against the others: against their mean
where the label is a number, else against their majority; a row whose others tie counts for each of the tied classes in
equal parts, as a class drawn among these would on average. Scores are means over annotators, each counted by its rows.

A leaderboard's score is held against the label that all annotators make together, which is steadier than what the
others make without one of them. So each system stands here by its score against these same others, which can be
compared with a person's: a system that does better than one annotator agrees with people as well as they do.

Who the annotators are is known by column alone. Where a column holds many people's answers, it stands for one drawn
among them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adapters_store.key import MissingRecord
from adapters_store.measures import ANNOTATORS, annotators_inputs
from adapters_store.store import Store
from analysis.gains.baselines import RANGE
from analysis.gains.cells import Manifest, Predictions
from analysis.gains.significance import Evidence, FloatArray, Groups, evidence, group_weights
from analysis.tables import Declared

PERSON = "one annotator"
LEAST = 1e-9  # of a class's share of rows; what is less is what sums of fractions leave
VARIES = 1e-10  # of a variance over standardised values, for a correlation to be defined

PEOPLE = {
    "target": Declared("str", "task whose test rows several annotators have marked"),
    "setting": Declared("str", "share of the target's training data"),
    "system": Declared("str", "one annotator: the ceiling; or a contestant, as ``system`` of the leaderboard"),
    "metric": Declared("str", "metric of the target"),
    "score": Declared("float64", "against the other annotators, mean over annotators, then over seeds"),
    "low": Declared("float64", "lower end of its 95 % interval"),
    "high": Declared("float64", "its upper end"),
    "difference": Declared("float64", "points: 100 (score - that of one annotator); undefined of one annotator"),
    "difference_low": Declared("float64", "lower end of its 95 % interval, paired over groups"),
    "difference_high": Declared("float64", "its upper end"),
    "p": Declared("float64", "two-sided, that the difference is 0; not corrected"),
    "n_seeds": Declared("int64", "training runs behind the score; of one annotator 0"),
    "n_rows": Declared("int64", "test rows that two annotators or more have marked"),
    "n_groups": Declared("int64", "groups that these fall into"),
    "n_annotators": Declared("int64", "columns of annotators"),
}


class Others(NamedTuple):
    """What all annotators but one say: at ``rows [m]`` the mean ``[m]``, or shares of classes ``[m, classes]``."""

    rows: NDArray[np.int64]
    said: FloatArray


@dataclass(frozen=True)
class Annotated:
    """Rows that two annotators or more have marked, by their ``places`` among all, and ``marks [n, annotators]``.

    Gaps are NaN. ``classes`` is how many there are, 0 for numbers.
    """

    places: NDArray[np.int64]
    marks: FloatArray
    classes: int

    @classmethod
    def of(cls, marks: FloatArray, classes: int) -> Annotated:
        """Of the marks of all rows."""
        places = np.flatnonzero(np.isfinite(marks).sum(axis=1) > 1)
        return cls(places, marks[places], classes)

    def without(self, annotator: int) -> Others:
        """What the others say, on the rows that the annotator and one of them at least have marked."""
        rest = np.delete(self.marks, annotator, axis=1)
        rows = np.flatnonzero(np.isfinite(self.marks[:, annotator]) & np.isfinite(rest).any(axis=1))
        if not self.classes:
            return Others(rows, np.nanmean(rest[rows], axis=1) if len(rows) else np.empty(0))
        votes = np.stack([(rest[rows] == place).sum(axis=1) for place in range(self.classes)], axis=1)
        is_most = votes == votes.max(axis=1, keepdims=True)
        return Others(rows, is_most / is_most.sum(axis=1, keepdims=True))

    def own(self, annotator: int, rows: NDArray[np.int64]) -> FloatArray:
        """What the annotator says at these rows."""
        marks: FloatArray = self.marks[rows, annotator]
        return marks


def stored_marks(store: Store, manifest: Manifest, target: str, ids: Iterable[Any]) -> FloatArray | None:
    """The marks ``[n, annotators]`` of test rows, NaN for gaps; None where the store has none of this task."""
    facts = manifest["tasks"][target]
    marks_hash = facts.get("marks_hash")
    if not marks_hash:
        return None
    try:
        result = store.measure(ANNOTATORS, annotators_inputs(target, facts["splits_hash"], marks_hash)).result
    except MissingRecord:
        return None
    known = dict(zip(result["ids"], result["marks"], strict=True))
    none = [None] * max(map(len, result["marks"]), default=0)
    return np.array([[np.nan if mark is None else mark for mark in known.get(id, none)] for id in ids], dtype=float)


def people_rows(
    annotated: Annotated,
    metric: str,
    group_names: NDArray[Any],
    contestants: Sequence[tuple[str, Sequence[Predictions]]],
    *,
    draws: int,
    seed: int,
) -> list[dict[str, Any]]:
    """Rows of PEOPLE but target and setting: one annotator, then contestants (name, predictions by seed).

    ``group_names`` are those of all test rows. Nothing where fewer than two annotators share a row.
    """
    if not len(annotated.places):
        return []
    groups = Groups.of(group_names[annotated.places])
    others = [annotated.without(annotator) for annotator in range(annotated.marks.shape[1])]
    own = [annotated.own(annotator, part.rows) for annotator, part in enumerate(others)]
    person = _scores(others, own, groups, draws, seed)
    facts = {
        "metric": metric,
        "n_rows": len(annotated.places),
        "n_groups": groups.count,
        "n_annotators": annotated.marks.shape[1],
    }
    rows = [_row(PERSON, [person], None, groups, seed) | facts | {"n_seeds": 0}]
    for name, seeds in contestants:
        decided = [shown.decisions[annotated.places] for shown in seeds]
        scored = [_scores(others, [part[of.rows] for of in others], groups, draws, seed) for part in decided]
        rows.append(_row(name, scored, person, groups, seed) | facts | {"n_seeds": len(seeds)})
    return rows


class Scored(NamedTuple):
    """A score, and the same on resampled groups ``[draws]``."""

    score: float
    draws: FloatArray


def ceiling(annotated: Annotated) -> float:
    """The score of one annotator against the others, without an interval."""
    others = [annotated.without(annotator) for annotator in range(annotated.marks.shape[1])]
    own = [annotated.own(annotator, part.rows) for annotator, part in enumerate(others)]
    everyone = Groups.of(np.zeros(len(annotated.places)))
    return float(_mean(_sums(others, own, everyone), _is_number(others))[0])


def _row(name: str, seeds: Sequence[Scored], person: Scored | None, groups: Groups, seed: int) -> dict[str, Any]:
    """Score and interval of a contestant, and its difference to a person."""
    scores, drawn = np.array([part.score for part in seeds]), np.stack([part.draws for part in seeds], axis=1)
    own = evidence(scores, drawn, groups, np.random.default_rng(seed))
    row: dict[str, Any] = {"system": name, "score": float(scores.mean()), "low": own.low, "high": own.high}
    if person is None:
        return row | {"difference": np.nan, "difference_low": np.nan, "difference_high": np.nan, "p": np.nan}
    apart = evidence(scores - person.score, drawn - person.draws[:, None], groups, np.random.default_rng(seed))
    return row | _points(float(scores.mean()) - person.score, apart)


def _points(difference: float, apart: Evidence) -> dict[str, float]:
    ends = {"difference_low": 100 * apart.low, "difference_high": 100 * apart.high}
    return {"difference": 100 * difference, **ends, "p": apart.p}


def in_range(rows: list[dict[str, Any]], metric: str) -> list[dict[str, Any]]:
    """The rows with intervals of scores that end where the metric does."""
    for row in rows:
        row["low"], row["high"] = np.clip((row["low"], row["high"]), *RANGE[metric])
    return rows


# Scores from sums over groups: each has for every annotator either counts of classes, or moments of numbers.


def _is_number(others: Sequence[Others]) -> bool:
    return others[0].said.ndim == 1


def _scores(others: Sequence[Others], answers: Sequence[NDArray[Any]], groups: Groups, draws: int, seed: int) -> Scored:
    """The score of ``answers``, an array for every annotator who is left out, on the rows that the others have."""
    sums, is_number = _sums(others, answers, groups), _is_number(others)
    flat = sums.reshape(groups.count, -1)
    blocks = group_weights(groups, draws, np.random.default_rng(seed))  # the same groups for everyone
    drawn = [_mean((weights @ flat).reshape(len(weights), *sums.shape[1:]), is_number) for weights in blocks]
    return Scored(float(_mean(sums.sum(axis=0, keepdims=True), is_number)[0]), np.concatenate(drawn))


def _sums(others: Sequence[Others], answers: Sequence[NDArray[Any]], groups: Groups) -> FloatArray:
    """Sums ``[groups, annotators, 3, classes]`` of classes, or ``[groups, annotators, 6]`` of numbers."""
    parts = _moments if _is_number(others) else _counts
    each = [parts(part.said, own) for part, own in zip(others, answers, strict=True)]
    sums = np.zeros((groups.count, len(others), *each[0].shape[1:]))
    for annotator, (part, values) in enumerate(zip(others, each, strict=True)):
        np.add.at(sums[:, annotator], groups.index[part.rows], values)
    return sums


def _counts(said: FloatArray, answers: NDArray[Any]) -> FloatArray:
    """Per row ``[m, 3, classes]``: the others' share of each class, that share where it is answered, the answer."""
    answered = answers.astype(int)[:, None] == np.arange(said.shape[1])
    return np.stack([said, said * answered, answered], axis=1)


def _moments(said: FloatArray, answers: NDArray[Any]) -> FloatArray:
    """Per row ``[m, 6]``: 1, x, y, xx, yy, xy, both standardised first."""
    x, y = _standardised(said), _standardised(np.asarray(answers, dtype=float))
    return np.stack([np.ones_like(x), x, y, x * x, y * y, x * y], axis=1)


def _standardised(values: FloatArray) -> FloatArray:
    if not values.size or np.ptp(values) == 0:
        return np.zeros(values.shape)
    standardised: FloatArray = (values - values.mean()) / values.std()
    return standardised


def _mean(sums: FloatArray, is_number: bool) -> FloatArray:
    """Scores ``[draws]`` from sums ``[draws, annotators, ...]``: the mean over annotators, each counted by its rows.

    An annotator without a defined score in a draw is not counted there.
    """
    scores, rows = _correlations(sums) if is_number else _macro_f1(sums)
    weights = np.where(np.isfinite(scores), rows, 0.0)
    total = weights.sum(axis=1)
    means = (np.where(weights > 0, scores, 0.0) * weights).sum(axis=1)
    return np.where(total > 0, means / np.where(total > 0, total, 1.0), np.nan)


def _macro_f1(sums: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Macro-F1 over the classes that the others name, and how many rows, both ``[draws, annotators]``.

    F1 is 2 hits / (said + answered) in shares of rows, which is the usual one where no row is shared out.
    """
    said, hits, answered = sums[:, :, 0], sums[:, :, 1], sums[:, :, 2]
    is_said = said > LEAST
    f1 = np.where(is_said, 2 * hits / np.where(is_said, said + answered, 1.0), 0.0)
    count = is_said.sum(axis=2)
    return np.where(count > 0, f1.sum(axis=2) / np.maximum(count, 1), np.nan), answered.sum(axis=2)


def _correlations(sums: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Pearson r, NaN where a side does not vary, and how many rows, both ``[draws, annotators]``."""
    n, x, y, xx, yy, xy = np.moveaxis(sums, 2, 0)
    rows = np.maximum(n, 1)
    varies = [of - part * part / rows for part, of in ((x, xx), (y, yy))]
    is_fine = (varies[0] > VARIES * rows) & (varies[1] > VARIES * rows)
    product = np.sqrt(np.where(is_fine, varies[0] * varies[1], 1.0))
    return np.where(is_fine, np.clip((xy - x * y / rows) / product, -1, 1), np.nan), n
