"""The uncertainty map: what it shows, where that stands, and its drawing plan.

Every gain of a study is as large as it is known to differ from 0. The area of a square is |gain| over the half-width of
its 95 % interval, so that chance alone draws little; its colour is the gain on a scale that is the same for every study
and metric. The idea is that of value-suppressing uncertainty palettes (Correll, Moritz and Heer 2018,
doi:10.1145/3173574.3174216). Places are such that 2 to 60 tasks are legible on a page. ``map_plan`` needs nothing but
the frame of ``map_frame``, the CSV file beside the figure.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import ndtri, stdtr, stdtrit

from analysis.figures import plan
from analysis.figures.heatmaps import METRIC_NAMES
from analysis.figures.plan import Box, Dot, FigurePlan, LegendItem, Mark, PlannedFigure, Stroke, TextLabel, Triangle
from analysis.gains.baselines import of_unlearned
from analysis.gains.cells import Manifest
from analysis.gains.significance import LEVEL
from analysis.results.study_results import StudyResults
from analysis.tables import Declared, framed, holds, interval_columns, signed
from tasks.plain_text import counted, harmless

WIDEST_PLACE, NARROWEST = 40.0, 6.6  # points of a square's place at most, and at least for a name beside each
SLANTED = 10.6  # points of a place from which on labels of columns are slanted and not upright
LONGEST_NAME, SHORT_NAME, MANY = 96.0, 66.0, 36  # points of a task's name, and of a name among more tasks than these
STRIP, LEAST_WIDTH = 34.0, 300.0  # points of the marginal above, and of the whole figure
SIDE_STRIP = (50.0, 110.0)  # points of the marginal at the right, at least and at most
METRIC_GAP, FAMILY_GAP, AXIS = 7.0, 2.5, 34.0  # AXIS: the words beside the marginal above
BRACKET, BRACKET_LINE = 11.0, 6.6  # points of a bracket with a line of its name, and of each further line
BESIDE = 2.0  # points of a bracket that its name leaves free
BOLDER = 1.12  # times the width of a plain name that a bold one has
LONGEST_TURNED, ENDS = 42.0, 6.0  # points of a name across its bracket, and those that it leaves free at its ends
TITLES = {"intermediate": "row", "target": "column"}  # columns of a map's frame that have the titles of a role's tasks
FEWEST_LETTERS, MOST_LINES = 6, 2  # of a bracket's name: letters that still say something, and lines


@dataclass(frozen=True)
class Layout:
    """Where the places of a map stand: left sides of columns, tops of rows, and the sizes of a place."""

    columns: Mapping[str, float]
    rows: Mapping[str, float]
    across: float
    down: float
    name_size: float
    width: float
    bottom: float  # of the map
    longest: float  # of the columns' labels
    slant: float  # of them: 45 or 90 degrees
    is_staggered: bool
    top: float  # of the strip above the map
    tier: float  # of the labels above the strip; 0 without
    families: tuple[float, float]  # of the families' brackets: above the map, and at its left; 0 without

    @property
    def right(self) -> float:
        """The right side of the map."""
        return max(self.columns.values()) + self.across

    @property
    def side(self) -> float:
        """The shorter side of a place."""
        return min(self.across, self.down)

    @property
    def left(self) -> float:
        """The left side of the map."""
        return min(self.columns.values())

    @property
    def head(self) -> float:
        """The top of the map."""
        return min(self.rows.values())

    def middle(self, row: str, column: str) -> tuple[float, float]:
        """The middle of a place."""
        return self.columns[column] + self.across / 2, self.rows[row] + self.down / 2


def layout_of(frame: pd.DataFrame, width: float, top: float) -> Layout:
    """The layout of a map at most ``width`` wide whose strip, or what stands above it, begins at ``top``."""
    rows, columns = frame.drop_duplicates("intermediate"), frame.drop_duplicates("target")
    has_rows, has_columns = (bool((part != "").any()) for part in (rows.row_family, columns.column_family))
    gaps_across = _gaps(columns, ["metric", "column_family"])
    gaps_down = _gaps(rows, ["row_family"])
    longest = min(LONGEST_NAME if len(columns) <= MANY else SHORT_NAME, 0.24 * width)
    side = (BRACKET + 1.0) * has_rows
    gutter = max(min(max(plan.text_width(name, 7.0) for name in rows.row), longest), AXIS) + 8.0 + side
    for _ in range(3):  # names of families, and labels that slant to the left, may ask for more room at the left
        room = width - gutter - SIDE_STRIP[0] - 3 * plan.EDGE - sum(gaps_across)
        across = min(room / len(columns), WIDEST_PLACE)
        down = max(across, NARROWEST)
        more = BRACKET + 1.0 + _further(runs_of(rows, "intermediate", ["row_family"]), down) - side
        if has_rows and more > 0:
            gutter, side = gutter + more, side + more
        slant = 45.0 if across >= SLANTED else 90.0
        lefts = gutter + np.cumsum([0.0, *gaps_across[1:]]) + across * np.arange(len(columns))
        lengths = [min(plan.text_width(name, 7.0), longest) for name in columns.column]
        if slant == 45.0:
            starts = [x + across / 2 - 0.72 * length for x, length in zip(lefts, lengths, strict=True)]
            gutter += max(0.0, plan.EDGE - min(starts))
    is_staggered = slant == 90.0 and across < NARROWEST
    tier = max(lengths) + 3.0 if is_staggered else 0.0
    above = (BRACKET + _further(runs_of(columns, "target", ["metric", "column_family"]), across)) * has_columns
    strip = top + BRACKET + _further(_metrics(columns), across / BOLDER) + above + tier
    tops = strip + STRIP + 4.0 + np.cumsum([0.0, *gaps_down[1:]]) + down * np.arange(len(rows))
    strip_across = min(max(width - lefts[-1] - across - 3 * plan.EDGE, SIDE_STRIP[0]), SIDE_STRIP[1])
    return Layout(
        dict(zip(columns.target, lefts, strict=True)),
        dict(zip(rows.intermediate, tops, strict=True)),
        across,
        down,
        min(max(0.62 * min(across * (2 if is_staggered else 1), down), plan.SMALLEST), 7.0),
        max(lefts[-1] + across + strip_across + 3 * plan.EDGE, min(LEAST_WIDTH, width)),
        float(tops[-1] + down),
        longest,
        slant,
        is_staggered,
        strip,
        tier,
        (above, side),
    )


class FamilyBracket(NamedTuple):
    """Tasks side by side of one family: the first and the last, how many, and the name of their bracket."""

    first: str
    last: str
    size: int
    name: str


def runs_of(tasks: pd.DataFrame, role: str, fields: Sequence[str]) -> list[FamilyBracket]:
    """The runs of tasks in a role that agree in these fields, the last of which names them.

    A bracket over a single task that is called as its family has no name: it would say the same word twice.
    """
    titles, values = TITLES[role], tasks[list(fields)].itertuples(index=False, name=None)
    runs = []
    for shared, run in groupby(zip(values, tasks[role], tasks[titles], strict=True), itemgetter(0)):
        members = [(str(task), str(title)) for _, task, title in run]
        is_plain = len(members) == 1 and members[0][1].casefold() == str(shared[-1]).casefold()
        runs.append(FamilyBracket(members[0][0], members[-1][0], len(members), "" if is_plain else str(shared[-1])))
    return runs


def _metrics(columns: pd.DataFrame) -> list[FamilyBracket]:
    """The runs of targets that agree in their metric, with its name."""
    return [run._replace(name=METRIC_NAMES[run.name]) for run in runs_of(columns, "target", ["metric"])]


def _further(runs: Sequence[FamilyBracket], width: float) -> float:
    """The room that names of brackets take beyond a line, in points."""
    needed = [0.0]
    for run in runs:
        lines, is_turned = bracket_name(run.name, run.size * width - BESIDE)
        widths = [plan.text_width(line, plan.SMALLEST) for line in lines]
        needed.append(max(widths) + ENDS - BRACKET if is_turned else BRACKET_LINE * (len(lines) - 1))
    return max(needed)


def bracket_name(name: str, room: float) -> tuple[list[str], bool]:
    """The lines of a bracket's name, and whether they stand across it because along it one would be cut."""
    along = _name_lines(name, plan.SMALLEST, room, MOST_LINES)
    if along or not name:
        return along, False
    across = name_lines(name, LONGEST_TURNED, most=int((room + BESIDE) / BRACKET_LINE))
    return (across, True) if across else (name_lines(name, room), False)


