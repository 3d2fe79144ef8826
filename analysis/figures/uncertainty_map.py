"""The uncertainty map as a drawing plan: squares, numbers and frames, names and brackets, and every gain as a dot.

``map_plan`` needs nothing but the frame of ``analysis.figures.layout``, the CSV file beside the figure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from analysis.figures.layout import (
    EDGE,
    FULL,
    GRID,
    LIMIT,
    MINUS,
    UNSURE,
    Layout,
    brackets,
    colour_of,
    is_sure,
    labels_below,
    layout_of,
    map_frame,
    map_title,
    names,
    strip_above,
    strip_beside,
    whole,
)
from analysis.figures.plan import (
    CAPITAL,
    INK,
    LEGEND,
    PAGE,
    POINTS_PER_CM,
    SMALLEST,
    SOFT,
    WORDS,
    Box,
    Dot,
    Item,
    Label,
    Line,
    Mark,
    Plan,
    Planned,
    Triangle,
    described,
    entries,
    legend,
    of_setting,
    rounded,
    text_width,
    training_data,
    with_texts,
    wrapped,
)
from analysis.gains.significance import LEVEL
from analysis.results.study_results import StudyResults
from analysis.tables import signed
from tasks.plain_text import counted, harmless

MAP = "uncertainty-map"
CORRECTION = "Benjamini-Hochberg over all gains"
BRACKETS = "(in brackets): has not learned alone, so none of its gains is framed"
SAME, EDGE_OF_SQUARE = "#ececea", "#8a8f96"
TITLE, NUMBER = 8.0, SMALLEST  # points of the title, and of a number in a square
CAPTION = (
    "Gains of intermediates (rows) on targets (columns). The area of a square is the gain over the half-width of its"
    f" 95 % interval, full from {FULL:.0f} on; its colour is the gain, up to {LIMIT:.0f} points. Numbers: the interval"
    " excludes 0; frames: significant after correction. Beside the map every gain is a dot, medians are bars."
)
FILLED = 0.92  # side of the largest square as a share of its place


def maps(study: StudyResults) -> Iterator[Planned]:
    """The uncertainty map of every setting that has transfers."""
    for setting in dict.fromkeys(study.gains.setting):
        frame = map_frame(study.gains, study.manifest, setting=setting)
        title = map_title(study.gains, study.manifest, setting)
        caption = partial(_caption, beside=training_data(setting))
        yield Planned(of_setting(MAP, setting), title, frame, map_plan, map_words, caption)


def _caption(frame: pd.DataFrame, beside: str) -> str:
    return f"{CAPTION}{beside}"


def map_plan(frame: pd.DataFrame, title: str, *, width: float = PAGE) -> Plan:
    """The plan of a map at most ``width`` cm wide, from the columns COLUMNS alone."""
    frame = with_texts(frame, ["row_family", "column_family"])
    width *= POINTS_PER_CM
    first = layout_of(frame, width, 0.0)
    words, top = heading(title, first.width)
    layout = layout_of(frame, width, top)
    texts = _texts(frame, layout.across)
    foot = layout.bottom + labels_below(frame, layout)
    # What area, colour, numbers, frames and marks mean; marks that do not occur are left out.
    level = f"{LEVEL:.2f}".removeprefix("0")
    area = f"area: |gain| / half-width of its 95 % interval (few seeds count less); here 1, 2, and {FULL:.0f} or more"
    shown = {*frame.status, *map(_empty_state, frame.itertuples())}
    beside = "beside the map: a gain; one whose interval excludes 0; one beyond the axis; bar: median"
    items = [
        Item(_area_key, 28.0, area),
        Item(_colour_key, 62.0, f"gain: {whole(-LIMIT)} points or less to {whole(LIMIT)} or more"),
        Item(_harm_key, 9.0, "with a bar: harm"),
        *_number_item(frame, texts),
        Item(lambda x, y: [Box(x, y - 4.0, 8.0, 8.0, "", INK, 0.9)], 8.0, f"p \u2264 {level}, {CORRECTION}"),
        *(item for name, item in _corners().items() if frame[name].any()),
        *(item for state, item in _states().items() if state in shown),
        *([Item(lambda x, y: (), 0.0, BRACKETS)] if frame.is_unlearned.any() else []),
        Item(_dots_key, 22.0, beside),
    ]
    below, height = legend(items, EDGE, foot, layout.width - 2 * EDGE)
    layers: dict[str, Sequence[Mark]] = {
        "ground": _ground(frame, layout),
        "squares": [
            square_at(*layout.middle(pair.intermediate, pair.target), layout.side, pair.size, pair.points)
            for pair in frame[frame["size"] > 0].itertuples()
        ],
        "bars": _bars(frame, layout, texts),
        "marks": _marks(frame, layout),
        "numbers": _numbers(layout, texts),
        "names": [*words, *names(frame, layout)],
        "brackets": brackets(frame, layout),
        "marginals": [*strip_above(frame, layout), *strip_beside(frame, layout)],
        LEGEND: below,
    }
    return rounded(Plan(layout.width, height + EDGE, map_words(frame, title), layers, foot, entries(items)))


def map_words(frame: pd.DataFrame, title: str) -> str:
    """What the map shows, for those who do not see it."""
    done = frame[frame.status == "done"]
    sure = done[done.is_significant]
    size = f"{counted(frame.intermediate.nunique(), 'intermediate')} by {counted(frame.target.nunique(), 'target')}"
    texts = [f"The map has {counted(len(done), 'gain')}, of {size}."]
    texts.append(
        f"Framed, since significant after correction: {counted(int((sure.points > 0).sum()), 'gain')} and"
        f" {counted(int((sure.points < 0).sum()), 'harm')}."
    )
    if len(done):
        ends = (done.loc[done.points.idxmax()], done.loc[done.points.idxmin()])
        named = (f"{pair.row} on {pair.column}, {signed(pair.points, 1)} points" for pair in ends)
        texts.append("Largest and smallest: {}; {}.".format(*named))
    return described(title, " ".join(texts))


def heading(title: str, width: float) -> tuple[list[Label], float]:
    """The lines of a figure's title, and where what stands below them begins."""
    marks, y = [], EDGE
    for number, line in enumerate(harmless(part) for part in title.splitlines()):
        size = TITLE if number == 0 else WORDS
        for words in wrapped(line, size, width - 2 * EDGE, is_bold=number == 0):
            y += size * 1.3
            marks.append(Label(EDGE, y - 0.25 * size, words, size, is_bold=number == 0))
    return [mark for mark in marks if mark.text], y + 3.0


