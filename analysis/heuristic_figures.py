"""The paper's figures of what may predict a transfer: importances of features (2), similarities of tasks (9 and 10)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from analysis.drawing import figure_of, make_plain, write_drawn
from analysis.features import SIMILARITY, features_of, pair_features
from analysis.figures import FILLS, Drawn, name_squares
from analysis.importance import FEWEST_PAIRS, SETTINGS, TABLE_6, paper_blocks, paper_importances
from analysis.legible import make_legible, shortened
from analysis.markdown import bare
from analysis.published.tables import table
from analysis.results import Results
from tasks.plain_text import counted

PUBLISHED = "published"
SEEDS = 5  # of random splits behind Figure 2
SETTING = "V1"
BARS = ("#1b7837", "#c2a5cf")  # told apart in grey too
MEASURED = {
    "data_similarity": ("9", "data", "similarity of the tasks' texts: cosine of mean sentence embeddings"),
    "task_similarity": ("10", "task", "similarity of trained adapters: fused ranks of their Fisher information"),
}


def heuristic_figures(results: Results, similarities: pd.DataFrame | None, out: Path) -> list[Drawn]:
    """Draw Figure 2, and 9 and 10 as far as similarities were measured, into ``out``."""
    drawn = []
    if not _why_no_importances(results, similarities):
        title = f"{results.banner}Figure 2: importance of features in the paper's way, {results.name}"
        title += (
            f"\n(a fit in the sample, setting {SETTING}, {SEEDS} seeds; raw units, so that importance follows them)"
        )
        frame = importance_rows(results, similarities)
        drawn.append(write_drawn(frame, out / "figure-2-importances", title, importance_bars))
    for name, (number, short, what) in MEASURED.items():
        if _is_measured(similarities, name) and similarities is not None:
            title = f"{results.banner}Figure {number}: {what}, {results.name}"
            frame = similarity_squares(results, similarities, name)
            draw = cosine_map if name == "data_similarity" else rank_map
            drawn.append(write_drawn(frame, out / f"figure-{number}-{short}-similarity", title, draw))
    return drawn


def undrawn(results: Results, similarities: pd.DataFrame | None) -> list[str]:
    """One line per figure of these that cannot be drawn, with the reason."""
    why = _why_no_importances(results, similarities)
    lines = [f"Figure 2 is not drawn: {why}"] if why else []
    missing = [number for name, (number, _, _) in MEASURED.items() if not _is_measured(similarities, name)]
    if missing and results.name == PUBLISHED:
        lines.append("Figures 9 and 10 need a study: the paper's embeddings are not published")
    elif missing:
        are = f"Figure{'s' * (len(missing) > 1)} {' and '.join(missing)}"
        lines.append(f"{are}: not measured; measure with: empathy-transfer similarities {results.name}")
    return lines


def importance_rows(results: Results, similarities: pd.DataFrame | None) -> pd.DataFrame:
    """One row per (series, feature): importance and sd, means over seeds, and whether random numbers stood in for it.

    Of the published results the printed importances (Table 6) are a series too.
    """
    found = paper_importances(results, SETTINGS[SETTING], range(SEEDS), similarities=similarities).mean()
    known = pair_features(results, similarities=similarities)
    kinds = features_of(results)
    stand_ins = {name for name, one in kinds.items() if one.kind == SIMILARITY and not known[name].notna().all()}
    is_published = results.name == PUBLISHED
    ours = f"recomputed ({SETTING})" if is_published else f"setting {SETTING}"
    rows = found.assign(series=ours, is_stand_in=found.feature.isin(stand_ins))
    if is_published:
        printed = table("table6_importances").assign(series="printed (Table 6)", is_stand_in=False)
        rows = pd.concat([printed.assign(feature=printed.feature.map(TABLE_6)), rows])
    rows = rows.assign(title=[kinds[name].title for name in rows.feature])
    return rows[["series", "feature", "title", "importance", "sd", "is_stand_in"]].reset_index(drop=True)


def importance_bars(rows: pd.DataFrame, title: str) -> Figure:
    """A bar per feature and series with its standard deviation, the most important of the first series on top."""
    series = list(dict.fromkeys(rows.series))
    first = rows[rows.series == series[0]].sort_values("importance", ascending=False, kind="stable")
    place = {name: i for i, name in enumerate(first.feature)}
    figure = figure_of(6.4, 1.8 + 0.34 * len(place), title)
    axes = figure.subplots()
    height = 0.8 / len(series)
    style: dict[str, Any] = {"edgecolor": "0.25", "linewidth": 0.6, "ecolor": "0.2", "capsize": 2}
    for number, name in enumerate(series):
        part = rows[rows.series == name]
        where = part.feature.map(place) + (number - (len(series) - 1) / 2) * height
        bars = axes.barh(where, part.importance, height * 0.92, xerr=part.sd, color=BARS[number % 2], **style)
        for bar, is_stand_in in zip(bars, part.is_stand_in, strict=True):
            bar.set_hatch("////" if is_stand_in else "")
    axes.set_yticks(range(len(place)), list(map(shortened, first.title)))
    axes.invert_yaxis()
    axes.set_xlim(left=min(0.0, float((rows.importance - rows.sd).min())))
    label = "fall of R2 on training pairs when the feature is shuffled\n(lines: standard deviation of the shuffles)"
    axes.set_xlabel(label, fontsize=8.5)
    handles = [Patch(facecolor=BARS[i % 2], edgecolor="0.25", label=shortened(name)) for i, name in enumerate(series)]
    if rows.is_stand_in.any():
        handles.append(Patch(facecolor="white", edgecolor="0.25", hatch="////", label="random numbers stand in"))
    figure.legend(handles=handles, loc="outside lower center", ncols=2, fontsize=8, frameon=False)
    make_plain(axes)
    return figure


def similarity_squares(results: Results, similarities: pd.DataFrame, name: str) -> pd.DataFrame:
    """One row per (intermediate, target): titles, similarity, and the intermediate's rank for the target, 1 nearest.

    A task with itself has the cosine 1, and no fused rank.
    """
    frame = similarities[["intermediate", "target", name]].rename(columns={name: "similarity"})
    tasks = list(dict.fromkeys(frame.target))
    measured = set(frame.target[frame.similarity.notna()])
    own = [1.0 if name == "data_similarity" and one in measured else np.nan for one in tasks]
    frame = pd.concat([frame, pd.DataFrame({"intermediate": tasks, "target": tasks, "similarity": own})])
    others = frame.similarity.where(frame.intermediate != frame.target)
    frame["rank"] = others.groupby(frame.target).rank(ascending=False, method="min")
    order = {task: i for i, task in enumerate(tasks)}
    frame = frame.sort_values(["intermediate", "target"], key=lambda column: column.map(order)).reset_index(drop=True)
    return frame.assign(row=frame.intermediate.map(results.title), column=frame.target.map(results.title))


def cosine_map(squares: pd.DataFrame, title: str) -> Figure:
    """A heatmap of cosines with their numbers."""
    text = squares.similarity.map(lambda one: bare(one) if np.isfinite(one) else "")
    return _map(squares.assign(text=text), title, "cosine")


def rank_map(squares: pd.DataFrame, title: str) -> Figure:
    """A heatmap of fused ranks; the number is the intermediate's place for the target."""
    text = squares["rank"].map(lambda one: f"{one:.0f}" if np.isfinite(one) else "")
    return _map(squares.assign(text=text), title, "fused score\n(the number: the intermediate's place for the target)")