def name_lines(name: str, room: float, *, most: int = MOST_LINES) -> list[str]:
    """A bracket's name in as few lines as fit, broken at its parts; else on one, cut, or none."""
    if lines := _name_lines(name, plan.SMALLEST, room, most):
        return lines
    text = plan.fitting(name, plan.SMALLEST, room, 0) if most > 0 else ""
    return [text] if text.strip() and len(text) >= min(len(name), FEWEST_LETTERS) else []


def _name_lines(name: str, size: float, room: float, most: int) -> list[str]:
    """A name in at most so many lines, broken at its parts; none where it would have to be cut."""
    lines = [""]
    for part in re.findall(r"[^\s_/-]+[\s_/-]*|[\s_/-]+", name):
        if plan.text_width((lines[-1] + part).rstrip(), size) <= room or not lines[-1]:
            lines[-1] += part
        else:
            lines.append(part)
    lines = [line.strip() for line in lines]
    fits = len(lines) <= most and all(plan.text_width(line, size) <= room for line in lines)
    return lines if fits and lines[0] else []


def _gaps(tasks: pd.DataFrame, fields: Sequence[str]) -> list[float]:
    """The room before each task: more where a metric begins, less where a family does, none else."""
    gaps, before = [0.0], None
    for values in tasks[list(fields)].itertuples(index=False):
        if before is not None:
            is_other = [value != other for value, other in zip(values, before, strict=True)]
            gaps.append(METRIC_GAP if len(fields) > 1 and is_other[0] else FAMILY_GAP if any(is_other) else 0.0)
        before = values
    return gaps


