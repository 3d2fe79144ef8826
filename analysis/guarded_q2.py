"""How much better families that were left out are predicted with some features than without them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analysis.guarded_design import Grid
from analysis.guarded_fit import ALMOST_ZERO, PENALTIES, FoldFit, folds

Array = np.ndarray
USUAL_PENALTY = 10.0  # where too few families are left to tune on


class Added:
    """What further blocks add to fixed ones in Q2: the share of squares that a prediction saves, over all folds.

    Squares are weighted, pooled over the folds and taken about the mean of the training pairs. The penalty of each
    fold is tuned once, on families left out of its own training pairs, with the further blocks as given here; it is
    kept when other blocks take their place.
    """

    def __init__(
        self,
        grid: Grid,
        left_out: str,
        fixed: Sequence[Array],
        further: Sequence[Array],
        outcomes: Array | None = None,
    ) -> None:
        """``outcomes`` [tasks, tasks, grids] stand for the grid's own, to test many at once."""
        several = grid.outcome[..., None] if outcomes is None else outcomes
        parts = folds(grid.mask, grid.family, left_out)
        self.fits = [FoldFit(one, several, grid.weights, fixed) for one in parts]
        self.penalties = [_tuned(grid, left_out, one.train, fixed, further, several) for one in parts]
        self.total = sum((one.total() for one in self.fits), np.zeros(several.shape[2]))
        self.q2_without = self.q2([]) if len(fixed) else np.zeros((1, several.shape[2]))

    def q2(self, further: Sequence[Array]) -> Array:
        """Q2 [draws, grids] of the fixed blocks with the further ones; NaN where nothing was left out.

        Blocks are [draws, tasks, tasks, width], or [tasks, tasks, width] for one draw.
        """
        pairs = zip(self.fits, self.penalties, strict=True)
        errors = sum((fit.errors(further, penalties) for fit, penalties in pairs), np.zeros((1, len(self.total))))
        with np.errstate(invalid="ignore", divide="ignore"):
            found: Array = 1 - errors / self.total
        return found

    def __call__(self, further: Sequence[Array]) -> Array:
        """Q2 [draws, grids] that the further blocks add."""
        added: Array = self.q2(further) - self.q2_without
        return added


def why_no_fold(grid: Grid, left_out: str) -> str | None:
    """Why no Q2 is defined when families are left out in this role; None if one is."""
    parts = folds(grid.mask, grid.family, left_out)
    if not parts:
        return f"leaving families out as {left_out} leaves too few pairs to train on"
    spread = sum(FoldFit(one, grid.outcome[..., None], grid.weights, []).total()[0] for one in parts)
    least = ALMOST_ZERO**2 * grid.weights[grid.mask].sum()  # what rounding leaves of equal gains is below it
    return None if spread > least else "the gains of each target are all the same"


def _tuned(
    grid: Grid,
    left_out: str,
    train: Array,
    fixed: Sequence[Array],
    further: Sequence[Array],
    outcomes: Array,
) -> Array:
    """The penalty [grids] with the least error on families left out of these training pairs."""
    inner = [FoldFit(one, outcomes, grid.weights, fixed) for one in folds(train, grid.family, left_out)]
    if not inner:
        return np.full(outcomes.shape[2], USUAL_PENALTY)
    by_penalty = np.stack([one.errors_of_each(further, PENALTIES) for one in inner]).sum(0)
    chosen: Array = np.array(PENALTIES)[by_penalty.argmin(0)]
    return chosen
