"""From finished cells to what each intermediate changed: every transfer against its target's baseline.

A gain is the mean score of a transfer over its seeds minus the mean of its target's baseline over all of the
baseline's seeds. In a setting other than full there are two baselines: the one of the same setting, which says what
the intermediate adds to the little data there is, and the full one, which says whether it makes up for the rest.

The error of a transfer as it is says little of what its error would be if it gained X points, since a transfer that
gains has other answers. So gains are put into a transfer's own answers (``growths``). Answers that its gain or harm is
made of become those of the target alone, in random order, until nothing is gained; then answers that the target alone
has wrong become right, in random order and in every seed, until the mean score has risen by so many points; of a
correlation an answer becomes the standardised label in the predictions' own mean and spread. The variance of such a
gain through resampled groups (``analysis.gains.significance``) is then known for the sizes of SIZES, and read off
between them. Where the score is the share of right answers, and no others change, that of a gain g is (g - g^2) / n, as
in McNemar's test (Miettinen 1968); macro-F1 with a rare class has many times as much.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from adapters_store.roles import BASELINE, GAIN_ROLES
from adapters_store.store import Store
from analysis.gains import corrections
from analysis.gains.cells import Manifest, Scored, own_scores, planned_cells, predictions
from analysis.gains.corrections import reaches
from analysis.gains.pairs import Gain, PairGrid
from analysis.gains.significance import DRAWS, LEVEL, Groups, score_draws, shared_variance
from analysis.tables import Declared, framed, interval_columns
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
GROWTH_DRAWS, GROWTH_SEED = 1000, 20_261_128  # of test groups
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
        defined = [value for value in self.variances if np.isfinite(value)]
        return float(np.interp(points, SIZES[: len(defined)], defined)) if defined else float("nan")


@dataclass(frozen=True)
class PairAnswers:
    """The answers ``[seeds, n]`` of a target alone and of a transfer onto it, with labels ``[n]`` and groups."""

    metric: str
    labels: NDArray[Any]
    groups: Groups
    base: Answers
    top: Answers

    @cached_property
    def right(self) -> Answers:
        """What the answers of the target alone become where they are put right."""
        return np.stack([right_answers(self.metric, self.labels, lane) for lane in self.base])

    def gain(self, top: Answers) -> float:
        """What these answers gain, in points of the mean score; NaN where a score is undefined."""
        return 100 * (self._score(top) - self._score_alone)

    @cached_property
    def _score_alone(self) -> float:
        return self._score(self.base)

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
        rng, n_seeds = np.random.default_rng(GROWTH_SEED), len(self.base)
        if self.groups.count < 2 or not np.isfinite(self.gain(self.top)):
            return Growth.constant(np.nan)
        made = [
            (size, top) for _ in range(ORDERS) for size, top in zip(SIZES, self.with_gains(SIZES, rng), strict=False)
        ]
        if max(size for size, _ in made) == 0:  # nothing is left to gain
            return Growth.constant(np.nan)
        lanes = np.concatenate([self.base, *(top for _, top in made)])
        draws = score_draws(
            self.metric, self.labels, self.groups, lanes, draws=GROWTH_DRAWS, rng=np.random.default_rng(GROWTH_SEED)
        )
        draws = draws[np.isfinite(draws).all(axis=1)].reshape(-1, 1 + len(made), n_seeds)
        of_sizes: dict[float, list[float]] = {size: [] for size in SIZES}
        for index, (size, _) in enumerate(made, start=1):
            of_sizes[size].append(shared_variance(100 * (draws[:, index] - draws[:, 0])))
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

    if reaches(start):
        return start, True
    if not reaches(every := mixed(len(rows))):
        return every, False
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
            pair = PairAnswers(alone.metric.iloc[0], shown.labels, groups, base, top)
            growth = Growth.constant(np.nan) if is_collapsed else pair.growth()
            rows.append((intermediate, target, setting, *np.sqrt(growth.variances), groups.effective))
    return framed(pd.DataFrame(rows, columns=list(GROWTH)), GROWTH)


def with_growth(gains: pd.DataFrame, growths: pd.DataFrame) -> pd.DataFrame:
    """The frame of gains with the errors by size of their pairs, from the frame of ``growths``."""
    of_pairs = growths.set_index(PAIR).reindex(pd.MultiIndex.from_frame(gains[PAIR]))
    return gains.assign(**{name: of_pairs[name].to_numpy() for name in of_pairs})


def best_growth(metric: str, labels: ArrayLike, groups: Groups) -> Growth:
    """Of test rows alone, before anything is trained: a made-up target, and a transfer that changes nothing but gains.

    Half of its answers are right (RIGHT), the others the labels of other rows; numbers correlate by CORRELATION.
    """
    true, rng = np.asarray(labels), np.random.default_rng(GROWTH_SEED)
    if metric == "pearson_r":
        answers = true + true.std() * np.sqrt(1 / CORRELATION**2 - 1) * rng.standard_normal(len(true))
    else:
        answers = true[rng.permutation(len(true))]
        is_right = rng.random(len(true)) < RIGHT
        answers[is_right] = true[is_right]
    return PairAnswers(metric, true, groups, answers[None], answers[None]).growth()


_OVER = "over all gains of the study that have a p, every setting among them"

COLUMNS = {
    "intermediate": Declared("str", "task whose adapter is below"),
    "target": Declared("str", "task that was trained and tested"),
    "setting": Declared("str", "share of the target's training data"),
    "intermediate_version": Declared("str", "version of the intermediate's entry"),
    "version": Declared("str", "version of the target's entry"),
    "metric": Declared("str", "metric of the target, as tasks.metrics names it"),
    "n_seeds": Declared("int64", "training runs behind the score; 0: planned but not finished"),
    "n_baseline_seeds": Declared("int64", "training runs behind the baseline"),
    "baseline": Declared("float64", "test score of the target alone, in the same setting"),
    "score": Declared("float64", "test score of the transfer"),
    "points": Declared("float64", "100 (score - baseline)"),
    "fisher_z": Declared("float64", "difference of mean atanh r; of correlations only"),
    "percent": Declared("float64", "100 (score - baseline) / baseline; undefined where the baseline is below .05"),
    **interval_columns("{}", " of points"),
    "standard_error": Declared("float64", "of points, through groups of test items and through seeds"),
    "seed_error": Declared("float64", "the part of it through seeds; 0 if conditional on one training run"),
    "run_error": Declared("float64", "standard error through test items that one run would have had, mean over seeds"),
    "df": Declared("float64", "degrees of freedom of the standard error (Satterthwaite)"),
    "draws": Declared("Int64", "resampled test sets behind low, high and p"),
    "p": Declared("float64", "two-sided, that the true gain is 0; not corrected"),
    "p_mc_error": Declared("float64", "Monte Carlo standard error of p: the root of p (1 - p) / draws"),
    "p_bh": Declared("float64", f"p after Benjamini and Hochberg {_OVER}: bounds the share of false discoveries"),
    "p_by": Declared(
        "float64", f"p after Benjamini and Yekutieli {_OVER}: the same, however gains depend on each other"
    ),
    "p_holm": Declared("float64", f"p after Holm {_OVER}: bounds the probability of one false discovery"),
    "p_max_target": Declared("float64", "p after the step-down maximum over the gains of the same target and setting"),
    "p_max_grid": Declared("float64", f"p after the step-down maximum {_OVER}"),
    "draws_of_maxima": Declared("Int64", "resampled test sets behind p_max_target and p_max_grid, alike for all gains"),
    "significant": Declared("bool", "p_bh is at most .05"),
    "full_baseline": Declared("float64", "test score of the target alone with all its training data"),
    "points_over_full": Declared("float64", "100 (score - full_baseline)"),
    **interval_columns("{}_over_full"),
    "standard_error_over_full": Declared("float64", "of points_over_full"),
    "df_over_full": Declared("float64", "its degrees of freedom"),
    "p_over_full": Declared("float64", "two-sided, that the true gain over the full baseline is 0; not corrected"),
    "conditional": Declared("str", "training runs that the inference holds for"),
    "collapsed": Declared("boolean", "score or baseline is at or below the majority-class score (r: 0)"),
    "contaminated": Declared("boolean", "test items are training material; undefined: not measured"),
    "target_has_learned": Declared("boolean", "as ``analysis.gains.baselines`` has it; undefined: not known"),
    **{name: GROWTH[name] for name in GROWTH_NAMES},
    "dead_intermediate": Declared("boolean", "switching the intermediate off hardly moves the logits"),
    "liveness": Declared("float64", "how far switching the intermediate off moves a logit"),
    "n_test": Declared("Int64", "rows of the test split"),
    "n_groups": Declared("Int64", "groups that its rows fall into"),
    "flags": Declared("str", "what is unusual, by semicolons"),
}
SEED = 20_240_901
MORE = 10  # times as many draws where a decision is not settled
TYPES = {name: column.type for name, column in COLUMNS.items()}


def gains(
    store: Store, manifest: Manifest, *, draws: int = DRAWS, seed: int = SEED, exact: bool = False
) -> pd.DataFrame:
    """One row per planned (intermediate, target, setting), seeds together; a missing one is flagged, not dropped.

    The columns are COLUMNS, of which ``target_has_learned`` and those on growth are undefined here: they are filled in
    by ``analysis.gains.baselines.with_learning`` and ``analysis.gains.gains.with_growth``.
    Controls and references take no part. Gains that so many draws leave undecided after Benjamini and Hochberg, by
    which they are ``significant``, are drawn anew, MORE times as often. If ``exact``, the whole grid is, where any
    correction of any gain is undecided.
    """
    grid = PairGrid.of(store, manifest, GAIN_ROLES)
    drawn = _Drawn.of(grid, draws, seed)
    if exact and corrections.undecided_corrections(drawn.corrected()).any(axis=None):
        drawn = _Drawn.of(grid, MORE * draws, seed)
    else:
        drawn.draw_undecided_anew(MORE * draws, seed)
    frame = drawn.corrected()
    frame["intermediate_version"] = frame.intermediate.map(lambda name: manifest["tasks"][name]["version"])
    frame["significant"] = frame.p_bh <= LEVEL
    return framed(frame, COLUMNS)


def uncorrected_gains(
    store: Store, manifest: Manifest, roles: Iterable[str], *, draws: int, seed: int, scored: Scored = own_scores
) -> pd.DataFrame:
    """One row per planned (role, intermediate, target, setting) of these roles, in COLUMNS without corrections of p."""
    grid = PairGrid.of(store, manifest, roles, scored)
    table = _empty_table(len(grid.pairs))
    for positions in (positions for data_set in grid.data_sets for positions in data_set):
        for gain in grid.gains(positions, draws=draws, seed=seed):
            _fill(table, gain)
    return _frame(table)


_Table = dict[str, list[Any]]  # values by column, in the order of the planned transfers


@dataclass(frozen=True)
class _Drawn:
    """All gains of a grid by column of the frame, and what is kept of their joint draws, as many of all."""

    grid: PairGrid
    table: _Table
    columns: Sequence[corrections.Reach]
    blocks: Sequence[corrections.Reach]
    draws: int

    @classmethod
    def of(cls, grid: PairGrid, draws: int, seed: int) -> _Drawn:
        table = _empty_table(len(grid.pairs))
        columns: list[corrections.Reach] = []
        blocks: list[corrections.Reach] = []
        for data_set in grid.data_sets:
            tests = []
            for gain in (gain for positions in data_set for gain in grid.gains(positions, draws=draws, seed=seed)):
                _fill(table, gain)
                if gain.test:
                    tests.append((gain.position, gain.test))
            for kept, of_data_set in zip((columns, blocks), reaches(tests), strict=True):
                kept += of_data_set
        return cls(grid, table, columns, blocks, draws)

    def draw_undecided_anew(self, draws: int, seed: int) -> None:
        """So many draws for the gains whose p decides, within Monte Carlo error, what Benjamini and Hochberg reject."""
        p, drawn = (np.array(self.table[name], dtype=np.float64) for name in ("p", "draws"))
        is_doubtful = corrections.undecided(p, drawn, corrections.benjamini_hochberg)
        for positions in (positions for data_set in self.grid.data_sets for positions in data_set):
            if again := [position for position in positions if is_doubtful[position]]:
                for gain in self.grid.gains(again, draws=draws, seed=seed):
                    _fill(self.table, gain)

    def corrected(self) -> pd.DataFrame:
        frame = _frame(self.table)
        adjusted = corrections.corrections_of(frame.p.to_numpy(float), self.columns, self.blocks)
        joint = pd.Series(self.draws, frame.index, dtype="Int64").where(frame.p.notna())
        return frame.assign(**adjusted, draws_of_maxima=joint)


def _empty_table(n_pairs: int) -> _Table:
    return {name: [np.nan] * n_pairs for name in ("role", *TYPES)}


def _fill(table: _Table, gain: Gain) -> None:
    for name, value in gain.fields.items():
        table[name][gain.position] = value


def _frame(table: _Table) -> pd.DataFrame:
    frame = pd.DataFrame(table)
    p, draws = (frame[name].to_numpy(float) for name in ("p", "draws"))
    return frame.assign(p_mc_error=corrections.monte_carlo_error(p, draws))
