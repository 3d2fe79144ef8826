"""Systems as figures: the leaderboard, the reliability of probabilities, and tasks by their use of context.

``board_plan`` draws for every target all contestants by their score, ``reliability_plan`` a small panel per system, its
bins around the diagonal; each from the frame that lies beside the figure as CSV.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from math import ceil, floor, isfinite
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from adapters_store.roles import SYSTEM, TRANSFER
from analysis.figures import plan
from analysis.figures.drawing import COLOUR, PALE, Drawing, figure_of, make_plain, shortened
from analysis.figures.heatmaps import METRIC_NAMES
from analysis.figures.plan import Box, Dot, FigurePlan, LegendItem, Mark, PlannedFigure, Stroke, TextLabel
from analysis.gains.cells import Manifest
from analysis.results.comparisons import FULL, LEARNS, TEACHES, context_by_task
from analysis.results.leaderboard import Leaderboard
from analysis.results.study_results import StudyResults
from analysis.tables import Declared, bare, framed, holds, interval_columns, signed
from tasks.plain_text import counted, harmless

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


BOARD = "leaderboard"
COLUMNS = {
    "target": Declared("str", "task that was trained and tested: a panel"),
    "panel": Declared("str", "its title"),
    "metric": Declared("str", "its metric"),
    "system": Declared("str", "contestant, as of the leaderboard"),
    "row": Declared("str", "its name in the figure; of a transfer the title of the task below"),
    "role": Declared("str", "system, or what of the adapters it is"),
    "rank": Declared("Int64", "1 + number of contestants with a higher score; undefined: none, or it leaks"),
    "score": Declared("float64", "test score"),
    **interval_columns(),
    "is_tied": Declared("boolean", "no more than chance apart from the highest score; undefined: not tested"),
}
BOARD_CAPTION = (
    "Systems on each target by their test score with 95 % intervals, among them adapters, and the transfer that"
    " validation picks. Full marks: the highest score, or tied with it by paired tests of all against all,"
    " max-corrected."
)
OWN, OTHERS = "#2166ac", "#a0522d"  # adapters, and systems

ROW, HEAD, FOOT = 9.0, 19.0, 11.0  # points of a row, and of a panel's title and axis
NAMES, SCORES = 0.40, 17.0  # share of a panel's width for names, and points for scores
HIGHEST = 585.0  # points of all panels of a page
DEPTHS: list[type] = [Box, Stroke, Dot]


def board_frame(board: pd.DataFrame, manifest: Manifest, setting: str) -> pd.DataFrame:
    """One row per contestant of a setting, in COLUMNS, from the rows of a leaderboard: those of a target in order."""
    part, titles = board[board.setting == setting], plan.titles_of(manifest)
    panels = [titles[target] for target in part.target]
    named = zip(part.system, part.role, part.intermediate, strict=True)
    rows = [f"on {titles.get(below, below)}" if role == TRANSFER else harmless(name) for name, role, below in named]
    rows = [f"{row} (leaks)" if leaks else row for row, leaks in zip(rows, part.is_leaking, strict=True)]
    return framed(part.assign(panel=panels, row=rows), COLUMNS).reset_index(drop=True)


def boards(study: StudyResults) -> Iterator[PlannedFigure]:
    """A panel per target for every setting."""
    board = study.leaderboard.board
    for setting in dict.fromkeys(board.setting):
        title = plan.title_of(
            "Leaderboard", study.manifest, setting, "all systems by their test score, with 95 % intervals"
        )
        yield board_of(board_frame(board, study.manifest, setting), title, setting)


def board_of(frame: pd.DataFrame, title: str, setting: str) -> PlannedFigure:
    """The figure of a frame of contestants."""
    caption = f"{BOARD_CAPTION}{plan.training_data(setting)}"
    return PlannedFigure(plan.of_setting(BOARD, setting), title, frame, board_plan, board_words, caption, board_parts)


def board_parts(frame: pd.DataFrame, name: str, *, width: float = plan.PAGE) -> Iterator[tuple[str, pd.DataFrame]]:
    """The frame in parts of so many targets as stand on a page of ``width`` cm, with their names."""
    targets = list(dict.fromkeys(frame.target))
    highest = max(_height(sum(frame.target == target)) for target in targets)
    most = plan.panels_on(width, len(targets)).across * max(1, int(HIGHEST / highest))
    yield from plan.parts_of(frame, name, most)


def _height(rows: int) -> float:
    return HEAD + ROW * rows + FOOT + plan.GAP


def board_plan(frame: pd.DataFrame, title: str, *, width: float = plan.PAGE) -> FigurePlan:
    """A panel per target, side by side on ``width`` cm at most, each on an axis of its own."""
    frame, targets = plan.with_texts(frame, ["row"]), list(dict.fromkeys(frame.target))
    across, panel_width, full = plan.panels_on(width, len(targets))
    words, top = plan.heading(title, full)
    layers: dict[str, list[Mark]] = {"marks": [], "names": [*words]}
    for start in range(0, len(targets), across):
        parts = [frame[frame.target == target] for target in targets[start : start + across]]
        for column, part in enumerate(parts):
            marks, names = _panel(part, plan.EDGE + column * (panel_width + plan.GAP), top, panel_width)
            layers["marks"] += marks
            layers["names"] += [name for name in names if name.text]
        top += max(_height(len(part)) for part in parts)
    layers["marks"].sort(key=lambda mark: DEPTHS.index(type(mark)))  # rows do not overlap
    # What the marks mean; those that do not occur are left out.
    is_system = frame.role == SYSTEM
    items = (
        LegendItem(_key(OTHERS, OTHERS), 16.0, "system, test score with its 95 % interval", is_system.any()),
        LegendItem(_key(OWN, OWN), 16.0, "adapters, or the whole model", (~is_system).any()),
        LegendItem(lambda x, y: [Dot(x + 2.0, y, 1.9, plan.SOFT, plan.SOFT, 0.8)], 4.0, "highest, or tied with it"),
        LegendItem(lambda x, y: [Dot(x + 2.0, y, 1.9, "#ffffff", plan.SOFT, 0.8)], 4.0, "lower, or not tested"),
    )
    return plan.plan_of(layers, items, top, full, board_words(frame, title))


def _axis(part: pd.DataFrame) -> tuple[float, float]:
    """The ends of a panel's axis: whole tenths around all scores and intervals."""
    values = part[["low", "score", "high"]].to_numpy(dtype=float)
    values = values[np.isfinite(values)]
    if not values.size:
        return 0.0, 1.0
    low, high = floor(10 * values.min() + 1e-9) / 10, ceil(10 * values.max() - 1e-9) / 10
    return low, max(high, low + 0.1)


