"""The paper's printed scores, sizes and ratings in the form of a finished study."""

from __future__ import annotations

from dataclasses import replace
from importlib import resources

import numpy as np
import pandas as pd
from scipy.special import ndtr

from analysis.gains.corrections import benjamini_hochberg
from analysis.results.results import CLASS, DISTRIBUTIONS, GAINS, MOMENT, RATINGS, ROWS, TASKS, TRAINING, Results
from analysis.tables import framed
from tasks.ratings import FOLDER

LEAKING_DATASET = "news"  # 800 of the 900 test rows are training rows


def results() -> Results:
    """All 306 pairs of the paper, with the diagonal of its score tables as baselines; the same at every call.

    Predictions of the transfers are not published, so standard errors are approximated, for errors that are independent
    of the baseline's, and there is no p.
    """
    facts = _tasks()
    trained = framed(table("table4_training"), TRAINING)
    parts = _gains(facts), facts, _ratings()
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


def _tasks() -> pd.DataFrame:
    """One row per task: sizes of its data set from Table 1, its theme from Table 5, test rows from Tables 9 to 12."""
    sizes = table("table1_dataset_sizes").rename(
        columns={"dataset_id": "dataset", "vocab_size": "vocabulary", "total_tokens": "tokens"}
    )
    shares = table("tables9_12_splits").rename(columns={"task_id": "task"})
    frame = table("tasks").merge(sizes, on="dataset").merge(table("table5_themes")[["task", "theme"]], on="task")
    frame = frame.merge(shares, on="task")
    frame["n_test"] = (frame.samples * frame.test_pct / 100).round()
    frame["task_type"] = frame.metric.map({"pearson_r": "regression", "macro_f1": "classification"})
    return framed(frame, TASKS)


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


def _ratings() -> pd.DataFrame:
    """The 108 ratings of Table 2."""
    return framed(pd.read_csv(FOLDER / "muddy-waters.csv"), RATINGS)


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


def task_of(printed: str) -> str:
    """Our id of a task by any spelling that the paper prints."""
    names = table("task_names")
    return str(names.task[names.printed == printed].item())
