"""Plain text and tables as LaTeX: escaped, how wide it will be in print, and broken before it runs over."""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil
from typing import Any

import pandas as pd

from analysis.gains.significance import p_text
from analysis.sections import blocks
from analysis.sections.blocks import markdown, plain
from tasks.errors import BadInput

SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "\u00a0": "~",
    "\u2013": "--",
    "\u2014": "---",
    "\u2018": "`",
    "\u2019": "'",
    "\u201c": "``",
    "\u201d": "''",
    "\u2026": r"\ldots{}",
    "\u2192": r"$\rightarrow$",
    "\u2212": r"\textminus{}",
    "\u00d7": r"$\times$",
    "\u2264": r"$\leq$",
    "\u2265": r"$\geq$",
    "\u2020": r"\dag{}",
    "\u2021": r"\ddag{}",
    "\u00b0": r"\textdegree{}",
    "\u00b1": r"$\pm$",
    "\u00b7": r"\textperiodcentered{}",
    "\u00df": r"\ss{}",
    "\u00e6": r"\ae{}",
    "\u00c6": r"\AE{}",
    "\u0153": r"\oe{}",
    "\u0152": r"\OE{}",
    "\u00f8": r"\o{}",
    "\u00d8": r"\O{}",
    "\u0142": r"\l{}",
    "\u0141": r"\L{}",
    "\u0131": r"\i{}",
}
ACCENTS = {
    "\u0300": "`",
    "\u0301": "'",
    "\u0302": "^",
    "\u0303": "~",
    "\u0304": "=",
    "\u0306": "u",
    "\u0307": ".",
    "\u0308": '"',
    "\u030a": "r",
    "\u030b": "H",
    "\u030c": "v",
    "\u0327": "c",
    "\u0328": "k",
}
DIGITS = ("Zero", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine")
WIDTHS = {  # of Times in thousandths of its size
    "|": 200,
    " .,": 250,
    "ijlt:;/\\": 278,
    "frI!'`()[]-": 333,
    'sJ"': 408,
    "acez?": 444,
    "bdghknopquvxy0123456789$#*_{}\u2020\u2021": 500,
    "FPS+<=>^~\u2212": 564,
    "ELTZ": 611,
    "BCR": 667,
    "wADGHKNOQUVXY": 722,
    "m&": 778,
    "%M": 889,
}
UNKNOWN = "[U+"
WIDEST_LETTER = 960
MARGIN = 1.03  # a line of the estimated width is never too wide


def escaped(text: object) -> str:
    """The text on one line for LaTeX; a letter that its usual fonts do not have is named by its number."""
    return "".join(_letter(letter) for letter in " ".join(unicodedata.normalize("NFC", str(text)).split()))


def letters(text: object) -> str:
    """The text in letters alone, each word with a capital, digits spelled out: ``epitome_er 2`` is EpitomeErTwo."""
    plain = unicodedata.normalize("NFKD", str(text)).encode("ascii", "ignore").decode()
    words = re.findall("[A-Za-z]+|[0-9]", plain)
    return "".join(DIGITS[int(word)] if word.isdigit() else word[0].upper() + word[1:] for word in words)


def points_wide(text: str, size: float) -> float:
    """Points that a line of Times takes at a size in points, rather too many than too few."""
    of_letter = {letter: width for group, width in WIDTHS.items() for letter in group}
    shown = "".join(_number(letter) if _letter(letter).startswith(UNKNOWN) else letter for letter in text)
    return MARGIN * sum(of_letter.get(letter, WIDEST_LETTER) for letter in shown) * size / 1000


def _letter(letter: str) -> str:
    if letter in SPECIAL:
        return SPECIAL[letter]
    if " " <= letter <= "~":
        return letter
    base, *marks = list(unicodedata.normalize("NFKD", letter))
    if len(marks) == 1 and marks[0] in ACCENTS and base.isascii() and base.isalpha():
        return f"\\{ACCENTS[marks[0]]}{{{base}}}"
    return _number(letter) + r"\allowbreak{}"


def _number(letter: str) -> str:
    """What stands for a letter that the usual fonts do not have."""
    return f"{UNKNOWN}{ord(letter):04X}]"


# Sentences that hold numbers and references by name, as Markdown with the numbers in them and as LaTeX with macros.

NUMBER = re.compile(r"\[\[([A-Za-z]+)\]\]")
SOURCE = re.compile(r"\[@([^\]]+)\]")
UNKNOWN_NUMBER = "(not known)"
LONG = re.compile(r"[0-9A-Za-z]{24,}")  # a hash: no line is that long
Printed = Mapping[str, str]


def as_markdown(sentence: str, numbers: Printed) -> str:
    """The sentence with the printed numbers and its references as they are (``[@key; @key]``)."""
    return plain(NUMBER.sub(lambda match: numbers.get(match[1], UNKNOWN_NUMBER), sentence))


def as_latex(sentence: str, numbers: Printed) -> str:
    r"""The sentence with ``\macro{}`` for numbers and ``\citep{key}`` for references, all else escaped."""
    parts = re.split(r"(\[\[[A-Za-z]+\]\]|\[@[^\]]+\])", sentence)
    return "".join(_latex(part, numbers) for part in parts)


def _latex(part: str, numbers: Printed) -> str:
    if match := NUMBER.fullmatch(part):
        return rf"\{match[1]}{{}}" if match[1] in numbers else UNKNOWN_NUMBER
    if match := SOURCE.fullmatch(part):
        keys = [key.strip().removeprefix("@") for key in match[1].split(";")]
        return rf"\citep{{{','.join(keys)}}}"
    lead = " " if part.startswith(" ") else ""
    tail = " " if part.endswith(" ") and part.strip() else ""
    # A long word gets places where a line may end.
    return lead + LONG.sub(lambda word: r"\allowbreak{}".join(re.findall(".{1,8}", word[0])), escaped(part)) + tail


# How numbers are printed: one way for each kind, in tables, in text and in macros, so that they cannot disagree.

FORMATS = {
    "count": ".0f",
    "score": ".2f",
    "points": ".1f",
    "mean points": ".1f",
    "percent": ".1f",
    "alpha": ".2f",
    "rating": ".2f",
    "slope": ".2f",
    "importance": ".3f",
    "hours": ".2f",
    "rate": "g",
}


def printed(kind: str, value: Any, missing: str = "") -> str:  # noqa: ANN401 - a cell of any frame
    """The value as this kind of number; ``missing`` where it is not defined; nothing that is not 0 is printed as -0."""
    if pd.isna(value):
        return missing
    number = float(value)
    if kind in ("p", "short p"):
        return p_text(number)
    text = format(number, FORMATS[kind])
    return text.removeprefix("-") if float(text) == 0 else text


def span(kind: str, low: Any, high: Any, missing: str = "") -> str:  # noqa: ANN401 - cells of any frame
    """Both ends of an interval, or ``missing`` where one is not defined."""
    if pd.isna(low) or pd.isna(high):
        return missing
    return f"[{printed(kind, low)}, {printed(kind, high)}]"


# Numbers of a column under each other: those with fewer decimals get the room of more (a p near its threshold has
# more), and what follows numbers is made equally wide.

MARKED = re.compile(r"([<\u2212-]?\d+(?:\.\d+)?)([*\u2020\u2021]*)")
SPAN = re.compile(r"\[([\u2212-]?[\d.]+), ([\u2212-]?[\d.]+)\]")


class BoldCell(str):
    """A cell that is set in bold: the best of its column or group."""

    __slots__ = ()


def align(cells: Sequence[str]) -> list[str]:
    """The cells of a column of numbers for LaTeX, which stand decimal under decimal if all end at the right.

    Decimals and marks behind numbers get equal room, and so do the upper ends of intervals.
    """
    room, upper = _rooms(cells)
    even = (_align(cell, zeros, room, upper) for cell, zeros in zip(cells, _lacking(cells), strict=True))
    return [
        rf"\textbf{{{text}}}" if isinstance(cell, BoldCell) else text for cell, text in zip(cells, even, strict=True)
    ]


def points_aligned(cells: Sequence[str], size: float) -> float:
    """Points that the widest of the cells takes when they are aligned."""
    room, upper = _rooms(cells)
    numbers = zip(cells, _lacking(cells), strict=True)
    even = (MARKED.sub(rf"\g<1>{zeros}{room}", cell) if MARKED.fullmatch(cell) else cell for cell, zeros in numbers)
    even = (SPAN.sub(rf"[\1, {upper}]", cell) if SPAN.fullmatch(cell) else cell for cell in even)
    return max((points_wide(_minus(cell), size) for cell in even), default=0.0)


def _rooms(cells: Sequence[str]) -> tuple[str, str]:
    """The widest marks behind a number, and the widest upper end of an interval."""
    marks = (match[2] for cell in cells if (match := MARKED.fullmatch(cell)))
    uppers = (match[2] for cell in cells if (match := SPAN.fullmatch(cell)))
    return max(marks, key=_wide, default=""), max(uppers, key=_wide, default="")


def _lacking(cells: Sequence[str]) -> list[str]:
    """The decimals that each number has fewer than the number with most of them, as zeros."""
    numbers = [match[1] if (match := MARKED.fullmatch(cell)) else None for cell in cells]
    decimals = [None if number is None else len(number.partition(".")[2]) for number in numbers]
    most = max((count for count in decimals if count is not None), default=0)
    return ["" if count is None else "0" * (most - count) for count in decimals]


def _wide(text: str) -> float:
    return points_wide(_minus(text), 10)


def _minus(text: str) -> str:
    return text.replace("-", "\u2212")


def _align(cell: str, zeros: str, room: str, upper: str) -> str:
    """A cell with the room of the ``zeros`` and of the marks that it lacks."""
    empty = rf"\phantom{{{zeros}{escaped(room)}}}" if zeros or room else ""
    if match := MARKED.fullmatch(cell):
        number, marks = _sign(match[1]), escaped(match[2])
        if match[2] == room and not zeros:
            return number + marks
        return number + (rf"\rlap{{{marks}}}" if marks else "") + empty
    if match := SPAN.fullmatch(cell):
        high = _sign(match[2])
        if _wide(match[2]) < _wide(upper):
            high = rf"\phantom{{{_sign(upper)}}}\llap{{{high}}}"
        return f"[{_sign(match[1])}, {high}]"
    return escaped(cell) + empty


def _sign(number: str) -> str:
    return escaped(_minus(number))


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
class ColumnHead:
    """A column's head, and its kind: ``number`` at the right, ``label`` at the left, ``text`` broken over lines."""

    head: str
    kind: str = "number"


@dataclass(frozen=True)
class Float:
    """A table in print, in plain text: ``labels`` is how many first columns are said again where it is broken.

    ``is_turned`` sets the heads upright; ``rules`` are the rows above which a line stands.
    """

    name: str
    caption: str
    columns: tuple[ColumnHead, ...]
    rows: tuple[tuple[str, ...], ...]
    labels: int = 1
    is_turned: bool = False
    rules: tuple[int, ...] = ()

    def without_constants(self) -> Float:
        """The table without columns that hold the same in every row, which its caption then says; labels stay first."""
        kept = [0, *(index for index in range(1, len(self.columns)) if len({row[index] for row in self.rows}) > 1)]
        dropped = [index for index in range(len(self.columns)) if index not in kept]
        if self.is_turned or len(self.rows) < 2 or not dropped:
            return self
        values = ((self.columns[index].head, self.rows[0][index]) for index in dropped)
        facts = [f"{head}: {value}" for head, value in values if value not in ("", "--")]
        ending = f" The same in all rows: {'; '.join(facts)}." if facts else ""
        labels = sum(index < self.labels for index in kept)
        return replace(self.columns_of(kept), caption=f"{self.caption}{ending}", labels=labels)

    def columns_of(self, places: Sequence[int]) -> Float:
        """The table with these of its columns."""
        rows = tuple(tuple(row[index] for index in places) for row in self.rows)
        return replace(self, columns=tuple(self.columns[index] for index in places), rows=rows)


@dataclass(frozen=True)
class TableFit:
    """How a table stands: a size of type, the width in cm, and whether it goes over both columns of a page."""

    size: str
    width: float
    is_wide: bool

    @property
    def points(self) -> float:
        """The width in points."""
        return self.width * POINTS_PER_CM


def table_as_markdown(table: Float) -> str:
    """The table under its caption."""
    columns = [column.head for column in table.columns]
    rows = [[f"**{cell}**" if isinstance(cell, BoldCell) else cell for cell in row] for row in table.rows]
    return markdown([blocks.Section("", [blocks.Text(table.caption), blocks.Table(columns, rows)])])


def table_as_latex(table: Float, venue: Venue) -> str:
    """The table as floats, as few as can hold it: broken by columns, then by rows."""
    # The table, whose labels are broken over lines where one of them is long.
    kinds = [
        "text"
        if column.kind == "label" and any(points_wide(row[index], 10) > LONGEST for row in table.rows)
        else column.kind
        for index, column in enumerate(table.columns)
    ]
    columns = tuple(ColumnHead(column.head, kind) for column, kind in zip(table.columns, kinds, strict=True))
    table = replace(table, columns=columns)
    # The first place and size that hold all columns; the smallest type over the whole page if none does.
    sizes = list(SIZES)
    choices = [TableFit(size, venue.column, False) for size in sizes] if venue.is_two_column else []
    choices += [TableFit(size, venue.page, venue.is_two_column) for size in sizes]
    needed = {size: sum(_widths(table, points)) - 2 * GAPS[points] for size, points in SIZES.items()}
    fit = next((choice for choice in choices if needed[choice.size] <= choice.points), choices[-1])
    parts = [part for narrow in _narrow(table, fit) for part in _short(narrow, fit)]
    floats = []
    for number, (part, first) in enumerate(parts, start=1):
        more = f" (part {number} of {len(parts)})" if len(parts) > 1 else ""
        label = f"tab:{table.name}" if number == 1 else f"tab:{table.name}-{number}"
        floats.append(_float(part, first, fit, f"{table.caption}{more}", label))
    return "\n\n".join(floats) + "\n"


def _widths(table: Float, size: float) -> list[float]:
    """Points that each column needs with its gaps."""
    widths = []
    for index, column in enumerate(table.columns):
        cells = [row[index] for row in table.rows]
        lines = _head(table, index)
        heads = [1.3 * size * len(lines)] if _is_turned(table, index) else [points_wide(line, size) for line in lines]
        if column.kind == "text":
            # the widest part of a text that is not broken over lines
            parted = ["".join(f" {a} " if _letter(a).startswith(UNKNOWN) else a for a in cell) for cell in cells]
            words = [word for cell in parted for word in re.split(r"\s|(?<=-)", cell) if word]
            body = max([NARROWEST_TEXT, *(points_wide(word, size) for word in words)])
        elif column.kind == "number":
            body = points_aligned(cells, size)
        else:
            body = max((points_wide(cell, size) for cell in cells), default=0.0)
        widths.append(max([body, *heads]) + 2 * GAPS[size])
    return widths


def _head(table: Float, index: int) -> list[str]:
    """The lines of a head: about as wide as the cells below, or as long as a label if it is turned."""
    column = table.columns[index]
    if _is_turned(table, index):
        return textwrap.wrap(column.head, LONGEST_LABEL, break_long_words=False) or [""]
    cells = max((len(row[index]) for row in table.rows), default=0)
    return textwrap.wrap(column.head, max(10, min(cells, 24)), break_long_words=False) or [""]


def _is_turned(table: Float, index: int) -> bool:
    return table.is_turned and table.columns[index].kind == "number"


def _narrow(table: Float, fit: TableFit) -> Iterator[Float]:
    """The table in parts that are narrow enough; each begins with the labels."""
    widths = _widths(table, SIZES[fit.size])
    labels = list(range(table.labels))
    rest: list[int] = []
    room = fit.points - sum(widths[: table.labels]) + 2 * GAPS[SIZES[fit.size]]
    for column in range(table.labels, len(table.columns)):
        if rest and sum(widths[index] for index in [*rest, column]) > room:
            yield table.columns_of([*labels, *rest])
            rest = []
        rest.append(column)
    yield table.columns_of([*labels, *rest])


def _short(table: Float, fit: TableFit) -> Iterator[tuple[Float, int]]:
    """The table in parts that a page is long enough for, and the row of the whole that each begins with.

    Rows between two rules stay together where a page holds several such groups.
    """
    size = SIZES[fit.size]
    heads = [points_wide(line, size) for index in range(len(table.columns)) for line in _head(table, index)]
    most = int((HIGHEST - (max(heads) if table.is_turned else 0.0)) / (1.2 * size))
    lines = [max(_lines(table, fit, row)) for row in table.rows]
    groups = list(pairwise([0, *table.rules, len(lines)]))
    if max(sum(lines[first:last]) for first, last in groups) > most / 2:  # no groups that a page holds several of
        groups = [(index, index + 1) for index in range(len(lines))]
    starts, used = [0], 0
    for first, last in groups:
        count = sum(lines[first:last])
        if used and used + count > most:
            starts.append(first)
            used = 0
        used += count
    for first, last in pairwise([*starts, len(table.rows)]):
        yield replace(table, rows=table.rows[first:last]), first


def _lines(table: Float, fit: TableFit, row: Sequence[str]) -> list[int]:
    """How many lines each cell of a row takes, in parts of lines where text is broken loosely."""
    size = SIZES[fit.size]
    texts = [index for index, column in enumerate(table.columns) if column.kind == "text"]
    if not texts:
        return [1]
    fixed = sum(width for index, width in enumerate(_widths(table, size)) if index not in texts)
    room = (fit.points - fixed) / len(texts) - 2 * GAPS[size]
    return [1, *(ceil(1.2 * points_wide(row[index], size) / max(room, 1.0)) for index in texts)]


def _float(table: Float, first: int, fit: TableFit, caption: str, label: str) -> str:
    name = "table*" if fit.is_wide else "table"
    body = [_guard(" & ".join(cells)) + r" \\" for cells in _cells(table)]
    for index in sorted((rule - first for rule in table.rules if 0 < rule - first < len(body)), reverse=True):
        body.insert(index, r"\midrule")
    environment, width = "tabular", ""
    if any(column.kind == "text" for column in table.columns):
        environment, width = "tabularx", r"{\textwidth}" if fit.is_wide else r"{\columnwidth}"
    kinds = {"number": "r", "label": "l", "text": r">{\raggedright\arraybackslash}X"}
    columns = "".join(kinds[column.kind] for column in table.columns)
    lines = [
        rf"\begin{{{name}}}[tbp]",
        r"\centering",
        rf"\{fit.size}",
        rf"\setlength{{\tabcolsep}}{{{GAPS[SIZES[fit.size]]:g}pt}}",
        rf"\begin{{{environment}}}{width}{{@{{}}{columns}@{{}}}}",
        r"\toprule",
        " & ".join(_latex_head(table, index) for index in range(len(table.columns))) + r" \\",
        r"\midrule",
        *body,
        r"\bottomrule",
        rf"\end{{{environment}}}",
        rf"\caption{{{escaped(caption)}}}",
        rf"\label{{{label}}}",
        rf"\end{{{name}}}",
    ]
    return "\n".join(lines)


def _cells(table: Float) -> list[tuple[str, ...]]:
    """The rows' cells for LaTeX, numbers decimal under decimal."""
    columns = [
        align([row[index] for row in table.rows])
        if column.kind == "number"
        else [escaped(row[index]) for row in table.rows]
        for index, column in enumerate(table.columns)
    ]
    return list(zip(*columns, strict=True))


def _guard(line: str) -> str:
    r"""A line of a table that the ``\\`` before it does not take for its own argument."""
    return "{}" + line if line.startswith(("[", "*")) else line


def _latex_head(table: Float, index: int) -> str:
    kind, is_turned = table.columns[index].kind, _is_turned(table, index)
    lines = [_guard(escaped(line)) for line in _head(table, index)]
    if kind == "text" or len(lines) == 1:
        text = " ".join(lines)
    else:
        side = "r" if kind == "number" and not is_turned else "l"
        text = rf"\begin{{tabular}}[b]{{@{{}}{side}@{{}}}}" + r"\\".join(lines) + r"\end{tabular}"
    return rf"\rotatebox{{90}}{{{text}}}" if is_turned else text


def changes(names: Iterable[object]) -> tuple[int, ...]:
    """The places at which a name is another than the name before it."""
    return tuple(index for index, (before, name) in enumerate(pairwise(names), start=1) if name != before)


def once(rows: tuple[tuple[str, ...], ...]) -> Iterator[tuple[str, ...]]:
    """The rows, whose first cell is said where it changes."""
    before = None
    for row in rows:
        yield ("" if row[0] == before else row[0], *row[1:])
        before = row[0]