def _map(squares: pd.DataFrame, title: str, label: str) -> Figure:
    rows, columns = squares.drop_duplicates("intermediate"), squares.drop_duplicates("target")
    figure = figure_of(4.0 + 0.46 * len(columns), 3.0 + 0.36 * len(rows), title)
    axes = figure.subplots()
    values, text = (
        squares.pivot(index="intermediate", columns="target", values=one).loc[rows.intermediate, columns.target]
        for one in ("similarity", "text")
    )
    bar = {"label": label, "shrink": 0.8}
    off = squares.similarity[squares.intermediate != squares.target]
    style = {"linewidths": 0.5, "linecolor": "w", "annot_kws": {"size": 8}, "vmin": off.min()}
    sns.heatmap(values.astype(float), ax=axes, cmap="cividis", annot=text, fmt="", cbar_kws=bar, **style)
    make_legible(axes)
    across, down = (list(names) for names in (columns.target, rows.intermediate))
    for one in squares[squares.similarity.isna() & (squares.intermediate != squares.target)].itertuples():
        where = across.index(one.target), down.index(one.intermediate)
        axes.add_patch(Rectangle(where, 1, 1, linewidth=0, **FILLS["missing"]))
    name_squares(axes, list(rows.row), list(columns.column))
    figure.axes[1].tick_params(labelsize=8.5)
    figure.axes[1].yaxis.label.set_fontsize(9)
    if off.isna().any():
        handles = [Patch(label="not measured", **FILLS["missing"])]
        figure.legend(handles=handles, loc="outside lower center", fontsize=8, frameon=False)
    return figure


def _is_measured(similarities: pd.DataFrame | None, name: str) -> bool:
    return similarities is not None and bool(similarities[name].notna().any())


def _why_no_importances(results: Results, similarities: pd.DataFrame | None) -> str | None:
    n_pairs = int(np.isfinite(results.gains.percent.to_numpy("float64")).sum())
    if n_pairs < FEWEST_PAIRS:
        return f"{counted(n_pairs, 'pair')} with a percent change; the paper's way needs {FEWEST_PAIRS}"
    known = paper_blocks(results, pair_features(results, similarities=similarities), SETTINGS[SETTING], None)
    return None if known else "no feature is known of every task"
