"""The error of a transfer by the size of its gain: a transfer that gains has other answers, which vary with test items.

The error of a transfer as it is says little of what its error would be if it gained X points. So gains are put into a
transfer's own answers. Answers that its gain or harm is made of become those of the target alone, in random order,
until nothing is gained; then answers that the target alone has wrong become right, in random order and in every seed,
until the mean score has risen by so many points; of a correlation an answer becomes the standardised label in the
predictions' own mean and spread. The variance of such a gain through resampled groups
(``analysis.gains.significance``) is then known for the sizes of SIZES, and read off between them. Where the score is
the share of right answers, and no others change, that of a gain g is (g - g^2) / n, as in McNemar's test (Miettinen
1968); macro-F1 with a rare class has many times as much.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from adapters_store.roles import BASELINE, GAIN_ROLES
from adapters_store.store import Store
from analysis.gains.cells import Manifest, planned_cells, predictions
from analysis.gains.significance import Groups, score_draws, shared_variance
from analysis.tables import Declared, framed
from tasks.metrics import MEASURES

PAIR = ["intermediate", "target", "setting"]
SIZES = (0, 2, 5, 10, 20, 40)  # points
ERRORS = {
    f"error_at_{size}": Declared("float64", f"its error through test groups, in points, were its gain {size} points")
    for size in SIZES
}
GROWTH = {
    "intermediate": Declared("str", "task whose adapter is below"),
    "target": Declared("str", "id of the target"),
    "setting": Declared("str", "share of its training data"),
    **ERRORS,
    "effective_groups": Declared("float64", "how many equal groups the groups of test rows are worth"),
}
GROWTH_NAMES = tuple(name for name in GROWTH if name not in PAIR)
ORDERS = 8  # in which answers change
DRAWS, SEED = 1000, 20_261_128  # of test groups
FEWEST_GROUPS = 5  # from which on a best case is said
RIGHT, CORRELATION = 0.5, 0.5  # a made-up baseline's share of right answers; of numbers its r

Answers = NDArray[Any]  # decisions [seeds, n], of several classes [seeds, n, classes]


@dataclass(frozen=True)
class Growth:
    """Variances through groups, in points squared, of gains of SIZES; NaN from the first that cannot be reached."""

    variances: tuple[float, ...]

    @classmethod
    def constant(cls, variance: float) -> Growth:
        """One that is the same for gains of every size, as of printed scores, of which no answer is known."""
        return cls((variance,) * len(SIZES))

    @classmethod
    def of(cls, row: Any) -> Growth:  # noqa: ANN401 - a row of a frame
        """That of a row with the columns ERRORS."""
        return cls(tuple(getattr(row, name) ** 2 for name in ERRORS))

    def variance(self, points: float) -> float:
        """That of a gain of so many points, on a line between two sizes; beyond the largest reached it is its own."""
        known = [value for value in self.variances if np.isfinite(value)]
        return float(np.interp(points, SIZES[: len(known)], known)) if known else float("nan")


@dataclass(frozen=True)
class Pair:
    """The answers ``[seeds, n]`` of a target alone and of a transfer onto it, with labels ``[n]`` and groups."""

    metric: str
    labels: NDArray[Any]
    groups: Groups
    base: Answers
    top: Answers

    @property
    def right(self) -> Answers:
        """What the answers of the target alone become where they are put right."""
        return np.stack([right_answers(self.metric, self.labels, lane) for lane in self.base])

    def gain(self, top: Answers) -> float:
        """What these answers gain, in points of the mean score; NaN where a score is undefined."""
        return 100 * (self._score(top) - self._score(self.base))

    def without_gain(self, rng: np.random.Generator) -> Answers:
        """The transfer's answers, of which some are those of the target alone, so that it neither gains nor harms."""
        right, sign = self.right, np.sign(self.gain(self.top))
        nearer = _distance(self.base, right).sum(axis=0) - _distance(self.top, right).sum(axis=0)
        rows = rng.permutation(np.flatnonzero(sign * nearer > 0))  # what its gain or harm is made of
        back, _ = _first(self.top, self.base, rows, lambda top: np.sign(self.gain(top)) != sign)
        return back

    def with_gains(self, sizes: tuple[float, ...], rng: np.random.Generator) -> list[Answers]:
        """Answers with gains of these sizes in points, or just above, from the smallest on as far as they go."""
        right, made = self.right, []
        top, rows = self.without_gain(rng), rng.permutation(np.flatnonzero(_distance(self.base, right).sum(axis=0) > 0))
        for size in sizes:
            top, is_reached = _first(top, right, rows, lambda top, size=size: self.gain(top) >= size)  # type: ignore[misc]
            if not is_reached:
                break
            made.append(top)
        return made

    def growth(self) -> Growth:
        """The variances of gains of SIZES; all NaN where the score is undefined or no answer is wrong."""
        rng, n_seeds = np.random.default_rng(SEED), len(self.base)
        if self.groups.count < 2 or not np.isfinite(self.gain(self.top)):
            return Growth.constant(np.nan)
        made = [
            (size, top) for _ in range(ORDERS) for size, top in zip(SIZES, self.with_gains(SIZES, rng), strict=False)
        ]
        if max(size for size, _ in made) == 0:  # nothing is left to gain
            return Growth.constant(np.nan)
        lanes = np.concatenate([self.base, *(top for _, top in made)])
        draws = score_draws(self.metric, self.labels, self.groups, lanes, draws=DRAWS, rng=np.random.default_rng(SEED))
        draws = draws[np.isfinite(draws).all(axis=1)].reshape(-1, 1 + len(made), n_seeds)
        of_sizes: dict[float, list[float]] = {size: [] for size in SIZES}
        for place, (size, _) in enumerate(made, start=1):
            of_sizes[size].append(shared_variance(100 * (draws[:, place] - draws[:, 0])))
        scale = self.groups.count / (self.groups.count - 1)
        return Growth(tuple(scale * float(np.mean(of)) if of else np.nan for of in of_sizes.values()))

    def _score(self, lanes: Answers) -> float:
        return float(np.mean([MEASURES[self.metric](self.labels, lane) for lane in lanes]))


