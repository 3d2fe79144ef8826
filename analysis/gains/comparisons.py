"""What transfers are compared with: controls, and merged intermediates.

Controls say whether a harm is of the transfer or of any second adapter. ``self`` is the target on itself, trained with
another seed; ``shuffled`` the target on its own texts with permuted labels; ``random`` the target on an untrained
adapter; ``control`` the target on a task without empathy; ``imported`` the target on an adapter that others trained.

A merged row is held against the single that validation chooses (of the same seed; its test rows are not asked), the
mean of all singles, and the controls ``random`` and ``self``: paired differences on the same resampled groups, as gains
are. Of one target the rows are a family: each p is corrected by the largest of all rows' differences from the same
thing (``analysis.gains.corrections``). The best single by its test score stands beside them and is never tested
against, since it is chosen by what it would be tested with.

What merges have kept of their parents comes from stored measures (``similarities --measure retention``): scores of a
parent's validation rows under its own head, with other adapters in the place of its own. A merge averages what goes in
and what comes out of a unit, so it shrinks what a parent adds: whether the other parents help or disturb is told by
``merged`` against ``own_part``, and not against ``alone``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from adapters_store.measures import RETENTION, merged_cells, retention_inputs
from adapters_store.roles import CONTROLS, MERGED_ROLES, NAMED_BY_INTERMEDIATE, RANDOM, SELF, TRANSFER, planned_role
from adapters_store.store import Store
from analysis.gains.cells import Manifest, ScoredColumn, columns, contaminated_pairs, planned_cells
from analysis.gains.corrections import GainTest, Reach, step_down
from analysis.gains.gains import COLUMNS, GROWTH_NAMES, SEED, TYPES, uncorrected_gains
from analysis.gains.pairs import Peers
from analysis.gains.significance import DRAWS, LEVEL, FloatArray, difference_evidence
from analysis.tables import Declared, framed, interval_columns

KEPT = ("intermediate_version", "p_bh", "significant", "target_has_learned", *GROWTH_NAMES)  # of gains alone
CONTROL_TYPES = {"control": "str", **{name: kind for name, kind in TYPES.items() if name not in KEPT}}
MEAN_TYPES = {
    **dict.fromkeys(("control", "intermediate", "metric", "setting"), "str"),
    "n_targets": "int64",
    **dict.fromkeys(("liveness", "points", "low", "high", "transfer_points"), "float64"),
    **dict.fromkeys(("transfers_less_control", "low_less_control", "high_less_control"), "float64"),
}


def controls(store: Store, manifest: Manifest, *, draws: int = DRAWS, seed: int = SEED) -> pd.DataFrame:
    """One row per planned (control, intermediate, target, setting), in the terms of ``gains``; p is not corrected."""
    frame = uncorrected_gains(store, manifest, CONTROLS, draws=draws, seed=seed).rename(columns={"role": "control"})
    return frame[list(CONTROL_TYPES)].astype(CONTROL_TYPES)


def control_means(controls: pd.DataFrame, gains: pd.DataFrame) -> pd.DataFrame:
    """One row per control, metric and setting: its mean gain over targets, and that of their transfers less it.

    The first rows, named ``transfer``, are of the transfers themselves, over all targets that have one. Intervals are
    Student's t over targets (NaN with fewer than two), each counting once: its transfers enter by their mean. In a
    control's row only targets count where both it and a transfer are defined.
    """
    if controls.empty:
        return pd.DataFrame(columns=list(MEAN_TYPES)).astype(MEAN_TYPES)
    where = ["metric", "setting", "target"]
    transfers = gains.groupby(where, sort=False)[["points", "liveness"]].mean().reset_index()
    of_all = transfers.assign(control=TRANSFER, intermediate="", transfer_points=transfers.points)
    tasks = controls.intermediate.where(controls.control.isin(NAMED_BY_INTERMEDIATE), "")
    of_target = transfers.rename(columns={"points": "transfer_points"}).drop(columns="liveness")
    both = pd.concat([of_all, controls.assign(intermediate=tasks).merge(of_target, on=where, how="left")])
    both = both.dropna(subset=["points", "transfer_points"]).sort_values(["metric", "setting"], kind="stable")
    groups = both.groupby(["control", "intermediate", "metric", "setting"], sort=False)
    rows = [
        {**dict(zip(("control", "intermediate", "metric", "setting"), names, strict=True)), **_means_of(part)}
        for names, part in groups
    ]
    return pd.DataFrame(rows, columns=list(MEAN_TYPES)).astype(MEAN_TYPES)


def _means_of(part: pd.DataFrame) -> dict[str, Any]:
    """Means over the targets of one control."""
    less = (part.transfer_points - part.points).to_numpy(dtype=float)
    row = {"n_targets": len(part), "liveness": part.liveness.mean(), "transfer_points": part.transfer_points.mean()}
    row |= dict(zip(("points", "low", "high"), over_targets(part.points.to_numpy(dtype=float)), strict=True))
    if part.control.iloc[0] != TRANSFER:
        names = ("transfers_less_control", "low_less_control", "high_less_control")
        row |= dict(zip(names, over_targets(less), strict=True))
    return row


def over_targets(values: np.ndarray) -> tuple[float, float, float]:
    """Mean and 95 % interval, by Student's t over the values; NaN limits of fewer than two."""
    if len(values) < 2:
        return (float(values.mean()) if len(values) else np.nan, np.nan, np.nan)
    mean = float(values.mean())
    half = float(stdtrit(len(values) - 1, 1 - LEVEL / 2) * values.std(ddof=1) / np.sqrt(len(values)))
    return mean, mean - half, mean + half


