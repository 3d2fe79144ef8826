"""Where things stand on a page: widths of venues, and tables in booktabs that are broken before they run over."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil

from analysis.manuscript.latex import aligned, escaped, points_aligned, points_wide, widest_word
from analysis.sections import blocks
from analysis.sections.blocks import markdown
from tasks.errors import BadInput

POINTS_PER_CM = 72.27 / 2.54
SIZES = {"small": 10.0, "footnotesize": 9.0, "scriptsize": 8.0}  # of an 11 pt document
GAPS = {10.0: 3.0, 9.0: 3.0, 8.0: 2.0}  # points at either side of a column, by size
NARROWEST_TEXT = 64.0  # points of a column whose text is broken over lines
HIGHEST = 540.0  # points of a table's lines on a page, below its caption
LONGEST_LABEL = 32  # letters of a turned head that stand on one line
LONGEST = 150.0  # points of a label, at 10 points, that stands on one line
NARROWEST, WIDEST = 6.0, 40.0


@dataclass(frozen=True)
class Venue:
    """The widths in cm that a venue prints: of a column, and of a page's text."""

    name: str
    column: float
    page: float

    @property
    def is_two_column(self) -> bool:
        """True where a page has two columns."""
        return self.column < self.page


VENUES = {"acl": Venue("acl", 7.7, 16.0)}


def of_width(width: float) -> Venue:
    """A page of one column of ``width`` cm; BadInput where no table or figure could stand in it."""
    if not NARROWEST <= width <= WIDEST:
        raise BadInput(f"--width {width:g}: not a width in cm from {NARROWEST:g} to {WIDEST:g}")
    return Venue(f"{width:g} cm", width, width)


@dataclass(frozen=True)
class Column:
    """A column's head, and its kind: ``number`` at the right, ``label`` at the left, ``text`` broken over lines."""

    head: str
    kind: str = "number"


@dataclass(frozen=True)
class Table:
    """A table in plain text: ``labels`` is how many first columns are said again where it is broken.

    ``is_turned`` sets the heads upright; ``rules`` are the rows above which a line stands.
    """

    name: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    labels: int = 1
    is_turned: bool = False
    rules: tuple[int, ...] = ()

    def without_constants(self) -> Table:
        """The table without columns that hold the same in every row, which its caption then says; labels stay first."""
        kept = [0, *(place for place in range(1, len(self.columns)) if len({row[place] for row in self.rows}) > 1)]
        dropped = [place for place in range(len(self.columns)) if place not in kept]
        if self.is_turned or len(self.rows) < 2 or not dropped:
            return self
        values = ((self.columns[place].head, self.rows[0][place]) for place in dropped)
        known = [f"{head}: {value}" for head, value in values if value not in ("", "--")]
        said = f" The same in all rows: {'; '.join(known)}." if known else ""
        labels = sum(place < self.labels for place in kept)
        return replace(self.columns_of(kept), caption=f"{self.caption}{said}", labels=labels)

    def columns_of(self, places: Sequence[int]) -> Table:
        """The table with these of its columns."""
        rows = tuple(tuple(row[place] for place in places) for row in self.rows)
        columns = tuple(self.columns[place] for place in places)
        return Table(self.name, self.caption, columns, rows, self.labels, self.is_turned, self.rules)


@dataclass(frozen=True)
class Fit:
    """How a table stands: a size of type, the width in cm, and whether it goes over both columns of a page."""

    size: str
    width: float
    is_wide: bool

    @property
    def points(self) -> float:
        """The width in points."""
        return self.width * POINTS_PER_CM


def as_markdown(table: Table) -> str:
    """The table under its caption."""
    columns = [column.head for column in table.columns]
    return markdown([blocks.Section("", [blocks.Text(table.caption), blocks.Table(columns, table.rows)])])


