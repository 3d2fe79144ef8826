"""The sections of an analysis on ratings, themes and less data."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from threadpoolctl import threadpool_limits

from adapters_store.disk import write_text
from analysis.figures.drawing import Drawing
from analysis.figures.paper_figures import BUDGET_TITLE, budget_curves
from analysis.gains.significance import LEVEL, p_text
from analysis.importance import choosing as choices
from analysis.importance.mixed import NOT_TESTED, Mixed, ends
from analysis.importance.mixed_test import SIGNED
from analysis.importance.question import Question
from analysis.ratings.agreement import BOTH, OVERALL, WITH_MEAN, WITH_PERSON, Beside, agreements, differences, repeats
from analysis.ratings.themes import ALL, LARGER, WITHOUT, non_inferiority, rating_means, theme_counts
from analysis.results.results import Results
from analysis.results.similarity import SIMILARITIES
from analysis.sections import importance as explained
from analysis.sections.blocks import (
    COUNTS,
    Block,
    Bullets,
    Column,
    Heading,
    Section,
    Table,
    Text,
    markdown,
    pictures,
)
from analysis.sections.importance import rows
from analysis.tables import interval, number, percent, signed, yes_no
from tasks.plain_text import counted
from tasks.ratings import constructs

AGREEMENT = (
    Column("construct", lambda row: construct_title(row["construct"])),
    Column("raters", "raters"),
    Column("tasks", "n_tasks", "count"),
    Column("alpha (interval)", "alpha_interval", "alpha"),
    Column("95 % interval", ("low_interval", "high_interval"), "alpha"),
    Column("alpha (ordinal)", "alpha_ordinal", "alpha"),
    Column("95 % interval", ("low_ordinal", "high_ordinal"), "alpha"),
)
RATER_PAIRS = (
    Column("construct", lambda row: construct_title(row["construct"])),
    Column("raters", lambda row: f"{row['rater_a']}, {row['rater_b']}"),
    Column("tasks", "n_tasks", "count"),
    Column("Spearman", "spearman", "alpha"),
    Column("95 % interval", ("low", "high"), "alpha"),
    Column("p", "p", "p"),
    Column("mean difference A - B", "mean_difference", "rating"),
)
SIGNIFICANT = {"gains": "gains", "harms": "harms", "gains (BH)": "gains_bh", "harms (BH)": "harms_bh"}
THEME_COUNTS = (
    *(Column(name, name) for name in ("panel", "role", "theme")),
    *(Column("pairs", "n_pairs", "count"), Column("tested", "n_tested", "count")),
    *(Column(head, name, "count") for head, name in SIGNIFICANT.items()),
)
CONTRASTS = (
    Column("role", "role"),
    Column("contrast", lambda row: f"{row['theme_a']} - {row['theme_b']}"),
    Column("tasks", lambda row: f"{row['n_a']}, {row['n_b']}", COUNTS),
    Column("difference", "difference", "mean points"),
    Column("95 % null limit", "by_chance", "mean points"),
    Column("p", "p", "p"),
    Column("p (max-corrected)", "p_max", "p"),
)


def ratings(question: Question) -> Section:
    """How far the raters agree, and what they say of every task."""
    results = question.results
    if results.ratings.empty:
        text = "No task of these results has ratings, so nothing can be said about what they explain."
        return Section("Ratings", [Text(text)])
    alphas, pairs = explained.kept_agreement(question)
    means, differing = rating_means(results), differences(results)
    frames = {"agreement": alphas, "rater_pairs": pairs, "rating_differences": differing, "rating_means": means}
    rated = results.constructs
    text = (
        "Krippendorff's alpha within panels of raters who are linked by tasks that they share, with interval"
        " differences as in the paper, and ordinal ones, which a scale of five steps deserves. Intervals come from"
        " resampled tasks. Alpha above .8 is commonly asked for, above .667 for tentative conclusions."
    )
    unrated = means[means[rated].isna().all(axis=1)].title.tolist()
    blocks: list[Block] = [Text(text), Table.of(alphas, AGREEMENT)]
    each = Table.of(pairs, RATER_PAIRS)
    blocks += [Text("Pairs of raters:"), each] if each.rows else [Text("No two raters share a task.")]
    blocks += [Text("Means over raters, by theme:"), Table.of(means, means_columns(rated))]
    blocks += [Text(f"Without ratings: {', '.join(unrated)}.")] if unrated else []
    return Section("Ratings", blocks, frames)


def themes(question: Question) -> Section:
    """The paper's counts of significant pairs by theme, and contrasts of task effects beside them."""
    counts = [theme_counts(results).assign(panel=panel) for panel, results in question.counted.items()]
    shown = pd.concat(counts, ignore_index=True)
    frames = {"theme_counts": shown, "task_effects": question.effects, "theme_contrasts": question.contrasts}
    if shown.empty:
        return Section("Themes", [Text("No task of these results has a theme.")], frames)
    text = (
        f"Significant pairs (p <= {LEVEL:g}, uncorrected; after Benjamini and Hochberg over all pairs beside it) by"
        f" the theme of the intermediate and of the target; larger: by at least {LARGER:g} of a score, tested or not."
        " A count grows with the test sets and counts a task once for each partner. A setting is held against the"
        " target alone in the same setting, unless it says against full: the target alone with all its data."
    )
    larger = [Column(f"larger {kind}", partial(_share, kind=kind)) for kind in ("gains", "harms")]
    columns = [*THEME_COUNTS[:3], Column("tasks", "n_tasks", "count"), *THEME_COUNTS[3:], *larger]
    note = [Text(question.note)] if question.note else []
    counted = Table.of(shown, columns)
    return Section("Themes", [*note, Text(text), counted, *_contrasts(question.contrasts)], frames)