LIMIT = 10.0  # points of gain at which the colour is deepest, for every study and metric
FULL = 3.0  # times its interval's half-width that a gain fills its square
ORDERS = ("family", "median")
COLUMNS = {
    "intermediate": Declared("str", "task whose adapter is below: a row of the map"),
    "target": Declared("str", "task that was trained and tested: a column of the map"),
    "row": Declared("str", "title of the intermediate"),
    "column": Declared("str", "title of the target, in brackets if it has not learned"),
    "row_family": Declared("str", "family of the intermediate; empty where the map has no families"),
    "column_family": Declared("str", "family of the target; empty likewise"),
    "metric": Declared("str", "metric of the target"),
    "status": Declared("str", "done, missing, undefined, or same task"),
    "points": Declared("float64", "gain in points"),
    **interval_columns(),
    "df": Declared("float64", "degrees of freedom behind it"),
    "p_corrected": Declared("float64", "p after the correction by which gains are called significant"),
    "size": Declared("float64", "area of the square as a share of its place"),
    "is_significant": Declared(
        "bool", "framed: the corrected p is at most .05; not if the target has not learned or the pair is in doubt"
    ),
    "is_collapsed": Declared("bool", "marked: the cell or its baseline has collapsed"),
    "is_contaminated": Declared("bool", "marked: test items are training material"),
    "is_unlearned": Declared("bool", "in brackets: the target alone has not learned"),
}
DEEP_HARM, PALE, DEEP_GAIN = (214, 96, 77), (247, 247, 247), (67, 147, 195)  # black is legible on all between


def map_frame(gains: pd.DataFrame, manifest: Manifest, *, setting: str, order: str = "family") -> pd.DataFrame:
    """One row per square in the map's order, row by row: the columns COLUMNS.

    Targets stand by metric. Within it they stand by family, families and their tasks by their median gain, the largest
    first; or, in the ``order`` median or where families say nothing, by their median alone. Intermediates likewise.
    """
    shown = gains[gains.setting == setting]
    # the family of every task; nothing where all are of one family, or every task is of its own
    families = {
        task: harmless(str(manifest["tasks"][task]["family"])).replace("_", " ")
        for task in sorted({*shown.intermediate, *shown.target} if order == "family" else ())
    }
    families = families if 1 < len(set(families.values())) < len(families) else {}
    rows = _order(shown, "intermediate", families)
    targets = _order(shown, "target", families)
    metrics = dict(zip(shown.target, shown.metric, strict=True))
    targets = sorted(targets, key=lambda task: list(METRIC_NAMES).index(metrics[task]))
    pairs = {(pair.intermediate, pair.target): pair for pair in shown.itertuples()}
    titles = plan.titles_of(manifest)
    unlearned = {target for target, _ in of_unlearned(shown)}
    squares = [
        {
            **{"intermediate": row, "target": target, "row": titles[row]},
            "column": f"({titles[target]})" if target in unlearned else titles[target],
            **{"row_family": families.get(row, ""), "column_family": families.get(target, "")},
            **{
                "metric": metrics[target],
                "is_unlearned": target in unlearned,
                **_of_pair(pairs.get((row, target)), target not in unlearned),
            },
        }
        for row in rows
        for target in targets
    ]
    return framed(pd.DataFrame(squares, columns=list(COLUMNS)), COLUMNS)


