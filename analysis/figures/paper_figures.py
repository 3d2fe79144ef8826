"""The paper's figures, and small ones of what explains gains, each from a frame of its own.

Of the paper: importances of features (2), significant pairs by theme (3), percent changes (6 and 7), raters'
differences (8), and similarities of tasks (9 and 10). Beside them likelihoods, specifications, budgets, and test rows
in a plane.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from analysis.figures import heatmaps
from analysis.figures.drawing import (
    Drawing,
    FigureFiles,
    cover,
    figure_of,
    legend_mark,
    legend_patch,
    make_legible,
    make_plain,
    shortened,
    whole_numbers,
    write_in_square,
)
from analysis.gains.significance import LEVEL
from analysis.importance.grid import SIMILARITY, features_of, pair_features
from analysis.importance.paper_mode import (
    FEWEST_PAIRS,
    N_ARRANGEMENTS,
    SETTINGS,
    TABLE_6,
    importances_by_chance,
    mark_of_chance,
    paper_blocks,
    paper_importances,
)
from analysis.importance.question import PUBLISHED, Question
from analysis.ratings.agreement import differences
from analysis.ratings.themes import ROLES, theme_counts
from analysis.results.published import table
from analysis.results.results import Results
from analysis.tables import PAPER_FIGURES, bare, signed
from tasks.plain_text import counted
from tasks.ratings import constructs

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

SEEDS = 5  # of random splits behind Figure 2
MOST_PAIRS = 3000  # behind Figure 2: a minute of its fits, which grow with the cube of the pairs; the paper has 306
MOST_PAIRS_BY_CHANCE = 500  # of which importances with permuted facts are fitted too: two seconds
SETTING = "V1"
FIGURE_2 = "figure-2-importances"
NO_EVIDENCE = "In-sample fit, not evidence"
BARS = ("#1b7837", "#c2a5cf")  # told apart in grey too
MEASURED = {
    "data_similarity": (
        *("9", "data", "similarity of the tasks' texts: cosine of mean sentence embeddings"),
        "Similarity of the tasks' texts: cosine of mean embeddings.",
    ),
    "task_similarity": (
        *("10", "task", "similarity of trained adapters: fused ranks of their Fisher information"),
        "Similarity of trained adapters: fused ranks of Fisher information.",
    ),
}
UP, DOWN = "#2166ac", "#b2182b"  # the ends of the heatmaps' colours
TONES = ("#1b7837", "#5aae61", "#a6dba0", "#762a83", "#c2a5cf")  # told apart in grey too
NUMBERS = {"macro_f1": "6", "pearson_r": "7", "multilabel_f1": "6b"}


def paper_figures(question: Question) -> list[Drawing]:
    """The paper's figures of what the results have rows for; ``why_not_drawn`` says why 2, 9 or 10 are not there.

    ``question.note`` stands above the counts of Figure 3: what they hold for, or that they are approximations.
    """
    return [replace(figure, folder=PAPER_FIGURES) for figure in _figures(question)]


def _figures(question: Question) -> Iterator[Drawing]:
    results = question.results
    yield from _heuristics(question)
    counts = [theme_counts(panel).assign(panel=name) for name, panel in question.counted.items()]
    if tested := [frame for frame in counts if frame.n_tested.sum()]:
        title = f"{results.banner}Figure 3: gains and harms with p <= {LEVEL:g}, uncorrected, {results.name}"
        yield theme_figure(pd.concat(tested, ignore_index=True), f"{title}\n{question.note}".strip())
    for metric, words in heatmaps.METRIC_NAMES.items():
        if (results.gains.metric == metric).any():
            title = f"{results.banner}Figure {NUMBERS[metric]}: percent change of {words}, {results.name}"
            caption = f"Change in percent of the target alone, targets scored by {words}; the number is the score."
            name = f"figure-{NUMBERS[metric]}-percent-{metric.replace('_', '-')}"
            yield Drawing(name, title, percent_squares(results, metric), percent_map, caption)
    if len(differing := differences(results)):
        yield difference_figure(differing, f"{results.banner}Figure 8: by how much raters differ, {results.name}")


def theme_figure(counts: pd.DataFrame, title: str) -> Drawing:
    """Figure 3, of the counts of its panels."""
    caption = f"Gains (up) and harms (down) with p at most {LEVEL:g}, not corrected, by theme."
    if counts.panel.str.startswith("assumed").any():
        caption += " Approximations for an assumed correlation of errors: read directions only."
    height = 2.0 + 3.6 * counts.panel.nunique()
    return Drawing("figure-3-themes", title, counts, theme_bars, caption, height=height)


def difference_figure(differing: pd.DataFrame, title: str) -> Drawing:
    """Figure 8, of the differences between raters."""
    caption = "By how much two raters' ratings of a task differ."
    return Drawing("figure-8-differences", title, differing, difference_bars, caption, False, 6.2)


def importance_figure(rows: pd.DataFrame, title: str) -> Drawing:
    """Figure 2, of the importances of every series."""
    caption = f"{NO_EVIDENCE}: feature importance by the paper's procedure (in-sample), means over seeds."
    if rows.by_chance.notna().any():
        most = rows.arrangements.max()
        caption += f" Marks: 95 % of {most} importances with facts permuted over tasks stay below."
        if rows.by_chance.isna().any():
            caption += " Features without a mark cannot be permuted on this grid, or were not computed here."
    height = 2.6 + 0.55 * rows.feature.nunique()
    return Drawing(FIGURE_2, title, rows, importance_bars, caption, False, height)


def percent_squares(results: Results, metric: str) -> pd.DataFrame:
    """One row per square: targets alone (no intermediate), then every intermediate by every target of this metric."""
    pairs = results.gains[results.gains.metric == metric]
    alone = pairs.groupby("target", sort=False).baseline.first()
    targets = [task for task in results.tasks.task if task in alone.index]
    grid = pd.MultiIndex.from_product([["", *results.tasks.task], targets], names=["intermediate", "target"])
    by_pair = pairs.set_index(["intermediate", "target"])
    kept = ["n_seeds", "score", "percent", "p_bh", "collapsed", "contaminated"]
    frame = by_pair[kept].reindex(grid).reset_index()
    first, itself = frame.intermediate == "", frame.intermediate == frame.target
    frame.loc[first, "score"] = frame.target[first].map(alone)
    frame["status"] = np.select(
        [first & frame.score.notna(), frame.n_seeds.isna() & ~first, frame.n_seeds == 0, frame.score.isna()],
        ["baseline", "not_planned", "missing", "undefined"],
        default="done",
    )
    frame.loc[itself, "status"] = "not_planned"
    titles = dict(zip(results.tasks.task, results.tasks.title, strict=True))
    return frame.assign(
        row=[titles[task] if task else heatmaps.ALONE for task in frame.intermediate],
        column=frame.target.map(titles),
        is_significant=frame.p_bh <= LEVEL,
        is_collapsed=frame.collapsed.fillna(False).astype(bool),
        is_contaminated=frame.contaminated.fillna(False).astype(bool),
    ).drop(columns=["n_seeds", "p_bh", "collapsed", "contaminated"])


def percent_map(squares: pd.DataFrame, title: str) -> Figure:
    """A heatmap: the colour is the change in percent of the target alone, the number the score."""
    limit = heatmaps.colour_limit(squares.percent)
    rows = squares.intermediate.nunique(dropna=False)  # a file has nothing for a target alone
    figure = figure_of(4.2 + 0.55 * squares.target.nunique(), 3.2 + 0.33 * rows, title)
    bar = {"label": f"percent change (scale ends at {limit:.1f})", "extend": "both"}
    heatmaps.write_scores(
        heatmaps.coloured_grid(figure, squares, "percent", bar, least=-limit, most=limit), squares, is_bold=False
    )
    for scale in figure.axes[1:]:
        scale.tick_params(labelsize=8.5)
        scale.yaxis.label.set_fontsize(9)
    signs = {
        f"* p(BH) <= {LEVEL:g}": squares.is_significant.any(),
        f"{heatmaps.DAGGER} collapsed training": squares.is_collapsed.any(),
        f"{heatmaps.DOUBLE_DAGGER} contaminated: test items are training material": squares.is_contaminated.any(),
    }
    heatmaps.explain_squares(figure, squares, signs)
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
                axes.bar_label(bars, [str(abs(height)) if height else "" for height in heights], padding=2, fontsize=8)
            axes.axhline(0, color="black", linewidth=0.8)
            axes.margins(y=0.2)
            axes.set_xticks(
                range(len(present)), [f"{shortened(theme, 24)}\n(of {part.n_tested[theme]})" for theme in present]
            )
            axes.yaxis.set_major_locator(whole_numbers(5))
            axes.yaxis.set_major_formatter(lambda height, _: f"{abs(height):g}")
            axes.set_title(f"{role}'s theme, {shortened(panel)}", fontsize=9)
            make_plain(axes)
        line[0].set_ylabel(f"pairs with p <= {LEVEL:g}")
    handles = [legend_patch("gains (up)", color=UP), legend_patch("harms (down)", color=DOWN)]
    figure.legend(handles=handles, loc="outside lower center", ncols=2, fontsize=8, frameon=False)
    return figure


def difference_bars(differing: pd.DataFrame, title: str) -> Figure:
    """Tasks by the size of two raters' difference, whoever rates higher; all pairs of raters together."""
    apart = differing.assign(apart=differing.difference.abs())
    sizes, rated = sorted(apart.apart.unique()), list(dict.fromkeys(apart.construct))
    counts = apart.pivot_table(index="construct", columns="apart", values="n_tasks", aggfunc="sum", fill_value=0)
    figure = figure_of(5.6, 3.6, title)
    axes = figure.subplots()
    width = 0.8 / len(rated)
    for number, name in enumerate(rated):
        where = np.arange(len(sizes)) + (number - (len(rated) - 1) / 2) * width
        title_of = shortened(constructs()[name].title if name in constructs() else name)
        bars = axes.bar(where, counts.loc[name, sizes], width * 0.94, color=TONES[number % len(TONES)], label=title_of)
        axes.bar_label(bars, padding=2, fontsize=8)
    n_pairs = len(differing[["rater_a", "rater_b"]].drop_duplicates())
    axes.set_xticks(range(len(sizes)), [f"{size:g}" for size in sizes])
    axes.set(xlabel="difference of two raters' ratings", ylabel="tasks" if n_pairs == 1 else "tasks x pairs of raters")
    axes.yaxis.set_major_locator(whole_numbers(6))
    axes.margins(y=0.12)
    columns = min(len(rated), 3)
    figure.legend(
        *axes.get_legend_handles_labels(), loc="outside lower center", ncols=columns, fontsize=8, frameon=False
    )
    make_plain(axes)
    return figure


