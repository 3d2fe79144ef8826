"""Every correction of a study's gains for many tests at once, and which of them more draws may still decide.

Benjamini and Hochberg (1995) bound the expected share of false discoveries among all discoveries, for tests that are
independent or depend on each other positively; Benjamini and Yekutieli (2001, Theorem 1.3) do so for any dependence.
Holm (1979) bounds the probability of a single false discovery, for any dependence. So does the step-down maximum
(Westfall and Young 1993, free step-down resampling), which learns the dependence from joint draws and therefore
discovers more. Tests with joint draws form a block, whose draws are seen once and not kept: its largest drawn size
matters only between a size that was observed and the next larger one, where a few numbers in each draw suffice. So time
grows with the number of tests times that of blocks, and memory with the tests of one block.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv, ndtri, stdtr

from analysis.gains.significance import LEVEL, Evidence, FloatArray

TIE = 1e-6  # draws are held in single precision


@dataclass(frozen=True)
class GainTest:
    """The size of a gain, ``observed`` as of a normal deviate, and its draws without an effect in standard errors.

    Sizes in standard errors have tails that depend on how many groups and seeds there are. Of gains that were measured
    with different precision those with the heaviest tails would decide any maximum, so each is put on the scale of a
    standard normal deviate by Student's t with its own degrees of freedom ``df``; undefined ones leave sizes as they
    are. ``column`` is its target and setting. Draws ``sizes`` ``[draws]`` of gains with the same ``block`` are joint.
    """

    column: tuple[str, str]
    block: Hashable
    observed: float
    sizes: NDArray[np.float32]
    df: float = np.nan

    @classmethod
    def of(cls, estimate: float, evidence: Evidence, column: tuple[str, str], block: Hashable) -> GainTest:
        """From an estimate and its evidence; where nothing varies, any difference is infinitely large."""
        error, df = evidence.standard_error, evidence.df
        if error > 0:
            observed = float(as_normal(np.array([abs(estimate) / error]), df)[0])
            return cls(column, block, observed, evidence.sizes / error, df)
        return cls(column, block, np.inf if estimate else 0.0, evidence.sizes)

    @property
    def is_testable(self) -> bool:
        """Whether enough draws have a value for a p at the level; if not, it can be no false discovery either."""
        return bool(np.isinf(self.sizes).mean() <= LEVEL)

    def raise_to(self, largest: NDArray[np.float32]) -> None:
        """Put the sizes of draws into ``largest`` ``[draws]``, as normal deviates, where they are larger.

        A normal deviate is never larger than what it is made of, so that most draws need none.
        """
        where = np.flatnonzero(self.sizes >= largest * np.float32(1 - TIE))
        drawn = self.sizes[where]
        if np.isfinite(self.df):
            drawn = as_normal(drawn, self.df).astype(np.float32)
        largest[where] = np.maximum(largest[where], drawn)


def as_normal(sizes: NDArray[np.floating], df: float) -> FloatArray:
    """The size of a normal deviate that is as rare as each of these sizes of Student's t."""
    deviates: FloatArray = -ndtri(stdtr(df, -sizes.astype(np.float64)))
    return deviates


