"""LogME: how probable a task's labels are under a Bayesian linear model of features, without any training."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

Array = NDArray[np.float64]
LARGEST_LOG_RATIO = 25.0  # of alpha / beta to the mean squared singular value: beyond it the evidence is level
GRID = 51


def logme(features: Array, labels: NDArray[np.int64] | Array) -> float:
    """The largest log evidence per row (nats) of labels given features ``[rows, width]``.

    Labels are class indices or real numbers ``[rows]``, or a 0 or 1 per class ``[rows, classes]``; with classes it is
    the mean over one-against-the-rest problems, of those that occur. The model (You et al. 2021): labels are normal
    about a linear function of the features with precision beta, its weights normal about 0 with precision alpha. The
    authors go to a fixed point of alpha and beta, which a maximum is; here the maximum itself is searched.
    """
    spectrum = np.linalg.svd(features.astype(np.float64), full_matrices=False)
    outcomes = _outcomes(labels)
    return float(np.mean([_largest(spectrum.U, spectrum.S, one) for one in outcomes]))


def _outcomes(labels: NDArray[np.int64] | Array) -> list[Array]:
    if labels.ndim == 2:
        return [column.astype(np.float64) for column in labels.T if column.any()]
    if np.issubdtype(labels.dtype, np.integer):
        return [(labels == one).astype(np.float64) for one in np.unique(labels)]
    return [labels.astype(np.float64)]


def _largest(left: Array, singular: Array, outcome: Array) -> float:
    """The largest evidence per row: the noise that is best for a ratio alpha / beta is known, so only that is searched.

    With the features' singular vectors as coordinates, log evidence = rows / 2 (log beta - log 2 pi) - beta / 2 Q
    + sum of log(ratio / (ratio + squared singular value)) / 2, and is largest at beta = rows / Q.
    """
    rows, squares = len(outcome), singular**2
    inside = left.T @ outcome
    outside = max(float(outcome @ outcome - inside @ inside), 0.0)

    def per_row(log_ratio: float) -> float:
        shrinkage = 1 / (1 + squares * np.exp(-log_ratio))  # ratio / (ratio + squared singular value)
        misfit = outside + float(shrinkage @ inside**2)
        noise = rows / max(misfit, np.finfo(float).tiny)
        return float((np.log(noise / (2 * np.pi)) - 1) / 2 + np.log(shrinkage).sum() / (2 * rows))

    grid = np.log(squares.mean()) + np.linspace(-LARGEST_LOG_RATIO, LARGEST_LOG_RATIO, GRID)
    at = int(np.argmax([per_row(one) for one in grid]))
    bounds = (grid[max(at - 1, 0)], grid[min(at + 1, GRID - 1)])
    found = minimize_scalar(lambda one: -per_row(one), bounds=bounds, method="bounded")
    return max(-float(found.fun), per_row(grid[at]))
