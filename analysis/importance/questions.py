"""Questions that a study declares before its first cell: for each its test, its interval, and what could be seen.

A gain of intermediate i on target j, in points (of correlations 100 times the difference of Fisher's z), is

    y_ij = m_j + u_i + v_ij + noise,

weighed by 1 / squared standard error, a weight for each target. m is free; what is random is said with each question.

- ``unrelated``: the mean u of tasks about empathy (themes direct and abstract) less that of unrelated ones. Tasks and
  families are random; the test is that of ``analysis.ratings.themes``, and the interval holds what it does not reject.
- ``controls``: the mean gain from tasks about empathy less that of each control onto the same target. Families on
  either side are random: the variances of the mean over families of targets and of intermediates (jackknife) are added,
  and Student's t has the degrees of freedom of the side with fewer.
- ``ratings``: the slopes of the mixed model (``analysis.importance.mixed``), corrected there.
- ``alike``: the slope of v on the similarity of the two adapters' weights (cosine), in points per standard deviation.
- ``family``: by how much v is larger where both tasks are of one family, and where both have one theme, side by side.
- ``pair``: the standard deviation of v itself, which no sum of what either task gives or takes can explain. Test groups
  are cut into halves at random; residuals of one seed on one half times those of another seed on the other half share
  neither a training run nor test items, so that their mean is the variance of v, whatever the noise is; which rows are
  trained on is the same for all seeds. A family of intermediates counts once: its sum changes its sign in every
  combination of families (or draws of them), one-sided. Where targets take in different measure what intermediates
  give, v is of the pair, too: beside the test stands its standard deviation with a slope of each target on u taken
  out, an estimate without a test, since u comes of the same data.

Slopes come of least squares with both roles free. Their error is a jackknife over families of targets, with Student's
t of families - 1 (Cameron, Gelbach and Miller 2008; MacKinnon, Nielsen and Webb 2023: CV3). The parts of a question are
corrected by Holm; questions are not corrected for one another, since each was declared.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtri, stdtr, stdtrit

from adapters_store.roles import NAMED_BY_INTERMEDIATE, TRANSFER
from adapters_store.store import Store
from analysis.gains.cells import Manifest, Predictions, columns, planned_cells
from analysis.gains.corrections import holm
from analysis.gains.significance import LEVEL, FloatArray, Groups
from analysis.importance.grid import not_rejected
from analysis.importance.mixed_test import SIGNED
from analysis.ratings.themes import SEED, Chance, Classes, numbers_of
from analysis.tables import Declared, framed
from tasks.metrics import MEASURES

UNRELATED, CONTROL, RATINGS, ALIKE, FAMILY, PAIR = "unrelated", "controls", "ratings", "alike", "family", "pair"
QUESTIONS = {
    UNRELATED: "Do intermediates about empathy give more than unrelated ones?",
    CONTROL: "Do intermediates about empathy give more than controls?",
    RATINGS: "Do gains follow the ratings of tasks?",
    ALIKE: "Do two tasks help each other more, the more alike their adapters' weights are?",
    FAMILY: "Is what transfers the family of data, or the theme?",
    PAIR: "Is there anything of the pair, beyond the sum of what either task gives and takes?",
}
ABOUT_EMPATHY, UNRELATED_THEME = ("direct", "abstract"), "unrelated"
FEWEST_FAMILIES, ROUNDING = 3, 1e-12
DRAWN, MOST_FLIPS, SPLITS = 1999, 2**14, 20
POWER = 0.8
STEPS, WIDEST = 121, 3.0  # differences that are tried for an interval, and how far, in reaches of a draw
ANSWERS = {
    "question": Declared("str", "name of the declared question"),
    "part": Declared("str", "which of its tests"),
    "unit": Declared("str", "of estimate, interval and smallest visible effect"),
    "estimate": Declared("float64", "what is asked for"),
    "low": Declared("float64", "lower end of its 95 % interval"),
    "high": Declared("float64", "its upper end"),
    "p": Declared("float64", "that the truth is 0; of ratings corrected for all of them; of pair one-sided"),
    "p_corrected": Declared("float64", "corrected by Holm for the parts of the question"),
    "smallest": Declared("float64", "smallest effect that such a study would see with a probability of .80"),
    "units": Declared("Int64", "families that the error comes from; of unrelated, tasks"),
    "why_not": Declared("str", "why there is no answer; else empty"),
}
WITHOUT = {"without": Declared("str", "family whose tasks are left out in both roles"), **ANSWERS}


class PartAnswer(NamedTuple):
    """A test of a part of a question; undefined numbers where it could not be made."""

    part: str
    unit: str
    estimate: float = np.nan
    low: float = np.nan
    high: float = np.nan
    p: float = np.nan
    smallest: float = np.nan
    units: int = 0
    why_not: str = ""


@dataclass(frozen=True)
class Rectangle:
    """Gains [intermediates, targets] in points, undefined where there is no pair, and what is known of the tasks.

    ``error`` are their standard errors, ``family`` and ``theme`` are of every task by its id, ``similarity`` is of the
    pairs, ``controls`` [targets] are gains by control. ``halves`` [splits, 2, seeds, intermediates, targets] are scores
    in points on random halves of the test groups.
    """

    intermediates: tuple[str, ...]
    targets: tuple[str, ...]
    points: FloatArray
    error: FloatArray
    family: Mapping[str, str]
    theme: Mapping[str, str]
    similarity: FloatArray
    controls: Mapping[str, FloatArray]
    halves: FloatArray

    @property
    def mask(self) -> NDArray[np.bool_]:
        """Which pairs there are."""
        return np.isfinite(self.points)

    @cached_property
    def weights(self) -> FloatArray:
        """A weight for every target [targets]: 1 / mean squared error of its gains, 1 on average."""
        is_usable = self.mask & np.isfinite(self.error)
        squares = (np.where(is_usable, self.error, 0) ** 2).sum(axis=0) / np.maximum(is_usable.sum(axis=0), 1)
        weights: FloatArray = np.divide(1.0, squares, out=np.zeros(len(squares)), where=squares > 0)
        return weights / float(weights.mean()) if weights.any() else np.ones(len(weights))

    def families(self, tasks: Sequence[str]) -> NDArray[np.int64]:
        """The families of tasks, as numbers from 0."""
        return numbers_of([self.family[task] for task in tasks])

    def without(self, family: str) -> "Rectangle":
        """The layout without the tasks of a family, in both roles."""
        rows, of_targets = (
            np.array([self.family[task] != family for task in tasks]) for tasks in (self.intermediates, self.targets)
        )
        cut = np.ix_(rows, of_targets)
        return replace(
            self,
            intermediates=tuple(np.array(self.intermediates)[rows].tolist()),
            targets=tuple(np.array(self.targets)[of_targets].tolist()),
            points=self.points[cut],
            error=self.error[cut],
            similarity=self.similarity[cut],
            controls={name: values[of_targets] for name, values in self.controls.items()},
            halves=self.halves[:, :, :, rows][..., of_targets],
        )

    @cached_property
    def effects(self) -> FloatArray:
        """What every intermediate gives [intermediates], in points, beside targets that differ; their mean is 0."""
        design, root = _both_roles(self.mask, self.weights)
        solved = np.linalg.lstsq(design, self.points[self.mask] * root, rcond=None)[0]
        effects: FloatArray = np.asarray(solved[: len(self.intermediates)], dtype=np.float64)
        return effects - float(effects.mean())


def _both_roles(mask: NDArray[np.bool_], weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """A row for each pair of the mask with a column for each intermediate and each target, weighed by the roots.

    Beside it the roots [pairs] of the targets' weights.
    """
    rows, of_targets = np.nonzero(mask)
    root = np.sqrt(weights)[of_targets]
    roles = np.concatenate([np.eye(mask.shape[0])[rows], np.eye(mask.shape[1])[of_targets]], axis=1)
    return roles * root[:, None], root


def _basis(columns: FloatArray) -> FloatArray:
    """An orthonormal basis of the space of the columns, of which there are fewer than rows."""
    sizes, axes = np.linalg.eigh(columns.T @ columns)
    is_kept = sizes > sizes.max(initial=0) * 1e-10
    return np.asarray(columns @ (axes[:, is_kept] / np.sqrt(sizes[is_kept])))


def smallest_visible(error: float, df: float, *, one_sided: bool = False) -> float:
    """The effect that Student's t at 5 % finds with a probability of .80, by an error with these degrees of freedom."""
    return float(error * (stdtrit(df, 1 - LEVEL / (1 if one_sided else 2)) + stdtrit(df, POWER)))