def _panel(part: pd.DataFrame, x: float, y: float, width: float) -> tuple[list[Mark], list[TextLabel]]:
    """The marks and the texts of a panel from its upper left corner."""
    left, right, first = x + NAMES * width, x + width - SCORES, y + HEAD
    last, (low, high) = first + ROW * len(part), _axis(part)

    def at(score: float) -> float:
        return left + 3.0 + (right - left - 6.0) * (score - low) / (high - low)

    marks: list[Mark] = [Box(left, first, right - left, last - first, "", plan.GRID, 0.6)]
    names = [
        TextLabel(x, y + 7.0, plan.fitting(part.panel.iloc[0], 7.4, width - 2), 6.8, is_bold=True),
        TextLabel(x, y + 15.5, METRIC_NAMES[part.metric.iloc[0]], colour=plan.SOFT),
    ]
    if (ranked := part.score[part["rank"].notna()]).size:
        marks.append(Stroke(at(ranked.max()), first, at(ranked.max()), last, plan.GRID, 0.9))
    for line, row in enumerate(part.itertuples()):
        middle = first + ROW * (line + 0.5)
        text, base = plan.fitting(row.row, plan.SMALLEST, left - x - 3.0), middle + plan.CAPITAL * plan.SMALLEST
        names.append(TextLabel(left - 3.0, base, text, anchor="end"))
        value = bare(row.score).replace("-", plan.MINUS) if np.isfinite(row.score) else "none"
        names.append(TextLabel(x + width, base, value, anchor="end", colour=plan.SOFT))
        marks += _interval(row, at, middle)
    for score, end, anchor in ((low, left, "start"), (high, right, "end")):
        names.append(
            TextLabel(end, last + 7.5, f"{score:.1f}".replace("-", plan.MINUS), anchor=anchor, colour=plan.SOFT)
        )
    return marks, names


