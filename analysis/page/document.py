"""All that the page shows, as one JSON document: the same frames and sections that the report has written.

Every planned cell has a page, its seeds together: numbers, flags, curves, counted predictions and provenance. Of a grid
of which only scores are known, as of the paper's tables, what follows from cells or intervals is empty.
"""

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

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from adapters_store.disk import write_text
from adapters_store.record import Record
from adapters_store.roles import BASELINE, CONTROLS, MERGED, SCORED_ALONE, TRANSFER, role_of
from adapters_store.store import Store
from analysis.figures import heatmaps as heat
from analysis.figures.boards import BOARD, CONTEXT, RELIABILITY
from analysis.figures.drawing import FigureFiles
from analysis.figures.heatmaps import MEANINGS as STATES
from analysis.figures.heatmaps import METRIC_NAMES, Square
from analysis.figures.paper_figures import FIGURE_2, NO_EVIDENCE
from analysis.gains.cells import TYPES, Predictions, predictions
from analysis.gains.comparisons import AGAINST
from analysis.gains.significance import LEVEL, p_text
from analysis.importance.question import Question
from analysis.page import parts
from analysis.ratings.themes import rating_means
from analysis.results.study_results import StudyResults
from analysis.sections.answers import construct_title
from analysis.sections.blocks import Section
from analysis.sections.gains import WAYS, control_name, verdict
from analysis.sections.importance import ImportanceReport
from analysis.sections.study import MEANINGS
from analysis.tables import bare, count, inline, interval, number, percent, signed, yes_no
from tasks.plain_text import harmless
from tasks.ratings import themes

# What a cell predicted, counted: confusion of classes, or values in bins. No row can be told from these counts.

BINS = 28  # along each axis


def counted(by_seed: Sequence[Predictions], metric: str, classes: Sequence[str]) -> dict[str, Any] | None:
    """The test predictions of a cell's finished seeds, added up; None where no seed is finished.

    ``kind`` is ``confusion`` (``counts`` by label x decision), ``multilabel`` (per class: rows that neither, only the
    decision, only the label, and both have), or ``bins`` (label x value, both axes from ``low`` to ``high``). Counts
    are pairs (position in row order, count) in one flat list without zeros.
    """
    if not by_seed:
        return None
    labels = np.concatenate([cell.labels for cell in by_seed])
    chosen = np.concatenate([cell.decisions for cell in by_seed])
    if metric == "pearson_r":
        return bins_of(labels, chosen)
    if metric == "multilabel_f1":
        both = 2 * labels.astype(int) + chosen.astype(int)
        four = [np.bincount(column, minlength=4).tolist() for column in both.T]
        return {"kind": "multilabel", "classes": list(classes), "counts": four}
    size = max([len(classes), int(labels.max()) + 1, int(chosen.max()) + 1])
    names = [*classes, *(f"class {number}" for number in range(len(classes), size))]
    table = np.zeros((size, size), dtype=np.int64)
    np.add.at(table, (labels.astype(int), chosen.astype(int)), 1)
    return {"kind": "confusion", "classes": names, "counts": _sparse(table)}


def bins_of(labels: NDArray[Any], values: NDArray[Any]) -> dict[str, Any]:
    """Labels and values ``[n]`` in BINS x BINS bins of one width; what is not finite is counted as ``left_out``."""
    is_finite = np.isfinite(labels) & np.isfinite(values)
    labels, values = labels[is_finite].astype(float), values[is_finite].astype(float)
    both = np.concatenate([labels, values]) if len(labels) else np.array([0.0, 1.0])
    low, high = float(both.min()), float(both.max())
    if low == high:
        low, high = low - 0.5, high + 0.5
    table, _, _ = np.histogram2d(labels, values, bins=BINS, range=[[low, high], [low, high]])
    facts = {"low": float(f"{low:.6g}"), "high": float(f"{high:.6g}"), "left_out": int((~is_finite).sum())}
    return {"kind": "bins", "bins": BINS, **facts, "counts": _sparse(table.astype(np.int64))}


def _sparse(table: NDArray[np.int64]) -> list[int]:
    flat = table.ravel()
    positions = np.flatnonzero(flat)
    pairs: list[int] = np.stack([positions, flat[positions]], axis=1).ravel().tolist()
    return pairs


Row = Mapping[str, Any]
Where = tuple[str, str | None, str, str]
Facts = list[list[str]]

WHERE = ["role", "intermediate", "target", "setting"]
SETTINGS = ("training", "loss", "adapter", "composition", "input_format", "max_tokens", "precision", "caps", "splits")
HASHES = ("splits_hash", "training_version")


