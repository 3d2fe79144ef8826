"""The forest: for every target all intermediates by their gain, with interval, seeds, controls, floor and whole model.

Merged intermediates stand below a line, in the order of the study, since they are in no ranking of single ones.

``forest_plan`` draws a panel per target from the frame of ``forest_frame``, which lies beside the figure as CSV.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from adapters_store.roles import BASELINE, CONTROLS, MERGED, MERGED_ROLES, NAMED_BY_INTERMEDIATE, TRANSFER, WHOLE_MODELS
from analysis.figures import plan
from analysis.figures.heatmaps import METRIC_NAMES
from analysis.figures.plan import Box, Dot, FigurePlan, LegendItem, Mark, PlannedFigure, Stroke, TextLabel, Triangle
from analysis.figures.uncertainty_map import CORRECTION
from analysis.gains.baselines import NOT_LEARNED, NOT_ONTO, of_unlearned
from analysis.gains.significance import LEVEL
from analysis.results.study_results import StudyResults
from analysis.tables import Declared, bare, framed, interval_columns, signed
from tasks.plain_text import counted, harmless

FOREST = "forest"
COLUMNS = {
    "target": Declared("str", "task that was trained and tested: a panel"),
    "panel": Declared("str", "its title"),
    "metric": Declared("str", "its metric"),
    "kind": Declared("str", "transfer, control, merged, seed, alone, floor or whole model"),
    "intermediate": Declared("str", "task whose adapter is below; of a control or a merged row its kind too"),
    "row": Declared("str", "its title"),
    "seed": Declared("Int64", "the training run, of a seed"),
    "score": Declared("float64", "test score, of what is no gain"),
    "points": Declared("float64", "points over the target alone"),
    **interval_columns(),
    "is_significant": Declared("bool", "the corrected p is at most .05; not if the target has not learned"),
}
FLOOR, WHOLE, BAND, GAIN, HARM = "#8a6d00", "#5b2a86", "#e3e3e0", "#2166ac", "#b2182b"


DRAWN = (TRANSFER, "control", MERGED)  # kinds that have a row of their own


def forest_frame(study: StudyResults, setting: str) -> pd.DataFrame:
    """One row per mark of a panel, in COLUMNS: what a target faces, transfers by gain, controls, merged rows, seeds.

    A seed's points are its score less the baseline's of the same seed, or less the baseline's mean where that seed has
    none; so they are the terms of the interval, and their mean is the gain where both have the same seeds.
    """
    names = ("gains", "controls", "merged", "baselines", "cells")
    frames = {name: getattr(study, name) for name in names}
    return study.kept.frame("forest", {"frames": frames, "setting": setting}, lambda: _forest_frame(study, setting))


def _forest_frame(study: StudyResults, setting: str) -> pd.DataFrame:
    everything = (study.gains, study.controls, study.merged, study.baselines, study.cells)
    gains, controls, merged, baselines, cells = (part[part.setting == setting] for part in everything)
    titles = plan.titles_of(study.manifest)
    unlearned = {target for target, _ in of_unlearned(gains)}
    rows: list[dict[str, Any]] = []
    for target in dict.fromkeys(gains.target):
        shown = {
            "target": target,
            "panel": titles[target] + NOT_LEARNED * (target in unlearned),
            "metric": study.tasks[target]["metric"],
        }
        part = gains[gains.target == target].sort_values("points", ascending=False, kind="stable", na_position="last")
        others, merges = controls[controls.target == target], merged[merged.target == target]
        faced = _references(baselines[baselines.target == target])
        for row in (*faced, *_transfers(part, titles), *_controls(others, titles), *_merge_rows(merges)):
            rows.append({**shown, **row})
        rows += [{**shown, **row} for row in _seeds(cells[(cells.target == target) & (cells.status == "done")])]
    frame = pd.DataFrame(rows, columns=list(COLUMNS))
    return framed(frame.assign(is_significant=frame.is_significant.eq(True) & ~frame.target.isin(unlearned)), COLUMNS)


def _references(baselines: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """The target alone, the majority-class score, and the whole model where there is one."""
    alone = baselines[baselines.role == BASELINE]
    if alone.empty or not np.isfinite(alone.score.iloc[0]):
        return
    score, floor = alone.score.iloc[0], alone.floor.iloc[0]
    yield {"kind": "alone", "score": score, "points": 0.0}
    yield {"kind": "floor", "score": floor, "points": 100 * (floor - score)}
    for other in baselines[baselines.role.isin(WHOLE_MODELS) & baselines.score.notna()].itertuples():
        yield {"kind": "whole model", "score": other.score, "points": 100 * (other.score - score)}


def _transfers(gains: pd.DataFrame, titles: dict[str, str]) -> Iterator[dict[str, Any]]:
    for gain in gains.itertuples():
        interval = {"points": gain.points, "low": gain.low, "high": gain.high}
        named = {"intermediate": gain.intermediate, "row": titles[str(gain.intermediate)]}
        yield {"kind": TRANSFER, **named, **interval, "is_significant": bool(gain.significant)}


def _controls(controls: pd.DataFrame, titles: dict[str, str]) -> Iterator[dict[str, Any]]:
    for control in controls.itertuples():
        task = titles.get(str(control.intermediate), str(control.intermediate))
        name = f"{control.control}: {task}" if control.control in NAMED_BY_INTERMEDIATE else str(control.control)
        named = {"intermediate": _own_id(control.control, control.intermediate), "row": harmless(name)}
        yield {"kind": "control", **named, "points": control.points, "low": control.low, "high": control.high}


def _merge_rows(merged: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Rows of merged intermediates, in the study's order; none is in the correction that calls gains significant."""
    for row in merged.itertuples():
        named = {"intermediate": _own_id(MERGED, row.row), "row": row.row}
        yield {"kind": MERGED, **named, "points": row.points, "low": row.low, "high": row.high}


