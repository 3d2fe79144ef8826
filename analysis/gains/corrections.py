"""Every correction of a study's gains for many tests at once, and which of them more draws may still decide.

Benjamini and Hochberg (1995) bound the expected share of false discoveries among all discoveries, for tests that are
independent or depend on each other positively; Benjamini and Yekutieli (2001, Theorem 1.3) do so for any dependence.
Holm (1979) bounds the probability of a single false discovery, for any dependence, and so does the step-down maximum
(``analysis.gains.maxima``), which learns the dependence from joint draws and therefore discovers more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv

from analysis.gains.maxima import Reach, step_down
from analysis.gains.significance import LEVEL, FloatArray

CORRECTIONS = ("p_bh", "p_by", "p_holm", "p_max_target", "p_max_grid")
DOUBT = 0.01  # beyond both ends of the interval that a p from finitely many draws has


def benjamini_hochberg(p: ArrayLike) -> FloatArray:
    """Adjusted p values of the defined ones among ``p``, in their order; NaN stays NaN and does not count."""
    return _of_defined(p, _step_up)


def benjamini_yekutieli(p: ArrayLike) -> FloatArray:
    """As ``benjamini_hochberg``, times 1 + 1/2 + ... + 1/m for m defined p values."""
    return _of_defined(p, lambda raw: _step_up(raw, float(np.sum(1 / np.arange(1, raw.size + 1)))))


def holm(p: ArrayLike) -> FloatArray:
    """As ``benjamini_hochberg``: the k-th smallest p times m - k + 1, and never below that of a smaller p.

    Of .01, .02 and .04 it makes .03, .04 and .04.
    """
    return _of_defined(p, _holm)


OF_SINGLE_P = {"p_bh": benjamini_hochberg, "p_by": benjamini_yekutieli, "p_holm": holm}


def corrections_of(p: FloatArray, columns: Sequence[Reach], blocks: Sequence[Reach]) -> pd.DataFrame:
    """The columns CORRECTIONS, one row per p; NaN where p is.

    ``columns`` and ``blocks`` are what ``maxima.reaches`` makes of the tests behind the p values, which they know by
    position. A gain in none of them takes no part in the maxima and has 1 there.
    """
    adjusted = {name: correct(p) for name, correct in OF_SINGLE_P.items()}
    adjusted["p_max_target"] = _maximum_p(p, [[column] for column in columns])
    adjusted["p_max_grid"] = _maximum_p(p, [blocks])
    return pd.DataFrame(adjusted, columns=list(CORRECTIONS))


def monte_carlo_error(p: FloatArray, draws: FloatArray) -> FloatArray:
    """The standard error that a p has because its draws are finite in number: .0022 for .05 from 10,000 draws."""
    error: FloatArray = np.sqrt(p * (1 - p) / draws)
    return error


def exact_interval(count: ArrayLike, of: ArrayLike, beyond: float = 0.05) -> tuple[FloatArray, FloatArray]:
    """Ends of Clopper and Pearson's (1934) interval of a share, which leaves out ``beyond`` of chances."""
    count, of = np.asarray(count), np.asarray(of)
    low = np.nan_to_num(betaincinv(count, of - count + 1, beyond / 2), nan=0.0)
    high = np.nan_to_num(betaincinv(count + 1, of - count, 1 - beyond / 2), nan=1.0)
    return low, high


def undecided(
    p: FloatArray, draws: FloatArray, correct: Callable[[ArrayLike], FloatArray] = np.asarray
) -> NDArray[np.bool_]:
    """Which tests are rejected at the level or not, as p values move within their 99 % intervals (Clopper and Pearson).

    ``correct`` makes adjusted p values of p values; a larger p must never lower an adjusted one. Whatever the p values
    are within their intervals, a test that is rejected with all of them at their upper ends is rejected, and one that
    is not with all at their lower ends is not: so says the step-up too, where a p decides over others. More draws of
    the rest decide all (Gandy and Hahn 2014).
    """
    counts = np.nan_to_num(p * (draws + 1) - 1)
    known = np.where(np.isfinite(draws), draws, 1.0)
    ends = exact_interval(counts, known, DOUBT)
    least, most = (correct(np.where(np.isfinite(p), end, np.nan)) for end in ends)
    doubtful: NDArray[np.bool_] = (least <= LEVEL) & (most > LEVEL)
    return doubtful


def undecided_corrections(gains: pd.DataFrame) -> pd.DataFrame:
    """For a frame of gains, whether each correction is undecided: the columns CORRECTIONS, true or false.

    A maximum has the draws that are the same for all gains, ``draws_of_maxima``.
    """
    p, draws, joint = (gains[name].to_numpy(float) for name in ("p", "draws", "draws_of_maxima"))
    single = {name: undecided(p, draws, correct) for name, correct in OF_SINGLE_P.items()}
    maxima = {name: undecided(gains[name].to_numpy(float), joint) for name in CORRECTIONS if name not in single}
    return pd.DataFrame(single | maxima, index=gains.index)


def _of_defined(p: ArrayLike, adjust: Callable[[FloatArray], FloatArray]) -> FloatArray:
    """The p values with the defined ones among them adjusted together."""
    raw = np.asarray(p, dtype=np.float64)
    is_defined = np.isfinite(raw)
    adjusted = np.full(raw.shape, np.nan)
    adjusted[is_defined] = adjust(raw[is_defined])
    return adjusted


def _step_up(p: FloatArray, scale: float = 1.0) -> FloatArray:
    """The k-th smallest p times m / k and ``scale``, and never above that of a larger p.

    As ``scipy.stats.false_discovery_control``, whose import takes half a second of every report.
    """
    order = np.argsort(p)
    adjusted = np.empty(p.shape)
    scaled = p[order] * (p.size / np.arange(1, p.size + 1)) * scale
    adjusted[order] = np.minimum(1.0, np.minimum.accumulate(scaled[::-1])[::-1])
    return adjusted


def _holm(p: FloatArray) -> FloatArray:
    order = np.argsort(p, kind="stable")
    adjusted = np.empty(p.shape)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1)))
    return adjusted


def _maximum_p(p: FloatArray, families: Sequence[Sequence[Reach]]) -> FloatArray:
    """P by the step-down maximum within families of tests, each a list of blocks; 1 for a p that is in none."""
    adjusted = np.where(np.isfinite(p), 1.0, np.nan)
    for blocks in families:
        for block, values in zip(blocks, step_down(blocks), strict=True):
            adjusted[block.positions] = np.fmax(values, p[block.positions])
    return adjusted
