"""What the uncertainty map shows: every gain of a study, as large as it is known to differ from 0.

The area of a square is |gain| over the half-width of its 95 % interval, so that chance alone draws little; its colour
is the gain on a scale that is the same for every study and metric. The idea is that of value-suppressing uncertainty
palettes (Correll, Moritz and Heer 2018, doi:10.1145/3173574.3174216).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtri, stdtr, stdtrit

from analysis.figures.heatmaps import METRIC_NAMES
from analysis.figures.planned.plan import title_of, titles_of
from analysis.gains.cells import Manifest
from analysis.gains.learned import of_unlearned
from analysis.gains.significance import LEVEL
from analysis.tables import Declared, framed
from tasks.plain_text import harmless

LIMIT = 10.0  # points of gain at which the colour is deepest, for every study and metric
FULL = 3.0  # times its interval's half-width that a gain fills its square
ORDERS = ("family", "median")
COLUMNS = {
    "intermediate": Declared("str", "task whose adapter is below: a row of the map"),
    "target": Declared("str", "task that was trained and tested: a column of the map"),
    "row": Declared("str", "title of the intermediate"),
    "column": Declared("str", "title of the target, in brackets if it has not learned"),
    "row_family": Declared("str", "family of the intermediate; empty where the map has no families"),
    "column_family": Declared("str", "family of the target; empty likewise"),
    "metric": Declared("str", "metric of the target"),
    "status": Declared("str", "done, missing, undefined, or same task"),
    "points": Declared("float64", "gain in points"),
    "low": Declared("float64", "lower end of its 95 % interval"),
    "high": Declared("float64", "its upper end"),
    "df": Declared("float64", "degrees of freedom behind it"),
    "p_corrected": Declared("float64", "p after the correction by which gains are called significant"),
    "size": Declared("float64", "area of the square as a share of its place"),
    "is_significant": Declared(
        "bool", "framed: the corrected p is at most .05; not if the target has not learned or the pair is in doubt"
    ),
    "is_collapsed": Declared("bool", "marked: the cell or its baseline has collapsed"),
    "is_contaminated": Declared("bool", "marked: test items are training material"),
    "is_unlearned": Declared("bool", "in brackets: the target alone has not learned"),
}
DEEP_HARM, PALE, DEEP_GAIN = (214, 96, 77), (247, 247, 247), (67, 147, 195)  # black is legible on all between


def map_frame(gains: pd.DataFrame, manifest: Manifest, *, setting: str, order: str = "family") -> pd.DataFrame:
    """One row per square in the map's order, row by row: the columns COLUMNS.

    Targets stand by metric. Within it they stand by family, families and their tasks by their median gain, the largest
    first; or, in the ``order`` median or where families say nothing, by their median alone. Intermediates likewise.
    """
    shown = gains[gains.setting == setting]
    families = _families(manifest, {*shown.intermediate, *shown.target} if order == "family" else set())
    rows = _ordered(shown, "intermediate", families)
    targets = _ordered(shown, "target", families)
    metrics = dict(zip(shown.target, shown.metric, strict=True))
    targets = sorted(targets, key=lambda task: list(METRIC_NAMES).index(metrics[task]))
    pairs = {(pair.intermediate, pair.target): pair for pair in shown.itertuples()}
    titles = titles_of(manifest)
    unlearned = {target for target, _ in of_unlearned(shown)}
    squares = [
        {
            **{"intermediate": row, "target": target, "row": titles[row]},
            "column": f"({titles[target]})" if target in unlearned else titles[target],
            **{"row_family": families.get(row, ""), "column_family": families.get(target, "")},
            **{
                "metric": metrics[target],
                "is_unlearned": target in unlearned,
                **_of_pair(pairs.get((row, target)), target not in unlearned),
            },
        }
        for row in rows
        for target in targets
    ]
    return framed(pd.DataFrame(squares, columns=list(COLUMNS)), COLUMNS)


def _families(manifest: Manifest, tasks: set[str]) -> dict[str, str]:
    """The family of every task; nothing where all are of one family, or every task is of its own."""
    families = {task: harmless(str(manifest["tasks"][task]["family"])).replace("_", " ") for task in sorted(tasks)}
    return families if 1 < len(set(families.values())) < len(families) else {}


def _ordered(shown: pd.DataFrame, role: str, families: Mapping[str, str]) -> list[str]:
    """Tasks in a role by the median gain of their family and then by their own, the largest first."""
    tasks = list(dict.fromkeys(shown[role]))
    own = shown.groupby(role).points.median().to_dict()
    of_family = shown.groupby(shown[role].map(families)).points.median().to_dict() if families else {}

    def falling(value: float) -> float:
        return np.inf if np.isnan(value) else -value

    def key(task: str) -> tuple[float, str, float, int]:
        family = families.get(task, "")
        return falling(of_family.get(family, 0.0)), family, falling(own[task]), tasks.index(task)

    return sorted(tasks, key=key)


def _of_pair(pair: Any, may_be_claimed: bool) -> dict[str, Any]:  # noqa: ANN401 - a row of gains, or None
    marks = {"is_significant": False, "is_collapsed": False, "is_contaminated": False, "size": 0.0}
    if pair is None:
        return {"status": "same task", **marks}
    if pair.n_seeds == 0 or not np.isfinite(pair.points):
        return {"status": "missing" if pair.n_seeds == 0 else "undefined", **marks}
    doubts = {f"is_{name}": _holds(getattr(pair, name)) for name in ("collapsed", "contaminated")}
    return {
        "status": "done",
        **{name: getattr(pair, name) for name in ("points", "low", "high", "df")},
        "p_corrected": pair.p_bh,
        "size": share_of_place(pair.points, pair.low, pair.high, pair.df),
        "is_significant": bool(pair.significant) and may_be_claimed and not any(doubts.values()),
        **doubts,
    }


def _holds(mark: Any) -> bool:  # noqa: ANN401 - a nullable boolean
    return not pd.isna(mark) and bool(mark)


def share_of_place(points: float, low: float, high: float, df: float) -> float:
    """The area of a square as a share of its place: |gain| over its interval's half-width, full from FULL on.

    With few seeds a half-width is itself uncertain: among many, some are short by luck. So the ratio counts as much as
    one of the same p would if the spread were known: with t = ratio x the quantile of Student's t at ``df``, and z the
    normal deviate of t's p, it is z over its own quantile. 1 is an interval that ends at 0 either way, and from some 30
    degrees of freedom on the two are alike. 0 without an interval, for then nothing is known of how sure the gain is.
    """
    half_width = (high - low) / 2
    if not np.isfinite(half_width) or points == 0:
        return 0.0
    if half_width <= 0:
        return 1.0
    ratio = abs(points) / half_width
    if np.isfinite(df):
        ratio = ndtri(stdtr(df, ratio * stdtrit(df, LEVEL / 2))) / ndtri(LEVEL / 2)
    return float(min(max(ratio, 0.0) / FULL, 1.0))


def is_sure(frame: pd.DataFrame) -> pd.Series:
    """Whether the 95 % interval of each gain excludes 0."""
    return (frame.low > 0) | (frame.high < 0)


def colour_of(points: float) -> str:
    """The colour of a gain in points, the same for every study and metric: red for harm, blue for gain."""
    share = min(abs(points) / LIMIT, 1.0)
    end = DEEP_GAIN if points > 0 else DEEP_HARM
    return "#" + "".join(f"{round(pale + (deep - pale) * share):02x}" for pale, deep in zip(PALE, end, strict=True))


def map_title(gains: pd.DataFrame, manifest: Manifest, setting: str) -> str:
    """The title: SYNTHETIC DATA where they are made up, the study, and the training runs that intervals hold for."""
    shown = gains[(gains.setting == setting) & (gains.n_seeds > 0)]
    seeds = ", ".join(dict.fromkeys(shown.conditional)) or "no finished pair"
    return title_of("Gains", manifest, setting, f"intermediates (rows) on targets (columns), {seeds}")
