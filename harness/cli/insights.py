"""``insights``: what scored texts say of their authors: levels over time, by group, and what follows a text."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.cli.options import leaf_options, out_option
from harness.cli.terminal import print_json, print_rows
from tasks.errors import BadInput, BadRow, MissingData
from tasks.plain_text import counted, harmless
from tasks.readers.raw import read_raw

if TYPE_CHECKING:
    import pandas as pd

    from analysis.results.people.insights import Filters
    from tasks.readers.raw import Raw

PARTS = {
    "over-time": "Over time, among authors who stay",
    "by-group": "By group",
    "by-level": "What follows a text, by its level",
}
NO_CAUSE = "A change says what goes together in these texts, not what brings what about."


def add_insights(insights: argparse.ArgumentParser) -> None:
    """Add the options of ``insights``."""
    leaf_options(insights, "insights replies.scores.csv --of replies.csv --author user --time written", show_insights)
    insights.add_argument("file", metavar="SCORES", help="what `score` has written: csv, jsonl or parquet")
    insights.add_argument("--of", metavar="FILE", help="the file that was scored, with the columns (default: SCORES)")
    insights.add_argument("--id", metavar="COLUMN", help="its ids (default: id if it has that, else numbers from 0)")
    insights.add_argument("--author", metavar="COLUMN", required=True, help="who wrote the text")
    insights.add_argument("--time", metavar="COLUMN", help="when, as 2015-03-01 or 2015-03-01T18:20")
    insights.add_argument("--group", metavar="COLUMN", help="what tells texts apart")
    insights.add_argument("--outcome", metavar="COLUMN", help="a number that follows the text, such as likes")
    insights.add_argument("--task", metavar="ID", action="append", default=[], help="(repeatable; default: all)")
    insights.add_argument("--levels", metavar="A,B,C", default="", help="classes from low to high, if not numbers")
    insights.add_argument("--period", choices=("year", "quarter", "month"), default="year", help="(default: year)")
    insights.add_argument(
        "--fewest-texts", metavar="N", type=int, default=10, help="of an author, over time (default: 10)"
    )
    insights.add_argument(
        "--fewest-days", metavar="N", type=float, default=365, help="from first to last text (default: 365)"
    )
    insights.add_argument(
        "--within", metavar="HOURS", type=float, help="the outcome is a time and counts if it is so soon"
    )
    out_option(insights, "tables and figures (default: results/insights/SCORES, without its ending)")


def show_insights(options: argparse.Namespace) -> int:
    """Write every part that has its columns as CSV and figure, and print its rows."""
    from analysis.figures.insights import insight_figures
    from analysis.results.people.insights import Filters

    _check(options)
    filters = Filters(options.period, options.fewest_texts, options.fewest_days, options.within)
    parts, facts = _parts(options, filters)
    out = Path(options.out or Path("results/insights") / Path(options.file).name.partition(".")[0])
    figures = insight_figures(parts, out, facts["subtitle"])
    files = [str(figure.png) for figure in figures]
    if options.json:
        rows = {part: json.loads(frame.to_json(orient="records")) for part, frame in parts.items()}
        print_json({**facts, **rows, "files": files})
        return 0
    print(facts["subtitle"])
    for line in facts["notes"]:
        print(line)
    for part, frame in parts.items():
        print(f"\n{PARTS[part]}:")
        print_rows(list(_rows(part, frame)), as_json=False)
    print(f"\n{NO_CAUSE}")
    print(f"figures, each with its CSV: {', '.join(files)}")
    return 0


def _check(options: argparse.Namespace) -> None:
    if not (options.time or options.group or options.outcome):
        raise BadInput("insights: nothing to compare; name a column with --time, --group or --outcome")
    if options.within is not None and not (options.time and options.outcome):
        raise BadInput("--within: name the time of a text with --time and that of its outcome with --outcome")
    for name, value in (("--fewest-texts", options.fewest_texts), ("--fewest-days", options.fewest_days)):
        if value < 1:
            raise BadInput(f"{name} {value}: a number from 1")
    if not Path(options.file).is_file():
        raise MissingData(f"{options.file}: no such file; write it with: empathy-transfer score FILE --study STUDY")


def _parts(options: argparse.Namespace, filters: Filters) -> tuple[dict[str, pd.DataFrame], dict[str, Any]]:
    """The frame of every part that was asked for, and what was compared."""
    from analysis.results.people import insights as computed

    scales, ids = _scales(options)
    columns, notes = _columns(options, ids)
    scales, columns = (frame.loc[columns.index].reset_index(drop=True) for frame in (scales, columns))
    authors = columns["author"].nunique()
    if authors < 2:
        raise BadInput(f"--author {options.author}: {counted(authors, 'author')}; intervals need two, and want thirty")
    parts = {}
    if options.time and filters.within_hours is None:  # else it only says when an outcome is late
        parts["over-time"] = computed.over_time(scales, columns["author"], columns["time"], filters)
    if options.group:
        parts["by-group"] = computed.by_group(scales, columns["author"], columns["group"])
    if options.outcome:
        outcome = columns["outcome"]
        if filters.within_hours is not None:
            outcome = computed.followed(columns["time"], outcome, filters.within_hours)
        parts["by-level"] = computed.by_level(scales, columns["author"], outcome)
    subtitle = f"{Path(options.file).name}: {counted(len(columns), 'text')} by {counted(authors, 'author')}"
    return parts, {"subtitle": subtitle, "texts": len(columns), "authors": authors, "notes": notes}


def _scales(options: argparse.Namespace) -> tuple[pd.DataFrame, pd.Series]:
    """Levels of every text, a column for each task and their total, and the texts' ids."""
    from analysis.figures.corpus import read_scored
    from analysis.results.people.insights import levels
    from tasks.plain_text import nearest

    scored = read_scored(Path(options.file))
    if missing := [name for name in ("id", "task", "prediction", "value") if name not in scored]:
        raise BadRow(f"{options.file}:1: no column {missing[0]!r}; give a file that `score` has written")
    known = list(dict.fromkeys(scored.task))
    for task in options.task:
        if task not in known:
            raise BadInput(f"--task {task}: not scored in {options.file}{nearest(task, known)}")
    scored = scored[scored.task.isin(options.task or known)].reset_index(drop=True)
    if scored.empty:
        raise BadInput(f"{options.file}: no text was scored")
    order = [name.strip() for name in options.levels.split(",") if name.strip()]
    return levels(scored, order), scored.id[scored.task == scored.task[0]].reset_index(drop=True)


