"""The specification curve: slopes of every rating under each choice that could have been made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from analysis.figures.drawing import figure_of, make_plain, shortened
from analysis.gains.significance import LEVEL
from analysis.tables import signed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CHOICES = {
    "outcome": "outcome",
    "weights": "weights",
    "cells": "cells",
    "without_rater": "without rater",
}
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
    _lines_of_choices(axes, lines, float(np.nanmin(slopes.p.to_numpy("float64"), initial=LEVEL)))
    axes.set_xlabel("p of a slope, corrected for all ratings (right: the slopes, per step)", fontsize=8.5)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    return figure


def _lines_of_choices(axes: Axes, curve: pd.DataFrame, smallest: float) -> None:
    """A logarithmic axis for p down to the smallest, and a name for every line: the respect in which it differs."""
    axes.axvline(LEVEL, color="0.4", linewidth=0.9, linestyle="--", label=f"p = {LEVEL:g}")
    axes.set_xscale("log")
    axes.set_xticks([tick for tick in TICKS if tick >= smallest / 1.6])
    axes.xaxis.set_major_formatter("{x:g}")
    axes.minorticks_off()
    axes.set_xlim(1.15, smallest / 1.6)
    axes.set_ylim(len(curve) - 0.5, -0.7)
    choices = curve[list(CHOICES)].astype("object").where(curve[list(CHOICES)].notna(), "")  # a file has nothing for ""
    axes.set_yticks(range(len(curve)), [shortened(changed(row, choices.iloc[0]), 60) for _, row in choices.iterrows()])
    axes.grid(axis="y", color="0.92")
    make_plain(axes)


def changed(row: Any, primary: Any) -> str:  # noqa: ANN401 - rows of a frame
    """The respect in which a specification differs from the primary one, in words."""
    differing = [f"{words} {row[name] or 'none'}" for name, words in CHOICES.items() if row[name] != primary[name]]
    return ", ".join(differing) or "primary"
