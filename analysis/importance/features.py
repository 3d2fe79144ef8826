"""What is known of a pair before its transfer is run: sizes, kinds, similarities and ratings, one row per pair."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd

from analysis.results.results import Results
from analysis.tables import Declared
from tasks.errors import BadInput

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


def _size(title: str, of: str, what: str) -> Feature:
    return _feature(SIZE, title, of, of, "float64", f"log2 of {what} of the intermediate over those of the target")


def _category(title: str, of: str, what: str) -> Feature:
    return _feature(CATEGORY, title, of, of, "str", f"{what} of the intermediate > that of the target")


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
    known = pd.DataFrame(columns=PAIR) if similarities is None else similarities
    if known.duplicated(PAIR).any():
        twice = known[known.duplicated(PAIR)].iloc[0]
        raise BadInput(f"similarities: {twice.intermediate} > {twice.target} is given twice; give every pair one row")
    columns: dict[str, pd.Series] = {}
    for name, feature in features_of(results).items():
        if feature.kind == SIMILARITY:
            columns[name] = _similarity_column(pairs, known, name)
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


def _similarity_column(pairs: pd.DataFrame, known: pd.DataFrame, name: str) -> pd.Series:
    if name not in known:
        return pd.Series(np.nan, index=pairs.index)
    return pairs.merge(known[[*PAIR, name]], on=PAIR, how="left")[name].astype("float64")