# What may predict a transfer: importances of features (2), similarities of tasks (9 and 10).


def _heuristics(question: Question) -> Iterator[Drawing]:
    """Figure 2, and 9 and 10 as far as similarities were measured."""
    results, similarities = question.results, question.similarities
    if not why_no_importances(results, similarities):
        title = f"{results.banner}{NO_EVIDENCE}. Figure 2: feature importance by the paper's procedure (in-sample),"
        title += f" {results.name}"
        title += f"\n(setting {SETTING}, {SEEDS} seeds; unscaled inputs: importance depends on units)"
        inputs = {"results": results, "similarities": similarities}
        frame = question.kept.frame("importances", inputs, lambda: importance_rows(results, similarities))
        yield importance_figure(frame, title)
    for name, (number, short, subject, caption) in MEASURED.items():
        if similarities is not None and similarities[name].notna().any():
            title = f"{results.banner}Figure {number}: {subject}, {results.name}"
            frame = similarity_squares(results, similarities, name)
            draw = cosine_map if name == "data_similarity" else rank_map
            yield Drawing(f"figure-{number}-{short}-similarity", title, frame, draw, caption)


def why_not_drawn(results: Results, similarities: pd.DataFrame | None) -> list[str]:
    """One line for each of Figures 2, 9 and 10 that cannot be drawn, with the reason."""
    why = why_no_importances(results, similarities)
    lines = [f"Figure 2 is not drawn: {why}"] if why else []
    measured = () if similarities is None else similarities.columns[similarities.notna().any()]
    missing = [number for name, (number, *_) in MEASURED.items() if name not in measured]
    if missing and results.name == PUBLISHED:
        lines.append("Figures 9 and 10 need a study: the paper's embeddings are not published")
    elif missing:
        are = f"Figure{'s' * (len(missing) > 1)} {' and '.join(missing)}"
        lines.append(f"{are}: not measured; measure with: empathy-transfer study similarities {results.name}")
    return lines