def _order(shown: pd.DataFrame, role: str, families: Mapping[str, str]) -> list[str]:
    """Tasks in a role by the median gain of their family and then by their own, the largest first."""
    tasks = list(dict.fromkeys(shown[role]))
    medians = shown.groupby(role).points.median().to_dict()
    of_family = shown.groupby(shown[role].map(families)).points.median().to_dict() if families else {}

    def falling(value: float) -> float:
        return np.inf if np.isnan(value) else -value

    def key(task: str) -> tuple[float, str, float, int]:
        family = families.get(task, "")
        return falling(of_family.get(family, 0.0)), family, falling(medians[task]), tasks.index(task)

    return sorted(tasks, key=key)


def _of_pair(pair: Any, may_be_claimed: bool) -> dict[str, Any]:  # noqa: ANN401 - a row of gains, or None
    marks = {"is_significant": False, "is_collapsed": False, "is_contaminated": False, "size": 0.0}
    if pair is None:
        return {"status": "same task", **marks}
    if pair.n_seeds == 0 or not np.isfinite(pair.points):
        return {"status": "missing" if pair.n_seeds == 0 else "undefined", **marks}
    doubts = {f"is_{name}": holds(getattr(pair, name)) for name in ("collapsed", "contaminated")}
    return {
        "status": "done",
        **{name: getattr(pair, name) for name in ("points", "low", "high", "df")},
        "p_corrected": pair.p_bh,
        "size": share_of_place(pair.points, pair.low, pair.high, pair.df),
        "is_significant": bool(pair.significant) and may_be_claimed and not any(doubts.values()),
        **doubts,
    }


def share_of_place(points: float, low: float, high: float, df: float) -> float:
    """The area of a square as a share of its place: |gain| over its interval's half-width, full from FULL on.

    With few seeds a half-width is itself uncertain: among many, some are short by luck. So the ratio counts as much as
    one of the same p would if the spread were known: with t = ratio x the quantile of Student's t at ``df``, and z the
    normal deviate of t's p, it is z over its own quantile. 1 is an interval that ends at 0 either way, and from some 30
    degrees of freedom on the two are alike. 0 without an interval, for then nothing is known of how sure the gain is.
    """
    half_width = (high - low) / 2
    if not np.isfinite(half_width) or points == 0:
        return 0.0
    if half_width <= 0:
        return 1.0
    ratio = abs(points) / half_width
    if np.isfinite(df):
        ratio = ndtri(stdtr(df, ratio * stdtrit(df, LEVEL / 2))) / ndtri(LEVEL / 2)
    return float(min(max(ratio, 0.0) / FULL, 1.0))


def is_sure(frame: pd.DataFrame) -> pd.Series:
    """Whether the 95 % interval of each gain excludes 0."""
    return (frame.low > 0) | (frame.high < 0)


def colour_of(points: float) -> str:
    """The colour of a gain in points, the same for every study and metric: red for harm, blue for gain."""
    share = min(abs(points) / LIMIT, 1.0)
    end = DEEP_GAIN if points > 0 else DEEP_HARM
    return "#" + "".join(f"{round(pale + (deep - pale) * share):02x}" for pale, deep in zip(PALE, end, strict=True))


def map_title(gains: pd.DataFrame, manifest: Manifest, setting: str) -> str:
    """The title: SYNTHETIC DATA where they are made up, the study, and the training runs that intervals hold for."""
    shown = gains[(gains.setting == setting) & (gains.n_seeds > 0)]
    seeds = ", ".join(dict.fromkeys(shown.conditional)) or "no finished pair"
    return plan.title_of("Gains", manifest, setting, f"intermediates (rows) on targets (columns), {seeds}")


def names(frame: pd.DataFrame, layout: Layout) -> list[TextLabel]:
    """The rows' names at the left; the columns' below, or by turns below and above."""
    rows, columns = frame.drop_duplicates("intermediate"), frame.drop_duplicates("target")
    size, room = layout.name_size, layout.left - 8.0 - layout.families[1]
    names = []
    for task, title in zip(rows.intermediate, rows.row, strict=True):
        y = layout.rows[task] + layout.down / 2 + plan.CAPITAL * size
        names.append(TextLabel(layout.left - 4.0, y, plan.fitting(title, size, room), size, anchor="end"))
    for position, (task, title) in enumerate(zip(columns.target, columns.column, strict=True)):
        names.append(_column_name(title, layout.columns[task] + layout.across / 2, layout, position))
    return [name for name in names if name.text]


