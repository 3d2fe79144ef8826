"""The figures of a manuscript: drawn by the report's own functions, then fitted to an exact width for print."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from math import ceil
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.text import Text

from adapters_store.disk import write_bytes
from analysis.figures.boards import BOARD, board_parts, board_plan, board_words
from analysis.figures.drawing import FONT, file_of, named
from analysis.figures.explanations import likelihood_profile
from analysis.figures.forest import FOREST, forest_parts, forest_plan, forest_words
from analysis.figures.heatmaps import METRIC_NAMES, colour_limit, heatmap, of_merged
from analysis.figures.layout import FULL, LIMIT
from analysis.figures.paper_figures import (
    FIGURE_2,
    NO_EVIDENCE,
    cosine_map,
    difference_bars,
    importance_bars,
    percent_map,
    rank_map,
    theme_bars,
)
from analysis.figures.plan import SETTINGS, figure_of_plan
from analysis.figures.uncertainty_map import MAP, map_plan, map_words
from analysis.kept import NOWHERE, Kept
from analysis.manuscript.frames import NamedFrames
from analysis.manuscript.layout import Venue

CM_PER_INCH = 2.54
SMALLEST, LARGEST = 6.0, 8.0  # points of any text in print
TICKS = 8.5  # points of tick labels as the report draws them
LETTER = 3.6  # points of a letter of the smallest text, on average
SQUARE, BESIDE = 0.78, 4.6  # cm of a heatmap's square, and of names and scale beside the squares
NARROW = 10.0  # cm, in which a legend has one column
HIGHEST = 20.0  # cm; a page is not longer
EMBEDDED: Any = {**FONT, "pdf.fonttype": 42, "hatch.linewidth": 0.6}
MAP_CAPTION = (
    "Gains of intermediates (rows) on targets (columns). The area of a square is the gain over the half-width of its"
    f" 95 % interval, full from {FULL:.0f} on; its colour is the gain, up to {LIMIT:.0f} points. Numbers: the interval"
    " excludes 0; frames: significant after correction. Beside the map every gain is a dot, medians are bars."
)
FOREST_MARKS = (  # kinds of a forest's rows, and what the caption says of them where there are any
    ("seed", "small dots are seeds"),
    ("control", "the grey band is the range of the controls"),
    ("merged", "merged intermediates stand below the line"),
    ("floor", "short dashes are the floor"),
    ("whole model", "long dashes are the whole model"),
)
BOARD_CAPTION = (
    "Systems on each target by their test score with 95 % intervals, among them adapters, and the transfer that"
    " validation picks. Full marks: the highest score, or tied with it by paired tests of all against all,"
    " max-corrected."
)
Draw = Callable[[pd.DataFrame, str], Figure]


def _whole(frame: pd.DataFrame, name: str, *, width: float) -> list[tuple[str, pd.DataFrame]]:
    """A figure that stands on one page whatever its width."""
    return [(name, frame)]


def forest_caption(frame: pd.DataFrame) -> str:
    """What the marks of a forest mean, of those that it has."""
    marks = [words for kind, words in FOREST_MARKS if frame.kind.eq(kind).any()]
    return f"{'; '.join(['Gains on each target with 95 % intervals, the largest first', *marks])}."


PLANNED: tuple[tuple[str, Callable[[pd.DataFrame], str], Any, Any, Any], ...] = (
    # the name of a planned figure, and its caption, planner, parts and words
    (MAP, lambda _: MAP_CAPTION, map_plan, _whole, map_words),
    (FOREST, forest_caption, forest_plan, forest_parts, forest_words),
    (BOARD, lambda _: BOARD_CAPTION, board_plan, board_parts, board_words),
)


@dataclass(frozen=True)
class Sheet:
    """A figure to draw: its file's name, caption, frame and drawing, and whether it needs a page's width."""

    name: str
    caption: str
    frame: pd.DataFrame
    draw: Draw
    is_wide: bool
    height: float  # cm; of a planned figure its plan's own
    alt: str = ""
    is_planned: bool = False  # drawn at its width, so that nothing is left to fit


def write_figures(frames: NamedFrames, venue: Venue, out: Path, banner: str, kept: Kept = NOWHERE) -> list[Sheet]:
    """Draw every figure that the frames have rows for into ``out``, a PDF each; equal frames give equal bytes.

    One that is kept is not drawn again.
    """
    filled = (sheet for sheet in sheets(frames, venue) if len(sheet.frame))
    drawn = [replace(sheet, caption=banner + sheet.caption) for sheet in filled]
    for sheet in drawn:
        width = venue.page if sheet.is_wide else venue.column
        asked = {**vars(sheet), "frame": sheet.frame.reset_index(drop=True), "draw": named(sheet.draw)}
        printed = kept.parts(
            "print figure", {**asked, "width": width, "banner": banner}, partial(_printed, sheet, width, banner)
        )
        write_bytes(out / f"{sheet.name}.pdf", printed["pdf"])
    return drawn


def _printed(sheet: Sheet, width: float, banner: str) -> dict[str, bytes]:
    if sheet.is_planned:
        with mpl.rc_context({**EMBEDDED, **SETTINGS}):
            figure = sheet.draw(sheet.frame, banner.strip(" :"))
            _centre(figure, width / CM_PER_INCH)
            return {"pdf": file_of(figure, "pdf", metadata={"CreationDate": None})}
    with mpl.rc_context(EMBEDDED):
        return {"pdf": file_of(fitted(sheet, width, banner), "pdf", metadata={"CreationDate": None})}


def _centre(figure: Figure, width: float) -> None:
    """Make a planned figure ``width`` inches wide, what it shows unchanged in its middle."""
    own, height = figure.get_size_inches()
    figure.set_size_inches(width, height)
    figure.axes[0].set_position(((1 - own / width) / 2, 0.0, own / width, 1.0))


def sheets(frames: NamedFrames, venue: Venue) -> Iterator[Sheet]:
    """What there is to draw, heatmaps in as many parts as are legible."""
    yield from _planned(frames, venue)
    for name, frame in frames.items():
        if match := re.fullmatch(r"heatmap-(macro-f1|multilabel-f1|pearson-r)-(.+)", name):
            metric = match[1].replace("-", "_")
            setting = "" if match[2] == "full" else f", setting {match[2]}"
            caption = f"Gains in points, targets scored by {METRIC_NAMES[metric]}{setting}; the number is the score."
            is_merged = of_merged(frame)
            caption += " Merged intermediates stand below the lower line." if is_merged.any() else ""
            drawing = partial(_heatmap, metric=metric, limit=colour_limit(frame.points[~is_merged]))
            yield from _parts(Sheet(name, caption, frame, drawing, True, 0.0), venue)
        elif match := re.fullmatch(r"figure-6b?-percent-.*|figure-7-percent-.*", name):
            metric = name.split("percent-")[1].replace("-", "_")
            caption = f"Change in percent of the target alone, targets scored by {METRIC_NAMES[metric]}; the number is"
            yield from _parts(Sheet(name, f"{caption} the score.", frame, percent_map, True, 0.0), venue)
    yield from _bars(frames)
    for name, what, draw in (
        ("figure-9-data-similarity", "Similarity of the tasks' texts: cosine of mean embeddings.", cosine_map),
        ("figure-10-task-similarity", "Similarity of trained adapters: fused ranks of Fisher information.", rank_map),
    ):
        if name in frames:
            yield from _parts(Sheet(name, what, frames[name], draw, True, 0.0), venue)


def _planned(frames: NamedFrames, venue: Venue) -> Iterator[Sheet]:
    """The uncertainty map, the forest and the leaderboard, planned at a page's width."""
    for kind, caption, planner, parts, words in PLANNED:
        for name in (name for name in frames if name.startswith(f"{kind}-")):
            setting = name.removeprefix(f"{kind}-")
            beside = "" if setting == "full" else f" Training data: {setting}."
            draw = partial(figure_of_plan, planner=partial(planner, width=venue.page))
            for part, frame in parts(frames[name], name, width=venue.page):
                yield Sheet(part, caption(frame) + beside, frame, draw, True, 0.0, words(frame, ""), True)