def _by_t(part: str, unit: str, estimate: float, error: float, families: int) -> PartAnswer:
    """The answer by Student's t of families - 1 degrees of freedom."""
    df = families - 1
    half = float(stdtrit(df, 1 - LEVEL / 2)) * error
    p = float(2 * stdtr(df, -abs(estimate) / error)) if error > 0 else 1.0
    seen = smallest_visible(error, df)
    return PartAnswer(part, unit, estimate, estimate - half, estimate + half, p, seen, families)


def jackknifed_slopes(layout: Rectangle, features: FloatArray) -> tuple[FloatArray, FloatArray] | None:
    """Slopes of gains on features [features, intermediates, targets], both roles free, and their standard errors.

    The error is a jackknife over families of targets; none where a slope is not known without some family.
    """
    mask, family = layout.mask, layout.families(layout.targets)
    design, root = _both_roles(mask, layout.weights)
    values, of_target = features[:, mask].T * root[:, None], family[np.nonzero(mask)[1]]
    gains, solved = layout.points[mask] * root, []
    for left_out in range(-1, int(family.max()) + 1):
        kept = of_target != left_out
        basis, part = _basis(design[kept]), values[kept]
        free = part - basis @ (basis.T @ part)  # orthogonal to the basis, so that gains need not be freed too
        if np.linalg.matrix_rank(free, tol=1e-8 * max(np.abs(part).max(initial=0), 1)) < len(features):
            return None
        solved.append(np.linalg.lstsq(free, gains[kept], rcond=None)[0])
    whole, without = solved[0], np.stack(solved[1:])
    families = len(without)
    return whole, np.sqrt((families - 1) / families * ((without - whole) ** 2).sum(axis=0))


