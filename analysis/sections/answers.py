"""The sections of an analysis on ratings, themes and less data; each writes the frames that it tells of."""

from __future__ import annotations

from typing import Any

import pandas as pd
from threadpoolctl import threadpool_limits

from adapters_store.disk import new_folder
from analysis.gains.significance import LEVEL
from analysis.importance.ranking import FEWEST_CANDIDATES, QUALITIES, judged, rankings, summary
from analysis.importance.similarity import SIMILARITIES
from analysis.ratings.agreement import OVERALL, agreement, differences, rater_pairs
from analysis.ratings.less_data import non_inferiority
from analysis.ratings.themes import ALL, LARGER, WITHOUT, rating_means, task_effects, theme_contrasts, theme_counts
from analysis.sections.importance import Answer, Progress, guarded_answer, paper_answer
from analysis.sections.question import Question
from analysis.tables import interval, number, percent, table, write_frames, yes_no
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


# The section on choosing an intermediate before its transfer is run: which rankings were right on these results.

HEAD = "## Choosing an intermediate beforehand"
DIGITS = {"ndcg": 3, "regret_1": 1, "regret_3": 1, "tau": 2}
TITLES = {"ndcg": "NDCG", "regret_1": "regret@1", "regret_3": "regret@3", "tau": "Kendall's tau"}
TEXT = (
    "Intermediates of every target, ranked by what is known before any transfer onto it: similarities, the"
    " intermediate's size, their fused ranks, and a ridge regression that has not seen the target's family. NDCG is 1"
    " for the right order; regret is by how many percent the best of the first one, or three, falls short of the best"
    " score. Means over targets with 95 % limits, which resample targets and are too narrow, because targets of a"
    " family are alike."
)


def choosing(question: Question) -> list[str]:
    """How right every ranking was, beside a random order."""
    similarities = question.similarities
    alike = pd.DataFrame(columns=list(SIMILARITIES)) if similarities is None else similarities
    rows = judged(question.results, rankings(question.results, alike))
    if rows.empty:
        return [HEAD, f"No target has {FEWEST_CANDIDATES} finished transfers, so no ranking can be judged."]
    found = summary(rows)
    write_frames(rows, question.out / "choosing_targets")
    write_frames(found, question.out / "choosing")
    lines = [("a random order", "", *(_of_chance(found.iloc[0], name) for name in QUALITIES))]
    lines += [(one.ranking, one.n_targets, *(_cell(one, name) for name in QUALITIES)) for one in found.itertuples()]
    better = found.ranking[found.ndcg_low > found.ndcg_chance]
    verdict = f"Better than a random order by NDCG, with 95 % limits: {', '.join(better) or 'none'}."
    return [HEAD, TEXT, table(("ranking", "targets", *TITLES.values()), lines), verdict]


def _of_chance(row: pd.Series, name: str) -> str:
    return number(row[f"{name}_chance"], DIGITS[name])


def _cell(row: Any, name: str) -> str:  # noqa: ANN401 - a row of a frame
    low, high = getattr(row, f"{name}_low"), getattr(row, f"{name}_high")
    return f"{number(getattr(row, name), DIGITS[name])} ({interval(low, high, DIGITS[name])})"


# Every answer about a study's tasks and ratings, in the order in which pages give them.

MODES = {"guarded": guarded_answer, "paper": paper_answer}


def silent(done: int, of: int, what: str) -> None:
    """Show no progress."""


def explained(question: Question, mode: str, progress: Progress = silent) -> tuple[Answer, list[str]]:
    """What explains gains, in a mode, and the paragraphs of all answers; their frames are written beside."""
    new_folder(question.out)
    with threadpool_limits(1):  # many small products: a second thread only waits
        answer = MODES[mode](question, progress)
    others = (themes, half_data, choosing)
    page = [*ratings(question), *answer.page, *(line for part in others for line in part(question))]
    return answer, page
