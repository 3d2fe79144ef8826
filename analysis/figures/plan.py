"""A drawing plan: where every mark of a figure stands, computed once and then drawn by any printer.

Places and sizes are in points (1/72 inch), from the upper left corner, rounded to hundredths. ``drawn`` makes the
figure behind PNG, SVG and PDF of a plan, ``plain_plan`` the JSON that the page draws as SVG; neither decides anything.
Texts are measured in DejaVu Sans, which matplotlib carries, so that a plan is the same on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import groupby
from math import ceil, cos, pi, radians, sin
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from analysis.figures.drawing import (
    FigureFiles,
    empty_figure,
    file_of,
    on_a_line,
    plain_text_settings,
    write_figure_files,
)
from analysis.gains.cells import Manifest
from analysis.kept import NOWHERE, Kept
from analysis.tables import FIGURES, signed
from tasks.plain_text import harmless

if TYPE_CHECKING:
    from matplotlib.collections import CircleCollection, LineCollection, PolyCollection
    from matplotlib.figure import Figure


POINTS_PER_CM = 72 / 2.54
PAGE = 16.0  # cm, the text width of an A4 page
SMALLEST = 6.0  # points of any text, as in print
INK, SOFT = "#1d2126", "#565d66"
CAPITAL = 0.365  # half the height of a capital letter, in sizes of the font: how far below its middle a line stands
FONT_FAMILY = "DejaVu Sans"
SETTINGS: dict[Any, Any] = {"text.hinting": "none"}  # letters as wide as they are measured


class Box(NamedTuple):
    """A rectangle by its upper left corner; an empty ``fill`` or ``edge`` is none."""

    x: float
    y: float
    width: float
    height: float
    fill: str
    edge: str = ""
    line: float = 0.0


class Dot(NamedTuple):
    """A circle around a point."""

    x: float
    y: float
    radius: float
    fill: str
    edge: str = ""
    line: float = 0.0


class Stroke(NamedTuple):
    """A straight line."""

    x: float
    y: float
    to_x: float
    to_y: float
    colour: str
    line: float


class Triangle(NamedTuple):
    """A filled triangle by its corners."""

    corners: tuple[float, float, float, float, float, float]
    fill: str
    edge: str
    line: float


class TextLabel(NamedTuple):
    """A line of text on its baseline: ``anchor`` start, middle or end; ``turn`` in degrees, against the clock."""

    x: float
    y: float
    text: str
    size: float = SMALLEST
    anchor: str = "start"
    turn: float = 0.0
    colour: str = INK
    is_bold: bool = False


Mark = Box | Dot | Stroke | Triangle | TextLabel
Layers = Mapping[str, Sequence[Mark]]


class LegendEntry(NamedTuple):
    """An entry of a legend: a key of this width, its marks from the corner of a line of its own, and what it means."""

    width: float
    marks: Sequence[Mark]
    text: str


class FigurePlan(NamedTuple):
    """A figure: its size in points, what it shows in words, and its marks in layers, the lowest first.

    The layer ``legend`` stands below ``foot`` and shows the ``entries``, which a page may set in lines of its own.
    """

    width: float
    height: float
    alt: str
    layers: Layers
    foot: float
    entries: Sequence[LegendEntry]

    def marks(self) -> list[Mark]:
        """All marks in the order in which they are drawn."""
        return [mark for layer in self.layers.values() for mark in layer]

    def labels(self) -> list[TextLabel]:
        """All texts."""
        return [mark for mark in self.marks() if isinstance(mark, TextLabel)]


def _round(mark: Any) -> Any:  # noqa: ANN401 - a mark of any kind
    values = (tuple(map(_hundredths, value)) if isinstance(value, tuple) else _hundredths(value) for value in mark)
    return type(mark)(*values)


def _hundredths(value: Any) -> Any:  # noqa: ANN401 - a field of a mark
    return round(float(value), 2) + 0.0 if isinstance(value, float | int | np.number) and value is not True else value


# Texts: what they say, how wide they are, where they stand, and what they stand on.


def titles_of(manifest: Manifest) -> dict[str, str]:
    """The titles of a study's tasks, each on one line."""
    return {name: on_a_line(task["title"]) for name, task in manifest["tasks"].items()}


def title_of(subject: str, manifest: Manifest, setting: str, below: str) -> str:
    """A figure's title, with SYNTHETIC DATA where they are made up, the study and the setting; and a line ``below``."""
    data = "" if setting == "full" else f", {setting} of the training data"
    synthetic = "SYNTHETIC DATA: " if manifest["synthetic"] else ""
    return f"{synthetic}{subject} in {manifest['name']}{data}\n{below}"


