"""The page, frames and figure that hold two studies against each other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from adapters_store.output import write_text
from analysis.cells import TRANSFER
from analysis.compare import (
    BOTH,
    CONCLUSIONS,
    INTERVALS,
    UNTESTED,
    Side,
    compared_gains,
    compared_scores,
    crossed,
    differing,
    summary,
)
from analysis.drawing import figure_of, make_plain, write_drawn
from analysis.figures import METRIC_NAMES, Drawn
from analysis.frames import write_frames
from analysis.legible import shortened
from analysis.markdown import few, interval, number, table
from analysis.markdown import page as as_page
from analysis.significance import LEVEL
from tasks.plain_text import counted

MOST_SHOWN = 30
MARGIN = 2.0  # points beside the outermost gain
FLIPPED, KEPT, UNKNOWN = "conclusions differ", "same conclusion", "not tested in both"
LOOKS = {KEPT: "#1b7837", FLIPPED: "#762a83", UNKNOWN: "#888888"}  # told apart by all common kinds of colour vision


def write_comparison(a: Side, b: Side, out: Path) -> Path:
    """Write the frames, a figure per setting and compare.md into ``out``; the path of the page."""
    scores, pairs = compared_scores(a, b), compared_gains(a, b)
    agreed = summary(scores, pairs)
    for name, frame in (("compared_scores", scores), ("compared_gains", pairs), ("agreement", agreed)):
        write_frames(frame, out / name)
    banner = "SYNTHETIC DATA: " * (a.is_synthetic or b.is_synthetic)
    drawn = [_drawn(a, b, part, out, banner) for _, part in pairs.groupby("setting", sort=False)]
    lines = [
        f"# {banner}{a.name} (a) against {b.name} (b)",
        *dict.fromkeys(side.note for side in (a, b) if side.note),
        *_specifications(a, b),
        *_cells(scores, agreed),
        *_gains(a, b, pairs, agreed),
        *(f"![{' '.join(one.title.splitlines())}]({one.png.name})" for one in drawn),
        *_caveats(scores, pairs),
    ]
    page = out / "compare.md"
    write_text(page, as_page(lines))
    return page


def scatter(pairs: pd.DataFrame, title: str, a: str, b: str) -> Figure:
    """Gains in a across, gains in b upwards; on the dashed line they are equal."""
    figure = figure_of(6.4, 6.0, title)
    axes = figure.subplots()
    points = pairs[["points_a", "points_b"]].to_numpy()
    ends = (min(points.min(), 0.0) - MARGIN, max(points.max(), 0.0) + MARGIN)
    axes.plot(ends, ends, color="0.5", linewidth=0.9, linestyle="--", zorder=1, label="equal gains")
    axes.axhline(0, color="0.8", linewidth=0.8, zorder=0)
    axes.axvline(0, color="0.8", linewidth=0.8, zorder=0)
    shown = pairs.assign(conclusions=_looks(pairs), metric=pairs.metric.map(METRIC_NAMES))
    present = [name for name in LOOKS if name in set(shown.conclusions)]
    sns.scatterplot(
        shown,
        x="points_a",
        y="points_b",
        hue="conclusions",
        hue_order=present,
        palette=LOOKS,
        style="metric",
        s=26,
        alpha=0.85,
        ax=axes,
    )
    axes.set(xlim=ends, ylim=ends, aspect="equal")
    axes.set(xlabel=f"gain in {shortened(a)}, points", ylabel=f"gain in {shortened(b)}, points")
    make_plain(axes)
    entries = {label: handle for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    handles = [handle for label, handle in entries.items() if label not in ("conclusions", "metric")]
    axes.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=3, fontsize=8, frameon=False)
    return figure


def _drawn(a: Side, b: Side, pairs: pd.DataFrame, out: Path, banner: str) -> Drawn:
    setting = str(pairs.setting.iloc[0])
    title = f"{banner}Gains in {a.name} and in {b.name}, setting {setting} ({counted(len(pairs), 'pair')})"
    stem = out / f"compare-gains-{setting.replace('%', 'pct')}"
    return write_drawn(pairs, stem, title, lambda frame, name: scatter(frame, name, a.name, b.name))


def _looks(pairs: pd.DataFrame) -> pd.Series:
    untested = (pairs.conclusion_a == UNTESTED) | (pairs.conclusion_b == UNTESTED)
    named = np.where(untested, UNKNOWN, np.where(pairs.is_flipped, FLIPPED, KEPT))
    return pd.Series(named, index=pairs.index)


def _specifications(a: Side, b: Side) -> list[str]:
    """What differs between the two studies."""
    if not (a.facts and b.facts):
        return ["## What differs", "One side has no study file, so that settings cannot be held against each other."]
    rows = [(name, *both) for name, both in differing(a, b).items()]
    if not rows:
        return ["## What differs", "Nothing in the two specifications but their names."]
    return ["## What differs", table(["field", "a", "b"], rows)]


def _cells(scores: pd.DataFrame, agreed: pd.DataFrame) -> list[str]:
    """How many cells both have, and how their scores agree."""
    counts = ", ".join(f"{name} {count}" for name, count in scores.found.value_counts(sort=False).items())
    shared = scores[scores.found == BOTH]
    differ = int((shared.same_splits == False).sum())  # noqa: E712 - undefined is not different
    text = f"Cells by where they are finished: {counts}. Scores are means over each study's own seeds."
    if differ:
        text += f" Of those in both, {differ} have other splits in b than in a: their scores are of other rows."
    rows = [
        (
            *(one.what.removeprefix("scores: "), one.setting, one.n, one.n_targets),
            *(*_with_interval(one, "difference", 1), *_with_interval(one, "pearson", 2)),
        )
        for one in agreed[agreed.what != "gains"].itertuples()
    ]
    head = [
        "cells",
        "setting",
        "in both",
        "targets",
        "b less a, points",
        "95 % interval",
        "correlation",
        "95 % interval",
    ]
    return ["## Scores", text, table(head, rows)]


def _gains(a: Side, b: Side, pairs: pd.DataFrame, agreed: pd.DataFrame) -> list[str]:
    """How gains agree, and which conclusions flip."""
    if pairs.empty:
        return ["## Gains", "The two share no finished gain."]
    rows = [
        (one.setting, one.n, *(part for name in INTERVALS for part in _with_interval(one, name, 2)))
        for one in agreed[agreed.what == "gains"].itertuples()
    ]
    head = ["setting", "pairs", "b less a, points", "95 % interval", "correlation", "95 % interval"]
    head += ["rank correlation", "95 % interval", "same sign", "95 % interval"]
    cross = crossed(pairs)
    present = [name for name in CONCLUSIONS if cross.loc[name].any() or cross[name].any()]
    across = [(f"a: {name}", *cross.loc[name, present]) for name in present]
    lines = ["## Gains", "Gains that both have, pair by pair:", table(head, rows)]
    lines.append(f"Conclusions, significant at {LEVEL} after Benjamini and Hochberg within each study:")
    lines.append(table(["", *(f"b: {name}" for name in present)], across))
    return lines + _flips(a, b, pairs)


def _flips(a: Side, b: Side, pairs: pd.DataFrame) -> list[str]:
    flips = pairs[pairs.is_flipped].sort_values("difference", key=lambda one: -one.abs(), kind="stable")
    n_tested = int((_looks(pairs) != UNKNOWN).sum())
    if not n_tested:
        return ["No pair is tested in both, so no conclusion can flip."]
    sure = int((flips.p_difference <= LEVEL).sum())
    text = (
        f"{len(flips)} of {n_tested} conclusions differ. That one gain is significant and the other is not does not"
        f" make the two different: in {sure} of these pairs the difference itself has p <= {LEVEL} (uncorrected)."
    )
    titles = dict(a.titles) | dict(b.titles)
    rows = [
        (
            *(titles.get(one.intermediate, one.intermediate), titles.get(one.target, one.target), one.setting),
            *(number(one.points_a, 1), one.conclusion_a, number(one.points_b, 1), one.conclusion_b),
            number(one.p_difference, 4),
        )
        for one in flips.head(MOST_SHOWN).itertuples()
    ]
    head = ["intermediate", "target", "setting", "points a", "a says", "points b", "b says", "p of the difference"]
    more = [f"The {MOST_SHOWN} largest are shown; all are in compared_gains.csv."] * (len(flips) > MOST_SHOWN)
    return [text, *([table(head, rows)] if rows else []), *more]


def _caveats(scores: pd.DataFrame, pairs: pd.DataFrame) -> list[str]:
    """What this page cannot tell, and what was left out."""
    points = [
        "Noise in either study lowers the correlation of gains; test rows that both share raise it.",
        "A pair's difference is tested as if the errors of both studies were independent; on the same test rows they"
        " are not, and the test is then too careful.",
        "Intervals resample targets. With few of them they are too narrow; with fewer than three there is none.",
    ]
    if n_runs := int(pairs.conditional.sum()):
        points.append(
            f"{n_runs} of {len(pairs)} differences rest on a gain of one training run: how training runs vary is not in"
            " their p, which says whether these runs differ, not whether what was studied does."
        )
    for name in dict.fromkeys(scores.found[scores.found != BOTH]):
        part = scores[scores.found == name]
        named = few([f"{one.intermediate or 'none'} > {one.target}, {one.setting}" for one in part.itertuples()])
        points.append(f"Left out ({name}), {len(part)}: {named}.")
    shared = scores[scores.found == BOTH]
    if undefined := int(shared.difference.isna().sum()):
        points.append(f"Cells in both without a defined score in one of them: {undefined}; they are in no average.")
    if lost := int((shared.role == TRANSFER).sum()) - len(pairs):
        points.append(f"Transfers in both without a defined gain in one of them: {lost}.")
    return ["## Caveats", "\n".join(f"- {point}" for point in points)]


def _with_interval(one: object, name: str, digits: int) -> tuple[str, str]:
    value, low, high = (getattr(one, f"{name}{end}") for end in ("", "_low", "_high"))
    return number(value, digits), interval(low, high, digits)