def _column_name(title: str, x: float, layout: Layout, position: int) -> TextLabel:
    size, text = layout.name_size, plan.fitting(title, layout.name_size, layout.longest)
    if layout.slant == 45.0:
        return TextLabel(x + 0.5 * size, layout.bottom + 4.0 + 0.5 * size, text, size, anchor="end", turn=45.0)
    if layout.is_staggered and position % 2:
        return TextLabel(x + plan.CAPITAL * size, layout.top - 3.0, text, size, turn=90.0)
    return TextLabel(x + plan.CAPITAL * size, layout.bottom + 3.0, text, size, anchor="end", turn=90.0)


def brackets(frame: pd.DataFrame, layout: Layout) -> list[Mark]:
    """What belongs together: targets by metric and family above, intermediates by family at the left."""
    rows, columns = frame.drop_duplicates("intermediate"), frame.drop_duplicates("target")
    marks: list[Mark] = []
    y = layout.top - layout.tier - 3.0
    if layout.families[0]:
        for run in runs_of(columns, "target", ["metric", "column_family"]):
            marks += _bracket(layout.columns[run.first], layout.columns[run.last] + layout.across, y, run.name)
        y -= layout.families[0]
    for run in _metrics(columns):
        x, to_x = layout.columns[run.first], layout.columns[run.last] + layout.across
        marks += _bracket(x, to_x, y, run.name, is_bold=True)
    if layout.families[1]:
        x = plan.EDGE + layout.families[1] - 3.0
        for run in runs_of(rows, "intermediate", ["row_family"]):
            marks += _bracket(layout.rows[run.first], layout.rows[run.last] + layout.down, x, run.name, is_beside=True)
    return marks


def _bracket(
    first: float, last: float, at: float, name: str, *, is_beside: bool = False, is_bold: bool = False
) -> list[Mark]:
    """A line above columns, or beside rows, with its name, which stands across where it would be cut."""
    line = (at, first + 0.8, at, last - 0.8) if is_beside else (first + 0.8, at, last - 0.8, at)
    marks: list[Mark] = [Stroke(*line, plan.SOFT, 0.8)]
    middle, free = (first + last) / 2, at - (2.5 if is_beside else 2.0)
    lines, is_across = bracket_name(name, (last - first) / (BOLDER if is_bold else 1.0) - BESIDE)
    for number, text in enumerate(lines):
        x, y = middle, free - BRACKET_LINE * (len(lines) - 1 - number)
        if is_across:  # around the middle
            x = middle + plan.CAPITAL * plan.SMALLEST + BRACKET_LINE * (number - (len(lines) - 1) / 2)
            y = free
        x, y = (y, x) if is_beside else (x, y)
        anchor, turn = "middle" if not is_across else "end" if is_beside else "start", 90.0 * (is_beside != is_across)
        marks.append(TextLabel(x, y, text, anchor=anchor, turn=turn, is_bold=is_bold))
    return marks


def _at(points: float, low: float, high: float) -> float:
    """Where a gain stands on an axis from -LIMIT at ``low`` to LIMIT at ``high``; what is beyond stands at its end."""
    return low + (high - low) * (min(max(points, -LIMIT), LIMIT) / LIMIT + 1) / 2


def strip_above(frame: pd.DataFrame, layout: Layout) -> list[Mark]:
    """Every gain as a dot above its column, its median as a bar."""
    low, high = layout.top + STRIP - 3.0, layout.top + 3.0
    marks: list[Mark] = []
    for _, part in frame.groupby(["metric"], sort=False):
        targets = [layout.columns[task] for task in part.target]
        x, to_x = min(targets), max(targets) + layout.across
        marks.append(Box(x, layout.top, to_x - x, STRIP, "#ffffff", plan.GRID, 0.6))
        marks.append(Stroke(x, (low + high) / 2, to_x, (low + high) / 2, plan.SOFT, 0.5))
    for task, part in _by_certainty(frame).groupby("target", sort=False):
        middle = layout.columns[str(task)] + layout.across / 2
        marks += [_dot(middle, _at(pair.points, low, high), pair) for pair in part.itertuples()]
        y, half = _at(part.points.median(), low, high), min(0.36 * layout.across, 5.0)
        marks.append(Stroke(middle - half, y, middle + half, y, plan.INK, 1.1))
    for points, y in ((LIMIT, high), (0.0, (low + high) / 2), (-LIMIT, low)):
        text = f"{plan.whole(points)} points" if points > 0 else plan.whole(points)
        marks.append(
            TextLabel(layout.left - 4.0, y + plan.CAPITAL * plan.SMALLEST, text, anchor="end", colour=plan.SOFT)
        )
    return marks


