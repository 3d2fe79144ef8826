"""Any grid of transfers as results: a long table of scores, with ratings and facts of its tasks beside it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from analysis.gains import SMALLEST_BASELINE
from analysis.markdown import few
from analysis.matrix_cells import named, number, raw_of
from analysis.matrix_tasks import given_ratings, given_tasks
from analysis.results import GAINS, RATINGS, TASKS, Results, framed
from tasks.errors import BadRow
from tasks.metrics import MEASURES
from tasks.plain_text import counted
from tasks.readers.formats.cells import Raw
from tasks.toml_file import nearest

ENDINGS = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet")
NEEDED, OPTIONAL = ("intermediate", "target", "score", "baseline"), ("seed", "metric")
EQUAL = 1e-9  # of two scores


@dataclass(frozen=True)
class Matrix:
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


def read_matrix(scores: Path, ratings: Path | None = None, tasks: Path | None = None) -> Matrix:
    """Results from tables of scores, of ratings and of facts of tasks; csv, tsv, jsonl or parquet.

    BadRow, starting with ``file:line``, for a row that cannot be used; MissingData for a file that is not there.
    """
    raw = raw_of(scores)
    rows = list(_transfers(raw))
    _check(rows)
    names = list(dict.fromkeys(name for one in rows for name in (one.intermediate, one.target)))
    facts, of_tasks = given_tasks(tasks, names, {one.target: one.metric for one in rows})
    rated, of_ratings = given_ratings(ratings, names)
    frame = pd.DataFrame(rows)
    gains = framed(pd.DataFrame(_pairs(frame)), GAINS)
    errors = "not known" if gains.standard_error.isna().all() else "those of the spread over seeds"
    results = Results(
        scores.name, gains, framed(pd.DataFrame(facts), TASKS), framed(pd.DataFrame(rated), RATINGS), errors=errors
    )
    limits = (*_limits(frame, gains), *_unused(raw), *of_tasks, *of_ratings)
    return Matrix(results, limits)


def _transfers(raw: Raw) -> Iterator[Transfer]:
    """Every row, checked on its own."""
    place = {name: raw.column(name) for name in NEEDED}
    place |= {name: raw.column(name) for name in OPTIONAL if name in raw.header}
    for k, cells in enumerate(raw.rows):
        where = raw.where(k)
        below, above = (named(where, name, cells[place[name]]) for name in NEEDED[:2])
        if below == above:
            raise BadRow(
                f"{where}: {above} is its own intermediate; leave the row out, and put its score as `baseline`"
            )
        seed, metric = (cells[place[name]].strip() if name in place else "" for name in OPTIONAL)
        if metric and metric not in MEASURES:
            known = nearest(metric, MEASURES) or f"; known are {', '.join(MEASURES)}"
            raise BadRow(f"{where}: unknown metric {metric!r}{known}; leave it empty for any other")
        score, baseline = (_share(where, name, cells[place[name]]) for name in NEEDED[2:])
        yield Transfer(where, below, above, seed, metric, score, baseline)


def _share(where: str, name: str, cell: str) -> float:
    found = number(where, name, cell)
    if abs(found) > 1:
        raise BadRow(f"{where}: {name} {cell} is not between -1 and 1; divide percentages by 100")
    return found


def _check(rows: Sequence[Transfer]) -> None:
    """BadRow for two rows that contradict each other."""
    pairs: dict[tuple[str, ...], Transfer] = {}
    alone: dict[tuple[str, str], Transfer] = {}
    metrics: dict[str, Transfer] = {}
    for one in rows:
        first = pairs.setdefault((one.intermediate, one.target, one.seed), one)
        if first is not one:
            of_seed = f" for seed {one.seed}" if one.seed else " without a seed"
            raise BadRow(
                f"{one.where}: {one.intermediate} > {one.target}{of_seed} is at {first.where} too; keep one, or tell"
                " them apart by `seed`"
            )
        if (metric := metrics.setdefault(one.target, one)).metric != one.metric:
            raise BadRow(f"{one.where}: metric {one.metric!r} of {one.target} is {metric.metric!r} at {metric.where}")
        if math.isnan(one.baseline):
            continue
        base = alone.setdefault((one.target, one.seed), one)
        if abs(base.baseline - one.baseline) > EQUAL:
            raise BadRow(
                f"{one.where}: baseline {one.baseline:g} of {one.target} is {base.baseline:g} at {base.where};"
                " it is the score of the target alone, one for each seed"
            )


def _pairs(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """One row of gains per pair, seeds together; a pair without any finished seed has no score."""
    done = rows[rows.score.notna() & rows.baseline.notna()]
    done = done.assign(gain=done.score - done.baseline)
    grouped = done.groupby(["intermediate", "target"], sort=False).agg(
        n_seeds=("gain", "size"), score=("score", "mean"), baseline=("baseline", "mean"), spread=("gain", "var")
    )
    grouped["gain"] = grouped.score - grouped.baseline
    grouped["percent"] = 100 * grouped.gain / grouped.baseline.where(grouped.baseline >= SMALLEST_BASELINE)
    grouped["standard_error"] = _standard_errors(grouped)
    planned = rows.drop_duplicates(["intermediate", "target"])[["intermediate", "target", "metric"]]
    found = planned.merge(grouped.reset_index(), how="left", on=["intermediate", "target"])
    found["n_seeds"] = found.n_seeds.fillna(0)
    rows_found: list[dict[str, Any]] = found.to_dict("records")
    return rows_found


def _standard_errors(pairs: pd.DataFrame) -> pd.Series:
    """Of the mean gain over seeds, from the variance between seeds that a target's pairs have on average.

    Two or three seeds tell little about a single pair's variance, so a target's pairs share theirs (pooled by degrees
    of freedom). NaN where no pair of the target has two seeds, or all seeds agree.
    """
    freedom = (pairs.n_seeds - 1).groupby("target").transform("sum")
    squares = (pairs.spread.fillna(0) * (pairs.n_seeds - 1)).groupby("target").transform("sum")
    variance = (squares / freedom.where(freedom > 0)).where(squares > 0)
    return np.sqrt(variance / pairs.n_seeds)


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


def _unused(raw: Raw) -> list[str]:
    extra = [name for name in raw.header if name not in (*NEEDED, *OPTIONAL)]
    return [f"Columns that are not used: {few(extra)}."] if extra else []
