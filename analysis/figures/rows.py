"""Test rows in a plane, each by the vector from which a system classifies it: near rows are alike to the system."""

from __future__ import annotations

from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from analysis.figures.drawing import FigureFiles, figure_of, legend_mark, shortened, write_figure_files
from analysis.tables import signed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
    stem.parent.mkdir(parents=True, exist_ok=True)
    return write_figure_files(frame, stem, title, draw_rows)


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
