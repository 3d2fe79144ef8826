"""All that the page shows, as one JSON document: the same frames and paragraphs that the report has written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from adapters_store.store import Store
from analysis.answers import Question
from analysis.cells import TYPES
from analysis.curve_figure import changed
from analysis.figures import METRIC_NAMES, Drawn
from analysis.importance_sections import Answer
from analysis.markdown import interval, number, signed
from analysis.page.blocks import blocks, sections
from analysis.page.maps import heatmaps
from analysis.page.pages import WHERE, pages
from analysis.page.plain import page_id, plain, plain_frame
from analysis.sections import Findings
from analysis.significance import LEVEL
from analysis.themes import rating_means
from tasks.ratings import constructs, themes

SCHEMA = 1
APART = ("host", "wall_seconds")  # columns of cells.csv that a page for others need not have
FIGURE_2 = "figure-2-importances"


@dataclass(frozen=True)
class Told:
    """What a report has found and written: its frames, question and answer, drawn figures and paragraphs."""

    found: Findings
    question: Question
    answer: Answer
    figures: Sequence[Drawn]
    paragraphs: Sequence[str]


def document(store: Store, told: Told) -> dict[str, Any]:
    """The document; every frame in it has the CSV file's columns, numbers and order, undefined ones as None."""
    found, manifest = told.found, told.found.manifest
    cells = plain_frame(found.cells, [name for name in TYPES if name not in APART])
    addresses = (found.cells[name] for name in WHERE)
    return {
        "schema": SCHEMA,
        "name": manifest["name"],
        "title": str(manifest["study"].get("title") or manifest["name"]),
        "synthetic": bool(manifest["synthetic"]),
        "level": LEVEL,
        "metrics": METRIC_NAMES,
        "tasks": _tasks(told),
        "themes": list(themes()),
        "constructs": [{"id": name, "title": _construct(name)} for name in told.question.results.constructs],
        "missing": dict(manifest["missing"]),
        "maps": heatmaps(found),
        "cells": {**cells, "pages": [page_id(*one) for one in zip(*addresses, strict=True)]},
        "gains": plain_frame(found.gains, list(found.gains.columns)),
        "pages": pages(store, found),
        "importance": _importance(told),
        "report": sections(blocks(told.paragraphs)),
    }


def _tasks(told: Told) -> list[dict[str, Any]]:
    """What tasks can be sorted and filtered by, in the study's order."""
    means = rating_means(told.question.results).set_index("task")
    kept = [*told.question.results.constructs, "overall"]
    return [
        {
            "id": name,
            **{field: str(task.get(field) or "") for field in ("title", "dataset", "family", "theme", "metric")},
            "ratings": {one: plain(means.loc[name, one]) for one in kept},
        }
        for name, task in told.found.manifest["tasks"].items()
    ]


def _construct(name: str) -> str:
    return constructs()[name].title if name in constructs() else name


def _importance(told: Told) -> dict[str, Any]:
    """The features with their verdicts, the specification curve and the bars of Figure 2, each with its texts."""
    features: list[dict[str, Any]] = [_feature(one) for one in told.answer.told.get("features", ())]
    curve = told.answer.told.get("curve", ())
    return {
        "headline": told.answer.told["headline"],
        "features": features,
        "curve": [_specification(one, curve[0]) for one in curve],
        "paper": _figure_2(told.figures),
    }


def _feature(row: dict[str, Any]) -> dict[str, Any]:
    kept = ("feature", "title", "kind", "added", "low", "high", "null_mean", "p_corrected", "verdict", "against", "why")
    said = {name: plain(row.get(name)) for name in kept}
    if said["added"] is None:
        return {**said, "hover": [str(row["title"]), str(row["verdict"]), str(row["why"])]}
    hover = [
        *(str(row["title"]), str(row["verdict"])),
        f"adds {signed(row['added'], 4)} to Q2, 95 % interval {_interval(row)}",
        f"by chance {signed(row['null_mean'], 4)}; p (corrected) {number(row['p_corrected'])}",
        *([f"against it: {row['against']}"] if row["against"] else []),
    ]
    return {**said, "hover": hover}


def _interval(row: dict[str, Any]) -> str:
    low, high = (float("nan") if row[name] is None else row[name] for name in ("low", "high"))
    return interval(low, high, 3)


def _specification(row: dict[str, Any], primary: dict[str, Any]) -> dict[str, Any]:
    said = {name: plain(row[name]) for name in ("added", "p_tasks", "p_families", "passes", "notes")}
    name = changed(row, primary)
    added = "not defined" if said["added"] is None else signed(said["added"], 4)
    ps = [f"p {number(pd.NA if said[one] is None else said[one])}" for one in ("p_tasks", "p_families")]
    return {**said, "title": name, "hover": [name, f"adds {added}", f"{ps[0]} (tasks), {ps[1]} (families)"]}


def _figure_2(figures: Sequence[Drawn]) -> dict[str, Any] | None:
    """The bars of the paper's importances, from the CSV beside their figure; None if it could not be drawn."""
    drawn = [one for one in figures if one.png.stem == FIGURE_2]
    if not drawn:
        return None
    frame = pd.read_csv(drawn[0].png.with_suffix(".csv"))
    return {"title": drawn[0].title, **plain_frame(frame, list(frame.columns))}
