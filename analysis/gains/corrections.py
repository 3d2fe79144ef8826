"""Every correction of a study's gains for many tests at once, and which of them more draws may still decide.

Benjamini and Hochberg (1995) bound the expected share of false discoveries among all discoveries, for tests that are
independent or depend on each other positively; Benjamini and Yekutieli (2001, Theorem 1.3) do so for any dependence.
Holm (1979) bounds the probability of a single false discovery, for any dependence, and so does the step-down maximum of
Westfall and Young (1993, free step-down resampling), which learns the dependence from joint draws and therefore
discovers more.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri, stdtr
from scipy.stats import beta, false_discovery_control

from analysis.gains.significance import LEVEL, Evidence

FloatArray = NDArray[np.float64]
CORRECTIONS = ("p_bh", "p_by", "p_holm", "p_max_target", "p_max_grid")
TIE = 1e-6  # draws are held in single precision
DOUBT = 0.01  # beyond both ends of the interval that a p from finitely many draws has


def benjamini_hochberg(p: ArrayLike) -> FloatArray:
    """Adjusted p values of the defined ones among ``p``, in their order; NaN stays NaN and does not count."""
    return _of_defined(p, lambda raw: false_discovery_control(raw, method="bh"))


def benjamini_yekutieli(p: ArrayLike) -> FloatArray:
    """As ``benjamini_hochberg``, times 1 + 1/2 + ... + 1/m for m defined p values."""
    return _of_defined(p, lambda raw: false_discovery_control(raw, method="by"))


def holm(p: ArrayLike) -> FloatArray:
    """As ``benjamini_hochberg``: the k-th smallest p times m - k + 1, and never below that of a smaller p.

    Of .01, .02 and .04 it makes .03, .04 and .04.
    """
    return _of_defined(p, _holm)


def step_down(observed: Sequence[FloatArray], null: Sequence[NDArray[np.float32]]) -> list[FloatArray]:
    """Adjusted p of blocks of tests, from sizes ``[tests]`` and their draws without an effect ``[draws, tests]``.

    Within a block draws are joint; blocks, which may have different numbers of draws, are taken as independent. The
    p of a size t is the probability that the largest of all tests with observed sizes up to t reaches t by chance, and
    never below the p of a larger size. A size beyond every draw of 999 has a p of .001, and not of 0.
    """
    # 1. Within a block, sort the tests by size. A running maximum over the sorted tests then holds, in every draw, the
    #    largest of all tests up to each size: Westfall and Young's (1993) free step-down, for all sizes at once.
    sorted_blocks = [_running_maxima(sizes, draws) for sizes, draws in zip(observed, null, strict=True)]
    sizes = np.concatenate([*observed, np.empty(0)])
    own = np.repeat(np.arange(len(observed)), [block.size for block in observed])
    # 2. Blocks are independent, so the probability that none of them reaches a size is the product over blocks of the
    #    share of draws that stay below it.
    missed = np.ones(sizes.size)
    for block, (ordered, maxima) in enumerate(sorted_blocks):
        of_block = [
            _share_reaching(ordered, maxima, size, is_own) for size, is_own in zip(sizes, own == block, strict=True)
        ]
        missed *= 1 - np.array(of_block)
    # 3. From the largest size down, a p is never below that of a larger size.
    order = np.argsort(-sizes, kind="stable")
    adjusted = np.empty(sizes.size)
    adjusted[order] = np.maximum.accumulate((1 - missed)[order])
    return np.split(adjusted, np.cumsum([block.size for block in observed])[:-1]) if len(observed) else []


def _of_defined(p: ArrayLike, adjust: Callable[[FloatArray], FloatArray]) -> FloatArray:
    """The p values with the defined ones among them adjusted together."""
    raw = np.asarray(p, dtype=np.float64)
    is_defined = np.isfinite(raw)
    adjusted = np.full(raw.shape, np.nan)
    adjusted[is_defined] = adjust(raw[is_defined])
    return adjusted


def _holm(p: FloatArray) -> FloatArray:
    order = np.argsort(p, kind="stable")
    adjusted = np.empty(p.shape)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1)))
    return adjusted


def _running_maxima(sizes: FloatArray, draws: NDArray[np.float32]) -> tuple[FloatArray, NDArray[np.float32]]:
    """Sizes from the smallest, and ``[tests, draws]`` the largest drawn size among the tests up to each of them."""
    order = np.argsort(sizes, kind="stable")
    maxima = np.ascontiguousarray(draws.T[order])
    np.maximum.accumulate(maxima, axis=0, out=maxima)
    return sizes[order], maxima


def _share_reaching(ordered: FloatArray, maxima: NDArray[np.float32], size: float, is_own: bool) -> float:
    """Share of draws in which a test of this block with an observed size up to ``size`` reaches it.

    The observation itself counts as a draw of its own block, so that no p is 0.
    """
    among = int(np.searchsorted(ordered, size, side="right"))
    if among == 0:
        return 0.0
    largest = maxima[among - 1]
    count = np.count_nonzero(largest >= size * (1 - TIE))
    return float((count + is_own) / (largest.size + is_own))


@dataclass(frozen=True)
class GainTest:
    """The size of a gain, ``observed`` and as drawn without an effect, ``sizes`` ``[draws]``, as of a normal deviate.

    Sizes in standard errors have tails that depend on how many groups and seeds there are. Of gains that were measured
    with different precision those with the heaviest tails would decide any maximum, so each is put on the scale of a
    standard normal deviate by Student's t with its own degrees of freedom. ``column`` is its target and setting. Draws
    of gains with the same ``block`` are joint.
    """

    column: tuple[str, str]
    block: Hashable
    observed: float
    sizes: NDArray[np.float32]

    @classmethod
    def of(cls, estimate: float, evidence: Evidence, column: tuple[str, str], block: Hashable) -> GainTest:
        """From an estimate and its evidence; where nothing varies, any difference is infinitely large."""
        error, df = evidence.standard_error, evidence.df
        if error > 0:
            observed = float(_as_normal(np.array([abs(estimate) / error]), df)[0])
            return cls(column, block, observed, _as_normal(evidence.sizes / error, df).astype(np.float32))
        return cls(column, block, np.inf if estimate else 0.0, evidence.sizes)

    @property
    def is_testable(self) -> bool:
        """Whether enough draws have a value for a p at the level; if not, it can be no false discovery either."""
        return bool(np.isinf(self.sizes).mean() <= LEVEL)


_NumberedTest = tuple[int, GainTest]  # a test and its position among the p values


def corrections_of(p: FloatArray, tests: Sequence[GainTest | None]) -> pd.DataFrame:
    """The columns CORRECTIONS, one row per p; NaN where p is.

    A gain that is not testable takes no part in the maxima and has 1 there.
    """
    adjusted = {"p_bh": benjamini_hochberg(p), "p_by": benjamini_yekutieli(p), "p_holm": holm(p)}
    testable = [(position, test) for position, test in enumerate(tests) if test is not None and test.is_testable]
    by_column = _by_name((test.column, (position, test)) for position, test in testable)
    by_block = _by_name((test.block, (position, test)) for position, test in testable)
    adjusted["p_max_target"] = _maximum_p(p, [[column] for column in by_column])
    adjusted["p_max_grid"] = _maximum_p(p, [by_block])
    return pd.DataFrame(adjusted, columns=list(CORRECTIONS))


def undecided(p: FloatArray, adjusted: FloatArray, draws: FloatArray) -> NDArray[np.bool_]:
    """Whether the level lies in the 99 % interval of each p (Clopper and Pearson), carried through its correction."""
    counts = np.nan_to_num(p * (draws + 1) - 1)
    low = np.nan_to_num(beta.ppf(DOUBT / 2, counts, draws - counts + 1), nan=0.0)
    high = np.nan_to_num(beta.ppf(1 - DOUBT / 2, counts + 1, draws - counts), nan=1.0)
    factor = adjusted / p
    doubtful: NDArray[np.bool_] = (low * factor <= LEVEL) & (high * factor >= LEVEL)
    return doubtful & np.isfinite(p)


def to_redraw(p: FloatArray, tests: Sequence[GainTest | None], adjusted: pd.DataFrame) -> set[tuple[str, str]]:
    """Columns of which more draws may change a conclusion: those joint with an undecided gain, or all."""
    draws = np.array([np.nan if test is None else test.sizes.size for test in tests], dtype=np.float64)
    single = [undecided(p, adjusted[name].to_numpy(), draws) for name in ("p_bh", "p_by", "p_holm")]
    in_target, in_grid = (
        undecided(largest, largest, draws) for largest in (adjusted.p_max_target, adjusted.p_max_grid)
    )
    doubtful = np.any([*single, in_target], axis=0)
    blocks = {test.block for test, doubt in zip(tests, doubtful, strict=True) if test and (doubt or in_grid.any())}
    return {test.column for test in tests if test and test.block in blocks}


def _as_normal(sizes: NDArray[np.floating], df: float) -> FloatArray:
    """The size of a normal deviate that is as rare as each of these sizes of Student's t."""
    deviates: FloatArray = -ndtri(stdtr(df, -sizes.astype(np.float64)))
    return deviates


def _by_name(tests: Iterable[tuple[Hashable, _NumberedTest]]) -> list[list[_NumberedTest]]:
    """The tests with their positions, those of one name together, in the order of appearance."""
    tests_of: dict[Hashable, list[_NumberedTest]] = {}
    for name, test in tests:
        tests_of.setdefault(name, []).append(test)
    return list(tests_of.values())


def _maximum_p(p: FloatArray, families: Sequence[Sequence[Sequence[_NumberedTest]]]) -> FloatArray:
    """P by the step-down maximum within families of tests, each a list of blocks; 1 for a p that is in none."""
    adjusted = np.where(np.isfinite(p), 1.0, np.nan)
    for blocks in families:
        observed = [np.array([test.observed for _, test in block]) for block in blocks]
        of_blocks = step_down(observed, [np.stack([test.sizes for _, test in block], axis=1) for block in blocks])
        for block, values in zip(blocks, of_blocks, strict=True):
            positions = [position for position, _ in block]
            adjusted[positions] = np.fmax(values, p[positions])
    return adjusted