def _first(
    start: Answers, other: Answers, rows: NDArray[np.int64], reaches: Callable[[Answers], bool]
) -> tuple[Answers, bool]:
    """``start`` with as few of these rows, in their order, from ``other`` as it needs to reach; whether all do."""

    def mixed(count: int) -> Answers:
        answers = start.copy()
        answers[:, rows[:count]] = other[:, rows[:count]]
        return answers

    if reaches(start) or not reaches(mixed(len(rows))):
        return (start, True) if reaches(start) else (mixed(len(rows)), False)
    few, many = 0, len(rows)
    while many - few > 1:
        half = (few + many) // 2
        few, many = (few, half) if reaches(mixed(half)) else (half, many)
    return mixed(many), True


def _distance(lanes: Answers, right: Answers) -> NDArray[np.float64]:
    """How far answers are from right ones, ``[seeds, n]``: of classes 0 or 1, of numbers in their own unit."""
    if lanes.ndim == 3:
        return np.asarray((lanes != right).any(axis=2), dtype=np.float64)
    apart: NDArray[np.float64] = np.abs(lanes.astype(np.float64) - right)
    return apart


def right_answers(metric: str, labels: NDArray[Any], decisions: NDArray[Any]) -> NDArray[Any]:
    """What the decisions become where they are put right."""
    if metric != "pearson_r" or np.ptp(labels) == 0:
        return labels
    scaled: NDArray[Any] = (labels - labels.mean()) / labels.std() * decisions.std() + decisions.mean()
    return scaled


def growths(store: Store, manifest: Manifest) -> pd.DataFrame:
    """One row per finished transfer of a grid, its seeds together: the columns GROWTH.

    The errors are undefined where the target collapsed. MixedRecords for a record that is not what was planned.
    """
    planned = planned_cells(store, manifest)
    done = planned[planned.status == "done"]
    rows = []
    for (target, setting), column in done.groupby(["target", "setting"], sort=False):
        alone = column[column.role == BASELINE]
        is_collapsed = alone.collapsed.fillna(False).astype(bool).any()
        bases = {cell.seed: predictions(store, store.get(cell.key)) for cell in alone.itertuples()}
        for intermediate, cells in column[column.role.isin(GAIN_ROLES)].groupby("intermediate", sort=False):
            tops = {cell.seed: predictions(store, store.get(cell.key)) for cell in cells.itertuples()}
            seeds = sorted(tops.keys() & bases.keys())
            if not seeds:
                continue
            base, top = (np.stack([shown[seed].decisions for seed in seeds]) for shown in (bases, tops))
            shown = bases[seeds[0]]
            groups = Groups.of(shown.groups)
            pair = Pair(alone.metric.iloc[0], shown.labels, groups, base, top)
            own = Growth.constant(np.nan) if is_collapsed else pair.growth()
            rows.append((intermediate, target, setting, *np.sqrt(own.variances), groups.effective))
    return framed(pd.DataFrame(rows, columns=list(GROWTH)), GROWTH)


def grown(gains: pd.DataFrame, growths: pd.DataFrame) -> pd.DataFrame:
    """The frame of gains with the errors by size of their pairs, from the frame of ``growths``."""
    known = growths.set_index(PAIR).reindex(pd.MultiIndex.from_frame(gains[PAIR]))
    return gains.assign(**{name: known[name].to_numpy() for name in known})


def best_growth(metric: str, labels: ArrayLike, groups: Groups) -> Growth:
    """Of test rows alone, before anything is trained: a made-up target, and a transfer that changes nothing but gains.

    Half of its answers are right (RIGHT), the others the labels of other rows; numbers correlate by CORRELATION.
    """
    true, rng = np.asarray(labels), np.random.default_rng(SEED)
    if metric == "pearson_r":
        answers = true + true.std() * np.sqrt(1 / CORRELATION**2 - 1) * rng.standard_normal(len(true))
    else:
        answers = true[rng.permutation(len(true))]
        is_right = rng.random(len(true)) < RIGHT
        answers[is_right] = true[is_right]
    return Pair(metric, true, groups, answers[None], answers[None]).growth()
