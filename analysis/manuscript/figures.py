"""The figures of a manuscript: drawn as the report's, then fitted to an exact width for print."""

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from math import ceil
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.text import Text

from adapters_store.disk import write_bytes
from analysis.figures.boards import BOARD
from analysis.figures.drawing import FONT, Drawing, file_of, named
from analysis.figures.forest import FOREST
from analysis.figures.heatmaps import HEATMAP
from analysis.figures.paper_figures import FIGURE_2
from analysis.figures.plan import SETTINGS, PlannedFigure, figure_of_plan
from analysis.figures.uncertainty_map import MAP
from analysis.kept import NOWHERE, Kept
from analysis.manuscript.layout import Venue

CM_PER_INCH = 2.54
SMALLEST, LARGEST = 6.0, 8.0  # points of any text in print
TICKS = 8.5  # points of tick labels as the report draws them
LETTER = 3.6  # points of a letter of the smallest text, on average
SQUARE, BESIDE = 0.78, 4.6  # cm of a heatmap's square, and of names and scale beside the squares
NARROW = 10.0  # cm, in which a legend has one column
HIGHEST = 20.0  # cm; a page is not longer
EMBEDDED: Any = {**FONT, "pdf.fonttype": 42, "hatch.linewidth": 0.6}
PRINTED = (  # what stands in a manuscript, in its order, by the beginnings of names
    *((MAP,), (FOREST,), (BOARD,), ("figure-6", "figure-7", HEATMAP), (FIGURE_2,), ("figure-3",), ("figure-8",)),
    *(("mixed_profile",), ("figure-9",), ("figure-10",)),
)


def write_figures(
    figures: Sequence[Drawing | PlannedFigure], venue: Venue, out: Path, banner: str, kept: Kept = NOWHERE
) -> list[Drawing]:
    """Draw figures into ``out``, a PDF each; equal frames give equal bytes. What is kept is not drawn again."""
    drawn = [replace(sheet, caption=banner + sheet.caption) for sheet in sheets(figures, venue)]
    for sheet in drawn:
        width = venue.page if sheet.is_wide else venue.column
        inputs = {**vars(sheet), "frame": sheet.frame.reset_index(drop=True), "draw": named(sheet.draw)}
        printed = kept.parts(
            "print figure", {**inputs, "width": width, "banner": banner}, partial(_print, sheet, width, banner)
        )
        write_bytes(out / f"{sheet.name}.pdf", printed["pdf"])
    return drawn


def _print(sheet: Drawing, width: float, banner: str) -> dict[str, bytes]:
    if sheet.alt:
        with mpl.rc_context({**EMBEDDED, **SETTINGS}):
            figure = sheet.draw(sheet.frame, banner.strip(" :"))
            _centre(figure, width / CM_PER_INCH)
            return {"pdf": file_of(figure, "pdf")}
    with mpl.rc_context(EMBEDDED):
        return {"pdf": file_of(fitted(sheet, width, banner), "pdf")}


def _centre(figure: Figure, width: float) -> None:
    """Make a planned figure ``width`` inches wide, what it shows unchanged in its middle."""
    extent, height = figure.get_size_inches()
    figure.set_size_inches(width, height)
    figure.axes[0].set_position(((1 - extent / width) / 2, 0.0, extent / width, 1.0))


def sheets(figures: Sequence[Drawing | PlannedFigure], venue: Venue) -> Iterator[Drawing]:
    """What there is to draw, heatmaps in as many parts as are legible."""
    for beginnings in PRINTED:
        for figure in sorted(
            (part for part in figures if part.name.startswith(beginnings)), key=lambda part: part.name
        ):
            name = figure.name.replace("_", "-")
            if isinstance(figure, PlannedFigure) and figure.caption:
                draw = partial(figure_of_plan, planner=partial(figure.planner, width=venue.page))
                for part, frame in figure.parts(figure.frame, name, width=venue.page):
                    caption = figure.caption if isinstance(figure.caption, str) else figure.caption(frame)
                    yield Drawing(part, "", frame, draw, caption, alt=figure.words(frame, ""))
            elif isinstance(figure, Drawing):
                sheet = replace(figure, name=name)
                yield from [sheet] if figure.height else _parts(sheet, venue)


