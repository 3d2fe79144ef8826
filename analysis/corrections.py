"""Every correction of a study's gains, and which of them more draws may still decide."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtri, stdtr
from scipy.stats import beta

from analysis.gain_columns import CORRECTIONS
from analysis.multiple import FloatArray, benjamini_hochberg, benjamini_yekutieli, holm, step_down
from analysis.significance import LEVEL, Evidence

DOUBT = 0.01  # beyond both ends of the interval that a p from finitely many draws has


@dataclass(frozen=True)
class Judged:
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
    def of(cls, estimate: float, evidence: Evidence, column: tuple[str, str], block: Hashable) -> Judged:
        """From an estimate and its evidence; where nothing varies a difference is infinite, and no difference 0."""
        error, df = evidence.standard_error, evidence.df
        if error > 0:
            observed = float(_as_normal(np.array([abs(estimate) / error]), df)[0])
            return cls(column, block, observed, _as_normal(evidence.sizes / error, df).astype(np.float32))
        return cls(column, block, np.inf if estimate else 0.0, evidence.sizes)

    @property
    def can_be_found(self) -> bool:
        """Whether enough draws have a value for a p at the level; if not, it cannot be a false discovery either."""
        return bool(np.isinf(self.sizes).mean() <= LEVEL)


_Placed = tuple[int, Judged]


def corrected(p: FloatArray, tests: Sequence[Judged | None]) -> pd.DataFrame:
    """The columns CORRECTIONS, one row per p; NaN where p is.

    A gain that cannot be found takes no part in the maxima and has 1 there.
    """
    found = {"p_bh": benjamini_hochberg(p), "p_by": benjamini_yekutieli(p), "p_holm": holm(p)}
    able = [(place, one) for place, one in enumerate(tests) if one is not None and one.can_be_found]
    by_column = _gathered((one.column, (place, one)) for place, one in able)
    by_block = _gathered((one.block, (place, one)) for place, one in able)
    found["p_max_target"] = _largest(p, [[column] for column in by_column])
    found["p_max_grid"] = _largest(p, [by_block])
    return pd.DataFrame(found, columns=list(CORRECTIONS))


def undecided(p: FloatArray, adjusted: FloatArray, draws: FloatArray) -> NDArray[np.bool_]:
    """Whether the 99 % interval of each p by Clopper and Pearson, carried through its correction, holds the level."""
    counts = np.nan_to_num(p * (draws + 1) - 1)
    low = np.nan_to_num(beta.ppf(DOUBT / 2, counts, draws - counts + 1), nan=0.0)
    high = np.nan_to_num(beta.ppf(1 - DOUBT / 2, counts + 1, draws - counts), nan=1.0)
    factor = adjusted / p
    doubtful: NDArray[np.bool_] = (low * factor <= LEVEL) & (high * factor >= LEVEL)
    return doubtful & np.isfinite(p)


def to_redraw(p: FloatArray, tests: Sequence[Judged | None], adjusted: pd.DataFrame) -> set[tuple[str, str]]:
    """Columns of which more draws may change a conclusion: those joint with an undecided gain, or all."""
    draws = np.array([np.nan if one is None else one.sizes.size for one in tests], dtype=np.float64)
    single = [undecided(p, adjusted[name].to_numpy(), draws) for name in ("p_bh", "p_by", "p_holm")]
    in_target, in_grid = (
        undecided(largest, largest, draws) for largest in (adjusted.p_max_target, adjusted.p_max_grid)
    )
    doubtful = np.any([*single, in_target], axis=0)
    blocks = {one.block for one, doubt in zip(tests, doubtful, strict=True) if one and (doubt or in_grid.any())}
    return {one.column for one in tests if one and one.block in blocks}


def _as_normal(sizes: NDArray[np.floating], df: float) -> FloatArray:
    """The size of a normal deviate that is as rare as each of these sizes of Student's t."""
    deviates: FloatArray = -ndtri(stdtr(df, -sizes.astype(np.float64)))
    return deviates


def _gathered(named: Iterable[tuple[Hashable, _Placed]]) -> list[list[_Placed]]:
    """The tests with their places by their names, in the order of appearance."""
    found: dict[Hashable, list[_Placed]] = {}
    for name, placed in named:
        found.setdefault(name, []).append(placed)
    return list(found.values())


def _largest(p: FloatArray, families: Sequence[Sequence[Sequence[_Placed]]]) -> FloatArray:
    """P corrected within families of tests, each of which falls into blocks; 1 for a p that is in none."""
    adjusted = np.where(np.isfinite(p), 1.0, np.nan)
    for blocks in families:
        observed = [np.array([one.observed for _, one in block]) for block in blocks]
        found = step_down(observed, [np.stack([one.sizes for _, one in block], axis=1) for block in blocks])
        for block, values in zip(blocks, found, strict=True):
            places = [place for place, _ in block]
            adjusted[places] = np.fmax(values, p[places])
    return adjusted
