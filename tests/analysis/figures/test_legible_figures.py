"""Every figure is legible whatever its names are, and recomputed from the file beside it."""

from collections.abc import Callable
from functools import partial
from itertools import combinations
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import QuadMesh
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.text import Text

from analysis.figures import corpus, drawing, heatmaps, paper_figures
from analysis.figures.boards import board_frame, board_plan, draw_context
from analysis.figures.corpus import draw_map
from analysis.figures.drawing import Drawing, pictures
from analysis.figures.heatmaps import Square, heatmap, heatmap_of, write_map
from analysis.figures.paper_figures import (
    choices_of_slopes,
    cosine_map,
    difference_bars,
    draw_rows,
    importance_bars,
    likelihood_profile,
    percent_map,
    rank_map,
    theme_bars,
)
from analysis.figures.plan import figure_of_plan
from analysis.figures.uncertainty_map import map_plan
from analysis.manuscript.figures import fitted, sheets
from analysis.manuscript.layout import VENUES
from analysis.ratings.agreement import differences
from analysis.results.comparisons import BY_TASK
from analysis.results.published import results
from analysis.results.similarity import SIMILARITIES
from analysis.sections.compare import scatter
from tests.analysis.figures.test_boards import made_up_board
from tests.analysis.figures.test_uncertainty_map import plan_of
from tests.support.made_up_gains import made_up_manifest

NAMES = {
    "hostile": "Costs $5 \\badmacro{$ a day $$, red\x1b[31m bell\x07 turned\u202e over",
    "long": "x" * 140 + " A title of very many words" * 6,
}


def heat(name, n=5):
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


def similar(name, n=6):
    rows = [
        {"intermediate": f"t{y}", "target": f"t{x}", "similarity": value, "rank": float(1 + (x + y) % n)}
        for (y, x), value in np.ndenumerate(np.linspace(0, 1, n * n).reshape(n, n))
    ]
    return pd.DataFrame(rows).assign(row=lambda one: name + one.intermediate, column=lambda one: name + one.target)


def correlated(name, n=8):
    values = np.linspace(-1, 1, n * n)
    pairs = [(f"{name}{y}", f"{name}{x}") for y in range(n) for x in range(n)]
    return pd.DataFrame(pairs, columns=["scale", "other"]).assign(rho=values, n=9)


def contaminated(n=8):
    shares = np.linspace(0, 1, n * n).reshape(n, n)
    rows = [(f"t{y}", f"t{x}", shares[y, x], 0.0, 0.0) for y in range(n) for x in range(n)]
    return pd.DataFrame(rows, columns=["intermediate", "target", "share_group", "share_pair", "share_near"])


def bars(name):
    rows = [(f"{name} series", f"f{x}", f"{name} {x}", 0.1 * x, 0.02, x == 2) for x in range(4)]
    frame = pd.DataFrame(rows, columns=["series", "feature", "title", "importance", "sd", "is_stand_in"])
    return frame.assign(by_chance=[0.1, 0.2, float("nan"), 0.2], arrangements=[39, 39, 0, 39])


def themes(name):
    rows = [
        {"panel": name, "role": role, "theme": f"{name} {x}", "n_tested": 9, "gains": 4, "harms": 2}
        for role in ("intermediate", "target")
        for x in range(3)
    ]
    return pd.DataFrame(rows)


def apart():
    rows = [(one, "A", "B", size, 3) for one in ("definition", "link", "mine") for size in (-1.0, 0.0, 2.0)]
    return pd.DataFrame(rows, columns=["construct", "rater_a", "rater_b", "difference", "n_tasks"])


def percents(frame):
    return frame.rename(columns={"points": "percent"})


def compared():
    facts = {"points_a": [1.0, 2.0, 3.0], "points_b": [2.0, 1.0, 0.0], "metric": "macro_f1", "is_flipped": [True] * 3}
    return pd.DataFrame(facts).assign(conclusion_a="gain", conclusion_b="harm")


def chosen(name):
    """Slopes of two ratings under two choices, one of them without a rater."""
    rows = [
        {"outcome": "points", "weights": "equal", "cells": "all", "without_rater": rater, "title": f"{k} {name}"}
        | {"slope": 1.0 + k, "p": 0.2}
        for rater in ("", name)
        for k in range(2)
    ]
    return pd.DataFrame(rows)