def over_unrelated(layout: Rectangle, *, draws: int = DRAWN, seed: int = SEED) -> Iterator[PartAnswer]:
    """Tasks about empathy less unrelated ones, as intermediates."""
    part, unit = "about empathy less unrelated", "points"
    names = {**dict.fromkeys(ABOUT_EMPATHY, 0), UNRELATED_THEME: 1}
    kinds = np.array([names.get(layout.theme[task], 2 if layout.theme[task] else -1) for task in layout.intermediates])
    if not {0, 1} <= set(kinds.tolist()):
        yield PartAnswer(part, unit, why_not="no intermediates of both kinds")
        return
    kept = np.flatnonzero(kinds >= 0)
    kept = kept[np.argsort(kinds[kept], kind="stable")]
    classes = Classes(numbers_of(kinds[kept].tolist()), layout.families([layout.intermediates[k] for k in kept]))
    if not classes.is_testable or classes.of_family.max() + 1 < FEWEST_FAMILIES:
        yield PartAnswer(part, unit, why_not=f"fewer than {FEWEST_FAMILIES} families of intermediates")
        return
    counted = layout.mask & (layout.weights > 0)
    design, _ = _both_roles(counted, layout.weights)
    if np.linalg.matrix_rank(design) < len(counted) + counted.any(axis=0).sum() - 1:
        yield PartAnswer(part, unit, why_not="no chain of finished pairs ties all intermediates to one another")
        return
    # The first set is observed, the second has lost the estimated difference, so that its variance is that of either
    # kind, and the others have lost a difference each: the interval holds those after which none is left to be seen.
    effects, is_about = layout.effects[kept], (kinds[kept] == 0).astype(float)
    number = classes.contrasts.index((0, 1))
    difference = float(classes.fits((effects - effects.mean())[:, None]).differences[number, 0])

    def chance(lost: FloatArray) -> Chance:
        sets = effects[:, None] - is_about[:, None] * lost
        return classes.chance(classes.fits(sets - sets.mean(axis=0)), draws, seed)

    first = chance(np.array([0.0, difference]))
    reach = float(first.differences[number, 1])
    tried = np.unique([0.0, *(difference + reach * np.linspace(-WIDEST, WIDEST, STEPS))])
    low, high = not_rejected(tried, chance(tried).p[number]) if reach > 0 else (difference, difference)
    seen = reach * (1 + float(ndtri(POWER) / ndtri(1 - LEVEL / 2)))
    p = float(first.p[number, 0])
    yield PartAnswer(part, unit, difference, low, high, p, seen, len(kept))


