"""What scored texts say of the people who wrote them: levels over time, by group, and what follows a text.

The questions are those of Sharma et al. 2020 (EMNLP, section 7 and appendix C). Every answer is a relative change: the
ratio of two means less 1. Its interval takes authors as the units that were drawn, since texts of one author resemble
each other, and is formed on the logarithm of the ratio by linearisation (Cochran 1977, Sampling Techniques, 6.3).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from analysis.tables import Declared, framed
from tasks.errors import BadInput
from tasks.plain_text import counted, nearest

Array = np.ndarray
LEVEL = 0.95
TOTAL = "total"  # of all tasks of a text, as the paper adds up its three mechanisms
ALL = "all"
DAYS = 365.25  # of a period
FEWEST_TEXTS, FEWEST_DAYS = 10, 365.0  # of an author whose texts count in time (appendix C there)
MOST_GROUPS = 24
MOST_CLASSES = 7  # levels that are told apart by themselves; of more, quarters of the texts
QUARTERS = 4

OF_LEVELS = {
    "scale": Declared("str", "a task, or the total of all tasks of a text"),
    "authors": Declared("Int64", "authors behind the comparison, or of the row where nothing is compared"),
    "texts": Declared("Int64", "texts of the row"),
}
CHANGE = {
    "change": Declared("float64", "relative change (%): the ratio of the two means less 1, times 100"),
    "low": Declared("float64", "lower end of its 95 % interval, clustered by author; undefined below two authors"),
    "high": Declared("float64", "upper end"),
}
OVER_TIME = {
    **OF_LEVELS,
    "joined": Declared("str", "the year of the authors' first text, or all of them"),
    "period": Declared("int64", "whole years since an author's first text"),
    "everyone": Declared("float64", "mean over all texts of the period: it moves when authors leave, too"),
    "mean": Declared("float64", "mean over authors, of authors with texts in this period and in their first"),
    "first": Declared("float64", "mean over the same authors in their first period"),
    **CHANGE,
}
BY_GROUP = {
    **OF_LEVELS,
    "group": Declared("str", "a group of texts"),
    "mean": Declared("float64", "mean level of the group's texts"),
    "reference": Declared("str", "the largest group, with which the others are compared"),
    **CHANGE,
}
BY_LEVEL = {
    **OF_LEVELS,
    "level": Declared("str", "a level, or the range of a quarter of the texts"),
    "outcome": Declared("float64", "mean outcome of these texts"),
    "reference": Declared("str", "the lowest level, with which the others are compared"),
    **CHANGE,
}


def levels(scored: pd.DataFrame, order: Sequence[str] = ()) -> pd.DataFrame:
    """One row per text and one column per task, and their total where there are several: levels as numbers.

    ``scored`` has one row per text and task (``task``, ``value``, ``prediction``), the tasks of a text together; a
    class counts by its place in ``order``, or as the number that it is. BadInput for a class that is neither.
    """
    tasks = list(dict.fromkeys(scored.task))
    columns = {task: _numbers(task, scored[scored.task == task], order) for task in tasks}
    lengths = {len(column) for column in columns.values()}
    if len(lengths) > 1:
        raise BadInput(f"the tasks {', '.join(tasks)} have scored different numbers of texts; name one with --task")
    wide = pd.DataFrame(columns)
    return wide.assign(**{TOTAL: wide.sum(axis=1)}) if len(tasks) > 1 else wide


def _numbers(task: str, rows: pd.DataFrame, order: Sequence[str]) -> Array:
    values: Array = rows.value.to_numpy("float64")
    if np.isfinite(values).all():
        return values
    classes = rows.prediction.astype(str)
    if order:
        if unknown := sorted(set(classes) - set(order)):
            near = nearest(unknown[0], order)
            raise BadInput(f"--levels {','.join(order)}: class {unknown[0]!r} of task {task!r} is not there{near}")
        places: Array = classes.map({name: place for place, name in enumerate(order)}).to_numpy("float64")
        return places
    numbers: Array = pd.to_numeric(classes, errors="coerce").to_numpy("float64")
    if not np.isfinite(numbers).all():
        known = ",".join(sorted(set(classes))[:MOST_CLASSES])
        raise BadInput(f"classes of task {task!r} are no numbers; name them from low to high, as in --levels {known}")
    return numbers


def ratio(sums: Array, counts: Array) -> tuple[float, float, float]:
    """The ratio of two means with its interval, authors drawn: ``sums`` and ``counts`` [authors, 2] of its two sides.

    With means m = S / n of a side, an author moves the logarithm of the ratio m1 / m0 by (s1 - m1 n1) / S1
    - (s0 - m0 n0) / S0; the variance is that of these terms. The bounds are undefined for fewer than two authors, and
    where a mean is not above 0.
    """
    whole, n = sums.sum(0), counts.sum(0)
    means = np.divide(whole, n, out=np.full(2, np.nan), where=n > 0)
    if not (means > 0).all():
        value = float(means[0] / means[1]) if means[1] > 0 else np.nan
        return value, np.nan, np.nan
    moved = (sums - means * counts) / whole
    terms, authors = moved[:, 0] - moved[:, 1], len(sums)
    value = float(means[0] / means[1])
    if authors < 2:
        return value, np.nan, np.nan
    error = np.sqrt(authors / (authors - 1) * (terms**2).sum())
    half = float(stdtrit(authors - 1, (1 + LEVEL) / 2) * error)
    return value, value * float(np.exp(-half)), value * float(np.exp(half))


def _change(sums: Array, counts: Array) -> dict[str, float]:
    value, low, high = ratio(sums, counts)
    return {"change": 100 * (value - 1), "low": 100 * (low - 1), "high": 100 * (high - 1)}


def over_time(
    scales: pd.DataFrame,
    author: pd.Series,
    time: pd.Series,
    *,
    fewest_texts: int = FEWEST_TEXTS,
    fewest_days: float = FEWEST_DAYS,
) -> pd.DataFrame:
    """Levels by years since an author's first text, among those who stay; one row per scale, stratum and period.

    A later period is compared with the first one of the same authors, so that nobody's leaving moves the answer.
    Authors with fewer texts, or a shorter time between first and last, than asked for are left out; BadInput
    if fewer than two are left.
    """
    first, last = (time.groupby(author).transform(end) for end in ("min", "max"))
    stays = (last - first).dt.total_seconds() >= 86400 * fewest_days
    kept = stays & (author.groupby(author).transform("size") >= fewest_texts)
    if author[kept].nunique() < 2:
        raise BadInput(
            f"--author: {counted(author[kept].nunique(), 'author')} of {author.nunique():,} with"
            f" {fewest_texts} texts over {fewest_days:g} days; ask less with --fewest-texts or"
            " --fewest-days"
        )
    period = ((time - first).dt.total_seconds() / 86400 // DAYS).astype("int64")
    joined = first.dt.year.astype(str)
    rows = [
        row
        for stratum in (ALL, *sorted(joined[kept].unique()))
        for name in scales
        for row in _periods(
            pd.DataFrame({"level": scales[name], "author": author, "period": period})[
                kept & ((joined == stratum) | (stratum == ALL))
            ],
            {"scale": name, "joined": stratum},
        )
    ]
    return framed(pd.DataFrame(rows), OVER_TIME)


def _periods(texts: pd.DataFrame, facts: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A row for each period of one scale and stratum."""
    by_author = texts.groupby(["period", "author"])["level"].mean().unstack("period")
    for period in sorted(texts.period.unique()):
        both = by_author[[0, period]].dropna().to_numpy()
        own = texts[texts.period == period]
        row = {**facts, "period": period, "authors": len(both), "texts": len(own), "everyone": own["level"].mean()}
        means = {"mean": both[:, 1].mean(), "first": both[:, 0].mean()} if len(both) else {}
        compared = _change(both[:, ::-1], np.ones_like(both)) if period and len(both) else {}
        yield {**row, **means, **compared}