def as_latex(table: Table, venue: Venue) -> str:
    """The table as floats, as few as can hold it: broken by columns, then by rows."""
    # The table, whose labels are broken over lines where one of them is long.
    kinds = [
        "text"
        if column.kind == "label" and any(points_wide(row[place], 10) > LONGEST for row in table.rows)
        else column.kind
        for place, column in enumerate(table.columns)
    ]
    columns = tuple(Column(column.head, kind) for column, kind in zip(table.columns, kinds, strict=True))
    table = replace(table, columns=columns)
    # The first place and size that hold all columns; the smallest type over the whole page if none does.
    sizes = list(SIZES)
    choices = [Fit(size, venue.column, False) for size in sizes] if venue.is_two_column else []
    choices += [Fit(size, venue.page, venue.is_two_column) for size in sizes]
    fit = next((choice for choice in choices if _needed(table, SIZES[choice.size]) <= choice.points), choices[-1])
    parts = [part for narrow in _narrow(table, fit) for part in _short(narrow, fit)]
    floats = []
    for number, (part, first) in enumerate(parts, start=1):
        more = f" (part {number} of {len(parts)})" if len(parts) > 1 else ""
        label = f"tab:{table.name}" if number == 1 else f"tab:{table.name}-{number}"
        floats.append(_float(part, first, fit, f"{table.caption}{more}", label))
    return "\n\n".join(floats) + "\n"


def _needed(table: Table, size: float) -> float:
    return sum(_widths(table, size)) - 2 * GAPS[size]


def _widths(table: Table, size: float) -> list[float]:
    """Points that each column needs with its gaps."""
    widths = []
    for place, column in enumerate(table.columns):
        cells = [row[place] for row in table.rows]
        lines = _head(table, place)
        heads = [1.3 * size * len(lines)] if _is_turned(table, place) else [points_wide(line, size) for line in lines]
        if column.kind == "text":
            body = max([NARROWEST_TEXT, *(widest_word(cell, size) for cell in cells)])
        elif column.kind == "number":
            body = points_aligned(cells, size)
        else:
            body = max((points_wide(cell, size) for cell in cells), default=0.0)
        widths.append(max([body, *heads]) + 2 * GAPS[size])
    return widths


def _head(table: Table, place: int) -> list[str]:
    """The lines of a head: about as wide as the cells below, or as long as a label if it is turned."""
    column = table.columns[place]
    if _is_turned(table, place):
        return textwrap.wrap(column.head, LONGEST_LABEL, break_long_words=False) or [""]
    cells = max((len(row[place]) for row in table.rows), default=0)
    return textwrap.wrap(column.head, max(10, min(cells, 24)), break_long_words=False) or [""]


def _is_turned(table: Table, place: int) -> bool:
    return table.is_turned and table.columns[place].kind == "number"


def _narrow(table: Table, fit: Fit) -> Iterator[Table]:
    """The table in parts that are narrow enough; each begins with the labels."""
    widths = _widths(table, SIZES[fit.size])
    labels = list(range(table.labels))
    rest: list[int] = []
    room = fit.points - sum(widths[: table.labels]) + 2 * GAPS[SIZES[fit.size]]
    for place in range(table.labels, len(table.columns)):
        if rest and sum(widths[index] for index in [*rest, place]) > room:
            yield table.columns_of([*labels, *rest])
            rest = []
        rest.append(place)
    yield table.columns_of([*labels, *rest])


def _short(table: Table, fit: Fit) -> Iterator[tuple[Table, int]]:
    """The table in parts that a page is long enough for, and the row of the whole that each begins with.

    Rows between two rules stay together where a page holds several such groups.
    """
    size = SIZES[fit.size]
    heads = [points_wide(line, size) for place in range(len(table.columns)) for line in _head(table, place)]
    most = int((HIGHEST - (max(heads) if table.is_turned else 0.0)) / (1.2 * size))
    lines = [max(_lines(table, fit, row)) for row in table.rows]
    groups = list(pairwise([0, *table.rules, len(lines)]))
    if max(sum(lines[first:last]) for first, last in groups) > most / 2:  # no groups that a page holds several of
        groups = [(place, place + 1) for place in range(len(lines))]
    starts, used = [0], 0
    for first, last in groups:
        count = sum(lines[first:last])
        if used and used + count > most:
            starts.append(first)
            used = 0
        used += count
    for first, last in pairwise([*starts, len(table.rows)]):
        rows = table.rows[first:last]
        yield Table(table.name, table.caption, table.columns, rows, table.labels, table.is_turned, table.rules), first


