"""Whether systems are right as often as their probabilities say: calibration error, Brier score, reliability.

Of every test row what was decided has a probability, and is right or wrong; of several labels each of a row is an
answer of its own. Answers are parted into ten bins of equal mass by their probability, equal ones together. Calibration
error is the mean over answers of how far a bin's share of right answers lies from its mean probability (Naeini et al.
2015; bins of equal mass: Nixon et al. 2019).

It is never 0 in a finite sample: a system whose probabilities are exactly right has one, too. So beside it stands the
value under perfect calibration: right and wrong drawn again and again by the probabilities themselves, answer by
answer, over the same bins. The Brier score (Brier 1950) is the squared distance between probabilities and truth, summed
over classes: 0 to 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray
from scipy.special import expit, softmax

from adapters_store.record import Record
from adapters_store.store import Store
from analysis.gains.significance import LEVEL, FloatArray, Groups, evidence, group_weights
from analysis.tables import Declared
from tasks.metrics import labels_and_logits

BINS = 10
NULL_DRAWS = 1_000
DIGITS = 7  # of a probability, as float32 has them: equal votes for different classes are equal probabilities
AT_A_TIME = 2**22  # numbers drawn at a time

CALIBRATION = {
    "target": Declared("str", "task that was trained and tested"),
    "setting": Declared("str", "share of the target's training data"),
    "system": Declared("str", "contestant with probabilities, as ``system`` of the leaderboard"),
    "error": Declared("float64", "expected calibration error over ten bins of equal mass, mean over seeds"),
    "low": Declared("float64", "lower end of its 95 % interval"),
    "high": Declared("float64", "its upper end"),
    "if_calibrated": Declared("float64", "mean of the error where the same probabilities are exactly right"),
    "if_calibrated_high": Declared("float64", "what 95 % of these errors do not pass"),
    "p": Declared("float64", "share of these errors that are as large: small where calibration is off"),
    "overconfidence": Declared("float64", "mean probability of what was decided - share that is right"),
    "brier": Declared("float64", "Brier score, summed over classes, mean over answers and seeds"),
    "brier_low": Declared("float64", "lower end of its 95 % interval"),
    "brier_high": Declared("float64", "its upper end"),
    "n_seeds": Declared("int64", "training runs behind the row"),
    "n_answers": Declared("int64", "test rows; of several labels, rows times labels"),
    "n_groups": Declared("int64", "groups that the rows fall into"),
}
RELIABILITY = {
    "target": Declared("str", "task that was trained and tested"),
    "setting": Declared("str", "share of the target's training data"),
    "system": Declared("str", "contestant with probabilities, as ``system`` of the leaderboard"),
    "bin": Declared("int64", "from the least probable, from 1"),
    "probability": Declared("float64", "mean probability of what was decided, over the bin's answers of all seeds"),
    "right": Declared("float64", "share of these that is right"),
    "low": Declared("float64", "lower end of its 95 % interval"),
    "high": Declared("float64", "its upper end"),
    "n": Declared("int64", "answers of the bin, of all seeds"),
}


@dataclass(frozen=True)
class Answered:
    """Answers of a training run, all ``[n]``: the probability of what was decided, whether it is right, and Brier's."""

    probability: FloatArray
    is_right: NDArray[np.bool_]
    brier: FloatArray
    groups: NDArray[Any]


def has_probabilities(record: Record) -> bool:
    """Whether a record's logits stand for probabilities: numbers have none, nor has a model that was asked once."""
    asked = record.results.get("answers")
    return record.results["metric"] != "pearson_r" and (asked is None or "agreement" in asked)


def answered_of(store: Store, record: Record) -> Answered:
    """The answers of a record's test rows."""
    table = pq.ParquetFile(store.open(record.key, "test.parquet")).read(use_threads=False)
    columns = {name: table[name].to_numpy() for name in table.column_names}
    labels, logits = labels_and_logits(columns)
    of = of_several if record.results["metric"] == "multilabel_f1" else of_one
    return of(logits.astype(float), labels, columns["group"])