def description(title: str, shown: str) -> str:
    """What a figure shows in words, behind its title where it has one."""
    head = " ".join(title.split())
    return f"{head}. {shown}" if head else shown


@lru_cache(maxsize=50_000)
def text_width(text: str, size: float, is_bold: bool = False) -> float:
    """The width of a line of text in points."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(family=FONT_FAMILY, weight="bold" if is_bold else "normal", size=100)
    width, _, _ = text_to_path.get_text_width_height_descent(text, font, False)
    return float(width) * size / 100


def fitting(text: str, size: float, room: float, end: int = 6) -> str:
    """The text, its middle left out where it is wider than ``room`` points; a text for which there is none is empty."""
    if text_width(text, size) <= room + 1e-6:  # room that was measured by this very text
        return text
    most = int(1.6 * len(text) * room / text_width(text, size)) + 4
    for letters in range(min(len(text) - 1, most), 3, -1):
        tail = min(end, letters // 3)
        short = f"{text[: letters - tail].rstrip()}\u2026{text[len(text) - tail :].lstrip()}"
        if text_width(short, size) <= room:
            return short
    return ""


def outline(label: TextLabel) -> np.ndarray:
    """The corners ``[4, 2]`` of the rectangle that a text fills, turned with it."""
    width = text_width(label.text, label.size, label.is_bold)
    left = {"start": 0.0, "middle": -width / 2, "end": -width}[label.anchor]
    corners = np.array([(left, -0.76), (left + width, -0.76), (left + width, 0.2), (left, 0.2)])
    corners[:, 1] *= label.size
    angle = radians(-label.turn)
    turn = np.array([[cos(angle), sin(angle)], [-sin(angle), cos(angle)]])
    return np.asarray(corners @ turn + (label.x, label.y))


def with_texts(frame: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """The frame with empty texts in these columns where a CSV file has nothing."""
    return frame.assign(**{name: frame[name].astype(object).where(frame[name].notna(), "") for name in names})


# Legends: pairs of a key and its words in lines that fit.

LEGEND = "legend"  # its layer
KEY_GAP, ITEM_GAP = 3.0, 11.0
WORDS, LINE_PITCH = 6.4, 11.0  # points of the words, and from line to line
Key = Callable[[float, float], Sequence[Mark]]  # the marks of a key, from its left side and the middle of its line


class LegendItem(NamedTuple):
    """What a legend is made of: a key of this width, what it means, and whether what it explains ``occurs``."""

    key: Key
    width: float
    text: str
    occurs: Any = True


def plan_of(layers: Layers, items: Iterable[LegendItem], foot: float, width: float, alt: str) -> FigurePlan:
    """The plan of these layers, and from ``foot`` on of a legend of the items that occur."""
    shown = [item for item in items if item.occurs]
    below, bottom = legend(shown, EDGE, foot, width - 2 * EDGE)
    each = [LegendEntry(item.width, item.key(0.0, LINE_PITCH / 2), item.text) for item in shown]
    plan = FigurePlan(width, bottom + EDGE, alt, {**layers, LEGEND: below}, foot, each)
    # All places and sizes are in hundredths of a point, so that equal frames give equal plans.
    placed = {name: [_round(mark) for mark in layer] for name, layer in plan.layers.items()}
    sizes = {name: _hundredths(getattr(plan, name)) for name in ("width", "height", "foot")}
    entries = [entry._replace(marks=list(map(_round, entry.marks))) for entry in plan.entries]
    return plan._replace(layers=placed, entries=entries, **sizes)


def legend(items: Sequence[LegendItem], x: float, y: float, width: float) -> tuple[list[Mark], float]:
    """The entries from (x, y) on in lines of ``width`` points, and where the next line would stand."""
    size, pitch = WORDS, LINE_PITCH
    marks: list[Mark] = []
    at, middle = x, y + pitch / 2
    for item in items:
        indent = item.width + KEY_GAP if item.width else 0.0
        words = wrapped(item.text, size, width - indent)
        wide = indent + max(text_width(line, size) for line in words)
        if at > x and at + wide > x + width:
            at, middle = x, middle + pitch
        marks += item.key(at, middle)
        for number, line in enumerate(words):
            middle += pitch * (number > 0)
            marks.append(TextLabel(at + indent, middle + CAPITAL * size, line, size))
        at += wide + ITEM_GAP
    return marks, middle + pitch / 2


def wrapped(text: str, size: float, room: float, is_bold: bool = False) -> list[str]:
    """The text in lines that fit; a word that is wider than a line is cut."""
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if text_width(longer, size, is_bold) <= room or not lines[-1]:
            lines[-1] = fitting(longer, size * (1.1 if is_bold else 1.0), room)
        else:
            lines.append(fitting(word, size * (1.1 if is_bold else 1.0), room))
    return lines


# What figures have in common: their heading, colours that mean nothing, and panels side by side.

EDGE, TITLE = 4.0, 8.0  # points around a figure, and of its title
MINUS, GRID, UNSURE = "\u2212", "#e4e4e2", "#a3a8ae"
GAP = 9.0  # points between panels
WIDEST_PANEL, PANELS = 330.0, 3  # points of a panel; panels side by side on a page
NARROW = 340.0  # points of a column of a page, in which panels stand below each other


class Panels(NamedTuple):
    """How many panels stand side by side, and in points the width of each and of the whole figure."""

    across: int
    width: float
    full: float


def panels_on(width: float, n_targets: int) -> Panels:
    """The panels of so many targets on ``width`` cm at most."""
    points = width * POINTS_PER_CM
    across = max(1, min(PANELS if points > NARROW else 1, n_targets))
    panel = min((points - 2 * EDGE - GAP * (across - 1)) / across, WIDEST_PANEL)
    return Panels(across, panel, 2 * EDGE + panel * across + GAP * (across - 1))


def parts_of(frame: pd.DataFrame, name: str, most: int) -> Iterator[tuple[str, pd.DataFrame]]:
    """The frame in parts of at most so many targets, with their names."""
    targets = list(dict.fromkeys(frame.target))
    count = ceil(len(targets) / most)
    for number in range(count):
        chosen = frame.target.isin(targets[number * most : (number + 1) * most])
        yield name + (f"-part-{number + 1}" if count > 1 else ""), frame[chosen].reset_index(drop=True)


def heading(title: str, width: float) -> tuple[list[TextLabel], float]:
    """The lines of a figure's title, and where what stands below them begins."""
    marks, y = [], EDGE
    for number, line in enumerate(harmless(part) for part in title.splitlines()):
        size = TITLE if number == 0 else WORDS
        for words in wrapped(line, size, width - 2 * EDGE, is_bold=number == 0):
            y += size * 1.3
            marks.append(TextLabel(EDGE, y - 0.25 * size, words, size, is_bold=number == 0))
    return [mark for mark in marks if mark.text], y + 3.0