def pages(study: StudyResults) -> list[dict[str, Any]]:
    """One page per planned (role, intermediate, target, setting), in the manifest's order."""
    # The row of gains, baselines, controls or merged rows that a page is about, by where the page belongs.
    rows = [{**gain, "role": TRANSFER} for gain in study.gains.to_dict("records")]
    rows += study.baselines.to_dict("records")
    rows += [{**control, "role": control["control"]} for control in study.controls.to_dict("records")]
    rows += [{**row, "role": MERGED, "intermediate": row["row"]} for row in study.merged.to_dict("records")]
    by_page = {_where(row): row for row in rows}
    records = {record.key: record for record in study.records}
    groups: dict[Where, list[Row]] = {}
    for cell in study.cells.to_dict("records"):
        groups.setdefault(_where(cell), []).append(cell)
    changes = parts.Changes(study, records)
    return [_page(changes, study, where, cells, by_page.get(where)) for where, cells in groups.items()]


def cell_title(study: StudyResults, where: Where) -> str:
    """What a page is called."""
    role, intermediate, target, _ = where
    if role in SCORED_ALONE:
        return f"{study.title(target)} {role_of(role).manner}"
    if role in CONTROLS:
        return f"{control_name(study, role, intermediate or '')} \u2192 {study.title(target)}"
    pair = study.title(target) if intermediate is None else f"{study.title(intermediate)} \u2192 {study.title(target)}"
    return pair if role == TRANSFER else f"{pair} ({role})"


def _page(
    changes: parts.Changes, study: StudyResults, where: Where, cells: list[Row], row: Row | None
) -> dict[str, Any]:
    store, records = study.store, changes.records
    role, intermediate, target, setting = where
    task = study.manifest["tasks"][target]
    is_private = bool(task.get("private"))
    done = [] if is_private else [records[cell["key"]] for cell in cells if cell["key"] in records]
    answered = {record.key: predictions(store, record) for record in done}
    is_tested = role == TRANSFER and row is not None and row["n_seeds"] > 0
    # Every flag of the cell's seeds and of its gain once, with what it means.
    texts = [cell["flags"] for cell in cells] + ([row["flags"]] if row else [])
    names = dict.fromkeys(flag for text in texts for flag in text.split(";") if flag)
    return {
        "id": parts.page_id(*where),
        "title": cell_title(study, where),
        **{"role": role, "intermediate": intermediate, "target": target, "setting": setting},
        "metric_name": METRIC_NAMES[task["metric"]],
        "numbers": {}
        if row is None
        else {name: parts.plain(row.get(name)) for name in ("score", "points", "low", "p_bh")},
        "texts": {} if row is None else _texts(role, row),
        "facts": _facts(role, row),
        "corrections": [[label, p_text(row[name], 4)] for name, label in WAYS.items()] if row and is_tested else [],
        "flags": [[flag, MEANINGS.get(flag.split(":")[0], "")] for flag in names],
        "runs": [_run(store, cell, records.get(cell["key"])) for cell in cells],
        "private": is_private,
        "counts": counted(list(answered.values()), task["metric"], task["classes"]),
        "changes": changes.of(cells, answered),
    }


def _where(row: Row) -> Where:
    return row["role"], row.get("intermediate"), row["target"], row["setting"]


def _texts(role: str, row: Row) -> dict[str, str]:
    """The numbers of a row in the words and decimals of report.md; one that is missing is not there."""
    if row["n_seeds"] == 0:
        return {}
    texts = {"score": number(row["score"])}
    if role in SCORED_ALONE:
        return {**texts, "interval": interval(row["low"], row["high"], 2)}
    texts |= {"alone": number(row["baseline"]), "points": number(row["points"], 1)}
    texts |= {"interval": interval(row["low"], row["high"], 1), "p": p_text(row["p"], 4)}
    return texts | ({"p_bh": p_text(row["p_bh"], 4), "verdict": verdict(row)} if role == TRANSFER else {})


def _facts(role: str, row: Row | None) -> Facts:
    if row is None or row["n_seeds"] == 0:
        return []
    facts = _of_baseline(row) if role in SCORED_ALONE else _of_gain(role, row)
    common = {"test rows": count(row["n_test"]), "groups of test rows": count(row["n_groups"])}
    common["conditional on"] = row["conditional"] or "missing"
    return [[label, text] for label, text in {**facts, **common}.items()]


