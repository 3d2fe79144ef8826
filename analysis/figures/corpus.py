"""A look at a corpus that a study's tasks have scored: how scales are spread, go together, and differ between people.

A scale is a number for every text: the value of a task of numbers, the probability of the second of two classes, or of
each of several classes. They are what adapters predict, not what people would say of these texts.
"""

import json
import math
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.special import expit, logit, stdtrit

from analysis.figures.drawing import (
    COLOUR,
    PALE,
    FigureFiles,
    figure_of,
    make_legible,
    make_plain,
    shortened,
    write_figure_files,
)
from analysis.figures.heatmaps import COLOURS
from analysis.gains.significance import LEVEL
from analysis.results.people import ALL, DECIDES
from analysis.tables import Declared, fixed, framed
from tasks.errors import BadInput, BadRow, MissingData

SCORED = ("id", "task", "prediction", "value")  # what every scored text and task has
MOST_TEXTS = 50_000  # that are looked at: every n-th of more
MOST_GROUPS = 24
DAYS_BY_MONTH = 120  # a longer span is shown by month, a shorter one by day
DATES = 0.95  # share of groups that must be dates to be a time
TWO = 2
OTHERS = "others"
ENDS = {"low": -1, "high": 1}
FEWEST = 10  # texts that a mean has an interval of
ACROSS = 4  # small figures side by side
BINS = 30
MOST_LABELS = 12  # of times on an axis
MOST_SCALES = 40  # of one figure; the CSV has all
LETTERS = 34  # of a scale's name
SHARES = (-0.03, 1.03)  # of a probability's axis, so that marks at its ends are whole

CORRELATIONS: Mapping[str, Declared] = {
    "scale": Declared("str", "a scale"),
    "other": Declared("str", "another scale"),
    "rho": Declared("float64", "Spearman's rank correlation over texts; undefined where one of them never varies"),
    "n": Declared("int64", "texts"),
}
GROUPS: Mapping[str, Declared] = {
    "scale": Declared("str", "a scale"),
    "group": Declared("str", "a group of texts, or a day or month"),
    "n": Declared("int64", "texts"),
    "mean": Declared("float64", "mean of the scale"),
    "low": Declared(
        "float64",
        "lower end of its 95 % interval (Student's t over texts, of a probability in log odds); none of fewer than 10",
    ),
    "high": Declared("float64", "upper end"),
    "each": Declared("str", "of fewer than 10 texts the value of each, a space between; else empty"),
}


def read_scored(path: Path) -> pd.DataFrame:
    """A file that ``score`` has written, csv, jsonl or parquet; BadRow for one that lacks its columns."""
    if not path.is_file():
        raise MissingData(f"{path}: no such file; write it with: empathy-transfer texts score STUDY FILE")
    if path.suffix == ".parquet":
        scored = pd.read_parquet(path)
    elif path.suffix == ".jsonl":
        scored = pd.read_json(path, lines=True, dtype={"id": str, "group": str, "prediction": str})
    else:
        text = {"id": "str", "group": "str", "prediction": "str", "probabilities": "str"}
        scored = pd.read_csv(path, dtype=text, keep_default_na=False, na_values={"value": [""], "probability": [""]})
    if missing := [name for name in SCORED if name not in scored]:
        raise BadRow(f"{path}:1: no column {missing[0]!r}; give a file that `score` has written")
    return scored


