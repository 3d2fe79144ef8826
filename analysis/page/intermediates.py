"""Which intermediates help most: a leaderboard over all targets, with how sure each rank is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.page.plain import plain
from analysis.sections.study_results import StudyResults
from analysis.tables import count, fixed, signed

DRAWS = 2000  # resamples: the ends of an interval move by less than a rank from seed to seed
FEWEST = 5  # targets or families, below which resampling them says nothing about others
SHARE = 0.95  # of the resamples, whose ranks an interval covers
DIGITS = 9  # of points: gains that differ by less are equal, their difference is that of sums in another order
Grid = NDArray[np.float64]


def leaderboards(study: StudyResults) -> list[dict[str, Any]]:
    """Per setting the intermediates from the first rank down, with their numbers as written, and what was resampled."""
    families = {name: str(task.get("family") or name) for name, task in study.manifest["tasks"].items()}
    titles = {name: study.title(name) for name in families}
    by_setting = study.gains.groupby("setting", sort=False)
    boards = [board_of(str(setting), gains, families, titles, is_tested=True) for setting, gains in by_setting]
    return [board for board in boards if board["rows"]]


def board_of(
    setting: str, gains: pd.DataFrame, families: Mapping[str, str], titles: Mapping[str, str], *, is_tested: bool
) -> dict[str, Any]:
    """The leaderboard of the gains of one setting; of those that are not tested nothing is counted as significant."""
    grid = gains.pivot(index="intermediate", columns="target", values="points")
    is_clustered = len({families[target] for target in grid.columns}) >= FEWEST
    units = [families[target] if is_clustered else target for target in grid.columns]
    board = leaders(grid.to_numpy(dtype=np.float64), units).set_axis(grid.index)
    significant = gains[gains.significant]
    board["gains"] = significant[significant.points > 0].groupby("intermediate").size()
    board["harms"] = significant[significant.points < 0].groupby("intermediate").size()
    ranked = board[board["rank"].notna()].sort_values("rank", kind="stable")
    return {
        "setting": setting,
        "resampled": "" if len(set(units)) < FEWEST else "families of targets" if is_clustered else "targets",
        "tested": is_tested,
        "rows": [_row(str(name), titles[str(name)], row, is_tested) for name, row in ranked.iterrows()],
    }


def leaders(points: Grid, units: list[str], *, draws: int = DRAWS, seed: int = 1) -> pd.DataFrame:
    """One row per intermediate: mean (gain in points), advantage, n (targets), rank, and the rank's low and high.

    ``points`` ``[intermediates, targets]`` are gains, NaN where there is none. The advantage is the mean over the
    targets of the gain less what intermediates gain on that target on average, so that nobody is ahead for having easy
    targets. Rank 1 has the largest; equal ones share the mean of their ranks. The interval holds SHARE of the ranks
    when ``units`` of targets (``[targets]``, the name of each one's unit) are drawn anew with replacement, NaN if they
    are fewer than FEWEST: a percentile bootstrap (Efron and Tibshirani 1993, chapter 13).
    """
    is_known = np.isfinite(points)
    n: NDArray[np.int64] = is_known.sum(axis=1)
    sums = is_known.sum(axis=0)
    means = np.divide(np.nansum(points, axis=0), sums, out=np.zeros(len(sums)), where=sums > 0)
    ahead = np.where(is_known, points - means, 0.0)
    board = pd.DataFrame({"mean": _ratio(np.nansum(points, axis=1), n), "advantage": _ratio(ahead.sum(axis=1), n)})
    board["n"] = n
    board["rank"] = board.advantage.round(DIGITS).rank(ascending=False)
    names, members = np.unique(units, return_inverse=True)
    if len(names) < FEWEST:
        return board.assign(low=np.nan, high=np.nan)
    rng = np.random.default_rng(seed)
    times = rng.multinomial(len(names), np.full(len(names), 1 / len(names)), size=draws)[:, members].astype(np.float64)
    drawn = pd.DataFrame(_ratio(times @ ahead.T, times @ is_known.T)).round(DIGITS).rank(axis=1, ascending=False)
    tail = (1 - SHARE) / 2
    low, high = (drawn.quantile(share, interpolation=side) for share, side in ((tail, "lower"), (1 - tail, "higher")))
    return board.assign(low=low, high=high)


def _ratio(sums: Grid, counts: NDArray[Any]) -> Grid:
    """Means of sums; NaN where nothing was counted."""
    means: Grid = np.divide(sums, counts, out=np.full(np.shape(sums), np.nan), where=counts > 0)
    return means


def _row(name: str, title: str, row: pd.Series, is_tested: bool) -> dict[str, Any]:
    numbers = {part: plain(row[part]) for part in ("rank", "low", "high")}
    interval = "" if numbers["low"] is None else f"{_rank(row.low)} to {_rank(row.high)}"
    tested = [count(0 if pd.isna(row[part]) else row[part]) for part in ("gains", "harms") if is_tested]
    texts = [_rank(row["rank"]), interval, signed(row.advantage, 1), signed(row["mean"], 1), count(row.n), *tested]
    return {"intermediate": name, "title": title, **numbers, "texts": texts}


def _rank(value: float) -> str:
    return fixed(value, 0 if float(value).is_integer() else 1)