def importance_rows(results: Results, similarities: pd.DataFrame | None) -> pd.DataFrame:
    """One row per (series, feature): importance and sd, means over seeds, and whether random numbers stood in for it.

    ``by_chance`` is what 95 % of importances stay below when all facts of tasks are permuted over tasks, of
    ``arrangements``; undefined of a stand-in, of more than 500 pairs, and of the printed importances (Table 6), which
    are a series too of the published results.
    """
    means = paper_importances(results, SETTINGS[SETTING], range(SEEDS), similarities=similarities).mean()
    features = pair_features(results, similarities=similarities)
    kinds = features_of(results)
    stand_ins = {
        name for name, feature in kinds.items() if feature.kind == SIMILARITY and not features[name].notna().all()
    }
    is_published = results.name == PUBLISHED
    ours = f"recomputed ({SETTING})" if is_published else f"setting {SETTING}"
    rows = means.assign(series=ours, is_stand_in=means.feature.isin(stand_ins), by_chance=np.nan, arrangements=0)
    if np.isfinite(results.gains.percent.to_numpy("float64")).sum() <= MOST_PAIRS_BY_CHANCE:
        marks = mark_of_chance(importances_by_chance(results, SETTINGS[SETTING], similarities=similarities))
        by_chance = rows.feature.map(marks).astype("float64")
        rows = rows.assign(by_chance=by_chance, arrangements=by_chance.notna() * N_ARRANGEMENTS)
    if is_published:
        printed = table("table6_importances").assign(series="printed (Table 6)", is_stand_in=False, arrangements=0)
        rows = pd.concat([printed.assign(feature=printed.feature.map(TABLE_6)), rows])
    rows = rows.assign(title=[kinds[name].title for name in rows.feature])
    columns = ["series", "feature", "title", "importance", "sd", "is_stand_in", "by_chance", "arrangements"]
    return rows[columns].reset_index(drop=True)


