"""How well each target does alone, whether it has learned at all, and every gain by a second metric.

A gain over a baseline that has not learned is an artefact of undertraining. A baseline has learned if it scores above
its floor, is not significantly below *words* (tf-idf, on the same test rows), and no more than half of its training
runs are still learning, which is to say best at the last epoch that they trained. Where words were not run, nobody
knows. What is not known of one condition does not save a baseline that fails another.

The test against words is one-sided, at LEVEL, and not corrected for the number of targets: it is made against a claim,
not for one. It holds for the training runs at hand, whose mean score is what gains are measured from: test items are
resampled by groups (``analysis.gains.significance``), runs are not. With a part for other runs, few seeds would hide
most baselines that are below words (benchmarks.grids.learned). Of several words the one that does better on validation
rows is taken, so that no test score has a say in what is compared.

So that no claim hangs on one metric, targets of classes are scored by accuracy beside macro-F1, of several classes by
micro-F1 (all decisions pooled), of numbers by Spearman's correlation beside Pearson's, on test items resampled alike.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from adapters_store.roles import BASELINE, FINETUNED, GAIN_ROLES, SCORED_ALONE, SYSTEMS, TRANSFER
from adapters_store.store import Store
from analysis.gains.cells import (
    Lane,
    Manifest,
    PlannedCell,
    Predictions,
    ScoredColumn,
    column_of,
    columns,
    planned_cells,
)
from analysis.gains.corrections import benjamini_hochberg
from analysis.gains.gains import SEED, uncorrected_gains
from analysis.gains.pairs import FEW_GROUPS, conditional_on, flags_of
from analysis.gains.significance import DRAWS, LEVEL, Evidence, FloatArray, Groups, evidence, group_weights, score_draws
from analysis.tables import Declared, bare, framed, holds, interval_columns

RANGE = {"macro_f1": (0.0, 1.0), "multilabel_f1": (0.0, 1.0), "pearson_r": (-1.0, 1.0)}
TYPES = {
    **dict.fromkeys(("target", "role", "setting", "version", "metric"), "str"),
    "n_seeds": "int64",
    **dict.fromkeys(("score", "low", "high", "floor"), "float64"),
    "is_above_floor": "boolean",
    "conditional": "str",
    **dict.fromkeys(("n_train", "n_test", "n_groups"), "Int64"),
    "contaminated": "boolean",
    **dict.fromkeys(("quadratic_kappa", "spearman_r"), "float64"),
    "flags": "str",
}


def baselines(store: Store, manifest: Manifest, *, draws: int = DRAWS, seed: int = SEED) -> pd.DataFrame:
    """One row per planned target and setting: mean score over seeds, its 95 % interval, and the floor.

    Where whole models were trained for reference, a row each with the role ``finetuned``.
    ``is_above_floor`` says whether the interval's lower end is above the score of always predicting the majority class.
    """
    planned = planned_cells(store, manifest)
    planned = planned[planned.role.isin(SCORED_ALONE)]
    columns_by_target = {
        (column.target, column.setting): column for column in columns(store, planned, draws=draws, seed=seed)
    }
    rows = [
        _baseline_row(rows, columns_by_target.get(tuple(where))) | _secondary_scores(store, rows)
        for (*where, _), rows in planned.groupby(["target", "setting", "role"], sort=False)
    ]
    return pd.DataFrame(rows, columns=list(TYPES)).astype(TYPES)


def _secondary_scores(store: Store, rows: pd.DataFrame) -> dict[str, float]:
    """Means over finished seeds of the further metrics of an ordinal target; none for other targets."""
    secondary = [store.get(key).results.get("secondary", {}) for key in rows.key[rows.status == "done"]]
    names = {name for scores in secondary for name in scores}
    return {
        name: float(np.mean([np.nan if scores[name] is None else scores[name] for scores in secondary]))
        for name in names
    }


def _baseline_row(rows: pd.DataFrame, column: ScoredColumn | None) -> dict[str, Any]:
    plan = dict(rows.iloc[0][["target", "role", "setting", "version", "metric"]])
    seeds = column.seeds(plan["role"], None, map(int, rows.seed)) if column else []
    if column is None or not seeds:
        return {**plan, "n_seeds": 0, "conditional": "", "flags": "missing"}
    done, lanes = rows[rows.seed.isin(seeds)], column.positions(plan["role"], None, seeds)
    scores = column.scores[lanes]
    of_mean = evidence(scores, column.draws[:, lanes], column.groups, column.rng())
    low, high = np.clip((of_mean.low, of_mean.high), *RANGE[plan["metric"]])
    floor = done.floor.mean()
    states = {"missing_seeds": len(seeds) < len(rows), "few_groups": column.groups.count < FEW_GROUPS}
    return {
        **plan,
        "n_seeds": len(seeds),
        "score": scores.mean(),
        "low": low,
        "high": high,
        "floor": floor,
        "is_above_floor": pd.NA if np.isnan(low) else bool(low > floor),
        "conditional": conditional_on(len(seeds)),
        "n_train": done.n_train.iloc[0],
        "n_test": column.n_test,
        "n_groups": column.groups.count,
        "contaminated": done.contaminated.iloc[0],
        "flags": ";".join([*(name for name, holds in states.items() if holds), *flags_of(done["flags"])]),
    }


OTHER = {"macro_f1": "accuracy", "multilabel_f1": "micro-F1", "pearson_r": "Spearman r"}
OTHERS = {
    "intermediate": Declared("str", "task whose adapter is below"),
    "target": Declared("str", "task that was trained and tested"),
    "setting": Declared("str", "share of the target's training data"),
    "metric": Declared("str", "the second metric, by its name"),
    "baseline": Declared("float64", "score of the target alone"),
    "score": Declared("float64", "score of the transfer"),
    "points": Declared("float64", "100 (score - baseline)"),
    **interval_columns(),
    "p": Declared("float64", "two-sided, that the true gain is 0; not corrected"),
    "p_bh": Declared("float64", "p after Benjamini and Hochberg over all gains by second metrics"),
}


def other_gains(store: Store, manifest: Manifest, *, draws: int, seed: int) -> pd.DataFrame:
    """One row per planned (intermediate, target, setting), in the order of ``gains``: the columns OTHERS."""
    frame = uncorrected_gains(store, manifest, GAIN_ROLES, draws=draws, seed=seed, scored=other_scores)
    rows = frame.assign(metric=frame.metric.map(OTHER), p_bh=benjamini_hochberg(frame.p.to_numpy(float)))
    return framed(rows, OTHERS)


def other_scores(
    metric: str, shown: Predictions, decided: NDArray[Any], groups: Groups, draws: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Scores ``[lanes]`` of decisions ``[lanes, n]`` by the second metric, and resampled ``[draws, lanes]``.

    Ranks behind Spearman's correlation are those among all test items, in every draw.
    """
    if metric == "pearson_r":
        from scipy.stats import rankdata  # half a second, which a report of kept gains does not need

        ranks, labels = rankdata(decided, axis=1), rankdata(shown.labels)
        resampled = score_draws(metric, labels, groups, ranks, draws=draws, rng=rng)
        return np.array([_correlation(labels, lane) for lane in ranks]), resampled
    tops, bottoms = _counts(metric, shown.labels, decided)
    return tops.sum(axis=1) / bottoms.sum(axis=1), ratio_draws(tops, bottoms, groups, draws, rng)


