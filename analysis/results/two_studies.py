"""Whether a gain is another one in a second study: the difference of two gains, tested on the test items they share.

Gains of two studies on the same test items err together: an item that an intermediate happens to help counts for both.
So the groups of a test set are resampled alike in both studies, and the covariance of the two gains through groups is
taken from their variances. Training runs of two studies are independent of each other. Where the items differ, or one
study has no predictions, errors are taken as independent; that is too careful as far as gains err together.

At the end: the facts of a specification in words, to be held against another's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import t as student

from adapters_store.roles import BASELINE, TRANSFER
from adapters_store.store import Store
from analysis.gains.cells import Manifest, planned_cells, predictions
from analysis.gains.columns import Cell, Column, column_of
from analysis.gains.pairs import PAIR
from analysis.gains.significance import FloatArray
from analysis.tables import Declared, framed, inline
from tasks.plain_text import counted

NOT_GIVEN = "not given"
MOST_VALUES = 3  # of a setting over targets that are counted one by one; of more the range is said
DRAWS, SEED = 2000, 20_240_909  # a covariance needs fewer draws than the end of an interval
SHARED = {
    **dict.fromkeys(PAIR, Declared("str", "as in the frame of gains")),
    "covariance": Declared("float64", "of both gains through groups of test items, in points squared"),
    "group_df": Declared("float64", "equal groups that the test set is worth, less 1"),
}


class Stored(NamedTuple):
    """A study in a store."""

    store: Store
    manifest: Manifest


def shared_errors(a: Stored, b: Stored, *, draws: int = DRAWS, seed: int = SEED) -> pd.DataFrame:
    """One row per gain that both studies have on the very same test items: the columns SHARED."""
    first, second = (_columns_of(study) for study in (a, b))
    rows = []
    for where in (where for where in first if where in second):
        pairs = ((a.store, first[where]), (b.store, second[where]))
        if not _is_same_test(pairs):
            continue
        columns = [column_of(store, cells, draws=draws, seed=seed) for store, cells in pairs]
        of_a, of_b = (dict(_gain_draws(column)) for column in columns)
        groups = columns[0].groups
        for name in (name for name in of_a if name in of_b):
            covariance = covariance_through_groups(of_a[name], of_b[name], groups.count)
            rows.append((name, *where, 1e4 * covariance, groups.effective - 1))
    return framed(pd.DataFrame(rows, columns=list(SHARED)), SHARED)


def covariance_through_groups(first: FloatArray, second: FloatArray, groups: int) -> float:
    """Covariance of two estimates from their draws [draws] on the same resampled groups; NaN below two groups."""
    is_known = np.isfinite(first) & np.isfinite(second)
    if groups < 2 or is_known.sum() < 2:
        return float("nan")
    return float(np.cov(first[is_known], second[is_known], bias=True)[0, 1] * groups / (groups - 1))


def p_of_differences(both: pd.DataFrame) -> FloatArray:
    """P that both gains are equal, of rows with difference, and standard_error, seed_error and df of ``_a`` and ``_b``.

    With ``covariance`` and ``group_df`` the groups' parts are taken together, else, where they are undefined, as
    independent. Degrees of freedom are those of the parts together (Satterthwaite 1946).
    """
    errors, seeds, freedom = (
        np.stack([both[f"{name}_{side}"].to_numpy("float64") for side in "ab"])
        for name in ("standard_error", "seed_error", "df")
    )
    covariance, group_df = (both[name].to_numpy("float64") for name in ("covariance", "group_df"))
    with np.errstate(divide="ignore", invalid="ignore"):
        # 1. Each variance is that of groups and of seeds; what a standard error's degrees of freedom say of both
        #    together, less the groups' part, is left for the seeds.
        of_groups = errors**2 - np.nan_to_num(seeds) ** 2
        inverse = errors**4 / freedom
        of_seeds = np.maximum(inverse - of_groups**2 / group_df, 0.0).sum(axis=0)
        # 2. Through groups the difference has both variances less twice the covariance; through seeds it has their sum.
        shared = np.maximum(of_groups.sum(axis=0) - 2 * covariance, 0.0)
        total = shared + (np.nan_to_num(seeds) ** 2).sum(axis=0)
        together = shared**2 / group_df + of_seeds
        # 3. Without shared items both errors are independent of each other.
        is_shared = np.isfinite(covariance)
        total = np.where(is_shared, total, (errors**2).sum(axis=0))
        together = np.where(is_shared, together, inverse.sum(axis=0))
        sizes = np.abs(both.difference.to_numpy("float64")) / np.where(total > 0, np.sqrt(total), np.nan)
        p: FloatArray = 2 * student.sf(sizes, total**2 / together)
    return p


def _columns_of(study: Stored) -> dict[tuple[str, str], list[Cell]]:
    """The finished targets alone and transfers of a study by target and setting."""
    frame = planned_cells(study.store, study.manifest)
    kept = frame[(frame.status == "done") & frame.role.isin([BASELINE, TRANSFER])]
    columns: dict[tuple[str, str], list[Cell]] = {}
    for cell in Cell.all_of(kept):
        columns.setdefault((cell.target, cell.setting), []).append(cell)
    return columns


def _is_same_test(pairs: Sequence[tuple[Store, list[Cell]]]) -> bool:
    """Whether the first cells of both have the same test rows, groups and labels, by the same metric."""
    if pairs[0][1][0].metric != pairs[1][1][0].metric:
        return False
    shown = [predictions(store, store.get(cells[0].key)) for store, cells in pairs]
    return all(np.array_equal(*(getattr(side, name) for side in shown)) for name in ("ids", "groups", "labels"))


def _gain_draws(column: Column) -> Iterator[tuple[str, FloatArray]]:
    """The resampled gain [draws] of every intermediate of a column, means over seeds."""
    lanes: dict[str | None, list[int]] = {}
    for lane, place in column.lanes.items():
        lanes.setdefault(lane.intermediate, []).append(place)
    alone = lanes.pop(None, [])
    for name, places in lanes.items():
        if alone and name is not None:
            yield name, column.draws[:, places].mean(axis=1) - column.draws[:, alone].mean(axis=1)


# What differs between two specifications, in words.


def spread(settings: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Each setting's value; where targets have others, how many have each, or of many values their range."""
    names = dict.fromkeys(name for own in settings for name in own)
    return {name: _values(Counter(own.get(name, NOT_GIVEN) for own in settings)) for name in names}


def _values(counts: Mapping[str, int]) -> str:
    if len(counts) == 1:
        return next(iter(counts))
    try:
        ordered = sorted(counts, key=float)
    except ValueError:  # words
        ordered = list(counts)
    else:
        if len(ordered) > MOST_VALUES:
            return f"{ordered[0]} to {ordered[-1]}, by target"
    return ", ".join(f"{value} ({counted(counts[value], 'target')})" for value in ordered)


def flat(facts: Mapping[str, Any], depth: int = 2, prefix: str = "") -> dict[str, str]:
    """Nested facts by dotted names, as words; a table in a table is one fact."""
    words: dict[str, str] = {}
    for name, value in facts.items():
        if isinstance(value, Mapping) and depth > 1:
            words |= flat(value, depth - 1, f"{prefix}{name}.")
        else:
            words[f"{prefix}{name}"] = listed(value) if isinstance(value, list | tuple) else inline(value)
    return words


def each(values: Iterable[Any]) -> str:
    """The different values of a study's cells."""
    return ", ".join(sorted(set(map(str, values)))) or "no finished cell"


def listed(names: Iterable[Any]) -> str:
    """Names side by side."""
    return ", ".join(map(str, names)) or "none"
