"""All that the page shows, as one JSON document: the same frames and sections that the report has written."""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from adapters_store.disk import write_text
from adapters_store.store import Store
from analysis.figures.drawing import FigureFiles
from analysis.figures.heatmaps import METRIC_NAMES
from analysis.figures.paper_figures import FIGURE_2, NO_EVIDENCE
from analysis.gains.cells import TYPES
from analysis.gains.significance import LEVEL
from analysis.page.evidence import DOUBTS
from analysis.page.intermediates import leaderboards
from analysis.page.maps import glances, heatmaps
from analysis.page.pages import WHERE, pages
from analysis.page.plain import page_id, plain, plain_frame, plain_sections
from analysis.page.targets import targets_of_study
from analysis.ratings.themes import rating_means
from analysis.sections.answers import construct_title
from analysis.sections.blocks import Picture, Section
from analysis.sections.importance import Answer
from analysis.sections.question import Question
from analysis.sections.study_results import StudyResults
from tasks.plain_text import harmless
from tasks.ratings import themes

SCHEMA = 1
APART = ("host", "wall_seconds")  # columns of cells.csv that a page for others need not have


@dataclass(frozen=True)
class ReportContent:
    """What a report says and shows: a study's results, what explains its gains, drawn figures, and the sections."""

    study: StudyResults
    answer: Answer
    figures: Sequence[FigureFiles]
    sections: Sequence[Section]


def document(store: Store, content: ReportContent) -> dict[str, Any]:
    """The document; every frame in it has the CSV file's columns, numbers and order, undefined ones as None."""
    study, manifest = content.study, content.study.manifest
    cells = plain_frame(study.cells, [name for name in TYPES if name not in APART])
    addresses = zip(*(study.cells[name] for name in WHERE), strict=True)
    drawn = _drawn(store, study)
    return {
        "schema": SCHEMA,
        "name": manifest["name"],
        "title": str(manifest["study"].get("title") or manifest["name"]),
        "source": "stored results",
        "synthetic": bool(manifest["synthetic"]),
        "level": LEVEL,
        "metrics": METRIC_NAMES,
        **tasks_of(study.question, manifest["tasks"]),
        "missing": dict(manifest["missing"]),
        **{name: drawn[name] for name in ("plans", "targets", "leaderboards", "maps")},
        "cells": {**cells, "pages": [page_id(*address) for address in addresses]},
        "gains": plain_frame(study.gains, list(study.gains.columns)),
        **{name: drawn[name] for name in ("made", "pages")},
        "doubts": DOUBTS,
        "importance": importance_of(content.answer, content.figures),
        "figures": pictures_of(content.figures),
        "report": plain_sections(content.sections),
    }


def _drawn(store: Store, study: StudyResults) -> dict[str, Any]:
    """What takes long to form of the frames, manifest and records of a study, read where it was kept."""
    frames = {name: getattr(study, name) for name in ("cells", "gains", "baselines", "controls", "control_means")}
    frames |= {"merged": study.merged} if len(study.merged) else {}
    return study.question.kept.parts("page", frames, lambda: _parts(store, study))


def _parts(store: Store, study: StudyResults) -> dict[str, Any]:
    """Maps, forests, leaderboards and the page of every cell, by their names in the document."""
    of_cells = pages(store, study)
    return {
        "plans": glances(study),
        "targets": targets_of_study(study),
        "leaderboards": leaderboards(study),
        "maps": heatmaps(study),
        "made": _shared_facts(of_cells),
        "pages": of_cells,
    }