def _interval(row: Any, at: Any, y: float) -> list[Mark]:  # noqa: ANN401 - a row of the frame, and a function
    """A contestant's interval and score: full where it is tied with the best, hollow where it is not."""
    if not np.isfinite(row.score):
        return []
    colour = OTHERS if row.role == SYSTEM else OWN
    marks: list[Mark] = []
    if np.isfinite([row.low, row.high]).all():
        marks.append(Stroke(at(row.low), y, at(row.high), y, colour, 1.0))
    fill = colour if holds(row.is_tied) else "#ffffff"
    return [*marks, Dot(at(row.score), y, 1.9, fill, colour, 0.8)]


def _key(colour: str, fill: str) -> Any:  # noqa: ANN401 - a key
    return lambda x, y: [Stroke(x, y, x + 15.0, y, colour, 1.0), Dot(x + 7.5, y, 1.9, fill, colour, 0.8)]


def board_words(frame: pd.DataFrame, title: str) -> str:
    """What the figure shows, for those who do not see it: the best of every target, and how many are tied with it."""
    named = []
    for _, part in frame[frame["rank"].notna()].groupby("target", sort=False):
        best, tied = part.loc[part.score.idxmax()], sum(map(holds, part.is_tied)) - 1
        named.append(f"{best.panel}: {best.row}, {bare(best.score)}, {counted(max(tied, 0), 'other')} tied with it")
    panels = counted(frame.target.nunique(), "target")
    shown = f"The figure has the scores of all systems on {panels}, the highest first. {'; '.join(named)}."
    return plan.description(title, shown)


SENSITIVITY = "sensitivity"
PANELS = {
    SENSITIVITY: "lost alone when contexts are swapped (points)",
    TEACHES: "taught: mean gain of other tasks (points)",
    LEARNS: "learned: mean gain from other tasks (points)",
}
CONTEXT = "context_sensitivity"
WHAT = "Context sensitivity of tasks, the most sensitive on top, beside what they teach and learn"
INTERVALS = "95 % intervals: of what is lost over groups of test items and seeds, of mean gains over the other tasks"


def contexts(study: StudyResults, probed: pd.DataFrame | None = None) -> Iterator[Drawing]:
    """The tasks that have a probe and a gain; nothing where there is none.

    ``probed`` is as ``context_by_task`` takes it, by default all that was probed.
    """
    frame = context_by_task(study.probes if probed is None else probed, study.gains)
    if len(frame):
        titles = plan.titles_of(study.manifest)
        frame = frame.assign(title=[titles[task] for task in frame["task"]])
        yield Drawing(CONTEXT, plan.title_of(WHAT, study.manifest, FULL, INTERVALS), frame, draw_context)


def draw_context(frame: pd.DataFrame, title: str) -> Figure:
    """Three panels with the same rows; above those of gains, Spearman's correlation with the first."""
    tasks = frame.drop_duplicates("task").sort_values(SENSITIVITY, kind="stable").reset_index(drop=True)
    places = {task: position for position, task in enumerate(tasks["task"])}
    figure = figure_of(11, 1.9 + 0.3 * len(tasks), title)
    panels = figure.subplots(1, len(PANELS), sharey=True)
    for axes, (part, label) in zip(panels, PANELS.items(), strict=True):
        axes.axvline(0, color=PALE, lw=0.8, zorder=0)
        if part == SENSITIVITY:
            _marks(axes, tasks, places, (SENSITIVITY, "sensitivity_low", "sensitivity_high"))
            axes.set_yticks(range(len(tasks)), [shortened(name) for name in tasks["title"]])
        else:
            rows = frame[frame["part"] == part]
            _marks(axes, rows, places, ("mean", "low", "high"))
            axes.set_title(_correlation(rows), fontsize=8.5)
        axes.set_xlabel(label, fontsize=8.5)
        axes.set_ylim(-0.6, len(tasks) - 0.4)
        make_plain(axes)
    return figure


def _marks(axes: Axes, rows: pd.DataFrame, places: dict[str, int], names: tuple[str, str, str]) -> None:
    """A mark per task with its interval, if it has any."""
    value, low, high = (rows[name].to_numpy(float) for name in names)
    spread = np.nan_to_num(np.array([value - low, high - value]))
    axes.errorbar(value, [places[task] for task in rows["task"]], xerr=spread, fmt="o", ms=4, lw=1, color=COLOUR)


