"""Ridge regression of gains that are centred by target, and how much better features predict families left out.

A grid is an array [intermediate, target]; pairs that it lacks, the diagonal too, are masked. Several outcomes
(simulated grids) may be fitted at once: they share features and weights. Q2 is the share of squares of the pairs left
out that a prediction saves, over all folds; what features add to it is the Q2 with them less that without them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import combinations

import numpy as np

from analysis.importance.family_sums import Layout, Sums, TargetSums, off_products
from analysis.importance.grid import Grid

Array = np.ndarray
SCHEMES = ("target", "intermediate", "both")
PENALTIES = (0.1, 1.0, 10.0, 100.0)  # in units of a block's variance
FEWEST_TRAINING_PAIRS = 10
ALMOST_ZERO = 1e-9
ROUNDING = 1e-12  # of a block's squares over all pairs: what taking away families leaves of a block that is constant
TIED = 1e-12  # a share of errors that rounding can be
USUAL_PENALTY = 10.0  # where too few families are left to tune on
MOST_FAMILIES_IN_PAIRS = 50  # of two left out: 250,000 sets of up to four, each a regression under each penalty
NUMBERS_AT_ONCE = 2_000_000  # of the arrays of regressions that are solved together
Families = tuple[int, ...]


def families_left_out(count: int, scheme: str) -> list[Families]:
    """The families that each fold leaves out: every one, or (``both``) every one and every two."""
    each: list[Families] = [(family,) for family in range(count)]
    return each + list(combinations(range(count), 2)) if scheme == "both" else each


class FamilyFits:
    """Ridge regressions on all features, and on some, once for every fold, with the penalty of each tuned within it.

    The penalty of a fold is the one with the least error on families left out of its own training pairs, with all
    features; it is kept when fewer features are fitted, or permuted blocks take the place of some. A target that was
    trained on with other intermediates keeps the mean of those; a target that was not is centred by all of its own
    pairs, which tells nothing about which intermediate is better.
    """

    def __init__(
        self, grid: Grid, left_out: str, blocks: Mapping[str, Sequence[Array]], outcomes: Array | None = None
    ) -> None:
        """``blocks`` [tasks, tasks, width] of every feature; ``outcomes`` [tasks, tasks, grids] for the grid's own."""
        self.layout = layout = Layout(grid.mask, np.where(grid.mask, grid.weights, 0.0), grid.family, left_out)
        self.widths = {name: [block.shape[-1] for block in of_name] for name, of_name in blocks.items()}
        joined = [block for of_name in blocks.values() for block in of_name]
        columns = np.concatenate(joined, axis=2) if joined else np.empty((*grid.mask.shape, 0))
        several = grid.outcome[..., None] if outcomes is None else outcomes
        self.x, self.y = (layout.centred(np.moveaxis(part, 2, 0)) for part in (columns, several))
        self.x_sums, self.y_sums = (TargetSums(layout, part) for part in (self.x, self.y))
        self.groups, self._weights = layout.groups(), layout.weights.ravel()
        self._flat_x, self._flat_y = (
            np.ascontiguousarray(part.reshape(len(part), layout.mask.size).T) for part in (self.x, self.y)
        )
        self.gram, self.moment = (
            Sums(layout, np.stack([self.weighted_x(group) @ part[group] for group in self.groups]))
            for part in (self._flat_x, self._flat_y)
        )
        self.weight = Sums(layout, np.array([self._weights[group].sum() for group in self.groups]))
        self._n_pairs = Sums(layout, np.array([float(len(group)) for group in self.groups]))
        sets = families_left_out(layout.n_families, left_out)
        self.folds = [left for left in sets if self._is_enough(left, left)]

    def weighted_x(self, pairs: Array) -> Array:
        """Columns [width, pairs] of these places in the flat grid, times their weights."""
        weighted: Array = (self._flat_x[pairs] * self._weights[pairs, None]).T
        return weighted

    # Which pairs a fold trains on and tests.

    def tested_pairs(self, families: Families, left: Families) -> Array:
        """Places in the flat grid of the pairs of ``families`` that are tested where ``left`` do not train.

        An intermediate is tested with the targets that keep a training pair, and so a mean.
        """
        first, other, count = families[0], families[-1], self.layout.n_families
        if self.layout.scheme == "both":
            crossed = [self.groups[first * count + other]] + [self.groups[other * count + first]] * (first != other)
            return np.asarray(np.concatenate(crossed))
        pairs: Array = self.groups[first]
        if self.layout.scheme == "target":
            return pairs
        n_trained = self.x_sums.counts(np.array([left]))[0]
        kept: Array = pairs[n_trained[pairs % len(n_trained)] > 0]
        return kept

    def _is_enough(self, families: Families, left: Families) -> bool:
        trained = self._n_pairs.without(np.array([left]))[0]
        return bool(round(trained) >= FEWEST_TRAINING_PAIRS and len(self.tested_pairs(families, left)))

    # Fits.

    def products(self, left: Array) -> tuple[Array, Array]:
        """X'WX [sets, width, width] and X'Wy [sets, width, grids] of the pairs trained on, whose weights sum to 1."""
        gram, moment = self.gram.without(left), self.moment.without(left)
        if self.layout.has_own_means:
            of_x, of_y = self.x_sums.trained(left), self.y_sums.trained(left)
            gram -= off_products(of_x, of_x)
            moment -= off_products(of_x, of_y)
        weight = self.weight.without(left)[:, None, None]
        return gram / weight, moment / weight

    def slopes(self, left: Array, names: Sequence[str] | None = None) -> Array:
        """Slopes [sets, penalties, width, grids] of the features ``names``, and 0 of all others."""
        chosen, widths = self.columns_of(list(self.widths) if names is None else names)
        gram, moment = self.products(left)
        gram, moment = gram[:, chosen][:, :, chosen], moment[:, chosen]
        squares = np.einsum("scc->sc", gram)
        unit = units(squares, widths, np.diag(self.gram.whole)[chosen] / self.weight.whole)
        scaled, target = gram * unit[:, :, None] * unit[:, None, :], moment * unit[:, :, None]
        made = np.zeros((len(left), len(PENALTIES), len(self.x), len(self.y)))
        for place, penalty in enumerate(PENALTIES):
            solved = np.linalg.solve(scaled + penalty * np.eye(len(chosen)), target)
            made[:, place, chosen] = solved * unit[:, :, None]
        return made

    def columns_of(self, names: Sequence[str]) -> tuple[Array, list[int]]:
        """The places of the columns of these features, and the widths of their blocks."""
        starts = dict(zip(self.widths, np.cumsum([0, *map(sum, self.widths.values())])[:-1], strict=True))
        places = [np.arange(starts[name], starts[name] + sum(self.widths[name])) for name in names]
        widths = [width for name in names for width in self.widths[name]]
        return np.concatenate([np.empty(0, dtype="int64"), *places]), widths

    def errors(self, pairs: Array, slopes: Array, means: tuple[Array, Array] | None) -> Array:
        """Weighted squares [penalties, grids] that slopes [penalties, width, grids] miss of pairs of the flat grid.

        ``means`` [width, tasks] and [grids, tasks] are those of the targets' reference pairs, if not their own.
        """
        x, y = self._flat_x[pairs], self._flat_y[pairs]
        if means is not None:
            x, y = (part - mean.T[pairs % len(self.layout.mask)] for part, mean in zip((x, y), means, strict=True))
        missed = y - x @ slopes
        squares: Array = np.einsum("r,prg->pg", self._weights[pairs], missed**2)
        return squares

    def _in_parts(self, sets: Sequence[Families]) -> Iterator[tuple[list[int], Array]]:
        """Places of sets of one size, and the sets [sets, size], so many that their arrays stay small."""
        width, grids = len(self.x), len(self.y)
        each = width**2 * 3 + width * grids * len(PENALTIES) + len(self.layout.mask) * (width + grids) * 3
        at_once = max(1, NUMBERS_AT_ONCE // each)
        for size in sorted({len(left) for left in sets}):
            places = [place for place, left in enumerate(sets) if len(left) == size]
            for start in range(0, len(places), at_once):
                part = places[start : start + at_once]
                yield part, np.array([sets[place] for place in part])

    def _means(self, left: Array) -> list[tuple[Array, Array] | None]:
        """Of every set the means of the pairs trained on, where they differ from those of all pairs."""
        if not self.layout.has_own_means:
            return [None] * len(left)
        return list(zip(self.x_sums.trained(left).means, self.y_sums.trained(left).means, strict=True))

    @cached_property
    def penalties(self) -> Array:
        """Places [folds, grids] in PENALTIES of those with the least error within the folds' own training pairs."""
        splits: dict[Families, list[tuple[int, Families]]] = defaultdict(list)
        for outer, left in enumerate(self.folds):
            for inner in families_left_out(self.layout.n_families, self.layout.scheme):
                together = tuple(sorted({*left, *inner}))
                # Where too few pairs are left, as of all families, there is nothing to fit.
                if not set(left) & set(inner) and self._is_enough(inner, together):
                    splits[together].append((outer, inner))
        sets, errors = list(splits), np.zeros((len(self.folds), len(PENALTIES), len(self.y)))
        is_tuned = np.zeros(len(self.folds), dtype=bool)
        of_folds = dict(self._reference_means()) if self.layout.scheme == "both" else {}
        for places, part in self._in_parts(sets):
            slopes, means = self.slopes(part), self._means(part)
            for row, place in enumerate(places):
                for outer, inner in splits[sets[place]]:
                    is_tuned[outer] = True
                    pairs = self.tested_pairs(inner, sets[place])
                    errors[outer] += self.errors(pairs, slopes[row], of_folds.get(outer, means[row]))
        # Of penalties that differ by rounding alone, as where no feature tells pairs apart, the smallest.
        least = (errors <= errors.min(1, keepdims=True) * (1 + TIED)).argmax(1)
        return np.where(is_tuned[:, None], least, PENALTIES.index(USUAL_PENALTY))

    def _reference_means(self) -> Iterator[tuple[int, tuple[Array, Array] | None]]:
        for places, left in self._in_parts(self.folds):
            yield from zip(places, self._means(left), strict=True)

    # What the folds say.

    @cached_property
    def total(self) -> Array:
        """Weighted squares [grids] of all pairs tested about the training means, which are 0 after centring."""
        total = np.zeros(len(self.y))
        still = np.zeros((1, len(self.x), len(self.y)))
        for place, means in self._test_means():
            left = self.folds[place]
            total += self.errors(self.tested_pairs(left, left), still, means)[0]
        return total

    def _test_means(self) -> Iterator[tuple[int, tuple[Array, Array] | None]]:
        """Of every fold the means its tested pairs are centred by: with pairs of families, those of all pairs."""
        if self.layout.scheme == "intermediate":
            yield from self._reference_means()
        else:
            yield from ((place, None) for place in range(len(self.folds)))

    def q2(self, names: Sequence[str] | None = None) -> Array:
        """Q2 [grids] of all features or those of ``names``; NaN where nothing was left out."""
        missed, means = np.zeros(len(self.y)), dict(self._test_means())
        for places, left in self._in_parts(self.folds):
            slopes = self.slopes(left, names)
            for row, place in enumerate(places):
                pairs = self.tested_pairs(self.folds[place], self.folds[place])
                errors = self.errors(pairs, slopes[row], means[place])
                missed += np.take_along_axis(errors, self.penalties[place][None], 0)[0]
        return saved(missed, self.total)

    def r2_train(self) -> float:
        """Mean R2 of the folds on their own training pairs, of the first grid."""
        shares = []
        for places, left in self._in_parts(self.folds):
            slopes, means = self.slopes(left), self._means(left)
            for row, place in enumerate(places):
                pairs, own = self.trained_pairs(left[row]), slopes[row, self.penalties[place][:1]]
                missed, total = (self.errors(pairs, part, means[row])[0, 0] for part in (own, 0 * own))
                shares.append(saved(missed, total))
        return float(np.mean(shares)) if shares else float("nan")

    def trained_pairs(self, left: Array) -> Array:
        """Places in the flat grid of the pairs that are trained on where these families are left out."""
        is_left, scheme = np.isin(self.layout.family, left), self.layout.scheme
        kept = self.layout.mask.copy()
        if scheme != "target":
            kept[is_left] = False
        if scheme != "intermediate":
            kept[:, is_left] = False
        return np.flatnonzero(kept)


def units(squares: Array, widths: Sequence[int], whole: Array) -> Array:
    """One over the standard deviation of each column's block [..., width]; 0 for blocks that do not vary.

    ``squares`` [..., width] are the mean squares of the pairs trained on, ``whole`` [..., width] those of all pairs.
    """
    starts = np.cumsum([0, *widths])[:-1]
    own, of_all = (np.add.reduceat(part, starts, axis=-1) if widths else part for part in (squares, whole))
    varies = (own > ALMOST_ZERO**2) & (own > ROUNDING * of_all)
    return np.repeat(np.where(varies, 1 / np.sqrt(np.where(varies, own, 1.0)), 0.0), widths, axis=-1)


def saved(missed: Array, total: Array) -> Array:
    """The share of squares [..., grids] that a prediction saves; NaN where nothing was left out."""
    with np.errstate(invalid="ignore", divide="ignore"):
        share: Array = 1 - missed / total
    return share


def why_no_fold(grid: Grid, left_out: str) -> str | None:
    """Why no Q2 is defined when families are left out in this role; None if one is."""
    count = len(grid.families)
    if left_out == "both" and count > MOST_FAMILIES_IN_PAIRS:
        most = MOST_FAMILIES_IN_PAIRS
        return f"leaving out pairs of {count} families is too much to compute; {most} are the most"
    fits = FamilyFits(grid, left_out, {})
    if not fits.folds:
        return f"leaving families out as {left_out} leaves too few pairs to train on"
    least = ALMOST_ZERO**2 * grid.weights[grid.mask].sum()  # what rounding leaves of equal gains is below it
    return None if fits.total[0] > least else "the gains of each target are all the same"
