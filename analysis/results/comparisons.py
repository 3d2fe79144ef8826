"""Comparisons of results: two studies with each other, systems over repeated splits, and tasks by their contexts.

Gains of two studies on the same test items err together: an item that an intermediate happens to help counts for both.
So the groups of a test set are resampled alike in both studies, and the covariance of the two gains through groups is
taken from their variances. Training runs of two studies are independent of each other. Where the items differ, or one
study has no predictions, errors are taken as independent; that is too careful as far as gains err together.

Of R repeated random splits of the same rows the differences d of two systems are not independent: training sets
overlap, and so do test sets. Their plain variance s2 / R is far too small. Nadeau and Bengio (2003) put
(1 / R + n_test / n_train) s2 in its place, where s2 is the variance of d between repeats, and refer mean d to Student's
t with R - 1 degrees of freedom. Of several systems every pair has such a t, and these hang on each other. ``pairwise``
draws them together: the means from a normal distribution with the systems' covariance between repeats, and that
covariance itself from the Wishart distribution of R - 1 degrees of freedom, so that every t alone keeps its own
distribution, whatever the covariance is. The step-down maximum of these draws (Westfall and Young 1993) bounds the
probability of a single false difference.

A task's sensitivity to contexts is the drop of its adapter alone when they are swapped (``analysis.results.probes``).
What it teaches is the mean of its gains as an intermediate over targets, what it learns that of the gains on it over
intermediates.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri, stdtr, stdtrit

from adapters_store.measures import SWAPPED
from adapters_store.record import Record
from adapters_store.roles import BASELINE, TRANSFER
from adapters_store.store import Store
from analysis.gains.cells import Manifest, PlannedCell, ScoredColumn, column_of, planned_cells, predictions
from analysis.gains.comparisons import over_targets
from analysis.gains.corrections import GainTest, reaches, step_down
from analysis.gains.pairs import PAIR
from analysis.gains.significance import LEVEL, FloatArray
from analysis.tables import Declared, framed, inline, interval_columns
from tasks.metrics import MEASURES
from tasks.plain_text import counted

NOT_GIVEN = "not given"
MOST_VALUES = 3  # of a setting over targets that are counted one by one; of more the range is said
DRAWS, SEED = 2000, 20_240_909  # a covariance needs fewer draws than the end of an interval
SHARED = {
    **dict.fromkeys(PAIR, Declared("str", "as in the frame of gains")),
    "covariance": Declared("float64", "of both gains through groups of test items, in points squared"),
    "group_df": Declared("float64", "equal groups that the test set is worth, less 1"),
}


class StoredStudy(NamedTuple):
    """A study in a store."""

    store: Store
    manifest: Manifest


def shared_errors(a: StoredStudy, b: StoredStudy, *, draws: int = DRAWS, seed: int = SEED) -> pd.DataFrame:
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
        p: FloatArray = 2 * stdtr(total**2 / together, -sizes)
    return p


def _columns_of(study: StoredStudy) -> dict[tuple[str, str], list[PlannedCell]]:
    """The finished targets alone and transfers of a study by target and setting."""
    frame = planned_cells(study.store, study.manifest)
    kept = frame[(frame.status == "done") & frame.role.isin([BASELINE, TRANSFER])]
    columns: dict[tuple[str, str], list[PlannedCell]] = {}
    for cell in PlannedCell.all_of(kept):
        columns.setdefault((cell.target, cell.setting), []).append(cell)
    return columns


def _is_same_test(pairs: Sequence[tuple[Store, list[PlannedCell]]]) -> bool:
    """Whether the first cells of both have the same test rows, groups and labels, by the same metric."""
    if pairs[0][1][0].metric != pairs[1][1][0].metric:
        return False
    shown = [predictions(store, store.get(cells[0].key)) for store, cells in pairs]
    return all(np.array_equal(*(getattr(side, name) for side in shown)) for name in ("ids", "groups", "labels"))


def _gain_draws(column: ScoredColumn) -> Iterator[tuple[str, FloatArray]]:
    """The resampled gain [draws] of every intermediate of a column, means over seeds."""
    lanes: dict[str | None, list[int]] = {}
    for lane, lane_index in column.lanes.items():
        lanes.setdefault(lane.intermediate, []).append(lane_index)
    alone = lanes.pop(None, [])
    for name, places in lanes.items():
        if alone and name is not None:
            yield name, column.draws[:, places].mean(axis=1) - column.draws[:, alone].mean(axis=1)


# What differs between two specifications, in words.


def spread(settings: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Each setting's value; where targets have others, how many have each, or of many values their range."""
    names = dict.fromkeys(name for setting in settings for name in setting)
    return {name: _values(Counter(setting.get(name, NOT_GIVEN) for setting in settings)) for name in names}


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


