"""What every analysis starts from: gains of pairs, facts of tasks and their ratings, wherever they come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from adapters_store.store import Store
from analysis.cells import Manifest
from analysis.data_facts import DISTRIBUTIONS, TRAINING, Statistics, distributions, stored_statistics, training
from analysis.frames import Declared as Declared
from analysis.frames import framed as framed
from analysis.gains import SEED
from analysis.gains import gains as gains_of
from analysis.significance import DRAWS
from tasks.ratings import Rating, constructs, rating_files, ratings

SPLITS = ("train", "validation", "test")
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
    "collapsed": Declared("boolean", "score or baseline is at or below what always the commonest answer scores"),
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


@dataclass(frozen=True)
class Results:
    """A finished grid: ``gains`` one row per (intermediate, target), ``tasks`` and ``ratings`` one row per each.

    ``labels`` and ``training`` are what is known of the tasks' data and settings (analysis.data_facts).
    ``errors`` says how standard errors were found: ``measured`` from resampled predictions, ``approximated`` from a
    score and a number of rows, or as analysis.matrix has it. ``setting`` is the share of the target's training data.
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
        """The results in one setting from a frame of gains of all settings, as ``analysis.gains`` gives it."""
        pairs = pairs[pairs.setting == setting].reset_index(drop=True)
        frame = pairs.assign(
            gain=pairs.points / 100,
            standard_error=pairs.standard_error / 100,
            **{name: pairs[name] / 100 for name in ("low_over_full", "high_over_full", "standard_error_over_full")},
            gain_over_full=pairs.points_over_full / 100,
        )
        counted = stored_statistics(store, manifest)
        facts = [_facts(name, one, counted) for name, one in manifest["tasks"].items()]
        files = rating_files(manifest["study"].get("registry", ()))
        rated = [one for one in ratings(files) if one.task in manifest["tasks"]]
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
        """What somebody rated: declared constructs in their order, then others in that of their ratings."""
        rated = dict.fromkeys(self.ratings.construct)
        return [name for name in dict.fromkeys([*constructs(), *rated]) if name in rated]

    @property
    def banner(self) -> str:
        """What stands before every title of made-up data; nothing for real ones."""
        return "SYNTHETIC DATA: " if self.is_synthetic else ""

    def title(self, task: str) -> str:
        """A task's name in tables and figures."""
        return str(self.tasks.title[self.tasks.task == task].item())


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
