"""The paper's own numbers: of its tasks what Tables 1 and 9 to 12 print, and all its scores as finished results."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources

from analysis.results.published.finished import results, table, task_of, with_approximate_p

__all__ = ["PublishedTask", "published_task", "results", "table", "task_of", "with_approximate_p"]
COLUMNS = {"all": "all", "train": "train", "validation": "val", "test": "test"}


@dataclass(frozen=True)
class PublishedTask:
    """What the paper prints of a task: its dataset's rows, and per column (all, train, validation, test) its labels.

    ``shares`` are the three splits' percent of all rows.

    ``labels`` maps classes to percent, or for numbers min, median, max, mean and std to their values; ``note`` says
    what is known of differences.
    """

    task: str
    rows: int
    labels: Mapping[str, Mapping[str, float]]
    is_number: bool
    note: str
    shares: tuple[float, float, float]


def published_task(task: str, dataset: str) -> PublishedTask | None:
    """The printed numbers of a task by our ids, or None for a task that is not the paper's."""
    shares = [row for row in _table("tables10_12_label_distributions") if row["task_id"] == task]
    statistics = [row for row in _table("table9_regression_stats") if row["task_id"] == task]
    if not shares and not statistics:
        return None
    ours = {row["printed"]: row["class"] for row in _table("class_names") if row["task_id"] == task}
    labels = {
        column: {ours.get(row["label"], row["label"]): float(row[f"{printed}_pct"]) for row in shares}
        | {row["statistic"]: float(row[printed]) for row in statistics}
        for column, printed in COLUMNS.items()
    }
    rows = {row["dataset_id"]: int(row["samples"]) for row in _table("table1_dataset_sizes")}
    notes = {row["dataset_id"]: row["note"] for row in _table("notes")}
    split = next(row for row in _table("tables9_12_splits") if row["task_id"] == task)
    of_all = (float(split["train_pct"]), float(split["val_pct"]), float(split["test_pct"]))
    return PublishedTask(task, rows[dataset], labels, bool(statistics), notes.get(dataset, ""), of_all)


def _table(name: str) -> Iterator[dict[str, str]]:
    text = (resources.files(__name__) / "tables" / f"{name}.csv").read_text(encoding="utf-8")
    return csv.DictReader(text.splitlines())