# The frame and the function of every figure that matplotlib lays out, of tasks or texts that are called like this.
MADE: dict[str, Callable[[str], tuple[pd.DataFrame, Callable[[pd.DataFrame, str], Figure]]]] = {
    "heatmap": lambda name: (heat(name), partial(heatmap, metric="macro_f1", limit=5.0)),
    "percent": lambda name: (percents(heat(name)), percent_map),
    "cosine": lambda name: (similar(name), cosine_map),
    "ranks": lambda name: (similar(name), rank_map),
    "correlations": lambda name: (correlated(name), draw_map),
    "importances": lambda name: (bars(name), importance_bars),
    "themes": lambda name: (themes(name), theme_bars),
    "differences": lambda _: (apart(), difference_bars),
    "slopes": lambda name: (chosen(name), choices_of_slopes),
    "compared": lambda name: (compared(), lambda frame, title: scatter(frame, title, name, name)),
}


def contrasts(axes):
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
        light = drawing.luminance(np.array([faces[place], to_rgba(text.get_color())]))
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
    for stem, made in MADE.items():
        frame, draw = made(name)
        with drawing.plain_text_settings(stem):
            draw(frame, f"{name}\n{name}").savefig(tmp_path / f"{stem}.svg")
    drawing.write_figure_files(similar(name), tmp_path / "written", name, rank_map)
    for path in sorted(tmp_path.glob("*.svg")):
        text = "".join(ElementTree.parse(path).getroot().itertext())
        assert not any(letter in text for letter in "\x1b\x07\u202e"), path
    assert len(list(tmp_path.glob("*.svg"))) == 11
    if name == NAMES["hostile"]:
        assert "$" in "".join(ElementTree.parse(tmp_path / "heatmap.svg").getroot().itertext())


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
    assert drawing.shortened("Epitome ER") == "Epitome ER"
    cut = drawing.shortened("begin" + "x" * 300 + " the end")
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


# Figures that matplotlib lays out: every text inside the sheet, no two over each other, and legible on its ground.


def texts_of(figure):
    """Every text that is drawn; a tick's label only between the limits of its axis."""
    figure.canvas.draw()
    beyond = {id(label) for axes in figure.axes for axis in (axes.xaxis, axes.yaxis) for label in labels_beyond(axis)}
    texts = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]
    return [text for text in texts if id(text) not in beyond]


def labels_beyond(axis):
    """The labels of an axis whose ticks are not drawn."""
    low, high = sorted(axis.get_view_interval())
    ticks = [*axis.get_major_ticks(), *axis.get_minor_ticks()]
    hidden = [tick for tick in ticks if not axis.axes.axison or not low - 1e-9 <= tick.get_loc() <= high + 1e-9]
    return [label for tick in hidden for label in (tick.label1, tick.label2)]


@pytest.mark.parametrize("name", MADE)
def test_texts_stand_inside_the_sheet_apart_from_each_other_and_dark_on_paper(name):
    frame, draw = MADE[name]("A task")
    texts = texts_of(figure := draw(frame, "A title"))
    width, height = figure.canvas.get_width_height()
    boxes = [text.get_window_extent() for text in texts]
    assert len(texts) > 5
    for text, box in zip(texts, boxes, strict=True):
        assert box.x0 >= -1 and box.y0 >= -1 and box.x1 <= width + 1 and box.y1 <= height + 1, text
        if not any(text in axes.texts for axes in figure.axes):  # those in squares have a test of their own
            dark, light = drawing.luminance(np.array([to_rgba(text.get_color()), to_rgba("white")]))
            assert (light + 0.05) / (dark + 0.05) >= 4.5, text
    flat = [(text, box) for text, box in zip(texts, boxes, strict=True) if text.get_rotation() % 90 == 0]
    for (first, a), (second, b) in combinations(flat, 2):
        across, down = min(a.x1, b.x1) - max(a.x0, b.x0), min(a.y1, b.y1) - max(a.y0, b.y0)
        assert across <= 1 or down <= 1, (first.get_text(), second.get_text())


# Every figure is drawn again from the CSV beside it, as any reader would, and is the same picture.

RNG = np.random.default_rng(7)


def published_similarities(name):
    """Squares of made-up similarities of six published tasks; one task was not measured."""
    pairs = results().gains[["intermediate", "target"]]
    few = {"condolence", *pairs.target.unique()[:6]}
    frame = pairs[pairs.isin(few).all(axis=1)].reindex(columns=list(SIMILARITIES))
    measured = ~frame[["intermediate", "target"]].eq("condolence").any(axis=1)
    frame[name] = np.where(measured, RNG.uniform(size=len(frame)), np.nan)
    return paper_figures.similarity_squares(results(), frame, name)


def mapped():
    """Made-up places of rows of ten classes, of which there are more than colours."""
    classes = [f"class {number}" for number in RNG.integers(10, size=80)]
    columns = {"x": RNG.normal(size=80), "y": RNG.normal(size=80), "gold": classes, "predicted": classes[::-1]}
    return pd.DataFrame(columns)