def _bars(frames: NamedFrames) -> Iterator[Sheet]:
    """Figures that a column is wide enough for, and the two that need a page."""
    if (frame := frames.get(FIGURE_2)) is not None:
        caption = f"{NO_EVIDENCE}: feature importance by the paper's procedure (in-sample), means over seeds."
        if frame.by_chance.notna().any():
            caption += (
                f" Marks: 95 % of {frame.arrangements.max()} importances with facts permuted over tasks stay below."
            )
        yield Sheet(FIGURE_2, caption, frame, importance_bars, False, 2.6 + 0.55 * frame.feature.nunique())
    if (frame := frames.get("figure-3-themes")) is not None:
        caption = "Significant gains (up) and harms (down) by theme."
        if frame.panel.str.startswith("assumed").any():
            caption += " Approximations for an assumed correlation of errors: read directions only."
        yield Sheet("figure-3-themes", caption, frame, theme_bars, True, 2.0 + 3.6 * frame.panel.nunique())
    if (frame := frames.get("figure-8-differences")) is not None:
        caption = "By how much two raters' ratings of a task differ."
        yield Sheet("figure-8-differences", caption, frame, difference_bars, False, 6.2)
    if (frame := frames.get("mixed_profile")) is not None and len(frame):
        caption = "Log likelihood of every slope of gains on a rating; slopes in the band are not rejected at 5 %."
        yield Sheet("mixed-profile", caption, frame, likelihood_profile, True, 5.4)


