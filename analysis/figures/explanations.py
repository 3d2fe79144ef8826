"""Small figures of what explains gains: likelihoods, specifications, budgets, and test rows in a plane."""

from __future__ import annotations

import math
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from analysis.figures.drawing import (
    Drawing,
    FigureFiles,
    figure_of,
    legend_mark,
    make_plain,
    shortened,
    whole_numbers,
)
from analysis.gains.significance import LEVEL
from analysis.tables import signed

if TYPE_CHECKING:
    from matplotlib.figure import Figure


TITLE = "What a budget of transfers costs"
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
        own = frame[frame.order == name]
        axes.fill_between(own.transfers, own.low, own.high, color=BAND, linewidth=0, label="95 %, targets resampled")
        axes.plot(own.transfers, own.regret, color=INK, linewidth=1.6, marker="o", markersize=3, label="this order")
        axes.plot(own.transfers, own.chance, color=CHANCE, linewidth=1.1, linestyle="--", label="a random order")
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
        own = profile[profile.construct == name]
        kept = own[own.p > LEVEL]
        if len(kept):
            axes.axvspan(kept.slope.min(), kept.slope.max(), color=BAND, linewidth=0, label="not rejected at 5 %")
        axes.plot(own.slope, -own["drop"], color=INK, linewidth=1.6, label="log likelihood")
        axes.axvline(0, color="0.35", linewidth=0.9, linestyle="--", label="no slope")
        best = own.slope.iloc[int(own["drop"].to_numpy().argmin())]
        axes.set_title(f"{shortened(own.title.iloc[0], 26)}\n{signed(float(best), 2)}", fontsize=9)
        shown = own[own["drop"] <= DEEPEST]
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
    place = slopes.assign(line=pd.MultiIndex.from_frame(lines).get_indexer(pd.MultiIndex.from_frame(keys)))
    titles = list(dict.fromkeys(slopes.title))
    figure = figure_of(6.6 + 0.8 * len(titles), 1.9 + 0.32 * len(lines), title)
    axes = figure.subplots()
    for number, rating in enumerate(titles):
        marker, colour = OF_RATINGS[number % len(OF_RATINGS)]
        own = place[place.title == rating]
        axes.scatter(own.p, own.line, marker=marker, color=colour, s=26, label=shortened(rating, 26), zorder=3)
        said = [signed(slope, 2) if np.isfinite(slope) else "not tested" for slope in own.slope]
        for line, words in zip([-0.9, *own.line], [shortened(rating, 13), *said], strict=True):
            beside: dict[str, Any] = {"xycoords": axes.get_yaxis_transform(), "xytext": (GAP + WIDTH * number, 0)}
            axes.annotate(words, (1, line), **beside, textcoords="offset points", va="center", color=colour, fontsize=8)
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
    axes.set_yticks(range(len(lines)), [shortened(changed(row, choices.iloc[0]), 60) for _, row in choices.iterrows()])
    axes.grid(axis="y", color="0.92")
    make_plain(axes)
    axes.set_xlabel("p of a slope, corrected for all ratings (right: the slopes, per step)", fontsize=8.5)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    return figure


def changed(row: Any, primary: Any) -> str:  # noqa: ANN401 - rows of a frame
    """The respect in which a specification differs from the primary one, in words."""
    differing = [f"{words} {row[name] or 'none'}" for name, words in CHOICES.items() if row[name] != primary[name]]
    return ", ".join(differing) or "primary"


MARKS = (  # a colour and a form of each class; common kinds of vision tell the colours of Okabe and Ito apart
    *(("#0072B2", "o"), ("#D55E00", "s"), ("#009E73", "^"), ("#CC79A7", "D")),
    *(("#E69F00", "v"), ("#56B4E9", "P"), ("#000000", "X"), ("#8C8C00", "*")),
)
OTHERS = ("0.6", ".")  # of classes beyond these
SIZE = 14


def rows_figure(frame: pd.DataFrame, silhouette: float, what: str, stem: Path) -> FigureFiles:
    """Draw rows with the columns ``x``, ``y``, ``gold`` and ``predicted``, beside their CSV.

    ``what`` names system and task, and ``silhouette`` is that of the classes among the vectors, or NaN.
    """
    parted = f"; silhouette of the classes in the vectors themselves {signed(silhouette, 2)}"
    title = (
        f"Test rows of {what} by t-SNE of the vectors that are classified{parted if isfinite(silhouette) else ''}\n"
        "Hollow: another class is predicted. Distances between far groups, and sizes of groups, mean nothing."
    )
    (files,) = Drawing(stem.name, title, frame, draw_rows, folder="").write(stem.parent)
    return files


def draw_rows(frame: pd.DataFrame, title: str) -> Figure:
    """A mark per row, of the colour and form of its class; the commonest class first."""
    figure = figure_of(7, 6.2, title)
    axes = figure.subplots()
    entries = []
    for place, (name, count) in enumerate(frame["gold"].value_counts(sort=True).items()):
        colour, form = MARKS[place] if place < len(MARKS) else OTHERS
        rows = frame[frame["gold"] == name]
        is_right = (rows["predicted"] == name).to_numpy()
        for own, face in ((rows[is_right], colour), (rows[~is_right], "none")):
            axes.scatter(own["x"], own["y"], s=SIZE, marker=form, facecolors=face, edgecolors=colour, linewidths=0.8)
        entries.append(legend_mark(f"{shortened(name)} ({count})", marker=form, color=colour, markersize=5))
    axes.set(xticks=[], yticks=[])
    axes.legend(handles=entries, fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    return figure