def strip_beside(frame: pd.DataFrame, layout: Layout) -> list[Mark]:
    """Every gain as a dot beside its row, its median as a bar."""
    x, to_x = layout.right + 2 * plan.EDGE, layout.width - plan.EDGE
    low, high = x + 3.0, to_x - 3.0
    middle = (low + high) / 2
    marks: list[Mark] = [Box(x, layout.head, to_x - x, layout.bottom - layout.head, "#ffffff", plan.GRID, 0.6)]
    marks.append(Stroke(middle, layout.head, middle, layout.bottom, plan.SOFT, 0.5))
    for task, part in _by_certainty(frame).groupby("intermediate", sort=False):
        y = layout.rows[str(task)] + layout.down / 2
        marks += [_dot(_at(pair.points, low, high), y, pair) for pair in part.itertuples()]
        at, half = _at(part.points.median(), low, high), min(0.36 * layout.down, 5.0)
        marks.append(Stroke(at, y - half, at, y + half, plan.INK, 1.1))
    for points, at in ((-LIMIT, low), (0.0, middle), (LIMIT, high)):
        marks.append(TextLabel(at, layout.bottom + 8.0, plan.whole(points), anchor="middle", colour=plan.SOFT))
    marks.append(TextLabel(middle, layout.bottom + 15.5, "gain, points", anchor="middle", colour=plan.SOFT))
    return marks


def _by_certainty(frame: pd.DataFrame) -> pd.DataFrame:
    """The finished pairs, those last whose interval excludes 0, so that they are drawn above the others."""
    done = frame[frame.status == "done"]
    return done.assign(is_sure=is_sure(done)).sort_values("is_sure", kind="stable")


def _dot(x: float, y: float, pair: Any) -> Dot:  # noqa: ANN401 - a row of the frame
    if abs(pair.points) > LIMIT:
        return Dot(x, y, 1.5, "#ffffff", plan.INK, 0.7)
    return Dot(x, y, 1.3, plan.INK if pair.is_sure else plan.UNSURE, "#ffffff", 0.2)


# The plan of a map: squares, numbers and frames, names and brackets, and every gain as a dot.

MAP = "uncertainty-map"
CORRECTION = "Benjamini-Hochberg over all gains"
BRACKETS = "(in brackets): has not learned alone, so none of its gains is framed"
SAME, EDGE_OF_SQUARE = "#ececea", "#8a8f96"
NUMBER = plan.SMALLEST  # points of a number in a square
CAPTION = (
    "Gains of intermediates (rows) on targets (columns). The area of a square is the gain over the half-width of its"
    f" 95 % interval, full from {FULL:.0f} on; its colour is the gain, up to {LIMIT:.0f} points. Numbers: the interval"
    " excludes 0; frames: significant after correction. Beside the map every gain is a dot, medians are bars."
)
FILLED = 0.92  # side of the largest square as a share of its place


def maps(study: StudyResults) -> Iterator[PlannedFigure]:
    """The uncertainty map of every setting that has transfers."""
    for setting in dict.fromkeys(study.gains.setting):
        frame = map_frame(study.gains, study.manifest, setting=setting)
        title = map_title(study.gains, study.manifest, setting)
        caption = f"{CAPTION}{plan.training_data(setting)}"
        yield PlannedFigure(plan.of_setting(MAP, setting), title, frame, map_plan, map_words, caption)