def tasks_of(question: Question, facts: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """What tasks can be sorted and filtered by, in the order of their ``facts``, and the names of that."""
    results = question.results
    means = rating_means(results).set_index("task")
    kept = [*results.constructs, "overall"]
    tasks = [
        {
            "id": name,
            **{field: str(task.get(field) or "") for field in ("title", "dataset", "family", "theme", "metric")},
            "ratings": {construct: plain(means.loc[name, construct]) for construct in kept},
        }
        for name, task in facts.items()
    ]
    rated = [{"id": name, "title": construct_title(name)} for name in results.constructs]
    return {"tasks": tasks, "themes": list(themes()), "constructs": rated}


def _shared_facts(of_cells: list[dict[str, Any]]) -> list[list[str]]:
    """Every fact of how cells were made once; runs then name theirs by place, for most are those of all others."""
    places: dict[tuple[str, str], int] = {}
    for run in (run for page in of_cells for run in page["runs"] if "made" in run):
        run["made"] = [places.setdefault((what, text), len(places)) for what, text in run["made"]]
    return [list(fact) for fact in places]


def pictures_of(figures: Sequence[FigureFiles]) -> dict[str, str]:
    """The figures by the names that the report has for them."""
    return {Picture.of(figure).file: _packed(figure) for figure in figures}


def _packed(figure: FigureFiles) -> str:
    """A figure's SVG, gzipped and in base64: a tenth of what the SVG itself would take in a page."""
    return base64.b64encode(gzip.compress(figure.svg.read_bytes(), mtime=0)).decode()


def importance_of(answer: Answer, figures: Sequence[FigureFiles]) -> dict[str, Any]:
    """The headline of what explains gains, and the bars of Figure 2."""
    return {"headline": answer.facts["headline"], "paper": _figure_2(figures)}


def _figure_2(figures: Sequence[FigureFiles]) -> dict[str, Any] | None:
    """The bars of the paper's importances, from the frame of their figure; None if it could not be drawn."""
    figure = next((figure for figure in figures if figure.png.stem == FIGURE_2), None)
    if figure is None:
        return None
    return {"fold": NO_EVIDENCE, "title": figure.title, **plain_frame(figure.frame, list(figure.frame.columns))}


# One HTML file from the templates beside this module, the plotting library and a JSON document.

SCRIPTS = (
    "elements.js",
    "colours.js",
    "plots.js",
    "orders.js",
    "squares.js",
    "maps.js",
    "cells.js",
    "cell/charts.js",
    "cell/changes.js",
    "cell/cell.js",
    "curves.js",
    "importance.js",
    "paragraphs.js",
    "plans.js",
    "intermediates.js",
    "main.js",
)
LIBRARY = "plotly-cartesian.min.js"
HARMLESS: dict[str, str | int | None] = {
    "<": "\\u003c",
    ">": "\\u003e",
    "&": "\\u0026",
    "\u2028": "\\u2028",
    "\u2029": "\\u2029",
    **dict.fromkeys("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069", "?"),  # turn texts round
}


def write_page(store: Store, content: ReportContent, path: Path) -> None:
    """Write the page, which loads nothing from elsewhere; equal stores give equal bytes."""
    write_text(path, assembled(document(store, content)))


def assembled(shown: Mapping[str, Any]) -> str:
    """The HTML of a document; its texts stand in it as JSON alone, but for the title, which is escaped."""
    library, script = _read(f"vendor/{LIBRARY}"), _script()
    hashes = " ".join(f"'{_hash(source)}'" for source in (library, script))
    parts = {
        "POLICY": f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:;"
        " base-uri 'none'; form-action 'none'",
        "TITLE": html.escape(harmless(str(shown["title"]))),
        "STYLE": _read("page.css"),
        "DOCUMENT": embedded(shown),
        "LIBRARY": library,
        "SCRIPT": script,
    }
    pieces = _read("page.html").split("@@")
    return "".join(parts[piece] if number % 2 else piece for number, piece in enumerate(pieces))


def embedded(shown: Mapping[str, Any]) -> str:
    """A document as JSON that no text in it can break out of; ValueError if it has a number that is none."""
    text = json.dumps(shown, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.translate(str.maketrans(HARMLESS))


def _script() -> str:
    parts = "\n".join(_read(f"scripts/{name}") for name in SCRIPTS)
    return f'(() => {{\n"use strict";\n{parts}}})();\n'


def _hash(script: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}"


def _read(name: str) -> str:
    return (files("analysis.page") / "assets" / name).read_text(encoding="utf-8")
