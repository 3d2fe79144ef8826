"""The tables of a manuscript, each from the frames that are written as CSV."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from analysis.figures.heatmaps import DAGGER, DOUBLE_DAGGER, METRIC_NAMES
from analysis.gains.significance import LEVEL
from analysis.importance.mixed import NOT_TESTED
from analysis.manuscript.frames import BEST, EXTREMES, SPLITS, TOP, NamedFrames
from analysis.manuscript.layout import BoldCell, ColumnHead, Float, changes, once, printed, span
from analysis.ratings.themes import ALL
from analysis.results.leaderboard import FILES
from analysis.sections.answers import AGREEMENT, CONTRASTS, RATER_PAIRS, THEME_COUNTS, means_columns
from analysis.sections.blocks import COUNTS, LABEL, Column
from analysis.sections.gains import merged_columns
from analysis.sections.importance import SLOPE_COLUMNS
from analysis.sections.study import RATIONALES, alone_columns, rationales_by_system

LEADERBOARD, LEADERBOARD_RATIONALES = FILES["board"], FILES["rationales"]


def columns_of(labels: Iterable[str], numbers: Iterable[str]) -> tuple[ColumnHead, ...]:
    """The columns of a table by their heads: labels at the left, then numbers."""
    return (*(ColumnHead(head, "label") for head in labels), *map(ColumnHead, numbers))


def in_print(
    name: str,
    caption: str,
    frame: pd.DataFrame,
    columns: Sequence[Column],
    *,
    missing: str = "--",
    is_grouped: bool = False,
    **further: Any,  # noqa: ANN401 - fields
) -> Float:
    """The rows of a frame in these columns, whose names begin with a capital; ``further`` is as of ``Float``.

    If ``is_grouped``, what the first column has is said where it changes, below a line.
    """
    heads = tuple(ColumnHead(_capital(column.head), LABEL if column.kind == LABEL else "number") for column in columns)
    rows = tuple(tuple(_cell(column, row, missing) for column in columns) for row in frame.to_dict("records"))
    if is_grouped:
        further["rules"], rows = changes(row[0] for row in rows), tuple(once(rows))
    return Float(name, caption, heads, rows, **further)


def _in_setting(setting: str) -> str:
    """What a caption says of less data; nothing of all."""
    return "" if setting == "full" else f" Setting: {setting} of the training data."


def _cell(column: Column, row: Mapping[str, Any], missing: str) -> str:
    first, *last = column.values(row)
    if column.kind in (LABEL, COUNTS):
        return _capital(str(first)) if column.head == "construct" else first if isinstance(first, str) else str(first)
    return span(column.kind, first, last[0], missing) if last else printed(column.kind, first, missing)


def _capital(text: str) -> str:
    """A text with a capital at its beginning; p is none."""
    return text if text.split(" ")[0] == "p" else text[:1].upper() + text[1:]


def systems(frames: NamedFrames, titles: pd.Series) -> Iterator[Float]:
    """The leaderboard of a study with systems: what each scores on each target, by setting."""
    frame = frames.get(LEADERBOARD, pd.DataFrame({"setting": []}))
    columns = (
        Column("target", lambda row: titles[row["target"]]),
        Column("system", lambda row: _contestant(row, titles)),
        Column("score", _leading, COUNTS),
        Column("95 % interval", ("low", "high"), "score"),
        Column("seeds", "n_seeds", "count"),
        Column("metric", lambda row: METRIC_NAMES[row["metric"]]),
    )
    for setting, part in frame.groupby("setting", sort=False):
        caption = (
            "Test scores of systems, of adapters, and of the transfer that validation picks, with 95 % intervals. Bold:"
            " the highest score of the target, or tied with it by paired tests of all against all (max-T)."
        )
        if part.is_leaking.any():
            caption += f" {DAGGER} leaks: test rows were predicted from their own answers; without a rank."
        stem = f"systems-{setting.replace('%', 'pct')}"
        further: dict[str, Any] = {"missing": "?", "is_grouped": True, "labels": 2}
        yield in_print(stem, caption + _in_setting(setting), part, columns, **further)


def _contestant(row: Mapping[str, Any], titles: pd.Series) -> str:
    """What a system is called, a transfer by its intermediate's title."""
    name, below = row["system"], row["intermediate"]
    return f"{name.replace(below, titles[below]) if below else name}{DAGGER * bool(row['is_leaking'])}"


def _leading(row: Mapping[str, Any]) -> str:
    """A score, in bold if it is the highest or tied with it."""
    text = printed("score", row["score"], "?")
    return BoldCell(text) if row["rank"] == 1 or row["is_tied"] == True else text  # noqa: E712 - True, False or nothing


