"""``insights``: what scored texts say of their authors: levels over time, by group, and what follows a text."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.cli.options import Leaves, leaf_of, out_option
from harness.cli.terminal import print_json, print_rows
from tasks.errors import BadInput, BadRow
from tasks.plain_text import counted, harmless, nearest
from tasks.readers.raw import read_raw

if TYPE_CHECKING:
    import pandas as pd

    from tasks.readers.raw import Raw

PARTS = {
    "over-time": "Over time, among authors who stay",
    "by-group": "By group",
    "by-level": "What follows a text, by its level",
}
NO_CAUSE = "A change says what goes together in these texts, not what brings what about."


def add(leaves: Leaves) -> None:
    """Add ``insights``."""
    text = "Say how levels of scored texts move over time, differ between groups, and go with what follows them."
    example = "texts insights replies.scores.csv --of replies.csv --author user --time written"
    insights = leaf_of(leaves, "insights SCORES", text, example, show_insights, "json")
    insights.add_argument("file", metavar="SCORES", help="what `score` has written: csv, jsonl or parquet")
    insights.add_argument("--of", metavar="FILE", help="the file that was scored, with the columns (default: SCORES)")
    insights.add_argument("--id", metavar="COLUMN", help="its ids (default: id if it has that, else numbers from 0)")
    insights.add_argument("--author", metavar="COLUMN", required=True, help="who wrote the text")
    insights.add_argument("--time", metavar="COLUMN", help="when, as 2015-03-01 or 2015-03-01T18:20")
    insights.add_argument("--group", metavar="COLUMN", help="what tells texts apart")
    insights.add_argument("--outcome", metavar="COLUMN", help="a number that follows the text, such as likes")
    insights.add_argument("--task", metavar="ID", action="append", default=[], help="(repeatable; default: all)")
    insights.add_argument("--levels", metavar="A,B,C", default="", help="classes from low to high, if not numbers")
    texts, days = "of an author, over time (default: 10)", "from first to last text (default: 365)"
    insights.add_argument("--fewest-texts", metavar="N", type=int, default=10, help=texts)
    insights.add_argument("--fewest-days", metavar="N", type=float, default=365, help=days)
    within = "the outcome is a time and counts if it is so soon"
    insights.add_argument("--within", metavar="HOURS", type=float, help=within)
    out_option(insights, "tables and figures (default: results/insights/SCORES, without its ending)")


def show_insights(options: argparse.Namespace) -> int:
    """Write every part that has its columns as CSV and figure, and print its rows."""
    from analysis.figures.corpus import insight_figures

    if not (options.time or options.group or options.outcome):
        raise BadInput("insights: nothing to compare; name a column with --time, --group or --outcome")
    if options.within is not None and not (options.time and options.outcome):
        raise BadInput("--within: name the time of a text with --time and that of its outcome with --outcome")
    # the frame of every part that was asked for, and what was compared
    from analysis.results import people as computed

    scales, ids = _scales(options)
    columns, notes = _columns(options, ids)
    scales, columns = (frame.loc[columns.index].reset_index(drop=True) for frame in (scales, columns))
    authors = columns["author"].nunique()
    if authors < 2:
        raise BadInput(f"--author {options.author}: {counted(authors, 'author')}; intervals need two, and want thirty")
    parts = {}
    if options.time and options.within is None:  # else it only says when an outcome is late
        fewest = {"fewest_texts": options.fewest_texts, "fewest_days": options.fewest_days}
        parts["over-time"] = computed.over_time(scales, columns["author"], columns["time"], **fewest)
    if options.group:
        parts["by-group"] = computed.by_group(scales, columns["author"], columns["group"])
    if options.outcome:
        outcome = columns["outcome"]
        if options.within is not None:
            outcome = computed.followed(columns["time"], outcome, options.within)
        parts["by-level"] = computed.by_level(scales, columns["author"], outcome)
    subtitle = f"{Path(options.file).name}: {counted(len(columns), 'text')} by {counted(authors, 'author')}"
    facts = {"subtitle": subtitle, "texts": len(columns), "authors": authors, "notes": notes}
    out = Path(options.out or Path("results/insights") / Path(options.file).name.partition(".")[0])
    figures = insight_figures(parts, out, facts["subtitle"])
    files = [str(figure.png) for figure in figures]
    if options.json:
        rows = {part: json.loads(frame.to_json(orient="records")) for part, frame in parts.items()}
        print_json({**facts, **rows, "files": files})
        return 0
    print(facts["subtitle"], *facts["notes"], sep="\n")
    for part, frame in parts.items():
        print(f"\n{PARTS[part]}:")
        print_rows(list(_rows(part, frame)), as_json=False)
    print(f"\n{NO_CAUSE}")
    print(f"figures, each with its CSV: {', '.join(files)}")
    return 0


def _scales(options: argparse.Namespace) -> tuple[pd.DataFrame, list[str]]:
    """Levels of every text, a column for each task and their total, and the texts' ids."""
    from analysis.figures.corpus import read_scored
    from analysis.results.people import levels

    scored = read_scored(Path(options.file))
    known = list(dict.fromkeys(scored.task))
    for task in options.task:
        if task not in known:
            raise BadInput(f"--task {task}: not scored in {options.file}{nearest(task, known)}")
    scored = scored[scored.task.isin(options.task or known)].reset_index(drop=True)
    if scored.empty:
        raise BadInput(f"{options.file}: no text was scored")
    order = [name.strip() for name in options.levels.split(",") if name.strip()]
    return levels(scored, order), scored.id[scored.task == scored.task[0]].astype(str).tolist()