def whole(points: float) -> str:
    """Points without decimals, with their sign."""
    return signed(points, 0).replace("-", MINUS)


# Printers.


def drawn(plan: FigurePlan) -> Figure:
    """The plan as a figure of its own size."""
    figure = empty_figure(plan.width / 72, plan.height / 72, layout=None)
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set(xlim=(0, plan.width), ylim=(plan.height, 0))
    axes.set_axis_off()
    depth = 0
    for kind, run in groupby(plan.marks(), type):
        depth += 1
        if kind is TextLabel:
            for label in run:
                _write(axes, label, depth)  # type: ignore[arg-type]
        else:
            collection = COLLECTIONS[kind](list(run))
            collection.set_zorder(depth)
            if kind is Dot:
                collection.set_offset_transform(axes.transData)
            axes.add_collection(collection, autolim=False)
    return figure


def _write(axes: Any, label: TextLabel, depth: int) -> None:  # noqa: ANN401 - axes
    style: Any = {"ha": {"start": "left", "middle": "center", "end": "right"}[label.anchor], "va": "baseline"}
    style |= {"rotation": label.turn, "rotation_mode": "anchor", "weight": "bold" if label.is_bold else "normal"}
    axes.text(label.x, label.y, label.text, fontsize=label.size, color=label.colour, zorder=depth, **style)


def _paints(marks: Sequence[Any]) -> dict[str, Any]:
    return {
        "facecolors": [mark.fill or "none" for mark in marks],
        "edgecolors": [mark.edge or "none" for mark in marks],
        "linewidths": [mark.line for mark in marks],
    }


def _boxes(marks: Sequence[Box]) -> PolyCollection:
    from matplotlib.collections import PolyCollection

    corners = [[(x, y), (x + width, y), (x + width, y + height), (x, y + height)] for x, y, width, height, *_ in marks]
    return PolyCollection(corners, **_paints(marks))


def _triangles(marks: Sequence[Triangle]) -> PolyCollection:
    from matplotlib.collections import PolyCollection

    return PolyCollection([np.reshape(mark.corners, (3, 2)) for mark in marks], **_paints(marks))


def _dots(marks: Sequence[Dot]) -> CircleCollection:
    from matplotlib.collections import CircleCollection

    sizes = [pi * mark.radius**2 for mark in marks]
    return CircleCollection(sizes, offsets=[(mark.x, mark.y) for mark in marks], **_paints(marks))


