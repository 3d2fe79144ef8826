"""Every figure whatever its names hold: dollars, hundreds of letters, control characters; and inks that stand out."""

from __future__ import annotations

from functools import partial
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colors import to_rgba
from matplotlib.patches import Rectangle
from matplotlib.text import Text

from analysis.figures import heatmaps
from analysis.figures.corpus import draw_map
from analysis.figures.drawing import Drawing, luminance, plain_text_settings, shortened, write_figure_files
from analysis.figures.heatmaps import Square, heatmap, heatmap_of
from analysis.figures.paper_figures import (
    choices_of_slopes,
    cosine_map,
    difference_bars,
    importance_bars,
    percent_map,
    rank_map,
    theme_bars,
)
from analysis.manuscript.figures import fitted, sheets
from analysis.manuscript.layout import VENUES
from analysis.sections.compare import scatter

NAMES = {
    "hostile": "Costs $5 \\badmacro{$ a day $$, red\x1b[31m bell\x07 turned\u202e over",
    "long": "x" * 140 + " A title of very many words" * 6,
}


def heat(name: str, n: int = 5) -> pd.DataFrame:
    """Squares of ``n`` targets alone and on each other, whose gains go over the whole scale and beyond."""
    rng = np.random.default_rng(1)
    rows = [Square("", f"t{x}", "none", f"{name} {x}", "baseline", 0.5) for x in range(n)]
    for y in range(n):
        for x in range(n):
            status = ("done", "missing", "undefined", "not_planned")[0 if x != y else 1 + x % 3]
            gain = float(rng.normal(0, 6)) if status == "done" else float("nan")
            score = 0.5 if status == "done" else float("nan")
            rows.append(Square(f"t{y}", f"t{x}", f"{name} {y}", f"{name} {x}", status, score, gain, x > y))
    return pd.DataFrame(rows, columns=list(Square._fields))


def similar(name: str, n: int = 6) -> pd.DataFrame:
    rows = [
        {"intermediate": f"t{y}", "target": f"t{x}", "similarity": value, "rank": float(1 + (x + y) % n)}
        for (y, x), value in np.ndenumerate(np.linspace(0, 1, n * n).reshape(n, n))
    ]
    return pd.DataFrame(rows).assign(row=lambda one: name + one.intermediate, column=lambda one: name + one.target)


def correlated(name: str, n: int = 8) -> pd.DataFrame:
    values = np.linspace(-1, 1, n * n)
    pairs = [(f"{name}{y}", f"{name}{x}") for y in range(n) for x in range(n)]
    return pd.DataFrame(pairs, columns=["scale", "other"]).assign(rho=values, n=9)


def contaminated(n: int = 8) -> pd.DataFrame:
    shares = np.linspace(0, 1, n * n).reshape(n, n)
    rows = [(f"t{y}", f"t{x}", shares[y, x], 0.0, 0.0) for y in range(n) for x in range(n)]
    return pd.DataFrame(rows, columns=["intermediate", "target", "share_group", "share_pair", "share_near"])


def bars(name: str) -> pd.DataFrame:
    rows = [(f"{name} series", f"f{x}", f"{name} {x}", 0.1 * x, 0.02, x == 2) for x in range(4)]
    frame = pd.DataFrame(rows, columns=["series", "feature", "title", "importance", "sd", "is_stand_in"])
    return frame.assign(by_chance=[0.1, 0.2, float("nan"), 0.2], arrangements=[39, 39, 0, 39])


def themes(name: str) -> pd.DataFrame:
    rows = [
        {"panel": name, "role": role, "theme": f"{name} {x}", "n_tested": 9, "gains": 4, "harms": 2}
        for role in ("intermediate", "target")
        for x in range(3)
    ]
    return pd.DataFrame(rows)


def apart() -> pd.DataFrame:
    rows = [(one, "A", "B", size, 3) for one in ("definition", "link", "mine") for size in (-1.0, 0.0, 2.0)]
    return pd.DataFrame(rows, columns=["construct", "rater_a", "rater_b", "difference", "n_tasks"])


