"""Whether classes of tasks differ by more than chance, when tasks of one family are alike for reasons of their own.

Effects e of tasks are modelled as e = X m + Z f + r: X says the class of a task and Z its family, f of variance
``ratio`` s2 and r of variance s2 are normal. Were tasks taken as exchangeable, families that differ as much as tasks
do would make every tenth to fifth set of contrasts look real (docs/themes_calibration.csv).

- The statistic of a contrast is the likelihood ratio of two classes having one mean or two, the other classes being
  free, with the ratio of variances that is likeliest in either case, from a grid (maximum likelihood).
- Its p is that of a parametric bootstrap: effects without any difference of classes are drawn with the ratio that the
  observed effects have if there is none (restricted likelihood, Patterson and Thompson 1971), and tested alike. From
  few families that ratio often comes out too small, so the next larger one of the grid is asked too, and the larger p
  counts. Nothing hangs on mean or scale, so the draws for a ratio serve every set of effects.
- Corrected is the largest statistic of all contrasts in each draw.

V = I + ratio Z Z' has one number per family to invert: V^-1 = I - Z w Z', w = ratio / (1 + ratio n) for a family of n.
So sums over classes and over families say all that is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.gains.significance import LEVEL, FloatArray

RATIOS = np.concatenate([[0.0], 2.0 ** np.arange(-4, 9)])  # of the variance between families to that of tasks
ROUNDING = 1e-9  # likelihoods and statistics that differ by no more are equal


class Fits(NamedTuple):
    """Of sets of effects: sizes and statistics of every contrast ``[contrasts, sets]``, and what holds without any.

    ``ratio`` ``[sets]`` is the position in RATIOS, ``variance`` that of tasks, both as if all classes had one mean.
    """

    differences: FloatArray
    statistics: FloatArray
    ratio: NDArray[np.int64]
    variance: FloatArray


class Chance(NamedTuple):
    """Of contrasts ``[contrasts, sets]``: p, p of the largest, and what 95 % of differences by chance stay below."""

    p: FloatArray
    p_max: FloatArray
    differences: FloatArray


@dataclass(frozen=True)
class Classes:
    """Which class and which family ``[tasks]`` every task is of, as numbers from 0 without a gap."""

    of_class: NDArray[np.int64]
    of_family: NDArray[np.int64]

    @property
    def contrasts(self) -> list[tuple[int, int]]:
        """All pairs of classes."""
        return list(combinations(range(int(self.of_class.max()) + 1), 2))

    @property
    def is_testable(self) -> bool:
        """Whether tasks vary within classes at all: there are more tasks than classes, and two classes."""
        return len(self.contrasts) > 0 and self.of_class.size > self.of_class.max() + 1

    def fits(self, effects: FloatArray) -> Fits:
        """The model of sets of effects ``[tasks, sets]``, of which any number is fitted at once."""
        members, families = (_indicators(number) for number in (self.of_class, self.of_family))
        together = members @ families.T
        squares, of_class, of_family = (effects**2).sum(axis=0), members @ effects, families @ effects
        floor = ROUNDING * squares + np.finfo(float).tiny
        free, equal, restricted, differences, variances = [], [], [], [], []
        for ratio in RATIOS:
            sizes = families.sum(axis=1)
            lost = ratio / (1 + ratio * sizes)
            information = np.diag(members.sum(axis=1)) - (together * lost) @ together.T
            known = of_class - (together * lost) @ of_family
            left = squares - lost @ of_family**2  # e' V^-1 e
            inverse = np.linalg.inv(information)
            means = inverse @ known
            rest = np.maximum(left - (known * means).sum(axis=0), floor)
            gaps = np.stack([means[first] - means[second] for first, second in self.contrasts])
            widths = np.array([inverse[a, a] + inverse[b, b] - 2 * inverse[a, b] for a, b in self.contrasts])
            common = np.maximum(left - known.sum(axis=0) ** 2 / information.sum(), floor)
            determinant = np.log1p(ratio * sizes).sum()
            n_tasks = self.of_class.size
            free.append(-(determinant + n_tasks * np.log(rest)) / 2)
            equal.append(-(determinant + n_tasks * np.log(rest + gaps**2 / widths[:, None])) / 2)
            restricted.append(-(determinant + np.log(information.sum()) + (n_tasks - 1) * np.log(common)) / 2)
            differences.append(gaps)
            variances.append(common / (n_tasks - 1))
        likeliest, own = _likeliest(np.stack(free)), _likeliest(np.stack(restricted))
        sets = np.arange(squares.size)
        return Fits(
            differences=np.stack(differences)[likeliest, :, sets].T,
            statistics=2 * (np.max(free, axis=0) - np.max(equal, axis=0)),
            ratio=own,
            variance=np.stack(variances)[own, sets],
        )

    def chance(self, observed: Fits, draws: int, seed: int) -> Chance:
        """What effects without a difference of classes give, with the ratios that the observed have or the next."""
        result = Chance(*(np.zeros_like(observed.statistics) for _ in range(3)))
        sd, larger = np.sqrt(observed.variance), np.minimum(observed.ratio + 1, len(RATIOS) - 1)
        for ratio in np.union1d(observed.ratio, larger):
            drawn = self._drawn(ratio, draws, seed)
            own = (observed.ratio == ratio) | (larger == ratio)
            reach = np.quantile(np.abs(drawn.differences), 1 - LEVEL, axis=1)
            asked = *_bootstrap_p(observed.statistics[:, own], drawn.statistics), reach[:, None] * sd[own]
            for kept, values in zip(result, asked, strict=True):
                kept[:, own] = np.maximum(kept[:, own], values)
        return result

    def _drawn(self, ratio: int, draws: int, seed: int) -> Fits:
        """Fits of effects without a difference of classes, whose variances have the ratio at this position."""
        rng = np.random.default_rng(seed)
        effects = rng.normal(size=(self.of_class.size, draws))
        effects += np.sqrt(RATIOS[ratio]) * rng.normal(size=(self.of_family.max() + 1, draws))[self.of_family]
        return self.fits(effects)


def numbered(names: Sequence[str]) -> NDArray[np.int64]:
    """Names as numbers from 0, in the order of their first appearance."""
    places = {name: place for place, name in enumerate(dict.fromkeys(names))}
    return np.array([places[name] for name in names], dtype=np.int64)


def _bootstrap_p(observed: FloatArray, chance: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The p of statistics ``[contrasts, sets]`` in draws ``[contrasts, draws]``, and that of the largest contrast.

    The observation counts as a draw, so no p is 0.
    """
    draws = chance.shape[1]
    limits = observed - ROUNDING
    own = [draws - np.searchsorted(np.sort(row), limit) for row, limit in zip(chance, limits, strict=True)]
    largest = draws - np.searchsorted(np.sort(chance.max(axis=0)), limits)
    return (1 + np.stack(own)) / (draws + 1), (1 + largest) / (draws + 1)


def _indicators(numbers: NDArray[np.int64]) -> FloatArray:
    """``[kinds, tasks]``: 1 where a task is of a kind."""
    return np.asarray(numbers == np.arange(numbers.max() + 1)[:, None], dtype=np.float64)


def _likeliest(likelihoods: FloatArray) -> NDArray[np.int64]:
    """The first of the ratios ``[ratios, sets]`` that is as likely as any; data may not tell ratios apart."""
    places: NDArray[np.int64] = np.argmax(likelihoods >= likelihoods.max(axis=0) - ROUNDING, axis=0)
    return places
