"""What merged intermediates gain, and whether that is more than a single intermediate would have given.

A merged row is held against the single that validation chooses (of the same seed; its test rows are not asked), the
mean of all singles, and the controls ``random`` and ``self``: paired differences on the same resampled groups, as gains
are. Of one target the rows are a family: each p is corrected by the largest of all rows' differences from the same
thing (``analysis.gains.maxima``). The best single by its test score stands beside them and is never tested against,
since it is chosen by what it would be tested with.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from adapters_store.roles import MERGED_ROLES, RANDOM, SELF, TRANSFER, planned_role
from adapters_store.store import Store
from analysis.gains.beside.controls import over_targets
from analysis.gains.cells import Manifest, planned_cells
from analysis.gains.columns import Column, columns
from analysis.gains.gains import SEED, uncorrected_gains
from analysis.gains.maxima import GainTest, Reach, step_down
from analysis.gains.seeds.spread import Peers
from analysis.gains.significance import DRAWS, FloatArray, difference_evidence
from analysis.tables import Declared, framed

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
OF_GAINS = {
    "metric": Declared("str", "metric of the target, as tasks.metrics names it"),
    "n_seeds": Declared("int64", "training runs behind the score; 0: planned but not finished"),
    "baseline": Declared("float64", "test score of the target alone, in the same setting"),
    "score": Declared("float64", "test score on the merge"),
    "points": Declared("float64", "100 (score - baseline)"),
    "low": Declared("float64", "lower end of its 95 % interval"),
    "high": Declared("float64", "upper end"),
    "p": Declared("float64", "two-sided, that the true gain is 0; not corrected"),
    "points_over_full": Declared("float64", "100 (score - that of the target alone with all data)"),
    "low_over_full": Declared("float64", "lower end of its 95 % interval"),
    "high_over_full": Declared("float64", "upper end"),
    "conditional": Declared("str", "training runs that the inference holds for"),
    "n_test": Declared("Int64", "test rows"),
    "n_groups": Declared("Int64", "groups of test rows"),
    "liveness": Declared("float64", "largest change of a logit when the merge is switched off"),
    "collapsed": Declared("boolean", "score or baseline is at or below the floor"),
    "flags": Declared("str", "what is unusual"),
}


def _against(name: str, what: str) -> dict[str, Declared]:
    return {
        f"less_{name}": Declared("float64", f"100 (score - that of {what})"),
        f"low_less_{name}": Declared("float64", "lower end of its 95 % interval"),
        f"high_less_{name}": Declared("float64", "upper end"),
        f"p_{name}": Declared("float64", "two-sided, that the true difference is 0"),
        f"p_max_{name}": Declared(
            "float64", "p corrected for all merged rows of the target by their largest difference"
        ),
    }


MERGED = {
    **PLANNED,
    **OF_GAINS,
    "chosen_single": Declared("str", "the single that validation chooses, by seed"),
    **{field: column for name, what in AGAINST.items() for field, column in _against(name, what).items()},
    "best_single": Declared("str", "the single with the best test score, for comparison by eye alone"),
    "best_single_points": Declared("float64", "100 (its test score - baseline)"),
}
MEANS = {
    "row": Declared("str", "name of the merged row in the study"),
    "metric": Declared("str", "metric of the targets"),
    "setting": Declared("str", "share of the targets' training data"),
    "n_targets": Declared("int64", "targets that have the row"),
    "points": Declared("float64", "mean gain over targets"),
    "low": Declared("float64", "lower end of its 95 % interval, Student's t over targets"),
    "high": Declared("float64", "upper end"),
    **{
        field: Declared("float64", f"mean over targets of the difference from {what}, or an end of its interval")
        for name, what in AGAINST.items()
        for field in (f"less_{name}", f"low_less_{name}", f"high_less_{name}")
    },
}
Where = tuple[str, str]  # a target and a setting


def merged_gains(store: Store, manifest: Manifest, *, draws: int = DRAWS, seed: int = SEED) -> pd.DataFrame:
    """One row per planned (merged row, target, setting), with the columns ``MERGED``; empty where a study has none."""
    own = uncorrected_gains(store, manifest, MERGED_ROLES, draws=draws, seed=seed)
    if own.empty:
        return framed(pd.DataFrame(), MERGED)
    recipes = {(cell["intermediate"], cell["target"]): cell["merge"] for cell in _merged_cells(manifest)}
    planned = planned_cells(store, manifest)
    beside = planned[planned.role.isin([*MERGED_ROLES, TRANSFER, RANDOM, SELF])]
    compared = {
        (column.target, column.setting): _Compared.of(column, beside)
        for column in columns(store, beside, draws=draws, seed=seed)
    }
    of_rows: dict[tuple[str, Where], dict[str, Any]] = {}
    for where, part in compared.items():
        of_rows |= {(name, where): fields for name, fields in part.fields()}
    rows = []
    for gain in own.to_dict("records"):
        name, where = gain["intermediate"], (gain["target"], gain["setting"])
        best = compared[where].best(gain["baseline"]) if where in compared else {}
        planned_as = _planned(name, recipes[name, gain["target"]])
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


def _merged_cells(manifest: Manifest) -> Iterator[Mapping[str, Any]]:
    return (cell for cell in manifest["cells"] if planned_role(cell) in MERGED_ROLES)


def _planned(name: str, merge: Mapping[str, Any]) -> dict[str, Any]:
    """What a row is, from its recipe."""
    by, weights = merge.get("by", ""), merge["weights"]
    return {
        "row": name,
        "rule": merge["rule"],
        "parents": len(merge["parents"]),
        "best": merge.get("best", pd.NA),
        "by": by["similarity"] if isinstance(by, Mapping) else by,
        "weighed_by": weights["similarity"] if isinstance(weights, Mapping) else weights,
    }


@dataclass(frozen=True)
class _Compared:
    """The finished merged rows of a column beside all that they are held against.

    ``singles`` are lanes of the transfers by seed, best on validation first; those that were tested on training
    material are left out, as a merge has no such parent.
    """

    column: Column
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
    def of(cls, column: Column, planned: pd.DataFrame) -> _Compared:
        cells = planned[(planned.target == column.target) & (planned.setting == column.setting)]
        known = {(row.role, row.intermediate, row.seed): row for row in cells.itertuples()}
        rows: dict[str, dict[int, int]] = {}
        controls: dict[str, dict[int, int]] = {RANDOM: {}, SELF: {}}
        singles: dict[int, list[tuple[float, str, int]]] = {}
        for lane, position in column.lanes.items():
            if lane.role in MERGED_ROLES:
                rows.setdefault(str(lane.intermediate), {})[lane.seed] = position
            elif lane.role in controls:
                controls[lane.role][lane.seed] = position
            elif not _is_contaminated(row := known[lane.role, lane.intermediate, lane.seed]):
                height = -row.validation if np.isfinite(row.validation) else np.inf
                singles.setdefault(lane.seed, []).append((height, str(lane.intermediate), position))
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
                reach = Reach.of([(place, test) for place, (_, test) in enumerate(tests)])
                for (name, _), p in zip(tests, step_down([reach])[0], strict=True):
                    fields[name][f"p_max_{against}"] = float(p)
        yield from fields.items()

    def best(self, baseline: float) -> dict[str, Any]:
        """The single with the best mean test score over its seeds."""
        scores: dict[str, list[float]] = {}
        for of_seed in self.singles.values():
            for name, lane in of_seed:
                scores.setdefault(name, []).append(float(self.column.scores[lane]))
        means = {name: float(np.mean(own)) for name, own in sorted(scores.items()) if np.isfinite(own).all()}
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
        bases = np.array([_mean(column.scores[None, others])[0] for others in below.values()])
        base_draws = np.stack([_mean(column.draws[:, others]) for others in below.values()], axis=1)
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


def _mean(values: FloatArray) -> FloatArray:
    """The means ``[n]`` of values ``[n, lanes]``, exact where lanes are equal: no difference comes of rounding."""
    first = values[:, 0]
    mean: FloatArray = first + (values - first[:, None]).mean(axis=1)
    return mean


def _is_contaminated(row: Any) -> bool:  # noqa: ANN401 - a row of planned cells
    return row.contaminated is not pd.NA and bool(row.contaminated)