def over_controls(layout: Rectangle) -> Iterator[PartAnswer]:
    """The mean gain from tasks about empathy less that of each control, over families of targets."""
    about = np.array([layout.theme[task] in ABOUT_EMPATHY for task in layout.intermediates])
    of_targets, of_rows = layout.families(layout.targets), layout.families(layout.intermediates)
    sources = np.unique(of_rows[about])
    for name, control in layout.controls.items():
        part = f"about empathy less {name}"
        means = _family_means(layout, about, control, of_targets)
        if min(len(means), len(sources)) < FEWEST_FAMILIES:
            yield PartAnswer(
                part, "points", why_not=f"fewer than {FEWEST_FAMILIES} families of targets or intermediates"
            )
            continue
        # Two sides are drawn from more, and the variance of the mean through either is added, as in ``lower_bound``.
        without = [_family_means(layout, about & (of_rows != k), control, of_targets).mean() for k in sources]
        through_rows = (len(sources) - 1) / len(sources) * ((np.array(without) - means.mean()) ** 2).sum()
        error = float(np.sqrt(means.var(ddof=1) / len(means) + through_rows))
        yield _by_t(part, "points", float(means.mean()), error, min(len(means), len(sources)))


def _family_means(
    layout: Rectangle, rows: NDArray[np.bool_], control: FloatArray, of_targets: NDArray[np.int64]
) -> FloatArray:
    """Mean gains from some intermediates less a control's [families of targets], of targets where both are known."""
    sums, counts = np.where(layout.mask, layout.points, 0)[rows].sum(axis=0), layout.mask[rows].sum(axis=0)
    less = sums / np.where(counts > 0, counts, np.nan) - control
    return np.array([np.nanmean(less[of_targets == k]) for k in np.unique(of_targets[np.isfinite(less)])])


def of_ratings(slopes: pd.DataFrame) -> Iterator[PartAnswer]:
    """The slopes on ratings of the mixed model."""
    for row in slopes[slopes.question == SIGNED].itertuples():
        tested = "" if np.isfinite(row.p) else str(row.why)
        df = 0 if pd.isna(row.df) else int(row.df) + 1
        yield PartAnswer(row.title, "points a step", row.slope, row.low, row.high, row.p, row.detectable, df, tested)


def _slopes(layout: Rectangle, features: Mapping[str, FloatArray], unit: str) -> Iterator[PartAnswer]:
    families, why_not = len(set(layout.families(layout.targets).tolist())), ""
    if families < FEWEST_FAMILIES:
        why_not = f"fewer than {FEWEST_FAMILIES} families of targets"
    elif (slopes := jackknifed_slopes(layout, np.stack(list(features.values())))) is None:
        why_not = "it hangs on a single family of targets"
    else:
        for part, estimate, error in zip(features, *slopes, strict=True):
            yield _by_t(part, unit, float(estimate), float(error), families)
    yield from (PartAnswer(part, unit, why_not=why_not) for part in features if why_not)