def fitted(sheet: Sheet, width: float, banner: str) -> Figure:
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
    _keep_inside(figure)
    return figure


def _keep_inside(figure: Figure) -> None:
    """Leave room at the sides that the layout, which reckons once, has let something run over.

    Where nothing does, the places found stand, and are not sought again for the file.
    """
    width, height = figure.get_size_inches()
    if (engine := figure.get_layout_engine()) is not None:
        engine.execute(figure)
    box = figure.get_tightbbox()
    left, right = max(0.0, -box.x0 / width), max(0.0, box.x1 / width - 1)
    below, above = max(0.0, -box.y0 / height), max(0.0, box.y1 / height - 1)
    if isinstance(engine, ConstrainedLayoutEngine) and max(left, right, below, above) > 0:
        engine.set(rect=(left, below, 1 - left - right, 1 - below - above))
    else:
        figure.set_layout_engine("none")


def _legible(size: float) -> float:
    return min(max(SMALLEST, size), LARGEST)


def _parts(sheet: Sheet, venue: Venue) -> Iterator[Sheet]:
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
        yield Sheet(sheet.name + more[0], sheet.caption + more[1], frame, sheet.draw, is_wide, height)


def _heatmap(frame: pd.DataFrame, title: str, *, metric: str, limit: float) -> Figure:
    return heatmap(frame, title=title, metric=metric, limit=limit)


def _fold(figure: Figure, width: float, height: float) -> None:
    """Break what would be longer than the place it has: legends into columns that fit, labels and titles into lines."""
    letters, upright = (int(side / CM_PER_INCH * 72 / LETTER) for side in (width, height))
    grid = figure.axes[0].get_subplotspec()
    side_by_side = grid.get_geometry()[1] if grid else 1
    for axes in figure.axes:
        own = letters // side_by_side
        axes.title.set_text(_lines(axes.get_title(), int(0.8 * own)))
        axes.xaxis.label.set_text(_lines(axes.get_xlabel(), int(0.55 * own)))
        axes.yaxis.label.set_text(_lines(axes.get_ylabel(), int(0.62 * upright)))
        # Turn names below the axes that would not stand side by side.
        names = [label for label in axes.get_xticklabels() if label.get_text() and not label.get_rotation()]
        longest = max((len(line) for label in names for line in label.get_text().splitlines()), default=0)
        if len(names) * (longest + 1) > 0.75 * own:
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