def map_plan(frame: pd.DataFrame, title: str, *, width: float = plan.PAGE) -> FigurePlan:
    """The plan of a map at most ``width`` cm wide, from the columns COLUMNS alone."""
    frame = plan.with_texts(frame, ["row_family", "column_family"])
    width *= plan.POINTS_PER_CM
    first = layout_of(frame, width, 0.0)
    words, top = plan.heading(title, first.width)
    layout = layout_of(frame, width, top)
    texts = _texts(frame, layout.across)
    turned = (name for name in names(frame, layout) if name.turn)  # how far these, or the axis beside them, reach below
    foot = (
        layout.bottom + 6.0 + max([18.0, *(float(plan.outline(name)[:, 1].max()) - layout.bottom for name in turned)])
    )
    # What area, colour, numbers, frames and marks mean; marks that do not occur are left out.
    level = f"{LEVEL:.2f}".removeprefix("0")
    area = f"area: |gain| / half-width of its 95 % interval (few seeds count less); here 1, 2, and {FULL:.0f} or more"
    shown, is_contaminated = {*frame.status, *map(_empty_state, frame.itertuples())}, frame.is_contaminated.any()
    strip = "beside the map: a gain; one whose interval excludes 0; one beyond the axis; bar: median"
    items = [
        LegendItem(_area_key, 28.0, area),
        LegendItem(_colour_key, 62.0, f"gain: {plan.whole(-LIMIT)} points or less to {plan.whole(LIMIT)} or more"),
        LegendItem(
            lambda x, y: [square_at(x + 4.5, y, 9.8, 1.0, -0.7 * LIMIT), *bar_at(x + 4.5, y, 9.0)],
            9.0,
            "with a bar: harm",
        ),
        _number_item(texts, is_sure(frame).any()),
        LegendItem(
            lambda x, y: [Box(x, y - 4.0, 8.0, 8.0, "", plan.INK, 0.9)],
            8.0,
            f"p \u2264 {level}, {CORRECTION}",
        ),
        LegendItem(
            lambda x, y: [_left_corner(x, y + 4.0, 8.0, 22.0)],
            7.0,
            "collapsed training, no frame",
            frame.is_collapsed.any(),
        ),
        LegendItem(lambda x, y: [_right_corner(x, y + 4.0, 7.0, 22.0)], 7.0, "contaminated, no frame", is_contaminated),
        LegendItem(lambda x, y: _struck(x + 4.0, y, 14.0), 8.0, "not finished", "missing" in shown),
        LegendItem(lambda x, y: _ring(x + 4.0, y, 16.0), 8.0, "no value or no interval", "undefined" in shown),
        LegendItem(
            lambda x, y: [Box(x, y - 4.0, 8.0, 8.0, SAME, plan.GRID, 0.4)], 8.0, "same task", "same task" in shown
        ),
        LegendItem(lambda x, y: (), 0.0, BRACKETS, frame.is_unlearned.any()),
        LegendItem(_dots_key, 22.0, strip),
    ]
    # The bars of harms; a number has its own sign.
    harms = frame[(frame.points < 0) & (frame["size"] > 0)]
    side = layout.side * FILLED
    places = {where: layout.middle(*where) for where in texts}
    layers: dict[str, Sequence[Mark]] = {
        "ground": _ground(frame, layout),
        "squares": [
            square_at(*layout.middle(pair.intermediate, pair.target), layout.side, pair.size, pair.points)
            for pair in frame[frame["size"] > 0].itertuples()
        ],
        "bars": (
            [
                bar
                for pair in harms.itertuples()
                if (pair.intermediate, pair.target) not in texts
                for bar in bar_at(*layout.middle(pair.intermediate, pair.target), side * float(np.sqrt(pair.size)))
            ]
        ),
        "marks": _marks(frame, layout),
        "numbers": (
            [
                TextLabel(x, y + plan.CAPITAL * NUMBER, text, NUMBER, anchor="middle", colour="#000000")
                for (x, y), text in zip(places.values(), texts.values(), strict=True)
            ]
        ),
        "names": [*words, *names(frame, layout)],
        "brackets": brackets(frame, layout),
        "marginals": [*strip_above(frame, layout), *strip_beside(frame, layout)],
    }
    return plan.plan_of(layers, items, foot, layout.width, map_words(frame, title))


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
    return plan.description(title, " ".join(texts))


def _ground(frame: pd.DataFrame, layout: Layout) -> list[Mark]:
    """The places of all pairs: white with a thin edge, grey where a task meets itself, struck out if empty."""
    marks: list[Mark] = []
    for pair in frame.itertuples():
        x, y = layout.columns[pair.target], layout.rows[pair.intermediate]
        fill = SAME if pair.status == "same task" else "#ffffff"
        marks.append(Box(x, y, layout.across, layout.down, fill, plan.GRID, 0.4))
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
    return (Stroke(x - 0.25 * side, y + 0.25 * side, x + 0.25 * side, y - 0.25 * side, plan.SOFT, 0.6),)