def alike(layout: Rectangle) -> Iterator[PartAnswer]:
    """The slope of gains on how alike the weights of both adapters are."""
    part, unit = "similarity of weights", "points a standard deviation"
    values = layout.similarity[layout.mask]
    if not values.size or not np.isfinite(values).all() or np.ptp(values) == 0:
        yield PartAnswer(part, unit, why_not="not measured for every pair: empathy-transfer study similarities")
        return
    yield from _slopes(layout, {part: (layout.similarity - values.mean()) / values.std()}, unit)


def of_family(layout: Rectangle) -> Iterator[PartAnswer]:
    """How much more tasks give within their family, and within their theme."""
    same = {
        "same family": [[layout.family[i] == layout.family[j] for j in layout.targets] for i in layout.intermediates],
        "same theme": [
            [layout.theme[i] == layout.theme[j] != "" for j in layout.targets] for i in layout.intermediates
        ],
    }
    yield from _slopes(layout, {part: np.array(values, dtype=float) for part, values in same.items()}, "points")


def of_pair(layout: Rectangle) -> Iterator[PartAnswer]:
    """The standard deviation of what belongs to the pair alone, over families of intermediates."""
    part, unit = "effects of pairs", "points, standard deviation"
    seeds, mask = replicated(layout)
    has_pairs = np.asarray(mask.any(axis=1))
    family = layout.families([task for task, has in zip(layout.intermediates, has_pairs, strict=True) if has])
    families = int(family.max(initial=-1)) + 1
    if len(seeds) < 2 or families < FEWEST_FAMILIES:
        few = f"fewer than {FEWEST_FAMILIES} families of intermediates" if len(seeds) > 1 else "it takes two seeds"
        yield PartAnswer(part, unit, why_not=few)
        return
    halves, mask = layout.halves[:, :, seeds][..., mask], mask[has_pairs]
    sums, scale = pair_sums(halves, mask, layout.weights, family)
    if scale < ROUNDING * mask.sum():
        yield PartAnswer(part, unit, why_not="too few pairs have two seeds")
        return
    estimate = sums.sum() / scale
    error = float(np.sqrt(families / (families - 1) * ((sums - sums.mean()) ** 2).sum()) / scale)
    half = float(stdtrit(families - 1, 1 - LEVEL / 2)) * error
    seen = smallest_visible(error, families - 1, one_sided=True)
    middle, low, high, visible = np.sqrt(np.maximum([estimate, estimate - half, estimate + half, seen], 0)).tolist()
    yield PartAnswer(part, f"{unit}; p one-sided", middle, low, high, flipped_p(sums), visible, families)
    sums, scale = pair_sums(halves, mask, layout.weights, family, are_slopes_free=True)
    if scale > ROUNDING * mask.sum():
        freed = float(np.sqrt(max(sums.sum() / scale, 0)))
        yield PartAnswer(f"{part} beyond slopes of targets", unit, freed, units=families)