def importance_bars(rows: pd.DataFrame, title: str) -> Figure:
    """A bar per feature and series with its standard deviation, the most important of the first series on top.

    A mark says what 95 % of importances stay below when facts of tasks say nothing.
    """
    series = list(dict.fromkeys(rows.series))
    first = rows[rows.series == series[0]].sort_values("importance", ascending=False, kind="stable")
    position = {name: i for i, name in enumerate(first.feature)}
    figure = figure_of(6.4, 1.8 + 0.34 * len(position), title)
    axes = figure.subplots()
    height = 0.8 / len(series)
    style: dict[str, Any] = {"edgecolor": "0.25", "linewidth": 0.6, "ecolor": "0.2", "capsize": 2}
    for number, name in enumerate(series):
        part = rows[rows.series == name]
        where = part.feature.map(position) + (number - (len(series) - 1) / 2) * height
        bars = axes.barh(where, part.importance, height * 0.92, xerr=part.sd, color=BARS[number % 2], **style)
        for bar, is_stand_in in zip(bars, part.is_stand_in, strict=True):
            bar.set_hatch("////" if is_stand_in else "")
        axes.scatter(part.by_chance, where, marker="|", s=200 * height, color="#b2182b", linewidth=2, zorder=4)
    axes.set_yticks(range(len(position)), list(map(shortened, first.title)))
    axes.invert_yaxis()
    axes.set_xlim(left=min(0.0, float((rows.importance - rows.sd).min())))
    label = "decrease in training R2 when the feature is permuted\n(lines: standard deviation over permutations)"
    axes.set_xlabel(label, fontsize=8.5)
    handles: list[Patch | Line2D] = [
        legend_patch(shortened(name), facecolor=BARS[i % 2], edgecolor="0.25") for i, name in enumerate(series)
    ]
    if rows.is_stand_in.any():
        label = "not measured (random placeholder)"
        handles.append(legend_patch(label, facecolor="white", edgecolor="0.25", hatch="////"))
    if rows.by_chance.notna().any():
        label = f"95 % of {rows.arrangements.max()} stay below,\nfacts permuted over tasks"
        style = {"marker": "|", "markersize": 9, "markeredgewidth": 2, "color": "#b2182b"}
        handles.append(legend_mark(label, **style))
    figure.legend(handles=handles, loc="outside lower center", ncols=2, fontsize=8, frameon=False)
    make_plain(axes)
    return figure