CHOSEN, SINGLES = "chosen", "singles"
AGAINST = {
    CHOSEN: "the single with the best validation score of the same seed",
    SINGLES: "the mean of all singles",
    RANDOM: "an untrained adapter",
    SELF: "the target itself, trained with another seed",
}
PLANNED = {
    "row": Declared("str", "name of the merged row in the study"),
    "rule": Declared("str", "outputs, weights, ties, gated, fusion or joint"),
    "parents": Declared("int64", "tasks that may be its parents"),
    "best": Declared("Int64", "how many of them count; undefined: all"),
    "by": Declared("str", "what chooses these: validation, or a similarity"),
    "weighed_by": Declared("str", "equal, or a similarity"),
    "target": Declared("str", "task that was trained and tested"),
    "setting": Declared("str", "share of the target's training data"),
}
OF_GAINS = (
    *("metric", "n_seeds", "baseline", "score", "points", "low", "high", "p", "points_over_full", "low_over_full"),
    *("high_over_full", "conditional", "n_test", "n_groups", "liveness", "collapsed", "flags"),
)


def _against(name: str, noun: str) -> dict[str, Declared]:
    return {
        f"less_{name}": Declared("float64", f"100 (score - that of {noun})"),
        **interval_columns(f"{{}}_less_{name}"),
        f"p_{name}": Declared("float64", "two-sided, that the true difference is 0"),
        f"p_max_{name}": Declared(
            "float64", "p corrected for all merged rows of the target by their largest difference"
        ),
    }


MERGED = {
    **PLANNED,
    **{name: COLUMNS[name] for name in OF_GAINS},
    "chosen_single": Declared("str", "the single that validation chooses, by seed"),
    **{field: column for name, noun in AGAINST.items() for field, column in _against(name, noun).items()},
    "best_single": Declared("str", "the single with the best test score, for comparison by eye alone"),
    "best_single_points": Declared("float64", "100 (its test score - baseline)"),
}
MEANS = {
    "row": Declared("str", "name of the merged row in the study"),
    "metric": Declared("str", "metric of the targets"),
    "setting": Declared("str", "share of the targets' training data"),
    "n_targets": Declared("int64", "targets that have the row"),
    "points": Declared("float64", "mean gain over targets"),
    **interval_columns("{}", ", Student's t over targets"),
    **{
        field: Declared("float64", f"mean over targets of the difference from {noun}, or an end of its interval")
        for name, noun in AGAINST.items()
        for field in (f"less_{name}", f"low_less_{name}", f"high_less_{name}")
    },
}
Where = tuple[str, str]  # a target and a setting


