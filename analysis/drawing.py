"""What the paper's figures have in common: their size and title, plain axes, and how they are written."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from analysis.figures import Drawn
from analysis.frames import write_csv, write_figure
from analysis.legible import written_plainly
from tasks.plain_text import harmless

LETTERS_PER_INCH = 11  # of a title, so that none is cut


def figure_of(width: float, height: float, title: str) -> Figure:
    """An empty figure of this size in inches with its title, wrapped."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    lines = [line for one in title.splitlines() for line in textwrap.wrap(harmless(one), int(LETTERS_PER_INCH * width))]
    figure.suptitle("\n".join(lines), fontsize=10)
    return figure


def make_plain(axes: Axes) -> None:
    """Small tick labels, and no line above or at the right."""
    axes.tick_params(labelsize=8.5)
    axes.spines[["top", "right"]].set_visible(False)


def write_drawn(frame: pd.DataFrame, stem: Path, title: str, draw: Callable[[pd.DataFrame, str], Figure]) -> Drawn:
    """Write the frame as CSV and its figure as SVG and PNG; equal frames give equal bytes."""
    write_csv(frame, stem)
    drawn = Drawn(title, stem.with_name(f"{stem.name}.png"), stem.with_name(f"{stem.name}.svg"))
    with written_plainly(stem.name):
        figure = draw(frame, title)
        write_figure(figure, drawn.svg, metadata={"Date": None})
        write_figure(figure, drawn.png, dpi=200)
    return drawn