def _columns(options: argparse.Namespace, ids: pd.Series) -> tuple[pd.DataFrame, list[str]]:
    """The columns of every scored text that has an author and, where asked for, a time; and what was left out."""
    import pandas as pd

    file = Path(options.of or options.file)
    if not file.is_file():
        raise MissingData(f"--of {file}: no such file; give the file that was scored")
    raw = read_raw(file)
    row_of = _rows_by_id(raw, options)
    if missing := [own for own in ids.astype(str) if own not in row_of]:
        raise BadInput(f"{file}: id {harmless(missing[0])!r} of {options.file} is not there; name its ids with --id")
    frame = pd.DataFrame(_cells(raw, [row_of[own] for own in ids.astype(str)], options))
    is_whole = frame.author != ""
    for name in ("time", "group"):
        if name in frame:
            is_whole &= frame[name].notna() & (frame[name].astype(str) != "")
    left_out = int((~is_whole).sum())
    why = f"{counted(left_out, 'text')} without an author, a time or a group left out"
    return frame[is_whole], [why] if left_out else []


def _cells(raw: Raw, rows: list[int], options: argparse.Namespace) -> dict[str, Any]:
    """The columns that the options name, of these rows: times, numbers and texts."""
    table: dict[str, Any] = {}
    times = ("time",) if options.within is None else ("time", "outcome")
    for name in ("author", "time", "group", "outcome"):
        if column := getattr(options, name):
            place = raw.column(column)
            cells = [raw.rows[row][place].strip() for row in rows]
            if name in times:
                table[name] = _times(raw, rows, column, cells)
            else:
                table[name] = _numbers(raw, rows, column, cells) if name == "outcome" else cells
    return table


def _rows_by_id(raw: Raw, options: argparse.Namespace) -> dict[str, int]:
    """The row of each id; of a scored file, in which a text has a row for each task, the first."""
    name = options.id or ("id" if "id" in raw.header else "")
    if not name:
        return {str(row): row for row in range(len(raw.rows))}
    place, rows = raw.column(name), dict[str, int]()
    for row, cells in enumerate(raw.rows):
        first = rows.setdefault(cells[place].strip(), row)
        if first != row and options.of:
            raise BadRow(f"{raw.where(row)}: id {harmless(cells[place])!r} is at {raw.where(first)} too; keep one")
    return rows


def _times(raw: Raw, rows: list[int], column: str, cells: list[str]) -> pd.Series:
    import pandas as pd

    times = pd.to_datetime(pd.Series(cells), format="ISO8601", errors="coerce", utc=True)
    for row, cell, time in zip(rows, cells, times, strict=True):
        if cell and pd.isna(time):
            raise BadRow(f"{raw.where(row)}: {column} {harmless(cell)!r} is no time; write it as 2015-03-01T18:20")
    return times


def _numbers(raw: Raw, rows: list[int], column: str, cells: list[str]) -> pd.Series:
    import pandas as pd

    numbers = pd.to_numeric(pd.Series(cells), errors="coerce").astype("float64")
    for row, cell, number in zip(rows, cells, numbers, strict=True):
        if not math.isfinite(number) or number < 0:
            raise BadRow(f"{raw.where(row)}: {column} {harmless(cell)!r} is no number from 0; for a time add --within")
    return numbers


def _rows(part: str, frame: pd.DataFrame) -> Iterator[dict[str, object]]:
    """What the terminal shows of a part: over time all authors together, else every row."""
    for row in (frame[frame.joined == "all"] if part == "over-time" else frame).to_dict("records"):
        value = {"over-time": "period", "by-group": "group", "by-level": "level"}[part]
        mean = row["outcome"] if part == "by-level" else row["mean"]
        change = "" if math.isnan(row["change"]) else f"{row['change']:+.0f} %"
        interval = "" if math.isnan(row["low"]) else f"{row['low']:+.0f} to {row['high']:+.0f}"
        yield {
            "scale": row["scale"],
            value: harmless(str(row[value])),
            "authors": row["authors"],
            "texts": row["texts"],
            "mean": f"{mean:.2f}",
            "change": change,
            "95 % interval": interval,
        }