def by_group(scales: pd.DataFrame, author: pd.Series, group: pd.Series) -> pd.DataFrame:
    """Mean levels of groups of texts and how they differ from the largest group; BadInput outside 2 to 24 groups."""
    sizes = group.value_counts()
    if not 2 <= len(sizes) <= MOST_GROUPS:
        raise BadInput(f"--group: {counted(len(sizes), 'group')} where 2 to {MOST_GROUPS} can be compared")
    rows = [
        {"scale": name, "group": part, "mean": own.pop("mean"), "reference": sizes.index[0], **own}
        for name in scales
        for part, own in _compared(scales[name], author, group.astype(str), [str(part) for part in sizes.index])
    ]
    return framed(pd.DataFrame(rows), BY_GROUP)


def by_level(scales: pd.DataFrame, author: pd.Series, outcome: pd.Series) -> pd.DataFrame:
    """Mean outcomes of texts of every level and how they differ from those of the lowest level."""
    rows = []
    for name in scales:
        level, names = _classes(scales[name])
        rows += [
            {"scale": name, "level": part, "outcome": own.pop("mean"), "reference": names[0], **own}
            for part, own in _compared(outcome, author, level, names)
        ]
    return framed(pd.DataFrame(rows), BY_LEVEL)


def _classes(values: pd.Series) -> tuple[pd.Series, list[str]]:
    """The level of every text as a name, and the names from low to high: quarters where there are many levels."""
    known = np.sort(values.unique())
    if len(known) <= MOST_CLASSES:
        names = {value: f"{value:g}" for value in known}
        return values.map(names), list(names.values())
    cut = pd.qcut(values, QUARTERS, duplicates="drop")
    names = {part: f"{part.left:.3g} to {part.right:.3g}" for part in cut.cat.categories}
    return cut.map(names).astype(str), list(names.values())


def _compared(
    values: pd.Series, author: pd.Series, part: pd.Series, order: Sequence[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """For every part of the texts its mean, and its relative change against the first part."""
    cells = values.groupby([author, part]).agg(["sum", "count"]).astype("float64")
    sums, counts = (cells[what].unstack(fill_value=0)[list(order)] for what in ("sum", "count"))
    base = order[0]
    for name in order:
        n = counts[name].sum()
        row = {"authors": int((counts[name] > 0).sum()), "texts": int(n), "mean": sums[name].sum() / n}
        if name != base:
            is_in = (counts[name] > 0) | (counts[base] > 0)
            sides = [part[[name, base]][is_in].to_numpy("float64") for part in (sums, counts)]
            row |= {"authors": int(is_in.sum()), **_change(*sides)}
        yield name, row


def followed(time: pd.Series, outcome: pd.Series, within_hours: float) -> pd.Series:
    """1 for a text whose outcome, a time or nothing, comes at most so many hours after it; else 0."""
    hours = (outcome - time).dt.total_seconds() / 3600
    return ((hours >= 0) & (hours <= within_hours)).astype("float64")