def profile():
    slopes = np.linspace(-1.2, 1.2, 9)
    parts = [
        pd.DataFrame({"construct": name, "title": name.title(), "slope": slopes})
        .assign(drop=lambda one: 2.1 * (one.slope - 0.31) ** 2)
        .assign(p=lambda one: np.exp(-one["drop"]))
        for name in ("definition", "link")
    ]
    return pd.concat(parts, ignore_index=True)


def slopes_by_choice():
    """Two ratings under three choices, the second of which cannot be tested when rater B's ratings are left out."""
    rows = [
        {"outcome": outcome, "weights": "inverse variance", "cells": "all", "without_rater": rater}
        | {"construct": name, "title": name.title(), "why": "" if known else "no task has ratings"}
        | {"slope": RNG.normal() if known else np.nan, "p": RNG.uniform(0.01, 1) if known else np.nan}
        for outcome, rater in (("points", ""), ("percent", ""), ("points", "B"))
        for name, known in (("definition", True), ("link", rater == ""))
    ]
    return pd.DataFrame(rows)


def texts():
    """Two scales of 70 texts in a large group, a middle one, and two of a few texts each."""
    groups = ["large"] * 40 + ["middle"] * 21 + ["few"] * 8 + ["lone"]
    shares = {"distress": RNG.normal(size=70), "kind: yes": RNG.uniform(0.01, 0.99, 70)}
    return pd.DataFrame({"group": groups, **shares})


def board():
    manifest = made_up_manifest(4)
    return board_frame(made_up_board(manifest), manifest, "full")


def sensitivities():
    """Six tasks, of which one has a single gain, without an interval."""
    rng, rows = np.random.default_rng(5), []
    for part in ("teaches", "learns"):
        for place in range(6):
            mean, lost = rng.normal(), float(place)
            ends = (mean - 1, mean + 1) if place else (np.nan, np.nan)
            values = (part, f"task_{place}", lost, lost - 2, lost + 2, mean, *ends, 5, 0.4)
            rows.append(dict(zip(BY_TASK, values, strict=True)))
    return pd.DataFrame(rows).assign(title=[row["task"].replace("task_", "Task ") for row in rows])


REDRAWN = {
    **{name: partial(MADE[name], "A task") for name in ("heatmap", "importances", "themes", "compared")},
    "figures 6 and 7": lambda: (paper_figures.percent_squares(results(), "pearson_r"), paper_figures.percent_map),
    "figure 8": lambda: (differences(results()), paper_figures.difference_bars),
    "figure 9": lambda: (published_similarities("data_similarity"), paper_figures.cosine_map),
    "figure 10": lambda: (published_similarities("task_similarity"), paper_figures.rank_map),
    "profile": lambda: (profile(), likelihood_profile),
    "slopes by choice": lambda: (slopes_by_choice(), choices_of_slopes),
    "context": lambda: (sensitivities(), draw_context),
    "rows": lambda: (mapped(), draw_rows),
    "correlations": lambda: (corpus.correlations(texts()), corpus.draw_map),
    "groups": lambda: (corpus.group_means(texts()), corpus.draw_groups),
    "leaderboard": lambda: (board(), partial(figure_of_plan, planner=board_plan)),
    "map": lambda: (plan_of(6, missing=2)[1], partial(figure_of_plan, planner=map_plan)),
    "distributions": lambda: (corpus._spread(texts()), corpus.draw_distributions),
}


@pytest.mark.parametrize("made", REDRAWN.values(), ids=REDRAWN)
def test_a_figure_is_recomputed_from_the_file_beside_it(made, tmp_path):
    frame, draw = made()
    files = drawing.write_figure_files(frame, tmp_path / "figure", "A title, with a comma", draw, dpi=40)
    read = pd.read_csv(files.png.with_suffix(".csv"))
    assert list(read.columns) == list(frame.columns) and len(read) == len(frame) > 1
    with drawing.plain_text_settings("figure"):
        again = pictures(draw(read, files.title), 40)
        numbers = read.select_dtypes("number").columns
        changed = drawing.file_of(draw(read.assign(**{name: 2 * read[name] for name in numbers}), files.title), "svg")
    assert again == {"png": files.png.read_bytes(), "svg": files.svg.read_bytes()}
    assert changed != again["svg"], "a figure that shows nothing of its frame would pass too"


def test_the_map_of_contamination_is_recomputed_from_its_frame(tmp_path):
    first = write_map(contaminated(), tmp_path / "map", "clean")
    contaminated().to_csv(tmp_path / "map.csv", index=False)
    bytes_of = [path.read_bytes() for path in first]
    write_map(pd.read_csv(tmp_path / "map.csv"), tmp_path / "map", "clean")
    assert bytes_of == [path.read_bytes() for path in first]
