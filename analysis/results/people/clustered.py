"""Whether two means differ, of rows that come in groups: standard errors, degrees of freedom, and joint draws.

Rows of a group resemble each other, so groups are the units that were drawn. The error of a mean and of a difference of
two is the bias-reduced sandwich (Bell and McCaffrey 2002, "CR2"), which for two means is a sum over groups in closed
form. Student's t has Satterthwaite's degrees of freedom under the working model that rows of a group share an effect
(Imbens and Kolesar 2016): what few groups show, or a few large groups decide, has few of them, whatever its rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from analysis.gains.maxima import GainTest, as_normal
from analysis.gains.significance import LEVEL, FloatArray

WITH, WITHOUT = 0, 1
SIGNS = np.array([[1.0], [-1.0]])  # of the two means in their difference
DRAWS_AT_A_TIME = 1_000


@dataclass(frozen=True)
class TwoMeans:
    """Means of rows with and without something, each ``[2]``: rows, groups, means and their standard errors.

    ``terms`` ``[groups]`` are what each group adds to the difference of the two: its squared error is the sum of their
    squares. What is not defined is NaN: the error of a mean whose rows are all of one group, and so the difference's.
    """

    rows: NDArray[np.int64]
    groups: NDArray[np.int64]
    means: FloatArray
    errors: FloatArray
    terms: FloatArray
    df: float

    @classmethod
    def of(cls, values: FloatArray, is_with: NDArray[np.bool_], group: NDArray[np.int64], count: int) -> TwoMeans:
        """From rows ``[n]``: values, whether a row is with it, and the number of its group, below ``count``."""
        # 1. Per side and group ``[2, groups]``: rows, and the sum of what is left of values beyond their side's mean.
        sides = np.stack([is_with, ~is_with])
        sizes = np.stack([np.bincount(group[side], minlength=count) for side in sides])
        rows = sizes.sum(axis=1)
        means = np.array([values[side].mean() if side.any() else np.nan for side in sides])
        left = values - np.where(is_with, means[WITH], means[WITHOUT])
        sums = np.stack([np.bincount(group[side], left[side], count) for side in sides])
        # 2. A group pulls the mean of its side towards itself: what is left is too small, by the root of 1 - its share.
        share = sizes / np.maximum(rows, 1)[:, None]
        stretch = 1 / np.sqrt(np.where(share < 1, 1 - share, np.nan))
        weights = SIGNS * stretch / np.maximum(rows, 1)[:, None]
        terms = weights * sums
        errors = np.where(rows > 0, np.sqrt((terms**2).sum(axis=1)), np.nan)
        shared = _shared_part(left, group, count)
        df = _degrees(sizes, weights, shared) if np.isfinite(errors).all() else float("nan")
        return cls(rows, (sizes > 0).sum(axis=1), means, errors, terms.sum(axis=0), df)

    @property
    def difference(self) -> float:
        """Mean with less mean without."""
        return float(self.means[WITH] - self.means[WITHOUT])

    @property
    def error(self) -> float:
        """The standard error of the difference."""
        return float(np.sqrt((self.terms**2).sum()))

    @property
    def is_testable(self) -> bool:
        """Whether the difference has an error above 0 by which to measure it."""
        return bool(np.isfinite(self.df) and self.error > 0)

    @property
    def p(self) -> float:
        """Two-sided p of no difference; NaN where it cannot be tested."""
        return float(2 * stdtr(self.df, -abs(self.difference) / self.error)) if self.is_testable else float("nan")

    @property
    def half_width(self) -> float:
        """Half of the 95 % interval of the difference; NaN where it cannot be tested."""
        return float(stdtrit(self.df, 1 - LEVEL / 2) * self.error) if self.is_testable else float("nan")


def _shared_part(left: FloatArray, group: NDArray[np.int64], count: int) -> float:
    """The share of a rating's variance that rows of a group have in common: mean product of two rows over mean square.

    From 0 to 1 (Imbens and Kolesar 2016, section 3); 0 where no group has two rows, or nothing varies.
    """
    sizes, sums, squares = (np.bincount(group, weights, count) for weights in (None, left, left**2))
    pairs, whole = float((sizes * (sizes - 1)).sum()), float(np.mean(left**2))
    if pairs == 0 or not whole > 0:
        return 0.0
    return float(np.clip((sums**2 - squares).sum() / pairs / whole, 0.0, 1.0))


def _degrees(sizes: NDArray[np.int64], weights: FloatArray, shared: float) -> float:
    """Degrees of freedom of the difference's squared error: 2 E^2 / Var, of a quadratic form in normal variables.

    With sizes and weights ``[2, groups]``. The form's matrix ``[groups, groups]`` has the products of the groups' terms
    expected under the working model. It is a diagonal and four columns, so that its trace and its squares cost no more
    than the groups are many.
    """
    rows = sizes.sum(axis=1)
    pull, portion = (sizes * weights).T, (sizes / rows[:, None]).T  # [groups, 2]
    total = pull.sum(axis=1)
    diagonal = (1 - shared) * (sizes * weights**2).sum(axis=0) + shared * total**2
    columns = np.hstack([pull, total[:, None] * portion])
    core = np.zeros((4, 4))
    core[:2, :2] = shared * portion.T @ portion - (1 - shared) * np.diag(1 / rows)
    core[:2, 2:] = core[2:, :2] = -shared * np.eye(2)
    products = core @ (columns.T @ columns)
    trace = diagonal.sum() + np.trace(products)
    squares = (
        (diagonal**2).sum()
        + 2 * np.trace(core @ (columns.T @ (diagonal[:, None] * columns)))
        + np.trace(products @ products)
    )
    return float(trace**2 / squares) if squares > 0 else float("nan")


def joint_tests(
    tests: Sequence[TwoMeans], columns: Sequence[str], draws: int, rng: np.random.Generator
) -> list[tuple[int, GainTest]]:
    """Those of these tests that can be made, by place, with joint draws for the step-down maximum.

    The tests have the same groups. A draw gives every group a standard normal weight (Chernozhukov, Chetverikov and
    Kato 2013), the same for all tests: draws are normal deviates that depend on each other as the tests do.
    """
    places = [place for place, test in enumerate(tests) if test.is_testable]
    if not places:
        return []
    scaled = np.stack([tests[place].terms / tests[place].error for place in places], axis=1)
    drawn = np.concatenate(
        [
            np.abs(rng.standard_normal((min(DRAWS_AT_A_TIME, draws - start), len(scaled))) @ scaled).astype(np.float32)
            for start in range(0, draws, DRAWS_AT_A_TIME)
        ]
    )
    return [
        (place, GainTest((columns[place], ""), "table", _deviate(tests[place]), np.ascontiguousarray(sizes)))
        for place, sizes in zip(places, drawn.T, strict=True)
    ]


def _deviate(test: TwoMeans) -> float:
    """The size of a difference, as of a normal deviate that is as rare as its t."""
    return float(as_normal(np.array([abs(test.difference) / test.error]), test.df)[0])