def _lines(table: Table, fit: Fit, row: Sequence[str]) -> list[int]:
    """How many lines each cell of a row takes, in parts of lines where text is broken loosely."""
    size = SIZES[fit.size]
    texts = [place for place, column in enumerate(table.columns) if column.kind == "text"]
    if not texts:
        return [1]
    fixed = sum(width for place, width in enumerate(_widths(table, size)) if place not in texts)
    room = (fit.points - fixed) / len(texts) - 2 * GAPS[size]
    return [1, *(ceil(1.2 * points_wide(row[place], size) / max(room, 1.0)) for place in texts)]


def _float(table: Table, first: int, fit: Fit, caption: str, label: str) -> str:
    name = "table*" if fit.is_wide else "table"
    body = [_guarded(" & ".join(cells)) + r" \\" for cells in _cells(table)]
    for place in sorted((rule - first for rule in table.rules if 0 < rule - first < len(body)), reverse=True):
        body.insert(place, r"\midrule")
    lines = [
        rf"\begin{{{name}}}[tbp]",
        r"\centering",
        rf"\{fit.size}",
        rf"\setlength{{\tabcolsep}}{{{GAPS[SIZES[fit.size]]:g}pt}}",
        *_begin(table, fit),
        r"\toprule",
        " & ".join(_latex_head(table, place) for place in range(len(table.columns))) + r" \\",
        r"\midrule",
        *body,
        r"\bottomrule",
        r"\end{tabularx}" if _has_text(table) else r"\end{tabular}",
        rf"\caption{{{escaped(caption)}}}",
        rf"\label{{{label}}}",
        rf"\end{{{name}}}",
    ]
    return "\n".join(lines)


def _cells(table: Table) -> list[tuple[str, ...]]:
    """The rows' cells for LaTeX, numbers decimal under decimal."""
    columns = [
        aligned([row[place] for row in table.rows])
        if column.kind == "number"
        else [escaped(row[place]) for row in table.rows]
        for place, column in enumerate(table.columns)
    ]
    return list(zip(*columns, strict=True))


def _guarded(line: str) -> str:
    r"""A line of a table that the ``\\`` before it does not take for its own argument."""
    return "{}" + line if line.startswith(("[", "*")) else line


def _has_text(table: Table) -> bool:
    return any(column.kind == "text" for column in table.columns)


def _begin(table: Table, fit: Fit) -> list[str]:
    kinds = {"number": "r", "label": "l", "text": r">{\raggedright\arraybackslash}X"}
    columns = "@{}" + "".join(kinds[column.kind] for column in table.columns) + "@{}"
    if not _has_text(table):
        return [rf"\begin{{tabular}}{{{columns}}}"]
    width = r"\textwidth" if fit.is_wide else r"\columnwidth"
    return [rf"\begin{{tabularx}}{{{width}}}{{{columns}}}"]


def _latex_head(table: Table, place: int) -> str:
    kind, is_turned = table.columns[place].kind, _is_turned(table, place)
    lines = [_guarded(escaped(line)) for line in _head(table, place)]
    if kind == "text" or len(lines) == 1:
        text = " ".join(lines)
    else:
        side = "r" if kind == "number" and not is_turned else "l"
        text = rf"\begin{{tabular}}[b]{{@{{}}{side}@{{}}}}" + r"\\".join(lines) + r"\end{tabular}"
    return rf"\rotatebox{{90}}{{{text}}}" if is_turned else text


def changes(names: Iterable[object]) -> tuple[int, ...]:
    """The places at which a name is another than the name before it."""
    return tuple(place for place, (before, name) in enumerate(pairwise(names), start=1) if name != before)


def once(rows: tuple[tuple[str, ...], ...]) -> Iterator[tuple[str, ...]]:
    """The rows, whose first cell is said where it changes."""
    before = None
    for row in rows:
        yield ("" if row[0] == before else row[0], *row[1:])
        before = row[0]
