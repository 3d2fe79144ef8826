"""An explainable boosting machine: a sum of step functions, one per feature, as JSON and without its library.

Lou, Caruana and Gehrke 2012; Nori et al. 2019. The library ``interpret-core`` finds the steps; what it has found are
cuts of every feature and a score per step and class, which are all that a prediction needs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
LARGEST_SEED = 2**31  # that the library takes


@dataclass(frozen=True)
class Machine:
    """``cuts`` of every feature in rising order, ``scores`` of its steps ``[cuts + 1, classes]``, ``intercept``.

    Of two classes the library keeps a single column, the log odds of the second.
    """

    cuts: Sequence[Floats]
    scores: Sequence[Floats]
    intercept: Floats

    @classmethod
    def fitted(cls, features: Floats, levels: NDArray[np.int64], *, bags: int, seed: int) -> Machine:
        """The machine that the library learns from ``features [rows, features]``; every class needs a row."""
        from interpret.glassbox import ExplainableBoostingClassifier

        names = [f"feature {number}" for number in range(features.shape[1])]
        learned = ExplainableBoostingClassifier(
            feature_names=names,
            feature_types=["continuous"] * len(names),
            interactions=0,  # of more than two classes the library has none
            outer_bags=bags,
            random_state=seed % LARGEST_SEED,
            n_jobs=1,
        ).fit(features, levels)
        return cls.of_library(learned)

    @classmethod
    def of_library(cls, learned: Any) -> Machine:  # noqa: ANN401 - the library has no types
        """What a trained machine of the library holds; its first step is of missing values, its last of unknown."""
        cuts = [np.asarray(of_feature[0], dtype=np.float64) for of_feature in learned.bins_]
        scores = [np.asarray(term, dtype=np.float64)[1:-1] for term in learned.term_scores_]
        intercept = np.atleast_1d(np.asarray(learned.intercept_, dtype=np.float64))
        return cls(cuts, [own.reshape(len(own), -1) for own in scores], intercept)

    def logits(self, features: Floats) -> Floats:
        """A logit per class ``[rows, classes]``: the intercept and the scores of the steps that a row stands on."""
        total = np.tile(self.intercept, (len(features), 1))
        for cuts, scores, values in zip(self.cuts, self.scores, features.T, strict=True):
            total += scores[np.searchsorted(cuts, values, side="right")]
        return np.concatenate([-total, total], axis=1) / 2 if total.shape[1] == 1 else total

    def as_json(self) -> dict[str, Any]:
        """Numbers in lists, of which ``of_json`` makes an equal machine."""
        return {
            "cuts": [cuts.tolist() for cuts in self.cuts],
            "scores": [scores.tolist() for scores in self.scores],
            "intercept": self.intercept.tolist(),
        }

    @classmethod
    def of_json(cls, facts: Mapping[str, Any]) -> Machine:
        """The machine whose ``as_json`` this is."""
        cuts, scores = ([np.array(part, dtype=np.float64) for part in facts[name]] for name in ("cuts", "scores"))
        return cls(cuts, scores, np.array(facts["intercept"], dtype=np.float64))
