"""The heatmaps of the page: the squares of the drawn ones, below them the controls, each with what hovering says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from adapters_store.roles import BASELINE, MERGED, TRANSFER
from analysis.figures import heatmaps as figures
from analysis.figures.heatmaps import METRIC_NAMES, Square
from analysis.figures.planned.plan import plain_plan
from analysis.figures.planned.uncertainty import ORDERS, map_frame, map_title
from analysis.figures.planned.uncertainty_map import map_plan
from analysis.gains.significance import p_text
from analysis.page.plain import page_id, plain
from analysis.sections.gains import control_name, verdict
from analysis.sections.study_results import StudyResults
from analysis.tables import bare, interval, number, signed

ARROW = "\u2192"
Row = Mapping[str, Any]


def glances(study: StudyResults) -> list[dict[str, Any]]:
    """The uncertainty map of every setting by family and, where that is another map, by median, with its ids.

    The first marks of the layer ``ground`` are the places, row by row.
    """
    frames = {
        (setting, order): map_frame(study.gains, study.manifest, setting=setting, order=order)
        for setting in dict.fromkeys(study.gains.setting)
        for order in ORDERS
    }
    return [
        {
            "setting": setting,
            "order": order,
            "rows": list(dict.fromkeys(frame.intermediate)),
            "columns": list(dict.fromkeys(frame.target)),
            "plan": plain_plan(map_plan(frame, map_title(study.gains, study.manifest, setting))),
        }
        for (setting, order), frame in frames.items()
        if order == ORDERS[0] or not frame.equals(frames[setting, ORDERS[0]])
    ]


def heatmaps(study: StudyResults) -> list[dict[str, Any]]:
    """One map per metric and setting: rows and columns by id, and a square for each of their meetings.

    A square's ``hover`` are lines of text, ``page`` the address of its cell's page or None.
    """
    alone = study.baselines[study.baselines.role == BASELINE]
    return [
        _map(study, metric, setting)
        for metric in METRIC_NAMES
        for setting in dict.fromkeys(alone.setting[alone.metric == metric])
    ]


def _map(study: StudyResults, metric: str, setting: str) -> dict[str, Any]:
    squares = figures.squares(study.gains, study.baselines, study.manifest, metric=metric, setting=setting)
    alone, gained = _by_pair(study.baselines, metric, setting), _by_pair(study.gains, metric, setting)
    shown = [
        _alone(study, square, alone["", square.target])
        if square.intermediate == ""
        else _pair(study, square, gained.get((square.intermediate, square.target)), setting)
        for square in (Square(*row) for row in squares.itertuples(index=False))
    ]
    rows = [(row.intermediate, row.row, "transfer" if row.intermediate else "alone") for row in squares.itertuples()]
    controls = study.controls[(study.controls.metric == metric) & (study.controls.setting == setting)]
    for control in controls.to_dict("records"):
        title = control_name(study, control["control"], control["intermediate"])
        row = (f"{control['control']}:{title}", title, "control")
        rows.append(row)
        shown.append(_control(study, control, row[0], title))
    for merged in study.merged[(study.merged.metric == metric) & (study.merged.setting == setting)].to_dict("records"):
        title = f"merged: {merged['row']}"
        rows.append((title, title, "merged"))
        shown.append(_control(study, {**merged, "control": MERGED, "intermediate": merged["row"]}, title, title))
    return {
        "metric": metric,
        "metric_name": METRIC_NAMES[metric],
        "setting": setting,
        "title": figures.figure_title(study.gains, study.manifest, metric=metric, setting=setting),
        "limit": plain(figures.colour_limit(squares.points)),
        "rows": [dict(zip(("id", "title", "kind"), row, strict=True)) for row in dict.fromkeys(rows)],
        "columns": [
            {"id": square.target, "title": square.column} for square in squares.drop_duplicates("target").itertuples()
        ],
        "squares": shown,
    }


def _by_pair(frame: pd.DataFrame, metric: str, setting: str) -> dict[tuple[str, str], Row]:
    """The rows of gains by (intermediate, target); of adapter baselines by ("", target)."""
    part = frame[(frame.metric == metric) & (frame.setting == setting)]
    part = part[part.role == BASELINE] if "role" in part else part
    return {(row.get("intermediate", ""), row["target"]): row for row in part.to_dict("records")}


def square_of(row: str, target: str, status: str, hover: list[str], page: str | None) -> dict[str, Any]:
    """A square of a map without a number; the row's id is that of its intermediate."""
    shown = {"row": row, "column": target, "status": status, "score": None, "points": None}
    return {**shown, "score_text": "", "points_text": "", "marks": "", "hover": hover, "page": page}


def _alone(study: StudyResults, square: Square, row: Row) -> dict[str, Any]:
    name = f"{square.column} alone"
    page = page_id(BASELINE, None, square.target, row["setting"])
    if square.status != "baseline":
        return square_of("", square.target, square.status, [name, figures.MEANINGS[square.status]], page)
    hover = [name, f"score {number(row['score'])}, 95 % interval {interval(row['low'], row['high'], 2)}"]
    hover += [f"floor {number(row['floor'])}", *_flagged(row)]
    return {**square_of("", square.target, "baseline", hover, page), **numbers_of(row["score"], None)}


def _pair(study: StudyResults, square: Square, row: Row | None, setting: str) -> dict[str, Any]:
    name, where = f"{square.row} {ARROW} {square.column}", (square.intermediate, square.target, square.status)
    page = None if row is None else page_id(TRANSFER, square.intermediate, square.target, setting)
    if row is None or square.status == "missing":
        return square_of(*where, [name, figures.MEANINGS[square.status]], page)
    tested = f"p {p_text(row['p'], 4)}, p (BH) {p_text(row['p_bh'], 4)}"
    hover = [name, verdict(row), *_gain_lines(row), tested, *_flagged(row)]
    if square.status != "done":
        hover.insert(1, figures.MEANINGS[square.status])
    marks = "*" * square.is_significant + figures.DAGGER * square.is_collapsed
    marks += figures.DOUBLE_DAGGER * square.is_contaminated
    return {**square_of(*where, hover, page), **numbers_of(square.score, square.points), "marks": marks}


def _control(study: StudyResults, row: Row, row_id: str, title: str) -> dict[str, Any]:
    name = f"{title} {ARROW} {study.title(row['target'])}"
    page = page_id(row["control"], row["intermediate"], row["target"], row["setting"])
    if row["n_seeds"] == 0:
        return square_of(row_id, row["target"], "missing", [name, figures.MEANINGS["missing"]], page)
    status = "control" if plain(row["score"]) is not None else "undefined"
    hover = [name, *_gain_lines(row), f"p {p_text(row['p'], 4)}, not corrected", *_flagged(row)]
    return {**square_of(row_id, row["target"], status, hover, page), **numbers_of(row["score"], row["points"])}


def _gain_lines(row: Row) -> list[str]:
    return [
        f"score {number(row['score'])}, target alone {number(row['baseline'])}",
        f"gain {number(row['points'], 1)} points, 95 % interval {interval(row['low'], row['high'], 1)}",
    ]


def _flagged(row: Row) -> list[str]:
    return [f"flags: {row['flags'].replace(';', ', ')}"] if row["flags"] else []


def numbers_of(score: float, points: float | None) -> dict[str, Any]:
    """The score and, of a transfer, the gain: as numbers for the colour, and as written into a square."""
    texts = {"score_text": "" if plain(score) is None else bare(score)}
    texts["points_text"] = "" if points is None or plain(points) is None else signed(points, 1)
    return {"score": plain(score), "points": plain(points), **texts}
