"""How good answers are beside their score: against annotators, by their probabilities, and by the words they rest on.

*Annotators.* Where several have marked a row, each is left out in turn and held against the others: against their mean
where the label is a number, else against their majority; a row whose others tie counts for each of the tied classes in
equal parts, as a class drawn among these would on average. Scores are means over annotators, each counted by its rows.
A leaderboard's score is held against the label that all annotators make together, which is steadier than what the
others make without one of them. So each system stands here by its score against these same others: a system that does
better than one annotator agrees with people as well as they do. Who the annotators are is known by column alone; where
a column holds many people's answers, it stands for one drawn among them.

*Probabilities.* Of every test row what was decided has a probability, and is right or wrong; of several labels each of
a row is an answer of its own. Answers are parted into ten bins of equal mass by their probability, equal ones together.
Calibration error is the mean over answers of how far a bin's share of right answers lies from its mean probability
(Naeini et al. 2015; bins of equal mass: Nixon et al. 2019). It is never 0 in a finite sample, so beside it stands the
value under perfect calibration: right and wrong drawn again and again by the probabilities themselves, answer by
answer, over the same bins. The Brier score (Brier 1950) is the squared distance between probabilities and truth, summed
over classes: 0 to 2.

*Rationales.* A record of a system that marks rationales holds, for every test row, which tokens of the study's backbone
people and the system mark (``rationales.parquet``). No score of them means anything without its form, one of those of
``tasks.rationales``, and without two constants, every word marked and none: where few texts have a rationale, they are
hard to beat.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray
from scipy.special import expit, softmax

from adapters_store.measures import ANNOTATORS, annotators_inputs
from adapters_store.record import Record
from adapters_store.store import Store
from analysis.gains.baselines import ratio_draws
from analysis.gains.cells import Manifest, Predictions
from analysis.gains.significance import LEVEL, FloatArray, Groups, evidence, group_weights
from analysis.tables import Declared, interval_columns
from tasks.metrics import labels_and_logits
from tasks.rationales import FORMS, Marks, iou_f1, token_f1

PERSON = "one annotator"
LEAST = 1e-9  # of a class's share of rows; what is less is what sums of fractions leave
VARIES = 1e-10  # of a variance over standardised values, for a correlation to be defined

PEOPLE = {
    "target": Declared("str", "task whose test rows several annotators have marked"),
    "setting": Declared("str", "share of the target's training data"),
    "system": Declared("str", "one annotator: the ceiling; or a contestant, as ``system`` of the leaderboard"),
    "metric": Declared("str", "metric of the target"),
    "score": Declared("float64", "against the other annotators, mean over annotators, then over seeds"),
    **interval_columns(),
    "difference": Declared("float64", "points: 100 (score - that of one annotator); undefined of one annotator"),
    **interval_columns("difference_{}", ", paired over groups"),
    "p": Declared("float64", "two-sided, that the difference is 0; not corrected"),
    "n_seeds": Declared("int64", "training runs behind the score; of one annotator 0"),
    "n_rows": Declared("int64", "test rows that two annotators or more have marked"),
    "n_groups": Declared("int64", "groups that these fall into"),
    "n_annotators": Declared("int64", "columns of annotators"),
}


class Others(NamedTuple):
    """What all annotators but one say: at ``rows [m]`` the mean ``[m]``, or shares of classes ``[m, classes]``."""

    rows: NDArray[np.int64]
    reference: FloatArray


@dataclass(frozen=True)
class Annotated:
    """Rows that two annotators or more have marked, by their ``places`` among all, and ``marks [n, annotators]``.

    Gaps are NaN. ``classes`` is how many there are, 0 for numbers.
    """

    places: NDArray[np.int64]
    marks: FloatArray
    classes: int

    @classmethod
    def of(cls, marks: FloatArray, classes: int) -> Annotated:
        """Of the marks of all rows."""
        places = np.flatnonzero(np.isfinite(marks).sum(axis=1) > 1)
        return cls(places, marks[places], classes)

    def without(self, annotator: int) -> Others:
        """What the others say, on the rows that the annotator and one of them at least have marked."""
        rest = np.delete(self.marks, annotator, axis=1)
        rows = np.flatnonzero(np.isfinite(self.marks[:, annotator]) & np.isfinite(rest).any(axis=1))
        if not self.classes:
            return Others(rows, np.nanmean(rest[rows], axis=1) if len(rows) else np.empty(0))
        votes = np.stack([(rest[rows] == label).sum(axis=1) for label in range(self.classes)], axis=1)
        is_most = votes == votes.max(axis=1, keepdims=True)
        return Others(rows, is_most / is_most.sum(axis=1, keepdims=True))


def stored_marks(store: Store, manifest: Manifest, target: str, ids: Iterable[Any]) -> FloatArray | None:
    """The marks ``[n, annotators]`` of test rows, NaN for gaps; None where the store has none of this task."""
    facts = manifest["tasks"][target]
    marks_hash = facts.get("marks_hash")
    if not marks_hash:
        return None
    stored = store.find_measure(ANNOTATORS, annotators_inputs(target, facts["splits_hash"], marks_hash))
    if stored is None:
        return None
    by_id = dict(zip(stored.result["ids"], stored.result["marks"], strict=True))
    none = [None] * max(map(len, stored.result["marks"]), default=0)
    return np.array([[np.nan if mark is None else mark for mark in by_id.get(id, none)] for id in ids], dtype=float)


def people_rows(
    annotated: Annotated,
    metric: str,
    group_names: NDArray[Any],
    contestants: Sequence[tuple[str, Sequence[Predictions]]],
    *,
    draws: int,
    seed: int,
) -> list[dict[str, Any]]:
    """Rows of PEOPLE but target and setting: one annotator, then contestants (name, predictions by seed).

    ``group_names`` are those of all test rows. Nothing where fewer than two annotators share a row.
    """
    if not len(annotated.places):
        return []
    groups = Groups.of(group_names[annotated.places])
    others = [annotated.without(annotator) for annotator in range(annotated.marks.shape[1])]
    marks = [annotated.marks[part.rows, annotator] for annotator, part in enumerate(others)]
    person = _scores(others, marks, groups, draws, seed)
    facts = {
        "metric": metric,
        "n_rows": len(annotated.places),
        "n_groups": groups.count,
        "n_annotators": annotated.marks.shape[1],
    }
    rows = [_row(PERSON, [person], None, groups, seed) | facts | {"n_seeds": 0}]
    for name, seeds in contestants:
        decided = [shown.decisions[annotated.places] for shown in seeds]
        scored = [_scores(others, [part[of.rows] for of in others], groups, draws, seed) for part in decided]
        rows.append(_row(name, scored, person, groups, seed) | facts | {"n_seeds": len(seeds)})
    return rows


class Scored(NamedTuple):
    """A score, and the same on resampled groups ``[draws]``."""

    score: float
    draws: FloatArray


def _row(name: str, seeds: Sequence[Scored], person: Scored | None, groups: Groups, seed: int) -> dict[str, Any]:
    """Score and interval of a contestant, and its difference to a person."""
    scores, drawn = np.array([part.score for part in seeds]), np.stack([part.draws for part in seeds], axis=1)
    estimate = evidence(scores, drawn, groups, np.random.default_rng(seed))
    row: dict[str, Any] = {"system": name, "score": float(scores.mean()), "low": estimate.low, "high": estimate.high}
    if person is None:
        return row | {"difference": np.nan, "difference_low": np.nan, "difference_high": np.nan, "p": np.nan}
    apart = evidence(scores - person.score, drawn - person.draws[:, None], groups, np.random.default_rng(seed))
    difference = float(scores.mean()) - person.score
    ends = {"difference_low": 100 * apart.low, "difference_high": 100 * apart.high}
    return row | {"difference": 100 * difference, **ends, "p": apart.p}


# Scores from sums over groups: each has for every annotator either counts of classes, or moments of numbers.


def _scores(others: Sequence[Others], answers: Sequence[NDArray[Any]], groups: Groups, draws: int, seed: int) -> Scored:
    """The score of ``answers``, an array for every annotator who is left out, on the rows that the others have."""
    is_number = others[0].reference.ndim == 1
    parts = _moments if is_number else _counts
    each = [parts(part.reference, answer) for part, answer in zip(others, answers, strict=True)]
    sums: FloatArray = np.zeros((groups.count, len(others), *each[0].shape[1:]))
    for annotator, (part, values) in enumerate(zip(others, each, strict=True)):
        np.add.at(sums[:, annotator], groups.index[part.rows], values)
    flat = sums.reshape(groups.count, -1)
    blocks = group_weights(groups, draws, np.random.default_rng(seed))  # the same groups for everyone
    drawn = [_mean((weights @ flat).reshape(len(weights), *sums.shape[1:]), is_number) for weights in blocks]
    return Scored(float(_mean(sums.sum(axis=0, keepdims=True), is_number)[0]), np.concatenate(drawn))


def _counts(reference: FloatArray, answers: NDArray[Any]) -> FloatArray:
    """Per row ``[m, 3, classes]``: the others' share of each class, that share where it is answered, the answer."""
    answered = answers.astype(int)[:, None] == np.arange(reference.shape[1])
    return np.stack([reference, reference * answered, answered], axis=1)