def ratio_draws(
    tops: FloatArray, bottoms: FloatArray, groups: Groups, draws: int, rng: np.random.Generator
) -> FloatArray:
    """Resampled sums of ``tops`` over those of ``bottoms``, both ``[lanes, n]``: ``[draws, lanes]``, NaN over 0."""
    above, bottom_sums = (
        np.stack([np.bincount(groups.index, weights=lane, minlength=groups.count) for lane in part], axis=1)
        for part in (tops, bottoms)
    )
    blocks = []
    for weights in group_weights(groups, draws, rng):
        totals = weights @ bottom_sums
        blocks.append(np.where(totals > 0, (weights @ above) / np.where(totals > 0, totals, 1.0), np.nan))
    return np.concatenate(blocks)


def _counts(metric: str, labels: NDArray[Any], decided: NDArray[Any]) -> tuple[FloatArray, FloatArray]:
    """Numerator and denominator of every item ``[lanes, n]``: right of one, or twice the hits of all labels."""
    if metric == "multilabel_f1":
        return 2.0 * (labels * decided).sum(axis=2), (labels + decided).sum(axis=2).astype(np.float64)
    right = (decided == labels).astype(np.float64)
    return right, np.ones(right.shape)


def _correlation(first: FloatArray, other: FloatArray) -> float:
    """Pearson's correlation; NaN where a side does not vary."""
    is_varied = np.ptp(first) > 0 and np.ptp(other) > 0
    return float(np.corrcoef(first, other)[0, 1]) if is_varied else float("nan")