Answers = tuple[NDArray[Any], NDArray[Any]]  # labels, and decisions


@dataclass(frozen=True)
class Corrected:
    """Mean over repeats, its corrected 95 % interval, and the two-sided p that the true mean is 0; NaN: unknown."""

    mean: float
    low: float
    high: float
    p: float


def nadeau_bengio(values: ArrayLike, ratio: float) -> Corrected:
    """The mean of ``values`` ``[repeats]``; ``ratio`` is n_test / n_train, from 0.

    For example, ten repeats of 75/5/20 have the ratio .27, and a standard error 1.9 times the plain one.
    """
    sample = np.asarray(values, dtype=np.float64)
    count, mean = sample.size, float(sample.mean()) if sample.size else np.nan
    if count < 2 or not np.isfinite(sample).all():
        return Corrected(mean, np.nan, np.nan, np.nan)
    error = float(np.sqrt((1 / count + ratio) * sample.var(ddof=1)))
    half = float(stdtrit(count - 1, 1 - LEVEL / 2)) * error
    if error == 0:
        return Corrected(mean, mean, mean, float(mean == 0))
    return Corrected(mean, mean - half, mean + half, float(2 * stdtr(count - 1, -abs(mean) / error)))


def pairwise(
    scores: FloatArray, ratio: float, *, draws: int, rng: np.random.Generator
) -> tuple[list[Corrected], FloatArray]:
    """Differences of all pairs of systems ``scores [systems, repeats]``, as combinations has them, and their p_max.

    A pair without p has no p_max and is not counted among the others.
    """
    pairs = list(combinations(range(len(scores)), 2))
    differences = np.array([scores[a] - scores[b] for a, b in pairs]).reshape(len(pairs), -1)
    corrected = [nadeau_bengio(difference, ratio) for difference in differences]
    is_tested = np.array([np.isfinite(pair.p) for pair in corrected], dtype=bool)
    adjusted = np.full(len(pairs), np.nan)
    if is_tested.any():
        p = np.array([pair.p for pair in corrected])[is_tested]
        sizes = _drawn_sizes(differences[is_tested], draws, rng)
        df, column = differences.shape[1] - 1, ("", "")
        observed = -ndtri(np.maximum(p, np.finfo(float).tiny) / 2)  # of a normal deviate with the p of that t
        tests = [GainTest(column, 0, *test, df=df) for test in zip(observed, sizes.T, strict=True)]
        (reach,), _ = reaches(enumerate(tests))
        adjusted[is_tested] = np.maximum(step_down([reach])[0], p)  # drawn, it may fall below by chance
    return corrected, adjusted


