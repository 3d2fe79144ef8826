"""What every analysis starts from: gains of pairs, facts of tasks and their ratings, wherever they come from.

They come from a store, from the paper, or from a long table of scores with ratings and facts of its tasks beside it,
which are files that a person brings. A cell that cannot be used is refused by its file and line, and what the tables
cannot tell is said in sentences beside the results.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from adapters_store.key import MissingRecord
from adapters_store.measures import STATISTICS, statistics_inputs
from adapters_store.roles import BASELINE, planned_role
from adapters_store.store import Store
from analysis.gains.cells import Manifest, studied
from analysis.gains.gains import COLUMNS as OF_GAINS
from analysis.gains.gains import SEED
from analysis.gains.gains import gains as gains_of
from analysis.gains.pairs import SMALLEST_BASELINE
from analysis.gains.significance import DRAWS
from analysis.tables import Declared, few, framed, inline, interval_columns
from tasks.errors import BadRow, MissingData
from tasks.metrics import MEASURES
from tasks.plain_text import counted, nearest
from tasks.ratings import Rating, constructs, rating_files, ratings, themes
from tasks.readers.raw import Raw, read_raw

SAME = ("intermediate", "target", "metric", "n_seeds", "score", "baseline")
GAINS = {
    **{name: OF_GAINS[name] for name in SAME},
    "gain": Declared("float64", "score - baseline, in the metric's own unit"),
    "percent": Declared("float64", "100 gain / baseline; undefined where the baseline is below .05"),
    "standard_error": Declared("float64", "of the gain; Results.errors says how it was found"),
    **{name: OF_GAINS[name] for name in ("p", "p_bh")},
    "gain_over_full": Declared("float64", "score - the baseline with all data"),
    **interval_columns("{}_over_full"),
    "standard_error_over_full": Declared("float64", "of gain_over_full"),
    **{name: OF_GAINS[name] for name in ("df_over_full", "p_over_full", "collapsed", "contaminated")},
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
    score and a number of rows, or as analysis.results.results has it. ``setting`` is the share of the target's
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
        return cls.from_gains(store, manifest, gains_of(store, manifest, draws=draws, seed=seed), setting)

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
        facts = [_facts(name, task, counted) for name, task in studied(manifest).items()]
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


ENDINGS = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet")
NEEDED, OPTIONAL = ("intermediate", "target", "score", "baseline"), ("seed", "metric")
EQUAL = 1e-9  # of two scores
UNDEFINED = ("", "nan", "na")
COUNTS = tuple(name for name, column in TASKS.items() if column.type == "Int64")
TYPES = ("regression", "classification")
COLUMNS = [name for name in TASKS if name != "metric"]
_RowsAndLimits = tuple[list[dict[str, Any]], list[str]]


@dataclass(frozen=True)
class OwnTable:
    """Results read from a table, and what cannot be known from it, a sentence each."""

    results: Results
    limits: tuple[str, ...]


class Transfer(NamedTuple):
    """One row of the table; an undefined score is NaN, a seed or metric that is not given is empty."""

    where: str
    intermediate: str
    target: str
    seed: str
    metric: str
    score: float
    baseline: float


def read_own_table(scores: Path, ratings: Path | None = None, tasks: Path | None = None) -> OwnTable:
    """Results from tables of scores, of ratings and of facts of tasks; csv, tsv, jsonl or parquet.

    BadRow, starting with ``file:line``, for a row that cannot be used; MissingData for a file that is not there.
    """
    raw = _raw_of(scores)
    rows = list(_transfers(raw))
    _check(rows)
    names = list(dict.fromkeys(name for row in rows for name in (row.intermediate, row.target)))
    facts, of_tasks = _task_rows(tasks, names, {row.target: row.metric for row in rows})
    rated, of_ratings = ([], []) if ratings is None else rating_rows(ratings, names)
    frame = pd.DataFrame(rows)
    # One row of gains per pair, seeds together; a pair without any finished seed has no score.
    done = frame[frame.score.notna() & frame.baseline.notna()]
    done = done.assign(gain=done.score - done.baseline)
    grouped = done.groupby(["intermediate", "target"], sort=False).agg(
        n_seeds=("gain", "size"), score=("score", "mean"), baseline=("baseline", "mean"), spread=("gain", "var")
    )
    grouped["gain"] = grouped.score - grouped.baseline
    grouped["percent"] = 100 * grouped.gain / grouped.baseline.where(grouped.baseline >= SMALLEST_BASELINE)
    # Standard errors of mean gains over seeds, from the variance between seeds, pooled over the pairs of a target.
    freedom = (grouped.n_seeds - 1).groupby("target").transform("sum")
    squares = (grouped.spread.fillna(0) * (grouped.n_seeds - 1)).groupby("target").transform("sum")
    variance = (squares / freedom.where(freedom > 0)).where(squares > 0)
    grouped["standard_error"] = np.sqrt(variance / grouped.n_seeds)
    planned = frame.drop_duplicates(["intermediate", "target"])[["intermediate", "target", "metric"]]
    pairs = planned.merge(grouped.reset_index(), how="left", on=["intermediate", "target"])
    pairs["n_seeds"] = pairs.n_seeds.fillna(0)
    records: list[dict[str, Any]] = pairs.to_dict("records")
    gains = framed(pd.DataFrame(records), GAINS)
    errors = "not known" if gains.standard_error.isna().all() else "those of the spread over seeds"
    results = Results(
        scores.name, gains, framed(pd.DataFrame(facts), TASKS), framed(pd.DataFrame(rated), RATINGS), errors=errors
    )
    extra = [name for name in raw.header if name not in (*NEEDED, *OPTIONAL)]
    unused_columns = [f"Columns that are not used: {few(extra)}."] if extra else []
    return OwnTable(results, (*_limits(frame, gains), *unused_columns, *of_tasks, *of_ratings))


def _transfers(raw: Raw) -> Iterator[Transfer]:
    """Every row, checked on its own."""
    position = {name: raw.column(name) for name in NEEDED}
    position |= {name: raw.column(name) for name in OPTIONAL if name in raw.header}
    for k, cells in enumerate(raw.rows):
        where = raw.where(k)
        intermediate, target = (_text(where, name, cells[position[name]]) for name in NEEDED[:2])
        if intermediate == target:
            raise BadRow(
                f"{where}: {target} is its own intermediate; leave the row out, and put its score as `baseline`"
            )
        seed, metric = (cells[position[name]].strip() if name in position else "" for name in OPTIONAL)
        if metric and metric not in MEASURES:
            hint = nearest(metric, MEASURES) or f"; known are {', '.join(MEASURES)}"
            raise BadRow(f"{where}: unknown metric {metric!r}{hint}; leave it empty for any other")
        score, baseline = (_share(where, name, cells[position[name]]) for name in NEEDED[2:])
        yield Transfer(where, intermediate, target, seed, metric, score, baseline)


def _share(where: str, name: str, cell: str) -> float:
    share = _number(where, name, cell)
    if abs(share) > 1:
        raise BadRow(f"{where}: {name} {cell} is not between -1 and 1; divide percentages by 100")
    return share


def _check(rows: Sequence[Transfer]) -> None:
    """BadRow for two rows that contradict each other."""
    pairs: dict[tuple[str, ...], Transfer] = {}
    alone: dict[tuple[str, str], Transfer] = {}
    metrics: dict[str, Transfer] = {}
    for row in rows:
        first = pairs.setdefault((row.intermediate, row.target, row.seed), row)
        if first is not row:
            of_seed = f" for seed {row.seed}" if row.seed else " without a seed"
            raise BadRow(
                f"{row.where}: {row.intermediate} > {row.target}{of_seed} is at {first.where} too; keep one, or tell"
                " them apart by `seed`"
            )
        if (metric := metrics.setdefault(row.target, row)).metric != row.metric:
            raise BadRow(f"{row.where}: metric {row.metric!r} of {row.target} is {metric.metric!r} at {metric.where}")
        if math.isnan(row.baseline):
            continue
        base = alone.setdefault((row.target, row.seed), row)
        if abs(base.baseline - row.baseline) > EQUAL:
            raise BadRow(
                f"{row.where}: baseline {row.baseline:g} of {row.target} is {base.baseline:g} at {base.where};"
                " it is the score of the target alone, one for each seed"
            )


def _limits(rows: pd.DataFrame, gains: pd.DataFrame) -> Iterator[str]:
    """What the table of scores cannot tell, or lacks."""
    yield "Whether a single gain is significant: that needs the predictions behind the scores. No pair has a p."
    if gains.standard_error.isna().all():
        yield "Standard errors: no pair has two seeds that differ. All pairs weigh the same."
    else:
        yield "Standard errors come from the spread over seeds, pooled within targets, and not from the test rows."
    yield "Which cells collapsed or are contaminated."
    possible = rows.intermediate.nunique() * rows.target.nunique() - len(set(rows.intermediate) & set(rows.target))
    if len(gains) < possible:
        yield f"{possible - len(gains)} of {possible} possible pairs are not in the table."
    if undefined := int(rows[["score", "baseline"]].isna().any(axis=1).sum()):
        yield f"{undefined} of {counted(len(rows), 'row')} with no score or no baseline, counted as missing."


# Facts and ratings of the tasks, from the tables beside that of scores.


def _task_rows(path: Path | None, names: Sequence[str], metrics: Mapping[str, str]) -> _RowsAndLimits:
    """One row of facts per task of the grid, in its order, and sentences on what is not known of them.

    ``names`` are the tasks of the grid, ``metrics`` those of targets. A task without a family is one of its own.
    """
    read = {} if path is None else _tasks(path)
    facts = []
    for name in names:
        row = read.get(name, {})
        text = {column: row.get(column) or "" for column in COLUMNS if column not in COUNTS}
        metric = metrics.get(name, "")
        kind = text["task_type"] or (TYPES[metric != "pearson_r"] if metric else "")
        defaults = {"task": name, "title": text["title"] or name, "family": text["family"] or name}
        facts.append(
            {**text, **defaults, "metric": metric, "task_type": kind, **{count: row.get(count) for count in COUNTS}}
        )
    # What the facts do not say of the grid's tasks, and facts of other tasks.
    lines = []
    if alone := [name for name in names if not read.get(name, {}).get("family")]:
        lines.append(
            f"Families of {len(alone)} of {len(names)} tasks ({few(alone)}): each is taken as one of its own. Where"
            " such tasks share texts or people, leaving families out is too kind to the features."
        )
    if bare := [name for name in names if name not in read]:
        lines.append(f"Facts of {len(bare)} of {len(names)} tasks ({few(bare)}); a feature needs them of every task.")
    others = [name for name in read if name not in names]
    unknown_facts = lines + ([f"Facts of tasks that are not in the table of scores: {few(others)}."] if others else [])
    return facts, unknown_facts


def rating_rows(path: Path, names: Sequence[str]) -> _RowsAndLimits:
    """Every rating of a task of the grid, and a sentence on ratings of other tasks.

    Constructs may be any; BadRow for a second rating of the same thing by one rater, or if no rated task is known.
    """
    raw = _raw_of(path)
    position = {name: raw.column(name) for name in Rating._fields}
    seen: dict[tuple[str, ...], str] = {}
    rows: list[dict[str, Any]] = []
    for k, cells in enumerate(raw.rows):
        where = raw.where(k)
        rated = tuple(_text(where, name, cells[position[name]]) for name in Rating._fields[:3])
        if (first := seen.setdefault(rated, where)) != where:
            raise BadRow(f"{where}: {rated[2]} rated {rated[0]} on {rated[1]} at {first} too; keep one")
        rows.append(dict(zip(Rating._fields, (*rated, _number(where, "value", cells[position["value"]])), strict=True)))
    kept = [row for row in rows if row["task"] in names and row["value"] == row["value"]]
    others = list(dict.fromkeys(row["task"] for row in rows if row["task"] not in names))
    if not kept:
        hint = nearest(others[0], names) if others else ""
        raise BadRow(f"{path}:2: rates no task of the table of scores{hint}; use the same names in both")
    return kept, [f"Ratings of tasks that are not in the table of scores: {few(others)}."] if others else []


def _tasks(path: Path) -> dict[str, dict[str, Any]]:
    """Facts by task, checked; a column that is not known is refused."""
    raw = _raw_of(path)
    raw.column("task")
    for name in raw.header:
        if name not in COLUMNS:
            hint = nearest(name, COLUMNS) or f"; known are {', '.join(COLUMNS)}"
            raise BadRow(f"{path}:1: unknown column {name!r}{hint}")
    by_task: dict[str, dict[str, Any]] = {}
    for k, cells in enumerate(raw.rows):
        row = _fact(raw.where(k), dict(zip(raw.header, cells, strict=True)))
        if row["task"] in by_task:
            raise BadRow(f"{raw.where(k)}: task {row['task']} stands above too; keep one row")
        by_task[row["task"]] = row
    return by_task


def _fact(where: str, cells: Mapping[str, str]) -> dict[str, Any]:
    """One row of facts; an empty cell is a fact that is not known."""
    row: dict[str, Any] = {name: cell.strip() for name, cell in cells.items() if name not in COUNTS}
    row["task"] = _text(where, "task", cells["task"])
    for name, allowed in (("theme", tuple(themes())), ("task_type", TYPES)):
        if row.get(name) and row[name] not in allowed:
            raise BadRow(f"{where}: {name} {row[name]!r} is not one of {', '.join(allowed)}; leave it empty for none")
    for name in COUNTS:
        count = _number(where, name, cells.get(name, ""))
        if count < 0 or count % 1 > 0:
            raise BadRow(f"{where}: {name} {cells[name]!r} is not a whole number from 0")
        row[name] = None if count != count else int(count)
    return row


# Cells of all three tables, each checked where it stands.


def _raw_of(path: Path) -> Raw:
    """The cells of a file; MissingData if it is not there, BadRow if it has no row."""
    if not path.is_file():
        raise MissingData(f"{path}: no such file; correct its path")
    raw = read_raw(path)
    if not raw.rows:
        raise BadRow(f"{path}:1: there is no row below the header; write one row for each transfer, task or rating")
    return raw


def _number(where: str, name: str, cell: str) -> float:
    """The number in a cell, NaN where it is empty or says so; BadRow if it is anything else."""
    if cell.strip().lower() in UNDEFINED:
        return math.nan
    try:
        amount = float(cell)
    except ValueError:
        amount = math.inf
    if not math.isfinite(amount):
        raise BadRow(f"{where}: {name} {cell!r} is not a number; leave it empty where there is none")
    return amount


def _text(where: str, name: str, cell: str) -> str:
    """The text in a cell; BadRow if it is empty."""
    if not cell.strip():
        raise BadRow(f"{where}: {name} is empty; fill it in")
    return cell.strip()
