"""Variants of the kept test of ratings: what its p is a mean over, its statistic, and its replication guard.

- **tasks may be alike**: the p is a mean over all points of variances, also those at which single tasks do not differ;
- **data sets differ, too**: only over points at which data sets differ as well;
- **normal slope**: in place of the largest likelihoods their means over points, with slopes that are normal about 0 and
  have the variance OF_SLOPES: what finds most on average over such slopes (Andrews and Ploberger 1994); corrected by
  the largest statistic, or by the **smallest p** of single constructs, so that each is measured by its own null;
- **guard without a floor**: its variance may be smaller than that of a fixed effect, as in Hartung and Knapp (2001);
- **guard not corrected** for ratings that are tested together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy.special import logsumexp, stdtr

from analysis.importance.likelihood import DATA_SETS, NEGLIGIBLE, Model, share_reaching
from analysis.importance.mixed_test import GridSlopes, MixedTest, Replication, _smallest_of_several

Array = np.ndarray
Statistic = Callable[[Model, Array], Array]
Correction = Callable[[Array, Array], Array]
Nulls = dict[tuple[Statistic, int], Array]  # statistics [constructs, draws] of each statistic at a point
ALIKE, DATA_SETS_TOO = "tasks may be alike", "data sets differ, too"
NORMAL, SMALLEST = "normal slope", "normal slope, smallest p"
NO_FLOOR, NOT_CORRECTED = "guard without a floor", "guard not corrected"
VARIANTS = (ALIKE, DATA_SETS_TOO, NORMAL, SMALLEST, NO_FLOOR, NOT_CORRECTED)
OF_SLOPES = (
    4.0  # their variance per standard deviation of a rating, in units of the mean sampling variance of a contrast
)


def variants(test: MixedTest, part: GridSlopes, contrasts: Array, nulls: Nulls) -> dict[str, tuple[Array, Array]]:
    """By variant p of its ratio and of its guard [constructs, grids]; ``part`` is the kept test of the contrasts."""
    model, guard = test.model, part.guard.corrected
    fit = model.fitted(contrasts)
    without = model._without_slope(contrasts)
    everywhere = np.exp(without - logsumexp(without, axis=0))
    of_sets = model.points[:, [component.name for component in model.parts].index(DATA_SETS)] > 0
    sets = fit.weight * of_sets[:, None]
    return {
        ALIKE: (model.corrected(replace(fit, weight=everywhere)), guard),
        DATA_SETS_TOO: (model.corrected(replace(fit, weight=sets / sets.sum(0))), guard),
        NORMAL: (averaged(model, contrasts, normal_slope, nulls), guard),
        SMALLEST: (averaged(model, contrasts, normal_slope, nulls, of_smallest), guard),
        NO_FLOOR: (part.ratio_p, without_floor(part.guard, test.families._correlation())),
        NOT_CORRECTED: (part.ratio_p, part.guard.alone),
    }


def of_largest(null: Array, observed: Array) -> Array:
    """P [constructs, grids] of statistics by the largest of the constructs in draws [constructs, draws]."""
    return share_reaching(np.sort(null.max(0)), observed)


def of_smallest(null: Array, observed: Array) -> Array:
    """The same by the smallest of the p that constructs have alone, so that each is measured by its own null."""
    own = np.sort(null, axis=1)
    alone, of_draws = (
        np.stack([share_reaching(*pair) for pair in zip(own, values, strict=True)]) for values in (observed, null)
    )
    return share_reaching(np.sort(-of_draws.min(0)), -alone)


def averaged(
    model: Model, contrasts: Array, statistic: Statistic, nulls: Nulls, correct: Correction = of_largest
) -> Array:
    """P [constructs, grids] of a statistic, mean over points as in the kept test; ``nulls`` keeps what was drawn."""
    fit, observed = model.fitted(contrasts), statistic(model, contrasts)
    p, total = np.zeros(observed.shape), np.zeros(observed.shape[1])
    for point in np.flatnonzero((fit.weight > NEGLIGIBLE).any(1)):
        used = fit.weight[point] > NEGLIGIBLE
        if (statistic, point) not in nulls:
            drawn = np.random.default_rng((model.seed, int(point))).normal(size=(model.effects.count, model.draws))
            nulls[statistic, point] = statistic(model, model.roots[point] @ drawn)
        p[:, used] += fit.weight[point, used] * correct(nulls[statistic, point], observed[:, used])
        total[used] += fit.weight[point, used]
    return np.asarray(p / total)


def normal_slope(model: Model, contrasts: Array) -> Array:
    """Twice the log of the mean likelihood over points and slopes over that over points [constructs, grids]."""
    without = model._without_slope(contrasts)
    rows = []
    for projection, information in zip(model.projections, model.information, strict=True):
        known = OF_SLOPES * model.unit * information[:, None]  # the slope's variance over that of its estimate
        squares = (projection @ contrasts) ** 2 / information[:, None]
        gained = 0.5 * squares * known / (1 + known) - 0.5 * np.log1p(known)
        rows.append(logsumexp(without + gained, axis=0) - logsumexp(without, axis=0))
    return 2 * np.stack(rows)


def without_floor(guard: Replication, correlation: Array) -> Array:
    """Corrected p [constructs, grids] of the guard where families may agree better than their errors promise."""
    slopes, weights = guard.slopes, 1 / guard.variances
    total, count = weights.sum(0), len(guard.slopes)
    excess = (weights * (slopes - (weights * slopes).sum(0) / total) ** 2).sum(0) - (count - 1)
    between = np.maximum(0.0, excess / (total - (weights**2).sum(0) / total))
    weights = 1 / (guard.variances + between)
    total = weights.sum(0)
    mean = (weights * slopes).sum(0) / total
    error = np.sqrt((weights * (slopes - mean) ** 2).sum(0) / (count - 1) / total)
    return _smallest_of_several(2 * stdtr(count - 1, -np.abs(mean) / error), correlation)
