"""Figures of expressed against perceived: differences with their intervals, and how ratings go together."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.figures.corpus import draw_map
from analysis.figures.drawing import COLOUR, PALE, FigureFiles, figure_of, make_plain, shortened, write_figure_files
from analysis.gains.significance import LEVEL
from analysis.results.people.perceived import DECIDES

TITLE = (
    "Ratings with an intent less without, 95 % interval clustered by group (rows with it); filled: different after"
    " the correction over the table"
)
LETTERS = 30  # of an intent's name
MOST = 40  # intents and ratings of a figure; the CSV has all
WIDTH, NAMES = 2.6, 2.4  # inches of a panel, and of the names at the left
ACROSS = 5  # panels, as many as the paper has ratings


def perceived_figures(expressed: pd.DataFrame, together: pd.DataFrame, out: Path, subtitle: str) -> list[FigureFiles]:
    """Draw both frames into ``out``, each beside its CSV; correlations where there are two ratings."""
    out.mkdir(parents=True, exist_ok=True)
    figures = [write_figure_files(expressed, out / "perceived", f"{TITLE}\n{subtitle}", draw_expressed)]
    if together["rating"].nunique() > 1:
        title = f"Correlation of ratings over groups (Spearman)\n{subtitle}"
        figures.append(write_figure_files(together, out / "correlations", title, draw_correlations))
    return figures


def draw_expressed(frame: pd.DataFrame, title: str) -> Figure:
    """A panel for each rating with a line for each intent, the first on top, on one scale of differences."""
    ratings, intents = (list(dict.fromkeys(frame[name]))[:MOST] for name in ("rating", "intent"))
    across = min(ACROSS, len(ratings))
    down = -(-len(ratings) // across)
    figure = figure_of(max(6.0, NAMES + WIDTH * across), 1.0 + down * (0.8 + 0.24 * len(intents)), title)
    axes = figure.subplots(down, across, squeeze=False, sharex=True, sharey=True)
    for number, panel in enumerate(axes.flat):
        if number >= len(ratings):
            panel.set_visible(False)
            continue
        rows = frame[frame["rating"] == ratings[number]].set_index("intent").loc[intents]
        _differences(panel, rows)
        panel.set_yticks(np.arange(len(intents)), [shortened(name, LETTERS) for name in intents])
        panel.set_title(shortened(ratings[number], LETTERS), fontsize=9)
        panel.set_xlabel("difference in mean rating", fontsize=8.5)
        make_plain(panel)
        panel.tick_params(labelbottom=True)
    axes[0, 0].invert_yaxis()
    return figure


def draw_correlations(frame: pd.DataFrame, title: str) -> Figure:
    """The heatmap of correlations over groups."""
    return draw_map(frame.rename(columns={"rating": "scale"}), title)


def _differences(axes: Axes, rows: pd.DataFrame) -> None:
    """Differences with their intervals, and how many rows have the intent at the right."""
    axes.axvline(0, color=PALE, lw=0.8, zorder=0)
    for place, row in enumerate(rows.itertuples()):
        sure = getattr(row, DECIDES) <= LEVEL
        if np.isfinite(row.low):
            axes.plot([row.low, row.high], [place, place], color=COLOUR, lw=1.6 if sure else 0.9)
        axes.plot(row.difference, place, marker="o", ms=4.5, color=COLOUR, mfc=COLOUR if sure else "white")
        axes.annotate(
            f"{row.rows_with}", (1.0, place), xycoords=("axes fraction", "data"), fontsize=7, color="0.4", va="center"
        )
