"""What every analysis starts from: gains of pairs, facts of tasks and their ratings, wherever they come from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from adapters_store.key import MissingRecord
from adapters_store.measures import STATISTICS, statistics_inputs
from adapters_store.roles import BASELINE, planned_role
from adapters_store.store import Store
from analysis.gains.cells import Manifest
from analysis.gains.gains import SEED
from analysis.gains.gains import gains as gains_of
from analysis.gains.significance import DRAWS
from analysis.tables import Declared, framed, inline
from tasks.ratings import Rating, constructs, rating_files, ratings

GAINS = {
    "intermediate": Declared("str", "task whose adapter is below"),
    "target": Declared("str", "task that was trained and tested"),
    "metric": Declared("str", "metric of the target, as tasks.metrics names it"),
    "n_seeds": Declared("int64", "training runs behind the score; 0: the pair is planned but not finished"),
    "score": Declared("float64", "test score of the transfer"),
    "baseline": Declared("float64", "test score of the target alone, in the same setting"),
    "gain": Declared("float64", "score - baseline, in the metric's own unit"),
    "percent": Declared("float64", "100 gain / baseline; undefined where the baseline is below .05"),
    "standard_error": Declared("float64", "of the gain; Results.errors says how it was found"),
    "p": Declared("float64", "two-sided, that the true gain is 0"),
    "p_bh": Declared("float64", "p after Benjamini and Hochberg over all pairs"),
    "gain_over_full": Declared("float64", "score - the baseline with all data"),
    "low_over_full": Declared("float64", "lower end of its 95 % interval"),
    "high_over_full": Declared("float64", "upper end of its 95 % interval"),
    "standard_error_over_full": Declared("float64", "of gain_over_full"),
    "df_over_full": Declared("float64", "degrees of freedom of that standard error"),
    "p_over_full": Declared("float64", "two-sided, that the true gain over the full baseline is 0"),
    "collapsed": Declared("boolean", "score or baseline is at or below the majority-class score (r: 0)"),
    "contaminated": Declared("boolean", "test items are training material; undefined: not measured"),
}
TASKS = {
    "task": Declared("str", "id of the task"),
    "title": Declared("str", "its name in tables and figures"),
    "dataset": Declared("str", "data set that its rows come from"),
    "family": Declared("str", "data sets that share texts or people"),
    "theme": Declared("str", "class of tasks; empty: none is given"),
    "data_source": Declared("str", "where the texts were collected"),
    "setting": Declared("str", "situation of language: conversation, social_media, essay"),
    "task_type": Declared("str", "regression or classification"),
    "metric": Declared("str", "as tasks.metrics names it"),
    "n_labels": Declared("Int64", "classes of the label; of a number 1, by convention"),
    "samples": Declared("Int64", "rows in all splits"),
    "tokens": Declared("Int64", "words in all rows; undefined: not counted"),
    "vocabulary": Declared("Int64", "distinct words; undefined: not counted"),
    "n_test": Declared("Int64", "rows of the test split"),
}
RATINGS = {
    "task": Declared("str", "id of the task"),
    "construct": Declared("str", "what was rated"),
    "rater": Declared("str", "who rated"),
    "value": Declared("float64", "on the construct's scale"),
}
SPLITS = ("train", "validation", "test")
ROWS, CLASS, MOMENT = "rows", "class", "moment"
DISTRIBUTIONS = {
    "task": Declared("str", "id of the task"),
    "split": Declared("str", "all, train, validation or test"),
    "kind": Declared("str", "rows: share of all rows; class: share of the split's rows; moment: of the numbers there"),
    "name": Declared("str", "class; or min, median, max, mean, std; of rows empty"),
    "value": Declared("float64", "percent; of a moment the label's own unit"),
}
TRAINING = {
    "task": Declared("str", "id of the task"),
    "epochs": Declared("int64", "the last of which the best on validation is taken"),
    "batch_size": Declared("int64", "rows a step"),
    "learning_rate": Declared("float64", "at the start; it falls linearly to 0"),
    "weight_decay": Declared("float64", "of AdamW"),
    "warmup": Declared("float64", "share of the steps"),
    "clip": Declared("float64", "largest norm of a step's gradient"),
}
LOSS = {"loss": Declared("str", "what was minimised, with its numbers; a column where a task has another than usual")}

Statistics = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Results:
    """A finished grid: ``gains`` one row per (intermediate, target), ``tasks`` and ``ratings`` one row per each.

    ``labels`` and ``training`` are frames of the tasks' data and settings (DISTRIBUTIONS, TRAINING).
    ``errors`` says how standard errors were found: ``measured`` from resampled predictions, ``approximated`` from a
    score and a number of rows, or as analysis.results.own_table has it. ``setting`` is the share of the target's
    training data. ``sensitivity`` is by task what its adapter alone loses when contexts are swapped, in the metric's
    own unit, where a probe has measured it.
    """

    name: str
    gains: pd.DataFrame
    tasks: pd.DataFrame
    ratings: pd.DataFrame
    setting: str = "full"
    errors: str = "measured"
    is_synthetic: bool = False
    labels: pd.DataFrame = field(default_factory=lambda: framed(pd.DataFrame(), DISTRIBUTIONS))
    training: pd.DataFrame = field(default_factory=lambda: framed(pd.DataFrame(), TRAINING))
    sensitivity: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(
        cls, store: Store, manifest: Manifest, *, setting: str = "full", draws: int = DRAWS, seed: int = SEED
    ) -> Results:
        """The results of a stored study in one setting; pairs that are not finished have rows without a score."""
        pairs = gains_of(store, manifest, draws=draws, seed=seed)
        return cls.from_gains(store, manifest, pairs, setting)

    @classmethod
    def by_setting(cls, store: Store, manifest: Manifest, pairs: pd.DataFrame) -> dict[str, Results]:
        """The results of every setting, ``full`` first, from a frame of gains of all settings."""
        settings = dict.fromkeys(["full", *pairs.setting])
        return {setting: cls.from_gains(store, manifest, pairs, setting) for setting in settings}

    @classmethod
    def from_gains(cls, store: Store, manifest: Manifest, pairs: pd.DataFrame, setting: str) -> Results:
        """The results in one setting from a frame of gains of all settings, as ``gains`` returns it."""
        pairs = pairs[pairs.setting == setting].reset_index(drop=True)
        frame = pairs.assign(
            gain=pairs.points / 100,
            standard_error=pairs.standard_error / 100,
            **{name: pairs[name] / 100 for name in ("low_over_full", "high_over_full", "standard_error_over_full")},
            gain_over_full=pairs.points_over_full / 100,
        )
        counted = stored_statistics(store, manifest)
        facts = [_facts(name, task, counted) for name, task in manifest["tasks"].items()]
        files = rating_files(manifest["study"].get("registry", ()))
        rated = [rating for rating in ratings(files) if rating.task in manifest["tasks"]]
        return cls(
            manifest["name"],
            framed(frame, GAINS),
            framed(pd.DataFrame(facts), TASKS),
            framed(pd.DataFrame(rated, columns=list(Rating._fields)), RATINGS),
            setting,
            is_synthetic=manifest["synthetic"],
            labels=distributions(counted),
            training=training(store, manifest),
        )

    @property
    def constructs(self) -> list[str]:
        """The constructs that were rated: declared ones in their order, then others in that of their ratings."""
        rated = dict.fromkeys(self.ratings.construct)
        return [name for name in dict.fromkeys([*constructs(), *rated]) if name in rated]

    @property
    def banner(self) -> str:
        """The beginning of every title of made-up data; empty for real data."""
        return "SYNTHETIC DATA: " if self.is_synthetic else ""

    def title(self, task: str) -> str:
        """A task's name in tables and figures."""
        return self._titles[task]

    @cached_property
    def _titles(self) -> dict[str, str]:
        return dict(zip(self.tasks.task, map(str, self.tasks.title), strict=True))