def similarity_squares(results: Results, similarities: pd.DataFrame, name: str) -> pd.DataFrame:
    """One row per (intermediate, target): titles, similarity, and the intermediate's rank for the target, 1 nearest.

    A task with itself has the cosine 1, and no fused rank.
    """
    frame = similarities[["intermediate", "target", name]].rename(columns={name: "similarity"})
    tasks = list(dict.fromkeys(frame.target))
    measured = set(frame.target[frame.similarity.notna()])
    diagonal = [1.0 if name == "data_similarity" and task in measured else np.nan for task in tasks]
    frame = pd.concat([frame, pd.DataFrame({"intermediate": tasks, "target": tasks, "similarity": diagonal})])
    others = frame.similarity.where(frame.intermediate != frame.target)
    frame["rank"] = others.groupby(frame.target).rank(ascending=False, method="min")
    order = {task: i for i, task in enumerate(tasks)}
    frame = frame.sort_values(["intermediate", "target"], key=lambda column: column.map(order)).reset_index(drop=True)
    return frame.assign(row=frame.intermediate.map(results.title), column=frame.target.map(results.title))


def cosine_map(squares: pd.DataFrame, title: str) -> Figure:
    """A heatmap of cosines with their numbers."""
    text = squares.similarity.map(lambda cosine: bare(cosine) if np.isfinite(cosine) else "")
    return _similarity_heatmap(squares.assign(text=text), title, "cosine")


def rank_map(squares: pd.DataFrame, title: str) -> Figure:
    """A heatmap of fused ranks; the number is the intermediate's place for the target."""
    text = squares["rank"].map(lambda rank: f"{rank:.0f}" if np.isfinite(rank) else "")
    return _similarity_heatmap(
        squares.assign(text=text), title, "fused score\n(the number: the intermediate's place for the target)"
    )


def _similarity_heatmap(squares: pd.DataFrame, title: str, label: str) -> Figure:
    figure = figure_of(4.0 + 0.46 * squares.target.nunique(), 3.0 + 0.36 * squares.intermediate.nunique(), title)
    is_other = squares.intermediate != squares.target
    least, most = squares.similarity[is_other].min(), squares.similarity.max()
    axes = heatmaps.coloured_grid(
        figure, squares, "similarity", {"label": label}, least=least, most=most, colours="cividis"
    )
    across, down = (list(dict.fromkeys(squares[role])) for role in ("target", "intermediate"))
    for square in squares.itertuples():
        write_in_square(axes, across.index(square.target), down.index(square.intermediate), square.text)
    make_legible(axes)
    missing = squares[squares.similarity.isna() & is_other]
    for square in missing.itertuples():
        cover(axes, across.index(square.target), down.index(square.intermediate), **heatmaps.FILLS["missing"])
    for scale in figure.axes[1:]:
        scale.tick_params(labelsize=8.5)
        scale.yaxis.label.set_fontsize(9)
    if len(missing):
        handles = [legend_patch("not measured", **heatmaps.FILLS["missing"])]
        figure.legend(handles=handles, loc="outside lower center", fontsize=8, frameon=False)
    return figure


def why_no_importances(results: Results, similarities: pd.DataFrame | None) -> str | None:
    """Why there is no Figure 2; None where there is."""
    n_pairs = int(np.isfinite(results.gains.percent.to_numpy("float64")).sum())
    if n_pairs < FEWEST_PAIRS:
        return f"{counted(n_pairs, 'pair')} with a percent change; the paper's procedure needs {FEWEST_PAIRS}"
    if n_pairs > MOST_PAIRS:
        command = f"empathy-transfer study analyze {results.name} --mode paper"
        return f"{n_pairs:,} pairs; beyond {MOST_PAIRS:,} the paper's procedure takes long: {command}"
    blocks = paper_blocks(results, pair_features(results, similarities=similarities), SETTINGS[SETTING], None)
    return None if blocks else "no feature is known of every task"


BUDGET_TITLE = "What a budget of transfers costs"
RANDOM = "random"
MARGIN = 1.05  # of the axis, by the highest value on it
ACROSS = 4  # panels beside each other
INK, BAND, CHANCE = "#2166ac", "#d1e5f0", "0.25"


