"""Tables of what may explain gains, and of the data sets behind them."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from analysis.figures import METRIC_NAMES
from analysis.guarded_verdicts import NOT_TESTED
from analysis.manuscript.figure_frames import Frames
from analysis.manuscript.frames import SPLITS
from analysis.manuscript.layout import Column, Table
from analysis.manuscript.printed import printed, spanned
from tasks.ratings import constructs


def means(frames: Frames) -> Iterator[Table]:
    """Mean ratings of every task by theme."""
    if "rating_means" not in frames:
        return
    frame = frames["rating_means"]
    rated = [name for name in frame if name not in ("task", "title", "theme", "n_raters", "overall")]
    if not rated:
        return
    heads = [constructs()[name].title if name in constructs() else name.capitalize() for name in rated]
    first = (Column("Task", "label"), Column("Theme", "label"), Column("Raters"))
    columns = (*first, *map(Column, heads), Column("Overall"))
    rows = tuple(
        (
            *(one["title"], one["theme"] or "none", printed("count", one["n_raters"])),
            *(printed("rating", one[name], "--") for name in [*rated, "overall"]),
        )
        for one in frame.to_dict("records")
    )
    rules = tuple(place for place in range(1, len(rows)) if rows[place][1] != rows[place - 1][1])
    yield Table("rating-means", "Ratings of tasks, means over raters, by theme.", columns, rows, rules=rules)


def importances(frames: Frames) -> Iterator[Table]:
    """What each feature is worth in the paper's way where that was computed, and the guarded verdict on it."""
    if "guarded_features" not in frames:
        return
    frame = frames["guarded_features"]
    fitted = frames.get("figure-2-importances")
    series = list(dict.fromkeys(fitted.series)) if fitted is not None else []
    columns = (Column("Feature", "label"), *(Column(f"Importance, {one}") for one in series))
    columns += tuple(map(Column, ("Adds to Q2", "95 % interval", "p (tasks)", "p (families)", "p (corrected)")))
    rows = tuple(
        (
            one.title,
            *(_fitted(fitted, name, one.feature) for name in series),
            *(printed("q2", one.added, "--"), spanned("importance", one.low, one.high, "--")),
            *(printed("p", getattr(one, name), "--") for name in ("p_tasks", "p_families", "p_corrected")),
            one.verdict,
        )
        for one in frame.itertuples()
    )
    text = (
        "What may explain a gain. Adds to Q2: what the prediction of gains for families of tasks that were left out"
        " loses when the feature alone is dropped; p when facts are handed round among tasks, among families, and the"
        " larger one corrected for all features."
    )
    if series:
        text += " Importance: fall of R2 on the training pairs (sd), a fit in the sample."
        if fitted is not None and fitted.is_stand_in.any():
            names = ", ".join(dict.fromkeys(fitted.title[fitted.is_stand_in]))
            text += f" Not measured, so that random numbers stood in for it in that fit (--): {names}."
    if (frame.verdict == NOT_TESTED).any():
        text += f" {_reasons(frame)}"
    yield Table("importances", text, (*columns, Column("Verdict", "label")), rows)


def _reasons(frame: pd.DataFrame) -> str:
    untested = frame[frame.verdict == NOT_TESTED]
    return " ".join(f"{', '.join(part.title)}: {why}." for why, part in untested.groupby("why", sort=False))


def _fitted(fitted: pd.DataFrame | None, series: str, feature: str) -> str:
    if fitted is None:
        return "--"
    found = fitted[(fitted.series == series) & (fitted.feature == feature)]
    if found.empty or bool(found.is_stand_in.item()):
        return "--"
    return f"{printed('importance', found.importance.item())} ({printed('importance', found.sd.item())})"


def models(frames: Frames) -> Iterator[Table]:
    """What each model explains of pairs it was trained on, and of families left out."""
    frame = frames.get("guarded_models")
    if frame is None or frame.empty:
        return
    named = (Column("Families left out as", "label"), Column("Model", "label"))
    columns = (*named, Column("R2 (training pairs)"), Column("Q2 (left out)"))
    rows = tuple(
        (one.left_out, one.model, printed("alpha", one.r2_train, "--"), printed("q2", one.q2, "--"))
        for one in frame.itertuples()
    )
    yield Table("models", "Share of gains that models explain, and predict for families left out.", columns, rows, 2)


def data_sets(frames: Frames) -> Iterator[Table]:
    """Tasks with their splits, and data sets with their licences."""
    frame = frames["data_sets"]
    first = (Column("Task", "label"), Column("Family", "label"), Column("Metric", "label"), Column("Classes"))
    columns = (*first, *(Column(one.capitalize()) for one in SPLITS))
    rows = tuple(
        (
            *(one.title, one.family, METRIC_NAMES[one.metric]),
            "number" if one.metric == "pearson_r" else printed("count", one.n_labels, "?"),
            *(printed("count", getattr(one, f"n_{part}"), "?") for part in SPLITS),
        )
        for one in frame.itertuples()
    )
    yield Table("splits", "Tasks and the rows of their splits.", columns, rows)
    if (frame.licence.isna() | (frame.licence == "")).all():  # texts that were made up have none
        return
    kinds = ("label", "label", "text", "text")
    heads = ("Data set", "Language", "Licence as stated", "Tasks")
    own = frame.groupby("dataset", sort=False)
    rows = tuple(
        (
            str(name),
            ", ".join(dict.fromkeys(part.language)),
            "; ".join(dict.fromkeys(part.licence)) + (" (private)" if part.private.any() else ""),
            ", ".join(part.title),
        )
        for name, part in own
    )
    columns = tuple(Column(head, kind) for head, kind in zip(heads, kinds, strict=True))
    yield Table("licences", "Data sets and their licences as their publishers state them.", columns, rows)
