"""Facts and ratings of the tasks in a grid that a person brings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from analysis.markdown import few
from analysis.matrix_cells import named, number, raw_of
from analysis.results import TASKS
from tasks.errors import BadRow
from tasks.ratings import Rating, themes
from tasks.toml_file import nearest

COUNTS = tuple(name for name, one in TASKS.items() if one.type == "Int64")
TYPES = ("regression", "classification")
COLUMNS = [name for name in TASKS if name != "metric"]

Found = tuple[list[dict[str, Any]], list[str]]


def given_tasks(path: Path | None, names: Sequence[str], metrics: Mapping[str, str]) -> Found:
    """One row of facts per task of the grid, in its order, and what is not known of them.

    ``names`` are the tasks of the grid, ``metrics`` those of targets. A task without a family is one of its own.
    """
    read = {} if path is None else _tasks(path)
    facts = []
    for name in names:
        given = read.get(name, {})
        text = {column: given.get(column) or "" for column in COLUMNS if column not in COUNTS}
        metric = metrics.get(name, "")
        kind = text["task_type"] or (TYPES[metric != "pearson_r"] if metric else "")
        own = {"task": name, "title": text["title"] or name, "family": text["family"] or name}
        facts.append({**text, **own, "metric": metric, "task_type": kind, **{one: given.get(one) for one in COUNTS}})
    return facts, _unknown(read, names)


def given_ratings(path: Path | None, names: Sequence[str]) -> Found:
    """Every rating of a task of the grid, and which of the other ratings and tasks are left without a partner.

    Constructs may be any; BadRow for a second rating of the same thing by one rater, or if no rated task is known.
    """
    if path is None:
        return [], []
    raw = raw_of(path)
    place = {name: raw.column(name) for name in Rating._fields}
    seen: dict[tuple[str, ...], str] = {}
    found: list[dict[str, Any]] = []
    for k, cells in enumerate(raw.rows):
        where = raw.where(k)
        what = tuple(named(where, name, cells[place[name]]) for name in Rating._fields[:3])
        if (first := seen.setdefault(what, where)) != where:
            raise BadRow(f"{where}: {what[2]} rated {what[0]} on {what[1]} at {first} too; keep one")
        found.append(dict(zip(Rating._fields, (*what, number(where, "value", cells[place["value"]])), strict=True)))
    kept = [one for one in found if one["task"] in names and one["value"] == one["value"]]
    others = list(dict.fromkeys(one["task"] for one in found if one["task"] not in names))
    if not kept:
        hint = nearest(others[0], names) if others else ""
        raise BadRow(f"{path}:2: rates no task of the table of scores{hint}; use the same names in both")
    return kept, [f"Ratings of tasks that are not in the table of scores: {few(others)}."] if others else []


def _tasks(path: Path) -> dict[str, dict[str, Any]]:
    """Facts by task, checked; a column that is not known is refused."""
    raw = raw_of(path)
    raw.column("task")
    for name in raw.header:
        if name not in COLUMNS:
            hint = nearest(name, COLUMNS) or f"; known are {', '.join(COLUMNS)}"
            raise BadRow(f"{path}:1: unknown column {name!r}{hint}")
    found: dict[str, dict[str, Any]] = {}
    for k, cells in enumerate(raw.rows):
        row = _fact(raw.where(k), dict(zip(raw.header, cells, strict=True)))
        if row["task"] in found:
            raise BadRow(f"{raw.where(k)}: task {row['task']} stands above too; keep one row")
        found[row["task"]] = row
    return found


def _fact(where: str, cells: Mapping[str, str]) -> dict[str, Any]:
    """One row of facts; an empty cell is a fact that is not known."""
    row: dict[str, Any] = {name: cell.strip() for name, cell in cells.items() if name not in COUNTS}
    row["task"] = named(where, "task", cells["task"])
    for name, allowed in (("theme", tuple(themes())), ("task_type", TYPES)):
        if row.get(name) and row[name] not in allowed:
            raise BadRow(f"{where}: {name} {row[name]!r} is not one of {', '.join(allowed)}; leave it empty for none")
    for name in COUNTS:
        count = number(where, name, cells.get(name, ""))
        if count < 0 or count % 1 > 0:
            raise BadRow(f"{where}: {name} {cells[name]!r} is not a whole number from 0")
        row[name] = None if count != count else int(count)
    return row


def _unknown(read: Mapping[str, Mapping[str, Any]], names: Sequence[str]) -> list[str]:
    """What the facts do not say of the grid's tasks, and facts of other tasks."""
    lines = []
    if alone := [name for name in names if not read.get(name, {}).get("family")]:
        lines.append(
            f"Families of {len(alone)} of {len(names)} tasks ({few(alone)}): each is taken as one of its own. Where"
            " such tasks share texts or people, leaving families out is too kind to the features."
        )
    if bare := [name for name in names if name not in read]:
        lines.append(f"Facts of {len(bare)} of {len(names)} tasks ({few(bare)}); a feature needs them of every task.")
    others = [name for name in read if name not in names]
    return lines + ([f"Facts of tasks that are not in the table of scores: {few(others)}."] if others else [])
