"""A look at a corpus that a study's tasks have scored: how scales are spread, go together, and differ between groups.

A scale is a number for every text: the value of a task of numbers, the probability of the second of two classes, or of
each of several classes. They are what adapters predict, not what people would say of these texts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats
from scipy.special import expit, logit

from analysis.frames import Declared, framed

LEVEL = 0.95
MOST_TEXTS = 50_000  # that are looked at: every n-th of more
MOST_GROUPS = 24
DAYS_BY_MONTH = 120  # a longer span is told by month, a shorter one by day
DATES = 0.95  # share of groups that must be dates to be a time
TWO = 2
OTHERS = "others"
ENDS = {"low": -1, "high": 1}
FEWEST = 10  # texts that a mean has an interval of

CORRELATIONS: Mapping[str, Declared] = {
    "scale": Declared("str", "a scale"),
    "other": Declared("str", "another scale"),
    "rho": Declared("float64", "Spearman's rank correlation over texts; undefined where one of them never varies"),
    "n": Declared("int64", "texts"),
}
GROUPS: Mapping[str, Declared] = {
    "scale": Declared("str", "a scale"),
    "group": Declared("str", "a group of texts, or a day or month"),
    "n": Declared("int64", "texts"),
    "mean": Declared("float64", "mean of the scale"),
    "low": Declared(
        "float64",
        "lower end of its 95 % interval (Student's t over texts, of a probability in log odds); none of fewer than 10",
    ),
    "high": Declared("float64", "upper end"),
}


def read_scored(path: Path) -> pd.DataFrame:
    """A file that ``score`` has written, csv, jsonl or parquet."""
    if path.suffix == ".parquet":
        return pd.read_parquet(path)
    if path.suffix == ".jsonl":
        return pd.read_json(path, lines=True, dtype={"id": str, "group": str, "prediction": str})
    text = {"id": "str", "group": "str", "prediction": "str", "probabilities": "str"}
    return pd.read_csv(path, dtype=text, keep_default_na=False, na_values={"value": [""], "probability": [""]})


def scales(scored: pd.DataFrame) -> pd.DataFrame:
    """One row per text, one column per scale, in the order of the tasks; ``group`` first where there is one.

    Texts are told apart by their place, for ids may repeat; of very many every n-th is taken.
    """
    tasks = list(dict.fromkeys(scored["task"]))
    place = np.arange(len(scored)) // max(1, len(tasks))
    step = -(-(int(place[-1]) + 1) // MOST_TEXTS) if len(place) else 1
    kept, places = scored[place % step == 0], place[place % step == 0]
    columns: dict[str, pd.Series] = {}
    if "group" in kept:
        columns["group"] = pd.Series(kept["group"].to_numpy(), index=places).groupby(level=0).first()
    for task in tasks:
        rows = kept["task"].to_numpy() == task
        columns |= _of_task(task, kept[rows].set_index(places[rows]))
    return pd.DataFrame(columns).reset_index(drop=True)


def _of_task(task: str, rows: pd.DataFrame) -> dict[str, pd.Series]:
    """The scales of one task, by name."""
    if rows["value"].notna().all():
        return {task: rows["value"].astype("float64")}
    shares = pd.DataFrame([json.loads(text) for text in rows["probabilities"]], index=rows.index)
    names = list(shares.columns)
    is_either = len(names) == TWO and rows["probability"].notna().all()  # several labels at once have none
    return {f"{task}: {name}": shares[name] for name in (names[1:] if is_either else names)}


def correlations(wide: pd.DataFrame) -> pd.DataFrame:
    """Spearman's correlation of every two scales, both ways, those with themselves included."""
    values = wide.drop(columns="group", errors="ignore")
    matrix = values.rank().corr()
    rows = [
        {"scale": one, "other": other, "rho": matrix.loc[one, other], "n": len(values)}
        for one in matrix
        for other in matrix
    ]
    return framed(pd.DataFrame(rows, columns=list(CORRELATIONS)), CORRELATIONS)


def group_means(wide: pd.DataFrame) -> pd.DataFrame:
    """The mean of every scale in every group with its interval, groups in order of size, times in theirs.

    Groups after the largest are one, ``others``; a group of fewer than FEWEST texts has no interval.
    """
    groups, names = wide["group"].astype(str), group_names(wide)
    sizes = names.value_counts()
    order = sorted(sizes.index) if is_time(groups) else [one for one in sizes.index if one != OTHERS]
    order += [OTHERS] if OTHERS in sizes.index and OTHERS not in order else []
    rows = [
        {"scale": scale, "group": name, **_mean(wide.loc[names == name, scale].dropna().to_numpy(), is_share(scale))}
        for scale in wide.columns.drop("group")
        for name in order
    ]
    return framed(pd.DataFrame(rows, columns=list(GROUPS)), GROUPS)


def group_names(wide: pd.DataFrame) -> pd.Series:
    """What the group of each text is called, one row per text: a day or a month, or a group, or ``others``."""
    return _named(wide["group"].astype(str))


def is_share(scale: str) -> bool:
    """Whether a scale is the probability of a class: its name has the task's and the class's."""
    return ": " in scale


def is_time(groups: pd.Series) -> bool:
    """Whether nearly all groups are dates."""
    return len(groups) > 0 and float(_dates(groups).notna().mean()) >= DATES


def _dates(groups: pd.Series) -> pd.Series:
    return pd.to_datetime(groups, format="ISO8601", errors="coerce", utc=True)


def _named(groups: pd.Series) -> pd.Series:
    """The groups as they are told: days or months of dates, the largest of names."""
    if is_time(groups):
        dates = _dates(groups)
        span = (dates.max() - dates.min()).days
        return dates.dt.strftime("%Y-%m" if span > DAYS_BY_MONTH else "%Y-%m-%d").fillna("undated")
    largest = set(groups.value_counts().index[:MOST_GROUPS])
    return groups.where(groups.isin(largest), OTHERS)


def _mean(values: np.ndarray, is_probability: bool) -> dict[str, float]:
    n = len(values)
    mean = float(values.mean()) if n else float("nan")
    if n < FEWEST:
        return {"n": n, "mean": mean, "low": float("nan"), "high": float("nan")}
    half = float(stats.t.ppf((1 + LEVEL) / 2, n - 1) * values.std(ddof=1) / np.sqrt(n))
    if not is_probability or half == 0:
        return {"n": n, "mean": mean, "low": mean - half, "high": mean + half}
    half /= mean * (1 - mean)  # of the log odds of the mean, whose slope is that
    return {"n": n, "mean": mean, **{end: float(expit(logit(mean) + side * half)) for end, side in ENDS.items()}}