def rationales(frames: NamedFrames, titles: pd.Series) -> Iterator[Float]:
    """How well systems mark rationales, in every form of the scores, beside marking everything and nothing."""
    frame = frames.get(LEADERBOARD_RATIONALES)
    if frame is None or frame.empty:
        return
    columns = (
        Column(
            "target", lambda row: titles[row["target"]] + ("" if row["setting"] == "full" else f" ({row['setting']})")
        ),
        *RATIONALES,
    )
    caption = (
        "Rationales: token F1 and F1 of spans whose overlap is at least half of their union, means over test rows. The"
        " forms treat rows without a rationale each in its own way, so they do not compare with each other, and none"
        " means anything without the two constants."
    )
    marked = rationales_by_system(frame)
    yield in_print("rationales", caption, marked, columns, missing="?", is_grouped=True, labels=2)


def merged(frames: NamedFrames) -> Iterator[Float]:
    """What merged intermediates gain on average over targets, and beyond what they are held against."""
    frame = frames.get("merged_means", pd.DataFrame())
    if len(frame):
        caption = (
            "Merged intermediates: gains in points over the target alone, and paired differences from the single that"
            " validation chooses, the mean of all singles, and the controls, means over targets. Intervals are of"
            " Student's t over targets; tests of each target are in data/merged.csv."
        )
        yield in_print("merged", caption, frame, merged_columns(frame), is_turned=True)


# Tables of what may explain gains, and of the data sets behind them.


def means(frames: NamedFrames) -> Iterator[Float]:
    """Mean ratings of every task by theme."""
    frame = frames.get("rating_means", pd.DataFrame())
    if rated := [name for name in frame if name not in ("task", "title", "theme", "n_raters", "overall")]:
        caption, rules = "Ratings of tasks, means over raters, by theme.", changes(frame.theme)
        yield in_print("rating-means", caption, frame, means_columns(rated), rules=rules)


def slopes(frames: NamedFrames) -> Iterator[Float]:
    """By how many points gains follow each rating, with the verdict of the mixed model."""
    frame = frames.get("mixed_slopes")
    if frame is None or frame[frame.verdict != NOT_TESTED].empty:
        return
    *first, verdict = SLOPE_COLUMNS
    columns = [Column("question", "question"), *first, Column("visible", "detectable", "rating"), verdict]
    text = (
        "Points of gain per step by which the intermediate is rated higher than its target (signed), or by which the"
        " two ratings are apart (distance). The larger p counts, corrected for all ratings; the interval holds the"
        " slopes that are not rejected; visible: what would have been seen in 80 % of such studies."
    )
    yield in_print("slopes", text, frame, columns)


def declared(frames: NamedFrames) -> Iterator[Float]:
    """The answers to the questions that the study declared."""
    if "declared_questions" in frames:
        columns = (
            *(Column("question", "question"), Column("part", "part")),
            *(Column("estimate", "estimate", "rating"), Column("95 % interval", ("low", "high"), "rating")),
            *(Column("p", "p_corrected", "short p"), Column("visible", "smallest", "rating")),
        )
        text = (
            "Declared questions, in points: p is corrected for the parts of a question; visible: what would have been"
            " seen in 80 % of such studies."
        )
        yield in_print("questions", text, frames["declared_questions"], columns, is_grouped=True)


def importances(frames: NamedFrames) -> Iterator[Float]:
    """What each feature is worth by the paper's procedure, where that was computed."""
    fitted = frames.get("figure-2-importances")
    if fitted is None:
        return
    series = list(dict.fromkeys(fitted.series))
    columns = columns_of(["Feature"], [f"Importance, {name}" for name in series])
    shown = {
        (row.series, row.feature): f"{printed('importance', row.importance)} ({printed('importance', row.sd)})"
        for row in fitted[~fitted.is_stand_in].itertuples()
    }
    rows = tuple(
        (title, *(shown.get((name, feature), "--") for name in series))
        for feature, title in dict(zip(fitted.feature, fitted.title, strict=True)).items()
    )
    text = (
        "Importance of each feature by the paper's procedure: decrease in R2 on the training pairs (sd), a fit in the"
        " sample."
    )
    if fitted.is_stand_in.any():
        names = ", ".join(dict.fromkeys(fitted.title[fitted.is_stand_in]))
        text += f" Not measured, so that random numbers stood in for it in that fit (--): {names}."
    yield Float("importances", text, columns, rows)


