"""The specification curve: what the constructs add under each choice that could have been made, and its two p."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from analysis.figures.drawing import figure_of, make_plain, shortened
from analysis.gains.significance import LEVEL
from analysis.tables import signed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CHOICES = {
    "left_out": "families left out as",
    "outcome": "outcome",
    "weights": "weights",
    "cells": "cells",
    "without_rater": "without rater",
}
NULLS = {
    "p_tasks": ("o", "#1b7837", "ratings permuted over tasks"),
    "p_families": ("s", "#762a83", "over families"),
}
TEXT_AT = 1.02  # of the axes' width
TICKS = (1, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001)


def specification_curve(curve: pd.DataFrame, title: str) -> Figure:
    """A line per specification, the primary one on top, with both p on a logarithmic axis and what is added."""
    figure = figure_of(7.4, 1.9 + 0.32 * len(curve), title)
    axes = figure.subplots()
    smallest = float(np.nanmin(curve[list(NULLS)].to_numpy("float64"), initial=LEVEL))
    for name, (marker, colour, label) in NULLS.items():
        axes.scatter(curve[name], range(len(curve)), marker=marker, color=colour, s=26, label=label, zorder=3)
    for number, row in enumerate(curve.itertuples()):
        said = "not defined" if pd.isna(row.added) else f"{signed(row.added, 4)}{' *' if row.passes else ''}"
        axes.text(TEXT_AT, number, said, transform=axes.get_yaxis_transform(), va="center", fontsize=8.5)
    axes.text(TEXT_AT, -0.9, "adds to Q2 (*: passes)", transform=axes.get_yaxis_transform(), va="center", fontsize=8.5)
    axes.axvline(LEVEL, color="0.4", linewidth=0.9, linestyle="--", label=f"p = {LEVEL:g}")
    axes.set_xscale("log")
    axes.set_xticks([tick for tick in TICKS if tick >= smallest / 1.6])
    axes.xaxis.set_major_formatter("{x:g}")
    axes.minorticks_off()
    axes.set_xlim(1.15, smallest / 1.6)
    axes.set_ylim(len(curve) - 0.5, -0.7)
    choices = curve[list(CHOICES)].astype("object").where(curve[list(CHOICES)].notna(), "")  # a file has nothing for ""
    axes.set_yticks(range(len(curve)), [shortened(changed(row, choices.iloc[0]), 60) for _, row in choices.iterrows()])
    axes.set_xlabel("p of what the constructs add together (both have to be small)", fontsize=8.5)
    axes.grid(axis="y", color="0.92")
    make_plain(axes)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    return figure


def changed(row: Any, primary: Any) -> str:  # noqa: ANN401 - rows of a frame
    """The respect in which a specification differs from the primary one, in words."""
    differing = [f"{words} {row[name] or 'none'}" for name, words in CHOICES.items() if row[name] != primary[name]]
    return ", ".join(differing) or "primary"
