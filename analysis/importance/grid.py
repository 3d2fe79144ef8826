"""A grid of gains and its features as arrays [intermediate, target], made ready for the guarded analysis.

Features are what is known of a pair before its transfer is run: sizes, kinds, similarities and ratings, a row per pair.
The analysis that counts is the one that a study declared before its results were seen, or what is asked where none did.
Permuted tasks say who gets whose ratings when ratings say nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from adapters_store.key import key_of
from adapters_store.store import Store
from analysis.gains.cells import Manifest
from analysis.gains.significance import LEVEL
from analysis.ratings.themes import MARGIN
from analysis.results.results import Results
from analysis.tables import Declared
from tasks.errors import BadInput
from tasks.plain_text import counted

PAIR = ["intermediate", "target"]
SIZE, DIFFERENCE, CATEGORY, SIMILARITY, CONSTRUCT = "size", "difference", "category", "similarity", "construct"


class Feature(NamedTuple):
    """What may explain a transfer: its kind, the columns of the frame of pairs that hold it, and what they mean.

    ``of`` is the fact of a task that it compares (a column of Results.tasks, or a construct); a similarity compares
    the two tasks themselves and has none.
    """

    kind: str
    title: str
    of: str
    columns: Mapping[str, Declared]


def _feature(kind: str, title: str, of: str, name: str, type_: str, meaning: str) -> Feature:
    return Feature(kind, title, of, {name: Declared(type_, meaning)})


def _size(title: str, of: str, noun: str) -> Feature:
    return _feature(SIZE, title, of, of, "float64", f"log2 of {noun} of the intermediate over those of the target")


def _category(title: str, of: str, noun: str) -> Feature:
    return _feature(CATEGORY, title, of, of, "str", f"{noun} of the intermediate > that of the target")


def _similarity(title: str, name: str, meaning: str) -> Feature:
    return _feature(SIMILARITY, title, "", name, "float64", meaning)


FEATURES: dict[str, Feature] = {
    "samples": _size("Sample size", "samples", "the rows"),
    "tokens": _size("Token size", "tokens", "the words"),
    "vocabulary": _size("Vocabulary size", "vocabulary", "the distinct words"),
    "n_labels": _size("Number of labels", "n_labels", "the classes"),
    "task_type": _category("Task type", "task_type", "regression or classification"),
    "data_source": _category("Data source", "data_source", "where the texts were collected,"),
    "setting": _category("Language setting", "setting", "situation of language"),
    "data_similarity": _similarity(
        "Data embedding similarity", "data_similarity", "cosine of the data sets' mean sentence embeddings"
    ),
    "task_similarity": _similarity(
        "Task embedding similarity", "task_similarity", "fused reciprocal ranks of the adapters' Fisher information"
    ),
}


SENSITIVITY = "context_sensitivity"
PROBED = _feature(
    DIFFERENCE,
    "Context sensitivity",
    SENSITIVITY,
    SENSITIVITY,
    "float64",
    "what the intermediate alone loses when contexts are swapped - what the target does, in the metric's own unit",
)


def features_of(results: Results) -> dict[str, Feature]:
    """The features of a grid: the fixed ones, how far tasks hang on contexts where that was probed, and constructs.

    There is one for every construct that somebody rated, in order of rating.
    """
    probed = {SENSITIVITY: PROBED} if results.sensitivity else {}
    return FEATURES | probed | {name: _construct(name) for name in dict.fromkeys(results.ratings.construct)}


def pair_features(
    results: Results, *, similarities: pd.DataFrame | None = None, without_rater: str | None = None
) -> pd.DataFrame:
    """One row per pair of ``results.gains``, in its order; the columns are those of ``features_of``.

    Ratings are means over raters. Whatever is not known of a task, or of a pair in ``similarities`` (columns
    intermediate, target, data_similarity, task_similarity), is undefined.
    """
    facts = task_facts(results, without_rater=without_rater)
    pairs = results.gains[PAIR].reset_index(drop=True)
    measured = pd.DataFrame(columns=PAIR) if similarities is None else similarities
    if measured.duplicated(PAIR).any():
        twice = measured[measured.duplicated(PAIR)].iloc[0]
        raise BadInput(f"similarities: {twice.intermediate} > {twice.target} is given twice; give every pair one row")
    columns: dict[str, pd.Series] = {}
    for name, feature in features_of(results).items():
        if feature.kind == SIMILARITY:
            of_pairs = measured if name in measured else measured.assign(**{name: np.nan})
            columns[name] = pairs.merge(of_pairs[[*PAIR, name]], on=PAIR, how="left")[name].astype("float64")
        else:
            intermediate, target = (pairs[role].map(facts[feature.of]) for role in PAIR)
            columns.update(_columns_of(feature, intermediate, target))
    return pairs.assign(**columns)


def task_facts(results: Results, *, without_rater: str | None = None) -> pd.DataFrame:
    """One row per task, by id: the facts that features compare, and the mean rating of every construct."""
    rated = results.ratings[results.ratings.rater != without_rater]
    means = rated.pivot_table(index="task", columns="construct", values="value", aggfunc="mean")
    facts = results.tasks.set_index("task")
    if results.sensitivity:
        facts = facts.assign(**{SENSITIVITY: pd.Series(results.sensitivity, dtype="float64").reindex(facts.index)})
    constructs = [name for name, feature in features_of(results).items() if feature.kind == CONSTRUCT]
    return facts.join(means.reindex(columns=constructs).reindex(facts.index))


def log_ratios(intermediate: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Log2 of the ratio of two sizes: 1 for twice as many; undefined where a size is 0 or not known."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio: np.ndarray = np.log2(intermediate / target)
    return np.where(np.isfinite(ratio), ratio, np.nan)


def _columns_of(feature: Feature, intermediate: pd.Series, target: pd.Series) -> dict[str, pd.Series]:
    """The columns of a feature from the fact of the intermediate and that of the target."""
    names = list(feature.columns)
    if feature.kind == CATEGORY:
        words = [side.astype("str").fillna("") for side in (intermediate, target)]
        return {names[0]: (words[0] + ">" + words[1]).where((words[0] != "") & (words[1] != ""))}
    low, high = (side.astype("Float64").to_numpy("float64", na_value=np.nan) for side in (intermediate, target))
    if feature.kind == SIZE:
        return {names[0]: pd.Series(log_ratios(low, high))}
    if feature.kind == DIFFERENCE:
        return {names[0]: pd.Series(low - high)}
    return dict(zip(names, map(pd.Series, (low - high, np.abs(low - high), low, high)), strict=True))


def _construct(name: str) -> Feature:
    meanings = {
        name: "mean rating of the intermediate - that of the target",
        f"{name}_distance": "the same without its sign",
        f"{name}_intermediate": "mean rating of the intermediate",
        f"{name}_target": "mean rating of the target",
    }
    columns = {column: Declared("float64", meaning) for column, meaning in meanings.items()}
    return Feature(CONSTRUCT, name.capitalize(), name, columns)


Array = np.ndarray
TIE = 1e-12  # rounding is no difference


def task_orders(n_tasks: int, draws: int, rng: np.random.Generator) -> Array:
    """Random orders of the tasks, [draws, tasks]."""
    return rng.permuted(np.tile(np.arange(n_tasks), (draws, 1)), axis=1)


def permuted_ratings(results: Results, order: Array) -> Results:
    """The results with ratings permuted over tasks: the k-th task gets those of task ``order[k]``."""
    names = results.tasks.task.to_numpy()
    recipient = dict(zip(names[order], names, strict=True))
    return replace(results, ratings=results.ratings.assign(task=results.ratings.task.map(recipient)))


def permutation_p(observed: float, null: Sequence[float] | Array) -> float:
    """Share of the arrangements [draws], the observed one counted, that reach the observed value."""
    drawn = np.asarray(null, dtype="float64")
    return float((1 + (drawn >= observed - TIE).sum()) / (1 + len(drawn)))


def not_rejected(tried: Array, ps: Array, level: float = LEVEL) -> tuple[float, float]:
    """The outermost of values that are tried in rising order [n] and whose p [n] is above the level.

    Ends lie between values tried, by log p; infinite where the last is not rejected.
    """
    accepted = np.flatnonzero(ps > level)
    ends = []
    for inside, step in ((accepted[0], -1), (accepted[-1], 1)):
        outside = inside + step
        if not 0 <= outside < len(tried):
            ends.append(float(np.inf * step))
            continue
        near, far = np.log(ps[[inside, outside]]) - np.log(level)
        ends.append(float(tried[inside] + (tried[outside] - tried[inside]) * near / (near - far)))
    return ends[0], ends[1]


@dataclass(frozen=True)
class Specification:
    """Which question is asked of a grid: what is explained, and from which cells and raters.

    ``left_out`` is of a declaration and its key, and asks nothing: the regression that left families out is gone.
    """

    outcome: str = "points"  # or percent, ranks, winsorised
    left_out: str = "target"  # or intermediate, both
    cells: str = "all"  # or not collapsed, not contaminated
    without_rater: str = ""
    weights: str = "inverse variance"  # or equal

    @property
    def key(self) -> str:
        """Names the specification, so that a study can declare its primary one beforehand."""
        return key_of(asdict(self))


PRIMARY = Specification()
DRAWS = 999


def specifications(results: Results, primary: Specification = PRIMARY) -> Iterable[Specification]:
    """The primary specification, and each that differs from it in one respect."""
    raters = sorted(results.ratings.rater.unique()) if results.ratings.rater.nunique() > 1 else []
    choices = {
        "outcome": ["points", "percent", "ranks", "winsorised"],
        "weights": ["inverse variance", "equal"],
        "cells": ["all", "not collapsed", "not contaminated"],
        "without_rater": ["", *raters],
    }
    changed = (replace(primary, **{name: option}) for name, options in choices.items() for option in options)
    return dict.fromkeys([primary, *changed])


@dataclass(frozen=True)
class Primary:
    """One specification of the guarded analysis, and the margin in points for less data.

    ``draws``, arrangements of tasks, is of a declaration and its key, and decides nothing, as ``left_out``;
    ``questions`` are those of ``analysis.importance.questions``.
    ``declared`` is when a run of the study first had it, empty if the study file declares none; of ``trained`` finished
    cells, ``trained_before`` were trained earlier than that, and the earliest is the ``first``: when, and by what code.
    """

    specification: Specification = PRIMARY
    draws: int = DRAWS
    margin: float = MARGIN
    questions: tuple[str, ...] = ()
    declared: str = ""
    trained_before: int = 0
    trained: int = 0
    first: str = ""

    @classmethod
    def of(cls, manifest: Manifest, store: Store) -> Primary:
        """What the study of a manifest declares, or else the analysis that is asked of every study."""
        analysis = manifest["study"].get("analysis")
        if analysis is None:
            return cls()
        specification = Specification(**{field.name: analysis[field.name] for field in fields(Specification)})
        since = str(manifest["declared"])
        records = [store.get(cell["key"]) for cell in manifest["cells"] if cell["key"] in store]
        made = sorted((record.provenance["created"], record.provenance.get("code", "")) for record in records)
        return cls(
            specification,
            int(analysis["draws"]),
            float(analysis["margin"]),
            tuple(analysis.get("questions", ())),
            since,
            trained_before=sum(created < since for created, _ in made),
            trained=len(made),
            first=f"{made[0][0]} by {made[0][1] or 'unknown code'}" if made else "",
        )

    @property
    def key(self) -> str:
        """The sha256 of what is declared; ``study show`` prints the same for the study file."""
        further = {"questions": list(self.questions)} if self.questions else {}
        return key_of({**asdict(self.specification), "draws": self.draws, "margin": float(self.margin), **further})

    def line(self) -> str:
        """Whether this was declared, before how many results, its key, and when and by what code the first was made."""
        options = {name: value for name, value in asdict(self.specification).items() if value and name != "left_out"}
        choices = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in options.items())
        text = f"{choices}, margin {self.margin:g} points"
        text += f"; questions {', '.join(self.questions)}" if self.questions else ""
        if not self.declared:
            return f"Not preregistered: no study file declares it. Default primary analysis ({text}); hash {self.key}."
        late = (
            f"; {self.trained_before} of {self.trained} cells were trained before that" if self.trained_before else ""
        )
        first = f" The first of {self.trained} cells was trained {self.first}." if self.first and not late else ""
        return f"Primary analysis declared {self.declared}{late} ({text}); hash {self.key}.{first}"


UNDECLARED = Primary()


WINSORISED_SHARE = 0.05  # of the centred gains at either end
LARGEST_R = 0.9999  # beyond it Fisher's z says nothing


@dataclass(frozen=True)
class Grid:
    """Gains [tasks, tasks] with their weights, and what is known of the tasks [tasks] and pairs [tasks, tasks].

    ``family`` and ``data_set`` [tasks] count from 0; ``notes`` say what was left out and why,
    ``left_out`` names features.
    """

    tasks: tuple[str, ...]
    family: Array
    families: tuple[str, ...]
    mask: Array
    outcome: Array
    weights: Array
    facts: Mapping[str, Array]
    kinds: Mapping[str, str]
    left_out: Mapping[str, str]
    notes: tuple[str, ...]
    heterogeneity: float
    data_set: Array

    @property
    def constructs(self) -> list[str]:
        """The features that people rated."""
        return [name for name, kind in self.kinds.items() if kind == CONSTRUCT]

    @property
    def others(self) -> list[str]:
        """All other features."""
        return [name for name, kind in self.kinds.items() if kind != CONSTRUCT]


def grid_of(results: Results, specification: Specification, similarities: pd.DataFrame | None = None) -> Grid:
    """The arrays of one specification; what cannot be used is masked or left out, and noted."""
    gains, notes = chosen_cells(results.gains, specification.cells)
    values, errors = _outcomes(gains, specification.outcome)
    facts, kinds, left_out = _facts(results, similarities, specification.without_rater)
    rated = [facts[name] for name, kind in kinds.items() if kind == CONSTRUCT]
    tasks = results.tasks.task.tolist()
    kept = [k for k in range(len(tasks)) if np.isfinite([fact[k] for fact in rated]).all()]
    position = {tasks[k]: row for row, k in enumerate(kept)}
    usable = (np.isfinite(values) & gains.intermediate.isin(position) & gains.target.isin(position)).to_numpy()
    pairs = tuple(gains[role][usable].map(position).to_numpy("int64") for role in ("intermediate", "target"))
    mask, outcome, error = (np.zeros((len(kept), len(kept)), dtype=kind) for kind in (bool, float, float))
    mask[pairs], outcome[pairs], error[pairs] = True, values[usable], errors[usable]
    if specification.outcome == "winsorised" and mask.any():
        # The outcome with the 5 % largest deviations from its target's mean pulled in at either end.
        means = np.where(mask, outcome, 0.0).sum(0) / np.maximum(mask.sum(0), 1)
        centred = outcome - means
        low, high = np.quantile(centred[mask], [WINSORISED_SHARE, 1 - WINSORISED_SHARE])
        pulled: Array = np.where(mask, np.clip(centred, low, high), 0.0)
        outcome = pulled
    weights, heterogeneity = _weights(outcome, error, mask, specification.weights)
    families, family = np.unique(results.tasks.family.iloc[kept].fillna("").astype(str), return_inverse=True)
    unrated = [task for task in tasks if task not in position]
    notes += _left_out_notes(results, specification, np.isfinite(values), unrated)
    return Grid(
        tuple(position),
        family,
        tuple(families),
        mask,
        outcome,
        weights,
        {name: fact[np.ix_(kept, kept)] if fact.ndim == 2 else fact[kept] for name, fact in facts.items()},
        kinds,
        left_out,
        tuple(notes),
        heterogeneity,
        np.unique(results.tasks.dataset.iloc[kept].fillna("").astype(str), return_inverse=True)[1],
    )


def _left_out_notes(
    results: Results, specification: Specification, is_defined: Array, unrated: list[str]
) -> Iterator[str]:
    """Notes on pairs and tasks that take no part, and on a rater to be left out who rated nothing."""
    rater = specification.without_rater
    if rater and rater not in set(results.ratings.rater):
        yield f"no rating is by {rater}, so that nobody's ratings are left out"
    if undefined := int((~is_defined).sum()):
        yield f"{counted(undefined, 'pair')} without a defined outcome left out"
    if unrated:
        yield f"tasks without ratings are left out: {', '.join(unrated)}"


def chosen_cells(gains: pd.DataFrame, which: str) -> tuple[pd.DataFrame, list[str]]:
    """The rows to use, with a note on those that are not."""
    if which == "all":
        return gains, []
    flag = gains[which.removeprefix("not ")]
    dropped = flag.fillna(False).astype(bool)
    notes = [f"{counted(int(dropped.sum()), 'pair')} {which.removeprefix('not ')}, left out"]
    notes += [f"of {counted(int(flag.isna().sum()), 'pair')} it is not known; they stay"] * bool(flag.isna().any())
    return gains[~dropped], notes


def _outcomes(gains: pd.DataFrame, outcome: str) -> tuple[Array, Array]:
    """What is explained, per pair, and its standard error (NaN for ranks, which have none)."""
    score, baseline, error = (gains[column].to_numpy("float64") for column in ("score", "baseline", "standard_error"))
    if outcome == "percent":
        return gains.percent.to_numpy("float64"), 100 * error / baseline
    points, errors = 100 * (score - baseline), 100 * error
    is_r = (gains.metric == "pearson_r").to_numpy()
    inside = (np.abs(score) < LARGEST_R) & (np.abs(baseline) < LARGEST_R)
    with np.errstate(invalid="ignore", divide="ignore"):
        z = np.where(inside, 100 * (np.arctanh(score) - np.arctanh(baseline)), np.nan)
        points = np.where(is_r, z, points)
        errors = np.where(is_r, errors / (1 - ((score + baseline) / 2) ** 2), errors)
    if outcome == "ranks":
        ranks = pd.Series(points, index=gains.index).groupby(gains.target).rank(pct=True)
        return 100 * ranks.to_numpy(), np.full(len(gains), np.nan)
    return points, errors


def _facts(
    results: Results, similarities: pd.DataFrame | None, without_rater: str
) -> tuple[dict[str, Array], dict[str, str], dict[str, str]]:
    """Per feature its facts and kind; and why a feature is left out."""
    table = task_facts(results, without_rater=without_rater or None)
    facts: dict[str, Array] = {}
    kinds, left_out = {}, {}
    for name, feature in features_of(results).items():
        if feature.kind == SIMILARITY:
            fact = _matrix(similarities, name, list(table.index))
        elif feature.kind == CATEGORY:
            words = table[feature.of].fillna("").astype(str)
            fact = np.unique(words, return_inverse=True)[1] if (words != "").all() else None
        else:
            numbers = table[feature.of].astype("Float64").to_numpy("float64", na_value=np.nan)
            fact = log_ratios(numbers, np.ones(1)) if feature.kind == SIZE else numbers
        if fact is None or (feature.kind != CONSTRUCT and not np.isfinite(fact).all()):
            left_out[name] = "not measured for every task"
        elif np.nanmax(fact) == np.nanmin(fact):
            left_out[name] = "the same for all tasks"
        else:
            facts[name], kinds[name] = fact, feature.kind
    return facts, kinds, left_out


def _matrix(similarities: pd.DataFrame | None, name: str, tasks: list[str]) -> Array | None:
    """A similarity [tasks, tasks] with 0 in the diagonal, or None where a pair has none."""
    if similarities is None or name not in similarities:
        return None
    wide = similarities.pivot(index="intermediate", columns="target", values=name).reindex(index=tasks, columns=tasks)
    similarity: Array = wide.to_numpy("float64").copy()
    np.fill_diagonal(similarity, 0.0)
    return similarity


def _weights(outcome: Array, error: Array, mask: Array, how: str) -> tuple[Array, float]:
    """Weights [tasks, tasks], and the variance between pairs beyond their standard errors that they allow for.

    The variance is that of DerSimonian and Laird, within targets: without it the few targets with large test sets would
    decide alone. Where errors are not known, all pairs weigh the same.
    """
    errors = error[mask]
    if how == "equal" or not len(errors) or not np.isfinite(errors).all() or (errors <= 0).any():
        return mask * 1.0, float("nan")
    # 1. Fixed-effect weights 1 / error^2, and Cochran's Q: the weighted squares of gains about the means of targets.
    precision = np.zeros(mask.shape)
    precision[mask] = 1 / errors**2
    totals = precision.sum(0)
    means = (precision * outcome).sum(0) / np.where(totals > 0, totals, 1)
    excess = (precision * (outcome - means) ** 2).sum() - (mask.sum() - (totals > 0).sum())
    # 2. Without a variance between pairs Q would be its degrees of freedom; its excess, over what one unit of variance
    #    adds to Q, is the variance between pairs (DerSimonian and Laird 1986), from 0.
    scale = (totals - (precision**2).sum(0) / np.where(totals > 0, totals, 1)).sum()
    between = max(0.0, float(excess / scale)) if scale > 0 else 0.0
    weights = np.zeros(mask.shape)
    weights[mask] = 1 / (errors**2 + between)
    return weights, between
