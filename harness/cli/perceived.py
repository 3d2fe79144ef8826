"""``perceived``: whether what supporters express goes with how it is perceived, intent by intent, rating by rating."""

from __future__ import annotations

import argparse
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from harness.cli.options import leaf_options, out_option
from harness.cli.terminal import print_json, print_rows
from tasks.errors import BadInput, BadRow, MissingData
from tasks.plain_text import counted, harmless
from tasks.readers.esconv import RATINGS, STRATEGIES, holds_conversations, seeker_ratings
from tasks.readers.raw import KNOWN, read_raw

if TYPE_CHECKING:
    import pandas as pd

    from analysis.results.people.intents import Expressed
    from analysis.results.people.perceived import Rated
    from tasks.readers.raw import Raw

TRUTH = {"0": 0.0, "1": 1.0, "0.0": 0.0, "1.0": 1.0, "false": 0.0, "true": 1.0, "no": 0.0, "yes": 1.0}
MOST_INTENTS, LONGEST_NAME, MOST_WORDS = 60, 40, 5  # of more a column holds texts, which are never shown
SCALE = re.compile(r"(-?[0-9]+(?:\.[0-9]+)?)-(-?[0-9]+(?:\.[0-9]+)?)")
SPARE = ("95 % interval",)
NO_CAUSE = "A difference says what goes together in these rows, not what brings what about."


class Columns(NamedTuple):
    """What of a table is used: its intents, its ratings and the ends of their scale."""

    intents: Sequence[str]
    ratings: Sequence[str]
    scale: tuple[float, float]


def add_perceived(perceived: argparse.ArgumentParser) -> None:
    """Add the options of ``perceived``."""
    leaf_options(perceived, "perceived turns.csv --intents strategy --group dialogue --ratings helpful", show_perceived)
    perceived.add_argument(
        "source",
        metavar="STUDY|FILE",
        help="a table with intents and ratings, ESConv's JSON, or with --of what has the intents: a study that the"
        " store has, or what `score` has written",
    )
    perceived.add_argument("--ratings", metavar="A,B", default="", help="columns of numbers (of ESConv: all)")
    perceived.add_argument("--scale", metavar="LOW-HIGH", default="1-5", help="of every rating (default: 1-5)")
    perceived.add_argument(
        "--intents",
        metavar="A,B",
        default="",
        help="a column of names, or columns of 0 and 1 (of ESConv: all); with --of tasks (default: all)",
    )
    perceived.add_argument("--group", metavar="COLUMN", help="the dialogue of a row (default: group; of a study: its)")
    perceived.add_argument("--of", metavar="FILE", help="a table with the ratings, whose ids name rows of STUDY|FILE")
    perceived.add_argument("--id", metavar="COLUMN", help="its ids (default: id if it has that, else numbers from 0)")
    perceived.add_argument(
        "--predicted", action="store_true", help="of a study, what adapters alone predict instead of labels"
    )
    out_option(perceived, "tables and figures (default: results/perceived/SOURCE)")


def show_perceived(options: argparse.Namespace) -> int:
    """Write the table and the correlations as CSV and figures, and print them."""
    from analysis.figures.perceived import perceived_figures
    from analysis.results.people.perceived import DECIDES, correlations, expressed

    rated, notes = _rated_by_id(options) if options.of else _rated_table(options)
    table, together = expressed(rated), correlations(rated)
    name = Path(options.source).name.partition(".")[0]
    rows, groups = len(rated.group), rated.group.nunique()
    subtitle = f"{name}: {counted(rows, 'rated row')} of {counted(groups, 'group')}"
    out = Path(options.out or Path("results/perceived") / name)
    files = [str(figure.png) for figure in perceived_figures(table, together, out, subtitle)]
    if options.json:
        facts = {"subtitle": subtitle, "rows": rows, "groups": groups, "notes": notes, "decides": DECIDES}
        frames = {"expressed": table, "correlations": together}
        print_json({**facts, **{part: _records(frame) for part, frame in frames.items()}, "files": files})
        return 0
    print(subtitle, *notes, sep="\n")
    for rating, part in table.groupby("rating", sort=False):
        print(f"\n{harmless(str(rating))}, {_extent(rated, str(rating))}:")
        print_rows(list(_rows(part)), as_json=False, spare=SPARE)
    print(
        f"\n(standard error, clustered by group); adjusted: p after the correction over all {len(table)} tests (max-T)"
    )
    if len(rated.ratings.columns) > 1:
        print("\nCorrelation of ratings (Spearman):")
        print_rows(list(_correlated(together)), as_json=False)
    print(f"\n{NO_CAUSE}")
    print(f"figures, each with its CSV: {', '.join(files)}")
    return 0