def _of_baseline(row: Row) -> dict[str, str]:
    facts = {
        "score": number(row["score"]),
        "95 % interval": interval(row["low"], row["high"], 2),
        "floor": number(row["floor"]),
        "above floor": yes_no(row["is_above_floor"]),
    }
    further = {"quadratic-weighted kappa": row["quadratic_kappa"], "Spearman r": row["spearman_r"]}
    return facts | {name: number(value) for name, value in further.items() if not pd.isna(value)}


def _of_gain(role: str, row: Row) -> dict[str, str]:
    facts = {
        "score": number(row["score"]),
        "target alone": number(row["baseline"]),
        "gain in points (x 100)": number(row["points"], 1),
        "95 % interval of the gain": interval(row["low"], row["high"], 1),
    }
    if role != TRANSFER:
        facts["p, not corrected"] = p_text(row["p"], 4)
    if row["setting"] != "full":
        facts["points over full"] = number(row["points_over_full"], 1)
        facts["95 % interval over full"] = interval(row["low_over_full"], row["high_over_full"], 1)
    if role == MERGED:
        facts |= {
            f"less {noun}": f"{number(row[f'less_{name}'], 1)} points "
            f"({interval(row[f'low_less_{name}'], row[f'high_less_{name}'], 1)}; p corrected for the target's rows "
            f"{p_text(row[f'p_max_{name}'], 4)})"
            for name, noun in AGAINST.items()
            if not pd.isna(row[f"less_{name}"])
        }
    return {**facts, "liveness": number(row["liveness"])}


def _run(store: Store, row: Row, record: Record | None) -> dict[str, Any]:
    run = {"key": row["key"], "seed": int(row["seed"]), "status": row["status"]}
    if record is None:
        return {**run, "why": STATES["missing"]}
    histories, best = _histories(store, record), parts.plain(row["best_epoch"])
    texts = [number(row["score"]), number(row["validation"]), number(row["floor"]), count(row["best_epoch"])]
    cut = [percent(row[f"cut_{part}"]) for part in ("history", "target")]
    rows = [count(record.results[f"n_{part}"]) for part in ("train", "validation", "test")]
    # With which settings, code and packages a cell was trained, and when.
    spec, made = record.spec, record.provenance
    facts = {name.replace("_", " "): inline(spec[name]) for name in SETTINGS if spec.get(name) is not None}
    facts |= {name.replace("_", " "): str(spec[name]) for name in HASHES if name in spec}
    facts["backbone weights, sha256"] = str(spec["backbone"]["weights_sha256"])
    if spec.get("intermediate_key"):
        facts["key of the intermediate"] = spec["intermediate_key"]
    if merge := spec.get("merge"):
        facts |= {f"parent {task}": key for task, key in merge["parents"].items()}
        facts["weights of the parents"] = inline(record.results["merge"]["weights"])
        facts["merged weights, sha256"] = record.results["merge"]["sha256"]
    facts |= {name: str(made[name]) for name in ("created", "code", "device")}
    facts["packages"] = inline(made["versions"])
    facts["training time"] = f"{made['wall_seconds']:.0f} s"
    return {
        **run,
        "texts": [*texts, *rows, *cut],
        "best_epoch": best,
        "histories": histories,
        "doubts": parts.doubts_of(histories, best, float(row["floor"])),
        "made": [[label, text] for label, text in facts.items()],
    }


def _histories(store: Store, record: Record) -> list[list[list[Any]]]:
    """Per fold (usually one) the rows epoch, training loss, validation score; none if the record has no history."""
    if "history.json" not in record.files:
        return []
    history = json.loads(store.open(record.key, "history.json").read_bytes())
    folds = history if history and isinstance(history[0], list) else [history]
    names = ("epoch", "train_loss", "validation")
    return [[[parts.plain(row.get(name)) for name in names] for row in fold] for fold in folds if fold]


SCHEMA = 1
APART = ("host", "wall_seconds")  # columns of cells.csv that a page for others need not have


@dataclass(frozen=True)
class Report:
    """What a report says and shows: a title, results, what explains their gains, and the sections in order."""

    title: str
    question: Question
    answer: ImportanceReport
    sections: Sequence[Section]


EMBEDDED = ("figure-", BOARD, RELIABILITY, CONTEXT)  # beginnings of names of figures that the page has no plan of
NOTHING: dict[str, Any] = {  # what follows from cells or intervals alone
    "missing": {},
    "plans": [],
    "targets": [],
    "leaderboards": [],
    "maps": [],
    "cells": {"columns": [], "rows": [], "pages": []},
    "gains": {"columns": [], "rows": []},
    "made": [],
    "pages": [],
    "doubts": {},
}