WORDS, ENCODER = "tfidf", "encoder"  # kinds of systems
NOT_LEARNED = " (not learned)"  # what a figure adds to the title of such a target
NOT_ONTO = ", onto others than (not learned)"  # and to what a mark of significance means, where there are such
WHERE = ["target", "setting"]
LEARNED = {
    "target": Declared("str", "id of the target"),
    "setting": Declared("str", "share of its training data"),
    "metric": Declared("str", "as tasks.metrics names it"),
    "floor": Declared("float64", "test score of always predicting the majority class (r: 0)"),
    "words": Declared("float64", "test score of words: of several, of those better on validation; undefined: not run"),
    "words_system": Declared("str", "their name in the study; empty: not run"),
    "alone": Declared("float64", "test score of the target alone, mean over seeds"),
    "difference": Declared("float64", "100 (alone - words)"),
    **interval_columns("{}", ", through groups of test items, for these training runs"),
    "p_below": Declared("float64", "one-sided, that these runs are truly below words; not corrected"),
    "is_above_floor": Declared("boolean", "alone is above floor"),
    "is_below_words": Declared("boolean", f"p_below is at most {LEVEL:g}"),
    "still_learning": Declared("int64", "seeds of the baseline whose best epoch is the last that was trained"),
    "n_seeds": Declared("int64", "finished seeds of the baseline"),
    "has_learned": Declared(
        "boolean", "above the floor, not below words, not still learning in most seeds; undefined: not known"
    ),
    "reason": Declared("str", "why it has not, or why nobody knows"),
    "whole_encoder": Declared("float64", "test score of the whole finetuned encoder, mean over seeds"),
}


def learned(store: Store, manifest: Manifest, *, draws: int = DRAWS, seed: int = SEED) -> pd.DataFrame:
    """One row per planned target and setting: the columns LEARNED; where transfers are planned, of their targets alone.

    MixedRecords if the baseline and words were not tested on the same rows.
    """
    planned = planned_cells(store, manifest)
    targets = set(planned.target[planned.role == TRANSFER])
    planned = planned[planned.target.isin(targets)] if targets else planned
    rows = [
        _row(store, manifest, part, draws=draws, seed=seed)
        for _, part in planned.groupby(WHERE, sort=False)
        if (part.role == BASELINE).any()
    ]
    return framed(pd.DataFrame(rows), LEARNED)


def kind_of(store: Store, manifest: Manifest, cell: Any) -> str:  # noqa: ANN401 - a row of a frame of cells
    """The kind of a finished system, by the study's table of it or by its record."""
    table: Mapping[str, Any] = manifest["study"].get("system") or {}
    return str(table.get(cell.system, {}).get("kind") or store.get(cell.key).spec["system"])


def _row(store: Store, manifest: Manifest, cells: pd.DataFrame, *, draws: int, seed: int) -> dict[str, Any]:
    """The row of one target and setting, from all its planned cells."""
    done = cells[cells.status == "done"]
    alone, systems = done[done.role == BASELINE], done[done.role.isin(SYSTEMS)]
    kinds = np.array([kind_of(store, manifest, cell) for cell in systems.itertuples()], dtype=object)
    whole = done[done.role == FINETUNED] if (done.role == FINETUNED).any() else systems[kinds == ENCODER]
    words = systems[kinds == WORDS].sort_values("validation", ascending=False, kind="stable").head(1)
    facts = dict(cells[cells.role == BASELINE].iloc[0][[*WHERE, "metric"]])
    facts |= {"floor": alone.floor.mean(), "alone": alone.score.mean(skipna=False), "n_seeds": len(alone)}
    facts |= {"still_learning": int(alone.is_still_learning.sum()), "whole_encoder": whole.score.mean()}
    facts |= {"words": words.score.mean(), "words_system": "".join(words.system)}
    facts |= {"is_above_floor": bool(facts["alone"] > facts["floor"]) if len(alone) else pd.NA}
    facts["is_below_words"] = pd.NA
    if len(alone) and len(words):
        planned = [*PlannedCell.all_of(alone), *PlannedCell.all_of(words)]
        column = column_of(store, planned, draws=draws, seed=seed)
        *of_alone, of_words = (column.lanes[Lane(cell.role, None, cell.seed, cell.system)] for cell in planned)
        apart = column.scores[of_alone] - column.scores[of_words]
        drawn = column.draws[:, of_alone] - column.draws[:, [of_words]]
        estimate, p = below(apart, drawn, column.groups, column.rng(planned[-1].system))
        difference = facts["alone"] - facts["words"]
        facts |= {"difference": 100 * difference, "low": 100 * estimate.low, "high": 100 * estimate.high, "p_below": p}
        facts |= {"is_below_words": pd.NA if np.isnan(p) else p <= LEVEL}
    causes = [long for _, long in _causes(facts)]
    has_learned = False if causes else pd.NA if facts["is_below_words"] is pd.NA else True
    return facts | {"has_learned": has_learned, "reason": "; ".join(causes) or _unknown(facts)}