def percents(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.rename(columns={"points": "percent"})


def compared() -> pd.DataFrame:
    facts = {"points_a": [1.0, 2.0, 3.0], "points_b": [2.0, 1.0, 0.0], "metric": "macro_f1", "is_flipped": [True] * 3}
    return pd.DataFrame(facts).assign(conclusion_a="gain", conclusion_b="harm")


def chosen(name: str) -> pd.DataFrame:
    """Slopes of two ratings under two choices, one of them without a rater."""
    rows = [
        {"outcome": "points", "weights": "equal", "cells": "all", "without_rater": rater, "title": f"{k} {name}"}
        | {"slope": 1.0 + k, "p": 0.2}
        for rater in ("", name)
        for k in range(2)
    ]
    return pd.DataFrame(rows)


def contrasts(axes: Axes) -> list[float]:
    """The ratio of luminances (WCAG 2) of every text in a square with what is drawn below it."""
    mesh = next(one for one in axes.collections if isinstance(one, QuadMesh))
    across = np.asarray(mesh.get_coordinates()).shape[1] - 1
    faces = {(i % across, i // across): face for i, face in enumerate(mesh.get_facecolor())}
    faces |= {
        (int(one.get_x()), int(one.get_y())): to_rgba(one.get_facecolor())
        for one in axes.patches
        if isinstance(one, Rectangle)
    }
    found = []
    for text in axes.texts:
        place = tuple(int(part) for part in text.get_position())
        light = luminance(np.array([faces[place], to_rgba(text.get_color())]))
        found.append((max(light) + 0.05) / (min(light) + 0.05))
    return found


@pytest.mark.parametrize(
    "draw",
    [
        lambda: heatmap(heat("t", 18), title="", metric="macro_f1", limit=8.0),
        lambda: percent_map(percents(heat("t", 18)), ""),
        lambda: cosine_map(similar("t", 18), ""),
        lambda: rank_map(similar("t", 18), ""),
        lambda: draw_map(correlated("t", 12), ""),
        lambda: heatmaps._contamination_heatmap(
            contaminated()
            .assign(w=lambda one: 100 * one.share_group)
            .pivot(index="intermediate", columns="target", values="w"),
            "clean",
        ),
    ],
)
def test_every_text_in_a_square_has_a_contrast_of_four_and_a_half(draw):
    figure = draw()
    figure.canvas.draw()
    found = contrasts(figure.axes[0])
    assert len(found) > 40
    assert min(found) >= 4.5


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_any_name_is_drawn_and_the_svg_is_xml(name, tmp_path):
    pictures = {
        "heat": (heat(name), partial(heatmap, metric="macro_f1", limit=5.0)),
        "percent": (percents(heat(name)), percent_map),
        "cosine": (similar(name), cosine_map),
        "correlations": (correlated(name), draw_map),
        "importances": (bars(name), importance_bars),
        "themes": (themes(name), theme_bars),
        "differences": (apart(), difference_bars),
        "slopes": (chosen(name), choices_of_slopes),
        "compared": (compared(), lambda frame, title: scatter(frame, title, name, name)),
    }
    for stem, (frame, draw) in pictures.items():
        with plain_text_settings(stem):
            draw(frame, f"{name}\n{name}").savefig(tmp_path / f"{stem}.svg")
    write_figure_files(similar(name), tmp_path / "ranks", name, rank_map)
    for path in sorted(tmp_path.glob("*.svg")):
        text = "".join(ElementTree.parse(path).getroot().itertext())
        assert not any(letter in text for letter in "\x1b\x07\u202e"), path
    assert len(list(tmp_path.glob("*.svg"))) == 10
    if name == NAMES["hostile"]:
        assert "$" in "".join(ElementTree.parse(tmp_path / "heat.svg").getroot().itertext())


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_a_sheet_of_a_manuscript_is_drawn_whatever_its_names_are(name):
    percent = Drawing("figure-6-percent-macro-f1", "", percents(heat(name)), percent_map)
    for sheet in sheets([heatmap_of(heat(name), "", "macro_f1", "full"), percent], VENUES["acl"]):
        figure = fitted(sheet, VENUES["acl"].page if sheet.is_wide else VENUES["acl"].column, "")
        figure.canvas.draw()
        words = "".join(text.get_text() for text in figure.findobj(Text))
        assert words and not any(letter in words for letter in "\x1b\x07\u202e")


def test_two_tasks_of_one_title_have_a_square_each():
    frame = heat("t").assign(row="same", column="same")
    figure = percent_map(percents(frame), "")
    assert len(figure.axes[0].get_xticks()) == 5


def test_a_map_without_a_finished_pair_is_drawn_without_a_scale():
    frame = heat("t").assign(points=np.nan)
    assert len(percent_map(percents(frame), "").axes) == 1
    assert len(heatmap(frame, title="", metric="macro_f1", limit=1.0).axes) == 1


@pytest.mark.parametrize(
    "figure",
    [lambda: difference_bars(apart(), ""), lambda: importance_bars(bars("t"), "")],
    ids=["figure 8", "figure 2"],
)
def test_no_legend_lies_over_bars(figure):
    drawn = figure()
    drawn.canvas.draw()
    assert drawn.axes[0].get_legend() is None
    legend, plot = drawn.legends[0].get_window_extent(), drawn.axes[0].get_window_extent()
    assert not legend.overlaps(plot)


def test_a_long_name_keeps_its_beginning_and_its_end():
    assert shortened("Epitome ER") == "Epitome ER"
    cut = shortened("begin" + "x" * 300 + " the end")
    assert len(cut) == 40
    assert cut.startswith("begin") and cut.endswith(" the end") and "..." in cut


def test_blue_is_what_is_positive_in_every_map():
    for figure in (
        heatmap(heat("t"), title="", metric="macro_f1", limit=8.0),
        percent_map(percents(heat("t")), ""),
        draw_map(correlated("t"), ""),
    ):
        mesh = next(one for one in figure.axes[0].collections if isinstance(one, QuadMesh))
        low, high = (mesh.to_rgba(value) for value in mesh.get_clim())
        assert low[0] > low[2], "red is what is negative"
        assert high[2] > high[0], "blue is what is positive"