# Where the rows come from: a table that has everything, or intents and ratings that are joined by id.


def _rated_table(options: argparse.Namespace) -> tuple[Rated, list[str]]:
    """Rows of a table with intents and ratings, or of ESConv's conversations, and what was left out."""
    if options.id or options.predicted:
        raise BadInput(f"--{'id' if options.id else 'predicted'}: name the table with the ratings by --of FILE")
    raw, notes = _table(_file(options), options)
    if missing := next((name for name in ("intents", "ratings") if not getattr(options, name)), None):
        raise BadInput(f"--{missing}: name columns of {options.source}; it has {_few(raw.header)}")
    columns, groups = _columns(options), _groups(raw, options)
    return _whole(groups, _intents(raw, columns.intents), _ratings(raw, columns), notes)


def _table(file: Path, options: argparse.Namespace) -> tuple[Raw, list[str]]:
    """The cells of a file; of conversations those of their ratings, whose columns are what is asked for by default."""
    raw = read_raw(file)
    if not holds_conversations(raw):
        return raw, []
    rated = seeker_ratings(raw)
    held = [set(cells) for cells in zip(*rated.table.rows, strict=True)] or [set[str]() for _ in rated.table.header]
    values = dict(zip(rated.table.header, held, strict=True))
    options.intents = options.intents or ",".join(name for name in STRATEGIES if values[name] >= {"0", "1"})
    options.ratings = options.ratings or ",".join(name for name in RATINGS if values[name] - {""})
    return rated.table, [rated.note] if rated.note else []


def _rated_by_id(options: argparse.Namespace) -> tuple[Rated, list[str]]:
    """Rows of the table of ratings whose ids have intents in a study or a scored file, and what was left out."""
    import pandas as pd

    file = Path(options.of)
    if not file.is_file():
        raise MissingData(f"--of {file}: no such file; give a table with ratings")
    raw, known, columns = read_raw(file), _expressed(options), _columns(options)
    if not columns.ratings:
        raise BadInput(f"--ratings: name columns of {file}; it has {_few(raw.header)}")
    ids, ratings = _ids(raw, options.id), _ratings(raw, columns)
    is_known = pd.Series(ids).isin(known.intents.index).to_numpy()
    if not is_known.any():
        raise BadInput(f"{file}: none of {counted(len(ids), 'id')} is a row of {options.source}; name ids with --id")
    of_study = None if options.group else known.group
    groups = _groups(raw, options) if of_study is None else [of_study.get(id, "") for id in ids]
    rows = [row for row, is_row in enumerate(is_known) if is_row]
    intents = known.intents.reindex([ids[row] for row in rows]).reset_index(drop=True)
    varies = [name for name in intents if intents[name].nunique() > 1]
    if not varies:
        raise BadInput(f"{options.source}: no intent of it is there in some rated rows and not in others")
    left_out = (
        (len(ids) - len(rows), f"row of {file.name} without intents", f"rows of {file.name} without intents"),
        (
            len(intents.columns) - len(varies),
            "intent that no rated row has, or all",
            "intents that no rated row has, or all",
        ),
    )
    notes = [f"{counted(number, *words)} left out" for number, *words in left_out if number]
    kept = ratings.iloc[rows].reset_index(drop=True)
    return _whole([groups[row] for row in rows], intents[varies], kept, notes)


