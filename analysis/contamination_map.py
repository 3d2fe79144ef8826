"""The contamination map as a heatmap: targets across, intermediates down."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from analysis.frames import write_figure
from analysis.legible import make_legible, written_plainly


def write_map(frame: pd.DataFrame, stem: Path, title: str) -> list[Path]:
    """Draw the largest of the shares by group, context and text, and near text, as a heatmap: PNG and SVG."""
    worst = frame[["share_group", "share_pair", "share_near"]].max(axis=1)
    squares = frame.assign(worst=100 * worst).pivot(index="intermediate", columns="target", values="worst")
    order = list(dict.fromkeys(frame.target))
    squares = squares.reindex(index=order, columns=order)
    with written_plainly(stem.name):
        figure = _drawn(squares, title)
        paths = [stem.with_name(f"{stem.name}{ending}") for ending in (".png", ".svg")]
        write_figure(figure, paths[0], dpi=150)
        write_figure(figure, paths[1], metadata={"Date": None})
    return paths


def _drawn(squares: pd.DataFrame, title: str) -> Figure:
    size = 4.0 + 0.36 * len(squares)
    figure = Figure(figsize=(size + 1.5, size), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    label = "percent of the target's test items in the intermediate's training data\n"
    label += "(largest of: by group, by context and text, nearly)"
    text = squares.map(lambda value: "" if np.isnan(value) or value < 0.05 else f"{value:.0f}" if value >= 1 else "<1")
    sns.heatmap(
        squares,
        ax=axes,
        cmap="Greys",
        vmin=0,
        vmax=100,
        annot=text,
        fmt="",
        annot_kws={"size": 7},
        linewidths=0.4,
        linecolor="0.85",
        cbar_kws={"label": label, "shrink": 0.7},
    )
    make_legible(axes)
    axes.set(xlabel="target (test items)", ylabel="intermediate (training data)")
    axes.tick_params(labelsize=8)
    axes.set_title(f"What of the test items was training material, {title} splits", fontsize=10)
    return figure
