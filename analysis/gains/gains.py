"""From finished cells to what each intermediate changed: every transfer against its target's baseline.

A gain is the mean score of a transfer over its seeds minus the mean of its target's baseline over all of the
baseline's seeds. In a setting other than full there are two baselines: the one of the same setting, which says what
the intermediate adds to the little data there is, and the full one, which says whether it makes up for the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from adapters_store.roles import GAIN_ROLES
from adapters_store.store import Store
from analysis.gains.cells import Manifest
from analysis.gains.columns import Scored, own_scores
from analysis.gains.corrections import (
    benjamini_hochberg,
    corrections_of,
    monte_carlo_error,
    undecided,
    undecided_corrections,
)
from analysis.gains.growth import GROWTH, GROWTH_NAMES
from analysis.gains.maxima import Reach, reaches
from analysis.gains.pairs import Gain, Grid
from analysis.gains.significance import DRAWS, LEVEL
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
    "low_over_full": Declared("float64", "lower end of its 95 % interval"),
    "high_over_full": Declared("float64", "its upper end"),
    "standard_error_over_full": Declared("float64", "of points_over_full"),
    "df_over_full": Declared("float64", "its degrees of freedom"),
    "p_over_full": Declared("float64", "two-sided, that the true gain over the full baseline is 0; not corrected"),
    "conditional": Declared("str", "training runs that the inference holds for"),
    "collapsed": Declared("boolean", "score or baseline is at or below the majority-class score (r: 0)"),
    "contaminated": Declared("boolean", "test items are training material; undefined: not measured"),
    "target_has_learned": Declared("boolean", "as ``analysis.gains.learned`` has it; undefined: not known"),
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
    by ``analysis.gains.learned.marked`` and ``analysis.gains.growth.grown``.
    Controls and references take no part. Gains that so many draws leave undecided after Benjamini and Hochberg, by
    which they are ``significant``, are drawn anew, MORE times as often. If ``exact``, the whole grid is, where any
    correction of any gain is undecided.
    """
    grid = Grid.of(store, manifest, GAIN_ROLES)
    drawn = _Drawn.of(grid, draws, seed)
    if exact and undecided_corrections(drawn.corrected()).any(axis=None):
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
    grid = Grid.of(store, manifest, roles, scored)
    table = _empty_table(len(grid.pairs))
    for positions in (positions for data_set in grid.data_sets for positions in data_set):
        for gain in grid.gains(positions, draws=draws, seed=seed):
            _fill(table, gain)
    return _frame(table)


_Table = dict[str, list[Any]]  # values by column, in the order of the planned transfers


@dataclass(frozen=True)
class _Drawn:
    """All gains of a grid by column of the frame, and what is kept of their joint draws, as many of all."""

    grid: Grid
    table: _Table
    columns: Sequence[Reach]
    blocks: Sequence[Reach]
    draws: int

    @classmethod
    def of(cls, grid: Grid, draws: int, seed: int) -> _Drawn:
        table = _empty_table(len(grid.pairs))
        columns: list[Reach] = []
        blocks: list[Reach] = []
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
        is_doubtful = undecided(p, drawn, benjamini_hochberg)
        for positions in (positions for data_set in self.grid.data_sets for positions in data_set):
            if again := [position for position in positions if is_doubtful[position]]:
                for gain in self.grid.gains(again, draws=draws, seed=seed):
                    _fill(self.table, gain)

    def corrected(self) -> pd.DataFrame:
        frame = _frame(self.table)
        adjusted = corrections_of(frame.p.to_numpy(float), self.columns, self.blocks)
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
    return frame.assign(p_mc_error=monte_carlo_error(p, draws))