def _own_id(role: object, intermediate: object) -> str:
    return f"{role}:{intermediate}"


def _seeds(cells: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Every finished run of a transfer, a control or a merged row against the baseline."""
    alone = cells[cells.role == BASELINE].set_index("seed").score.dropna()  # a correlation may not exist
    if alone.empty:
        return
    for cell in cells[cells.role.isin([TRANSFER, *CONTROLS, *MERGED_ROLES])].itertuples():
        if cell.intermediate is not None and np.isfinite(cell.score):
            name = cell.intermediate if cell.role == TRANSFER else _own_id(cell.role, cell.intermediate)
            points = 100 * (cell.score - alone.get(cell.seed, alone.mean()))
            yield {"kind": "seed", "intermediate": name, "seed": cell.seed, "score": cell.score, "points": points}


MARKS = (  # kinds of a forest's rows, and what the caption says of them where there are any
    ("seed", "small dots are seeds"),
    ("control", "the grey band is the range of the controls"),
    ("merged", "merged intermediates stand below the line"),
    ("floor", "short dashes are the floor"),
    ("whole model", "long dashes are the whole model"),
)


def forests(study: StudyResults) -> Iterator[PlannedFigure]:
    """A panel per target for every setting."""
    for setting in dict.fromkeys(study.gains.setting):
        title = plan.title_of("Gains by target", study.manifest, setting, "intermediates by their gain in points")
        caption = partial(forest_caption, data=plan.training_data(setting))
        frame = forest_frame(study, setting)
        yield PlannedFigure(
            plan.of_setting(FOREST, setting), title, frame, forest_plan, forest_words, caption, forest_parts
        )


def forest_caption(frame: pd.DataFrame, data: str = "") -> str:
    """What the marks of a forest mean, of those that it has."""
    marks = [words for kind, words in MARKS if frame.kind.eq(kind).any()]
    return f"{'; '.join(['Gains on each target with 95 % intervals, the largest first', *marks])}.{data}"


def forest_parts(frame: pd.DataFrame, name: str, *, width: float = plan.PAGE) -> Iterator[tuple[str, pd.DataFrame]]:
    """The frame in parts of so many targets as stand on a page of ``width`` cm, with their names."""
    targets = list(dict.fromkeys(frame.target))
    if not targets:
        return
    heights = [_height(_rows(part, MOST_ROWS)) for part in _by_target(frame).values()]
    most = plan.panels_on(width, len(targets)).across * max(1, int(HIGHEST / max(heights)))
    yield from plan.parts_of(frame, name, most)


# Places: panels side by side, each with a name and an interval per row.

ROW, HEAD, FOOT = 7.4, 19.0, 11.0  # points of a row, and of a panel's title and axis
NAMES = 0.42  # share of a panel's width for names
HIGHEST = 565.0  # points of all panels of a page
MOST_ROWS, ENDS = 24, 10  # transfers of a panel; of more, as many best and worst
LEAST_LIMIT = 2.0  # points that an axis reaches at least, either way


DEPTHS: dict[str, list[type]] = {"ground": [Box, Stroke], "marks": [Stroke, Triangle, Dot, Box]}


Kinds = dict[str, list[Any]]  # the rows of a target by their kind, in the frame's order


def _by_target(frame: pd.DataFrame) -> dict[str, Kinds]:
    """What every panel shows; tuples, because a frame of every row's seeds takes most of the time of a forest."""
    panels: dict[str, Kinds] = {}
    for row in frame.itertuples():
        panels.setdefault(str(row.target), {}).setdefault(str(row.kind), []).append(row)
    return panels


def _rows(part: Kinds, most: int | None) -> list[Any]:
    """The rows of a panel: transfers, None for those left out, controls, and merged rows."""
    transfers = part.get(TRANSFER, [])
    if most is not None and len(transfers) > most:
        transfers = [*transfers[:ENDS], None, *transfers[-ENDS:]]
    return [*transfers, *part.get("control", ()), *part.get(MERGED, ())]


def _height(rows: Sequence[Any]) -> float:
    return HEAD + ROW * len(rows) + FOOT + plan.GAP


def forest_plan(
    frame: pd.DataFrame, title: str, *, width: float = plan.PAGE, most: int | None = MOST_ROWS
) -> FigurePlan:
    """A panel per target at most ``width`` cm wide; of more than ``most`` transfers the best and the worst."""
    frame = plan.with_texts(frame, ["intermediate", "row"])
    panels = _by_target(frame)
    targets = list(panels)
    across, panel_width, full = plan.panels_on(width, len(targets))
    words, top = plan.heading(title, full)
    # Where the axis ends, a number that is easily read: beyond nine of ten ends, and every gain of a single target.
    drawn = frame[frame.kind.isin(DRAWN)][["low", "high", "points"]].abs()
    ends = drawn.to_numpy(float)[np.isfinite(drawn.to_numpy(float))]
    reach = max(float(np.quantile(ends, 0.9)), LEAST_LIMIT) if ends.size else LEAST_LIMIT
    if frame.target.nunique() == 1 and drawn.points.notna().any():
        reach = max(reach, 1.02 * float(drawn.points.max()))
    step = 10.0 ** np.floor(np.log10(reach))
    limit = float(next(step * times for times in (1, 2, 3, 4, 5, 6, 8, 10) if step * times >= reach))
    layers: dict[str, list[Mark]] = {"ground": [], "marks": [], "names": [*words]}
    for start in range(0, len(targets), across):
        heights = []
        for column, target in enumerate(targets[start : start + across]):
            part = panels[target]
            rows = _rows(part, most)
            for name, marks in _panel(
                part, rows, plan.EDGE + column * (panel_width + plan.GAP), top, panel_width, limit
            ).items():
                layers[name] += marks
            heights.append(_height(rows))
        top += max(heights)
    for name in ("ground", "marks"):  # rows do not overlap, and marks of a kind are drawn together
        layers[name].sort(key=lambda mark: DEPTHS[name].index(type(mark)))
    # What the marks mean; those that do not occur are left out.
    kinds = set(frame.kind)
    framed_text = f"p \u2264 {f'{LEVEL:.2f}'.removeprefix('0')}, {CORRECTION}"
    framed_text += NOT_ONTO * bool(frame.panel.str.endswith(NOT_LEARNED).any())
    items = (
        LegendItem(_interval_key("#8a8f96", "#ffffff"), 16.0, "gain with its 95 % interval"),
        LegendItem(
            lambda x, y: [*_interval_key(GAIN, GAIN)(x, y), *_interval_key(HARM, HARM)(x + 18.0, y)],
            34.0,
            "gain, harm: the interval excludes 0",
        ),
        LegendItem(lambda x, y: [Box(x + 1.0, y - 2.1, 4.2, 4.2, plan.UNSURE, plan.INK, 0.7)], 6.0, framed_text),
        LegendItem(lambda x, y: [Dot(x + at, y, 0.75, plan.SOFT) for at in (1.0, 4.0)], 5.0, "seeds", "seed" in kinds),
        LegendItem(lambda x, y: [Stroke(x + 1, y - 4, x + 1, y + 4, plan.INK, 0.7)], 2.0, "target alone"),
        LegendItem(lambda x, y: [Box(x, y - 4.0, 8.0, 8.0, BAND)], 8.0, "range of the controls", "control" in kinds),
        LegendItem(
            lambda x, y: [Stroke(x, y, x + 10.0, y, plan.INK, 0.7)],
            10.0,
            "below: merged intermediates",
            MERGED in kinds,
        ),
        LegendItem(_dashed_key(FLOOR, 1.6), 2.0, "floor: majority class, or r = 0", "floor" in kinds),
        LegendItem(_dashed_key(WHOLE, 3.2), 2.0, "whole model", "whole model" in kinds),
    )
    return plan.plan_of(layers, items, top, full, forest_words(frame, title))


def _panel(part: Kinds, rows: Sequence[Any], x: float, y: float, width: float, limit: float) -> dict[str, list[Mark]]:
    """The marks of a panel by layer, from its upper left corner."""
    left, right, first = x + NAMES * width, x + width - 2.0, y + HEAD
    last = first + ROW * len(rows)

    def at(points: float) -> float:
        return left + (right - left) * (min(max(points / limit, -1.0), 1.0) + 1) / 2

    ground = [*_band(part, at, first, last), Box(left, first, right - left, last - first, "", plan.GRID, 0.6)]
    ground.append(Stroke(at(0), first, at(0), last, plan.INK, 0.7))
    if merged := part.get(MERGED):  # which end at ``last``, below a line
        ground.append(Stroke(x, last - ROW * len(merged), right, last - ROW * len(merged), plan.INK, 0.7))
    for kind, colour, dash in (("floor", FLOOR, 1.6), ("whole model", WHOLE, 3.2)):
        for points in (row.points for row in part.get(kind, ()) if abs(row.points) <= limit):
            ground += _dashes(at(points), first, last, colour, dash)
    marks: list[Mark] = []
    names: list[Mark] = list(_title(part, x, y, width))
    seeds: dict[str, list[float]] = {}  # points, by intermediate
    for run in part.get("seed", ()):
        seeds.setdefault(run.intermediate, []).append(run.points)
    for line, row in enumerate(rows):
        middle = first + ROW * (line + 0.5)
        names.append(_name(part, row, x, middle, left - x - 3.0))
        if row is not None:
            marks += _interval(row, seeds.get(row.intermediate, ()), at, middle, limit)
            if not np.isfinite(row.points):
                names.append(TextLabel(left + 4.0, middle + plan.CAPITAL * plan.SMALLEST, "no value", colour=plan.SOFT))
    for points in (-limit, 0.0, limit):
        anchor = {-limit: "start", 0.0: "middle", limit: "end"}[points]
        text = plan.whole(points) if limit >= 1 else signed(points, 1)
        names.append(TextLabel(at(points), last + 7.5, text, anchor=anchor, colour=plan.SOFT))
    return {"ground": ground, "marks": marks, "names": [name for name in names if name.text]}  # type: ignore[union-attr]


def _title(part: Kinds, x: float, y: float, width: float) -> Iterator[TextLabel]:
    """The target, and the scores of its baseline, of its floor and of a whole model."""
    shown = next(iter(part.values()))[0]
    title = shown.panel.removesuffix(NOT_LEARNED)
    mark = NOT_LEARNED * (title != shown.panel)
    title = plan.fitting(title, 7.4, width - 2 - plan.text_width(mark, 7.4)) + mark
    yield TextLabel(x, y + 7.0, title, 6.8, is_bold=True)
    facts = []
    for kind, name in (("alone", "baseline"), ("floor", "floor"), ("whole model", "whole model")):
        for row in part.get(kind, ()):
            if not np.isnan(row.score):
                facts.append(f"{name} {bare(row.score).replace('-', plan.MINUS)}")
    metric = METRIC_NAMES[shown.metric]
    text = f"{metric}: {', '.join(facts)}" if facts else metric
    yield TextLabel(x, y + 15.5, plan.fitting(text, plan.SMALLEST, width - 2), colour=plan.SOFT)


def _name(part: Kinds, row: Any, x: float, middle: float, room: float) -> TextLabel:  # noqa: ANN401 - of the frame
    text = row.row if row is not None else f"{len(part[TRANSFER]) - 2 * ENDS} more between"
    colour = plan.SOFT if row is None or row.kind == "control" else plan.INK
    base, shown = middle + plan.CAPITAL * plan.SMALLEST, plan.fitting(text, plan.SMALLEST, room)
    return TextLabel(x + room, base, shown, anchor="end", colour=colour)


def _band(part: Kinds, at: Any, first: float, last: float) -> list[Mark]:  # noqa: ANN401 - a function
    """From the least to the largest gain of the controls that know nothing of other tasks."""
    of_controls = (row.points for row in part.get("control", ()) if not row.intermediate.startswith("imported"))
    points = [gain for gain in of_controls if not np.isnan(gain)]
    if not points:
        return []
    low, high = at(min(points)), at(max(points))
    return [Box(low - 0.5, first, high - low + 1.0, last - first, BAND)]


def _dashes(x: float, first: float, last: float, colour: str, dash: float) -> list[Mark]:
    starts = np.arange(first, last, 2 * dash)
    return [Stroke(x, start, x, min(start + dash, last), colour, 0.9) for start in starts]


def _interval(row: Any, seeds: Sequence[float], at: Any, y: float, limit: float) -> list[Mark]:  # noqa: ANN401
    """A row's interval, its seeds below it, and its gain; an end beyond the axis is an arrow."""
    marks: list[Mark] = [Dot(at(points), y + 2.3, 0.75, plan.SOFT) for points in seeds]
    if not np.isfinite(row.points):
        return marks
    is_control, is_sure = row.kind == "control", row.low > 0 or row.high < 0
    colour = plan.SOFT if is_control else (GAIN if row.points > 0 else HARM) if is_sure else "#8a8f96"
    if np.isfinite(row.low):
        marks.append(Stroke(at(row.low), y, at(row.high), y, colour, 1.0))
        for end, sign in ((row.low, -1.0), (row.high, 1.0)):
            if abs(end) > limit:
                tip, foot = at(end), at(end) - 2.6 * sign
                marks.append(Triangle((tip, y, foot, y - 1.5, foot, y + 1.5), colour, colour, 0.2))
    if row.is_significant:
        marks.append(Box(at(row.points) - 2.1, y - 2.1, 4.2, 4.2, colour, plan.INK, 0.7))
    else:
        fill = colour if is_sure and not is_control else "#ffffff"
        marks.append(Dot(at(row.points), y, 1.7, fill, colour, 0.7))
    return marks


def _dashed_key(colour: str, dash: float) -> Any:  # noqa: ANN401 - a key
    return lambda x, y: _dashes(x + 1.0, y - 4.0, y + 4.0, colour, dash)


def _interval_key(colour: str, fill: str) -> Any:  # noqa: ANN401 - a key
    return lambda x, y: [Stroke(x, y, x + 15.0, y, colour, 1.0), Dot(x + 7.5, y, 1.7, fill, colour, 0.7)]


def forest_words(frame: pd.DataFrame, title: str) -> str:
    """What the forest shows, for those who do not see it: the best intermediate of every target."""
    transfers = frame[(frame.kind == TRANSFER) & frame.points.notna()]
    best = transfers.sort_values("points", ascending=False, kind="stable").drop_duplicates("target")
    named = [f"{row.panel}: {row.row}, {signed(row.points, 1)}" for row in best.itertuples()]
    panels = counted(frame.target.nunique(), "target")
    shown = f"The figure has the gains of all intermediates on {panels}, the best first."
    if frame.kind.eq(MERGED).any():
        shown += " Merged intermediates stand below a line."
    return plan.description(title, f"{shown} Best by target: {'; '.join(named)}.")
