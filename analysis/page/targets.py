"""The page of every target: all its intermediates, sorted by their gain, as a figure where there are intervals.

Of a study they come with interval, p and verdict; of printed scores, which have neither, with whole points alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from adapters_store.roles import TRANSFER
from analysis.figures.heatmaps import METRIC_NAMES
from analysis.figures.planned.forest import forest_plan, kept_forest_frame
from analysis.figures.planned.plan import POINTS_PER_CM, plain_plan
from analysis.gains.significance import p_text
from analysis.page.plain import page_id
from analysis.sections.gains import verdict
from analysis.sections.study_results import StudyResults
from analysis.tables import bare, interval, number, signed

NARROW = 300 / POINTS_PER_CM  # cm of a figure whose letters a phone shows without scrolling sideways
HEAD = ("intermediate", "points", "95 % interval", "p (BH)", "verdict", "flags")
SCORES_HEAD = ("intermediate", "score", "points", "flags")
SORTED = "Sorted by their gain. Choose a name for the page of the pair."
NO_INTERVALS = (
    "There are no intervals and no verdicts: of these pairs only scores are known, not the predictions that an interval"
    " is resampled from. The scores were printed with two decimals. So gains are given in whole points, and a"
    " difference of a point may be one of rounding."
)
DIGITS = 9  # of points: differences of printed scores that are equal, but for how numbers are held, stay in order
Row = Mapping[str, Any]


def targets_of_study(study: StudyResults) -> list[dict[str, Any]]:
    """The page of every target and setting: the forest of all its intermediates as a plan, and the same as a table."""
    drawn = []
    for setting in dict.fromkeys(study.gains.setting):
        frames = study.gains, study.controls, study.merged, study.baselines, study.cells
        frame = kept_forest_frame(frames, study.manifest, setting, study.question.kept)
        gains = study.gains[study.gains.setting == setting]
        for target, part in frame.groupby("target", sort=False):
            rows = [
                _row(page_id(TRANSFER, row["intermediate"], str(target), setting), row, _texts(row))
                for row in _sorted(gains, str(target))
            ]
            plan = plain_plan(forest_plan(part, "", width=NARROW, most=None))
            drawn.append(_page(setting, str(target), SORTED, HEAD, rows, plan))
    return drawn


def targets_of_scores(setting: str, gains: pd.DataFrame) -> list[dict[str, Any]]:
    """The page of every target of which only scores are known, with the reason why nothing more is said."""
    drawn = []
    for target in dict.fromkeys(gains.target):
        own = _sorted(gains, target)
        alone = f"{bare(own[0]['baseline'])} {METRIC_NAMES[own[0]['metric']]}"
        words = f"Sorted by their gain over the target alone, which scores {alone}. {NO_INTERVALS}"
        rows = [_row(None, row, [bare(row["score"]), signed(row["points"], 0), _doubts(row)]) for row in own]
        drawn.append(_page(setting, target, words, SCORES_HEAD, rows, None))
    return drawn


def _page(
    setting: str, target: str, words: str, head: Sequence[str], rows: list[dict[str, Any]], plan: Row | None
) -> dict[str, Any]:
    return {"setting": setting, "target": target, "words": words, "head": list(head), "rows": rows, "plan": plan}


def _sorted(gains: pd.DataFrame, target: str) -> list[Row]:
    own = gains[gains.target == target]
    falling = own.points.round(DIGITS).sort_values(ascending=False, kind="stable", na_position="last").index
    rows: list[Row] = own.loc[falling].to_dict("records")
    return rows


def _row(page: str | None, row: Row, texts: list[str]) -> dict[str, Any]:
    return {"intermediate": row["intermediate"], "page": page, "texts": texts}


def _texts(row: Row) -> list[str]:
    """A gain's numbers as its own page has them; empty where it is missing."""
    flags = row["flags"].replace(";", ", ")
    if row["n_seeds"] == 0:
        return ["", "", "", "", flags]
    tested = [number(row["points"], 1), interval(row["low"], row["high"], 1), p_text(row["p_bh"], 4)]
    return [*tested, verdict(row), flags]


def _doubts(row: Row) -> str:
    return ", ".join(name for name in ("collapsed", "contaminated") if not pd.isna(row[name]) and row[name])
