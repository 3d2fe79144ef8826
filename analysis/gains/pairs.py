"""What each planned transfer gained: its cells against those of its baselines, and what training runs add to the error.

Columns come data set by data set, so that tests with joint draws stand together and no more draws are held at a time
than those of one column and the sizes of one data set's gains.

Three seeds know a variance from two degrees of freedom, but the transfers of a target are trained alike, and their runs
differ by similar amounts. With T transfers and their mean P in every seed, a gain over the baseline B falls into

    T_j - B = (T_j - P) + (P - B),

which are uncorrelated where all transfers have one variance. The first is the transfer's own: its variance s_j^2 is
moved towards the mean of all T, as far as they are alike (empirical Bayes, Smyth 2004, "Linear models and empirical
Bayes methods for assessing differential expression in microarray experiments", section 6). The second belongs to all
gains of the column and holds the baseline, which keeps what it alone has shown, with S - 1 degrees of freedom: a
baseline may vary more than its transfers, and does where they help. What a seed does to all cells alike cancels in
both. The sum has the degrees of freedom of Satterthwaite (1946). A transfer of which a run collapsed tells nothing of
how far runs that learn differ: it is none of the T, and what seeds add to its gain is what its own runs show.

With one seed an interval and a p hold for that run, so where an intermediate does nothing some gains are "significant"
all the same. How many depends on how far runs differ, which one seed cannot say; the sentence beside such counts gives
the simulated case of ``docs/gains_calibration.csv`` (a test compares them). Several seeds say it themselves: a single
run would have had a standard error i through test items, and varies with variance v through items and runs together, so
that it is significant in a share 2 Phi(-z i / sqrt(v)) of gains where nothing is there.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import ndtr, ndtri, polygamma

from adapters_store.roles import BASELINE
from adapters_store.store import Store
from analysis.gains.cells import (
    FULL_BASELINE,
    Manifest,
    PlannedCell,
    Scored,
    ScoredColumn,
    column_of,
    own_scores,
    planned_cells,
    with_full_baselines,
)
from analysis.gains.corrections import GainTest
from analysis.gains.significance import LEVEL, Evidence, FloatArray, Spread, difference_evidence, seed_spreads
from analysis.tables import holds

FLOOR = 1e-5  # of the mean variance: logarithms of smaller ones would decide how alike they are


@dataclass(frozen=True)
class Peers:
    """Scores of the transfers of a column, by name and seed, and which collapsed; an undefined one takes no part."""

    scores: Mapping[Hashable, Mapping[int, float]]
    collapsed: Collection[Hashable] = ()
    parts: dict[tuple[tuple[int, ...], bytes], Mapping[Hashable, Sequence[Spread]]] = field(default_factory=dict)

    def spreads(self, name: Hashable, seeds: Sequence[int], base: FloatArray) -> Sequence[Spread]:
        """The seeds' parts of a gain's variance over ``base`` ``[N]``, whose first runs are of the transfer's seeds.

        Its own of one that collapsed. None without two seeds, or two transfers of all these that did not collapse.
        """
        key = (tuple(seeds), base.tobytes())
        if key not in self.parts:
            rows = {peer: np.array([runs.get(seed, np.nan) for seed in seeds]) for peer, runs in self.scores.items()}
            complete = {peer: row for peer, row in rows.items() if np.isfinite(row).all()}
            alike = [peer for peer in complete if peer not in self.collapsed]
            self.parts[key] = {}
            if len(seeds) > 1 and len(alike) > 1 and np.isfinite(base).all():
                pooled = pooled_spreads(np.array([complete[peer] for peer in alike]), base)
                own = {peer: seed_spreads(complete[peer], base) for peer in complete if peer in self.collapsed}
                self.parts[key] = {**own, **dict(zip(alike, pooled, strict=True))}
        return self.parts[key].get(name, ())


def pooled_spreads(tops: FloatArray, base: FloatArray) -> list[Sequence[Spread]]:
    """Of each of ``tops`` ``[T >= 2, S >= 2]`` over ``base`` ``[N >= S]``: variances of the gain, and their freedom."""
    n_tops, n_seeds = tops.shape
    mean = tops.mean(axis=0)
    variances = (tops - mean).var(axis=1, ddof=1) * n_tops / (n_tops - 1)
    moderate, freedom = moderated(variances, n_seeds - 1)
    shared = seed_spreads(mean, base)
    return [[(float(variance), freedom), *shared] for variance in moderate * (1 - 1 / n_tops) / n_seeds]


def moderated(variances: FloatArray, freedom: int) -> tuple[FloatArray, float]:
    """Variances ``[T]``, each with so much ``freedom`` and all about one mean, as each other's evidence; and its df.

    Each is (d0 mean + d s^2) / (d0 + d), with d0 + d degrees of freedom, and never more than (T - 1) d. The prior's d0
    solves trigamma(d0 / 2) = Var(log s^2) - trigamma(d / 2); where the right side is not positive, all are the mean.
    Smyth's own scale in place of the mean rejects slightly more (``docs/significance.md``).
    """
    mean, most = float(variances.mean()), float((variances.size - 1) * freedom)
    if mean == 0:
        return np.zeros(variances.size), most
    logs = np.log(np.maximum(variances, FLOOR * mean))
    excess = float(logs.var(ddof=1) - polygamma(1, freedom / 2))
    if excess <= 0:
        return np.full(variances.size, mean), most
    # The x whose trigamma is ``value`` > 0; trigamma(x) lies between 1 / x and 1 / x + 1 / x^2.
    from scipy.optimize import brentq  # a quarter of a second, which a report whose gains are kept needs not

    bounds = 1 / excess, (1 + np.sqrt(1 + 4 * excess)) / (2 * excess)
    inverse_trigamma = float(brentq(lambda x: polygamma(1, x) - excess, *bounds, rtol=1e-12))
    prior = 2 * inverse_trigamma
    return (prior * mean + freedom * variances) / (prior + freedom), min(prior + freedom, most)


RUNS_DIFFER_BY = 3.4  # points, standard deviation of a cell's score
TRANSFERS = 6  # to the one target of a simulated study
WRONG = {"macro_f1": 0.357, "pearson_r": 0.351}  # share of such studies with a gain or harm by p_bh where there is none


def luck_of_a_run(gains: pd.DataFrame) -> str:
    """What the counts of a frame of gains leave out, where some of them hold for one training run; else nothing."""
    tested = gains[gains.p.notna()]
    single = int(((tested.seed_error == 0) & (tested.n_seeds == 1)).sum())
    if not single:
        # What a single run of these gains would have been worth; nothing where runs cannot be counted in pairs.
        matched = tested[(tested.seed_error > 0) & (tested.n_seeds == tested.n_baseline_seeds)]
        if matched.empty:
            return ""
        through = np.sqrt((matched.run_error**2).mean())
        varies = np.sqrt(variance_of_a_run(matched).mean())
        return (
            f"A single run of these gains would have had p <= {LEVEL} where there is no effect in about"
            f" {100 * false_share(matched).mean():.0f} % of them, not 5 %: it would have told of a standard error of"
            f" {through:.1f} points, through test items alone, where runs and items together make {varies:.1f}. What is"
            " counted here allows for both (docs/significance.md)."
        )
    which = "All of them hold" if single == len(tested) else f"Of them {single} hold{'s' * (single == 1)}"
    low, high = sorted(f"{100 * share:.0f}" for share in WRONG.values())
    share = low if low == high else f"{low} to {high}"
    return (
        f"{which} for one training run, and another run would give others: simulated without any effect, where runs"
        f" differ by {RUNS_DIFFER_BY} points, {share} % of studies with {TRANSFERS} transfers to a target had a"
        " significant gain or harm, not 5 % (docs/significance.md); more seeds tell."
    )


def variance_of_a_run(gains: pd.DataFrame) -> np.ndarray:
    """Of every gain of several seeds, the variance of a single run of it through items and runs, in points squared."""
    of_seeds = gains.seed_error.to_numpy("float64") ** 2
    of_items = gains.standard_error.to_numpy("float64") ** 2 - of_seeds
    return np.asarray(of_items + of_seeds * gains.n_seeds.to_numpy("float64"))


def false_share(gains: pd.DataFrame) -> np.ndarray:
    """The share of gains of nothing that a single run would call significant by an uncorrected p, for every gain."""
    ratio = gains.run_error.to_numpy("float64") / np.sqrt(variance_of_a_run(gains))
    return np.asarray(2 * ndtr(-ndtri(1 - LEVEL / 2) * ratio))


FEW_GROUPS = 20
SMALLEST_BASELINE = 0.05  # below it, and of a negative correlation, a percentage of the baseline says nothing
PAIR = ["intermediate", "target", "setting"]
HELD = 10_000_000  # resampled scores of a column, at most: 80 MB

Where = tuple[str, str]  # a target and a setting


class PlannedPair(NamedTuple):
    """A planned transfer: its cells over all seeds, finished or not."""

    role: str
    intermediate: str
    where: Where
    cells: Sequence[PlannedCell]


class Gain(NamedTuple):
    """The gain of the transfer planned at ``position``: its fields by column of the frame, and its test if any."""

    position: int
    fields: Mapping[str, Any]
    test: GainTest | None = None


@dataclass(frozen=True)
class PairGrid:
    """The planned transfers of a study in some roles, in the manifest's order, beside the cells of their columns."""

    store: Store
    manifest: Manifest
    pairs: Sequence[PlannedPair]
    cells: Mapping[Where, Sequence[PlannedCell]]
    scored: Scored = own_scores

    @classmethod
    def of(cls, store: Store, manifest: Manifest, roles: Iterable[str], scored: Scored = own_scores) -> PairGrid:
        """All planned in these roles; MixedRecords for a record that is not what was planned."""
        frame, of_pairs = planned_cells(store, manifest), set(roles)
        frame = frame[frame.target.isin(frame.target[frame.role.isin(of_pairs)])]
        kept = with_full_baselines(frame)
        grouped: dict[tuple[str, str, Where], list[PlannedCell]] = {}
        cells: dict[Where, list[PlannedCell]] = {}
        for cell in PlannedCell.all_of(kept[kept.role.isin([*of_pairs, BASELINE, FULL_BASELINE])]):
            where = (cell.target, cell.setting)
            cells.setdefault(where, []).append(cell)
            if cell.role in of_pairs and cell.intermediate is not None:
                grouped.setdefault((cell.role, cell.intermediate, where), []).append(cell)
        return cls(store, manifest, [PlannedPair(*pair, of_pair) for pair, of_pair in grouped.items()], cells, scored)

    @cached_property
    def data_sets(self) -> Sequence[Sequence[Sequence[int]]]:
        """Positions of the transfers of every column, the columns of a data set together."""
        columns: dict[str, dict[Where, list[int]]] = {}
        for position, pair in enumerate(self.pairs):
            of_data_set = columns.setdefault(self._data_set(pair.where), {})
            of_data_set.setdefault(pair.where, []).append(position)
        return [list(of_data_set.values()) for of_data_set in columns.values()]

    def gains(self, positions: Sequence[int], *, draws: int, seed: int) -> Iterator[Gain]:
        """The gains of transfers of one column, with so many draws."""
        where = self.pairs[positions[0]].where
        alone = {role: [cell for cell in self.cells[where] if cell.role == role] for role in (BASELINE, FULL_BASELINE)}
        if where[1] == "full":
            alone[FULL_BASELINE] = alone[BASELINE]
        # Some transfers of a column at a time, so that their draws fit into HELD.
        lanes = max(len(self.pairs[position].cells) for position in positions)
        step = max(HELD // (draws * lanes), 1)
        for part in (positions[start : start + step] for start in range(0, len(positions), step)):
            column = self._column(where, [self.pairs[position] for position in part], draws, seed)
            peers = self._peers_of(where, column if len(part) == len(self._of_column[where]) else None)
            for position in part:
                pair = self.pairs[position]
                if column is None or not alone[BASELINE]:
                    yield Gain(position, missing(pair))
                else:
                    yield Gain(position, *_gain(pair, alone, column, peers, self._data_set(where)))

    @cached_property
    def _of_column(self) -> Mapping[Where, Sequence[PlannedPair]]:
        columns: dict[Where, list[PlannedPair]] = {}
        for pair in self.pairs:
            columns.setdefault(pair.where, []).append(pair)
        return columns

    @cached_property
    def _peers(self) -> dict[Where, Peers]:
        return {}

    def _peers_of(self, where: Where, whole: ScoredColumn | None) -> Peers:
        """The scores of all transfers of a column, from the column if it is there as a whole; kept for other parts."""
        if where not in self._peers:
            pairs = self._of_column[where]
            column = whole or self._column(where, pairs, 1, 0)
            scores: dict[Hashable, dict[int, float]] = {_name(pair): _scores(pair, column) for pair in pairs if column}
            self._peers[where] = Peers(scores, [_name(pair) for pair in pairs if _is_any_collapsed(pair.cells)])
        return self._peers[where]

    def _data_set(self, where: Where) -> str:
        return str(self.manifest["tasks"][where[0]]["dataset"])

    def _column(self, where: Where, pairs: Sequence[PlannedPair], draws: int, seed: int) -> ScoredColumn | None:
        """The column with the cells of these transfers and of the target alone; None if none of them is finished."""
        wanted = {(pair.role, pair.intermediate) for pair in pairs}
        done = [
            cell
            for cell in self.cells[where]
            if cell.is_done and (cell.role in (BASELINE, FULL_BASELINE) or (cell.role, cell.intermediate) in wanted)
        ]
        return column_of(self.store, done, draws=draws, seed=seed, scored=self.scored) if done else None


def missing(pair: PlannedPair) -> dict[str, Any]:
    """The fields of a transfer of which no seed is finished, or none of its baseline."""
    return {**_plan_row(pair), "n_seeds": 0, "n_baseline_seeds": 0, "conditional": "", "flags": "missing"}


def conditional_on(n_seeds: int, n_baseline_seeds: int | None = None) -> str:
    """The training runs that an inference holds for, in words: ``3 seeds``, or ``2 seeds, 5 of the baseline``."""
    if n_baseline_seeds is None or n_seeds == n_baseline_seeds:
        return "one training run" if n_seeds == 1 else f"{n_seeds} seeds"
    return f"{n_seeds} seed{'s' * (n_seeds > 1)}, {n_baseline_seeds} of the baseline"


def flags_of(flags: Iterable[str]) -> list[str]:
    """The flags of cells, each once, in the order of their appearance."""
    return list(dict.fromkeys(flag for of_cell in flags for flag in of_cell.split(";") if flag))


@dataclass(frozen=True)
class _Difference:
    """A transfer's scores over its seeds, a baseline's over all of its own, and the evidence of their difference."""

    seeds: Collection[int]
    base_seeds: Collection[int]
    scores: np.ndarray
    baselines: np.ndarray
    evidence: Evidence

    @property
    def points(self) -> float:
        """The difference of the means, x 100."""
        return float(100 * (self.scores.mean() - self.baselines.mean()))


def _name(pair: PlannedPair) -> tuple[str, str]:
    return pair.role, pair.intermediate


def _scores(pair: PlannedPair, column: ScoredColumn) -> dict[int, float]:
    """Scores of a transfer's finished cells, by seed."""
    seeds = column.seeds(*_name(pair), [cell.seed for cell in pair.cells])
    return dict(zip(seeds, column.scores[column.positions(*_name(pair), seeds)].tolist(), strict=True))


def _difference(
    pair: PlannedPair, base: Sequence[PlannedCell], column: ScoredColumn, peers: Peers
) -> _Difference | None:
    """The finished seeds of a transfer against those of a baseline; None if no seed is finished of both.

    A seed that only one of the two has finished is left out, unless no transfer is planned for it.
    """
    role, intermediate, base_role = pair.role, pair.intermediate, base[0].role
    planned = [cell.seed for cell in pair.cells]
    seeds = column.seeds(base_role, None, column.seeds(role, intermediate, planned))
    if not seeds:
        return None
    further = column.seeds(base_role, None, (cell.seed for cell in base if cell.seed not in planned))
    top, bottom = column.positions(role, intermediate, seeds), column.positions(base_role, None, seeds + further)
    scores, baselines = column.scores[top], column.scores[bottom]
    draws = column.draws[:, top], column.draws[:, bottom]
    rng = column.rng(role, intermediate, base_role)
    pooled = peers.spreads(_name(pair), seeds, baselines)
    evidence = difference_evidence(scores, baselines, *draws, column.groups, rng, pooled)
    return _Difference(seeds, seeds + further, scores, baselines, evidence)


def _gain(
    pair: PlannedPair, alone: Mapping[str, Sequence[PlannedCell]], column: ScoredColumn, peers: Peers, data_set: str
) -> tuple[dict[str, Any], GainTest | None]:
    """The gain of a transfer over the baselines ``alone`` of its setting and of all data."""
    difference = _difference(pair, alone[BASELINE], column, peers)
    if difference is None:
        return missing(pair), None
    top = [cell for cell in pair.cells if cell.seed in difference.seeds]
    base = [cell for cell in alone[BASELINE] if cell.seed in difference.base_seeds]
    is_short = len(top) < len(pair.cells) or len(base) < len(alone[BASELINE])
    # What is unusual of a gain, of the cells ``top`` of its transfer, and of those of its baseline.
    score, baseline = difference.scores.mean(), difference.baselines.mean()
    states = {
        "missing_seeds": is_short,
        "few_groups": column.groups.count < FEW_GROUPS,
        "undefined_r": np.isnan(score - baseline),
        "percent_undefined": baseline < SMALLEST_BASELINE,
    }
    named = [name for name, holds in states.items() if holds]
    flags = [*named, *flags_of(cell.flags for cell in top), *["baseline_collapsed"] * _is_any_collapsed(base)]
    live = [cell.liveness for cell in top if not np.isnan(cell.liveness)]
    is_full = alone[FULL_BASELINE] is alone[BASELINE]
    full = alone[FULL_BASELINE]
    over_full = difference if is_full else full and _difference(pair, full, column, peers)
    fields = {
        **_plan_row(pair),
        **_difference_fields(difference, pair.cells[0].metric),
        **(_over_full(over_full) if over_full else {}),
        "draws": len(column.draws),
        "collapsed": _is_any_collapsed([*top, *base]),
        "contaminated": top[0].contaminated,
        "dead_intermediate": "dead_intermediate" in flags,
        "liveness": float(np.mean(live)) if live else np.nan,
        "n_test": column.n_test,
        "n_groups": column.groups.count,
        "flags": ";".join(flags),
    }
    if not np.isfinite(difference.evidence.p):
        return fields, None
    block = (column.entropy, data_set)
    return fields, GainTest.of(difference.points / 100, difference.evidence, pair.where, block)


def _plan_row(pair: PlannedPair) -> dict[str, Any]:
    first = pair.cells[0]
    names = dict(zip(PAIR, (pair.intermediate, *pair.where), strict=True))
    return {"role": pair.role, **names, "version": first.version, "metric": first.metric}


def _is_any_collapsed(cells: Iterable[PlannedCell]) -> bool:
    return any(holds(cell.collapsed) for cell in cells)


def _difference_fields(difference: _Difference, metric: str) -> dict[str, Any]:
    """Scores, their difference in every unit, and its evidence in points."""
    score, baseline, evidence = difference.scores.mean(), difference.baselines.mean(), difference.evidence
    sides = (np.where(np.abs(side) < 1, side, np.nan) for side in (difference.scores, difference.baselines))
    mean_z, baseline_z = (np.arctanh(side).mean() for side in sides)
    return {
        "n_seeds": len(difference.seeds),
        "n_baseline_seeds": len(difference.base_seeds),
        "baseline": baseline,
        "score": score,
        "points": difference.points,
        "fisher_z": mean_z - baseline_z if metric == "pearson_r" else np.nan,
        "percent": np.nan if baseline < SMALLEST_BASELINE else 100 * (score - baseline) / baseline,
        "low": 100 * evidence.low,
        "high": 100 * evidence.high,
        "standard_error": 100 * evidence.standard_error,
        "seed_error": 100 * evidence.seed_error,
        "run_error": 100 * evidence.run_error,
        "df": evidence.df,
        "p": evidence.p,
        "conditional": conditional_on(len(difference.seeds), len(difference.base_seeds)),
    }


def _over_full(difference: _Difference) -> dict[str, float]:
    """The same transfer against the baseline that had all data."""
    return {
        "full_baseline": float(difference.baselines.mean()),
        "points_over_full": difference.points,
        "low_over_full": 100 * difference.evidence.low,
        "high_over_full": 100 * difference.evidence.high,
        "standard_error_over_full": 100 * difference.evidence.standard_error,
        "df_over_full": difference.evidence.df,
        "p_over_full": difference.evidence.p,
    }
