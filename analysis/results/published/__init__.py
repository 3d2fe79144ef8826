"""The paper's own numbers: its scores as a finished study, what its tables print of a task, and our rows beside it."""

import csv
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import ndtr

from analysis.gains.corrections import benjamini_hochberg
from analysis.results.results import CLASS, DISTRIBUTIONS, GAINS, MOMENT, RATINGS, ROWS, TASKS, TRAINING, Results
from analysis.tables import framed
from tasks.errors import MissingData
from tasks.ratings import FOLDER
from tasks.readers import read
from tasks.splits.loading import load
from tasks.task import Example, Label, Task

LEAKING_DATASET = "news"  # 800 of the 900 test rows are training rows


def results() -> Results:
    """All 306 pairs of the paper, with the diagonal of its score tables as baselines; the same at every call.

    Predictions of the transfers are not published, so standard errors are approximated, for errors that are independent
    of the baseline's, and there is no p.
    """
    # One row per task: sizes of its data set from Table 1, its theme from Table 5, test rows from Tables 9 to 12.
    sizes = table("table1_dataset_sizes").rename(
        columns={"dataset_id": "dataset", "vocab_size": "vocabulary", "total_tokens": "tokens"}
    )
    shares = table("tables9_12_splits").rename(columns={"task_id": "task"})
    frame = table("tasks").merge(sizes, on="dataset").merge(table("table5_themes")[["task", "theme"]], on="task")
    frame = frame.merge(shares, on="task")
    frame["n_test"] = (frame.samples * frame.test_pct / 100).round()
    frame["task_type"] = frame.metric.map({"pearson_r": "regression", "macro_f1": "classification"})
    facts = framed(frame, TASKS)
    trained = framed(table("table4_training"), TRAINING)
    # The 108 ratings of Table 2.
    parts = _gains(facts), facts, framed(pd.read_csv(FOLDER / "muddy-waters.csv"), RATINGS)
    return Results("published", *parts, errors="approximated", labels=_labels(), training=trained)


def with_approximate_p(published: Results, *, correlation: float = 0.0) -> Results:
    """The same with p values from approximate standard errors, which depend wholly on the assumed correlation.

    It is the correlation between a transfer's and its baseline's errors, which only predictions could tell.
    """
    frame = published.gains.copy()
    frame["standard_error"] = _standard_error(frame, published.tasks, correlation)
    frame["p"] = 2 * ndtr(-np.abs(frame.gain) / frame.standard_error)
    frame["p_bh"] = benjamini_hochberg(frame.p)
    return replace(published, gains=frame)


def _standard_error(pairs: pd.DataFrame, facts: pd.DataFrame, correlation: float) -> pd.Series:
    """Of score - baseline; a score s of n rows varies by (1 - s^2)^2 / n if it is r, by about s (1 - s) / n if F1."""
    n_test = pairs.target.map(facts.set_index("task").n_test).astype("float64")
    is_r = pairs.metric == "pearson_r"
    scores = (pairs.score, pairs.baseline)
    first, second = (np.where(is_r, (1 - score**2) ** 2, score * (1 - score)) / n_test for score in scores)
    return np.sqrt(first + second - 2 * correlation * np.sqrt(first * second))


def _gains(facts: pd.DataFrame) -> pd.DataFrame:
    scores = table("tables7_8_scores")
    alone = scores[scores.intermediate == scores.target].set_index("target").score
    frame = scores[scores.intermediate != scores.target].merge(facts, left_on="target", right_on="task")
    frame["baseline"] = frame.target.map(alone)
    frame["gain"] = frame.score - frame.baseline
    frame["percent"] = 100 * frame.gain / frame.baseline
    frame["standard_error"] = _standard_error(frame, facts, 0.0)
    failed = pd.MultiIndex.from_frame(table("collapsed")[["intermediate", "target"]])
    frame["collapsed"] = pd.MultiIndex.from_frame(frame[["intermediate", "target"]]).isin(failed)
    frame["contaminated"] = (frame.dataset == LEAKING_DATASET).astype("boolean").replace(False, pd.NA)
    frame["n_seeds"] = 1
    return framed(frame, GAINS)


def _labels() -> pd.DataFrame:
    """The shares of splits and labels, and the moments of numbers, of Tables 9 to 12."""
    splits = {"all": "all", "train": "train", "val": "validation", "test": "test"}
    printed = (
        (ROWS, table("tables9_12_splits").assign(name=""), "{}_pct"),
        (CLASS, table("tables10_12_label_distributions").rename(columns={"label": "name"}), "{}_pct"),
        (MOMENT, table("table9_regression_stats").rename(columns={"statistic": "name"}), "{}"),
    )
    parts = [
        frame.assign(task=frame.task_id, split=split, kind=kind, value=frame[column.format(short)])
        for kind, frame, column in printed
        for short, split in splits.items()
    ]
    return framed(pd.concat(parts, ignore_index=True), DISTRIBUTIONS)


# The tables of the paper as they are printed, one CSV file each; ids of tasks are ours.


def table(name: str) -> pd.DataFrame:
    """The rows of one file of the folder ``tables``, by its name without ``.csv``."""
    with (resources.files(__package__) / "tables" / f"{name}.csv").open(encoding="utf-8") as file:
        return pd.read_csv(file)


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
    marks = ["~" if is_drawn and name not in splits.published else "" for name in NAMES]
    # Labels of all rows and of every split whose ids are known; nested splits count a row once for each.
    nested = [row for name in NAMES for row in getattr(splits, name)]
    parts = {"all": nested if len({row.id for row in nested}) < len(nested) else rows}
    parts |= {name: getattr(splits, name) for name in splits.published}
    return audit(published, {name: _answers(splits.task.label, part) for name, part in parts.items()}), {
        "train/validation/test": "/".join(f"{mark}{size}" for mark, size in zip(marks, sizes, strict=True)),
        "%": "/".join(f"{100 * size / sum(sizes):.1f}" for size in sizes),
        "printed %": printed,
    }


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
