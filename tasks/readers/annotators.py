"""Labels of several annotators: combined into one for each row, with how far they agree.

For example, with ``label = ["a1", "a2", "a3"]`` and ``combine = "majority"`` the cells ``yes, no, yes`` become the
label ``yes``; ``yes, no`` and an empty cell have no majority, and the row is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from tasks.readers.labels import UNIT, index_of, label_names, number_of, renamed
from tasks.readers.rows import RawRow, column_name, column_names
from tasks.task import Task


class Annotators:
    """The annotators of a task's rows: combines their labels, and remembers them to say how far they agree."""

    def __init__(self, task: Task) -> None:
        """Start without rows."""
        self._task = task
        self._rename, self._dropped = label_names(task), set(column_names(task, "drop_labels")) | {""}
        self._indices = {name: index for index, name in enumerate(task.label.classes)}
        self._marks: list[list[str | float]] = []
        self._ties = self._most = 0

    def combine(self, rows: Iterable[RawRow]) -> Iterator[RawRow]:
        """Yield the rows with one label each: the mean or the majority of the annotators' labels; gaps do not count.

        A row without a majority is left out and counted; one whose labels are all among ``drop_labels`` is left out.
        BadRow for an annotator's label that is no number, or none of the classes.
        """
        for row in rows:
            every = renamed(row.label.split(UNIT), self._rename, self._dropped)
            named, self._most = [mark for mark in every if mark], len(every)
            if not named:
                if "" not in column_names(self._task, "drop_labels") and not row.label.replace(UNIT, ""):
                    yield row._replace(label="")
                continue
            marks = [self._check(row._replace(label=mark)) for mark in named]
            self._marks.append(marks)
            label = self._mean(marks) if self._task.label.combine == "mean" else self._majority(marks)
            if label is None:
                self._ties += 1
            else:
                yield row._replace(label=label, marks=every)

    def notes(self, classes: Sequence[str]) -> list[str]:
        """How far the annotators agree, and how many rows have no majority; ordered classes count by their distance."""
        marks, is_number = self._marks, self._task.label.combine == "mean"
        if self._task.label.kind == "ordinal":
            order = {name: float(index) for index, name in enumerate(classes)}
            marks, is_number = [[order[str(mark)] for mark in row if mark in order] for row in marks], True
        several = [row for row in marks if len(row) > 1]
        value = krippendorff(several, is_number=is_number)
        alpha = "not defined" if value is None else f"{value:.2f}"
        column = column_name(self._task, "annotator")
        columns = self._task.label.columns
        who = f"{self._most} annotators ({column})" if column else f"{len(columns)} annotators ({', '.join(columns)})"
        how = "interval" if is_number else "nominal"
        notes = [
            f"{who}: Krippendorff's alpha ({how}) {alpha} over the "
            f"{len(several)} of {len(marks)} rows that several have labelled"
        ]
        if self._ties:
            notes.append(f"{self._ties} of {len(marks)} rows have no majority; left out")
        return notes

    def _check(self, row: RawRow) -> str | float:
        """One annotator's label; BadRow where it is no number, or none of the classes."""
        label = self._task.label
        if label.combine == "mean":
            return number_of(label, row)
        if label.classes:
            index_of(label, self._indices, row)
        return row.label

    def _mean(self, marks: Sequence[str | float]) -> str:
        mean = repr(sum(float(mark) for mark in marks) / len(marks))
        return mean.replace(".", self._task.label.decimal or ".")

    def _majority(self, marks: Sequence[str | float]) -> str | None:
        """The label that more annotators gave than any other, or None."""
        ranked = Counter(marks).most_common(2)
        return None if len(ranked) > 1 and ranked[0][1] == ranked[1][1] else str(ranked[0][0])


def krippendorff(units: Sequence[Sequence[str | float]], *, is_number: bool) -> float | None:
    """Krippendorff's alpha of the labels of each row, nominal or interval; None where all are alike or none is paired.

    1 - observed / expected disagreement; a pair of labels of a row with m of them counts 1 / (m - 1)
    (Krippendorff 2011).
    """
    everything = [mark for unit in units for mark in unit]
    if len(everything) < 2:
        return None
    apart = _squares if is_number else _differences
    # Observed: disagreement of the pairs within rows. Expected: that of all pairs, as if rows were permuted.
    observed = sum(apart(unit) / (len(unit) - 1) for unit in units) / len(everything)
    expected = apart(everything) / (len(everything) * (len(everything) - 1))
    return 1 - observed / expected if expected > 0 else None


def _differences(marks: Sequence[str | float]) -> float:
    """How many ordered pairs of labels differ."""
    return len(marks) ** 2 - sum(count**2 for count in Counter(marks).values())


def _squares(marks: Sequence[str | float]) -> float:
    """The squared differences of all ordered pairs of numbers, summed."""
    numbers = [float(mark) for mark in marks]
    mean = sum(numbers) / len(numbers)
    return 2 * len(numbers) * sum((number - mean) ** 2 for number in numbers)
