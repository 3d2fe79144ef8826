"""What a budget of transfers costs: the regret of every order of training, each beside a random one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pandas as pd

from analysis.figures.drawing import figure_of, make_plain, shortened, whole_numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "What a budget of transfers costs"
RANDOM = "random"
MARGIN = 1.05  # of the axis, by the highest value on it
ACROSS = 4  # panels beside each other
INK, BAND, CHANCE = "#2166ac", "#d1e5f0", "0.25"


def budget_curves(frame: pd.DataFrame, title: str) -> Figure:
    """One panel per order: regret by transfers per target with its limits, and that of a random order as dashes."""
    names = [name for name in dict.fromkeys(frame.order) if name != RANDOM]
    across = min(ACROSS, len(names))
    down = math.ceil(len(names) / across)
    figure = figure_of(1.2 + 2.2 * max(across, 2), 1.5 + 2.1 * down, title)
    panels = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False).ravel()
    for axes, name in zip(panels, names, strict=False):
        _draw(axes, frame[frame.order == name], name)
    highest = frame[["high", "regret", "chance"]].max().max()
    panels[0].set_ylim(0, MARGIN * highest if highest > 0 else 1)  # all panels share it
    for axes in panels[len(names) :]:
        axes.set_visible(False)
    for axes in panels[max(0, len(names) - across) : len(names)]:
        axes.tick_params(labelbottom=True)  # the lowest of its column that is there
    for first in panels[::across]:
        first.set_ylabel("regret, points", fontsize=8.5)
    lowest = panels[(down - 1) * across : len(names)]
    lowest[(len(lowest) - 1) // 2].set_xlabel("transfers trained per target", fontsize=8.5)
    handles = panels[0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    return figure


def _draw(axes: Axes, own: pd.DataFrame, name: str) -> None:
    axes.fill_between(own.transfers, own.low, own.high, color=BAND, linewidth=0, label="95 %, targets resampled")
    axes.plot(own.transfers, own.regret, color=INK, linewidth=1.6, marker="o", markersize=3, label="this order")
    axes.plot(own.transfers, own.chance, color=CHANCE, linewidth=1.1, linestyle="--", label="a random order")
    axes.set_title(shortened(name.replace("_", " "), 26), fontsize=9)
    axes.xaxis.set_major_locator(whole_numbers(6))
    make_plain(axes)