def _lines(marks: Sequence[Stroke]) -> LineCollection:
    from matplotlib.collections import LineCollection

    ends = [[(mark.x, mark.y), (mark.to_x, mark.to_y)] for mark in marks]
    widths = [mark.line for mark in marks]
    return LineCollection(ends, colors=[mark.colour for mark in marks], linewidths=widths, capstyle="butt")


COLLECTIONS: dict[type, Callable[[Any], Any]] = {Box: _boxes, Triangle: _triangles, Dot: _dots, Stroke: _lines}

Planner = Callable[[pd.DataFrame, str], FigurePlan]


def figure_of_plan(frame: pd.DataFrame, title: str, *, planner: Planner) -> Figure:
    """The figure of what a planner makes of a frame."""
    return drawn(planner(frame, title))


def _whole(frame: pd.DataFrame, name: str, *, width: float = PAGE) -> list[tuple[str, pd.DataFrame]]:
    """A figure that stands on one page whatever its width."""
    return [(name, frame)]


@dataclass(frozen=True)
class PlannedFigure:
    """A figure whose marks a ``planner`` places, not drawn yet, in as many ``parts`` as pages of a width in cm hold.

    ``caption`` and ``words``, which say in a manuscript what is seen, follow from the frame of each part; or one
    caption is that of all parts.
    """

    name: str
    title: str
    frame: pd.DataFrame
    planner: Callable[..., FigurePlan]
    words: Callable[[pd.DataFrame, str], str]
    caption: Callable[[pd.DataFrame], str] | str | None  # none: not for manuscripts
    parts: Callable[..., Iterable[tuple[str, pd.DataFrame]]] = _whole
    folder: str = FIGURES

    @property
    def names(self) -> list[str]:
        """What the files of its parts are called."""
        return [name for name, _ in self.parts(self.frame, self.name)]

    def write(self, out: Path, kept: Kept = NOWHERE, *, prints: bool = False) -> list[FigureFiles]:
        """Draw its parts, unless they are kept, into its folder below ``out``, with their frames."""
        draw = partial(figure_of_plan, planner=self.planner)
        further: dict[str, Any] = {"kept": kept, "settings": {**SETTINGS, "pdf.fonttype": 42}, "prints": prints}
        return [
            write_figure_files(part, out / self.folder / name, self.title, draw, **further)
            for name, part in self.parts(self.frame, self.name)
        ]


def of_setting(name: str, setting: str) -> str:
    """The name of a figure of a setting, as files are called."""
    return f"{name}-{setting.replace('%', 'pct')}"


def training_data(setting: str) -> str:
    """What a caption says of a setting with less data."""
    return "" if setting == "full" else f" Training data: {setting.replace('%', 'pct')}."


def svg_of_plan(plan: FigurePlan, salt: str) -> bytes:
    """The plan as SVG, whose names of parts hang on ``salt``."""
    with plain_text_settings(salt, **SETTINGS):
        return file_of(drawn(plan), "svg")


KINDS = {Box: "b", Dot: "d", Stroke: "l", Triangle: "t", TextLabel: "s"}


def plain_plan(plan: FigurePlan) -> dict[str, Any]:
    """The plan as JSON: marks by layer, each a list of its kind's letter and its fields; colours stand in ``colours``.

    A text has its width behind its fields, so that a browser with other letters keeps to the plan. Of the legend there
    are the entries: a key's width, its marks in a line LINE_PITCH high, and its words, which the page sets in lines.
    """
    colours: dict[str, int] = {}

    def coded(mark: Mark) -> list[Any]:
        fields: list[Any] = []
        for name, value in zip(mark._fields, mark, strict=True):
            if name in ("fill", "edge", "colour"):
                fields.append(colours.setdefault(str(value), len(colours)))
            else:
                fields.append(list(map(_short, value)) if isinstance(value, tuple) else _short(value))
        if isinstance(mark, TextLabel):
            fields.append(_short(round(text_width(mark.text, mark.size, mark.is_bold), 1)))
        return [KINDS[type(mark)], *fields]

    layers = {name: list(map(coded, layer)) for name, layer in plan.layers.items() if name != LEGEND}
    items = [[_short(entry.width), list(map(coded, entry.marks)), entry.text] for entry in plan.entries]
    size = {"width": _short(plan.width), "height": _short(plan.foot)}
    return {**size, "alt": plan.alt, "colours": list(colours), "layers": layers, "legend": items}


def _short(value: Any) -> Any:  # noqa: ANN401 - a field of a mark
    """A number as short as it is written; true and false as 1 and 0."""
    if isinstance(value, bool):
        return int(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value
