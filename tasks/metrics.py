"""Every metric, in numpy alone, so that training, analysis and checks share one definition."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


def macro_f1(labels: ArrayLike, predictions: ArrayLike) -> float:
    """Mean F1 over the classes that occur in ``labels`` (shape ``[n]`` each); NaN when there is no row.

    A class that is only predicted lowers the others' precision but is not averaged, so that all cells of a
    target average over the same classes.
    """
    true, predicted = np.asarray(labels), np.asarray(predictions)
    classes, codes = np.unique(true, return_inverse=True)
    if classes.size == 0:
        return float("nan")
    places = np.clip(np.searchsorted(classes, predicted), 0, classes.size - 1)
    hits = np.bincount(codes[true == predicted], minlength=classes.size)
    counts = np.bincount(codes, minlength=classes.size)
    counts += np.bincount(places[classes[places] == predicted], minlength=classes.size)
    return float(np.mean(2 * hits / counts))


def multilabel_f1(labels: ArrayLike, predictions: ArrayLike) -> float:
    """Mean of the F1 of every class that occurs in ``labels`` (0 or 1, ``[n, classes]`` each); NaN if none."""
    true, predicted = np.asarray(labels), np.asarray(predictions)
    if true.ndim != 2 or not (occurs := true.sum(axis=0) > 0).any():
        return float("nan")
    hits, total = (true * predicted).sum(axis=0), true.sum(axis=0) + predicted.sum(axis=0)
    return float(np.mean(2 * hits[occurs] / total[occurs]))


def pearson_r(labels: ArrayLike, predictions: ArrayLike) -> float:
    """Pearson correlation of two vectors of shape ``[n]``; NaN when either is constant or n < 2."""
    true = np.asarray(labels, dtype=np.float64)
    predicted = np.asarray(predictions, dtype=np.float64)
    if true.size < 2 or np.ptp(true) == 0 or np.ptp(predicted) == 0:
        return float("nan")
    # The covariance over the product of the standard deviations; rounding may leave it a little beyond 1.
    x, y = true - true.mean(), predicted - predicted.mean()
    return float(np.clip((x @ y) / np.sqrt((x @ x) * (y @ y)), -1.0, 1.0))


def quadratic_kappa(labels: ArrayLike, predictions: ArrayLike) -> float:
    """Agreement of class indices ``[n]`` beyond chance, errors weighted by their square; NaN if chance leaves none."""
    true, predicted = np.asarray(labels, dtype=np.float64), np.asarray(predictions, dtype=np.float64)
    if true.size == 0:
        return float("nan")
    by_chance = true.var() + predicted.var() + (true.mean() - predicted.mean()) ** 2
    return float("nan") if by_chance == 0 else float(1 - np.mean((true - predicted) ** 2) / by_chance)


def spearman_r(labels: ArrayLike, predictions: ArrayLike) -> float:
    """Pearson correlation of the ranks (ties share their mean rank); NaN when either side is constant or n < 2."""
    return pearson_r(_ranks(labels), _ranks(predictions))


def _ranks(values: ArrayLike) -> NDArray[np.float64]:
    _, index, count = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
    ranks: NDArray[np.float64] = (np.cumsum(count) - (count - 1) / 2)[index.reshape(-1)]
    return ranks


MEASURES: Mapping[str, Callable[[ArrayLike, ArrayLike], float]] = {
    "macro_f1": macro_f1,
    "multilabel_f1": multilabel_f1,
    "pearson_r": pearson_r,
}
SECONDARY: Mapping[str, Mapping[str, Callable[[ArrayLike, ArrayLike], float]]] = {
    "ordinal": {"quadratic_kappa": quadratic_kappa, "spearman_r": spearman_r},
}


def labels_and_logits(columns: Mapping[str, NDArray[Any]]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Labels and logits of stored predictions, in columns ``label``, or ``label_0`` and on, and ``logit_0`` and on.

    Labels are ``[n]``, of several labels a row ``[n, labels]``; logits ``[n, outputs]``.
    """
    labels = columns["label"] if "label" in columns else _numbered(columns, "label")
    return labels, _numbered(columns, "logit")


