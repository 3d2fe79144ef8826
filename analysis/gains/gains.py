"""From finished cells to what each intermediate changed: every transfer against its target's baseline.

A gain is the mean score of a transfer over its seeds minus the mean of its target's baseline over all of the
baseline's seeds. In a setting other than full there are two baselines: the one of the same setting, which says what
the intermediate adds to the little data there is, and the full one, which says whether it makes up for the rest.
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from adapters_store.roles import BASELINE, GAIN_ROLES
from adapters_store.store import Store
from analysis.gains.cells import Manifest, planned_cells
from analysis.gains.columns import FULL_BASELINE, Column, Scored, columns, own_scores, with_full_baselines
from analysis.gains.corrections import GainTest, corrections_of, to_redraw
from analysis.gains.significance import DRAWS, LEVEL, Evidence, difference_evidence
from analysis.tables import Declared, framed

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
    "low": Declared("float64", "lower end of the 95 % interval of points"),
    "high": Declared("float64", "its upper end"),
    "standard_error": Declared("float64", "of points, through groups of test items and through seeds"),
    "seed_error": Declared("float64", "the part of it through seeds; 0 if conditional on one training run"),
    "df": Declared("float64", "degrees of freedom of the standard error (Satterthwaite)"),
    "draws": Declared("Int64", "resampled test sets behind low, high and every p"),
    "p": Declared("float64", "two-sided, that the true gain is 0; not corrected"),
    "p_bh": Declared("float64", f"p after Benjamini and Hochberg {_OVER}: bounds the share of false discoveries"),
    "p_by": Declared(
        "float64", f"p after Benjamini and Yekutieli {_OVER}: the same, however gains depend on each other"
    ),
    "p_holm": Declared("float64", f"p after Holm {_OVER}: bounds the probability of one false discovery"),
    "p_max_target": Declared("float64", "p after the step-down maximum over the gains of the same target and setting"),
    "p_max_grid": Declared("float64", f"p after the step-down maximum {_OVER}"),
    "significant": Declared("bool", "p_bh is at most .05"),
    "full_baseline": Declared("float64", "test score of the target alone with all its training data"),
    "points_over_full": Declared("float64", "100 (score - full_baseline)"),
    "low_over_full": Declared("float64", "lower end of its 95 % interval"),
    "high_over_full": Declared("float64", "its upper end"),
    "standard_error_over_full": Declared("float64", "of points_over_full"),
    "df_over_full": Declared("float64", "its degrees of freedom"),
    "p_over_full": Declared("float64", "two-sided, that the true gain over the full baseline is 0; not corrected"),
    "conditional": Declared("str", "training runs that the inference holds for"),
    "collapsed": Declared("boolean", "score or baseline is at or below what always the commonest answer scores"),
    "contaminated": Declared("boolean", "test items are training material; undefined: not measured"),
    "dead_intermediate": Declared("boolean", "switching the intermediate off hardly moves the logits"),
    "liveness": Declared("float64", "how far switching the intermediate off moves a logit"),
    "n_test": Declared("Int64", "rows of the test split"),
    "n_groups": Declared("Int64", "groups that its rows fall into"),
    "flags": Declared("str", "what is unusual, by semicolons"),
}
SEED = 20_240_901
MORE = 10  # times as many draws where a correction is undecided
FEW_GROUPS = 20
SMALLEST_BASELINE = 0.05  # below it, and of a negative correlation, a percentage of the baseline says nothing
PAIR = ["intermediate", "target", "setting"]
TYPES = {name: column.type for name, column in COLUMNS.items()}


def gains(store: Store, manifest: Manifest, *, draws: int = DRAWS, seed: int = SEED) -> pd.DataFrame:
    """One row per planned (intermediate, target, setting), seeds together; a missing one is flagged, not dropped.

    The columns are COLUMNS. Controls and references take no part. Where a correction is undecided at so many draws, its
    column and those with the same test groups are drawn anew, MORE times as often.
    """
    by_pair = _gains_by_pair(store, manifest, GAIN_ROLES, draws=draws, seed=seed)
    frame = _with_corrections(by_pair)
    if again := to_redraw(frame.p.to_numpy(float), [pair.test for pair in by_pair.values()], frame):
        by_pair |= _gains_by_pair(store, manifest, GAIN_ROLES, draws=MORE * draws, seed=seed, only=again)
        frame = _with_corrections(by_pair)
    frame["intermediate_version"] = frame.intermediate.map(lambda name: manifest["tasks"][name]["version"])
    frame["significant"] = frame.p_bh <= LEVEL
    return framed(frame, COLUMNS)


def uncorrected_gains(
    store: Store, manifest: Manifest, roles: Iterable[str], *, draws: int, seed: int, scored: Scored = own_scores
) -> pd.DataFrame:
    """One row per planned (role, intermediate, target, setting) of these roles, in COLUMNS without corrections of p."""
    by_pair = _gains_by_pair(store, manifest, roles, draws=draws, seed=seed, scored=scored)
    return pd.DataFrame([pair.row for pair in by_pair.values()], columns=["role", *TYPES])


class _PairGain(NamedTuple):
    """The gain of a planned transfer: its row of the frame, and its test where it has a p."""

    row: dict[str, Any]
    test: GainTest | None


def _gains_by_pair(
    store: Store,
    manifest: Manifest,
    roles: Iterable[str],
    *,
    draws: int,
    seed: int,
    only: Container[tuple[str, str]] | None = None,
    scored: Scored = own_scores,
) -> dict[Any, _PairGain]:
    """Gains by (role, intermediate, target, setting) of all planned in these roles; ``only`` of some columns."""
    planned = planned_cells(store, manifest)
    tops = planned[planned.role.isin(list(roles))]
    planned = with_full_baselines(planned[planned.target.isin(tops.target)])
    planned = planned[planned.role.isin([*roles, BASELINE, FULL_BASELINE])]
    if only is not None:
        tops, planned = (
            rows[[where in only for where in zip(rows.target, rows.setting, strict=True)]] for rows in (tops, planned)
        )
    alone = {where: rows for where, rows in planned.groupby(["role", "target", "setting"], sort=False)}
    pairs = {pair: rows for pair, rows in tops.groupby(["role", *PAIR], sort=False)}
    by_pair = {pair: _PairGain({"role": pair[0], **_missing(rows)}, None) for pair, rows in pairs.items()}
    for column in columns(store, planned, draws=draws, seed=seed, scored=scored):
        where = (column.target, column.setting)
        block = (column.entropy, manifest["tasks"][column.target]["dataset"])
        of_baseline, of_full = (alone.get((role, *where)) for role in (BASELINE, FULL_BASELINE))
        for pair, rows in pairs.items():
            if pair[2:] == where and of_baseline is not None:
                full = of_baseline if column.setting == "full" else of_full
                row, test = _gain(rows, of_baseline, full, column, block)
                by_pair[pair] = _PairGain({"role": pair[0], **row}, test)
    return by_pair


def _with_corrections(by_pair: Mapping[Any, _PairGain]) -> pd.DataFrame:
    frame = pd.DataFrame([pair.row for pair in by_pair.values()], columns=["role", *TYPES])
    adjusted = corrections_of(frame.p.to_numpy(float), [pair.test for pair in by_pair.values()])
    return frame.assign(**adjusted)


def conditional_on(n_seeds: int, n_baseline_seeds: int | None = None) -> str:
    """The training runs that an inference holds for, in words: ``3 seeds``, or ``2 seeds, 5 of the baseline``."""
    if n_baseline_seeds is None or n_seeds == n_baseline_seeds:
        return "one training run" if n_seeds == 1 else f"{n_seeds} seeds"
    return f"{n_seeds} seed{'s' * (n_seeds > 1)}, {n_baseline_seeds} of the baseline"


def flags_of(rows: pd.DataFrame) -> list[str]:
    """The flags of all these cells, each once, in the order of their appearance."""
    return list(dict.fromkeys(flag for flags in rows["flags"] for flag in flags.split(";") if flag))


@dataclass(frozen=True)
class _Difference:
    """A transfer's scores over its seeds, a baseline's over all of its own, and the evidence of their difference."""

    seeds: list[int]
    base_seeds: list[int]
    scores: np.ndarray
    baselines: np.ndarray
    evidence: Evidence

    @property
    def points(self) -> float:
        """The difference of the means, x 100."""
        return float(100 * (self.scores.mean() - self.baselines.mean()))


def _difference(rows: pd.DataFrame, base: pd.DataFrame, column: Column) -> _Difference | None:
    """The finished seeds of a transfer against those of a baseline; None if no seed is finished of both.

    A seed that only one of the two has finished is left out, unless no transfer is planned for it.
    """
    (role, intermediate), base_role = rows.iloc[0][["role", "intermediate"]], base.role.iloc[0]
    planned = list(map(int, rows.seed))
    seeds = column.seeds(base_role, None, column.seeds(role, intermediate, planned))
    if not seeds:
        return None
    further = column.seeds(base_role, None, (int(seed) for seed in base.seed if seed not in planned))
    top, bottom = column.positions(role, intermediate, seeds), column.positions(base_role, None, seeds + further)
    scores, baselines = column.scores[top], column.scores[bottom]
    draws = column.draws[:, top], column.draws[:, bottom]
    rng = column.rng(role, intermediate, base_role)
    evidence = difference_evidence(scores, baselines, *draws, column.groups, rng)
    return _Difference(seeds, seeds + further, scores, baselines, evidence)


def _missing(rows: pd.DataFrame) -> dict[str, Any]:
    counts = {"n_seeds": 0, "n_baseline_seeds": 0}
    return {**rows.iloc[0][[*PAIR, "version", "metric"]], **counts, "conditional": "", "flags": "missing"}


def _gain(
    rows: pd.DataFrame, of_baseline: pd.DataFrame, of_full: pd.DataFrame | None, column: Column, block: Hashable
) -> _PairGain:
    """The gain of a transfer, ``rows`` of its planned cells, over the baselines of its setting and of all data."""
    difference = _difference(rows, of_baseline, column)
    if difference is None:
        return _PairGain(_missing(rows), None)
    top, base = rows[rows.seed.isin(difference.seeds)], of_baseline[of_baseline.seed.isin(difference.base_seeds)]
    is_short = len(top) < len(rows) or len(base) < len(of_baseline)
    flags = _gain_flags(difference, top, base, is_short, column)
    row = {
        **rows.iloc[0][[*PAIR, "version", "metric"]],
        **_difference_columns(difference, rows.metric.iloc[0]),
        **_over_full(rows, of_full, column),
        "draws": len(column.draws),
        "collapsed": bool(top.collapsed.any() or base.collapsed.any()),
        "contaminated": top.contaminated.iloc[0],
        "dead_intermediate": "dead_intermediate" in flags,
        "liveness": top.liveness.mean(),
        "n_test": column.n_test,
        "n_groups": column.groups.count,
        "flags": ";".join(flags),
    }
    if not np.isfinite(difference.evidence.p):
        return _PairGain(row, None)
    where = (column.target, column.setting)
    return _PairGain(row, GainTest.of(difference.points / 100, difference.evidence, where, block))


def _gain_flags(
    difference: _Difference, top: pd.DataFrame, base: pd.DataFrame, is_short: bool, column: Column
) -> list[str]:
    """What is unusual of a gain, of the cells ``top`` of its transfer, and of those of its baseline."""
    score, baseline = difference.scores.mean(), difference.baselines.mean()
    states = {
        "missing_seeds": is_short,
        "few_groups": column.groups.count < FEW_GROUPS,
        "undefined_r": np.isnan(score - baseline),
        "percent_undefined": baseline < SMALLEST_BASELINE,
    }
    return [*_states(states), *flags_of(top), *_states({"baseline_collapsed": bool(base.collapsed.any())})]


def _difference_columns(difference: _Difference, metric: str) -> dict[str, Any]:
    """Scores, their difference in every unit, and its evidence in points."""
    score, baseline, evidence = difference.scores.mean(), difference.baselines.mean(), difference.evidence
    return {
        "n_seeds": len(difference.seeds),
        "n_baseline_seeds": len(difference.base_seeds),
        "baseline": baseline,
        "score": score,
        "points": difference.points,
        "fisher_z": _fisher_z(difference.scores, difference.baselines) if metric == "pearson_r" else np.nan,
        "percent": np.nan if baseline < SMALLEST_BASELINE else 100 * (score - baseline) / baseline,
        "low": 100 * evidence.low,
        "high": 100 * evidence.high,
        "standard_error": 100 * evidence.standard_error,
        "seed_error": 100 * evidence.seed_error,
        "df": evidence.df,
        "p": evidence.p,
        "conditional": conditional_on(len(difference.seeds), len(difference.base_seeds)),
    }


def _over_full(rows: pd.DataFrame, of_full: pd.DataFrame | None, column: Column) -> dict[str, float]:
    """The same transfer against the baseline that had all data; nothing if that is not finished."""
    difference = None if of_full is None else _difference(rows, of_full, column)
    if difference is None:
        return {}
    return {
        "full_baseline": float(difference.baselines.mean()),
        "points_over_full": difference.points,
        "low_over_full": 100 * difference.evidence.low,
        "high_over_full": 100 * difference.evidence.high,
        "standard_error_over_full": 100 * difference.evidence.standard_error,
        "df_over_full": difference.evidence.df,
        "p_over_full": difference.evidence.p,
    }


def _states(states: dict[str, bool]) -> Iterable[str]:
    return [name for name, holds in states.items() if holds]


def _fisher_z(scores: np.ndarray, baselines: np.ndarray) -> float:
    """Difference of mean atanh r; NaN where a correlation is undefined or exactly 1."""
    if not (np.abs([*scores, *baselines]) < 1).all():
        return float("nan")
    return float(np.mean(np.arctanh(scores)) - np.mean(np.arctanh(baselines)))