def data_sets(frames: NamedFrames) -> Iterator[Float]:
    """Tasks with their splits, and data sets with their licences."""
    frame = frames["data_sets"]
    columns = (
        *(Column("task", "title"), Column("family", "family")),
        Column("metric", lambda row: METRIC_NAMES[row["metric"]]),
        Column("classes", _classes, COUNTS),
        *(Column(part, f"n_{part}", "count") for part in SPLITS),
    )
    yield in_print("splits", "Tasks and the rows of their splits.", frame, columns, missing="?")
    if (frame.licence.isna() | (frame.licence == "")).all():  # texts that were made up have none
        return
    kinds = ("label", "label", "text", "text")
    heads = ("Data set", "Language", "Licence as stated", "Tasks")
    groups = frame.groupby("dataset", sort=False)
    rows = tuple(
        (
            str(name),
            ", ".join(dict.fromkeys(part.language)),
            "; ".join(dict.fromkeys(part.licence)) + (" (private)" if part.private.any() else ""),
            ", ".join(part.title),
        )
        for name, part in groups
    )
    printed_heads = tuple(ColumnHead(head, kind) for head, kind in zip(heads, kinds, strict=True))
    yield Float("licences", "Data sets and their licences as their publishers state them.", printed_heads, rows)


def _classes(row: Mapping[str, Any]) -> str:
    return "number" if row["metric"] == "pearson_r" else printed("count", row["n_labels"], "?")


ALONE = "baseline (no intermediate)"
NO_P_VALUE = "No transfer has a p value, so none is marked."


def tables(frames: NamedFrames, banner: str) -> list[Float]:
    """Every table that the frames have rows for; ``banner`` stands before each caption."""
    titles = frames["data_sets"].set_index("task").title
    made = [
        *declared(frames),
        *best_and_worst(frames, titles),
        *scores(frames, titles),
        *alone(frames, titles),
        *systems(frames, titles),
        *rationales(frames, titles),
        *merged(frames),
        *agreement(frames),
        *theme_counts(frames),
        *contrasts(frames),
        *means(frames),
        *slopes(frames),
        *importances(frames),
        *data_sets(frames),
    ]
    short = (table.without_constants() for table in made if table.rows)
    return [replace(table, caption=banner + table.caption) for table in short]


STARS = {0.001: "***", 0.01: "**", LEVEL: "*"}  # by the largest p that each stands for


def best_and_worst(frames: NamedFrames, titles: pd.Series) -> Iterator[Float]:
    """The best and the worst intermediates of every target with intervals, by setting; stars after max-T."""
    frame = frames.get(EXTREMES, pd.DataFrame({"setting": []}))
    columns = (
        Column("target", lambda row: titles[row["target"]]),
        Column("", lambda row: f"{row['end']} {row['place']}"),
        Column("intermediate", lambda row: titles[row["intermediate"]]),
        Column("gain", _stars, COUNTS),
        Column("95 % interval", ("low", "high"), "points"),
    )
    for setting, part in frame.groupby("setting", sort=False):
        caption = f"The best and the worst {TOP} intermediates of each target: gains in points"
        caption += " with 95 % intervals." if part.low.notna().any() else "; intervals are not known."
        if part.p_max_grid.notna().any():
            keys = ", ".join(f"{mark} p \u2264 {level:g}" for level, mark in reversed(STARS.items()))
            caption += f" {keys}, corrected over all pairs (family-wise, max-T)."
        stem = f"best-and-worst-{setting.replace('%', 'pct')}"
        yield in_print(stem, caption + _in_setting(setting), part, columns, is_grouped=True, labels=3)


def _stars(gain: Mapping[str, Any]) -> str:
    """A gain in points with its stars; in bold if it is the target's best."""
    stars = next((mark for level, mark in STARS.items() if gain["p_max_grid"] <= level), "")
    text = printed("points", gain["points"]) + stars
    return BoldCell(text) if (gain["end"], gain["place"]) == (BEST, 1) else text