def half_data(question: Question) -> Section | None:
    """Whether less data with an intermediate do as well as all data alone; nothing where no setting has less."""
    if not question.limited:
        return None
    parts = [non_inferiority(results, margin=question.margin) for results in question.limited]
    frame = pd.concat(parts, ignore_index=True)
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
            *(row.setting, row.role, row.theme, row.n_tasks, row.n_pairs),
            *(number(row.points_over_full, 1), number(row.lower, 1), yes_no(row.non_inferior)),
            *(row.pairs_non_inferior, row.pairs_inferior, row.pairs_undecided, row.pairs_not_significant),
        )
        for row in frame.itertuples()
    ]
    return Section("Less data", [Text(text), Table(head, rows)], {"non_inferiority": frame})


def _contrasts(contrasts: pd.DataFrame) -> list[Block]:
    """Table of contrasts, and how much they hang on single families."""
    if contrasts.empty:
        text = "Mean gains of themes cannot be compared: that needs two themes, and pairs that link all tasks."
        return [Text(text)]
    text = (
        "Mean gains of themes, in points: every task counts once in a role, free of the partners that it had, and"
        " tasks of one family may be alike for reasons of their own. p: how often effects with as much of that, drawn"
        " without a difference of themes, give as large a likelihood ratio; p (max-corrected): the same for the largest"
        " contrast of the role. Points of F1 and of r are taken as they stand. The last column gives the largest"
        " p (max-corrected) when each family is left out in turn."
    )
    is_part = contrasts.cells.str.startswith(WITHOUT)
    worst = contrasts[is_part].groupby(["role", "theme_a", "theme_b"]).p_max.max()

    def of_families(row: Mapping[str, Any]) -> str:
        p = worst.get((row["role"], row["theme_a"], row["theme_b"]), float("nan"))
        return p_text(p, 4) if row["cells"] == ALL else ""

    columns = [Column("pairs", "cells"), *CONTRASTS, Column("largest p when one family is left out", of_families)]
    return [Text(text), Table.of(contrasts[~is_part], columns)]


def means_columns(rated: Sequence[str]) -> list[Column]:
    """The columns of mean ratings on these constructs."""
    theme = Column("theme", lambda row: row["theme"] or "none")
    of_constructs = [Column(construct_title(name), name, "rating") for name in rated]
    overall = Column("overall", OVERALL, "rating")
    return [Column("task", "title"), theme, Column("raters", "n_raters", "count"), *of_constructs, overall]


def construct_title(name: str) -> str:
    """A construct's title; one that is not declared is called by its name."""
    return constructs()[name].title if name in constructs() else name


def _share(row: Mapping[str, Any], kind: str) -> str:
    count, n_pairs = row[f"larger_{kind}"], row["n_pairs"]
    return f"{count} ({percent(count / n_pairs)})" if n_pairs else "0"


# The section on choosing an intermediate before its transfer is run: which rankings were right on these results.