def _ground(frame: pd.DataFrame, layout: Layout) -> list[Mark]:
    """The places of all pairs: white with a thin edge, grey where a task meets itself, struck out if empty."""
    marks: list[Mark] = []
    for pair in frame.itertuples():
        x, y = layout.columns[pair.target], layout.rows[pair.intermediate]
        fill = SAME if pair.status == "same task" else "#ffffff"
        marks.append(Box(x, y, layout.across, layout.down, fill, GRID, 0.4))
    for pair in frame.itertuples():
        if state := _empty_state(pair):
            marks += EMPTY[state](*layout.middle(pair.intermediate, pair.target), layout.side)
    return marks


def _empty_state(pair: Any) -> str:  # noqa: ANN401 - a row of the frame
    """Why a place has no square: missing or undefined; an empty text where it has one, or where a task meets itself."""
    if pair.status == "done":
        return "undefined" if np.isnan(pair.low) else ""
    return str(pair.status) if pair.status in EMPTY else ""


def _struck(x: float, y: float, side: float) -> Sequence[Mark]:
    """What is planned and not there: a slanted line."""
    return (Line(x - 0.25 * side, y + 0.25 * side, x + 0.25 * side, y - 0.25 * side, SOFT, 0.6),)


def _ring(x: float, y: float, side: float) -> Sequence[Mark]:
    """A gain that has no value, or no interval: a ring."""
    return (Dot(x, y, 0.16 * side, "", SOFT, 0.6),)


EMPTY = {"missing": _struck, "undefined": _ring}


def square_at(x: float, y: float, side: float, size: float, points: float) -> Box:
    """A square around (x, y) whose area is this share of the largest in a place of this side."""
    own = side * FILLED * float(np.sqrt(size))
    return Box(x - own / 2, y - own / 2, own, own, colour_of(points), EDGE_OF_SQUARE, 0.3)


def bar_at(x: float, y: float, side: float) -> Sequence[Mark]:
    """A white bar across a harm's square, which grey would not tell from a gain's; none where it would hide it."""
    return (Line(x - 0.32 * side, y, x + 0.32 * side, y, "#ffffff", 0.16 * side),) if side >= 2.5 else ()


Texts = Mapping[tuple[str, str], str]  # what is written into a place, by intermediate and target


def _texts(frame: pd.DataFrame, across: float) -> Texts:
    """The gains whose interval excludes 0, with a decimal where all have room; none where whole ones have not."""
    sure = frame[is_sure(frame)]
    for digits in (1, 0):
        texts = [signed(points, digits).replace("-", MINUS) for points in sure.points]
        if all(text_width(text, NUMBER) <= across - 0.8 for text in texts):
            return dict(zip(zip(sure.intermediate, sure.target, strict=True), texts, strict=True))
    return {}