def _moments(reference: FloatArray, answers: NDArray[Any]) -> FloatArray:
    """Per row ``[m, 6]``: 1, x, y, xx, yy, xy, both standardised first."""
    x, y = _standardise(reference), _standardise(np.asarray(answers, dtype=float))
    return np.stack([np.ones_like(x), x, y, x * x, y * y, x * y], axis=1)


def _standardise(values: FloatArray) -> FloatArray:
    if not values.size or np.ptp(values) == 0:
        return np.zeros(values.shape)
    return np.asarray((values - values.mean()) / values.std())


def _mean(sums: FloatArray, is_number: bool) -> FloatArray:
    """Scores ``[draws]`` from sums ``[draws, annotators, ...]``: the mean over annotators, each counted by its rows.

    An annotator without a defined score in a draw is not counted there.
    """
    scores, rows = _correlations(sums) if is_number else _macro_f1(sums)
    weights = np.where(np.isfinite(scores), rows, 0.0)
    total = weights.sum(axis=1)
    means = (np.where(weights > 0, scores, 0.0) * weights).sum(axis=1)
    return np.where(total > 0, means / np.where(total > 0, total, 1.0), np.nan)


def _macro_f1(sums: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Macro-F1 over the classes that the others name, and how many rows, both ``[draws, annotators]``.

    F1 is 2 hits / (shares + answered) in shares of rows, which is the usual one where no row is shared out.
    """
    shares, hits, answered = sums[:, :, 0], sums[:, :, 1], sums[:, :, 2]
    is_named = shares > LEAST
    f1 = np.where(is_named, 2 * hits / np.where(is_named, shares + answered, 1.0), 0.0)
    count = is_named.sum(axis=2)
    return np.where(count > 0, f1.sum(axis=2) / np.maximum(count, 1), np.nan), answered.sum(axis=2)


def _correlations(sums: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Pearson r, NaN where a side does not vary, and how many rows, both ``[draws, annotators]``."""
    n, x, y, xx, yy, xy = np.moveaxis(sums, 2, 0)
    rows = np.maximum(n, 1)
    varies = [of - part * part / rows for part, of in ((x, xx), (y, yy))]
    is_fine = (varies[0] > VARIES * rows) & (varies[1] > VARIES * rows)
    product = np.sqrt(np.where(is_fine, varies[0] * varies[1], 1.0))
    return np.where(is_fine, np.clip((xy - x * y / rows) / product, -1, 1), np.nan), n


BINS = 10
NULL_DRAWS = 1_000
DIGITS = 7  # of a probability, as float32 has them: equal votes for different classes are equal probabilities
AT_A_TIME = 2**22  # numbers drawn at a time

_ANSWERS_BY = {
    "target": Declared("str", "task that was trained and tested"),
    "setting": Declared("str", "share of the target's training data"),
    "system": Declared("str", "contestant with probabilities, as ``system`` of the leaderboard"),
}
CALIBRATION = {
    **_ANSWERS_BY,
    "error": Declared("float64", "expected calibration error over ten bins of equal mass, mean over seeds"),
    **interval_columns(),
    "if_calibrated": Declared("float64", "mean of the error where the same probabilities are exactly right"),
    "if_calibrated_high": Declared("float64", "what 95 % of these errors do not pass"),
    "p": Declared("float64", "share of these errors that are as large: small where calibration is off"),
    "overconfidence": Declared("float64", "mean probability of what was decided - share that is right"),
    "brier": Declared("float64", "Brier score, summed over classes, mean over answers and seeds"),
    **interval_columns("brier_{}"),
    "n_seeds": Declared("int64", "training runs behind the row"),
    "n_answers": Declared("int64", "test rows; of several labels, rows times labels"),
    "n_groups": Declared("int64", "groups that the rows fall into"),
}
RELIABILITY = {
    **_ANSWERS_BY,
    "bin": Declared("int64", "from the least probable, from 1"),
    "probability": Declared("float64", "mean probability of what was decided, over the bin's answers of all seeds"),
    "right": Declared("float64", "share of these that is right"),
    **interval_columns(),
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
    votes = record.results.get("answers")
    return record.results["metric"] != "pearson_r" and (votes is None or "agreement" in votes)


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


def calibration_error(run: Answered, bins: int = BINS) -> float:
    """The expected calibration error, in bins of equal mass."""
    binned = equal_mass(run.probability, bins)
    apart = np.bincount(binned.bins, run.is_right - run.probability, binned.n_bins)
    return float(np.abs(apart).sum() / len(run.probability))


def null_errors(seeds: Sequence[Answered], *, draws: int = NULL_DRAWS, seed: int = 0) -> FloatArray:
    """Errors ``[draws]``, means over training runs, where each answer is right as often as its probability says.

    Training runs that answer the same rows see the same luck: an answer is right where its probability exceeds a number
    between 0 and 1 that is drawn for its row.
    """
    rng, count = np.random.default_rng(seed), len(seeds[0].probability)
    binned = [equal_mass(run.probability) for run in seeds]
    order = [np.argsort(part.bins, kind="stable") for part in binned]
    first = [np.searchsorted(part.bins[rows], np.arange(part.n_bins)) for part, rows in zip(binned, order, strict=True)]
    errors = np.zeros(draws)
    step = max(1, AT_A_TIME // count)
    for start in range(0, draws, step):
        luck = rng.random((min(step, draws - start), count), dtype=np.float32)
        for run, places, begins in zip(seeds, order, first, strict=True):
            sorted_ = run.probability[places]
            apart = np.add.reduceat((luck[:, places] < sorted_) - sorted_, begins, axis=1)
            errors[start : start + len(luck)] += np.abs(apart).sum(axis=1) / count / len(seeds)
    return errors


def calibration_row(seeds: Sequence[Answered], *, draws: int, seed: int) -> dict[str, Any]:
    """The numbers of CALIBRATION of a contestant, whose answers of every training run are of the same rows."""
    groups = Groups.of(seeds[0].groups)
    errors, null = np.array([calibration_error(run) for run in seeds]), null_errors(seeds, seed=seed)
    drawn = np.stack([_error_draws(run, groups, draws, seed) for run in seeds], axis=1)
    # Resampling adds noise of its own to an error, which is never below 0: draws are moved to lie around the estimate.
    error = evidence(errors, drawn - drawn.mean(axis=0) + errors, groups, np.random.default_rng(seed))
    ones, briers = np.ones((1, groups.index.size)), np.array([run.brier.mean() for run in seeds])
    each = [ratio_draws(run.brier[None], ones, groups, draws, np.random.default_rng(seed)) for run in seeds]
    brier = evidence(briers, np.hstack(each), groups, np.random.default_rng(seed))
    return {
        **{"error": float(errors.mean()), "low": max(error.low, 0.0), "high": min(error.high, 1.0)},
        "if_calibrated": float(null.mean()),
        "if_calibrated_high": float(np.quantile(null, 1 - LEVEL)),
        "p": float((np.count_nonzero(null >= errors.mean() - 1e-12) + 1) / (len(null) + 1)),
        "overconfidence": float(np.mean([run.probability.mean() - run.is_right.mean() for run in seeds])),
        **{"brier": float(briers.mean()), "brier_low": max(brier.low, 0.0), "brier_high": min(brier.high, 2.0)},
        **{"n_seeds": len(seeds), "n_answers": len(seeds[0].probability), "n_groups": groups.count},
    }


def _error_draws(run: Answered, groups: Groups, draws: int, seed: int) -> FloatArray:
    """Errors ``[draws]`` on resampled groups, in the bins of all answers."""
    binned = equal_mass(run.probability)
    code, size = groups.index * binned.n_bins + binned.bins, groups.count * binned.n_bins
    apart = np.bincount(code, run.is_right - run.probability, size).reshape(groups.count, -1)
    sizes = np.bincount(groups.index, minlength=groups.count).astype(float)
    blocks = group_weights(groups, draws, np.random.default_rng(seed))
    return np.concatenate([np.abs(weights @ apart).sum(axis=1) / (weights @ sizes) for weights in blocks])


def reliability_rows(seeds: Sequence[Answered], *, draws: int, seed: int) -> list[dict[str, Any]]:
    """The rows of RELIABILITY of a contestant: the bins of the answers of all training runs together."""
    probability = np.concatenate([run.probability for run in seeds])
    is_right = np.concatenate([run.is_right for run in seeds])
    groups, binned = Groups.of(np.concatenate([run.groups for run in seeds])), equal_mass(probability)
    # Shares ``[draws, bins]`` of right answers on resampled groups; NaN where a draw has none of a bin.
    of_bin = binned.bins == np.arange(binned.n_bins)[:, None]
    drawn = ratio_draws(of_bin * is_right, of_bin * 1.0, groups, draws, np.random.default_rng(seed))
    rows = []
    for number in range(binned.n_bins):
        members = np.flatnonzero(binned.bins == number)
        share, inside = float(is_right[members].mean()), Groups.of(groups.index[members])
        apart = evidence([share], drawn[:, [number]], inside, np.random.default_rng(seed))
        low, high = np.clip((apart.low, apart.high), 0.0, 1.0)
        shown = {"bin": number + 1, "probability": float(probability[members].mean()), "right": share}
        rows.append({**shown, "low": low, "high": high, "n": len(members)})
    return rows


FILE = "rationales.parquet"
CONSTANTS: Mapping[str, Callable[[Marks], Marks]] = {"every word marked": np.ones_like, "none marked": np.zeros_like}

RATIONALES = {
    "target": Declared("str", "task whose test rows are marked"),
    "setting": Declared("str", "share of the target's training data"),
    "system": Declared("str", "contestant, as ``system`` of the leaderboard, or one of the two constants"),
    "form": Declared("str", "epitome, micromodels or corrected, as tasks.rationales says them"),
    "token_f1": Declared("float64", "F1 of tokens, mean over texts, then over repeats and seeds"),
    "iou_f1": Declared("float64", "F1 of spans, of which half of the union is shared; means as of token_f1"),
    "n_seeds": Declared("int64", "training runs behind them; of constants 0"),
    "n_test": Declared("int64", "test rows, of all repeats"),
    "n_marked": Declared("int64", "those of them whose rationale people marked"),
}

Side = Sequence[Marks]  # of the texts of a repeat, in the order of the test rows


def rationale_rows(store: Store, contestants: Iterable[tuple[str, Sequence[Record]]]) -> list[dict[str, Any]]:
    """Rows of RATIONALES but target and setting, of contestants (name, a record per seed) that mark rationales.

    The constants come last; there is no row where nobody marks.
    """
    rows: list[dict[str, Any]] = []
    gold: list[Side] = []
    for name, records in contestants:
        if records and all(FILE in record.files for record in records):
            seeds = [_repeats(store, record) for record in records]
            gold = [true for true, _ in seeds[0]]
            rows += _score_rows(name, seeds, len(seeds))
    for name, constant in CONSTANTS.items() if gold else ():
        rows += _score_rows(name, [[(true, [constant(marks) for marks in true]) for true in gold]], 0)
    return rows


def _repeats(store: Store, record: Record) -> list[tuple[Side, Side]]:
    """Gold and predicted marks of every repeat or fold of a record, or of its one test set."""
    table = pq.ParquetFile(store.open(record.key, FILE)).read()
    texts = [table[name].to_pylist() for name in ("gold", "predicted")]
    sides = [[np.array([mark == "1" for mark in text], dtype=bool) for text in side] for side in texts]
    folds = table["fold"].to_numpy() if "fold" in table.column_names else np.ones(table.num_rows, dtype=int)
    places = [np.flatnonzero(folds == number) for number in np.unique(folds)]
    return [([sides[0][row] for row in rows], [sides[1][row] for row in rows]) for rows in places]


def _score_rows(name: str, seeds: Sequence[Sequence[tuple[Side, Side]]], n_seeds: int) -> list[dict[str, Any]]:
    """A row per form: means over repeats of every seed, then over seeds."""
    texts = [marks for gold, _ in seeds[0] for marks in gold]
    return [
        {
            "system": name,
            "form": form,
            "token_f1": _mean_or_nan([[token_f1(*sides, form) for sides in repeats] for repeats in seeds]),
            "iou_f1": _mean_or_nan([[iou_f1(*sides, form) for sides in repeats] for repeats in seeds]),
            "n_seeds": n_seeds,
            "n_test": len(texts),
            "n_marked": sum(bool(marks.any()) for marks in texts),
        }
        for form in FORMS
    ]


def _mean_or_nan(scores: Sequence[Sequence[float]]) -> float:
    return float(np.mean([np.mean(of_seed) for of_seed in scores]))
