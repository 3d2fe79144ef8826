"""Our rows against the paper's printed numbers: exact, close, different, and by how much."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.results.published import PublishedTask

LAST_DIGIT = {False: 0.1, True: 0.01}  # percent of a class, value of a statistic
CLOSE = 3.5  # points of share; for numbers, percent of the printed range
Labels = Sequence[str] | Sequence[float]


@dataclass(frozen=True)
class Verdict:
    """One line of the audit: how a task compares with print, its rows, and the number that is furthest from print."""

    task: str
    verdict: str
    rows: int | None
    published_rows: int
    columns: tuple[str, ...]
    furthest: str
    note: str


def audit(published: PublishedTask, labels: Mapping[str, Labels]) -> Verdict:
    """Compare labels (class names or numbers) by column with print; ``all`` is always there, splits where known.

    exact: as many rows, and every number within one unit of its last printed digit. shares exact: the numbers alone.
    close: every share within 3.5 points. differs: otherwise.
    """
    unit = LAST_DIGIT[published.is_number]
    gaps = sorted(
        (abs(numbers[name] - printed), f"{column} {name}: {numbers[name]:.{places}f}, printed {printed:.{places}f}")
        for column, values in labels.items()
        for places, numbers in [(2 if published.is_number else 1, _numbers(published, values))]
        for name, printed in published.labels[column].items()
    )
    largest, where = gaps[-1]
    statistics = published.labels["all"]
    reach = (statistics["max"] - statistics["min"]) / 100 if published.is_number else 1.0
    if largest <= unit + 1e-9:
        verdict = "exact" if len(labels["all"]) == published.rows else "shares exact"
    else:
        verdict = "close" if largest <= CLOSE * reach + 1e-9 else "differs"
    note = "" if verdict == "exact" else published.note
    return Verdict(published.task, verdict, len(labels["all"]), published.rows, tuple(labels), where, note)


def missing(published: PublishedTask, reason: str) -> Verdict:
    """The line of a task whose files are not there."""
    return Verdict(published.task, "data missing", None, published.rows, (), "", reason)


def _numbers(published: PublishedTask, labels: Labels) -> dict[str, float]:
    """The numbers that print has of a column, from our labels: percent of every class, or statistics."""
    if not published.is_number:
        counts = Counter(labels)
        return {str(name): 100 * counts[name] / len(labels) for name in {*counts, *published.labels["all"]}}
    values = np.asarray(labels, dtype=np.float64)
    return {
        "min": values.min(),
        "median": float(np.median(values)),
        "max": values.max(),
        "mean": values.mean(),
        "std": values.std(ddof=1),
    }