CHOOSING = "Choosing an intermediate beforehand"
DIGITS = {"ndcg": 3, "regret_1": 1, "regret_3": 1, "tau": 2}
TITLES = {"ndcg": "NDCG", "regret_1": "regret@1", "regret_3": "regret@3", "tau": "Kendall's tau"}
TEXT = (
    "Intermediates of every target, ranked by what is known before any transfer onto it: similarities, the"
    " intermediate's size, their fused ranks, and a ridge regression that has not seen the target's family. NDCG is 1"
    " for the right order; regret is by how many percent the best of the first one, or three, falls short of the best"
    " score. Means over targets with 95 % limits, which resample targets and are too narrow, because targets agree in"
    " what intermediates differ by. p: how often a ranking whose tasks are permuted, or whose families of tasks are and"
    " the tasks within them, has as large a mean NDCG: the larger of both, corrected for all rankings."
)


def _inputs(question: Question) -> dict[str, Any]:
    """What rankings follow from: results, and similarities, of which none may be measured."""
    similarities = pd.DataFrame(columns=list(SIMILARITIES)) if question.similarities is None else question.similarities
    return {"results": question.results, "similarities": similarities}


def choosing(question: Question) -> Section:
    """How right every ranking was, beside a random order."""
    results, inputs = question.results, _inputs(question)

    def compute() -> dict[str, Any]:
        ranked = choices.rankings(**inputs)
        rows = choices.ranking_qualities(results, ranked)
        return {"targets": rows, "summary": choices.summary(rows, results, ranked)}

    parts = question.kept.parts("qualities of rankings", inputs, compute)
    by_target, frame = parts["targets"], parts["summary"]
    if by_target.empty:
        text = f"No target has {choices.FEWEST_CANDIDATES} finished transfers, so no ranking can be judged."
        return Section(CHOOSING, [Text(text)])
    chance = (number(frame.iloc[0][f"{name}_chance"], digits) for name, digits in DIGITS.items())
    rows = [("a random order", "", *chance, "")]
    rows += [
        (row.ranking, row.n_targets, *(_cell(row, name) for name in DIGITS), p_text(row.p_corrected))
        for row in frame.itertuples()
    ]
    passing = ", ".join(choices.better(frame)) or "none"
    verdict = f"Better than a random order by NDCG, p (corrected) at most {LEVEL:g}: {passing}."
    table = Table(("ranking", "targets", *TITLES.values(), "p (corrected)"), rows)
    return Section(CHOOSING, [Text(TEXT), table, Text(verdict)], {"choosing_targets": by_target, "choosing": frame})


def _cell(row: Any, name: str) -> str:  # noqa: ANN401 - a row of a frame
    low, high = getattr(row, f"{name}_low"), getattr(row, f"{name}_high")
    return f"{number(getattr(row, name), DIGITS[name])} ({interval(low, high, DIGITS[name])})"


# The section on what a budget of transfers costs: the finished grid, trained again in one order or another.

BUDGET = "What a budget of transfers costs"
SHOWN = (1, 2, 4, 8)  # transfers per target
POINTS = 1  # a regret that is small
BUDGET_TEXT = (
    "The grid replayed: every target trains one candidate more at a time, and has the best of those trained. Regret: by"
    " how many points that falls short of the best of all, the mean over targets, with 95 % limits that resample"
    " targets. A random order is computed exactly; size, family and similarities are known before; by effects, a"
    " target next trains the intermediate that has given most to those that have tried it, beside what each target"
    " takes. The gain that judges also chooses, and is of few training runs, so compare with a random order, not with"
    " 0. Limits are too narrow where targets agree in what intermediates differ by."
)