def of_one(logits: FloatArray, labels: NDArray[Any], groups: NDArray[Any]) -> Answered:
    """Of one class a row: logits ``[n, classes]`` and labels ``[n]``."""
    shares, truth = softmax(logits, axis=1), labels.astype(int)[:, None] == np.arange(logits.shape[1])
    decided = logits.argmax(axis=1)
    rows = np.arange(len(logits))
    return Answered(
        shares[rows, decided].round(DIGITS), truth[rows, decided], ((shares - truth) ** 2).sum(axis=1), groups
    )


def of_several(logits: FloatArray, labels: NDArray[Any], groups: NDArray[Any]) -> Answered:
    """Of several labels a row: logits and labels ``[n, labels]``; each label, whether decided or not, is an answer."""
    held, decided, truth = expit(logits).ravel(), (logits > 0).ravel(), labels.ravel().astype(bool)
    brier = 2 * (held - truth) ** 2  # of the two classes, that it holds and that it does not
    return Answered(
        np.where(decided, held, 1 - held).round(DIGITS), decided == truth, brier, np.repeat(groups, logits.shape[1])
    )


class Binned(NamedTuple):
    """The bin of every answer ``[n]``, from 0, and how many bins there are."""

    bins: NDArray[np.int64]
    n_bins: int


def equal_mass(probability: FloatArray, bins: int = BINS) -> Binned:
    """Bins whose edges are quantiles; equal probabilities share a bin, and empty bins are left out."""
    edges = np.quantile(probability, np.arange(1, bins) / bins)
    _, index = np.unique(np.searchsorted(edges, probability), return_inverse=True)
    return Binned(index.reshape(-1), int(index.max()) + 1)


def calibration_error(own: Answered, bins: int = BINS) -> float:
    """The expected calibration error, in bins of equal mass."""
    binned = equal_mass(own.probability, bins)
    apart = np.bincount(binned.bins, own.is_right - own.probability, binned.n_bins)
    return float(np.abs(apart).sum() / len(own.probability))


