"""The step-down maximum of many tests, from draws that are seen once: of a block a few numbers are kept, not its draws.

Westfall and Young (1993, free step-down resampling) bound the probability of a single false discovery, and learn from
joint draws how tests depend on each other. Tests with joint draws form a block. Its largest drawn size matters only
between a size that was observed and the next larger one, where a few numbers in each draw suffice: so time grows with
the number of tests times that of blocks, and memory with the tests of one block.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtr

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
        for place, number in enumerate(order):
            tests[number][1].raise_to(largest)
            is_between = largest >= limits[place]
            if place + 1 < len(tests):
                is_beyond = largest >= limits[place + 1]
                beyond[place] = np.count_nonzero(is_beyond)
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
        place = np.maximum(among - 1, 0)
        reaching = self.beyond[place] + self.ends[place] - np.searchsorted(self.between, sizes * (1 - TIE), side="left")
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
        own = columns[part[0][1].column]
        blocks.append(own if own.positions.size == len(part) else Reach.of(part))
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