def _columns(options: argparse.Namespace, ids: list[str]) -> tuple[pd.DataFrame, list[str]]:
    """The columns of every scored text that has an author and, where asked for, a time; and what was left out."""
    import pandas as pd

    raw = read_raw(Path(options.of or options.file))
    places = _places(raw, options)
    if missing := [own for own in ids if own not in places]:
        raise BadInput(
            f"{raw.path}: id {harmless(missing[0])!r} of {options.file} is not there; name its ids with --id"
        )
    columns: dict[str, Any] = {"author": raw.cells(options.author)}
    if options.time:
        columns["time"] = _times(raw, options.time)
    if options.group:
        columns["group"] = raw.cells(options.group)
    if options.outcome:
        columns["outcome"] = _outcome(raw, options)
    frame = pd.DataFrame(columns).iloc[[places[own] for own in ids]].reset_index(drop=True)
    is_whole = frame.author != ""
    for name in {"time", "group"} & set(frame):
        is_whole &= frame[name].notna() & (frame[name].astype(str) != "")
    left_out = int((~is_whole).sum())
    why = f"{counted(left_out, 'text')} without an author, a time or a group left out"
    return frame[is_whole], [why] if left_out else []


def _places(raw: Raw, options: argparse.Namespace) -> dict[str, int]:
    """The row of each id; of a scored file, in which a text has a row for each task, the first."""
    places: dict[str, int] = {}
    for row, own in enumerate(raw.ids(options.id)):
        first = places.setdefault(own, row)
        if first != row and options.of:
            raise BadRow(f"{raw.where(row)}: id {harmless(own)!r} is at {raw.where(first)} too; keep one")
    return places


def _times(raw: Raw, column: str) -> pd.Series:
    import pandas as pd

    cells = raw.cells(column)
    times = pd.to_datetime(pd.Series(cells), format="ISO8601", errors="coerce", utc=True)
    for row, (cell, time) in enumerate(zip(cells, times, strict=True)):
        if cell and pd.isna(time):
            raise BadRow(f"{raw.where(row)}: {column} {harmless(cell)!r} is no time; write it as 2015-03-01T18:20")
    return times


def _outcome(raw: Raw, options: argparse.Namespace) -> pd.Series:
    """A time, which may be empty, with --within; else a number for every text."""
    import pandas as pd

    if options.within is not None:
        return _times(raw, options.outcome)
    numbers = pd.Series(raw.numbers(options.outcome, 0, math.inf, "for a time add --within"))
    if numbers.isna().any():
        raise BadRow(f"{raw.where(int(numbers.isna().argmax()))}: {options.outcome} is empty; write 0 for nothing")
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
