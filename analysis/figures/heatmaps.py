"""Heatmaps of the grid: what each intermediate (row) did to each target (column).

``squares``, ``colour_limit`` and ``figure_title`` compute all that is shown; ``heatmap`` only draws it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from adapters_store.disk import write_bytes
from adapters_store.roles import BASELINE
from analysis.figures import drawing
from analysis.figures.drawing import Drawing
from analysis.gains.baselines import NOT_LEARNED, NOT_ONTO, of_unlearned
from analysis.gains.cells import Manifest
from analysis.gains.significance import LEVEL
from analysis.results.study_results import StudyResults
from analysis.tables import as_written, bare, holds
from tasks.plain_text import harmless

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

METRIC_NAMES = {"macro_f1": "macro-F1", "multilabel_f1": "multilabel F1", "pearson_r": "Pearson r"}
DAGGER, DOUBLE_DAGGER = "\u2020", "\u2021"
MERGED_ROW = "merged:"  # starts the name of such a row, which no task's id can
ALONE = "baseline (no intermediate)"
HEATMAP = "heatmap"
ROBUST_PERCENTILE = 95
COLOURS = "RdBu"  # red for harm, blue for gain: told apart by all common kinds of colour vision
FILLS: dict[str, dict[str, Any]] = {
    "baseline": {"facecolor": "0.93"},
    "missing": {"facecolor": "white", "edgecolor": "0.6", "hatch": "////"},
    "undefined": {"facecolor": "white", "edgecolor": "0.6", "hatch": "...."},
    "not_planned": {"facecolor": "white", "edgecolor": "0.8"},
}
MEANINGS = {
    "baseline": "score of the target alone (no colour)",
    "missing": "planned, not in the store",
    "undefined": "score not defined (predictions do not vary)",
    "not_planned": "same task",
}


class Square(NamedTuple):
    """One square of a heatmap; ``status`` is done or a key of FILLS, ``points`` the gain that gives the colour."""

    intermediate: str
    target: str
    row: str
    column: str
    status: str
    score: float = float("nan")
    points: float = float("nan")
    is_significant: bool = False
    is_collapsed: bool = False
    is_contaminated: bool = False


def heatmaps(study: StudyResults) -> Iterator[Drawing]:
    """One heatmap per metric and setting that has targets; merged rows stand below all others."""
    alone = of_targets(study.baselines, study.gains)
    for metric in METRIC_NAMES:
        for setting in dict.fromkeys(alone.setting[alone.metric == metric]):
            title = figure_title(study.gains, study.manifest, metric=metric, setting=setting)
            yield heatmap_of(all_squares(study, metric, setting), title, metric, setting)


def of_targets(baselines: pd.DataFrame, gains: pd.DataFrame) -> pd.DataFrame:
    """The baselines that have a column: of adapters and, where transfers are planned, of their targets."""
    alone = baselines[baselines.role == BASELINE]
    return alone if gains.empty else alone[alone.target.isin(gains.target)]


def heatmap_of(squares: pd.DataFrame, title: str, metric: str, setting: str) -> Drawing:
    """The figure of these squares, its colours as deep as the gains of its transfers ask."""
    is_merged, setting = of_merged(squares), setting.replace("%", "pct")
    what = "Gains in points, targets scored" if squares.intermediate.any() else "Targets alone, scored"
    caption = f"{what} by {METRIC_NAMES[metric]}"
    caption += ("" if setting == "full" else f", setting {setting}") + "; the number is the score."
    caption += " Merged intermediates stand below the lower line." if is_merged.any() else ""
    draw = partial(heatmap, metric=metric, limit=colour_limit(as_written(squares).points[~is_merged]))
    return Drawing(f"{HEATMAP}-{metric.replace('_', '-')}-{setting}", title, squares, draw, caption, dpi=150)


def figure_title(gains: pd.DataFrame, manifest: Manifest, *, metric: str, setting: str) -> str:
    """Title of a heatmap; it begins with SYNTHETIC DATA where the data are made up, and says what p holds for."""
    planned = gains[(gains.metric == metric) & (gains.setting == setting)]
    synthetic = "SYNTHETIC DATA: " if manifest["synthetic"] else ""
    scored = f"in {manifest['name']}, targets scored by {METRIC_NAMES[metric]}, setting {setting}"
    if planned.empty:
        return f"{synthetic}Scores {scored}\nno transfer is planned"
    seeds = ", ".join(dict.fromkeys(planned.conditional[planned.n_seeds > 0])) or "no finished pair"
    return f"{synthetic}Gains {scored}\nconditional on {seeds}"


def squares(
    gains: pd.DataFrame, baselines: pd.DataFrame, manifest: Manifest, *, metric: str, setting: str
) -> pd.DataFrame:
    """One row per Square: the baselines on top, then every intermediate by every target of this metric.

    A gain onto a target that has not learned bears no mark of significance, and the target's title says so.
    """
    titles = {name: task["title"] for name, task in manifest["tasks"].items()}
    alone = of_targets(baselines, gains)
    alone = alone[(alone.metric == metric) & (alone.setting == setting)]
    shown = gains[(gains.metric == metric) & (gains.setting == setting)]
    columns = titles | {name: titles[name] + NOT_LEARNED for name, _ in of_unlearned(shown)}
    pairs = {(pair.intermediate, pair.target): pair for pair in shown.itertuples()}
    rows = [
        Square(
            "",
            baseline.target,
            ALONE,
            columns[baseline.target],
            _status(baseline.n_seeds, baseline.score, "baseline"),
            baseline.score,
        )
        for baseline in alone.itertuples()
    ]
    for intermediate in [name for name in titles if name in set(shown.intermediate)]:
        for target in alone.target:
            square = Square(intermediate, target, titles[intermediate], columns[target], "not_planned")
            if (pair := pairs.get((intermediate, target))) is not None:
                status = _status(pair.n_seeds, pair.score, "done")
                doubts = (holds(pair.collapsed), holds(pair.contaminated))
                marks = (bool(pair.significant) and columns[target] == titles[target], *doubts)
                square = Square(*square[:4], status, pair.score, pair.points, *marks)
            rows.append(square)
    return pd.DataFrame(rows, columns=list(Square._fields))


def all_squares(study: StudyResults, metric: str, setting: str) -> pd.DataFrame:
    """The same of a study, and below them those of its merged rows in this setting, if there are any."""
    frame = squares(study.gains, study.baselines, study.manifest, metric=metric, setting=setting)
    if study.merged.empty:
        return frame
    # The squares of a study's merged rows for the columns of ``squares``; of a row without parents none is planned.
    merged = study.merged[study.merged.setting == setting]
    alone = frame[frame.intermediate == ""]
    rows = []
    for name in dict.fromkeys(merged.row[merged.target.isin(alone.target)]):
        for target, column in zip(alone.target, alone.column, strict=True):
            square = Square(MERGED_ROW + name, target, f"merged: {name}", column, "not_planned")
            for gain in merged[(merged.row == name) & (merged.target == target)].itertuples():
                status = _status(gain.n_seeds, gain.score, "done")
                square = Square(*square[:4], status, gain.score, gain.points, is_collapsed=holds(gain.collapsed))
            rows.append(square)
    return pd.concat([frame, pd.DataFrame(rows, columns=list(Square._fields))], ignore_index=True)


def colour_limit(points: pd.Series) -> float:
    """Gain in points at which the colour is deepest: a percentile of all sizes, so that no one cell pales the rest."""
    sizes = points.abs().dropna()
    return max(float(np.percentile(sizes, ROBUST_PERCENTILE)), 1.0) if len(sizes) else 1.0


def heatmap(squares: pd.DataFrame, title: str, *, metric: str, limit: float) -> Figure:
    """Draw the squares: colour is the gain in points, the number the score, an asterisk a significant gain."""
    rows = squares.drop_duplicates("intermediate")
    figure = drawing.empty_figure(6.0 + 0.55 * squares.target.nunique(), 4.4 + 0.34 * len(rows))
    label = f"gain in points of {METRIC_NAMES[metric]} (x 100)"
    label += f"\nscale ends at {limit:.1f} ({ROBUST_PERCENTILE}th percentile)"
    axes = coloured_grid(figure, squares, "points", {"label": label, "extend": "both"}, least=-limit, most=limit)
    write_scores(axes, squares, is_bold=True)
    if (is_merged := of_merged(rows)).any():
        axes.axhline(int(np.argmax(is_merged)), color="black", linewidth=1.2)
    for scale in figure.axes[1:]:
        scale.yaxis.label.set_fontsize(8)
    figure.suptitle("\n".join(map(harmless, title.splitlines())), fontsize=11)
    has_unlearned = bool(squares.column.str.endswith(NOT_LEARNED).any())
    signs = {  # the asterisk is explained where there is none, too
        f"* p(BH) <= {LEVEL:.2f}".replace("0.", ".") + NOT_ONTO * has_unlearned: True,
        f"{DAGGER} collapsed training (this cell or its baseline)": squares.is_collapsed.any(),
        f"{DOUBLE_DAGGER} contaminated: test items are training material": squares.is_contaminated.any(),
    }
    explain_squares(figure, squares, signs)
    return figure


def coloured_grid(
    figure: Figure,
    squares: pd.DataFrame,
    value: str,
    bar: Mapping[str, Any],
    *,
    least: float,
    most: float,
    colours: str = COLOURS,
) -> Axes:
    """A square per row of ``squares``, coloured by its ``value``; rows (intermediates) and columns (targets) named."""
    rows, columns = squares.drop_duplicates("intermediate"), squares.drop_duplicates("target")
    values = squares.pivot(index="intermediate", columns="target", values=value)
    values = values.loc[rows.intermediate, columns.target].astype(float)
    axes = figure.subplots()
    drawing.colour_squares(axes, values.to_numpy(), colours=colours, least=least, most=most, bar={"shrink": 0.8, **bar})
    name_squares(axes, list(rows.row), list(columns.column))
    return axes


def write_scores(axes: Axes, squares: pd.DataFrame, *, is_bold: bool) -> None:
    """Write every square's score and marks, fill those without a gain, and part targets alone from all below.

    What is significant is bold if that ``is_bold``.
    """
    across, down = (
        {name: index for index, name in enumerate(dict.fromkeys(squares[role]))} for role in ("target", "intermediate")
    )
    for square in squares.itertuples():
        x, y = across[square.target], down[square.intermediate]
        if square.status in FILLS:
            drawing.cover(axes, x, y, **FILLS[square.status])
        if np.isfinite(square.score):
            marks = "*" * square.is_significant + DAGGER * square.is_collapsed + DOUBLE_DAGGER * square.is_contaminated
            weight = "bold" if is_bold and square.is_significant else "normal"
            drawing.write_in_square(axes, x, y, bare(square.score) + marks, weight=weight)
    drawing.make_legible(axes)
    axes.axhline(1, color="black", linewidth=1.2)


def name_squares(axes: Axes, rows: Sequence[str], columns: Sequence[str]) -> None:
    """Name the rows (intermediates) and columns (targets) of a heatmap."""
    axes.set_xticks(
        np.arange(len(columns)) + 0.5,
        list(map(drawing.shortened, columns)),
        rotation=45,
        ha="right",
        rotation_mode="anchor",
    )
    axes.set_yticks(np.arange(len(rows)) + 0.5, list(map(drawing.shortened, rows)), rotation=0, va="center")
    axes.tick_params(labelsize=8.5)
    axes.set(xlabel="target", ylabel="intermediate")


def of_merged(squares: pd.DataFrame) -> pd.Series:
    """Which of these squares are of merged rows."""
    marks: pd.Series = squares.intermediate.str.startswith(MERGED_ROW)
    return marks


def _status(n_seeds: int, score: float, otherwise: str) -> str:
    if n_seeds == 0:
        return "missing"
    return otherwise if np.isfinite(score) else "undefined"


def explain_squares(figure: Figure, squares: pd.DataFrame, signs: Mapping[str, bool]) -> None:
    """A legend below the figure: the signs that are to be explained, and what the fills mean that occur."""
    marks: list[Patch | Line2D] = [drawing.legend_mark(text) for text, is_shown in signs.items() if is_shown]
    fills = [name for name in MEANINGS if (squares.status == name).any()]
    handles = marks + [drawing.legend_patch(MEANINGS[name], **FILLS[name]) for name in fills]
    figure.legend(handles=handles, loc="outside lower center", ncols=2, fontsize=8, frameon=False)


# The map of contamination: targets across, intermediates down.


def write_map(frame: pd.DataFrame, stem: Path, title: str) -> list[Path]:
    """Draw the largest of the shares by group, context and text, and near text, as a heatmap: PNG and SVG."""
    worst = frame[["share_group", "share_pair", "share_near"]].max(axis=1)
    squares = frame.assign(worst=100 * worst).pivot(index="intermediate", columns="target", values="worst")
    order = list(dict.fromkeys(frame.target))
    squares = squares.reindex(index=order, columns=order)
    with drawing.plain_text_settings(stem.name):
        figure = _contamination_heatmap(squares, title)
        paths = [stem.with_name(f"{stem.name}{ending}") for ending in (".png", ".svg")]
        write_bytes(paths[0], drawing.file_of(figure, "png", dpi=150))
        write_bytes(paths[1], drawing.file_of(figure, "svg"))
    return paths


def _contamination_heatmap(squares: pd.DataFrame, title: str) -> Figure:
    import seaborn as sns  # a second, which no other command needs

    size = 4.0 + 0.36 * len(squares)
    figure = drawing.empty_figure(size + 1.5, size)
    axes = figure.subplots()
    label = "percent of the target's test items in the intermediate's training data\n"
    label += "(largest of: by group, by context and text, nearly)"
    text = squares.map(lambda value: "" if np.isnan(value) or value < 0.05 else f"{value:.0f}" if value >= 1 else "<1")
    sns.heatmap(
        squares,
        ax=axes,
        cmap="Greys",
        vmin=0,
        vmax=100,
        annot=text,
        fmt="",
        annot_kws={"size": 7},
        linewidths=0.4,
        linecolor="0.85",
        cbar_kws={"label": label, "shrink": 0.7},
    )
    drawing.make_legible(axes)
    axes.set(xlabel="target (test items)", ylabel="intermediate (training data)")
    axes.tick_params(labelsize=8)
    axes.set_title(f"What of the test items was training material, {title} splits", fontsize=10)
    return figure
