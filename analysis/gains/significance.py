"""Whether a difference of scores is more than chance: a paired bootstrap of groups, with seeds.

What is random in a difference d between two cells, averaged over S seeds on one test set of G groups, is the
choice of groups (an effect that all seeds share) and the training runs (the seed itself, and how its errors fall
on the groups). Hence Var(d) = V + s2 / S, where s2 is the variance of d between seeds, and V the covariance
between seeds under resampled groups; with one seed V is the whole variance under resampled groups, and the
result is conditional on that training run.

Two corrections make it hold its level when G or S is small; a plain bootstrap of both rejects far too often.
The groups' part is scaled by G / (G - 1) and divided by the root of a chi-square share with G - 1 degrees of
freedom (effective groups, if sizes are unequal), as Student's t does for a normal mean; the seeds' part is drawn
from Student's t with S - 1 degrees of freedom. A sum of such t is overcautious, which is right where nothing but a
gain's own few seeds tells of their spread. Where the transfers of a column tell of each other's
(``analysis.gains.pairs``), the sum of both parts is divided by the root of one chi-square share, with the degrees of
freedom that Satterthwaite (1946) gives the sum of the variances.

A baseline B of more seeds than its transfer T (S of them, shared with the transfer, of N) is averaged over all: d =
mean T - mean B. It falls into terms T / S - B / N of the shared seeds and - B / N of the others, which are
independent of each other, so the seeds' part is s2(T - B S / N) / S + s2(B) (N - S) / N^2, each drawn from its own t;
V is taken from the covariances between different seeds, as above. With a single transfer, whose spread nobody has
seen, the transfer is taken to vary between seeds as its baseline does, and independently of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from analysis.tables import number

FloatArray = NDArray[np.float64]
Spread = tuple[float, float]  # a variance with its degrees of freedom
DRAWS = 10_000
LEVEL = 0.05
DRAWS_AT_A_TIME = 250


def p_text(p: float, digits: int = 3) -> str:
    """A p with so many decimals, and more where those are on the other side of LEVEL: .0504 is no .050, .0004 no 0."""
    while not pd.isna(p) and (float(number(p, digits)) <= LEVEL) != (p <= LEVEL):
        digits += 1
    return f"<{10**-digits:.{digits}f}" if p < 0.5 * 10**-digits else number(p, digits)


@dataclass(frozen=True)
class Groups:
    """Rows' membership in groups: index ``[n]`` into 0..count-1, and how many equal groups they are worth.

    Rows of the groups a, a, b, a are two groups, worth 1.6 equal ones: (3 + 1)^2 / (3^2 + 1^2).
    """

    index: NDArray[np.int64]
    count: int
    effective: float

    @classmethod
    def of(cls, names: ArrayLike) -> Groups:
        """Number the groups of ``names`` (one per row); effective = (sum of sizes)^2 / sum of squared sizes."""
        _, index, sizes = np.unique(np.asarray(names), return_inverse=True, return_counts=True)
        return cls(index.reshape(-1).astype(np.int64), int(sizes.size), float(sizes.sum() ** 2 / (sizes**2).sum()))


@dataclass(frozen=True)
class Evidence:
    """A 95 % interval around an estimate and the two-sided p that its true value is 0; NaN where undefined.

    ``standard_error`` is the root of the variances through groups and through seeds, ``df`` their degrees of freedom
    together (Satterthwaite 1946), ``seed_error`` the root of the seeds' part (0 with one training run). ``sizes``
    ``[draws]`` is how far draws lie from the estimate, in its own unit; infinite where a draw has no value.
    ``run_error`` is the standard error through groups that a single run would have had, which knows of no other run.
    """

    low: float
    high: float
    p: float
    standard_error: float
    df: float
    seed_error: float
    sizes: NDArray[np.float32]
    run_error: float = np.nan


_UNKNOWN = Evidence(np.nan, np.nan, np.nan, np.nan, np.nan, np.nan, np.empty(0, np.float32))


def score_draws(
    metric: str, labels: ArrayLike, groups: Groups, predictions: ArrayLike, *, draws: int, rng: np.random.Generator
) -> FloatArray:
    """Scores ``[draws, lanes]`` of predictions ``[lanes, n]`` on resampled groups, the same groups for all lanes.

    Labels and predictions of multilabel_f1 have a further axis of classes. Both F1 average over the classes that a
    draw contains; an undefined score is NaN.
    """
    true, predicted = np.asarray(labels), np.atleast_2d(np.asarray(predictions))
    n_lanes, blocks = len(predicted), group_weights(groups, draws, rng)
    if metric in ("macro_f1", "multilabel_f1"):
        counts = (_f1_sums if metric == "macro_f1" else _multilabel_sums)(true, groups, predicted)
        return np.concatenate([_f1_scores(weights.astype(np.float32) @ counts, n_lanes) for weights in blocks])
    moments = _moment_sums(true, groups, predicted)
    return np.concatenate([_moment_scores(weights @ moments, n_lanes) for weights in blocks])


def evidence(estimates: ArrayLike, draws: FloatArray, groups: Groups, rng: np.random.Generator) -> Evidence:
    """Interval and p of the mean of ``estimates`` ``[seeds]`` from their draws ``[draws, seeds]``.

    All NaN with fewer than two groups or an undefined estimate; draws without a value count against rejection.
    """
    values = np.asarray(estimates, dtype=np.float64)
    is_defined = np.isfinite(draws).all(axis=1)
    if groups.count < 2 or is_defined.sum() < 2 or not np.isfinite(values).all():
        return _UNKNOWN
    n_seeds, defined = values.size, draws[is_defined]
    spreads = [(float(values.var(ddof=1)) / n_seeds, n_seeds - 1)] if n_seeds > 1 else []
    means = np.where(is_defined, draws.mean(axis=1), np.nan)
    alone = float(defined.var(axis=0).mean())
    return _evidence_from(float(values.mean()), means, (shared_variance(defined), alone), spreads, groups, rng)


def difference_evidence(
    tops: ArrayLike,
    bases: ArrayLike,
    top_draws: FloatArray,
    base_draws: FloatArray,
    groups: Groups,
    rng: np.random.Generator,
    pooled: Sequence[Spread] = (),
) -> Evidence:
    """Interval and p of mean ``tops`` ``[S]`` - mean ``bases`` ``[N]``, whose first S are of the same seeds as tops.

    Draws are ``[draws, S]`` and ``[draws, N]``. ``pooled`` are the variances through seeds, where other transfers tell
    of them; else they are those of these scores. With N = S this then is ``evidence`` of the differences.
    """
    top, base = np.asarray(tops, dtype=np.float64), np.asarray(bases, dtype=np.float64)
    if top.size == base.size and not pooled:
        return evidence(top - base, top_draws - base_draws, groups, rng)
    is_defined = np.isfinite(top_draws).all(axis=1) & np.isfinite(base_draws).all(axis=1)
    if groups.count < 2 or is_defined.sum() < 2 or not np.isfinite([*top, *base]).all():
        return _UNKNOWN
    estimate = float(top.mean() - base.mean())
    means = np.where(is_defined, top_draws.mean(axis=1) - base_draws.mean(axis=1), np.nan)
    draws = top_draws[is_defined], base_draws[is_defined]
    paired = top.size == base.size
    shared = shared_variance(draws[0] - draws[1]) if paired else _shared_variance_of_difference(*draws)
    alone = float((draws[0] - draws[1][:, : top.size]).var(axis=0).mean())
    spreads = pooled or seed_spreads(top, base)
    return _evidence_from(estimate, means, (shared, alone), spreads, groups, rng, is_pooled=bool(pooled))


def _evidence_from(
    estimate: float,
    means: FloatArray,
    through_groups: tuple[float, float],
    spreads: Sequence[Spread],
    groups: Groups,
    rng: np.random.Generator,
    *,
    is_pooled: bool = False,
) -> Evidence:
    """The evidence from draws ``means`` of the estimate (NaN: undefined).

    ``through_groups`` are the variances through groups of the mean over seeds and of a single run, ``spreads`` those
    through seeds with their degrees of freedom. More draws begin with those of fewer.
    """
    # 1. The variances that make up Var(d): through groups, scaled by G / (G - 1), and through seeds; the degrees of
    #    freedom of their sum are those of Satterthwaite (1946).
    n_draws, spread = len(means), np.nanstd(means)
    shared, alone = (variance * groups.count / (groups.count - 1) for variance in through_groups)
    parts = [(shared, groups.effective - 1), *spreads]
    total, of_seeds = (sum(variance for variance, _ in some) for some in (parts, spreads))
    inverse = sum(variance**2 / freedom for variance, freedom in parts)
    df = total**2 / inverse if inverse > 0 else np.nan
    # 2. The resampled means are stretched to the groups' variance, then divided by the root of a chi-square share, as
    #    in Student's t: their variance is itself estimated, from as many groups as they are worth.
    scale = 0.0 if spread == 0 else np.sqrt(parts[0][0]) / spread
    errors, streams = (means - estimate) * scale, rng.spawn(len(parts))
    freedom = df if is_pooled and inverse > 0 else parts[0][1]
    share = np.sqrt(streams[0].chisquare(freedom, n_draws) / freedom)
    # 3. Training runs are not resampled. Their part is drawn independently of the groups: within the same t, or each of
    #    their variances in a t of its own.
    if is_pooled:
        errors = (errors + np.sqrt(of_seeds) * streams[1].standard_normal(n_draws)) / share
    else:
        errors = errors / share
        for stream, (variance, own_freedom) in zip(streams[1:], spreads, strict=True):
            errors += np.sqrt(variance) * stream.standard_t(own_freedom, n_draws)
    # 4. Errors as large as the estimate count against it, undefined ones too; p counts the observation as a draw.
    sizes = np.where(np.isnan(errors), np.inf, np.abs(errors))
    beyond = np.count_nonzero(sizes >= abs(estimate) - 1e-12)
    half_width = float(np.quantile(sizes, 1 - LEVEL, method="higher"))
    return Evidence(
        estimate - half_width,
        estimate + half_width,
        (beyond + 1) / (n_draws + 1),
        float(np.sqrt(total)),
        df,
        float(np.sqrt(of_seeds)),
        sizes.astype(np.float32),
        float(np.sqrt(alone)),
    )


def seed_spreads(top: FloatArray, base: FloatArray) -> list[Spread]:
    """Variances through seeds of mean top ``[S]`` - mean base ``[N]``, S <= N > 1, with their degrees of freedom."""
    n_top, n_base = top.size, base.size
    if n_top == n_base:
        return [(float((top - base).var(ddof=1)) / n_top, n_top - 1)]
    of_base = float(base.var(ddof=1))
    if n_top == 1:
        return [(of_base * (1 + 1 / n_base), n_base - 1)]
    paired = float((top - base[:n_top] * n_top / n_base).var(ddof=1)) / n_top
    return [(paired, n_top - 1), (of_base * (n_base - n_top) / n_base**2, n_base - 1)]


def shared_variance(draws: FloatArray) -> float:
    """Variance of the mean over seeds ``[draws, seeds]`` through groups: the mean covariance between seeds, from 0."""
    n_seeds = draws.shape[1]
    of_mean, of_each = draws.mean(axis=1).var(), draws.var(axis=0).mean()
    shared = of_mean if n_seeds == 1 else (of_mean - of_each / n_seeds) * n_seeds / (n_seeds - 1)
    return float(max(shared, 0.0))


def _shared_variance_of_difference(top: FloatArray, base: FloatArray) -> float:
    """The same of a difference of means over seeds, ``[draws, S]`` and ``[draws, N]`` with the first S alike, S < N.

    A single ``top`` counts without what its own run adds, taken to be as much as a run of ``base`` adds.
    """
    n_top, n_base = top.shape[1], base.shape[1]
    of_base = shared_variance(base)
    of_top = shared_variance(top) - (max(base.var(axis=0).mean() - of_base, 0.0) if n_top == 1 else 0.0)
    together = top - top.mean(axis=0), base - base.mean(axis=0)
    same_seed = (together[0] * together[1][:, :n_top]).mean(axis=0).sum()
    every = (together[0].sum(axis=1) * together[1].sum(axis=1)).mean()
    between = (every - same_seed) / (n_top * (n_base - 1))
    return float(max(of_top + of_base - 2 * between, 0.0))


def group_weights(groups: Groups, draws: int, rng: np.random.Generator) -> Iterator[NDArray[np.integer]]:
    """How often each group is drawn: blocks ``[at most DRAWS_AT_A_TIME, groups]``, each row with sum ``groups``."""
    for start in range(0, draws, DRAWS_AT_A_TIME):
        yield _BLOCKS.block(groups.count, min(DRAWS_AT_A_TIME, draws - start), rng)


class Blocks:
    """The blocks of weights drawn last, by the state that the generator was in, as many as fit into ``room`` bytes.

    A report asks for the same blocks for gains, baselines and second metrics, and for targets of one data set; drawing
    them took a quarter of it.
    """

    def __init__(self, room: int) -> None:
        """Begin with none."""
        self.room = room
        self.weights: dict[tuple[int, ...], tuple[NDArray[np.integer], Mapping[str, Any]]] = {}
        self.held = 0

    def block(self, count: int, rows: int, rng: np.random.Generator) -> NDArray[np.integer]:
        """How often each of ``count`` groups is drawn in so many rows; ``rng`` goes on as if it had drawn them."""
        state = rng.bit_generator.state
        key = (count, rows, *state["state"].values(), state["has_uint32"], state["uinteger"])
        if key in self.weights:
            weights, rng.bit_generator.state = self.weights[key]
            return weights
        chosen = rng.integers(count, size=(rows, count)) + count * np.arange(rows)[:, None]
        counts = np.bincount(chosen.ravel(), minlength=rows * count).reshape(rows, count)
        weights = counts.astype(np.min_scalar_type(counts.max()))
        weights.setflags(write=False)
        self.weights[key] = weights, rng.bit_generator.state
        self.held += weights.nbytes
        while self.held > self.room:
            self.held -= self.weights.pop(next(iter(self.weights)))[0].nbytes
        return weights


_BLOCKS = Blocks(64 * 2**20)


def _f1_sums(labels: NDArray[Any], groups: Groups, predictions: NDArray[Any]) -> NDArray[np.float32]:
    """Per group ``[groups, (1 + 2 lanes) * classes]``: true counts, then hits of each lane, then its predictions."""
    classes, true = np.unique(labels, return_inverse=True)
    n_classes, cell = classes.size, groups.index * classes.size

    def counts(kept: NDArray[np.bool_], code: NDArray[np.int64]) -> NDArray[np.float32]:
        flat = np.bincount((cell + code)[kept], minlength=groups.count * n_classes)
        return flat.reshape(groups.count, n_classes).astype(np.float32)

    codes = np.clip(np.searchsorted(classes, predictions), 0, n_classes - 1)
    hits = [counts(lane == labels, true) for lane in predictions]
    predicted = [counts(classes[code] == lane, code) for lane, code in zip(predictions, codes, strict=True)]
    return np.concatenate([counts(np.ones(labels.shape, bool), true), *hits, *predicted], axis=1)


def _multilabel_sums(labels: NDArray[Any], groups: Groups, predictions: NDArray[Any]) -> NDArray[np.float32]:
    """As ``_f1_sums``, from a 0 or 1 per class: labels ``[n, classes]`` and predictions ``[lanes, n, classes]``."""

    def counts(held: NDArray[Any]) -> NDArray[np.float32]:
        columns = [np.bincount(groups.index, weights=column, minlength=groups.count) for column in held.T]
        return np.stack(columns, axis=1).astype(np.float32)

    hits = [counts(labels * lane) for lane in predictions]
    return np.concatenate([counts(labels), *hits, *map(counts, predictions)], axis=1)


def _f1_scores(sums: NDArray[np.float32], n_lanes: int) -> FloatArray:
    """Macro-F1 ``[draws, lanes]`` from summed counts (whole numbers below 2^24, so float32 holds them exactly)."""
    table = sums.reshape(len(sums), 1 + 2 * n_lanes, -1)
    true, hits, predicted = table[:, :1], table[:, 1 : 1 + n_lanes], table[:, 1 + n_lanes :]
    present = true > 0
    f1 = 2 * hits / np.maximum(true + predicted, 1)
    n_present = present.sum(axis=2)
    scores: FloatArray = np.sum(f1, axis=2, where=present, dtype=np.float64) / np.where(
        n_present > 0, n_present, np.nan
    )
    return scores


def _moment_sums(labels: NDArray[Any], groups: Groups, predictions: NDArray[Any]) -> FloatArray:
    """Per group ``[groups, 3 + 3 lanes]``: n, x, xx, then y, yy and xy of each lane, both standardised first."""
    x, ys = _standardise(labels), [_standardise(lane) for lane in predictions]
    columns = [np.ones(x.shape), x, x * x, *ys, *(y * y for y in ys), *(x * y for y in ys)]
    return np.stack([np.bincount(groups.index, weights=column, minlength=groups.count) for column in columns], axis=1)


def _moment_scores(sums: FloatArray, n_lanes: int) -> FloatArray:
    """Pearson r ``[draws, lanes]`` from summed moments; NaN where a side does not vary."""
    n, x, xx = (sums[:, [column]] for column in range(3))
    y, yy, xy = (sums[:, 3 + part * n_lanes : 3 + (part + 1) * n_lanes] for part in range(3))
    varies_x, varies_y = xx - x * x / n, yy - y * y / n
    product = varies_x * varies_y
    fine = (varies_x > 1e-10 * n) & (varies_y > 1e-10 * n)
    return np.where(fine, np.clip((xy - x * y / n) / np.sqrt(np.where(fine, product, 1.0)), -1.0, 1.0), np.nan)


def _standardise(values: NDArray[Any]) -> FloatArray:
    """Values with mean 0 and standard deviation 1, or zeros where they do not vary."""
    real = np.asarray(values, dtype=np.float64)
    return np.zeros(real.shape) if np.ptp(real) == 0 else (real - real.mean()) / real.std()
