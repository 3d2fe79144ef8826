"""``texts insights`` and ``perceived``: what scores say of authors, and whether what is expressed is perceived."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.cli.options import Leaves, leaf_of, out_option
from harness.cli.terminal import print_json, print_rows, records
from tasks.errors import BadInput, BadRow
from tasks.plain_text import counted, harmless, nearest
from tasks.readers.raw import KNOWN, LONGEST_NAME, read_raw

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
    """Add ``insights`` and ``perceived``."""
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
    text = "Compare ratings of what supporters wrote with and without each intent that it expresses, by dialogue."
    example = "texts perceived turns.csv --intents strategy --group dialogue --ratings helpful"
    perceived = leaf_of(leaves, "perceived FILE", text, example, show_perceived, "json")
    perceived.add_argument("file", metavar="FILE", help=f"a table with intents and ratings: {KNOWN}")
    perceived.add_argument("--ratings", metavar="A,B", required=True, help="columns of numbers")
    perceived.add_argument("--scale", metavar="LOW-HIGH", default="1-5", help="of every rating (default: 1-5)")
    intents = "a column of names, or columns of 0 and 1"
    perceived.add_argument("--intents", metavar="A,B", required=True, help=intents)
    perceived.add_argument("--group", metavar="COLUMN", default="group", help="the dialogue of a row (default: group)")
    out_option(perceived, "tables and figures (default: results/perceived/FILE, without its ending)")


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


TRUTH = {"0": 0.0, "1": 1.0, "0.0": 0.0, "1.0": 1.0, "false": 0.0, "true": 1.0, "no": 0.0, "yes": 1.0, "": math.nan}
MOST_INTENTS, MOST_WORDS = 60, 5  # of more a column holds texts, which are never shown
SPARE = ("95 % interval",)
NO_CAUSE_OF_RATING = "A difference says what goes together in these rows, not what brings what about."


def show_perceived(options: argparse.Namespace) -> int:
    """Write the table and the correlations as CSV and figures, and print them."""
    # the rows that have a group, a rating and an intent that is known, and notes of what was left out
    import pandas as pd

    from analysis.figures.corpus import perceived_figures
    from analysis.results.people import DECIDES, Rated, correlations, expressed

    raw = read_raw(Path(options.file))
    low, high = _scale(options.scale)
    ends = "name the ends of the scale with --scale LOW-HIGH, and leave what was not rated empty"
    ratings = pd.DataFrame({name: raw.numbers(name, low, high, ends) for name in _names(options.ratings)})
    intents = _intents(raw, _names(options.intents))
    group = pd.Series(raw.cells(options.group), dtype=object)
    is_whole = (group != "") & ratings.notna().any(axis=1) & intents.notna().any(axis=1)
    left_out = int((~is_whole).sum())
    notes = [f"{counted(left_out, 'row')} without a group, a rating or intents left out"] if left_out else []
    rated = Rated(*(part[is_whole].reset_index(drop=True) for part in (group, intents, ratings)))
    table, together = expressed(rated), correlations(rated)
    name = Path(options.file).name.partition(".")[0]
    rows, groups = len(rated.group), rated.group.nunique()
    subtitle = f"{name}: {counted(rows, 'rated row')} of {counted(groups, 'group')}"
    out = Path(options.out or Path("results/perceived") / name)
    files = [str(figure.png) for figure in perceived_figures(table, together, out, subtitle)]
    if options.json:
        facts = {"subtitle": subtitle, "rows": rows, "groups": groups, "notes": notes, "decides": DECIDES}
        print_json({**facts, "expressed": records(table), "correlations": records(together), "files": files})
        return 0
    print(subtitle, *notes, sep="\n")
    for rating, part in table.groupby("rating", sort=False):
        has = rated.ratings[rating].notna()
        extent = f"{counted(int(has.sum()), 'row')} of {counted(rated.group[has].nunique(), 'group')}"
        print(f"\n{harmless(str(rating))}, {extent}:")
        print_rows(list(_expressed_rows(part)), as_json=False, spare=SPARE)
    print(
        f"\n(standard error, clustered by group); adjusted: p after the correction over all {len(table)} tests (max-T)"
    )
    if len(rated.ratings.columns) > 1:
        print("\nCorrelation of ratings (Spearman):")
        print_rows(list(_correlated(together)), as_json=False)
    print(f"\n{NO_CAUSE_OF_RATING}")
    print(f"figures, each with its CSV: {', '.join(files)}")
    return 0


def _intents(raw: Raw, names: Sequence[str]) -> pd.DataFrame:
    """1 or 0 per row and intent, NaN where a cell is empty: from columns of 0 and 1, or from a column of names."""
    import pandas as pd

    cells = {name: [cell.lower() for cell in raw.cells(name)] for name in names}
    if len(names) == 1 and not all(cell in TRUTH for cell in cells[names[0]]):
        return _named(raw, names[0])
    for name, column in cells.items():
        for row, cell in enumerate(column):
            if cell not in TRUTH:
                raise BadRow(f"{raw.where(row)}: column {name!r} is neither 0 nor 1; name a column of names alone")
    return pd.DataFrame({name: [TRUTH[cell] for cell in column] for name, column in cells.items()})


def _named(raw: Raw, name: str) -> pd.DataFrame:
    """Of a column of names, several in a cell joined by ``|``: the most frequent first; BadInput where it has texts."""
    import pandas as pd

    sets = [[part.strip() for part in cell.split("|") if part.strip()] for cell in raw.cells(name)]
    counts = pd.Series([part for parts in sets for part in parts], dtype=object).value_counts()
    is_short = all(len(intent) <= LONGEST_NAME and len(intent.split()) <= MOST_WORDS for intent in counts.index)
    if len(counts) > MOST_INTENTS or not is_short:
        raise BadInput(
            f"--intents {name}: {raw.path} has texts there; name a column of at most {MOST_INTENTS} names, none of more"
            f" than {MOST_WORDS} words or {LONGEST_NAME} letters"
        )
    unknown = float("nan")
    return pd.DataFrame(
        {str(intent): [float(intent in parts) if parts else unknown for parts in sets] for intent in counts.index}
    )


def _scale(text: str) -> tuple[float, float]:
    low, _, high = text.rpartition("-")
    try:
        ends = float(low), float(high)
    except ValueError:
        ends = 0.0, 0.0
    if not ends[0] < ends[1]:
        raise BadInput(f"--scale {text}: write the least and the largest rating, as in 1-5")
    return ends


def _names(listed: str) -> list[str]:
    return list(dict.fromkeys(name.strip() for name in listed.split(",") if name.strip()))


def _expressed_rows(part: pd.DataFrame) -> Iterator[Mapping[str, object]]:
    """What the terminal shows of a rating, a row for each intent."""
    from analysis.gains.significance import p_text
    from analysis.results.people import DECIDES
    from analysis.tables import fixed, interval

    def mean(row: Mapping[str, Any], side: str) -> str:
        if row[f"rows_{side}"] == 0:
            return ""
        error = row[f"error_{side}"]
        return f"{row[f'mean_{side}']:.2f}" + ("" if math.isnan(error) else f" ({error:.2f})")

    for row in part.to_dict("records"):
        is_tested = not math.isnan(row["p"])
        yield {
            "intent": harmless(row["intent"]),
            "rows": row["rows_with"],
            "with": mean(row, "with"),
            "without": mean(row, "without"),
            "difference": "" if math.isnan(row["difference"]) else fixed(row["difference"], 2, "+"),
            "95 % interval": interval(row["low"], row["high"], 2) if is_tested else "",
            "p": p_text(row["p"]) if is_tested else "",
            "adjusted": p_text(row[DECIDES]) if is_tested else "not tested",
        }


def _correlated(together: pd.DataFrame) -> Iterator[Mapping[str, object]]:
    """Every two ratings once: over groups with its interval, and over rows."""
    from analysis.tables import interval, number

    order = {name: place for place, name in enumerate(dict.fromkeys(together["rating"]))}
    for row in together.to_dict("records"):
        if order[row["rating"]] < order[row["other"]]:
            yield {
                "ratings": f"{harmless(row['rating'])}, {harmless(row['other'])}",
                "over groups": number(row["rho"], 2),
                "95 % interval": interval(row["low"], row["high"], 2),
                "groups": row["groups"],
                "over rows": number(row["rho_rows"], 2) if row["rows"] else "",
                "rows": row["rows"],
            }