def _expressed(options: argparse.Namespace) -> Expressed:
    """Intents by id, of a scored file or of a study in the store."""
    from adapters_store import Store
    from analysis.results.people.intents import scored_intents, stored_intents
    from harness.cli.study import name_of
    from harness.sharing.stored import stored_manifest

    tasks = _names(options.intents)
    if Path(options.source).is_file() and Path(options.source).suffix != ".toml":
        return scored_intents(_scored(options), tasks)
    store = Store(Path(options.store))
    return stored_intents(store, stored_manifest(store, name_of(options.source)), tasks, predicted=options.predicted)


def _scored(options: argparse.Namespace) -> pd.DataFrame:
    from analysis.figures.corpus import read_scored

    if options.predicted:
        raise BadInput(f"--predicted: {options.source} has predictions alone; leave it out")
    scored = read_scored(Path(options.source))
    if missing := [name for name in ("id", "task", "prediction", "value") if name not in scored]:
        raise BadRow(f"{options.source}:1: no column {missing[0]!r}; give a file that `score` has written")
    return scored


def _file(options: argparse.Namespace) -> Path:
    """The file as it was typed, or within the folder of raw files."""
    for place in (Path(options.source), Path(options.data) / options.source):
        if place.is_file():
            return place
    if Path(options.source).suffix:
        raise MissingData(f"{options.source}: no such file, nor in {options.data}; give a table ({KNOWN})")
    raise BadInput(f"{options.source}: a study has no ratings; name a table that has, by --of FILE")


# From cells to numbers.


def _columns(options: argparse.Namespace) -> Columns:
    ends = SCALE.fullmatch(options.scale)
    scale = (float(ends[1]), float(ends[2])) if ends else (0.0, 0.0)
    if not scale[0] < scale[1]:
        raise BadInput(f"--scale {options.scale}: write the least and the largest rating, as in 1-5")
    return Columns(_names(options.intents), _names(options.ratings), scale)


def _groups(raw: Raw, options: argparse.Namespace) -> list[str]:
    """The group of every row, of the column that is named or of ``group``; it may be empty."""
    if not options.group and "group" not in raw.header:
        raise BadInput(f"--group: name the column with the dialogue of a row; {raw.path} has {_few(raw.header)}")
    place = raw.column(options.group or "group")
    return [cells[place].strip() for cells in raw.rows]


def _names(listed: str) -> list[str]:
    return list(dict.fromkeys(name.strip() for name in listed.split(",") if name.strip()))


def _few(header: Sequence[str]) -> str:
    shown = ", ".join(harmless(name)[:LONGEST_NAME] for name in header[:12])
    return f"{shown} and {len(header) - 12} more" if len(header) > 12 else shown


def _ids(raw: Raw, name: str | None) -> list[str]:
    if not name and "id" not in raw.header:
        return [str(row) for row in range(len(raw.rows))]
    place = raw.column(name or "id")
    return [cells[place].strip() for cells in raw.rows]


def _ratings(raw: Raw, columns: Columns) -> pd.DataFrame:
    """A number per row and rating, NaN where the cell is empty; BadRow for what is no number or outside the scale."""
    import pandas as pd

    low, high = columns.scale
    ratings: dict[str, list[float]] = {}
    for name in columns.ratings:
        place = raw.column(name)
        ratings[name] = [_number(raw, row, name, cells[place].strip()) for row, cells in enumerate(raw.rows)]
        for row, value in enumerate(ratings[name]):
            if not (math.isnan(value) or low <= value <= high):
                raise BadRow(
                    f"{raw.where(row)}: {name} {value:g} is outside the scale {low:g} to {high:g};"
                    " name its ends with --scale LOW-HIGH"
                )
        if all(map(math.isnan, ratings[name])):
            raise BadRow(f"{raw.path}: column {name!r} has no rating; leave it out")
    return pd.DataFrame(ratings)


