"""Figures that matplotlib lays out: every text inside the sheet, no two over each other, and legible on its ground."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.text import Text

from analysis.figures import paper_figures
from analysis.figures.corpus import draw_map
from analysis.figures.drawing import luminance
from analysis.figures.heatmaps import heatmap
from analysis.sections.compare import scatter
from tests.analysis.figures.test_legible_figures import (
    apart,
    bars,
    compared,
    correlated,
    heat,
    percents,
    similar,
    themes,
)

FIGURES = {
    "heatmap": lambda: heatmap(heat("A task", 6), title="Gains", metric="macro_f1", limit=8.0),
    "percent": lambda: paper_figures.percent_map(percents(heat("A task", 6)), "Gains"),
    "cosine": lambda: paper_figures.cosine_map(similar("A task"), "Similarity"),
    "ranks": lambda: paper_figures.rank_map(similar("A task"), "Similarity"),
    "correlations": lambda: draw_map(correlated("scale"), "Scales"),
    "importances": lambda: paper_figures.importance_bars(bars("A feature"), "Importances"),
    "themes": lambda: paper_figures.theme_bars(themes("direct"), "Themes"),
    "differences": lambda: paper_figures.difference_bars(apart(), "Differences"),
    "compared": lambda: scatter(compared(), "Compared", "first", "second"),
}


def texts_of(figure: Figure) -> list:
    """Every text that is drawn; a tick's label only between the limits of its axis."""
    figure.canvas.draw()
    beyond = {id(label) for axes in figure.axes for axis in (axes.xaxis, axes.yaxis) for label in labels_beyond(axis)}
    texts = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]
    return [text for text in texts if id(text) not in beyond]


def labels_beyond(axis) -> list:
    """The labels of an axis whose ticks are not drawn."""
    low, high = sorted(axis.get_view_interval())
    ticks = [*axis.get_major_ticks(), *axis.get_minor_ticks()]
    hidden = [tick for tick in ticks if not axis.axes.axison or not low - 1e-9 <= tick.get_loc() <= high + 1e-9]
    return [label for tick in hidden for label in (tick.label1, tick.label2)]


@pytest.mark.parametrize("draw", FIGURES.values(), ids=FIGURES)
def test_texts_stand_inside_the_sheet_apart_from_each_other_and_dark_on_paper(draw):
    figure = draw()
    texts = texts_of(figure)
    width, height = figure.canvas.get_width_height()
    boxes = [text.get_window_extent() for text in texts]
    assert len(texts) > 5
    for text, box in zip(texts, boxes, strict=True):
        assert box.x0 >= -1 and box.y0 >= -1 and box.x1 <= width + 1 and box.y1 <= height + 1, text
        if not any(text in axes.texts for axes in figure.axes):  # those in squares have a test of their own
            dark, light = luminance(np.array([to_rgba(text.get_color()), to_rgba("white")]))
            assert (light + 0.05) / (dark + 0.05) >= 4.5, text
    flat = [(text, box) for text, box in zip(texts, boxes, strict=True) if text.get_rotation() % 90 == 0]
    for (first, a), (second, b) in combinations(flat, 2):
        across, down = min(a.x1, b.x1) - max(a.x0, b.x0), min(a.y1, b.y1) - max(a.y0, b.y0)
        assert across <= 1 or down <= 1, (first.get_text(), second.get_text())
