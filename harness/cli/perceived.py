"""``perceived``: whether what supporters express goes with how it is perceived, intent by intent, rating by rating."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.cli.options import Leaves, leaf_of, out_option
from harness.cli.terminal import print_json, print_rows, records
from tasks.errors import BadInput, BadRow
from tasks.plain_text import counted, harmless
from tasks.readers.raw import KNOWN, LONGEST_NAME, read_raw

if TYPE_CHECKING:
    import pandas as pd

    from analysis.results.people import Rated
    from tasks.readers.raw import Raw

TRUTH = {"0": 0.0, "1": 1.0, "0.0": 0.0, "1.0": 1.0, "false": 0.0, "true": 1.0, "no": 0.0, "yes": 1.0, "": math.nan}
MOST_INTENTS, MOST_WORDS = 60, 5  # of more a column holds texts, which are never shown
SPARE = ("95 % interval",)
NO_CAUSE = "A difference says what goes together in these rows, not what brings what about."


def add(leaves: Leaves) -> None:
    """Add ``perceived``."""
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


def _extent(rated: Rated, rating: str) -> str:
    has = rated.ratings[rating].notna()
    return f"{counted(int(has.sum()), 'row')} of {counted(rated.group[has].nunique(), 'group')}"


def _rows(part: pd.DataFrame) -> Iterator[Mapping[str, object]]:
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
