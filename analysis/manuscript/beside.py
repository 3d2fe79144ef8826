"""The tables of what stands beside single intermediates: other systems, their rationales, and merged intermediates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

from adapters_store.roles import RANDOM, SELF
from analysis.figures.heatmaps import DAGGER, METRIC_NAMES
from analysis.gains.beside.merged import CHOSEN, SINGLES
from analysis.manuscript.frames import Frames
from analysis.manuscript.latex import Best, printed, spanned
from analysis.manuscript.layout import Column, Table, changes, once
from analysis.results.leaderboard import FILES

LEADERBOARD, LEADERBOARD_RATIONALES = FILES["board"], FILES["rationales"]
LESS = {CHOSEN: "Less chosen single", SINGLES: "Less mean of singles", RANDOM: "Less random", SELF: "Less self"}


def systems(frames: Frames, titles: pd.Series) -> Iterator[Table]:
    """The leaderboard of a study with systems: what each scores on each target, by setting."""
    frame = frames.get(LEADERBOARD, pd.DataFrame({"setting": []}))
    for setting, part in frame.groupby("setting", sort=False):
        head = (Column("Target", "label"), Column("System", "label"))
        columns = (*head, *map(Column, ("Score", "95 % interval", "Seeds")), Column("Metric", "label"))
        rows = tuple(
            (
                *(titles[row.target], _contestant(row, titles), _leading(row)),
                *(spanned("score", row.low, row.high, "?"), printed("count", row.n_seeds), METRIC_NAMES[row.metric]),
            )
            for row in part.itertuples()
        )
        caption = (
            "Test scores of systems, of adapters, and of the transfer that validation picks, with 95 % intervals. Bold:"
            " the highest score of the target, or tied with it by paired tests of all against all (max-T)."
        )
        if part.is_leaking.any():
            caption += f" {DAGGER} leaks: test rows were predicted from their own answers; without a rank."
        more = "" if setting == "full" else f" Setting: {setting} of the training data."
        stem = f"systems-{setting.replace('%', 'pct')}"
        yield Table(stem, caption + more, columns, tuple(once(rows)), labels=2, rules=changes(part.target))


def _contestant(row: Any, titles: pd.Series) -> str:  # noqa: ANN401 - a row of a frame
    """What a system is called, a transfer by its intermediate's title."""
    name = row.system.replace(row.intermediate, titles[row.intermediate]) if row.intermediate else row.system
    return f"{name}{DAGGER * bool(row.is_leaking)}"


def _leading(row: Any) -> str:  # noqa: ANN401 - a row of a frame
    """A score, in bold if it is the highest or tied with it."""
    text = printed("score", row.score, "?")
    return Best(text) if row.rank == 1 or row.is_tied == True else text  # noqa: E712 - True, False or nothing


def rationales(frames: Frames, titles: pd.Series) -> Iterator[Table]:
    """How well systems mark rationales, in every form of the scores, beside marking everything and nothing."""
    frame = frames.get(LEADERBOARD_RATIONALES)
    if frame is None or frame.empty:
        return
    names = [(score, form) for form in dict.fromkeys(frame.form) for score in ("token_f1", "iou_f1")]
    heads = (f"{'T-F1' if score == 'token_f1' else 'IOU-F1'}, {form}" for score, form in names)
    columns = (Column("Target", "label"), Column("System", "label"), *map(Column, heads))
    by_system = list(frame.groupby(["setting", "target", "system"], sort=False))
    rows = tuple(
        (
            *(titles[target] + ("" if setting == "full" else f" ({setting})"), system),
            *(printed("score", own.set_index("form").loc[form, score], "?") for score, form in names),
        )
        for (setting, target, system), own in by_system
    )
    caption = (
        "Rationales: token F1 and F1 of spans whose overlap is at least half of their union, means over test rows. The"
        " forms treat rows without a rationale each in its own way, so they do not compare with each other, and none"
        " means anything without the two constants."
    )
    rules = changes([(target, setting) for (setting, target, _), _ in by_system])
    yield Table("rationales", caption, columns, tuple(once(rows)), labels=2, rules=rules)


def merged(frames: Frames) -> Iterator[Table]:
    """What merged intermediates gain on average over targets, and beyond what they are held against."""
    frame = frames.get("merged_means")
    if frame is None or frame.empty:
        return
    against = [name for name in LESS if frame[f"less_{name}"].notna().any()]
    heads = ["Points", "95 % interval", *(head for name in against for head in (LESS[name], "95 % interval"))]
    labels = (Column("Merged row", "label"), Column("Metric", "label"), Column("Setting", "label"), Column("Targets"))
    rows = tuple(
        (
            *(row["row"], METRIC_NAMES[row["metric"]], row["setting"], printed("count", row["n_targets"])),
            *(printed("points", row["points"], "?"), spanned("points", row["low"], row["high"], "--")),
            *(text for name in against for text in _less(row, name)),
        )
        for row in frame.to_dict("records")
    )
    caption = (
        "Merged intermediates: gains in points over the target alone, and paired differences from the single that"
        " validation chooses, the mean of all singles, and the controls, means over targets. Intervals are of Student's"
        " t over targets; tests of each target are in data/merged.csv."
    )
    yield Table("merged", caption, (*labels, *map(Column, heads)), rows, is_turned=True)


def _less(row: dict[str, Any], name: str) -> tuple[str, str]:
    interval = spanned("points", row[f"low_less_{name}"], row[f"high_less_{name}"], "--")
    return printed("points", row[f"less_{name}"], "--"), interval
