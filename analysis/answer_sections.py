"""The sections of an analysis on ratings, themes and less data; each writes the frames that it tells of."""

from __future__ import annotations

from typing import Any

import pandas as pd

from analysis.agreement import OVERALL, agreement, differences, rater_pairs
from analysis.answers import Question
from analysis.frames import write_frames
from analysis.half_data import non_inferiority
from analysis.markdown import interval, number, percent, table, yes_no
from analysis.significance import LEVEL
from analysis.themes import ALL, LARGER, WITHOUT, rating_means, task_effects, theme_contrasts, theme_counts
from tasks.ratings import constructs


def ratings(question: Question) -> list[str]:
    """How far the raters agree, and what they say of every task."""
    found = question.results
    if found.ratings.empty:
        return ["## Ratings", "No task of these results has ratings, so nothing can be said about what they explain."]
    agreed, pairs, means = agreement(found), rater_pairs(found), rating_means(found)
    for name, frame in (("agreement", agreed), ("rater_pairs", pairs), ("rating_differences", differences(found))):
        write_frames(frame, question.out / name)
    write_frames(means, question.out / "rating_means")
    rated = found.constructs
    text = (
        "Krippendorff's alpha within panels of raters who are linked by tasks that they share, with interval"
        " differences as in the paper, and ordinal ones, which a scale of five steps deserves. Intervals come from"
        " resampled tasks. Alpha above .8 is commonly asked for, above .667 for tentative conclusions."
    )
    rows = [
        (
            *(_construct(one.construct), one.raters, one.n_tasks),
            *(number(one.alpha_interval, 4), interval(one.low_interval, one.high_interval, 2)),
            *(number(one.alpha_ordinal, 4), interval(one.low_ordinal, one.high_ordinal, 2)),
        )
        for one in agreed.itertuples()
    ]
    head = ["construct", "raters", "tasks", "alpha (interval)", "95 % interval", "alpha (ordinal)", "95 % interval"]
    each = [
        (
            *(_construct(one.construct), f"{one.rater_a}, {one.rater_b}", one.n_tasks, number(one.spearman, 4)),
            *(interval(one.low, one.high, 2), _p(one.p), number(one.mean_difference, 2)),
        )
        for one in pairs.itertuples()
    ]
    head_each = ["construct", "raters", "tasks", "Spearman", "95 % interval", "p", "first less second, mean"]
    unrated = means[means[rated].isna().all(axis=1)].title.tolist()
    lines = ["## Ratings", text, table(head, rows)]
    lines += ["Pairs of raters:", table(head_each, each)] if each else ["No two raters share a task."]
    lines += ["Means over raters, by theme:", _means(means, rated)]
    return lines + ([f"Without ratings: {', '.join(unrated)}."] if unrated else [])


def themes(question: Question) -> list[str]:
    """The paper's counts of significant pairs by theme, and contrasts of task effects beside them."""
    found = question.results
    counts = [theme_counts(one).assign(panel=name) for name, one in question.counted.items()]
    effects = task_effects(found)
    contrasts = theme_contrasts(effects)
    shown = pd.concat(counts, ignore_index=True)
    for name, frame in (("theme_counts", shown), ("task_effects", effects), ("theme_contrasts", contrasts)):
        write_frames(frame, question.out / name)
    if shown.empty:
        return ["## Themes", "No task of these results has a theme."]
    lines = ["## Themes", *([question.note] if question.note else [])]
    lines.append(
        f"Significant pairs (p <= {LEVEL:g}, uncorrected; after Benjamini and Hochberg over all pairs beside it) by"
        f" the theme of the intermediate and of the target; larger: by at least {LARGER:g} of a score, tested or not."
        " A count grows with the test sets and counts a task once for each partner. A setting is held against the"
        " target alone in the same setting, unless it says against full: the target alone with all its data."
    )
    head = ["panel", "role", "theme", "tasks", "pairs", "tested", "gains", "harms", "gains (BH)", "harms (BH)"]
    rows = [(one.panel, *one[1:10], *(_share(one, kind) for kind in ("gains", "harms"))) for one in shown.itertuples()]
    lines.append(table([*head, "larger gains", "larger harms"], rows))
    return [*lines, *_contrasts(contrasts)]