def replicated(layout: Rectangle) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The seeds, two at least, whose common pairs [intermediates, targets] have most products of two seeds.

    So a seed of which a part is trained takes nothing away from those that are whole. Nothing where there is one seed.
    """
    is_done = layout.mask & np.isfinite(layout.halves).all(axis=(0, 1)) & bool(layout.halves.size)
    order = np.argsort(-is_done.sum(axis=(1, 2)), kind="stable")
    best, most = (order[:0], np.zeros(layout.mask.shape, dtype=np.bool_)), 0
    for count in range(2, len(order) + 1):
        common = np.asarray(is_done[order[:count]].all(axis=0), dtype=np.bool_)
        if (products := int(common.sum()) * count * (count - 1)) > most:
            best, most = (order[:count], common), products
    return best


def pair_sums(
    halves: FloatArray,
    mask: NDArray[np.bool_],
    weights: FloatArray,
    family: NDArray[np.int64],
    *,
    are_slopes_free: bool = False,
) -> tuple[FloatArray, float]:
    """Sums [families] of products of residuals, and what they add up to where effects of pairs have a variance of 1.

    ``halves`` [splits, 2, seeds, pairs] are of the pairs of the mask; ``family`` is of intermediates. Residuals are of
    both roles and, where slopes are free, of each target's slope on the mean effects of intermediates, too.
    """
    design, root = _both_roles(mask, weights)
    scaled, count = halves * root, mask.shape[0]
    if are_slopes_free:
        given = np.linalg.lstsq(design, scaled.mean(axis=(0, 1, 2)), rcond=None)[0][:count]
        of_pairs = (given - given.mean())[np.nonzero(mask)[0], None]
        design = np.concatenate([design, design[:, count:] * of_pairs], axis=1)
    basis = _basis(design)
    free = scaled - (scaled @ basis) @ basis.T
    first, second = free[:, 0], free[:, 1]
    n_seeds = halves.shape[2]
    products = first.sum(axis=1) * second.sum(axis=1) - (first * second).sum(axis=1)  # of two seeds, never of one
    of_pair = products.mean(axis=0) / (n_seeds * (n_seeds - 1))
    of_pair[np.abs(of_pair) < ROUNDING] = 0  # what is left of nothing, in points squared
    of_family = family[np.nonzero(mask)[0]]
    sums: FloatArray = np.bincount(of_family, of_pair, minlength=int(family.max()) + 1).astype(np.float64)
    return sums, float(((1 - (basis**2).sum(axis=1)) * root**2).sum())


def flipped_p(sums: FloatArray, *, seed: int = SEED) -> float:
    """Share of the changes of sign of sums [families], the observed one among them, whose total is as large."""
    if 2 ** len(sums) <= MOST_FLIPS:
        signs = np.array(list(product((1.0, -1.0), repeat=len(sums))))
    else:
        drawn = np.random.default_rng(seed).choice((1.0, -1.0), size=(MOST_FLIPS - 1, len(sums)))
        signs = np.concatenate([np.ones((1, len(sums))), drawn])
    return float((signs @ sums >= sums.sum() - 1e-12 * np.abs(sums).sum()).mean())


def answers(layout: Rectangle, names: Sequence[str], slopes: pd.DataFrame | None = None) -> pd.DataFrame:
    """One row per part of every question, with the columns ANSWERS; ``slopes`` are those of the mixed model."""
    answer_of: dict[str, Callable[[Rectangle], Iterator[PartAnswer]]] = {
        UNRELATED: over_unrelated,
        CONTROL: over_controls,
        RATINGS: lambda _: iter(()) if slopes is None else of_ratings(slopes),
        ALIKE: alike,
        FAMILY: of_family,
        PAIR: of_pair,
    }
    rows: list[dict[str, Any]] = []
    for name in names:
        parts = list(answer_of[name](layout))
        p = [part.p for part in parts]
        corrected = p if name == RATINGS else holm(p)
        rows += [
            {"question": name, **part._asdict(), "p_corrected": p_of_part}
            for part, p_of_part in zip(parts, corrected, strict=True)
        ]
    return framed(pd.DataFrame(rows, columns=list(ANSWERS)), ANSWERS)


def without_families(layout: Rectangle, names: Sequence[str]) -> pd.DataFrame:
    """The answers without each family, with the columns WITHOUT; ratings are left out."""
    parts = [
        answers(layout.without(family), [name for name in names if name != RATINGS]).assign(without=family)
        for family in dict.fromkeys(layout.family[task] for task in (*layout.intermediates, *layout.targets))
    ]
    return framed(pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(), WITHOUT)


def layout_of(
    store: Store,
    manifest: Manifest,
    gains: pd.DataFrame,
    controls: pd.DataFrame,
    similarities: pd.DataFrame,
    tasks: pd.DataFrame,
) -> Rectangle:
    """The layout of a stored study in the full setting; ``tasks`` has the columns of ``Results.tasks``."""
    full = gains[(gains.setting == "full") & gains.points.notna()]  # a target without a gain is no target yet
    intermediates, targets = (tuple(dict.fromkeys(full[role])) for role in ("intermediate", "target"))
    is_r = full.metric == "pearson_r"
    points = full.points.where(~is_r, 100 * full.fisher_z)
    slope = 1 - ((full.score + full.baseline) / 2) ** 2  # of the inverse of Fisher's z
    error = full.standard_error.where(~is_r, full.standard_error / slope)

    def wide(values: pd.Series) -> FloatArray:
        frame = pd.DataFrame({"i": full.intermediate, "t": full.target, "v": values})
        square = frame.pivot(index="i", columns="t", values="v").reindex(index=intermediates, columns=targets)
        return np.asarray(square, dtype=np.float64)

    of_pairs = full[["intermediate", "target"]].merge(similarities, how="left", on=["intermediate", "target"])
    of_full = controls[controls.setting == "full"]
    given = of_full.points.where(of_full.metric != "pearson_r", 100 * of_full.fisher_z)
    names = of_full.intermediate.where(of_full.control.isin(NAMED_BY_INTERMEDIATE), of_full.control)
    by_control = {
        name: given[names == name].groupby(of_full.target).mean().reindex(targets).to_numpy()
        for name in dict.fromkeys(names)
    }
    return Rectangle(
        intermediates,
        targets,
        wide(points),
        wide(error),
        dict(zip(tasks.task, tasks.family, strict=True)),
        dict(zip(tasks.task, tasks.theme, strict=True)),
        wide(of_pairs.weight_similarity.set_axis(full.index)),
        by_control,
        _halves(store, manifest, intermediates, targets),
    )


def _halves(store: Store, manifest: Manifest, intermediates: Sequence[str], targets: Sequence[str]) -> FloatArray:
    """The scores of ``Rectangle.halves``; no splits where a study has fewer than two seeds."""
    planned = planned_cells(store, manifest)
    cells = planned[(planned.role == TRANSFER) & (planned.setting == "full") & (planned.status == "done")]
    cells = cells[cells.intermediate.isin(intermediates) & cells.target.isin(targets)]
    seeds = sorted(cells.seed.unique())
    if len(seeds) < 2:
        return np.empty((0, 2, len(seeds), len(intermediates), len(targets)))
    halves = np.full((SPLITS, 2, len(seeds), len(intermediates), len(targets)), np.nan)
    for column in columns(store, cells, draws=SPLITS, seed=SEED, scored=_scored_halves):
        for lane, position in column.lanes.items():
            where = seeds.index(lane.seed), intermediates.index(str(lane.intermediate)), targets.index(column.target)
            halves[:, :, *where] = column.draws[:, position].reshape(SPLITS, 2)
    return halves


def _scored_halves(
    metric: str, shown: Predictions, decided: NDArray[Any], groups: Groups, draws: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Scores ``[lanes]``, and in place of resampled ones those on the halves of ``draws`` cuts ``[2 draws, lanes]``."""
    measure = MEASURES[metric]
    scores = np.full((2 * draws, len(decided)), np.nan)
    for number in range(draws):
        is_first = (rng.permutation(groups.count) % 2 == 0)[groups.index]
        for half, kept in enumerate((is_first, ~is_first)):
            values = np.array([measure(shown.labels[kept], lane[kept]) for lane in decided])
            scores[2 * number + half] = 100 * (np.arctanh(values) if metric == "pearson_r" else values)
    return np.array([measure(shown.labels, lane) for lane in decided]), scores