def _correlation(rows: pd.DataFrame) -> str:
    rho = rows["rho"].iloc[0] if len(rows) else float("nan")
    few = f"{len(rows)} tasks: too few for a correlation"
    return f"Spearman's rho with what is lost: {signed(rho, 2)}, {len(rows)} tasks" if isfinite(rho) else few


RELIABILITY = "reliability"
RELIABILITY_COLUMNS = {
    "target": Declared("str", "task that was trained and tested: a band of panels"),
    "panel": Declared("str", "its title"),
    "system": Declared("str", "contestant with probabilities, as of the leaderboard: a panel"),
    "row": Declared("str", "its name in the figure"),
    "role": Declared("str", "system, or what of the adapters it is"),
    "error": Declared("float64", "expected calibration error"),
    "if_calibrated": Declared("float64", "its mean where the same probabilities are exactly right"),
    "bin": Declared("int64", "from the least probable, from 1"),
    "probability": Declared("float64", "mean probability of what was decided"),
    "right": Declared("float64", "share that is right"),
    **interval_columns(),
    "n": Declared("int64", "answers of the bin"),
}
ACROSS, ACROSS_NARROW = 5, 2  # panels side by side, on a page and in a column of it
TARGET_HEAD, NAME, BELOW_PANEL = (13.0, 17.0, 10.0)  # points of a target's title, above a panel, below it
AXIS = 7.0  # points of the numbers beside the first panel of a line
BELOW = "share of right answers by the probability of what was decided, in ten bins, with 95 % intervals"


def reliability_frame(board: Leaderboard, manifest: Manifest, setting: str) -> pd.DataFrame:
    """A row per bin of every contestant of a setting, in COLUMNS, with the names that the leaderboard's figure has."""
    where = ["target", "system"]
    named = board_frame(board.board, manifest, setting)[[*where, "panel", "row", "role"]]
    errors = board.calibration.loc[board.calibration.setting == setting, [*where, "error", "if_calibrated"]]
    bins = board.reliability[board.reliability.setting == setting]
    return framed(named.merge(errors, on=where).merge(bins, on=where), RELIABILITY_COLUMNS).reset_index(drop=True)


def reliabilities(study: StudyResults) -> Iterator[PlannedFigure]:
    """A band of panels per target for every setting in which a system has probabilities."""
    for setting in dict.fromkeys(study.leaderboard.reliability.setting):
        title = plan.title_of("Reliability of probabilities", study.manifest, setting, BELOW)
        frame, name = (
            reliability_frame(study.leaderboard, study.manifest, setting),
            plan.of_setting(RELIABILITY, setting),
        )
        yield PlannedFigure(name, title, frame, reliability_plan, reliability_words, None, reliability_parts)


def reliability_parts(
    frame: pd.DataFrame, name: str, *, width: float = plan.PAGE
) -> Iterator[tuple[str, pd.DataFrame]]:
    """The frame in parts of so many targets as stand on a page of ``width`` cm, with their names."""
    across, side = _panels(width)
    highest = max(_height_of_band(part.system.nunique(), across, side) for _, part in frame.groupby("target"))
    yield from plan.parts_of(frame, name, max(1, int(HIGHEST / highest)))


def _panels(width: float) -> tuple[int, float]:
    """How many panels stand side by side on ``width`` cm, and the points of a side of each."""
    points = width * plan.POINTS_PER_CM
    across = ACROSS if points > plan.NARROW else ACROSS_NARROW
    return across, (points - 2 * plan.EDGE - across * (AXIS + plan.GAP)) / across


def _height_of_band(systems: int, across: int, side: float) -> float:
    return TARGET_HEAD + ceil(systems / across) * (NAME + side + BELOW_PANEL) + plan.GAP


