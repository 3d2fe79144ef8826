"""What a page of an analysis is made of: sections of headings, texts, lists, tables and figures.

Sections yield these blocks; printers (``markdown`` below, ``analysis.page.parts``) write them. Nothing reads back what
a printer wrote.

    Section("Gains", [Text("All pairs together:"), Table(["target", "points"], [("hope", "1.5")])])
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import pandas as pd

from analysis.figures.drawing import Drawing, FigureFiles
from analysis.figures.plan import PlannedFigure
from analysis.gains.significance import p_text
from analysis.importance.mixed import ends
from analysis.kept import NOWHERE, Kept
from analysis.tables import TABLES, count, interval, number, signed, write_csv, write_frames
from tasks.plain_text import harmless


@dataclass(frozen=True)
class Heading:
    """The title of a whole page."""

    text: str


@dataclass(frozen=True)
class Text:
    """A paragraph; its ``lead`` stands before the text and stands out. ``is_quote`` sets it apart from the rest."""

    text: str
    lead: str = ""
    is_quote: bool = False

    @property
    def runs(self) -> list[tuple[str, bool]]:
        """The pieces of the paragraph, each with whether it stands out."""
        between = " " if self.lead and self.text else ""
        return [run for run in ((self.lead, True), (f"{between}{self.text}", False)) if run[0]]


@dataclass(frozen=True)
class Bullets:
    """A list of points."""

    points: Sequence[str]

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> Bullets:
        """A list of named facts."""
        return cls([f"{name}: {value}" for name, value in facts.items()])


# Kinds of values: words at the left, several counts at the right, a ``count``, a ``p``, a ``short p`` of three digits,
# a ``slope``, and numbers, of which a page has so many digits, and so many of the ends of an interval.
LABEL, COUNTS = "label", "counts"
DIGITS = {"score": (3, 2), "points": (1, 1), "mean points": (2, 2), "alpha": (4, 2), "rating": (2, 2)}


class Column(NamedTuple):
    """A column of tables on pages and in print: its heading, what of a row stands in it, and of which kind that is.

    ``shows`` is a field of the row, the two ends of an interval, or a function of the row.
    """

    head: str
    shows: str | tuple[str, str] | Callable[[Mapping[str, Any]], object]
    kind: str = LABEL

    def values(self, row: Mapping[str, Any]) -> list[Any]:
        """The value of a row, or both ends of its interval."""
        if callable(self.shows):
            return [self.shows(row)]
        return [row[name] for name in ([self.shows] if isinstance(self.shows, str) else self.shows)]

    def text(self, row: Mapping[str, Any]) -> object:
        """What stands on a page."""
        first, *last = self.values(row)
        if self.kind in DIGITS:
            digits = DIGITS[self.kind]
            return interval(first, last[0], digits[1]) if last else number(first, digits[0])
        if self.kind == "slope":
            return ends(first, last[0]) if last else signed(first, 2)
        texts: dict[str, Callable[[Any], str]] = {"count": count, "p": lambda p: p_text(p, 4), "short p": p_text}
        return texts[self.kind](first) if self.kind in texts else first


@dataclass(frozen=True)
class Table:
    """A table: the titles of its columns, and rows of values, which are printed as ``str`` has them."""

    head: Sequence[str]
    rows: Collection[Sequence[object]]

    @classmethod
    def of(cls, frame: pd.DataFrame, columns: Sequence[Column]) -> Table:
        """A row for every row of the frame."""
        rows = [tuple(column.text(row) for column in columns) for row in frame.to_dict("records")]
        return cls([column.head for column in columns], rows)

    @property
    def records(self) -> list[dict[str, object]]:
        """A row by its titles."""
        return [dict(zip(self.head, row, strict=True)) for row in self.rows]

    def texts(self) -> list[list[str]]:
        """The head and every row as texts of one line, without control characters."""
        return [[harmless(" ".join(str(value).splitlines())) for value in row] for row in (self.head, *self.rows)]


@dataclass(frozen=True)
class Picture:
    """A figure in a folder beside the page: its title on one line, and where its file lies from there."""

    title: str
    file: str


def pictures(figures: Iterable[Drawing | PlannedFigure]) -> list[Picture]:
    """Figures that are drawn into folders beside the page, by their parts."""
    return [
        Picture(" ".join(figure.title.splitlines()), f"{figure.folder}/{name}.png")
        for figure in figures
        for name in figure.names
    ]


@dataclass(frozen=True)
class Fold:
    """Blocks that a page shows only when their title is opened."""

    title: str
    blocks: Sequence[Block]


Block = Heading | Text | Bullets | Table | Picture | Fold


@dataclass(frozen=True)
class Section:
    """Blocks under a title; what stands before the first titled section of a page has the title ``""``.

    ``frames`` are written beside the page as CSV and Parquet, ``lists`` as CSV alone, and ``figures`` are drawn. Equal
    are sections that read the same.
    """

    title: str
    blocks: Sequence[Block]
    frames: Mapping[str, pd.DataFrame] = field(default_factory=dict, compare=False)
    lists: Mapping[str, pd.DataFrame] = field(default_factory=dict, compare=False)
    figures: Sequence[Drawing | PlannedFigure] = field(default=(), compare=False)

    def write(self, out: Path, kept: Kept = NOWHERE) -> list[FigureFiles]:
        """Write into the page's folder what stands beside it; the figures' files."""
        for name, frame in self.frames.items():
            write_frames(frame, out / TABLES / name)
        for name, frame in self.lists.items():
            write_csv(frame, out / TABLES / name)
        return [files for figure in self.figures for files in figure.write(out, kept)]


# Sections printed as Markdown, in which nothing that an entry says becomes a tag, a link or a picture.

TAG = re.compile(r"<(?=[A-Za-z/!?])")
DEFINITION = re.compile(r"^(\s*\[[^\]\n]*\]):", re.MULTILINE)  # of where a link leads


def markdown(sections: Iterable[Section]) -> str:
    """A page of these sections, a blank line between any two blocks."""
    paragraphs: list[str] = []
    for section in sections:
        paragraphs += [plain(f"## {section.title}")] if section.title else []
        paragraphs += map(_paragraph, section.blocks)
    return "\n\n".join(paragraphs) + "\n"


def table(head: Sequence[str], rows: Collection[Sequence[object]]) -> str:
    """A table; bars, line breaks, tags and links inside cells are made harmless."""
    titles, *body = Table(head, rows).texts()
    lines = [titles, ["---"] * len(head), *body]
    return "\n".join("| " + " | ".join(plain(cell).replace("|", "\\|") for cell in line) + " |" for line in lines)


def plain(text: str) -> str:
    """Text that a reader of Markdown shows as it is: no HTML, no link, no picture, no control character."""
    lines = "\n".join(map(harmless, text.split("\n")))
    return DEFINITION.sub(r"\1\:", TAG.sub("&lt;", lines).replace("](", "]\\("))


def _paragraph(block: Block) -> str:
    match block:
        case Heading():
            return plain(f"# {block.text}")
        case Text():
            pieces = "".join(f"**{piece}**" if is_strong else piece for piece, is_strong in block.runs)
            return plain(f"> {pieces}" if block.is_quote else pieces)
        case Bullets():
            return plain("\n".join(f"- {point}" for point in block.points))
        case Table():
            return table(block.head, block.rows)
        case Picture():
            return f"![{plain(block.title)}]({quote(block.file)})"
        case Fold():
            inside = "\n\n".join(map(_paragraph, block.blocks))
            summary = html.escape(" ".join(harmless(block.title).splitlines()))
            return f"<details>\n<summary>{summary}</summary>\n\n{inside}\n\n</details>"