def _facts(name: str, task: Mapping[str, Any], counted: Statistics) -> dict[str, Any]:
    """One task of a manifest as a row of the frame of tasks; words are undefined where they were not counted."""
    same = ("title", "dataset", "family", "theme", "data_source", "setting", "metric", "n_test")
    is_number = task["kind"] == "continuous"
    return {
        "task": name,
        **{field: task[field] for field in same},
        "task_type": "regression" if is_number else "classification",
        "n_labels": 1 if is_number else len(task["classes"]),
        "samples": task["n_test"] if task.get("folds") else sum(task[f"n_{part}"] for part in SPLITS),
        "tokens": counted.get(name, {}).get("words", np.nan),
        "vocabulary": counted.get(name, {}).get("vocabulary", np.nan),
    }


# What a study knows of its tasks' data and training: sizes, words, labels and settings, from the store alone.


def stored_statistics(store: Store, manifest: Manifest) -> dict[str, Mapping[str, Any]]:
    """What ``tasks.quality`` counted of each task when the study was run; no entry where it was not counted."""
    by_task = {}
    for name, task in manifest["tasks"].items():
        try:
            by_task[name] = store.measure(
                STATISTICS, statistics_inputs(name, task["splits_hash"], task["classes"])
            ).result
        except (KeyError, MissingRecord):  # a study that was last run before its words were counted
            continue
    return by_task


def distributions(statistics: Statistics) -> pd.DataFrame:
    """One row per task, split and class or moment, and one for the split's share of all rows."""
    rows = [(name, *row) for name, of_task in statistics.items() for row in _rows(of_task)]
    return framed(pd.DataFrame(rows, columns=list(DISTRIBUTIONS)), DISTRIBUTIONS)


def training(store: Store, manifest: Manifest) -> pd.DataFrame:
    """One row per task with a finished baseline on all data: the settings it was trained with."""
    rows: dict[str, dict[str, Any]] = {}
    for cell in manifest["cells"]:
        is_alone = planned_role(cell) == BASELINE and cell["setting"] == "full"
        if is_alone and cell["target"] not in rows and cell["key"] in store:
            rows[cell["target"]] = _settings_in(store.get(cell["key"]).spec)
    frame = pd.DataFrame([{"task": name, **settings} for name, settings in rows.items()])
    return framed(frame, TRAINING | (LOSS if any("loss" in settings for settings in rows.values()) else {}))


def _settings_in(spec: Mapping[str, Any]) -> dict[str, Any]:
    """How a cell was trained: the settings that its spec names, and its loss where that is not the usual one."""
    if "loss" not in spec:
        return dict(spec["training"])
    numbers = {name: value for name, value in spec["loss"].items() if name != "kind"}
    return {**spec["training"], "loss": f"{spec['loss']['kind']} ({inline(numbers)})"}


def _rows(counted: Mapping[str, Any]) -> Iterator[tuple[str, str, str, float]]:
    total = sum(counted["rows"].values())
    for split, labels in counted["labels"].items():
        kind = MOMENT if set(labels) == {"min", "median", "max", "mean", "std"} else CLASS
        yield split, ROWS, "", 100 * counted["rows"].get(split, total) / total
        yield from ((split, kind, name, value) for name, value in labels.items())