def reliability_plan(frame: pd.DataFrame, title: str, *, width: float = plan.PAGE) -> FigurePlan:
    """A band per target, in it a panel per contestant, all axes from 0 to 1."""
    frame, full = plan.with_texts(frame, ["row"]), width * plan.POINTS_PER_CM
    across, side = _panels(width)
    words, top = plan.heading(title, full)
    layers: dict[str, list[Mark]] = {"marks": [], "names": [*words]}
    for _, band in frame.groupby("target", sort=False):
        name = plan.fitting(band.panel.iloc[0], 7.4, full - 2 * plan.EDGE)
        layers["names"].append(TextLabel(plan.EDGE, top + 8.0, name, 6.8, is_bold=True))
        for number, (_, part) in enumerate(band.groupby("system", sort=False)):
            x = plan.EDGE + (number % across) * (side + AXIS + plan.GAP) + AXIS
            y = top + TARGET_HEAD + (number // across) * (NAME + side + BELOW_PANEL) + NAME
            marks, names = _reliability_panel(part, x, y, side)
            layers["marks"] += marks
            layers["names"] += [label for label in names if label.text]
        top += _height_of_band(band.system.nunique(), across, side)
    layers["marks"].sort(key=lambda mark: DEPTHS.index(type(mark)))  # panels do not overlap
    # What the marks mean; those that do not occur are left out.
    is_system = frame.role == SYSTEM
    items = (
        LegendItem(_reliability_key(OTHERS), 16.0, "system: share of right answers of a bin", is_system.any()),
        LegendItem(_reliability_key(OWN), 16.0, "adapters, or the whole model", (~is_system).any()),
        LegendItem(lambda x, y: [Stroke(x, y + 3.0, x + 8.0, y - 3.0, plan.GRID, 0.8)], 8.0, "as often as said"),
        LegendItem(lambda x, y: [], 0.0, "error: how far bins lie from the line, on average over answers"),
    )
    return plan.plan_of(layers, items, top, full, reliability_words(frame, title))


def _reliability_panel(part: pd.DataFrame, x: float, y: float, side: float) -> tuple[list[Mark], list[TextLabel]]:
    """The marks and the texts of a contestant's panel, whose square begins at (x, y)."""
    first, bottom = part.iloc[0], y + side

    def at(probability: float, share: float) -> tuple[float, float]:
        return x + side * probability, bottom - side * share

    colour = OTHERS if first.role == SYSTEM else OWN
    marks: list[Mark] = [
        Box(x, y, side, side, "", plan.GRID, 0.6),
        Stroke(x, bottom, x + side, y, plan.GRID, 0.8),
    ]
    for row in part.itertuples():
        if np.isfinite([row.low, row.high]).all():
            marks.append(Stroke(*at(row.probability, row.low), *at(row.probability, row.high), colour, 0.9))
        marks.append(Dot(*at(row.probability, row.right), 1.5, colour))
    points = [at(row.probability, row.right) for row in part.itertuples()]
    marks += [Stroke(*start, *end, colour, 0.6) for start, end in pairwise(points)]
    error = f"error {bare(first.error)}, if calibrated {bare(first.if_calibrated)}"
    names = [
        TextLabel(x, y - 10.2, plan.fitting(first.row, plan.SMALLEST, side)),
        TextLabel(x, y - 3.4, plan.fitting(error, plan.SMALLEST, side + AXIS), colour=plan.SOFT),
    ]
    for value in (0.0, 1.0):
        across, down = at(value, value)
        names.append(TextLabel(across, bottom + 6.6, f"{value:.0f}", anchor="middle", colour=plan.SOFT))
        names.append(TextLabel(x - 1.8, down + (5.0 if value else 0.0), f"{value:.0f}", anchor="end", colour=plan.SOFT))
    return marks, names


def _reliability_key(colour: str) -> Any:  # noqa: ANN401 - a key
    return lambda x, y: [Stroke(x + 7.5, y - 4.0, x + 7.5, y + 4.0, colour, 0.9), Dot(x + 7.5, y, 1.5, colour)]


def reliability_words(frame: pd.DataFrame, title: str) -> str:
    """What the figure shows, for those who do not see it: of every target the least and the largest error."""
    ranges = []
    for _, band in frame.groupby("target", sort=False):
        errors = band.drop_duplicates("system").sort_values("error", kind="stable")
        least, most = errors.iloc[0], errors.iloc[-1]
        ends = [f"{row.row}, {bare(row.error)}" for row in ((least,) if len(errors) == 1 else (least, most))]
        ranges.append(f"{band.panel.iloc[0]}: calibration error from {' to '.join(ends)}")
    bands = counted(frame.target.nunique(), "target")
    shown = f"The figure has the share of right answers by probability of all systems on {bands}. {'; '.join(ranges)}."
    return plan.description(title, shown)
