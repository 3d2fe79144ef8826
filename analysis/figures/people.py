"""Figures of what texts have to do with people: levels of scored texts by author, and ratings by what is expressed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.figures.corpus import LETTERS, draw_map, small_figures
from analysis.figures.drawing import COLOUR, PALE, FigureFiles, figure_of, make_plain, shortened, write_figure_files
from analysis.gains.significance import LEVEL
from analysis.results.people.insights import ALL
from analysis.results.people.perceived import DECIDES

INSIGHTS = {
    "over-time": "Levels over time: dark, of authors who stay, against their own first period (95 % interval);"
    " pale, of everyone",
    "by-group": "Levels by group, against the largest group (95 % interval clustered by author)",
    "by-level": "Outcome by level, against the lowest level (95 % interval clustered by author)",
}
PERCEIVED = (
    "Ratings with an intent less without, 95 % interval clustered by group (rows with it); filled: different after"
    " the correction over the table"
)
Y = "relative change (%)"
SHORT, FEW = 8, 4  # letters of a label, and labels, that stand upright beside each other
NAME = 30  # letters of an intent's name
MOST = 40  # intents and ratings of a figure; the CSV has all
WIDTH, NAMES = 2.6, 2.4  # inches of a panel, and of the names at the left
ACROSS = 5  # panels, as many as the paper has ratings


def insight_figures(parts: Mapping[str, pd.DataFrame], out: Path, subtitle: str) -> list[FigureFiles]:
    """Draw every part of what scored texts say of their authors into ``out``, each beside its CSV."""
    out.mkdir(parents=True, exist_ok=True)
    draw = {"over-time": draw_over_time, "by-group": draw_by_name, "by-level": draw_by_name}
    return [
        write_figure_files(frame, out / part, f"{INSIGHTS[part]}\n{subtitle}", draw[part])
        for part, frame in parts.items()
    ]


def draw_over_time(frame: pd.DataFrame, title: str) -> Figure:
    """The change of authors who stay with its interval, and what the mean of everyone would have said."""

    def draw(axes: Axes, rows: pd.DataFrame) -> None:
        naive = 100 * (rows["everyone"] / rows["everyone"].iloc[0] - 1)
        axes.plot(rows["period"], naive, marker="o", ms=3, lw=1, color=PALE)
        _changes(axes, rows["period"].to_numpy(), rows)
        axes.set_xticks(rows["period"], [f"{row.period} ({row.authors})" for row in rows.itertuples()])
        axes.set_xlabel("periods since the first text (authors)", fontsize=8.5)

    return small_figures(frame[frame["joined"] == ALL], title, draw, Y)


def draw_by_name(frame: pd.DataFrame, title: str) -> Figure:
    """The change of every group, or of the outcome at every level."""

    def draw(axes: Axes, rows: pd.DataFrame) -> None:
        places, names = np.arange(len(rows)), rows["group" if "group" in rows else "level"]
        _changes(axes, places, rows)
        labels = [f"{shortened(str(name), LETTERS)} ({n})" for name, n in zip(names, rows["texts"], strict=True)]
        is_long = max(map(len, labels)) > SHORT or len(rows) > FEW
        axes.set_xticks(places, labels, rotation=90 if is_long else 0)

    return small_figures(frame, title, draw, Y)


def _changes(axes: Axes, places: np.ndarray, rows: pd.DataFrame) -> None:
    """Changes with their intervals; what all others are compared with stands at 0."""
    change = rows["change"].fillna(0.0)
    spread = [change - rows["low"].fillna(change), rows["high"].fillna(change) - change]
    axes.axhline(0, color=PALE, lw=0.8, zorder=0)
    axes.errorbar(places, change, yerr=spread, fmt="o", ms=3, lw=1, color=COLOUR)


def perceived_figures(expressed: pd.DataFrame, together: pd.DataFrame, out: Path, subtitle: str) -> list[FigureFiles]:
    """Draw ratings by intent into ``out``, and of two ratings how they go together, each beside its CSV."""
    out.mkdir(parents=True, exist_ok=True)
    figures = [write_figure_files(expressed, out / "perceived", f"{PERCEIVED}\n{subtitle}", draw_expressed)]
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
    for panel in axes.flat[len(ratings) :]:
        panel.set_visible(False)
    for rating, panel in zip(ratings, axes.flat, strict=False):
        _differences(panel, frame[frame["rating"] == rating].set_index("intent").loc[intents])
        panel.set_yticks(np.arange(len(intents)), [shortened(name, NAME) for name in intents])
        panel.set_title(shortened(rating, NAME), fontsize=9)
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