def _numbered(columns: Mapping[str, NDArray[Any]], name: str) -> NDArray[Any]:
    """The columns ``name_0``, ``name_1``, ... side by side."""
    width = sum(column.startswith(f"{name}_") for column in columns)
    return np.stack([columns[f"{name}_{number}"] for number in range(width)], axis=1)


def decisions(metric: str, logits: ArrayLike) -> NDArray[np.float64] | NDArray[np.int64]:
    """Turn logits of shape ``[n, outputs]`` into predictions: a class index or the value itself ``[n]``.

    For multilabel_f1 a 0 or 1 per class ``[n, classes]``: 1 where the logit is above 0, that is p > 0.5.
    """
    values = np.asarray(logits, dtype=np.float64)
    if metric == "multilabel_f1":
        return (values > 0).astype(np.int64)
    return values[:, 0] if metric == "pearson_r" else values.argmax(axis=1)


def score(metric: str, labels: ArrayLike, logits: ArrayLike) -> float:
    """The task's primary metric from labels and logits ``[n, outputs]``; KeyError for an unknown metric."""
    return MEASURES[metric](labels, decisions(metric, logits))


def secondary(kind: str, metric: str, labels: ArrayLike, logits: ArrayLike) -> dict[str, float]:
    """The further metrics of a label kind, computed on the same decisions as the primary one; empty for most kinds."""
    decided = decisions(metric, logits)
    return {name: measure(labels, decided) for name, measure in SECONDARY.get(kind, {}).items()}


def commonest(metric: str, labels: ArrayLike) -> int | NDArray[np.int64] | None:
    """The commonest answer among training labels: a class, or for multilabel_f1 a 0 or 1 per class; None for r."""
    true = np.asarray(labels)
    if metric == "pearson_r":
        return None
    return (true.mean(axis=0) > 0.5).astype(np.int64) if metric == "multilabel_f1" else int(np.bincount(true).argmax())


def floor(metric: str, labels: ArrayLike, answer: ArrayLike | None) -> float:
    """What a model that has learned nothing scores: that of always giving ``answer`` (one, or one per row), 0 for r.

    For multilabel_f1 the commonest answer is never below that of no class at all, which is 0.
    """
    true = np.asarray(labels)
    if metric == "pearson_r" or answer is None:
        return 0.0
    return MEASURES[metric](true, np.broadcast_to(np.asarray(answer), true.shape))


def of_classes(labels: ArrayLike, predictions: ArrayLike) -> dict[int, tuple[float, float, float, int]]:
    """Precision, recall, F1 and number of rows of every class that occurs in ``labels``, by its index.

    Both are class indices ``[n]``, or a 0 or 1 per class ``[n, classes]``. Precision is 0 where a class is never
    predicted, so that means over these classes are the macro averages whose F1 is ``macro_f1``.
    """
    true, predicted = np.asarray(labels), np.asarray(predictions)
    scores = {}
    for index in range(true.shape[1]) if true.ndim == 2 else np.unique(true):
        held, given = (side[:, index] > 0 if true.ndim == 2 else side == index for side in (true, predicted))
        n, answers, hits = int(held.sum()), int(given.sum()), int((held & given).sum())
        if n:
            scores[int(index)] = (hits / answers if answers else 0.0, hits / n, 2 * hits / (n + answers), n)
    return scores


def accuracy(labels: ArrayLike, predictions: ArrayLike) -> float:
    """Share of rows whose answer is right; of several labels, all of them. NaN when there is no row."""
    right = np.asarray(labels) == np.asarray(predictions)
    right = right.all(axis=1) if right.ndim == 2 else right
    return float(right.mean()) if right.size else float("nan")