def fitted(sheet: Drawing, width: float, banner: str) -> Figure:
    """The sheet's figure ``width`` cm wide, without its title, with all text from 6 to 8 points."""
    figure = sheet.draw(sheet.frame, "")
    figure.suptitle(banner.strip(" :"), fontsize=SMALLEST) if banner else figure.suptitle("")
    native = figure.get_figwidth() * CM_PER_INCH
    figure.set_size_inches(width / CM_PER_INCH, sheet.height / CM_PER_INCH)
    for text in figure.findobj(Text):
        text.set_fontsize(_legible(float(text.get_fontsize()) * width / native))
    for axes in figure.axes:  # ticks that are placed later take their size from here
        axes.tick_params(which="both", labelsize=_legible(TICKS * width / native))
    _fold(figure, width, sheet.height)
    # Leave room at the sides that the layout, which reckons once, has let something run over. Where nothing does, the
    # places found stand, and are not sought again for the file.
    inches, height = figure.get_size_inches()
    if (engine := figure.get_layout_engine()) is not None:
        engine.execute(figure)
    box = figure.get_tightbbox()
    left, right = max(0.0, -box.x0 / inches), max(0.0, box.x1 / inches - 1)
    below, above = max(0.0, -box.y0 / height), max(0.0, box.y1 / height - 1)
    if isinstance(engine, ConstrainedLayoutEngine) and max(left, right, below, above) > 0:
        engine.set(rect=(left, below, 1 - left - right, 1 - below - above))
    else:
        figure.set_layout_engine("none")
    return figure


def _legible(size: float) -> float:
    return min(max(SMALLEST, size), LARGEST)


def _parts(sheet: Drawing, venue: Venue) -> Iterator[Drawing]:
    """A heatmap in parts of so many targets as are legible side by side, each as high as its rows."""
    targets = list(dict.fromkeys(sheet.frame.target))
    squares, names = 0.46 * max(sheet.frame.intermediate.nunique(), 7), 0.09 * sheet.frame.column.str.len().max()
    most = max(1, int((venue.page - BESIDE) / SQUARE))
    count = ceil(len(targets) / most)
    is_wide = len(targets) > int((venue.column - BESIDE) / SQUARE)
    size = ceil(len(targets) / max(count, 1))
    for number in range(count):
        frame = sheet.frame[sheet.frame.target.isin(targets[number * size : (number + 1) * size])]
        more = ("", "") if count == 1 else (f"-part-{number + 1}", f" Part {number + 1} of {count}.")
        legend = 3.2 if is_wide and venue.page > NARROW else 4.6  # legend, name of the axis
        height = min(squares + names + legend, HIGHEST)
        name, caption = sheet.name + more[0], sheet.caption + more[1]
        yield replace(sheet, name=name, caption=caption, frame=frame, is_wide=is_wide, height=height)


def _fold(figure: Figure, width: float, height: float) -> None:
    """Break what would be longer than the place it has: legends into columns that fit, labels and titles into lines."""
    letters, upright = (int(side / CM_PER_INCH * 72 / LETTER) for side in (width, height))
    grid = figure.axes[0].get_subplotspec()
    side_by_side = grid.get_geometry()[1] if grid else 1
    for axes in figure.axes:
        room = letters // side_by_side
        axes.title.set_text(_lines(axes.get_title(), int(0.8 * room)))
        axes.xaxis.label.set_text(_lines(axes.get_xlabel(), int(0.55 * room)))
        axes.yaxis.label.set_text(_lines(axes.get_ylabel(), int(0.62 * upright)))
        # Turn names below the axes that would not stand side by side.
        names = [label for label in axes.get_xticklabels() if label.get_text() and not label.get_rotation()]
        longest = max((len(line) for label in names for line in label.get_text().splitlines()), default=0)
        if len(names) * (longest + 1) > 0.75 * room:
            for label in names:
                label.set(rotation=45, ha="right", rotation_mode="anchor")
    for legend in list(figure.legends):
        texts = [label.get_text() for label in legend.get_texts()]
        columns = max(1, min(letters // (max(map(len, texts)) + 8), len(texts)))
        style: Any = {"loc": "outside lower center", "fontsize": SMALLEST, "frameon": False}
        handles = [handle for handle in legend.legend_handles if handle is not None]
        figure.legend(handles, [_lines(text, letters - 14) for text in texts], ncols=columns, **style)
        legend.remove()


def _lines(text: str, letters: int) -> str:
    """The text in lines of so many letters; its own line breaks stay."""
    return "\n".join(part for line in text.splitlines() for part in textwrap.wrap(line, max(letters, 12)))
