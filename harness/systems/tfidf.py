"""Counting words: how often words and pairs of words occur, weighted by rarity, into a linear model.

Terms are weighted as scikit-learn's TfidfTransformer does (Salton and Buckley 1988; idf = ln((1 + n) / (1 + df)) + 1,
rows of length 1), then classes are told apart by logistic regression, and numbers predicted by ridge regression.

A vocabulary would be text of the data. Terms are therefore hashed into buckets, two terms in one bucket now and then,
and what is saved are the numbers of buckets and their weights. Whoever guesses a word can still ask whether its bucket
was filled, as with any model of words: weights trained on private texts stay as private as these.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from harness.study.systems import Fit, Fitted, Kind, Place, Predicted, Settings
from tasks.errors import BadInput
from tasks.fields import Range
from tasks.task import Example

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

PARTS = {"both": ("context", "response"), "response": ("response",), "context": ("context",)}
MOST_STEPS = 2000  # of the optimiser; no task here needs a tenth
SMOOTHING = 0.5  # rows added to the counts of a class that all rows or none have


@dataclass(frozen=True)
class TfidfSettings(Settings):
    """What is read and how strongly weights are held down.

    ``reads`` is ``both``, ``response`` (the row's own text) or ``context`` (the earlier turns); of both, a term in the
    one is another than in the other. ``words`` is the longest run of words that makes a term, ``strength`` is C of the
    logistic and 1 / alpha of the ridge regression. ``buckets`` is per part that is read.
    """

    reads: Literal["both", "response", "context"] = "both"
    words: Annotated[int, Range(1, 5)] = 2
    class_weights: Literal["balanced", "none"] = "balanced"
    strength: Annotated[float, Range(1e-9, 1e9)] = 1.0
    buckets: Annotated[int, Range(2, 2**30)] = 2**18


@dataclass(frozen=True)
class LinearModel(Fitted):
    """Buckets ``[terms]`` that training rows filled, their idf ``[terms]``, and a linear model of them.

    ``coefficients`` are ``[outputs, terms]``, ``intercepts`` ``[outputs]``.
    """

    config: TfidfSettings
    buckets: NDArray[np.int64]
    idf: NDArray[np.float32]
    coefficients: NDArray[np.float32]
    intercepts: NDArray[np.float32]

    def predict(self, rows: Sequence[Example]) -> Predicted:
        """The linear model's outputs."""
        terms = _weighted(_counts(rows, self.config)[:, self.buckets], self.idf)
        logits = terms @ self.coefficients.T.astype(np.float64) + self.intercepts
        return Predicted(np.asarray(logits, dtype=np.float32))

    def save(self, folder: Path) -> None:
        """Write the four arrays, and the settings that say which bucket a term falls into."""
        folder.mkdir(parents=True, exist_ok=True)
        arrays = {name: np.ascontiguousarray(getattr(self, name)) for name in ARRAYS}
        save_file(arrays, folder / "model.safetensors")
        (folder / "config.json").write_text(json.dumps(asdict(self.config)), encoding="utf-8")


ARRAYS = ("buckets", "idf", "coefficients", "intercepts")


class TfidfKind(Kind[TfidfSettings]):
    """Words of the training rows and a linear model of them."""

    config = TfidfSettings
    packages = ("numpy", "scipy", "scikit-learn")

    def fit(self, fit: Fit) -> LinearModel:
        """Terms of the training rows, and the linear model that they give; BadInput where they have no term."""
        config: TfidfSettings = fit.config
        counts = _counts(fit.train, config)
        documents = np.asarray((counts > 0).sum(axis=0)).ravel()
        buckets = np.flatnonzero(documents)
        if not buckets.size:
            raise BadInput(
                f"tfidf reads {config.reads!r}, and no training row has a word there; set reads to another part"
            )
        idf = (np.log((1 + len(fit.train)) / (1 + documents[buckets])) + 1).astype(np.float32)
        terms = _weighted(counts[:, buckets], idf)
        coefficients, intercepts = _linear(terms, np.array([row.label for row in fit.train]), fit)
        return LinearModel(config, buckets, idf, coefficients.astype(np.float32), intercepts.astype(np.float32))

    def load(self, folder: Path, place: Place) -> LinearModel:
        """What ``save`` has written."""
        config = self.configured(json.loads((folder / "config.json").read_text(encoding="utf-8")), str(folder))
        return LinearModel(config, **load_file(folder / "model.safetensors"))


def _counts(rows: Sequence[Example], config: TfidfSettings) -> csr_matrix:
    """How often each bucket is filled ``[rows, parts * buckets]``."""
    from scipy.sparse import hstack
    from sklearn.feature_extraction.text import HashingVectorizer

    hashing = HashingVectorizer(
        n_features=config.buckets, ngram_range=(1, config.words), alternate_sign=False, norm=None
    )
    texts = {"response": lambda row: row.text, "context": lambda row: "\n".join(turn.text for turn in row.context)}
    return hstack([hashing.transform(map(texts[part], rows)) for part in PARTS[config.reads]], format="csr")


def _weighted(counts: csr_matrix, idf: NDArray[np.float32]) -> csr_matrix:
    """Counts ``[rows, terms]`` times idf, each row of length 1; a row without a known term stays 0."""
    from sklearn.preprocessing import normalize

    return normalize(counts.multiply(idf.astype(np.float64)).tocsr())


def _linear(terms: csr_matrix, labels: NDArray[Any], fit: Fit) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Coefficients ``[outputs, terms]`` and intercepts ``[outputs]``."""
    config = fit.config
    if fit.label.kind == "continuous":
        from sklearn.linear_model import Ridge

        model = Ridge(alpha=1 / config.strength).fit(terms, labels)
        return model.coef_[None, :], np.array([model.intercept_])
    if fit.label.kind == "multilabel":
        parts = []
        for held in labels.T:
            if 0 < held.sum() < len(held):
                parts.append(_logistic(terms, held, config))
            else:  # zeros where all rows agree
                count = held.sum() + SMOOTHING
                odds = np.log([count / (len(held) + 2 * SMOOTHING - count)])
                parts.append((np.zeros((1, terms.shape[1])), odds))
        return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])
    coefficients, intercepts = _logistic(terms, labels, config)
    if len(intercepts) == 1:  # of two classes scikit-learn tells the second's margin alone
        return np.concatenate([-coefficients, coefficients]) / 2, np.concatenate([-intercepts, intercepts]) / 2
    return coefficients, intercepts


def _logistic(
    terms: csr_matrix, labels: NDArray[np.int64], config: TfidfSettings
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    from sklearn.linear_model import LogisticRegression

    weights = None if config.class_weights == "none" else config.class_weights
    model = LogisticRegression(C=config.strength, class_weight=weights, max_iter=MOST_STEPS).fit(terms, labels)
    return model.coef_, model.intercept_