def merged_gains(store: Store, manifest: Manifest, *, draws: int = DRAWS, seed: int = SEED) -> pd.DataFrame:
    """One row per planned (merged row, target, setting), with the columns ``MERGED``; empty where a study has none."""
    gains = uncorrected_gains(store, manifest, MERGED_ROLES, draws=draws, seed=seed)
    if gains.empty:
        return framed(pd.DataFrame(), MERGED)
    merges = (cell for cell in manifest["cells"] if planned_role(cell) in MERGED_ROLES)
    recipes = {(cell["intermediate"], cell["target"]): cell["merge"] for cell in merges}
    planned, marked = planned_cells(store, manifest), contaminated_pairs(store, manifest) or set()
    peers = planned[planned.role.isin([*MERGED_ROLES, TRANSFER, RANDOM, SELF])]
    compared = {
        (column.target, column.setting): _Compared.of(column, peers, marked)
        for column in columns(store, peers, draws=draws, seed=seed)
    }
    of_rows: dict[tuple[str, Where], dict[str, Any]] = {}
    for where, part in compared.items():
        of_rows |= {(name, where): fields for name, fields in part.fields()}
    rows = []
    for gain in gains.to_dict("records"):
        name, where = gain["intermediate"], (gain["target"], gain["setting"])
        best = compared[where].best(gain["baseline"]) if where in compared else {}
        # What a row is, from its recipe.
        merge = recipes[name, gain["target"]]
        by, weights = merge.get("by", ""), merge["weights"]
        planned_as = {
            "row": name,
            "rule": merge["rule"],
            "parents": len(merge["parents"]),
            "best": merge.get("best", pd.NA),
            "by": by["similarity"] if isinstance(by, Mapping) else by,
            "weighed_by": weights["similarity"] if isinstance(weights, Mapping) else weights,
        }
        rows.append({**gain, **planned_as, **of_rows.get((name, where), {}), **best})
    return framed(pd.DataFrame(rows), MERGED)


def merged_means(merged: pd.DataFrame) -> pd.DataFrame:
    """One row per merged row, metric and setting: means over targets, each counting once; columns ``MEANS``."""
    rows = []
    for names, part in merged[merged.points.notna()].groupby(["row", "metric", "setting"], sort=False):
        row: dict[str, Any] = {**dict(zip(("row", "metric", "setting"), names, strict=True)), "n_targets": len(part)}
        row |= dict(zip(("points", "low", "high"), over_targets(part.points.to_numpy(float)), strict=True))
        for name in AGAINST:
            fields = (f"less_{name}", f"low_less_{name}", f"high_less_{name}")
            row |= dict(zip(fields, over_targets(part[fields[0]].dropna().to_numpy(float)), strict=True))
        rows.append(row)
    return framed(pd.DataFrame(rows), MEANS)