def scores(frames: NamedFrames, titles: pd.Series) -> Iterator[Float]:
    """One table per metric and setting: intermediates by targets, marked where a gain or harm is significant."""
    if "pairs" not in frames:
        return
    pairs, solo = frames["pairs"], frames["alone"]
    for metric, name in METRIC_NAMES.items():
        for setting in solo.setting[solo.metric == metric].drop_duplicates():
            part = pairs[(pairs.metric == metric) & (pairs.setting == setting)]
            baselines = solo[(solo.metric == metric) & (solo.setting == setting)].set_index("target").score
            if part.empty:
                continue
            gains_by_pair = {(gain.intermediate, gain.target): _score(gain) for gain in part.itertuples()}
            intermediates = [task for task in titles.index if task in set(part.intermediate)]
            tops = part.groupby("target").score.max().map(lambda score: printed("score", score))
            rows = [(ALONE, *(printed("score", value, "?") for value in baselines))]
            for task in intermediates:
                cells = (_best(gains_by_pair.get((task, target), "--"), tops, target) for target in baselines.index)
                rows.append((titles[task], *cells))
            columns = columns_of(["Intermediate"], [titles[target] for target in baselines.index])
            more = "" if setting == "full" else f", {setting} of the training data"
            caption = f"Test scores ({name}) of every target (column) on every intermediate (row){more}."
            caption += f" Bold: the best transfer. {_key(part)}"
            stem = f"scores-{metric.replace('_', '-')}-{setting.replace('%', 'pct')}"
            yield Float(stem, caption, columns, tuple(rows), is_turned=True, rules=(1,))


def _score(gain: Any) -> str:  # noqa: ANN401 - a row of a frame
    """A score with its marks; a question mark where it is planned and not there."""
    marks = (
        "*" * bool(gain.significant) + DAGGER * (gain.collapsed is True) + DOUBLE_DAGGER * (gain.contaminated is True)
    )
    return printed("score", gain.score, "?") + marks


def _best(cell: str, tops: pd.Series, target: str) -> str:
    """The cell, in bold if it prints the best transfer's score."""
    return BoldCell(cell) if tops.get(target) and cell.rstrip(f"*{DAGGER}{DOUBLE_DAGGER}") == tops[target] else cell


def _key(part: pd.DataFrame) -> str:
    """What the marks mean, of those that occur."""
    notes = [f"* differs from the target alone, p \u2264 {LEVEL:g} after Benjamini and Hochberg."]
    if part.p_bh.isna().all():
        notes = [NO_P_VALUE]
    if (part.collapsed == True).any():  # noqa: E712 - a column of True, False and nothing
        notes.append(f"{DAGGER} collapsed in a seed: this cell or the target alone.")
    if (part.contaminated == True).any():  # noqa: E712
        notes.append(f"{DOUBLE_DAGGER} contaminated: test items are training material.")
    if part.score.isna().any():
        notes.append("? not finished or not defined.")
    return " ".join(notes)


def alone(frames: NamedFrames, titles: pd.Series) -> Iterator[Float]:
    """Targets alone with intervals and floors, where predictions are stored."""
    frame = frames["alone"]
    if frame.low.notna().any():
        caption = (
            "Targets alone. The floor is the majority-class score (or r = 0); intervals come from"
            " resampled groups of test rows and, where there are several seeds, from their spread."
        )
        yield in_print("alone", caption, frame, alone_columns(titles.get), missing="?")


def agreement(frames: NamedFrames) -> Iterator[Float]:
    """Krippendorff's alpha with intervals, and Spearman's correlation of every two raters."""
    if "agreement" in frames:
        caption = "Agreement of raters: Krippendorff's alpha with interval and with ordinal differences; intervals"
        yield in_print("agreement", f"{caption} resample tasks.", frames["agreement"], AGREEMENT)
        caption = "Rank correlation of every two raters, and the first one's ratings less the second's."
        yield in_print("rater-pairs", caption, frames["rater_pairs"], RATER_PAIRS)


def theme_counts(frames: NamedFrames) -> Iterator[Float]:
    """Significant gains and harms by theme, in every panel."""
    if "theme_counts" not in frames:
        return
    frame = frames["theme_counts"]
    rules = changes(zip(frame.panel, frame.role, strict=True))
    larger = [Column(f"larger {kind}", f"larger_{kind}", "count") for kind in ("gains", "harms")]
    caption = (
        f"Pairs that gain or lose significantly (p \u2264 {LEVEL:g}, uncorrected, and after Benjamini and Hochberg) and"
        " those at least 0.02 of a score above or below the target alone, by the theme of the task in each role."
    )
    if frame.panel.str.startswith("assumed").any():
        caption += " Standard errors are approximations for an assumed correlation of errors: read directions only."
    yield in_print("theme-counts", caption, frame, [*THEME_COUNTS, *larger], labels=3, rules=rules)


def contrasts(frames: NamedFrames) -> Iterator[Float]:
    """Differences of mean gains between themes."""
    if "theme_contrasts" in frames:
        frame = frames["theme_contrasts"]
        caption = (
            "Mean gains of one theme's tasks less another's, in points, each task counted once in a role; p of the"
            " likelihood ratio with random families, p (max-corrected) corrected for all contrasts of the role."
        )
        yield in_print("theme-contrasts", caption, frame[frame.cells == ALL], CONTRASTS, labels=2)
