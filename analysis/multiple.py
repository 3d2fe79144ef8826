"""Corrections of p for many tests at once: what keeps false discoveries down, and what allows hardly one of them.

Benjamini and Hochberg (1995) bound the expected share of false ones among what is found, for tests that are independent
or depend on each other positively; Benjamini and Yekutieli (2001, Theorem 1.3) do so for any dependence. Holm (1979)
bounds the probability of a single false one, for any dependence, and so does the step-down maximum of Westfall and
Young (1993, free step-down resampling), which learns the dependence from joint draws and therefore finds more.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
TIE = 1e-6  # draws are held in single precision


def benjamini_hochberg(p: ArrayLike) -> FloatArray:
    """Adjusted p values of the defined ones among ``p``, at the same places; NaN stays NaN and does not count."""
    return _stepped_up(p, yekutieli=False)


def benjamini_yekutieli(p: ArrayLike) -> FloatArray:
    """As ``benjamini_hochberg``, times 1 + 1/2 + ... + 1/m for m defined p values."""
    return _stepped_up(p, yekutieli=True)


def holm(p: ArrayLike) -> FloatArray:
    """As ``benjamini_hochberg``: the k-th smallest p times m - k + 1, and never below a smaller one's."""
    raw, order = _ordered(p)
    adjusted = np.full(raw.shape, np.nan)
    scaled = raw[order] * np.arange(order.size, 0, -1)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(scaled))
    return adjusted


def step_down(observed: Sequence[FloatArray], null: Sequence[NDArray[np.float32]]) -> list[FloatArray]:
    """Adjusted p of blocks of tests, from sizes ``[tests]`` and their draws without an effect ``[draws, tests]``.

    Within a block draws are joint; blocks, which may have different numbers of draws, are taken as independent. The
    p of a size t is the probability that the largest of all tests with observed sizes up to t reaches t by chance, and
    never below the p of a larger size.
    """
    sorted_blocks = [_running_maxima(sizes, drawn) for sizes, drawn in zip(observed, null, strict=True)]
    sizes = np.concatenate([*observed, np.empty(0)])
    own = np.repeat(np.arange(len(observed)), [one.size for one in observed])
    missed = np.ones(sizes.size)
    for block, (ordered, maxima) in enumerate(sorted_blocks):
        of_block = [_reached(ordered, maxima, size, is_own) for size, is_own in zip(sizes, own == block, strict=True)]
        missed *= 1 - np.array(of_block)
    order = np.argsort(-sizes, kind="stable")
    adjusted = np.empty(sizes.size)
    adjusted[order] = np.maximum.accumulate((1 - missed)[order])
    return np.split(adjusted, np.cumsum([one.size for one in observed])[:-1]) if len(observed) else []


def _ordered(p: ArrayLike) -> tuple[FloatArray, NDArray[np.int64]]:
    """The p values, and the places of the defined ones from the smallest to the largest."""
    raw = np.asarray(p, dtype=np.float64)
    where = np.flatnonzero(np.isfinite(raw))
    return raw, where[np.argsort(raw[where], kind="stable")]


def _stepped_up(p: ArrayLike, *, yekutieli: bool) -> FloatArray:
    raw, order = _ordered(p)
    adjusted = np.full(raw.shape, np.nan)
    ranks = np.arange(1, order.size + 1)
    factor = float((1 / ranks).sum()) if yekutieli else 1.0
    scaled = raw[order] * factor * order.size / ranks
    adjusted[order] = np.minimum(1.0, np.minimum.accumulate(scaled[::-1])[::-1])
    return adjusted


def _running_maxima(sizes: FloatArray, drawn: NDArray[np.float32]) -> tuple[FloatArray, NDArray[np.float32]]:
    """Sizes from the smallest, and ``[tests, draws]`` the largest drawn size among the tests up to each of them."""
    order = np.argsort(sizes, kind="stable")
    maxima = np.ascontiguousarray(drawn.T[order])
    np.maximum.accumulate(maxima, axis=0, out=maxima)
    return sizes[order], maxima


def _reached(ordered: FloatArray, maxima: NDArray[np.float32], size: float, is_own: bool) -> float:
    """Share of draws in which a test of this block with an observed size up to ``size`` reaches it.

    The observation itself counts as a draw of its own block, so that no p is 0.
    """
    among = int(np.searchsorted(ordered, size, side="right"))
    if among == 0:
        return 0.0
    drawn = maxima[among - 1]
    count = np.count_nonzero(drawn >= size * (1 - TIE))
    return float((count + is_own) / (drawn.size + is_own))