def _document(
    report: Report, figures: Sequence[FigureFiles], source: str, tasks: Mapping[str, Row], contents: dict[str, Any]
) -> dict[str, Any]:
    """The document of a report from results of this ``source``, with the facts of its tasks, and with its own parts."""
    shown = [files for beginning in EMBEDDED for files in figures if files.png.stem.startswith(beginning)]
    results = report.question.results
    means, rated = rating_means(results).set_index("task").reindex(list(tasks)), [*results.constructs, "overall"]
    bars = next((files for files in shown if files.png.stem == FIGURE_2), None)
    return {
        "schema": SCHEMA,
        "name": results.name,
        "title": report.title,
        "source": source,
        "synthetic": bool(results.is_synthetic),
        "level": LEVEL,
        "metrics": METRIC_NAMES,
        "tasks": [
            {
                "id": name,
                **{field: str(task.get(field) or "") for field in ("title", "dataset", "family", "theme", "metric")},
                "ratings": {construct: parts.plain(means.loc[name, construct]) for construct in rated},
            }
            for name, task in tasks.items()
        ],
        "themes": list(themes()),
        "constructs": [{"id": name, "title": construct_title(name)} for name in results.constructs],
        **(NOTHING | contents),
        "importance": {
            "headline": report.answer.facts["headline"],
            "paper": bars
            and {"fold": NO_EVIDENCE, "title": bars.title, **parts.plain_frame(bars.frame, list(bars.frame.columns))},
        },
        "figures": {f"{files.png.parent.name}/{files.png.name}": _pack(files) for files in shown},
        "report": parts.plain_sections(report.sections),
    }


def _pack(figure: FigureFiles) -> str:
    """A figure's SVG, gzipped and in base64: a tenth of what the SVG itself would take in a page."""
    return base64.b64encode(gzip.compress(figure.svg.read_bytes(), mtime=0)).decode()


def document(study: StudyResults, report: Report, figures: Sequence[FigureFiles] = ()) -> dict[str, Any]:
    """The document of a study; every frame has the CSV file's columns, numbers and order, undefined ones as None."""
    cells = parts.plain_frame(study.cells, [name for name in TYPES if name not in APART])
    addresses = zip(*(study.cells[name] for name in WHERE), strict=True)
    # What takes long to form of the frames, manifest and records of a study, read where it was kept.
    frames = {name: getattr(study, name) for name in ("cells", "gains", "baselines", "controls", "control_means")}
    frames |= {"merged": study.merged} if len(study.merged) else {}
    contents = {
        **study.kept.parts("page", frames, lambda: _parts(study)),
        "missing": dict(study.manifest["missing"]),
        "cells": {**cells, "pages": [parts.page_id(*address) for address in addresses]},
        "gains": parts.plain_frame(study.gains, list(study.gains.columns)),
        "doubts": parts.DOUBTS,
    }
    return _document(report, figures, "stored results", study.tasks, contents)


def _parts(study: StudyResults) -> dict[str, Any]:
    """Maps, forests, leaderboards and the page of every cell, by their names in the document."""
    of_cells = pages(study)
    # Every fact of how cells were made once; runs then name theirs by place, for most are those of all others.
    places: dict[tuple[str, str], int] = {}
    for run in (run for page in of_cells for run in page["runs"] if "made" in run):
        run["made"] = [places.setdefault((label, text), len(places)) for label, text in run["made"]]
    return {
        "plans": parts.glances(study),
        "targets": parts.targets_of_study(study),
        "leaderboards": parts.leaderboards(study),
        "maps": parts.heatmaps(study),
        "made": [list(fact) for fact in places],
        "pages": of_cells,
    }


# One HTML file from the templates beside this module, the plotting library and a JSON document.

IN_ORDER = """
    elements colours plots orders squares maps cells cell/charts cell/changes cell/cell curves importance paragraphs
    plans intermediates main
"""
SCRIPTS = [f"{name}.js" for name in IN_ORDER.split()]
LIBRARY = "plotly-cartesian.min.js"
HARMLESS: dict[str, str | int | None] = {
    "<": "\\u003c",
    ">": "\\u003e",
    "&": "\\u0026",
    "\u2028": "\\u2028",
    "\u2029": "\\u2029",
    **dict.fromkeys("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069", "?"),  # turn texts round
}


def write_page(report: Report, figures: Sequence[FigureFiles], path: Path, study: StudyResults | None = None) -> None:
    """Write the page of a study, or of printed scores, with the figures that it has no plan of.

    It loads nothing from elsewhere, and equal results give equal bytes.
    """
    write_text(path, assemble(document(study, report, figures) if study else scores_document(report, figures)))