@dataclass(frozen=True)
class Reach:
    """How far the largest of some tests with joint draws goes by chance, for sizes observed anywhere.

    ``positions`` and ``observed`` ``[tests]`` are those of the tests, ``ordered`` their sizes from the smallest. Of the
    largest drawn size among the tests up to the k-th in that order, ``beyond[k]`` draws reach the next size, and those
    that lie between the two are ``between[ends[k - 1] : ends[k]]``, of which all together are ascending.
    """

    positions: NDArray[np.int64]
    observed: FloatArray
    ordered: FloatArray
    beyond: NDArray[np.int64]
    between: NDArray[np.float32]
    ends: NDArray[np.int64]
    draws: int

    @classmethod
    def of(cls, tests: Sequence[tuple[int, GainTest]]) -> Reach:
        """From tests with their positions, at least one, all of as many draws."""
        observed = np.array([test.observed for _, test in tests], dtype=np.float64)
        order = np.argsort(observed, kind="stable")
        limits = observed[order] * (1 - TIE)
        largest = np.zeros(tests[0][1].sizes.size, np.float32)
        beyond, between = np.zeros(len(tests), np.int64), []
        for index, number in enumerate(order):
            tests[number][1].raise_to(largest)
            is_between = largest >= limits[index]
            if index + 1 < len(tests):
                is_beyond = largest >= limits[index + 1]
                beyond[index] = np.count_nonzero(is_beyond)
                is_between &= ~is_beyond
            between.append(np.sort(largest[is_between]))
        return cls(
            positions=np.array([position for position, _ in tests], np.int64),
            observed=observed,
            ordered=observed[order],
            beyond=beyond,
            between=np.concatenate(between),
            ends=np.cumsum([part.size for part in between]),
            draws=largest.size,
        )

    def shares(self, sizes: FloatArray, is_own: NDArray[np.bool_]) -> FloatArray:
        """Share of draws in which a test of these, observed to be no larger than a size, reaches it; for all ``sizes``.

        To a test that is one of these the observation itself counts as a draw, so that no p is 0.
        """
        among = np.searchsorted(self.ordered, sizes, side="right")
        index = np.maximum(among - 1, 0)
        reaching = self.beyond[index] + self.ends[index] - np.searchsorted(self.between, sizes * (1 - TIE), side="left")
        return np.where(among == 0, 0.0, (reaching + is_own) / (self.draws + is_own))


def reaches(tests: Iterable[tuple[int, GainTest]]) -> tuple[list[Reach], list[Reach]]:
    """Of tests with their positions: a ``Reach`` for every column, and one for every block, in order of appearance.

    A gain that is not testable takes no part.
    """
    by_column: dict[Hashable, list[tuple[int, GainTest]]] = {}
    by_block: dict[Hashable, list[tuple[int, GainTest]]] = {}
    for position, test in tests:
        if test.is_testable:
            by_column.setdefault(test.column, []).append((position, test))
            by_block.setdefault(test.block, []).append((position, test))
    columns = {name: Reach.of(part) for name, part in by_column.items()}
    blocks = []
    for part in by_block.values():
        column = columns[part[0][1].column]
        blocks.append(column if column.positions.size == len(part) else Reach.of(part))
    return list(columns.values()), blocks


def step_down(blocks: Sequence[Reach]) -> list[FloatArray]:
    """Adjusted p of all tests of these blocks, ``[tests]`` of each, in the order in which they were given.

    Blocks, which may have different numbers of draws, are taken as independent. The p of a size t is the probability
    that the largest of all tests with observed sizes up to t reaches t by chance, and never below the p of a larger
    size. A size beyond every draw of 999 has a p of .001, and not of 0.
    """
    if not blocks:
        return []
    sizes = np.concatenate([block.observed for block in blocks])
    ends = np.cumsum([block.observed.size for block in blocks])
    # 1. Blocks are independent, so the probability that none of them reaches a size is the product over blocks of the
    #    share of draws that stay below it.
    missed = np.ones(sizes.size)
    for block, end in zip(blocks, ends, strict=True):
        is_own = np.zeros(sizes.size, bool)
        is_own[end - block.observed.size : end] = True
        missed *= 1 - block.shares(sizes, is_own)
    # 2. From the largest size down, a p is never below that of a larger size.
    order = np.argsort(-sizes, kind="stable")
    adjusted = np.empty(sizes.size)
    adjusted[order] = np.maximum.accumulate((1 - missed)[order])
    return np.split(adjusted, ends[:-1])


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
    return low, np.nan_to_num(betaincinv(count + 1, of - count, 1 - beyond / 2), nan=1.0)


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
    defined = np.where(np.isfinite(draws), draws, 1.0)
    ends = exact_interval(counts, defined, DOUBT)
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
