"""Ratings that overlap: whether gains follow the one, or only what it has in common with others.

Every rating is tested without the others. Where two say nearly the same of tasks, gains that follow the one follow the
other as well, and a verdict on each would often name the wrong one. So a rating that is supported, and correlates by .8
or more with others, is tested a second time beside them: contrasts are taken orthogonal to their ratings, which makes
its slope that of generalised least squares with all of them in the model. Where that test does not reject as well, the
verdict is one on the group: supported, but only together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.gains.significance import LEVEL
from analysis.importance.mixed.tested import SIGNED, MixedTest

Array = np.ndarray
OVERLAP, ROUNDING = 0.8, 1e-9  # correlation of two ratings over tasks


@dataclass(frozen=True)
class Overlaps:
    """``partners`` marks [constructs, constructs] ratings that overlap, ``beside`` their tests by construct."""

    partners: Array
    beside: dict[int, MixedTest]

    @classmethod
    def of(cls, test: MixedTest) -> Overlaps:
        """The overlaps of the ratings of a test."""
        count = len(test.constructs)
        correlations = np.corrcoef(test.ratings.T).reshape(count, count)
        partners: Array = np.asarray((np.abs(correlations) >= OVERLAP - ROUNDING) & ~np.eye(count, dtype=bool))
        tests = {
            construct: MixedTest.beside(test, construct, np.flatnonzero(partners[construct]))
            for construct in range(count)
            if partners[construct].any()
        }
        return cls(partners, {construct: own for construct, own in tests.items() if own is not None})

    def p_beside(self, gains: Array) -> Array:
        """P [constructs, grids] beside all that overlap with it; 1 where nothing is left, NaN where nothing overlaps.

        ``gains`` are [tasks, tasks, grids].
        """
        p: Array = np.repeat(np.where(self.partners.any(1), 1.0, np.nan)[:, None], gains.shape[2], axis=1)
        for construct, test in self.beside.items():
            p[construct] = test.asked(SIGNED, gains).p[0]
        return p

    def named(self, p: Array, p_beside: Array) -> Array:
        """[constructs, grids], whether a rating is supported by itself, from its two p."""
        return np.asarray((p <= LEVEL) & ((p_beside <= LEVEL) | np.isnan(p_beside)))

    def together(self, p: Array, p_beside: Array) -> Array:
        """[constructs, grids], whether it is only with those that overlap: it or one of them, which nothing tells."""
        shared = (p <= LEVEL) & ~self.named(p, p_beside)
        return np.asarray(shared | ((p > LEVEL) & ((self.partners.astype(int) @ shared.astype(int)) > 0)))