def below(
    differences: FloatArray, drawn: FloatArray, groups: Groups, rng: np.random.Generator
) -> tuple[Evidence, float]:
    """The evidence of the mean of ``differences`` ``[seeds]``, drawn ``[draws, seeds]``; the p of a true mean below 0.

    It is that of these runs, and p is one-sided: half of the two-sided one, or one less that half.
    """
    mean = differences.mean()
    estimate = evidence([mean], drawn.mean(axis=1, keepdims=True), groups, rng)
    return estimate, estimate.p / 2 if mean < 0 else 1 - estimate.p / 2


def _causes(row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Why a target has not learned, each in brief and with its numbers; nothing where no condition is known to fail."""
    if row["n_seeds"] and not row["is_above_floor"]:
        yield "at the floor", "at the floor"
    if holds(row["is_below_words"]):
        yield "below words", f"below words: {bare(row['alone'], 3)} against {bare(row['words'], 3)}"
    if 2 * row["still_learning"] > row["n_seeds"]:
        last = f"best epoch is the last in {row['still_learning']} of {row['n_seeds']} seeds"
        yield last, last


def _unknown(row: Mapping[str, Any]) -> str:
    """Why nobody knows whether a target has learned of which no condition fails; empty where it has."""
    if not row["n_seeds"]:
        return "not finished"
    if not row["words_system"]:
        return "words were not run"
    return "its difference from words could not be tested" if pd.isna(row["is_below_words"]) else ""


# What may be claimed of gains, for every page, table and text.


def with_learning(gains: pd.DataFrame, learned: pd.DataFrame) -> pd.DataFrame:
    """The frame of gains with ``target_has_learned``, from the frame of ``learned``."""
    verdicts = learned.set_index(WHERE).has_learned
    places = pd.MultiIndex.from_frame(gains[WHERE])
    return gains.assign(target_has_learned=verdicts.reindex(places).array.astype("boolean"))


def of_unlearned(gains: pd.DataFrame) -> set[tuple[str, str]]:
    """Targets and settings, in a frame of gains, of which it is known that the target has not learned."""
    if "target_has_learned" not in gains:  # of printed scores
        return set()
    shown = gains[gains.target_has_learned.eq(False).fillna(False)]
    return {*zip(shown.target, shown.setting, strict=True)}


@dataclass(frozen=True)
class Claims:
    """The gains of a study that have a p: those that may be claimed, and the others with a column ``why`` they may not.

    ``is_known`` is False where words were run for no target: whether any of them has learned is not known then, and
    nothing is counted. ``targets`` are how many have a counted gain.
    """

    is_known: bool
    counted: pd.DataFrame
    others: pd.DataFrame

    @property
    def targets(self) -> int:
        """How many targets the counted gains are on."""
        return int(self.counted.target.nunique())


def claims(gains: pd.DataFrame, learned: pd.DataFrame) -> Claims:
    """What may be claimed: gains onto targets that have learned, but for collapsed and contaminated pairs.

    Everything that counts significant gains, or names the largest, asks here. Whether a gain is significant is another
    question, which the correction over all gains of the study has answered.
    """
    tested = gains[gains.p.notna()]
    rows = learned.to_dict("records")
    reasons = {
        (row["target"], row["setting"]): next((brief for brief, _ in _causes(row)), "") or _unknown(row)
        for row in rows
        if row["has_learned"] is not True
    }
    settled = {(row["target"], row["setting"]) for row in rows}
    why = [
        reasons.get((pair.target, pair.setting), "")
        or ("" if (pair.target, pair.setting) in settled else "words were not run")
        or ("collapsed" if holds(pair.collapsed) else "contaminated" if holds(pair.contaminated) else "")
        for pair in tested.itertuples()
    ]
    tested = tested.assign(why=pd.Series(why, tested.index, dtype="str"))
    is_known = bool((learned.words_system != "").any())
    is_counted = (tested.why == "") & is_known
    return Claims(is_known, tested[is_counted].drop(columns="why"), tested[~is_counted])