def half_data(question: Question) -> list[str]:
    """Whether less data with an intermediate do as well as all data alone; nothing where no setting has less."""
    if not question.limited:
        return []
    frame = pd.concat([non_inferiority(one, margin=question.margin) for one in question.limited], ignore_index=True)
    write_frames(frame, question.out / "non_inferiority")
    text = (
        f"Non-inferiority of less data with an intermediate to all data alone, with a margin of {question.margin:g}"
        " points. Non-inferior means that a loss as large as the margin is ruled out, one-sided at 5 %: for a theme by"
        " its mean, whose bound is the lower of Student's t over intermediates and over targets; for a pair by its own"
        " interval. A pair that is not significantly different is not therefore as good."
    )
    head = ["setting", "role", "theme", "tasks", "pairs", "points over full", "bound", "non-inferior"]
    head += ["pairs non-inferior", "inferior", "undecided", "not significant"]
    rows = [
        (
            *(one.setting, one.role, one.theme, one.n_tasks, one.n_pairs),
            *(number(one.points_over_full, 1), number(one.lower, 1), yes_no(one.non_inferior)),
            *(one.pairs_non_inferior, one.pairs_inferior, one.pairs_undecided, one.pairs_not_significant),
        )
        for one in frame.itertuples()
    ]
    return ["## Less data", text, table(head, rows)]


def _contrasts(contrasts: pd.DataFrame) -> list[str]:
    """Table of contrasts, and how much they hang on single families."""
    if contrasts.empty:
        return ["Mean gains of themes cannot be compared: that needs two themes, and pairs that link all tasks."]
    text = (
        "Mean gains of themes, in points: every task counts once in a role, free of the partners that it had. p:"
        " themes permuted over tasks; p (largest): the same for the largest contrast of the role. Points of F1 and of r"
        " are taken as they stand. Tasks of one family are not independent, so the last column gives the largest"
        " p (largest) when each family is left out in turn."
    )
    is_part = contrasts.cells.str.startswith(WITHOUT)
    worst = contrasts[is_part].groupby(["role", "theme_a", "theme_b"]).p_max.max()
    rows = [
        (
            *(one.cells, one.role, f"{one.theme_a} - {one.theme_b}", f"{one.n_a}, {one.n_b}"),
            *(number(one.difference, 2), number(one.by_chance, 2), _p(one.p), _p(one.p_max)),
            _p(worst.get((one.role, one.theme_a, one.theme_b), float("nan"))) if one.cells == ALL else "",
        )
        for one in contrasts[~is_part].itertuples()
    ]
    head = ["pairs", "role", "contrast", "tasks", "difference", "by chance under", "p", "p (largest)"]
    return [text, table([*head, "without any one family, at most"], rows)]


def _means(means: pd.DataFrame, rated: list[str]) -> str:
    head = ["task", "theme", "raters", *(_construct(name) for name in rated), "overall"]
    rows = [
        (one["title"], one["theme"] or "none", one["n_raters"], *(number(one[name], 2) for name in [*rated, OVERALL]))
        for one in means.to_dict("records")
    ]
    return table(head, rows)


def _construct(name: str) -> str:
    return constructs()[name].title if name in constructs() else name


def _share(one: Any, kind: str) -> str:  # noqa: ANN401 - a row of a frame
    count = getattr(one, f"larger_{kind}")
    return f"{count} ({percent(count / one.n_pairs)})" if one.n_pairs else "0"


def _p(value: float) -> str:
    return number(value, 4) if pd.isna(value) or value >= 1e-4 else f"{value:.1e}"
