"""Every figure is drawn again from the CSV beside it, as any reader would, and is the same picture."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from analysis.figures import corpus, paper_figures
from analysis.figures.boards import board_frame, board_plan, draw_context
from analysis.figures.drawing import file_of, pictures, plain_text_settings, write_figure_files
from analysis.figures.heatmaps import heatmap, write_map
from analysis.figures.paper_figures import choices_of_slopes, draw_rows, likelihood_profile
from analysis.figures.plan import figure_of_plan
from analysis.figures.uncertainty_map import map_plan
from analysis.ratings.agreement import differences
from analysis.results.comparisons import BY_TASK
from analysis.results.published import results
from analysis.results.similarity import SIMILARITIES
from analysis.sections.compare import scatter
from tests.analysis.figures.test_boards import made_up_board
from tests.analysis.figures.test_legible_figures import bars, compared, contaminated, heat, themes
from tests.analysis.figures.test_uncertainty_map import plan_of
from tests.support.made_up_gains import made_up_manifest

Drawing = tuple[pd.DataFrame, Callable[[pd.DataFrame, str], Figure]]
RNG = np.random.default_rng(7)


def published_similarities(name: str) -> pd.DataFrame:
    """Squares of made-up similarities of six published tasks; one task was not measured."""
    pairs = results().gains[["intermediate", "target"]]
    few = {"condolence", *pairs.target.unique()[:6]}
    frame = pairs[pairs.isin(few).all(axis=1)].reindex(columns=list(SIMILARITIES))
    measured = ~frame[["intermediate", "target"]].eq("condolence").any(axis=1)
    frame[name] = np.where(measured, RNG.uniform(size=len(frame)), np.nan)
    return paper_figures.similarity_squares(results(), frame, name)


def mapped() -> pd.DataFrame:
    """Made-up places of rows of ten classes, of which there are more than colours."""
    classes = [f"class {number}" for number in RNG.integers(10, size=80)]
    columns = {"x": RNG.normal(size=80), "y": RNG.normal(size=80), "gold": classes, "predicted": classes[::-1]}
    return pd.DataFrame(columns)


def profile() -> pd.DataFrame:
    slopes = np.linspace(-1.2, 1.2, 9)
    parts = [
        pd.DataFrame({"construct": name, "title": name.title(), "slope": slopes})
        .assign(drop=lambda one: 2.1 * (one.slope - 0.31) ** 2)
        .assign(p=lambda one: np.exp(-one["drop"]))
        for name in ("definition", "link")
    ]
    return pd.concat(parts, ignore_index=True)


def slopes_by_choice() -> pd.DataFrame:
    """Two ratings under three choices, the second of which cannot be tested when rater B's ratings are left out."""
    rows = [
        {"outcome": outcome, "weights": "inverse variance", "cells": "all", "without_rater": rater}
        | {"construct": name, "title": name.title(), "why": "" if known else "no task has ratings"}
        | {"slope": RNG.normal() if known else np.nan, "p": RNG.uniform(0.01, 1) if known else np.nan}
        for outcome, rater in (("points", ""), ("percent", ""), ("points", "B"))
        for name, known in (("definition", True), ("link", rater == ""))
    ]
    return pd.DataFrame(rows)


def texts() -> pd.DataFrame:
    """Two scales of 70 texts in a large group, a middle one, and two of a few texts each."""
    groups = ["large"] * 40 + ["middle"] * 21 + ["few"] * 8 + ["lone"]
    shares = {"distress": RNG.normal(size=70), "kind: yes": RNG.uniform(0.01, 0.99, 70)}
    return pd.DataFrame({"group": groups, **shares})


def board() -> pd.DataFrame:
    manifest = made_up_manifest(4)
    return board_frame(made_up_board(manifest), manifest, "full")


def _compared(pairs: pd.DataFrame, title: str) -> Figure:
    return scatter(pairs, title, "first", "second")


def sensitivities() -> pd.DataFrame:
    """Six tasks, of which one has a single gain, without an interval."""
    rng, rows = np.random.default_rng(5), []
    for part in ("teaches", "learns"):
        for place in range(6):
            mean, lost = rng.normal(), float(place)
            ends = (mean - 1, mean + 1) if place else (np.nan, np.nan)
            values = (part, f"task_{place}", lost, lost - 2, lost + 2, mean, *ends, 5, 0.4)
            rows.append(dict(zip(BY_TASK, values, strict=True)))
    return pd.DataFrame(rows).assign(title=[row["task"].replace("task_", "Task ") for row in rows])


FIGURES: dict[str, Callable[[], Drawing]] = {
    "heatmap": lambda: (heat("A task"), partial(heatmap, metric="macro_f1", limit=5.0)),
    "figure 2": lambda: (bars("A feature"), paper_figures.importance_bars),
    "figure 3": lambda: (themes("A theme"), paper_figures.theme_bars),
    "figures 6 and 7": lambda: (paper_figures.percent_squares(results(), "pearson_r"), paper_figures.percent_map),
    "figure 8": lambda: (differences(results()), paper_figures.difference_bars),
    "figure 9": lambda: (published_similarities("data_similarity"), paper_figures.cosine_map),
    "figure 10": lambda: (published_similarities("task_similarity"), paper_figures.rank_map),
    "profile": lambda: (profile(), likelihood_profile),
    "slopes by choice": lambda: (slopes_by_choice(), choices_of_slopes),
    "compared": lambda: (compared(), _compared),
    "context": lambda: (sensitivities(), draw_context),
    "rows": lambda: (mapped(), draw_rows),
    "correlations": lambda: (corpus.correlations(texts()), corpus.draw_map),
    "groups": lambda: (corpus.group_means(texts()), corpus.draw_groups),
    "leaderboard": lambda: (board(), partial(figure_of_plan, planner=board_plan)),
    "map": lambda: (plan_of(6, missing=2)[1], partial(figure_of_plan, planner=map_plan)),
    "distributions": lambda: (corpus._spread(texts()), corpus.draw_distributions),
}


@pytest.mark.parametrize("made", FIGURES.values(), ids=FIGURES)
def test_a_figure_is_recomputed_from_the_file_beside_it(made: Callable[[], Drawing], tmp_path: Path) -> None:
    frame, draw = made()
    files = write_figure_files(frame, tmp_path / "figure", "A title, with a comma", draw, dpi=40)
    read = pd.read_csv(files.png.with_suffix(".csv"))
    assert list(read.columns) == list(frame.columns) and len(read) == len(frame) > 1
    with plain_text_settings("figure"):
        again = pictures(draw(read, files.title), 40)
        numbers = read.select_dtypes("number").columns
        changed = file_of(draw(read.assign(**{name: 2 * read[name] for name in numbers}), files.title), "svg")
    assert again == {"png": files.png.read_bytes(), "svg": files.svg.read_bytes()}
    assert changed != again["svg"], "a figure that shows nothing of its frame would pass too"


def test_the_map_of_contamination_is_recomputed_from_its_frame(tmp_path: Path) -> None:
    first = write_map(contaminated(), tmp_path / "map", "clean")
    contaminated().to_csv(tmp_path / "map.csv", index=False)
    bytes_of = [path.read_bytes() for path in first]
    write_map(pd.read_csv(tmp_path / "map.csv"), tmp_path / "map", "clean")
    assert bytes_of == [path.read_bytes() for path in first]