def budget_curves(frame: pd.DataFrame, title: str) -> Figure:
    """One panel per order: regret by transfers per target with its limits, and that of a random order as dashes."""
    names = [name for name in dict.fromkeys(frame.order) if name != RANDOM]
    across = min(ACROSS, len(names))
    down = math.ceil(len(names) / across)
    figure = figure_of(1.2 + 2.2 * max(across, 2), 1.5 + 2.1 * down, title)
    panels = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False).ravel()
    for axes, name in zip(panels, names, strict=False):
        rows = frame[frame.order == name]
        axes.fill_between(rows.transfers, rows.low, rows.high, color=BAND, linewidth=0, label="95 %, targets resampled")
        axes.plot(rows.transfers, rows.regret, color=INK, linewidth=1.6, marker="o", markersize=3, label="this order")
        axes.plot(rows.transfers, rows.chance, color=CHANCE, linewidth=1.1, linestyle="--", label="a random order")
        axes.set_title(shortened(name.replace("_", " "), 26), fontsize=9)
        axes.xaxis.set_major_locator(whole_numbers(6))
        make_plain(axes)
    highest = frame[["high", "regret", "chance"]].max().max()
    panels[0].set_ylim(0, MARGIN * highest if highest > 0 else 1)  # all panels share it
    for axes in panels[len(names) :]:
        axes.set_visible(False)
    for axes in panels[max(0, len(names) - across) : len(names)]:
        axes.tick_params(labelbottom=True)  # the lowest of its column that is there
    for first in panels[::across]:
        first.set_ylabel("regret, points", fontsize=8.5)
    lowest = panels[(down - 1) * across : len(names)]
    lowest[(len(lowest) - 1) // 2].set_xlabel("transfers trained per target", fontsize=8.5)
    handles = panels[0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    return figure


DEEPEST = 6.0  # drop of the log likelihood that is drawn


def profile_figure(profile: pd.DataFrame, title: str) -> Drawing:
    """The likelihood of slopes on every rating."""
    caption = "Log likelihood of every slope of gains on a rating; slopes in the band are not rejected at 5 %."
    return Drawing("mixed_profile", title, profile, likelihood_profile, caption, height=5.4)


def likelihood_profile(profile: pd.DataFrame, title: str) -> Figure:
    """One panel per rating: the log likelihood below its maximum at every slope, those not rejected as a band."""
    names = list(dict.fromkeys(profile.construct))
    figure = figure_of(2.4 + 2.3 * len(names), 3.4, title)
    panels = figure.subplots(1, len(names), sharey=True, squeeze=False)[0]
    for axes, name in zip(panels, names, strict=True):
        rows = profile[profile.construct == name]
        kept = rows[rows.p > LEVEL]
        if len(kept):
            axes.axvspan(kept.slope.min(), kept.slope.max(), color=BAND, linewidth=0, label="not rejected at 5 %")
        axes.plot(rows.slope, -rows["drop"], color=INK, linewidth=1.6, label="log likelihood")
        axes.axvline(0, color="0.35", linewidth=0.9, linestyle="--", label="no slope")
        best = rows.slope.iloc[int(rows["drop"].to_numpy().argmin())]
        axes.set_title(f"{shortened(rows.title.iloc[0], 26)}\n{signed(float(best), 2)}", fontsize=9)
        shown = rows[rows["drop"] <= DEEPEST]
        axes.set_xlim(min(shown.slope.min(), 0), max(shown.slope.max(), 0))
        axes.set_ylim(-DEEPEST, 0.3)
        make_plain(axes)
    panels[0].set_ylabel("log likelihood, 0 at its maximum", fontsize=8.5)
    middle = panels[(len(names) - 1) // 2]
    middle.set_xlabel("points of gain per step by which the intermediate is rated higher", fontsize=8.5)
    handles = panels[0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    return figure


CHOICES = {"outcome": "outcome", "weights": "weights", "cells": "cells", "without_rater": "without rater"}
OF_RATINGS = (("o", "#1b7837"), ("s", "#762a83"), ("^", "#2166ac"), ("D", "#b35806"), ("v", "#4d4d4d"))
GAP, WIDTH = 9, 66  # points, beside the axes and of a rating's column
TICKS = (1, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001)


def choices_of_slopes(slopes: pd.DataFrame, title: str) -> Figure:
    """A line per choice of the mixed model, the primary one on top: the p of every rating, and its slope in words."""
    names = list(CHOICES)
    keys = slopes[names].astype("object").where(slopes[names].notna(), "")  # a file has nothing for ""
    lines = keys.drop_duplicates().reset_index(drop=True)
    points = slopes.assign(line=pd.MultiIndex.from_frame(lines).get_indexer(pd.MultiIndex.from_frame(keys)))
    titles = list(dict.fromkeys(slopes.title))
    figure = figure_of(6.6 + 0.8 * len(titles), 1.9 + 0.32 * len(lines), title)
    axes = figure.subplots()
    for number, rating in enumerate(titles):
        marker, colour = OF_RATINGS[number % len(OF_RATINGS)]
        rows = points[points.title == rating]
        axes.scatter(rows.p, rows.line, marker=marker, color=colour, s=26, label=shortened(rating, 26), zorder=3)
        labels = [signed(slope, 2) if np.isfinite(slope) else "not tested" for slope in rows.slope]
        for line, words in zip([-0.9, *rows.line], [shortened(rating, 13), *labels], strict=True):
            layout: dict[str, Any] = {"xycoords": axes.get_yaxis_transform(), "xytext": (GAP + WIDTH * number, 0)}
            axes.annotate(words, (1, line), **layout, textcoords="offset points", va="center", color=colour, fontsize=8)
    # A logarithmic axis for p down to the smallest, and a name for every line: the respect in which it differs.
    smallest = float(np.nanmin(slopes.p.to_numpy("float64"), initial=LEVEL))
    axes.axvline(LEVEL, color="0.4", linewidth=0.9, linestyle="--", label=f"p = {LEVEL:g}")
    axes.set_xscale("log")
    axes.set_xticks([tick for tick in TICKS if tick >= smallest / 1.6])
    axes.xaxis.set_major_formatter("{x:g}")
    axes.minorticks_off()
    axes.set_xlim(1.15, smallest / 1.6)
    axes.set_ylim(len(lines) - 0.5, -0.7)
    choices = lines[list(CHOICES)].astype("object").where(lines[list(CHOICES)].notna(), "")  # a file has nothing for ""
    axes.set_yticks(range(len(lines)), [shortened(change(row, choices.iloc[0]), 60) for _, row in choices.iterrows()])
    axes.grid(axis="y", color="0.92")
    make_plain(axes)
    axes.set_xlabel("p of a slope, corrected for all ratings (right: the slopes, per step)", fontsize=8.5)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    return figure


def change(row: Any, primary: Any) -> str:  # noqa: ANN401 - rows of a frame
    """The respect in which a specification differs from the primary one, in words."""
    differing = [f"{words} {row[name] or 'none'}" for name, words in CHOICES.items() if row[name] != primary[name]]
    return ", ".join(differing) or "primary"


MARKS = (  # a colour and a form of each class; common kinds of vision tell the colours of Okabe and Ito apart
    *(("#0072B2", "o"), ("#D55E00", "s"), ("#009E73", "^"), ("#CC79A7", "D")),
    *(("#E69F00", "v"), ("#56B4E9", "P"), ("#000000", "X"), ("#8C8C00", "*")),
)
OTHERS = ("0.6", ".")  # of classes beyond these
SIZE = 14


def rows_figure(frame: pd.DataFrame, silhouette: float, subject: str, stem: Path) -> FigureFiles:
    """Draw rows with the columns ``x``, ``y``, ``gold`` and ``predicted``, beside their CSV.

    ``subject`` names system and task, and ``silhouette`` is that of the classes among the vectors, or NaN.
    """
    parted = f"; silhouette of the classes in the vectors themselves {signed(silhouette, 2)}"
    title = (
        f"Test rows of {subject} by t-SNE of the vectors that are classified{parted if isfinite(silhouette) else ''}\n"
        "Hollow: another class is predicted. Distances between far groups, and sizes of groups, mean nothing."
    )
    (files,) = Drawing(stem.name, title, frame, draw_rows, folder="").write(stem.parent)
    return files


def draw_rows(frame: pd.DataFrame, title: str) -> Figure:
    """A mark per row, of the colour and form of its class; the commonest class first."""
    figure = figure_of(7, 6.2, title)
    axes = figure.subplots()
    entries = []
    for number, (name, count) in enumerate(frame["gold"].value_counts(sort=True).items()):
        colour, form = MARKS[number] if number < len(MARKS) else OTHERS
        rows = frame[frame["gold"] == name]
        is_right = (rows["predicted"] == name).to_numpy()
        for part, face in ((rows[is_right], colour), (rows[~is_right], "none")):
            axes.scatter(part["x"], part["y"], s=SIZE, marker=form, facecolors=face, edgecolors=colour, linewidths=0.8)
        entries.append(legend_mark(f"{shortened(name)} ({count})", marker=form, color=colour, markersize=5))
    axes.set(xticks=[], yticks=[])
    axes.legend(handles=entries, fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    return figure