def _bars(frame: pd.DataFrame, layout: Layout, texts: Texts) -> list[Mark]:
    """The bars of harms; a number has its own sign."""
    harms = frame[(frame.points < 0) & (frame["size"] > 0)]
    side = layout.side * FILLED
    return [
        bar
        for pair in harms.itertuples()
        if (pair.intermediate, pair.target) not in texts
        for bar in bar_at(*layout.middle(pair.intermediate, pair.target), side * float(np.sqrt(pair.size)))
    ]


def _marks(frame: pd.DataFrame, layout: Layout) -> list[Mark]:
    """Frames of significant gains, and corners of places whose cells are doubtful."""
    marks: list[Mark] = []
    for pair in frame[frame.status == "done"].itertuples():
        x, y = layout.columns[pair.target], layout.rows[pair.intermediate]
        if pair.is_significant:
            marks.append(Box(x, y, layout.across, layout.down, "", INK, min(1.3, 0.1 * layout.side)))
        for name, corner in CORNERS.items():
            if getattr(pair, name):
                marks.append(corner(x, y + layout.down, layout.across, layout.side))
    return marks


def _left_corner(x: float, bottom: float, across: float, side: float) -> Triangle:
    reach = 0.3 * side
    return Triangle((x, bottom - reach, x, bottom, x + reach, bottom), INK, INK, 0.4)


def _right_corner(x: float, bottom: float, across: float, side: float) -> Triangle:
    reach, right = 0.3 * side, x + across
    return Triangle((right, bottom - reach, right, bottom, right - reach, bottom), "#ffffff", INK, 0.6)


CORNERS = {"is_collapsed": _left_corner, "is_contaminated": _right_corner}


def _numbers(layout: Layout, texts: Texts) -> list[Label]:
    places = {where: layout.middle(*where) for where in texts}
    return [
        Label(x, y + CAPITAL * NUMBER, text, NUMBER, "middle", 0.0, "#000000")
        for (x, y), text in zip(places.values(), texts.values(), strict=True)
    ]


# The legend.


def _number_item(frame: pd.DataFrame, texts: Texts) -> list[Item]:
    """What a number means, or why none is written."""
    if not is_sure(frame).any():
        return []
    if not texts:
        return [Item(lambda x, y: (), 0.0, "too many tasks for numbers, which stand in the CSV file and on the page")]
    example = next(iter(texts.values()))

    def key(x: float, y: float) -> Sequence[Mark]:
        return (Label(x, y + CAPITAL * NUMBER, example, NUMBER),)

    return [Item(key, text_width(example, NUMBER) + 1.0, "gain in points: 95 % interval excludes 0")]


def _corners() -> dict[str, Item]:
    return {
        "is_collapsed": Item(lambda x, y: [_left_corner(x, y + 4.0, 8.0, 22.0)], 7.0, "collapsed training"),
        "is_contaminated": Item(lambda x, y: [_right_corner(x, y + 4.0, 7.0, 22.0)], 7.0, "contaminated test items"),
    }


def _states() -> dict[str, Item]:
    return {
        "missing": Item(lambda x, y: _struck(x + 4.0, y, 14.0), 8.0, "not finished"),
        "undefined": Item(lambda x, y: _ring(x + 4.0, y, 16.0), 8.0, "no value or no interval"),
        "same task": Item(lambda x, y: [Box(x, y - 4.0, 8.0, 8.0, SAME, GRID, 0.4)], 8.0, "same task"),
    }


def _area_key(x: float, y: float) -> list[Mark]:
    return [square_at(x + 4.0 + 9.5 * place, y, 9.8, (place + 1) / FULL, LIMIT / 2) for place in range(int(FULL))]


def _colour_key(x: float, y: float) -> list[Mark]:
    steps = np.linspace(-LIMIT, LIMIT, 21)
    return [Box(x + 62.0 / 21 * place, y - 4.0, 62.0 / 21 + 0.1, 8.0, colour_of(at)) for place, at in enumerate(steps)]


def _harm_key(x: float, y: float) -> list[Mark]:
    return [square_at(x + 4.5, y, 9.8, 1.0, -0.7 * LIMIT), *bar_at(x + 4.5, y, 9.0)]


def _dots_key(x: float, y: float) -> list[Mark]:
    dots = [Dot(x + 2.0, y, 1.5, UNSURE), Dot(x + 8.0, y, 1.5, INK), Dot(x + 14.0, y, 1.5, "#ffffff", INK, 0.7)]
    return [*dots, Line(x + 20.0, y - 3.5, x + 20.0, y + 3.5, INK, 1.1)]