def assemble(shown: Mapping[str, Any]) -> str:
    """The HTML of a document; its texts stand in it as JSON alone, but for the title, which is escaped."""
    scripts = "\n".join(_read(f"scripts/{name}") for name in SCRIPTS)
    library, script = _read(f"vendor/{LIBRARY}"), f'(() => {{\n"use strict";\n{scripts}}})();\n'
    digests = (base64.b64encode(hashlib.sha256(source.encode()).digest()).decode() for source in (library, script))
    hashes = " ".join(f"'sha256-{digest}'" for digest in digests)
    filled = {
        "POLICY": f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:;"
        " base-uri 'none'; form-action 'none'",
        "TITLE": html.escape(harmless(str(shown["title"]))),
        "STYLE": _read("page.css"),
        "DOCUMENT": embed(shown),
        "LIBRARY": library,
        "SCRIPT": script,
    }
    pieces = _read("page.html").split("@@")
    return "".join(filled[piece] if number % 2 else piece for number, piece in enumerate(pieces))


def embed(shown: Mapping[str, Any]) -> str:
    """A document as JSON that no text in it can break out of; ValueError if it has a number that is none."""
    text = json.dumps(shown, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.translate(str.maketrans(HARMLESS))


def _read(name: str) -> str:
    return (files("analysis.page") / "assets" / name).read_text(encoding="utf-8")


FULL = "full"  # the setting of all training data, the only one
UNTESTED = "no interval and no p: there are no predictions"


def scores_document(report: Report, figures: Sequence[FigureFiles] = ()) -> dict[str, Any]:
    """The document of printed scores, as far as these tell; lists of what they do not tell are empty."""
    results = report.question.results
    facts = results.tasks.set_index("task", drop=False).fillna({"theme": ""}).to_dict("index")
    gains = results.gains.assign(setting=FULL, points=100 * results.gains.gain, significant=False)
    families, titles = ({name: str(task[field]) for name, task in facts.items()} for field in ("family", "title"))
    board = parts.board_of(FULL, gains, families, titles, is_tested=False)
    contents = {
        "targets": parts.targets_of_scores(FULL, gains),
        "leaderboards": [board] if board["rows"] else [],
        "maps": [_map(gains, facts, results.name, metric) for metric in METRIC_NAMES if (gains.metric == metric).any()],
    }
    return _document(report, figures, "printed scores", facts, contents)


def _map(gains: pd.DataFrame, facts: dict[str, Any], name: str, metric: str) -> dict[str, Any]:
    """The squares of one metric: scores alone, and every pair with the difference of two printed scores."""
    alone = gains[gains.metric == metric].drop_duplicates("target")[["target", "metric", "setting", "n_seeds"]]
    scores = gains.drop_duplicates("target").set_index("target").baseline
    baselines = alone.assign(role=BASELINE, score=alone.target.map(scores))
    baselines = baselines.set_index("target", drop=False).loc[[task for task in facts if task in set(alone.target)]]
    squares = heat.squares(gains, baselines, {"tasks": facts}, metric=metric, setting=FULL)
    title = f"Gains in {name}, targets scored by {METRIC_NAMES[metric]}\nfrom printed scores, not tested"
    return parts.map_of(squares, metric, FULL, title, lambda square: _square(square, scores[square.target]))


def _square(square: Square, alone: float) -> dict[str, Any]:
    """A square with what hovering says; points are whole, since the scores are printed with two decimals."""
    where = square.intermediate, square.target, square.status
    if square.status == "baseline":
        hover = [f"{square.column} alone", f"score {bare(square.score)}"]
        return {**parts.square_of(*where, hover, None), **parts.numbers_of(square.score, None)}
    name = f"{square.row} {parts.ARROW} {square.column}"
    if square.status != "done":
        return parts.square_of(*where, [name, heat.MEANINGS[square.status]], None)
    gain = signed(square.points, 0)
    doubts = {"collapsed": square.is_collapsed, "contaminated": square.is_contaminated}
    flags = ", ".join(flag for flag, holds in doubts.items() if holds)
    hover = [name, f"score {bare(square.score)}, target alone {bare(alone)}", f"gain {gain} points; {UNTESTED}"]
    hover += [f"flags: {flags}"] if flags else []
    marks = heat.DAGGER * square.is_collapsed + heat.DOUBLE_DAGGER * square.is_contaminated
    shown = {**parts.numbers_of(square.score, square.points), "points_text": gain, "marks": marks}
    return {**parts.square_of(*where, hover, None), **shown}
