"""The profile of the likelihood: how well each slope on a rating agrees with the gains."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from analysis.figures.drawing import figure_of, make_plain, shortened
from analysis.gains.significance import LEVEL
from analysis.tables import signed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DEEPEST = 6.0  # drop of the log likelihood that is drawn
INK, BAND = "#2166ac", "#d1e5f0"


def likelihood_profile(profile: pd.DataFrame, title: str) -> Figure:
    """One panel per rating: the log likelihood below its maximum at every slope, those not rejected as a band."""
    names = list(dict.fromkeys(profile.construct))
    figure = figure_of(2.4 + 2.3 * len(names), 3.4, title)
    panels = figure.subplots(1, len(names), sharey=True, squeeze=False)[0]
    for axes, name in zip(panels, names, strict=True):
        own = profile[profile.construct == name]
        kept = own[own.p > LEVEL]
        if len(kept):
            axes.axvspan(kept.slope.min(), kept.slope.max(), color=BAND, linewidth=0, label="not rejected at 5 %")
        axes.plot(own.slope, -own["drop"], color=INK, linewidth=1.6, label="log likelihood")
        axes.axvline(0, color="0.35", linewidth=0.9, linestyle="--", label="no slope")
        best = own.slope.iloc[int(own["drop"].to_numpy().argmin())]
        axes.set_title(f"{shortened(own.title.iloc[0], 26)}\n{signed(float(best), 2)}", fontsize=9)
        shown = own[own["drop"] <= DEEPEST]
        axes.set_xlim(min(shown.slope.min(), 0), max(shown.slope.max(), 0))
        axes.set_ylim(-DEEPEST, 0.3)
        make_plain(axes)
    panels[0].set_ylabel("log likelihood, 0 at its maximum", fontsize=8.5)
    middle = panels[(len(names) - 1) // 2]
    middle.set_xlabel("points of gain per step by which the intermediate is rated higher", fontsize=8.5)
    handles = panels[0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    return figure