def _number(raw: Raw, row: int, name: str, cell: str) -> float:
    if not cell:
        return float("nan")
    try:
        value = float(cell)
    except ValueError:
        value = float("inf")
    if not math.isfinite(value):
        shown = harmless(cell) if len(cell.split()) == 1 and len(cell) <= LONGEST_NAME else "a text"
        raise BadRow(f"{raw.where(row)}: {name} {shown!r} is no number; leave what was not rated empty")
    return value


def _intents(raw: Raw, names: Sequence[str]) -> pd.DataFrame:
    """1 or 0 per row and intent, NaN where a cell is empty: from columns of 0 and 1, or from a column of names."""
    import pandas as pd

    cells = {name: [row[place].strip() for row in raw.rows] for name in names for place in [raw.column(name)]}
    if len(names) == 1 and not all(cell.lower() in TRUTH for cell in cells[names[0]] if cell):
        return _named(raw, names[0], cells[names[0]])
    for name, column in cells.items():
        for row, cell in enumerate(column):
            if cell and cell.lower() not in TRUTH:
                raise BadRow(f"{raw.where(row)}: column {name!r} is neither 0 nor 1; name a column of names alone")
    return pd.DataFrame(
        {name: [TRUTH[cell.lower()] if cell else float("nan") for cell in column] for name, column in cells.items()}
    )


def _named(raw: Raw, name: str, column: Sequence[str]) -> pd.DataFrame:
    """Of a column of names, several in a cell joined by ``|``: the most frequent first; BadInput where it has texts."""
    import pandas as pd

    sets = [[part.strip() for part in cell.split("|") if part.strip()] for cell in column]
    counts = pd.Series([part for parts in sets for part in parts], dtype=object).value_counts()
    if len(counts) > MOST_INTENTS or not all(map(_is_short, counts.index)):
        raise BadInput(
            f"--intents {name}: {raw.path} has texts there; name a column of at most {MOST_INTENTS} names, none of more"
            f" than {MOST_WORDS} words or {LONGEST_NAME} letters"
        )
    unknown = float("nan")
    return pd.DataFrame(
        {str(intent): [float(intent in parts) if parts else unknown for parts in sets] for intent in counts.index}
    )


def _is_short(value: str) -> bool:
    """Whether a value may be a name, which is shown, and is no text."""
    return len(value) <= LONGEST_NAME and len(value.split()) <= MOST_WORDS


def _whole(
    groups: Sequence[str], intents: pd.DataFrame, ratings: pd.DataFrame, notes: Sequence[str]
) -> tuple[Rated, list[str]]:
    """The rows that have a group, a rating and an intent that is known, and a note of how many have not."""
    import pandas as pd

    from analysis.results.people.perceived import Rated

    group = pd.Series(groups, dtype=object)
    is_whole = (group != "") & ratings.notna().any(axis=1) & intents.notna().any(axis=1)
    left_out = int((~is_whole).sum())
    why = [f"{counted(left_out, 'row')} without a group, a rating or intents left out"] if left_out else []
    parts = (part[is_whole].reset_index(drop=True) for part in (group, intents, ratings))
    return Rated(*parts), [*notes, *why]


# What is printed.


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = json.loads(frame.to_json(orient="records", double_precision=15))
    return records


def _extent(rated: Rated, rating: str) -> str:
    has = rated.ratings[rating].notna()
    return f"{counted(int(has.sum()), 'row')} of {counted(rated.group[has].nunique(), 'group')}"


def _rows(part: pd.DataFrame) -> Iterator[Mapping[str, object]]:
    """What the terminal shows of a rating, a row for each intent."""
    from analysis.gains.significance import p_text
    from analysis.results.people.perceived import DECIDES
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