def _drawn_sizes(differences: FloatArray, draws: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """Joint sizes of t of these ``differences [pairs, repeats]`` if all true ones are 0: ``[draws, pairs]``.

    A standard normal vector over repeats times centred differences has their covariance, times R - 1. One that never
    varies has a size of 0.
    """
    centred = (differences - differences.mean(axis=1, keepdims=True)).T
    repeats = len(centred)
    mean = rng.normal(size=(draws, repeats)) @ centred
    squares = np.zeros_like(mean)
    for _ in range(repeats - 1):
        squares += np.square(rng.normal(size=(draws, repeats)) @ centred)
    error = np.sqrt(squares / (repeats - 1))
    sizes: FloatArray = np.divide(np.abs(mean), error, out=np.zeros_like(mean), where=error > 0)
    return sizes.astype(np.float32)


@dataclass(frozen=True)
class Repeats:
    """A contestant's scores ``[repeats]``, mean over seeds, and n_test / n_train."""

    scores: FloatArray
    ratio: float


def repeats_of(store: Store, records: Sequence[Record]) -> Repeats:
    """The scores of records with repeats, one record per seed, from their predictions."""
    counts = records[0].results["folds"]
    ratio = sum(part["n_test"] for part in counts) / sum(part["n_train"] for part in counts)
    measure = MEASURES[records[0].results["metric"]]
    scores = [[measure(*answers) for answers in answers_by_repeat(store, record)] for record in records]
    return Repeats(np.mean(scores, axis=0), ratio)


def answers_by_repeat(store: Store, record: Record) -> list[Answers]:
    """Labels and decisions of every repeat of a record, whose test sets share rows."""
    shown = predictions(store, record)
    repeat = pq.ParquetFile(store.open(record.key, "test.parquet")).read(["fold"])["fold"].to_numpy()
    each = [repeat == number for number in np.unique(repeat)]
    return [(shown.labels[rows], shown.decisions[rows]) for rows in each]


FULL = "full"
TEACHES, LEARNS = "teaches", "learns"
ENDS = {TEACHES: "intermediate", LEARNS: "target"}  # the end of a gain at which a task stands
FEWEST = 5  # tasks that a correlation is given of

BY_TASK = {
    "part": Declared("str", "teaches: its gains as an intermediate; learns: those of others on it"),
    "task": Declared("str", "a task whose adapter alone was probed"),
    "sensitivity": Declared("float64", "points that its adapter alone loses when contexts are swapped"),
    **interval_columns("sensitivity_{}", ", over groups and seeds"),
    "mean": Declared("float64", "mean gain in points, over the other tasks"),
    "low": Declared(
        "float64", "lower end of its 95 % interval, Student's t over the other tasks; none of fewer than two"
    ),
    "high": Declared("float64", "its upper end"),
    "n": Declared("int64", "other tasks behind the mean; contaminated gains are left out"),
    "rho": Declared("float64", "Spearman's correlation of sensitivity and mean over the part's tasks; none below five"),
}


def context_by_task(probed: pd.DataFrame, gains: pd.DataFrame) -> pd.DataFrame:
    """Two rows a task that has a probe and a finished gain, with the columns ``BY_TASK``.

    ``probed`` has the columns ``PROBED`` of analysis.results.probes, ``gains`` those of analysis.gains.gains.
    """
    swapped = probed[(probed.role == BASELINE) & (probed.operation == SWAPPED)]
    is_kept = (gains.setting == FULL) & gains.points.notna() & ~gains.contaminated.fillna(value=False).astype(bool)
    parts = [_part(part, swapped, gains[is_kept]) for part in ENDS]
    return framed(pd.concat(parts, ignore_index=True), BY_TASK)


def _part(part: str, swapped: pd.DataFrame, gains: pd.DataFrame) -> pd.DataFrame:
    rows = []
    for row in swapped.itertuples():
        points = gains.loc[gains[ENDS[part]] == row.target, "points"].to_numpy(float)
        if not len(points):
            continue
        mean, low, high = over_targets(points)
        lost = {"sensitivity": row.drop, "sensitivity_low": row.drop_low, "sensitivity_high": row.drop_high}
        gained = {"mean": mean, "low": low, "high": high, "n": len(points)}
        rows.append({"part": part, "task": row.target, **{name: 100 * x for name, x in lost.items()}, **gained})
    frame = pd.DataFrame(rows, columns=[name for name in BY_TASK if name != "rho"])
    rho = frame["sensitivity"].rank().corr(frame["mean"].rank()) if len(frame) >= FEWEST else np.nan
    return frame.assign(rho=rho)