def scales(scored: pd.DataFrame) -> pd.DataFrame:
    """One row per text, one column per scale, in the order of the tasks; ``group`` first where there is one.

    Texts are numbered as they stand, for ids may repeat; of very many every n-th is taken.
    """
    tasks = list(dict.fromkeys(scored["task"]))
    number = np.arange(len(scored)) // max(1, len(tasks))
    step = -(-(int(number[-1]) + 1) // MOST_TEXTS) if len(number) else 1
    kept, numbers = scored[number % step == 0], number[number % step == 0]
    columns: dict[str, pd.Series] = {}
    if "group" in kept:
        columns["group"] = pd.Series(kept["group"].to_numpy(), index=numbers).groupby(level=0).first()
    for task in tasks:
        rows = kept["task"].to_numpy() == task
        columns |= _of_task(task, kept[rows].set_index(numbers[rows]))
    return pd.DataFrame(columns).reset_index(drop=True)


def _of_task(task: str, rows: pd.DataFrame) -> dict[str, pd.Series]:
    """The scales of one task, by name."""
    if rows["value"].notna().all():
        return {task: rows["value"].astype("float64")}
    shares = pd.DataFrame([json.loads(text) for text in rows["probabilities"]], index=rows.index)
    names = list(shares.columns)
    is_either = len(names) == TWO and rows["probability"].notna().all()  # several labels at once have none
    return {f"{task}: {name}": shares[name] for name in (names[1:] if is_either else names)}


def correlations(wide: pd.DataFrame) -> pd.DataFrame:
    """Spearman's correlation of every two scales, both ways, those with themselves included."""
    values = wide.drop(columns="group", errors="ignore")
    matrix = values.rank().corr()
    rows = [
        {"scale": scale, "other": other, "rho": matrix.loc[scale, other], "n": len(values)}
        for scale in matrix
        for other in matrix
    ]
    return framed(pd.DataFrame(rows, columns=list(CORRELATIONS)), CORRELATIONS)


def group_means(wide: pd.DataFrame) -> pd.DataFrame:
    """The mean of every scale in every group with its interval, groups in order of size, times in theirs.

    Groups after the largest are one, ``others``; a group of fewer than FEWEST texts has no interval.
    """
    groups = wide["group"].astype(str)
    if is_time(groups):  # days, or months where they are many
        dates = _dates(groups)
        span = (dates.max() - dates.min()).days
        names = dates.dt.strftime("%Y-%m" if span > DAYS_BY_MONTH else "%Y-%m-%d").fillna("undated")
        order = sorted(names.unique())
    else:
        largest = set(groups.value_counts().index[:MOST_GROUPS])
        names = groups.where(groups.isin(largest), OTHERS)
        sizes = names.value_counts()
        order = [group for group in sizes.index if group != OTHERS]
        order += [OTHERS] if OTHERS in sizes.index else []
    rows = [
        {"scale": scale, "group": name, **_mean(wide.loc[names == name, scale].dropna().to_numpy(), is_share(scale))}
        for scale in wide.columns.drop("group")
        for name in order
    ]
    return framed(pd.DataFrame(rows, columns=list(GROUPS)), GROUPS)


def is_share(scale: str) -> bool:
    """Whether a scale is the probability of a class: its name has the task's and the class's."""
    return ": " in scale


def is_time(groups: pd.Series) -> bool:
    """Whether nearly all groups are dates."""
    return len(groups) > 0 and float(_dates(groups).notna().mean()) >= DATES


def _dates(groups: pd.Series) -> pd.Series:
    return pd.to_datetime(groups, format="ISO8601", errors="coerce", utc=True)


def _mean(values: np.ndarray, is_probability: bool) -> dict[str, Any]:
    n = len(values)
    mean = float(values.mean()) if n else float("nan")
    if n < FEWEST:
        each = " ".join(f"{value:.6g}" for value in values)
        return {"n": n, "mean": mean, "low": float("nan"), "high": float("nan"), "each": each}
    half = float(stdtrit(n - 1, 1 - LEVEL / 2) * values.std(ddof=1) / np.sqrt(n))
    if not is_probability or half == 0:
        return {"n": n, "mean": mean, "low": mean - half, "high": mean + half, "each": ""}
    # A probability's interval is taken in log odds, whose slope at the mean m is 1 / (m (1 - m)), and carried back.
    half /= mean * (1 - mean)
    ends = {end: float(expit(logit(mean) + side * half)) for end, side in ENDS.items()}
    return {"n": n, "mean": mean, **ends, "each": ""}


# Figures of a scored corpus: distributions of its scales, how they go together, and how groups differ.


def corpus_figures(scored: Path, out: Path) -> list[FigureFiles]:
    """Draw what ``score`` has written into ``out``, each figure with its CSV; BadInput where nothing was scored."""
    frame = read_scored(scored)
    if frame.empty:
        raise BadInput(f"{scored}: no text was scored, so there is nothing to draw")
    wide = scales(frame)
    subtitle = (
        f"{scored.name}, {len(wide):,} text{'s' * (len(wide) != 1)}; what adapters predict, not what people would say"
    )
    figures = [
        write_figure_files(
            _spread(wide), out / "distributions", f"Distribution of predictions\n{subtitle}", draw_distributions
        ),
        write_figure_files(
            correlations(wide), out / "correlations", f"Correlation of predictions (Spearman)\n{subtitle}", draw_map
        ),
    ]
    if "group" in wide:
        grouping = "over time" if is_time(wide["group"].astype(str)) else "by group"
        title = f"Means {grouping} (number of texts), with 95 % intervals over texts; of fewer than {FEWEST} each text"
        title += f"\n{subtitle}"
        figures.append(write_figure_files(group_means(wide), out / "groups", title, draw_groups))
    return figures


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


def small_figures(frame: pd.DataFrame, title: str, draw: Callable[[Axes, pd.DataFrame], None], label: str) -> Figure:
    """A small figure for each scale of a frame, which ``draw`` fills; ``label`` is that of every vertical axis."""
    names = list(dict.fromkeys(frame["scale"]))[:MOST_SCALES]
    down = math.ceil(len(names) / ACROSS)
    figure = figure_of(3 * min(ACROSS, len(names)), 1 + 2.2 * down, title)
    axes = figure.subplots(down, min(ACROSS, len(names)), squeeze=False)
    for number, panel in enumerate(axes.flat):
        if number >= len(names):
            panel.set_visible(False)
            continue
        draw(panel, frame[frame["scale"] == names[number]])
        panel.set_title(shortened(names[number], LETTERS), fontsize=8.5)
        panel.set_ylabel(label, fontsize=8.5)
        make_plain(panel)
    return figure


def _bars(axes: Axes, rows: pd.DataFrame) -> None:
    axes.bar(rows["low"], rows["texts"], width=rows["high"] - rows["low"], align="edge", color=COLOUR)


def _groups(axes: Axes, rows: pd.DataFrame) -> None:
    """Means and intervals of all groups; of a small group each text."""
    scale = str(rows["scale"].iloc[0])
    for number, row in enumerate(rows.itertuples()):
        each = [] if pd.isna(row.each) else [float(value) for value in str(row.each).split()]
        if each:
            axes.scatter([number] * len(each), each, s=5, color=PALE, zorder=1)
    positions = np.arange(len(rows))
    spread = [rows["mean"] - rows["low"].fillna(rows["mean"]), rows["high"].fillna(rows["mean"]) - rows["mean"]]
    axes.errorbar(positions, rows["mean"], yerr=spread, fmt="o", ms=3, lw=1, color=COLOUR)
    step = math.ceil(len(rows) / MOST_LABELS) if is_time(rows["group"]) else 1
    labels = [f"{shortened(row.group, LETTERS)} ({row.n})" for row in rows.itertuples()][::step]
    if is_share(scale):
        axes.set_ylim(*SHARES)
    axes.set_xticks(positions[::step], labels, rotation=90)


draw_distributions = partial(small_figures, draw=_bars, label="texts")
draw_groups = partial(small_figures, draw=_groups, label="mean")


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


INSIGHTS = {
    "over-time": "Levels over time: dark, of authors who stay, against their own first period (95 % interval);"
    " pale, of everyone",
    "by-group": "Levels by group, against the largest group (95 % interval clustered by author)",
    "by-level": "Outcome by level, against the lowest level (95 % interval clustered by author)",
}
PERCEIVED = (
    "Ratings with an intent less without, 95 % interval clustered by group (rows with it); filled: different after"
    " the correction over the table"
)
Y = "relative change (%)"
SHORT, FEW = 8, 4  # letters of a label, and labels, that stand upright beside each other
NAME = 30  # letters of an intent's name
MOST = 40  # intents and ratings of a figure; the CSV has all
WIDTH, NAMES = 2.6, 2.4  # inches of a panel, and of the names at the left
RATINGS_ACROSS = 5  # panels, as many as the paper has ratings


def insight_figures(parts: Mapping[str, pd.DataFrame], out: Path, subtitle: str) -> list[FigureFiles]:
    """Draw every part of what scored texts say of their authors into ``out``, each beside its CSV."""
    out.mkdir(parents=True, exist_ok=True)
    by_name = partial(small_figures, draw=_by_name, label=Y)
    return [
        write_figure_files(
            *(frame, out / part, f"{INSIGHTS[part]}\n{subtitle}"), draw_over_time if part == "over-time" else by_name
        )
        for part, frame in parts.items()
    ]


def draw_over_time(frame: pd.DataFrame, title: str) -> Figure:
    """The change of authors who stay with its interval, and what the mean of everyone would have said."""

    def draw(axes: Axes, rows: pd.DataFrame) -> None:
        naive = 100 * (rows["everyone"] / rows["everyone"].iloc[0] - 1)
        axes.plot(rows["period"], naive, marker="o", ms=3, lw=1, color=PALE)
        _changes(axes, rows["period"].to_numpy(), rows)
        axes.set_xticks(rows["period"], [f"{row.period} ({row.authors})" for row in rows.itertuples()])
        axes.set_xlabel("periods since the first text (authors)", fontsize=8.5)

    return small_figures(frame[frame["joined"] == ALL], title, draw, Y)


def _by_name(axes: Axes, rows: pd.DataFrame) -> None:
    """The change of every group, or of the outcome at every level."""
    places, names = np.arange(len(rows)), rows["group" if "group" in rows else "level"]
    _changes(axes, places, rows)
    labels = [f"{shortened(str(name), LETTERS)} ({n})" for name, n in zip(names, rows["texts"], strict=True)]
    is_long = max(map(len, labels)) > SHORT or len(rows) > FEW
    axes.set_xticks(places, labels, rotation=90 if is_long else 0)


def _changes(axes: Axes, places: np.ndarray, rows: pd.DataFrame) -> None:
    """Changes with their intervals; what all others are compared with stands at 0."""
    change = rows["change"].fillna(0.0)
    spread = [change - rows["low"].fillna(change), rows["high"].fillna(change) - change]
    axes.axhline(0, color=PALE, lw=0.8, zorder=0)
    axes.errorbar(places, change, yerr=spread, fmt="o", ms=3, lw=1, color=COLOUR)


def perceived_figures(expressed: pd.DataFrame, together: pd.DataFrame, out: Path, subtitle: str) -> list[FigureFiles]:
    """Draw ratings by intent into ``out``, and of two ratings how they go together, each beside its CSV."""
    out.mkdir(parents=True, exist_ok=True)
    figures = [write_figure_files(expressed, out / "perceived", f"{PERCEIVED}\n{subtitle}", draw_expressed)]
    if together["rating"].nunique() > 1:
        title = f"Correlation of ratings over groups (Spearman)\n{subtitle}"
        figures.append(write_figure_files(together, out / "correlations", title, draw_correlations))
    return figures


def draw_expressed(frame: pd.DataFrame, title: str) -> Figure:
    """A panel for each rating with a line for each intent, the first on top, on one scale of differences."""
    ratings, intents = (list(dict.fromkeys(frame[name]))[:MOST] for name in ("rating", "intent"))
    across = min(RATINGS_ACROSS, len(ratings))
    down = -(-len(ratings) // across)
    figure = figure_of(max(6.0, NAMES + WIDTH * across), 1.0 + down * (0.8 + 0.24 * len(intents)), title)
    axes = figure.subplots(down, across, squeeze=False, sharex=True, sharey=True)
    for panel in axes.flat[len(ratings) :]:
        panel.set_visible(False)
    for rating, panel in zip(ratings, axes.flat, strict=False):
        _differences(panel, frame[frame["rating"] == rating].set_index("intent").loc[intents])
        panel.set_yticks(np.arange(len(intents)), [shortened(name, NAME) for name in intents])
        panel.set_title(shortened(rating, NAME), fontsize=9)
        panel.set_xlabel("difference in mean rating", fontsize=8.5)
        make_plain(panel)
        panel.tick_params(labelbottom=True)
    axes[0, 0].invert_yaxis()
    return figure


def draw_correlations(frame: pd.DataFrame, title: str) -> Figure:
    """The heatmap of correlations over groups."""
    return draw_map(frame.rename(columns={"rating": "scale"}), title)


def _differences(axes: Axes, rows: pd.DataFrame) -> None:
    """Differences with their intervals, and how many rows have the intent at the right."""
    axes.axvline(0, color=PALE, lw=0.8, zorder=0)
    for line, row in enumerate(rows.itertuples()):
        sure = getattr(row, DECIDES) <= LEVEL
        if np.isfinite(row.low):
            axes.plot([row.low, row.high], [line, line], color=COLOUR, lw=1.6 if sure else 0.9)
        axes.plot(row.difference, line, marker="o", ms=4.5, color=COLOUR, mfc=COLOUR if sure else "white")
        axes.annotate(
            f"{row.rows_with}", (1.0, line), xycoords=("axes fraction", "data"), fontsize=7, color="0.4", va="center"
        )
