"""Figures of a scored corpus: distributions of its scales, how they go together, and how groups differ."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.corpus import FEWEST, correlations, group_means, group_names, is_share, is_time, read_scored, scales
from analysis.drawing import figure_of, make_plain, write_drawn
from analysis.figures import COLOURS, Drawn
from analysis.legible import make_legible, shortened
from analysis.markdown import fixed
from tasks.errors import BadInput

ACROSS = 4  # small figures side by side
BINS = 30
MOST_LABELS = 12  # of times on an axis
MOST_SCALES = 40  # of one figure; the CSV has all
COLOUR, PALE = "0.25", "0.65"  # blue and red are for what is positive and negative
LETTERS = 34  # of a scale's name
SHARES = (-0.03, 1.03)  # of a probability's axis, so that marks at its ends are whole


def corpus_figures(scored: Path, out: Path) -> list[Drawn]:
    """Draw what ``score`` has written into ``out``, each figure with its CSV; BadInput where nothing was scored."""
    frame = read_scored(scored)
    if frame.empty:
        raise BadInput(f"{scored}: no text was scored, so there is nothing to draw")
    wide = scales(frame)
    told = (
        f"{scored.name}, {len(wide):,} text{'s' * (len(wide) != 1)}; what adapters predict, not what people would say"
    )
    drawn = [
        write_drawn(_spread(wide), out / "distributions", f"How the scales are spread\n{told}", draw_distributions),
        write_drawn(correlations(wide), out / "correlations", f"Which scales go together (Spearman)\n{told}", draw_map),
    ]
    if "group" in wide:
        what = "over time" if is_time(wide["group"].astype(str)) else "by group"
        title = (
            f"Means {what} (number of texts), with 95 % intervals over texts; of fewer than {FEWEST} each text\n{told}"
        )
        drawn.append(write_drawn(group_means(wide), out / "groups", title, partial(draw_groups, texts=wide)))
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


def draw_groups(frame: pd.DataFrame, title: str, texts: pd.DataFrame) -> Figure:
    """Means and intervals of all groups, a small figure for each scale; of a small group each of the ``texts``."""
    names = group_names(texts)

    def draw(axes: Axes, rows: pd.DataFrame) -> None:
        scale = str(rows["scale"].iloc[0])
        for place, one in enumerate(rows.itertuples()):
            if one.n < FEWEST:
                values = texts.loc[names == one.group, scale].dropna()
                axes.scatter([place] * len(values), values, s=5, color=PALE, zorder=1)
        places = np.arange(len(rows))
        spread = [rows["mean"] - rows["low"].fillna(rows["mean"]), rows["high"].fillna(rows["mean"]) - rows["mean"]]
        axes.errorbar(places, rows["mean"], yerr=spread, fmt="o", ms=3, lw=1, color=COLOUR)
        step = math.ceil(len(rows) / MOST_LABELS) if is_time(rows["group"]) else 1
        labels = [f"{shortened(one.group, LETTERS)} ({one.n})" for one in rows.itertuples()][::step]
        if is_share(scale):
            axes.set_ylim(*SHARES)
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
        one.set_title(shortened(names[place], LETTERS), fontsize=8.5)
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
    labels = [shortened(name, LETTERS) for name in names]
    numbers = matrix.map(lambda rho: "" if np.isnan(rho) else fixed(rho, 2))
    sns.heatmap(
        matrix,
        ax=axes,
        vmin=-1,
        vmax=1,
        cmap=COLOURS,
        square=True,
        xticklabels=labels,
        yticklabels=labels,
        annot=numbers if len(names) <= MOST_SCALES // 2 else False,
        fmt="",
        annot_kws={"fontsize": 6.5},
        cbar_kws={"label": "Spearman's rho", "shrink": 0.6},
    )
    make_legible(axes)
    axes.set(xlabel="", ylabel="")
    axes.tick_params(labelsize=8)
    return figure