@dataclass(frozen=True)
class _Compared:
    """The finished merged rows of a column beside all that they are held against.

    ``singles`` are lanes of the transfers by seed, best on validation first; those whose intermediate was trained on
    the target's test items are left out, as a merge has no such parent.
    """

    column: ScoredColumn
    rows: Mapping[str, Mapping[int, int]]
    singles: Mapping[int, Sequence[tuple[str, int]]]
    controls: Mapping[str, Mapping[int, int]]

    @cached_property
    def peers(self) -> Peers:
        """The rows' scores by seed: each tells how far the others' vary between seeds, as transfers do of gains."""
        scores = self.column.scores
        return Peers(
            {name: {seed: float(scores[at]) for seed, at in lanes.items()} for name, lanes in self.rows.items()}
        )

    @classmethod
    def of(cls, column: ScoredColumn, planned: pd.DataFrame, marked: set[tuple[str, str]]) -> _Compared:
        cells = planned[(planned.target == column.target) & (planned.setting == column.setting)]
        validation = {(row.role, row.intermediate, row.seed): row.validation for row in cells.itertuples()}
        rows: dict[str, dict[int, int]] = {}
        controls: dict[str, dict[int, int]] = {RANDOM: {}, SELF: {}}
        singles: dict[int, list[tuple[float, str, int]]] = {}
        for lane, position in column.lanes.items():
            if lane.role in MERGED_ROLES:
                rows.setdefault(str(lane.intermediate), {})[lane.seed] = position
            elif lane.role in controls:
                controls[lane.role][lane.seed] = position
            elif (column.target, name := str(lane.intermediate)) not in marked:
                score = validation[lane.role, name, lane.seed]
                singles.setdefault(lane.seed, []).append((-score if np.isfinite(score) else np.inf, name, position))
        ordered = {seed: [(name, lane) for _, name, lane in sorted(of_seed)] for seed, of_seed in singles.items()}
        return cls(column, rows, ordered, controls)

    def fields(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Of every merged row its differences, with their evidence, corrected over the rows."""
        fields: dict[str, dict[str, Any]] = {name: self._chosen(lanes) for name, lanes in self.rows.items()}
        for against in AGAINST:
            tests: list[tuple[str, GainTest]] = []
            for name, lanes in self.rows.items():
                differences, test = self._difference(name, lanes, against)
                fields[name] |= differences
                tests += [(name, test)] if test else []
            if tests:
                reach = Reach.of([(index, test) for index, (_, test) in enumerate(tests)])
                for (name, _), p in zip(tests, step_down([reach])[0], strict=True):
                    fields[name][f"p_max_{against}"] = float(p)
        yield from fields.items()

    def best(self, baseline: float) -> dict[str, Any]:
        """The single with the best mean test score over its seeds."""
        scores: dict[str, list[float]] = {}
        for of_seed in self.singles.values():
            for name, lane in of_seed:
                scores.setdefault(name, []).append(float(self.column.scores[lane]))
        means = {name: float(np.mean(values)) for name, values in sorted(scores.items()) if np.isfinite(values).all()}
        if not means:
            return {}
        name = max(means, key=means.__getitem__)
        return {"best_single": name, "best_single_points": 100 * (means[name] - baseline)}

    def _chosen(self, lanes: Mapping[int, int]) -> dict[str, Any]:
        names = [self.singles[seed][0][0] for seed in lanes if seed in self.singles]
        return {"chosen_single": ", ".join(dict.fromkeys(names) if len(set(names)) == 1 else names)}

    def _difference(
        self, name: str, lanes: Mapping[int, int], against: str
    ) -> tuple[dict[str, float], GainTest | None]:
        """A row less what it is held against, over the seeds that both have finished, and its test."""
        column = self.column
        below = {seed: others for seed in lanes if (others := self._lanes_of(against, seed))}
        if not below:
            return {}, None
        top = [lanes[seed] for seed in below]
        bases = np.array([_mean_over_lanes(column.scores[None, others])[0] for others in below.values()])
        base_draws = np.stack([_mean_over_lanes(column.draws[:, others]) for others in below.values()], axis=1)
        rng = column.rng(*MERGED_ROLES, name, against)
        pooled = self.peers.spreads(name, list(below), bases)
        draws = column.draws[:, top], base_draws
        evidence = difference_evidence(column.scores[top], bases, *draws, column.groups, rng, pooled)
        estimate = float(column.scores[top].mean() - bases.mean())
        fields = {
            f"less_{against}": 100 * estimate,
            f"low_less_{against}": 100 * evidence.low,
            f"high_less_{against}": 100 * evidence.high,
            f"p_{against}": evidence.p,
        }
        if not np.isfinite(evidence.p):
            return fields, None
        test = GainTest.of(estimate, evidence, (column.target, column.setting), column.entropy)
        return fields, test if test.is_testable else None

    def _lanes_of(self, against: str, seed: int) -> list[int]:
        """The lanes whose mean a row is held against for a seed; none where they are not there."""
        if against in self.controls:
            return [self.controls[against][seed]] if seed in self.controls[against] else []
        of_seed = [lane for _, lane in self.singles.get(seed, ())]
        return of_seed[:1] if against == CHOSEN else of_seed


def _mean_over_lanes(values: FloatArray) -> FloatArray:
    """The means ``[n]`` of values ``[n, lanes]``, exact where lanes are equal: no difference comes of rounding."""
    first = values[:, 0]
    return np.asarray(first + (values - first[:, None]).mean(axis=1))


RETAINED = {
    "row": Declared("str", "name of the merged row in the study"),
    "target": Declared("str", "the target that stands on the merge"),
    "parent": Declared("str", "a task that the merge has for a parent"),
    "metric": Declared("str", "metric of the parent, as tasks.metrics names it"),
    "n_rows": Declared("int64", "validation rows of the parent"),
    "weight": Declared("float64", "how much the parent counts in the merge; all of them sum to 1"),
    "alone": Declared("float64", "validation score of the parent as it was trained"),
    "none": Declared("float64", "without any adapter"),
    "halved": Declared("float64", "with all weights of its adapter halved"),
    "own_part": Declared("float64", "with its own part of the merge and nothing else"),
    "merged": Declared("float64", "with the merge in the place of its adapter"),
}
SCORES = ("alone", "halved", "own_part", "merged", "none")


def retained(store: Store, manifest: Manifest) -> pd.DataFrame:
    """One row per measured merge and parent, with the columns ``RETAINED``; empty where nothing was measured."""
    rows = []
    for cell in merged_cells(manifest):
        kept = store.find_measure(RETENTION, retention_inputs(cell["key"]))
        for parent, scores in sorted(kept.result["parents"].items()) if kept else ():
            of_parent = {"parent": parent, "metric": manifest["tasks"][parent]["metric"], **scores}
            rows.append({"row": cell["intermediate"], "target": cell["target"], **of_parent})
    return framed(pd.DataFrame(rows), RETAINED)
