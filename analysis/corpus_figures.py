"""Figures of a scored corpus: distributions of its scales, how they go together, and how groups differ."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.corpus import correlations, group_means, is_time, read_scored, scales
from analysis.drawing import figure_of, make_plain, write_drawn
from analysis.figures import Drawn
from tasks.errors import BadInput

ACROSS = 4  # small figures side by side
BINS = 30
MOST_LABELS = 12  # of times on an axis
MOST_SCALES = 40  # of one figure; the CSV has all
COLOUR = "#2166ac"
LETTERS = 34  # of a scale's name


def corpus_figures(scored: Path, out: Path) -> list[Drawn]:
    """Draw what ``score`` has written into ``out``, each figure with its CSV; BadInput where nothing was scored."""
    frame = read_scored(scored)
    if frame.empty:
        raise BadInput(f"{scored}: no text was scored, so there is nothing to draw")
    wide = scales(frame)
    out.mkdir(parents=True, exist_ok=True)
    told = f"{scored.name}, {len(wide):,} texts; what adapters predict, not what people would say"
    drawn = [
        write_drawn(_spread(wide), out / "distributions", f"How the scales are spread\n{told}", draw_distributions),
        write_drawn(correlations(wide), out / "correlations", f"Which scales go together (Spearman)\n{told}", draw_map),
    ]
    if "group" in wide:
        what = "over time" if is_time(wide["group"].astype(str)) else "by group"
        title = f"Means {what}, with 95 % intervals over texts\n{told}"
        drawn.append(write_drawn(group_means(wide), out / "groups", title, draw_groups))
    return drawn


def _spread(wide: pd.DataFrame) -> pd.DataFrame:
    """Counts of texts in bins of every scale."""
    rows = []
    for scale in wide.columns.drop("group", errors="ignore"):
        values = wide[scale].dropna().to_numpy()
        counts, edges = np.histogram(values, bins=BINS)
        rows += [
            {"scale": scale, "low": low, "high": high, "texts": int(count)}
            for count, low, high in zip(counts, edges[:-1], edges[1:], strict=True)
        ]
    return pd.DataFrame(rows)


def draw_distributions(frame: pd.DataFrame, title: str) -> Figure:
    """A histogram for each scale."""

    def draw(axes: Axes, rows: pd.DataFrame) -> None:
        axes.bar(rows["low"], rows["texts"], width=rows["high"] - rows["low"], align="edge", color=COLOUR)

    return _small_figures(frame, title, draw, "texts")


def draw_groups(frame: pd.DataFrame, title: str) -> Figure:
    """Means and intervals of all groups, a small figure for each scale."""

    def draw(axes: Axes, rows: pd.DataFrame) -> None:
        places = np.arange(len(rows))
        spread = [rows["mean"] - rows["low"].fillna(rows["mean"]), rows["high"].fillna(rows["mean"]) - rows["mean"]]
        axes.errorbar(places, rows["mean"], yerr=spread, fmt="o", ms=3, lw=1, color=COLOUR)
        step = math.ceil(len(rows) / MOST_LABELS) if is_time(rows["group"]) else 1
        labels = [_short(name) for name in rows["group"]][::step]
        axes.set_xticks(places[::step], labels, rotation=90)

    return _small_figures(frame, title, draw, "mean")


def _small_figures(frame: pd.DataFrame, title: str, draw: Callable[[Axes, pd.DataFrame], None], label: str) -> Figure:
    names = list(dict.fromkeys(frame["scale"]))[:MOST_SCALES]
    down = math.ceil(len(names) / ACROSS)
    figure = figure_of(3 * min(ACROSS, len(names)), 1 + 2.2 * down, title)
    axes = figure.subplots(down, min(ACROSS, len(names)), squeeze=False)
    for place, one in enumerate(axes.flat):
        if place >= len(names):
            one.set_visible(False)
            continue
        draw(one, frame[frame["scale"] == names[place]])
        one.set_title(_short(names[place]), fontsize=8.5)
        one.set_ylabel(label, fontsize=8.5)
        make_plain(one)
    return figure


def draw_map(frame: pd.DataFrame, title: str) -> Figure:
    """A heatmap of correlations, scales in the order of their tasks."""
    names = list(dict.fromkeys(frame["scale"]))[:MOST_SCALES]
    matrix = frame.pivot(index="scale", columns="other", values="rho").loc[names, names]
    size = 3 + 0.32 * len(names)
    figure = figure_of(max(5.0, size + 1.5), max(4.0, size), title)
    axes = figure.subplots()
    labels = [_short(name) for name in names]
    sns.heatmap(
        matrix,
        ax=axes,
        vmin=-1,
        vmax=1,
        cmap="RdBu_r",
        square=True,
        xticklabels=labels,
        yticklabels=labels,
        annot=len(names) <= MOST_SCALES // 2,
        fmt=".2f",
        annot_kws={"fontsize": 6.5},
        cbar_kws={"label": "Spearman's rho", "shrink": 0.6},
    )
    axes.set(xlabel="", ylabel="")
    axes.tick_params(labelsize=8)
    return figure


def _short(name: object) -> str:
    text = str(name).replace("$", r"\$")  # no mathematics
    return text if len(text) <= LETTERS else f"{text[: LETTERS - 3]}..."