def budgets(question: Question) -> Section | None:
    """The regret of every order by transfers per target, beside a random one; nothing where nothing can be chosen."""
    inputs = _inputs(question)
    frame = question.kept.frame(
        "what a budget costs", inputs, lambda: choices.budget(question.results, choices.rankings(**inputs))
    )
    if frame.empty:
        return None
    title = f"{question.results.banner}{BUDGET_TITLE}, {question.results.name}"
    figures = [Drawing("budget", title, frame, budget_curves)]
    counts = [k for k in SHOWN if k < frame.transfers.max()]
    rows, better = [], []  # less regret than a random order, with the transfers at which most of it shows
    for name, part in frame.set_index("transfers").groupby("order", sort=False):
        after = choices.enough(frame, name, POINTS)
        regrets = [f"{number(part.regret[k], 2)} ({interval(part.low[k], part.high[k], 2)})" for k in counts]
        rows.append([name, *regrets, f"{after} ({part.cells[after]} cells)" if after else "-"])
        less = part[part.index.isin(counts) & (part.difference_high < 0)]
        if name != choices.RANDOM and len(less):
            k = less.difference.idxmin()
            limits = interval(less.difference_low[k], less.difference_high[k], 2)
            better.append(f"{name} (after {k}: {signed(less.difference[k], 2)} points, {limits})")
    verdict = f"Less regret than in a random order, with limits below 0: {'; '.join(better) or 'none'}."
    head = ["ranking", *(f"regret, {k} trained" for k in counts), f"trained where regret is below {POINTS}"]
    shares = percent(choices.row_share(question.results)), percent(choices.share_by_chance(question.results))
    share = (
        f"Intermediates as such explain {shares[0]} of the variance of gains within targets, where noise alone would"
        f" give {shares[1]}: this is all that an order by effects can learn."
    )
    blocks: list[Block] = [Text(BUDGET_TEXT), Table(head, rows), Text(verdict), Text(share), *pictures(figures)]
    return Section(BUDGET, blocks, {"budget": frame}, figures=figures)


# The section on a model's ratings: how they agree with people's, and whether they say the same of gains.

BESIDE = "A model's ratings beside people's"
AGREEMENT_TEXT = (
    "Agreement of two raters at a time, over the tasks that both rated: Krippendorff's alpha, with interval and with"
    " ordinal differences, and Spearman's correlation; the mean difference is the first rater's less the second's."
    " Intervals come from resampled tasks. What people agree among themselves is the measure of what can be asked of a"
    " model. A model's rating is the mean of its readings."
)
SETS_TEXT = (
    "The guarded test (see what explains a gain), once with each set of ratings; with both, every rater counts once."
    " A task that has no rating on some construct takes no part. p is corrected for the ratings of a set, not for"
    " looking at several sets. A slope that is supported with one set"
    " and not with another is no difference between raters: compare the intervals. A model that was trained on the"
    " publications, or on published ratings, repeats what it has read."
)
ALPHAS = (
    Column("alpha (interval)", "alpha_interval", "rating"),
    Column("95 % interval", ("low_interval", "high_interval"), "rating"),
    Column("alpha (ordinal)", "alpha_ordinal", "rating"),
    Column("95 % interval", ("low_ordinal", "high_ordinal"), "rating"),
)
MODEL_AGREEMENT = (
    AGREEMENT[0],
    Column("raters", lambda row: f"{row['rater']}, {row['other']}"),
    *(Column("tasks", "n_tasks", "count"), *ALPHAS, Column("Spearman", "spearman", "rating")),
    Column("95 % interval", ("low_spearman", "high_spearman"), "rating"),
    Column("mean difference", lambda row: signed(row["mean_difference"], 2)),
)
MODEL_REPEATS = (
    *(AGREEMENT[0], Column("model", "rater"), Column("readings", "n_readings"), Column("tasks", "n_tasks")),
    *(Column("same", lambda row: percent(row["same"])), *ALPHAS),
)