def null_errors(seeds: Sequence[Answered], *, draws: int = NULL_DRAWS, seed: int = 0) -> FloatArray:
    """Errors ``[draws]``, means over training runs, where each answer is right as often as its probability says.

    Training runs that answer the same rows see the same luck: an answer is right where its probability exceeds a number
    between 0 and 1 that is drawn for its row.
    """
    rng, count = np.random.default_rng(seed), len(seeds[0].probability)
    binned = [equal_mass(own.probability) for own in seeds]
    order = [np.argsort(part.bins, kind="stable") for part in binned]
    first = [np.searchsorted(part.bins[own], np.arange(part.n_bins)) for part, own in zip(binned, order, strict=True)]
    errors = np.zeros(draws)
    step = max(1, AT_A_TIME // count)
    for start in range(0, draws, step):
        luck = rng.random((min(step, draws - start), count), dtype=np.float32)
        for own, places, begins in zip(seeds, order, first, strict=True):
            sorted_ = own.probability[places]
            apart = np.add.reduceat((luck[:, places] < sorted_) - sorted_, begins, axis=1)
            errors[start : start + len(luck)] += np.abs(apart).sum(axis=1) / count / len(seeds)
    return errors


def calibration_row(seeds: Sequence[Answered], *, draws: int, seed: int) -> dict[str, Any]:
    """The numbers of CALIBRATION of a contestant, whose answers of every training run are of the same rows."""
    groups = Groups.of(seeds[0].groups)
    errors, null = np.array([calibration_error(own) for own in seeds]), null_errors(seeds, seed=seed)
    drawn = np.stack([_error_draws(own, groups, draws, seed) for own in seeds], axis=1)
    # Resampling adds noise of its own to an error, which is never below 0: draws are moved to lie around the estimate.
    error = evidence(errors, drawn - drawn.mean(axis=0) + errors, groups, np.random.default_rng(seed))
    briers = np.array([own.brier.mean() for own in seeds])
    brier_draws = np.stack([_mean_draws(own.brier, groups, draws, seed) for own in seeds], axis=1)
    brier = evidence(briers, brier_draws, groups, np.random.default_rng(seed))
    return {
        **{"error": float(errors.mean()), "low": max(error.low, 0.0), "high": min(error.high, 1.0)},
        "if_calibrated": float(null.mean()),
        "if_calibrated_high": float(np.quantile(null, 1 - LEVEL)),
        "p": float((np.count_nonzero(null >= errors.mean() - 1e-12) + 1) / (len(null) + 1)),
        "overconfidence": float(np.mean([own.probability.mean() - own.is_right.mean() for own in seeds])),
        **{"brier": float(briers.mean()), "brier_low": max(brier.low, 0.0), "brier_high": min(brier.high, 2.0)},
        **{"n_seeds": len(seeds), "n_answers": len(seeds[0].probability), "n_groups": groups.count},
    }


def _error_draws(own: Answered, groups: Groups, draws: int, seed: int) -> FloatArray:
    """Errors ``[draws]`` on resampled groups, in the bins of all answers."""
    binned = equal_mass(own.probability)
    code, size = groups.index * binned.n_bins + binned.bins, groups.count * binned.n_bins
    apart = np.bincount(code, own.is_right - own.probability, size).reshape(groups.count, -1)
    sizes = np.bincount(groups.index, minlength=groups.count).astype(float)
    blocks = group_weights(groups, draws, np.random.default_rng(seed))
    return np.concatenate([np.abs(weights @ apart).sum(axis=1) / (weights @ sizes) for weights in blocks])


def _mean_draws(values: FloatArray, groups: Groups, draws: int, seed: int) -> FloatArray:
    """Means ``[draws]`` of values ``[n]`` on resampled groups."""
    sums = np.bincount(groups.index, values, groups.count)
    sizes = np.bincount(groups.index, minlength=groups.count).astype(float)
    blocks = group_weights(groups, draws, np.random.default_rng(seed))
    return np.concatenate([(weights @ sums) / (weights @ sizes) for weights in blocks])


def reliability_rows(seeds: Sequence[Answered], *, draws: int, seed: int) -> list[dict[str, Any]]:
    """The rows of RELIABILITY of a contestant: the bins of the answers of all training runs together."""
    probability = np.concatenate([own.probability for own in seeds])
    is_right = np.concatenate([own.is_right for own in seeds])
    groups, binned = Groups.of(np.concatenate([own.groups for own in seeds])), equal_mass(probability)
    drawn = _share_draws(is_right, binned, groups, draws, seed)
    rows = []
    for number in range(binned.n_bins):
        own = np.flatnonzero(binned.bins == number)
        share, inside = float(is_right[own].mean()), Groups.of(groups.index[own])
        apart = evidence([share], drawn[:, [number]], inside, np.random.default_rng(seed))
        low, high = np.clip((apart.low, apart.high), 0.0, 1.0)
        shown = {"bin": number + 1, "probability": float(probability[own].mean()), "right": share}
        rows.append({**shown, "low": low, "high": high, "n": len(own)})
    return rows


def _share_draws(is_right: NDArray[np.bool_], binned: Binned, groups: Groups, draws: int, seed: int) -> FloatArray:
    """Shares ``[draws, bins]`` of right answers on resampled groups; NaN where a draw has none of a bin."""
    code, size = groups.index * binned.n_bins + binned.bins, groups.count * binned.n_bins
    right, every = (np.bincount(code, values, size).reshape(groups.count, -1) for values in (is_right, None))
    blocks = group_weights(groups, draws, np.random.default_rng(seed))
    sums = [(weights @ right, weights @ every.astype(float)) for weights in blocks]
    hits, counts = (np.concatenate(part) for part in zip(*sums, strict=True))
    return np.where(counts > 0, hits / np.maximum(counts, 1), np.nan)
