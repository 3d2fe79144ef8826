"""Figures of what scored texts say of their authors: a small figure for each scale, with intervals by author."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.figures.corpus import LETTERS, small_figures
from analysis.figures.drawing import COLOUR, PALE, FigureFiles, shortened, write_figure_files
from analysis.results.people.insights import ALL

TITLES = {
    "over-time": "Levels over time: dark, of authors who stay, against their own first period (95 % interval);"
    " pale, of everyone",
    "by-group": "Levels by group, against the largest group (95 % interval clustered by author)",
    "by-level": "Outcome by level, against the lowest level (95 % interval clustered by author)",
}
Y = "relative change (%)"
SHORT, FEW = 8, 4  # letters of a label, and labels, that stand upright beside each other


def insight_figures(parts: Mapping[str, pd.DataFrame], out: Path, subtitle: str) -> list[FigureFiles]:
    """Draw every part into ``out``, each beside its CSV."""
    out.mkdir(parents=True, exist_ok=True)
    draw = {"over-time": draw_over_time, "by-group": draw_by_group, "by-level": draw_by_level}
    return [
        write_figure_files(frame, out / part, f"{TITLES[part]}\n{subtitle}", draw[part])
        for part, frame in parts.items()
    ]


def draw_over_time(frame: pd.DataFrame, title: str) -> Figure:
    """The change of authors who stay with its interval, and what the mean of everyone would have said."""

    def draw(axes: Axes, rows: pd.DataFrame) -> None:
        naive = 100 * (rows["everyone"] / rows["everyone"].iloc[0] - 1)
        axes.plot(rows["period"], naive, marker="o", ms=3, lw=1, color=PALE)
        _marks(axes, rows["period"].to_numpy(), rows)
        axes.set_xticks(rows["period"], [f"{row.period} ({row.authors})" for row in rows.itertuples()])
        axes.set_xlabel("periods since the first text (authors)", fontsize=8.5)

    return small_figures(frame[frame["joined"] == ALL], title, draw, Y)


def draw_by_group(frame: pd.DataFrame, title: str) -> Figure:
    """The change of every group."""
    return small_figures(frame, title, lambda axes, rows: _named(axes, rows, "group"), Y)


def draw_by_level(frame: pd.DataFrame, title: str) -> Figure:
    """The change of the outcome at every level."""
    return small_figures(frame, title, lambda axes, rows: _named(axes, rows, "level"), Y)


def _named(axes: Axes, rows: pd.DataFrame, name: str) -> None:
    places = np.arange(len(rows))
    _marks(axes, places, rows)
    labels = [f"{shortened(str(part), LETTERS)} ({n})" for part, n in zip(rows[name], rows["texts"], strict=True)]
    axes.set_xticks(places, labels, rotation=90 if max(map(len, labels)) > SHORT or len(rows) > FEW else 0)


def _marks(axes: Axes, places: np.ndarray, rows: pd.DataFrame) -> None:
    """Changes with their intervals; what all others are compared with stands at 0."""
    change = rows["change"].fillna(0.0)
    spread = [change - rows["low"].fillna(change), rows["high"].fillna(change) - change]
    axes.axhline(0, color=PALE, lw=0.8, zorder=0)
    axes.errorbar(places, change, yerr=spread, fmt="o", ms=3, lw=1, color=COLOUR)
