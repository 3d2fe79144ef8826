"""The page of a grid of which only scores are known, as of the paper's tables: no cells, no intervals, nothing tested.

Its document has the fields of a study's, and what follows from cells or intervals is empty there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from adapters_store.disk import write_text
from adapters_store.roles import BASELINE
from analysis.figures import heatmaps as figures
from analysis.figures.drawing import FigureFiles
from analysis.figures.heatmaps import METRIC_NAMES, Square
from analysis.gains.significance import LEVEL
from analysis.page.document import SCHEMA, assembled, importance_of, pictures_of, tasks_of
from analysis.page.parts import ARROW, board_of, numbers_of, plain, plain_sections, square_of, targets_of_scores
from analysis.sections.blocks import Section
from analysis.sections.importance import Answer
from analysis.sections.study_results import Question
from analysis.tables import bare, signed

FULL = "full"  # the setting of all training data, the only one
UNTESTED = "no interval and no p: there are no predictions"


@dataclass(frozen=True)
class ScoresContent:
    """What the page of printed scores says and shows."""

    title: str
    question: Question
    answer: Answer
    figures: Sequence[FigureFiles]
    sections: Sequence[Section]


def write_scores_page(content: ScoresContent, path: Path) -> None:
    """Write the page, which loads nothing from elsewhere; equal results give equal bytes."""
    write_text(path, assembled(scores_document(content)))


def scores_document(content: ScoresContent) -> dict[str, Any]:
    """The document of ``analysis.page.document`` as far as scores tell; lists of what they do not tell are empty."""
    results = content.question.results
    facts = results.tasks.set_index("task", drop=False).fillna({"theme": ""}).to_dict("index")
    gains = results.gains.assign(setting=FULL, points=100 * results.gains.gain, significant=False)
    families, titles = ({name: str(task[what]) for name, task in facts.items()} for what in ("family", "title"))
    board = board_of(FULL, gains, families, titles, is_tested=False)
    return {
        "schema": SCHEMA,
        "name": results.name,
        "title": content.title,
        "source": "printed scores",
        "synthetic": results.is_synthetic,
        "level": LEVEL,
        "metrics": METRIC_NAMES,
        **tasks_of(content.question, facts),
        "missing": {},
        "plans": [],
        "targets": targets_of_scores(FULL, gains),
        "leaderboards": [board] if board["rows"] else [],
        "maps": [_map(gains, facts, results.name, metric) for metric in METRIC_NAMES if (gains.metric == metric).any()],
        "cells": {"columns": [], "rows": [], "pages": []},
        "gains": {"columns": [], "rows": []},
        "made": [],
        "pages": [],
        "doubts": {},
        "importance": importance_of(content.answer, content.figures),
        "figures": pictures_of(content.figures),
        "report": plain_sections(content.sections),
    }


def _map(gains: pd.DataFrame, facts: dict[str, Any], name: str, metric: str) -> dict[str, Any]:
    """The squares of one metric: scores alone, and every pair with the difference of two printed scores."""
    alone = gains[gains.metric == metric].drop_duplicates("target")[["target", "metric", "setting", "n_seeds"]]
    scores = gains.drop_duplicates("target").set_index("target").baseline
    baselines = alone.assign(role=BASELINE, score=alone.target.map(scores))
    baselines = baselines.set_index("target", drop=False).loc[[task for task in facts if task in set(alone.target)]]
    shown = figures.squares(gains, baselines, {"tasks": facts}, metric=metric, setting=FULL)
    squares = [Square(*row) for row in shown.itertuples(index=False)]
    kinds = {True: "transfer", False: "alone"}
    rows = dict.fromkeys((square.intermediate, square.row, kinds[bool(square.intermediate)]) for square in squares)
    return {
        "metric": metric,
        "metric_name": METRIC_NAMES[metric],
        "setting": FULL,
        "title": f"Gains in {name}, targets scored by {METRIC_NAMES[metric]}\nfrom printed scores, not tested",
        "limit": plain(figures.colour_limit(shown.points)),
        "rows": [dict(zip(("id", "title", "kind"), row, strict=True)) for row in rows],
        "columns": [{"id": task, "title": facts[task]["title"]} for task in baselines.target],
        "squares": [_square(square, scores[square.target]) for square in squares],
    }


def _square(square: Square, alone: float) -> dict[str, Any]:
    """A square with what hovering says; points are whole, since the scores are printed with two decimals."""
    where = square.intermediate, square.target, square.status
    if square.status == "baseline":
        hover = [f"{square.column} alone", f"score {bare(square.score)}"]
        return {**square_of(*where, hover, None), **numbers_of(square.score, None)}
    name = f"{square.row} {ARROW} {square.column}"
    if square.status != "done":
        return square_of(*where, [name, figures.MEANINGS[square.status]], None)
    gain = signed(square.points, 0)
    doubts = {"collapsed": square.is_collapsed, "contaminated": square.is_contaminated}
    flags = ", ".join(flag for flag, holds in doubts.items() if holds)
    hover = [name, f"score {bare(square.score)}, target alone {bare(alone)}", f"gain {gain} points; {UNTESTED}"]
    hover += [f"flags: {flags}"] if flags else []
    marks = figures.DAGGER * square.is_collapsed + figures.DOUBLE_DAGGER * square.is_contaminated
    shown = {**numbers_of(square.score, square.points), "points_text": gain, "marks": marks}
    return {**square_of(*where, hover, None), **shown}
