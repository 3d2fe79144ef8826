"""Our rows against the paper's printed numbers: exact, close, different, and by how much."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from analysis.results.published import PublishedTask
from tasks.errors import MissingData
from tasks.readers import read
from tasks.splits.loading import Splits, load
from tasks.task import Example, Label, Task

LAST_DIGIT = {False: 0.1, True: 0.01}  # percent of a class, value of a statistic
CLOSE = 3.5  # points of share; for numbers, percent of the printed range
NAMES = ("train", "validation", "test")
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


def verdict_of(task: Task, published: PublishedTask, data: Path, ids: Path | None) -> tuple[Verdict, dict[str, object]]:
    """The verdict on a task of the paper, and the sizes of its splits beside the printed shares."""
    printed = "/".join(f"{share:.1f}" for share in published.shares)
    try:
        splits = load(task, data, "as-published", ids)
        rows = read(splits.task, data)
    except MissingData:
        return missing(published, "data missing"), {"train/validation/test": "-", "%": "-", "printed %": printed}
    sizes = [len(getattr(splits, name)) for name in NAMES]
    is_drawn = any(warning.startswith("approximate") for warning in splits.warnings)
    marks = ["~" if is_drawn and name not in splits.known else "" for name in NAMES]
    return audit(published, _labels(splits, rows)), {
        "train/validation/test": "/".join(f"{mark}{size}" for mark, size in zip(marks, sizes, strict=True)),
        "%": "/".join(f"{100 * size / sum(sizes):.1f}" for size in sizes),
        "printed %": printed,
    }


def _labels(splits: Splits, rows: Sequence[Example]) -> Mapping[str, Labels]:
    """Labels of all rows and of every split whose ids are known; nested splits count a row once for each."""
    parts = {name: getattr(splits, name) for name in NAMES}
    nested = [row for part in parts.values() for row in part]
    everything = nested if len({row.id for row in nested}) < len(nested) else rows
    parts_by_name = {name: parts[name] for name in splits.known}
    return {name: _answers(splits.task.label, part) for name, part in {"all": everything, **parts_by_name}.items()}


def _answers(label: Label, rows: Sequence[Example]) -> Labels:
    if label.kind == "continuous":
        return [float(row.label) for row in rows if isinstance(row.label, int | float)]
    return [label.classes[row.label] for row in rows if isinstance(row.label, int)]


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