def of_model(question: Question, model: Beside, progress: explained.Progress) -> explained.ImportanceReport:
    """The section on ratings that a model gave, its lines for a terminal and its facts."""
    people = model.people(question.results)
    agreed = question.kept.frame(
        "agreement with a model", {"model": model.ratings, "people": people}, lambda: agreements(model.ratings, people)
    )
    repeated, sets = repeats(model.readings), model.sets(question.results)
    answers = {name: explained.computed(replace(question, results=results), progress) for name, results in sets.items()}
    slopes = pd.concat([answer.slopes.assign(ratings=name) for name, answer in answers.items()], ignore_index=True)
    frames = {"model_agreement": agreed, "model_repeats": repeated, "rating_sets": slopes}
    raters = ", ".join(dict.fromkeys(model.ratings.rater))
    blocks: list[Block] = [Text(f"Nobody else has rated what {raters} has, so there is no agreement.")]
    if len(agreed):
        shown = agreed.sort_values("construct", key=_in_order, kind="stable")
        blocks = [Text(AGREEMENT_TEXT), Table.of(shown, MODEL_AGREEMENT)]
    if len(repeated):
        of_runs = "Readings of the model from run to run: the share of pairs that are the same number, and their alpha."
        blocks += [Text(of_runs), Table.of(repeated, MODEL_REPEATS)]
    else:
        blocks.append(Text("The model was asked once, so nothing is known of how it agrees with itself."))
    blocks.append(Text(SETS_TEXT))
    for name, results in sets.items():
        answer = answers[name]
        raters = ", ".join(dict.fromkeys(results.ratings.rater))
        text = Text(f"(by {raters}; {_rated_fully(results)})", lead=_title(name))
        tested = answer.slopes[(answer.slopes.question == SIGNED) & (answer.slopes.verdict != NOT_TESTED)]
        of_set = [text, Text(f"{answer.headline}.") if tested.empty else explained.slopes_table(tested)]
        blocks += of_set
    # A line per construct on the model and people's mean, or the only person.
    means = agreed[agreed.comparison == WITH_MEAN]
    shown = means if len(means) else agreed[agreed.comparison == WITH_PERSON]
    agreement_lines = [
        f"{row.rater} and {row.other}, {construct_title(row.construct)}: alpha {number(row.alpha_interval, 2)}"
        f" ({interval(row.low_interval, row.high_interval, 2)}), Spearman {number(row.spearman, 2)}"
        f" ({interval(row.low_spearman, row.high_spearman, 2)}), {counted(row.n_tasks, 'task')}"
        for row in shown.itertuples()
    ]
    lines = [*agreement_lines, *(_set_line(name, sets[name], answer) for name, answer in answers.items())]
    facts = {name: rows(frame) for name, frame in frames.items()}
    return explained.ImportanceReport(tuple(lines), Section(BESIDE, blocks, frames), facts)


def _set_line(name: str, results: Results, answer: Mixed) -> str:
    primary = answer.slopes[answer.slopes.question == SIGNED]
    clauses = [
        f"{row.title} {row.verdict}"
        if row.verdict == NOT_TESTED
        else f"{row.title} {signed(row.slope, 2)} ({ends(row.low, row.high)}), p {p_text(row.p)}, {row.verdict}"
        for row in primary.itertuples()
    ]
    return f"with {_title(name)} ({_rated_fully(results)}): {'; '.join(clauses) or answer.headline}"


def _rated_fully(results: Results) -> str:
    """How many tasks have a rating on every construct: the test has no others."""
    counts = results.ratings.groupby("task").construct.nunique()
    return f"{counted(int((counts == len(results.constructs)).sum()), 'task')} rated on every construct"


def _title(name: str) -> str:
    return f"{name} ratings" if name != BOTH else "both together"


def _in_order(names: pd.Series) -> pd.Series:
    """The place of each construct: declared ones in their order, then others, all together last."""
    order = [*constructs(), *(name for name in names if name not in constructs() and name != OVERALL), OVERALL]
    return names.map(order.index)


# Every answer about a study's tasks and ratings, in the order in which pages give them.

MODES = {"guarded": explained.guarded_answer, "paper": explained.paper_answer}


def silent(done: int, of: int, stage: str) -> None:
    """Show no progress."""


def all_answers(
    question: Question, mode: str, progress: explained.Progress = silent
) -> tuple[explained.ImportanceReport, list[Section]]:
    """What explains gains, in a mode, and the sections of all answers."""
    with threadpool_limits(1):  # many small products: a second thread only waits
        answer = MODES[mode](question, progress)
        compared = of_model(question, question.model_ratings, progress) if question.model_ratings else None
    parts = (answer.further, themes(question), half_data(question), choosing(question), budgets(question))
    sections = (ratings(question), answer.section, compared.section if compared else None, *parts)
    if compared:
        answer = replace(answer, lines=(*answer.lines, *compared.lines), facts=answer.facts | compared.facts)
    return answer, [section for section in sections if section]


def write_answers(question: Question, sections: Sequence[Section]) -> Path:
    """Write analysis.md, with all that stands beside it, into the question's folder; the page's path."""
    for section in sections:
        section.write(question.out, question.kept)
    blocks: list[Block] = [Heading(f"{question.results.banner}Analysis of {question.results.name}")]
    if question.limits:
        blocks += [Text("What cannot be known here:"), Bullets(question.limits)]
    page = question.out / "analysis.md"
    write_text(page, markdown([Section("", blocks), *sections]))
    return page
