"""The paper's figures: significant pairs by theme (3), percent changes (6 and 7), raters' differences (8).

``heuristic_figures`` adds the importances of features (2) and similarities of tasks (9 and 10). Every figure is drawn
from one frame, which is written as CSV beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import MaxNLocator

from analysis.agreement import differences
from analysis.drawing import figure_of, make_plain, write_drawn
from analysis.figures import (
    ALONE,
    COLOURS,
    DAGGER,
    DOUBLE_DAGGER,
    FILLS,
    MEANINGS,
    METRIC_NAMES,
    Drawn,
    colour_limit,
    name_squares,
)
from analysis.heuristic_figures import heuristic_figures
from analysis.legible import make_legible, shortened
from analysis.markdown import bare
from analysis.results import Results
from analysis.significance import LEVEL
from analysis.themes import ROLES, theme_counts
from tasks.ratings import constructs

UP, DOWN = "#2166ac", "#b2182b"  # the ends of the heatmaps' colours
TONES = ("#1b7837", "#5aae61", "#a6dba0", "#762a83", "#c2a5cf")  # told apart in grey too
NUMBERS = {"macro_f1": "6", "pearson_r": "7", "multilabel_f1": "6b"}


def write_figures(
    results: Results,
    counted: Mapping[str, Results],
    out: Path,
    *,
    note: str = "",
    similarities: pd.DataFrame | None = None,
) -> list[Drawn]:
    """Draw what the results have rows for, into ``out``; ``counted`` are the panels of Figure 3 by name.

    ``note`` stands above those counts: what they hold for, or that they are approximations. ``undrawn`` of
    heuristic_figures says why there is no Figure 2, 9 or 10.
    """
    drawn = heuristic_figures(results, similarities, out)
    counts = [theme_counts(one).assign(panel=name) for name, one in counted.items()]
    if tested := [one for one in counts if one.n_tested.sum()]:
        shown = pd.concat(tested, ignore_index=True)
        title = f"{results.banner}Figure 3: significant gains and harms by theme, {results.name}\n{note}".strip()
        drawn.append(write_drawn(shown, out / "figure-3-themes", title, theme_bars))
    for metric in METRIC_NAMES:
        if (results.gains.metric == metric).any():
            number = NUMBERS[metric]
            title = f"{results.banner}Figure {number}: percent change of {METRIC_NAMES[metric]}, {results.name}"
            stem = out / f"figure-{number}-percent-{metric.replace('_', '-')}"
            drawn.append(write_drawn(percent_squares(results, metric), stem, title, percent_map))
    if len(differing := differences(results)):
        title = f"{results.banner}Figure 8: by how much raters differ, {results.name}"
        drawn.append(write_drawn(differing, out / "figure-8-differences", title, difference_bars))
    return drawn


def percent_squares(results: Results, metric: str) -> pd.DataFrame:
    """One row per square: targets alone (no intermediate), then every intermediate by every target of this metric."""
    pairs = results.gains[results.gains.metric == metric]
    alone = pairs.groupby("target", sort=False).baseline.first()
    targets = [task for task in results.tasks.task if task in alone.index]
    grid = pd.MultiIndex.from_product([["", *results.tasks.task], targets], names=["intermediate", "target"])
    found = pairs.set_index(["intermediate", "target"])
    kept = ["n_seeds", "score", "percent", "p_bh", "collapsed", "contaminated"]
    frame = found[kept].reindex(grid).reset_index()
    first, itself = frame.intermediate == "", frame.intermediate == frame.target
    frame.loc[first, "score"] = frame.target[first].map(alone)
    frame["status"] = np.select(
        [first & frame.score.notna(), frame.n_seeds.isna() & ~first, frame.n_seeds == 0, frame.score.isna()],
        ["baseline", "not_planned", "missing", "undefined"],
        default="done",
    )
    frame.loc[itself, "status"] = "not_planned"
    return frame.assign(
        row=[results.title(one) if one else ALONE for one in frame.intermediate],
        column=frame.target.map(results.title),
        is_significant=frame.p_bh <= LEVEL,
        is_collapsed=frame.collapsed.fillna(False).astype(bool),
        is_contaminated=frame.contaminated.fillna(False).astype(bool),
    ).drop(columns=["n_seeds", "p_bh", "collapsed", "contaminated"])


def percent_map(squares: pd.DataFrame, title: str) -> Figure:
    """A heatmap: the colour is the change in percent of the target alone, the number the score."""
    limit = colour_limit(squares.percent)
    rows, columns = squares.drop_duplicates("intermediate"), squares.drop_duplicates("target")
    figure = figure_of(4.2 + 0.55 * len(columns), 3.2 + 0.33 * len(rows), title)
    axes = figure.subplots()
    values = squares.pivot(index="intermediate", columns="target", values="percent")
    values = values.loc[rows.intermediate, columns.target].astype(float)
    bar = {"label": f"percent change (deepest at {limit:.1f})", "extend": "both", "shrink": 0.8}
    sns.heatmap(values, ax=axes, cmap=COLOURS, vmin=-limit, vmax=limit, linewidths=0.5, linecolor="w", cbar_kws=bar)
    across, down = ({name: place for place, name in enumerate(names)} for names in (columns.target, rows.intermediate))
    for one in squares.itertuples():
        x, y = across[one.target], down[one.intermediate]
        if one.status in FILLS:
            axes.add_patch(Rectangle((x, y), 1, 1, linewidth=0, **FILLS[one.status]))
        if np.isfinite(one.score):
            marks = "*" * one.is_significant + DAGGER * one.is_collapsed + DOUBLE_DAGGER * one.is_contaminated
            axes.text(x + 0.5, y + 0.5, bare(one.score) + marks, ha="center", va="center", fontsize=8)
    make_legible(axes)
    axes.axhline(1, color="black", linewidth=1.2)
    name_squares(axes, list(rows.row), list(columns.column))
    figure.axes[1].tick_params(labelsize=8.5)
    figure.axes[1].yaxis.label.set_fontsize(9)
    figure.legend(handles=_meanings(squares), loc="outside lower center", ncols=2, fontsize=8, frameon=False)
    return figure


def theme_bars(counts: pd.DataFrame, title: str) -> Figure:
    """Bars up for significant gains and down for harms, by the intermediate's and by the target's theme."""
    panels, present = list(dict.fromkeys(counts.panel)), list(dict.fromkeys(counts.theme))
    figure = figure_of(7.2, 1.4 + 2.0 * len(panels), title)
    grid = figure.subplots(len(panels), 2, sharey=True, squeeze=False)
    for line, panel in zip(grid, panels, strict=True):
        for axes, role in zip(line, ROLES, strict=True):
            part = counts[(counts.panel == panel) & (counts.role == role)].set_index("theme").loc[present]
            for heights, colour in ((part.gains, UP), (-part.harms, DOWN)):
                bars = axes.bar(range(len(present)), heights, color=colour, width=0.62)
                axes.bar_label(bars, [str(abs(one)) if one else "" for one in heights], padding=2, fontsize=8)
            axes.axhline(0, color="black", linewidth=0.8)
            axes.margins(y=0.2)
            axes.set_xticks(
                range(len(present)), [f"{shortened(one, 24)}\n(of {part.n_tested[one]})" for one in present]
            )
            axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
            axes.yaxis.set_major_formatter(lambda height, _: f"{abs(height):g}")
            axes.set_title(f"{role}'s theme, {shortened(panel)}", fontsize=9)
            make_plain(axes)
        line[0].set_ylabel("significant pairs")
    handles = [Patch(color=UP, label="gains (up)"), Patch(color=DOWN, label="harms (down)")]
    figure.legend(handles=handles, loc="outside lower center", ncols=2, fontsize=8, frameon=False)
    return figure


def difference_bars(differing: pd.DataFrame, title: str) -> Figure:
    """How many tasks two raters put so far apart, whoever is higher; pairs of raters are added up."""
    apart = differing.assign(apart=differing.difference.abs())
    sizes, rated = sorted(apart.apart.unique()), list(dict.fromkeys(apart.construct))
    counts = apart.pivot_table(index="construct", columns="apart", values="n_tasks", aggfunc="sum", fill_value=0)
    figure = figure_of(5.6, 3.6, title)
    axes = figure.subplots()
    width = 0.8 / len(rated)
    for place, name in enumerate(rated):
        where = np.arange(len(sizes)) + (place - (len(rated) - 1) / 2) * width
        title_of = shortened(constructs()[name].title if name in constructs() else name)
        bars = axes.bar(where, counts.loc[name, sizes], width * 0.94, color=TONES[place % len(TONES)], label=title_of)
        axes.bar_label(bars, padding=2, fontsize=8)
    n_pairs = len(differing[["rater_a", "rater_b"]].drop_duplicates())
    axes.set_xticks(range(len(sizes)), [f"{one:g}" for one in sizes])
    axes.set(xlabel="difference of two raters' ratings", ylabel="tasks" if n_pairs == 1 else "tasks x pairs of raters")
    axes.yaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.margins(y=0.12)
    columns = min(len(rated), 3)
    figure.legend(
        *axes.get_legend_handles_labels(), loc="outside lower center", ncols=columns, fontsize=8, frameon=False
    )
    make_plain(axes)
    return figure


def _meanings(squares: pd.DataFrame) -> Sequence[Patch | Line2D]:
    """What the marks and fills that occur mean."""
    signs = {
        f"* p(BH) <= {LEVEL:g}": squares.is_significant,
        f"{DAGGER} collapsed training": squares.is_collapsed,
        f"{DOUBLE_DAGGER} contaminated: test items are training material": squares.is_contaminated,
    }
    marks = [Line2D([], [], linestyle="none", label=text) for text, occurs in signs.items() if occurs.any()]
    fills = [Patch(label=MEANINGS[name], **FILLS[name]) for name in MEANINGS if (squares.status == name).any()]
    return [*marks, *fills]