def _ring(x: float, y: float, side: float) -> Sequence[Mark]:
    """A gain that has no value, or no interval: a ring."""
    return (Dot(x, y, 0.16 * side, "", plan.SOFT, 0.6),)


EMPTY = {"missing": _struck, "undefined": _ring}


def square_at(x: float, y: float, side: float, size: float, points: float) -> Box:
    """A square around (x, y) whose area is this share of the largest in a place of this side."""
    length = side * FILLED * float(np.sqrt(size))
    return Box(x - length / 2, y - length / 2, length, length, colour_of(points), EDGE_OF_SQUARE, 0.3)


def bar_at(x: float, y: float, side: float) -> Sequence[Mark]:
    """A white bar across a harm's square, which grey would not tell from a gain's; none where it would hide it."""
    return (Stroke(x - 0.32 * side, y, x + 0.32 * side, y, "#ffffff", 0.16 * side),) if side >= 2.5 else ()


Texts = Mapping[tuple[str, str], str]  # what is written into a place, by intermediate and target


def _texts(frame: pd.DataFrame, across: float) -> Texts:
    """The gains whose interval excludes 0, with a decimal where all have room; none where whole ones have not."""
    sure = frame[is_sure(frame)]
    for digits in (1, 0):
        texts = [signed(points, digits).replace("-", plan.MINUS) for points in sure.points]
        if all(plan.text_width(text, NUMBER) <= across - 0.8 for text in texts):
            return dict(zip(zip(sure.intermediate, sure.target, strict=True), texts, strict=True))
    return {}


def _marks(frame: pd.DataFrame, layout: Layout) -> list[Mark]:
    """Frames of significant gains, and corners of places whose cells are doubtful."""
    marks: list[Mark] = []
    for pair in frame[frame.status == "done"].itertuples():
        x, y = layout.columns[pair.target], layout.rows[pair.intermediate]
        if pair.is_significant:
            marks.append(Box(x, y, layout.across, layout.down, "", plan.INK, min(1.3, 0.1 * layout.side)))
        for name, corner in CORNERS.items():
            if getattr(pair, name):
                marks.append(corner(x, y + layout.down, layout.across, layout.side))
    return marks


def _left_corner(x: float, bottom: float, across: float, side: float) -> Triangle:
    reach = 0.3 * side
    return Triangle((x, bottom - reach, x, bottom, x + reach, bottom), plan.INK, plan.INK, 0.4)


def _right_corner(x: float, bottom: float, across: float, side: float) -> Triangle:
    reach, right = 0.3 * side, x + across
    return Triangle((right, bottom - reach, right, bottom, right - reach, bottom), "#ffffff", plan.INK, 0.6)


CORNERS = {"is_collapsed": _left_corner, "is_contaminated": _right_corner}


# The legend.


def _number_item(texts: Texts, is_any_sure: bool) -> LegendItem:
    """What a number means, or why none is written."""
    if not texts:
        words = "too many tasks for numbers, which stand in the CSV file and on the page"
        return LegendItem(lambda x, y: (), 0.0, words, is_any_sure)
    example = next(iter(texts.values()))
    width = plan.text_width(example, NUMBER) + 1.0
    words = "gain in points: 95 % interval excludes 0"
    return LegendItem(lambda x, y: (TextLabel(x, y + plan.CAPITAL * NUMBER, example, NUMBER),), width, words)


def _area_key(x: float, y: float) -> list[Mark]:
    return [square_at(x + 4.0 + 9.5 * number, y, 9.8, (number + 1) / FULL, LIMIT / 2) for number in range(int(FULL))]


def _colour_key(x: float, y: float) -> list[Mark]:
    steps = np.linspace(-LIMIT, LIMIT, 21)
    return [Box(x + 62.0 / 21 * index, y - 4.0, 62.0 / 21 + 0.1, 8.0, colour_of(at)) for index, at in enumerate(steps)]


def _dots_key(x: float, y: float) -> list[Mark]:
    dots = [
        Dot(x + 2.0, y, 1.5, plan.UNSURE),
        Dot(x + 8.0, y, 1.5, plan.INK),
        Dot(x + 14.0, y, 1.5, "#ffffff", plan.INK, 0.7),
    ]
    return [*dots, Stroke(x + 20.0, y - 3.5, x + 20.0, y + 3.5, plan.INK, 1.1)]
