"""What explains gains, answered for a terminal, for a program and as a section of a page, in either mode.

Beside it stand tables of the paper's layout, from any results: all but Table 6, the importances, which their analysis
writes.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import pandas as pd

from analysis.figures.drawing import Drawing
from analysis.figures.paper_figures import change, choices_of_slopes, profile_figure
from analysis.gains.significance import LEVEL, p_text
from analysis.importance import paper_mode, questions
from analysis.importance.grid import chosen_cells, features_of
from analysis.importance.mixed import NOT_TESTED, Mixed, mixed, slopes_by_choice
from analysis.importance.mixed_test import DISTANCE, SIGNED
from analysis.importance.question import PUBLISHED, Question
from analysis.ratings.agreement import agreement, rater_pairs
from analysis.ratings.themes import rating_means
from analysis.results.results import CLASS, MOMENT, ROWS, Results
from analysis.results.study_results import StudyResults
from analysis.sections.blocks import LABEL, Block, Bullets, Column, Section, Table, Text, pictures
from analysis.tables import number, percent, signed
from tasks.errors import BadInput

CHOSEN = (
    "The same slopes (and p, corrected for all ratings) under each choice that could have been made instead, which are"
    " not corrected for the number of choices:"
)
GUARDED = "What explains a gain"
SLOPE_COLUMNS = (
    Column("rating", "title"),
    Column("per step", "slope", "slope"),
    Column("95 % interval", ("low", "high"), "slope"),
    Column("p (ratio)", "p_ratio", "short p"),
    Column("p (families)", "p_families", "short p"),
    Column("verdict", "verdict"),
)
Progress = Callable[[int, int, str], None]


def _section(question: Question, answer: Mixed) -> tuple[Section, list[Block]]:
    """The section that tells an answer, and how it was tested, the same for distances, and each verdict in words."""
    frames = {"mixed_slopes": answer.slopes}
    blocks: list[Block] = [Text(question.primary.line())]
    blocks.append(Text("", lead=f"{answer.headline[0].upper()}{answer.headline[1:]}."))
    tested = answer.slopes[answer.slopes.verdict != NOT_TESTED]
    if tested.empty:
        return Section(GUARDED, blocks, frames), [Bullets(answer.notes)] if answer.notes else []
    title = f"{question.results.banner}Likelihood of slopes on ratings, {question.results.name}"
    figures = [profile_figure(answer.profile, title)]
    blocks += [slopes_table(tested[tested.question == SIGNED]), *pictures(figures)]
    section = Section(GUARDED, blocks, frames | {"mixed_profile": answer.profile}, figures=figures)
    more: list[Block] = [
        Text(_method()),
        Text("The same for distances, whether tasks whose ratings are further apart teach each other less:"),
        slopes_table(tested[tested.question == DISTANCE]),
    ]
    untested = answer.slopes[answer.slopes.verdict == NOT_TESTED]
    points = [f"{row.title} is not tested: {row.why}" for row in untested.itertuples()]
    points += [f"{row.title}: {row.why}" for row in tested[tested.question == SIGNED].itertuples()]
    return section, [*more, Bullets([*points, *answer.notes])]


def computed(question: Question, progress: Progress) -> Mixed:
    """The answer, read where it was kept."""
    results, specification, similarities = question.results, question.primary.specification, question.similarities

    def compute() -> dict[str, Any]:
        answer = mixed(results, specification, similarities=similarities, progress=progress)
        parts = {field.name: getattr(answer, field.name) for field in fields(answer)}
        return parts | {"notes": list(answer.notes)}

    parts = question.kept.parts("mixed model", {"asked": (results, specification, similarities)}, compute)
    return Mixed(**{**parts, "notes": tuple(parts["notes"])})


def _method() -> str:
    return (
        "Within every target, gains are compared with how much higher the intermediate is rated than the target. A"
        " slope has to be larger than tasks, data sets, families and all other features that differ would make it"
        " (likelihood ratio, simulated null), and has to be the same for families of targets, as far as they can tell"
        " (random-effects meta-analysis of their slopes); the larger p counts, corrected for all ratings. The interval"
        " holds the slopes that this test does not reject. Only together: gains follow this rating or one that overlaps"
        " with it, and beside the other neither is supported by itself. Ratings were given, not assigned: a slope is an"
        " association."
    )


def slopes_table(tested: pd.DataFrame) -> Table:
    """A line per rating: its slope, how sure that is, and the verdict."""
    *first, ratio, families, verdict = SLOPE_COLUMNS
    share, p = Column("share of squares", lambda row: percent(row["share"])), Column("p", "p", "short p")
    with_df = families._replace(shows=lambda row: f"{p_text(row['p_families'])} ({row['df']} df)", kind=LABEL)
    return Table.of(tested, [*first, share, ratio, with_df, p, verdict])


BySetting = dict[str, paper_mode.PaperImportances]


@dataclass(frozen=True)
class ImportanceReport:
    """``lines`` for a terminal, a ``section`` of a page, and ``facts`` for programs, undefined numbers as None.

    ``further`` is what stands beside the answer, for who asks more.
    """

    lines: tuple[str, ...]
    section: Section
    facts: dict[str, Any]
    further: Section | None = None


def guarded_answer(question: Question, progress: Progress) -> ImportanceReport:
    """The mixed model of the primary specification, and slopes under every choice that could have been made."""
    results, primary, similarities = question.results, question.primary, question.similarities
    answer = computed(question, progress)
    section, more = _section(question, answer)
    chosen = question.kept.frame(
        "mixed choices",
        {"asked": (results, primary.specification, similarities)},
        lambda: slopes_by_choice(results, primary.specification, similarities=similarities),
    )
    facts: dict[str, Any] = {"headline": answer.headline, "declared": primary.declared or None, "key": primary.key}
    facts |= {"slopes": rows(answer.slopes), "choices": rows(chosen)}
    figures = []
    if chosen.p.notna().any():
        title = f"{results.banner}Slopes under each choice that could have been made, {results.name}"
        figures = [Drawing("mixed_choices", title, chosen, choices_of_slopes)]
        # A line per choice with slope and p of every rating.
        titles = list(dict.fromkeys(chosen.title))
        body = []
        for _, part in chosen.groupby(["outcome", "weights", "cells", "without_rater"], sort=False):
            texts = {row.title: row.why or f"{signed(row.slope, 2)} ({p_text(row.p)})" for row in part.itertuples()}
            body.append((change(part.iloc[0], chosen.iloc[0]), *(texts.get(name, "") for name in titles)))
        more += [Text(CHOSEN), Table(["changed", *titles], body), *pictures(figures)]
    section = replace(section, frames={**section.frames, "mixed_choices": chosen})
    further = Section("How that was tested", more, figures=figures) if more else None
    return ImportanceReport((primary.line(), *answer.lines()), section, facts, further)


def rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a frame for JSON: what is undefined is None."""
    kept = frame.astype(object).where(frame.notna(), None)
    records: list[dict[str, Any]] = kept.to_dict("records")
    return records


# What explains gains, answered by the paper's procedure, beside what its model is worth where it was not fitted.

SEEDS = 20
PERMUTATIONS = 99  # of ratings over tasks
CAVEAT = (
    "The paper's procedure: an SVR on ten random splits, and how far R2 on the training pairs falls when a feature is"
    " shuffled there. It describes a fit in the sample. Inputs have their raw units, and importance follows the unit;"
    " ratings permuted over tasks look important too. Whether gains follow ratings is tested by"
    " --mode guarded."
)
TITLE = "What explains a gain, the paper's procedure"


def paper_answer(question: Question, progress: Progress) -> ImportanceReport:
    """The paper's importances under both settings; a grid too small gets the reason."""
    try:
        by_setting = {name: _importances(question, name, progress) for name in paper_mode.SETTINGS}
    except BadInput as problem:
        reason = f"nothing can be said: {problem}"
        return ImportanceReport((reason,), Section(TITLE, [Text(reason)]), {"reason": reason})
    unseen = {
        name: paper_mode.unseen_tasks(question.results, setting, similarities=question.similarities)
        for name, setting in paper_mode.SETTINGS.items()
    }
    steps_done = len(paper_mode.SETTINGS) * SEEDS
    frames = {
        "importances": _join({name: result.importances for name, result in by_setting.items()}),
        "fits": _join({name: result.fits for name, result in by_setting.items()}),
        "unseen": _join(unseen),
        "null": paper_mode.shuffled_ratings(
            question.results,
            paper_mode.SETTINGS["V1"],
            permutations=PERMUTATIONS,
            seed=0,
            similarities=question.similarities,
            progress=lambda done, of: progress(steps_done + done, _steps(), "permuted ratings"),
        ),
    }
    if question.results.name == PUBLISHED:
        near = {name: paper_mode.against_table6(result.importances) for name, result in by_setting.items()}
        frames["table6"] = _join(near)
    # How each setting was fitted, and what each fit has to say of itself.
    penalties = "; ".join(
        f"{name}: C {result.setting.penalty:g}, epsilon {result.setting.epsilon:g}"
        for name, result in by_setting.items()
    )
    text = f"{penalties}. V1 follows the text of the paper, V3 was picked because it comes close to its Table 6."
    blocks = [Text(CAVEAT), _ranking(question, by_setting), *_worth(frames), Bullets([text, *_fit_notes(by_setting)])]
    means = {name: rows(result.mean()) for name, result in by_setting.items()}
    facts = {name: rows(frame) for name, frame in frames.items() if name not in ("importances", "fits")}
    section = Section(TITLE, blocks, {f"paper_{name}": frame for name, frame in frames.items()})
    return ImportanceReport(tuple(_lines(by_setting, frames)), section, {"importances": means, **facts})


def _importances(question: Question, name: str, progress: Progress) -> paper_mode.PaperImportances:
    steps_done = list(paper_mode.SETTINGS).index(name) * SEEDS
    return paper_mode.paper_importances(
        question.results,
        paper_mode.SETTINGS[name],
        range(SEEDS),
        similarities=question.similarities,
        progress=lambda done, of: progress(steps_done + done, _steps(), f"seeds of {name}"),
    )


def _steps() -> int:
    return len(paper_mode.SETTINGS) * SEEDS + PERMUTATIONS


def _join(frames: dict[str, pd.DataFrame]) -> pd.DataFrame:
    return pd.concat([frame.assign(variant=name) for name, frame in frames.items()], ignore_index=True)


def _ranking(question: Question, by_setting: BySetting) -> Table:
    """Mean importances over the seeds, and those of the paper's Table 6 if these are its own results."""
    means = {name: result.mean().set_index("feature") for name, result in by_setting.items()}
    titles = {name: feature.title for name, feature in features_of(question.results).items()}
    printed = paper_mode.printed_importances() if question.results.name == PUBLISHED else None
    body = []
    for feature in next(iter(means.values())).index:
        row: list[str] = [titles[feature]]
        row += [f"{number(mean.importance[feature])} ({number(mean.sd[feature])})" for mean in means.values()]
        body.append(row + ([] if printed is None else [number(printed[feature])]))
    head = ["feature", *(f"{name} (sd)" for name in means), *([] if printed is None else ["Table 6"])]
    return Table(head, body)


def _worth(frames: dict[str, pd.DataFrame]) -> list[Block]:
    """What the fit is worth: on splits, for unseen tasks, against Table 6, and with permuted ratings."""
    body = []
    for name, fits in frames["fits"].groupby("variant", sort=False):
        q2 = frames["unseen"][frames["unseen"].variant == name].set_index("left_out").q2
        r2 = (number(fits.r2_train.mean(), 2), number(fits.r2_test.mean(), 2), percent((fits.r2_test < 0).mean()))
        body.append((name, *r2, *(number(q2[role], 2) for role in ("target", "intermediate", "both"))))
    head = ["setting", "R2 (training)", "R2 (test)", "test R2 below 0", "Q2 target out", "intermediate out", "both out"]
    text = f"Means over {SEEDS} seeds of ten splits; Q2 of pairs whose tasks were left out:"
    blocks: list[Block] = [Text(text), Table(head, body)]
    if "table6" in frames:
        near = frames["table6"].groupby("variant", sort=False)[["rho", "rmse"]].mean()
        means = "; ".join(f"{name} {number(mean.rho, 2)} ({number(mean.rmse)})" for name, mean in near.iterrows())
        text = f"Rank correlation with Table 6 (and root mean square difference), means over seeds: {means}."
        blocks.append(Text(text))
    return [*blocks, *_permutations(frames["null"])]


def _permutations(null: pd.DataFrame) -> list[Block]:
    """Importances beside those with permuted ratings; nothing where there are none."""
    if null.empty:
        return []
    numbers = ("importance", "null_mean", "null_95", "p", "p_largest")
    body = [(row.feature, *(number(getattr(row, name)) for name in numbers)) for row in null.itertuples()]
    head = ["construct", "importance", "permuted: mean", "95 %", "p", "p (max-corrected)"]
    text = f"V1, seed 0, without stand-ins, and {PERMUTATIONS} times with permuted ratings:"
    return [Text(text), Table(head, body)]


def _fit_notes(by_setting: BySetting) -> list[str]:
    return list(dict.fromkeys(note for result in by_setting.values() for note in result.notes))


def _lines(by_setting: BySetting, frames: dict[str, pd.DataFrame]) -> list[str]:
    lines = ["the paper's procedure: a fit in the sample, which --mode guarded puts to the test"]
    for name, result in by_setting.items():
        ranked: list[Any] = list(result.mean().itertuples())
        unseen = frames["unseen"][frames["unseen"].variant == name].set_index("left_out").q2["target"]
        fits = result.fits
        lines.append(
            f"{name}: {', '.join(f'{row.feature} {number(row.importance)}' for row in ranked)}; R2 of training pairs"
            f" {number(fits.r2_train.mean(), 2)}, of test pairs {number(fits.r2_test.mean(), 2)}, Q2 of unseen"
            f" targets {number(unseen, 2)}"
        )
    return lines + _fit_notes(by_setting)


def paper_tables(question: Question) -> dict[str, pd.DataFrame]:
    """Every table of the paper's layout that the results have rows for, as ``table-N-what``."""
    results = question.results
    tables = {
        "table-1-sizes": results.tasks[["task", "title", "dataset", "samples", "vocabulary", "tokens"]],
        "table-2-ratings": ratings_table(results),
        "table-3-agreement": agreement_table(question),
        "table-4-training": results.training,
        "table-5-themes": rating_means(results),
        "table-7-macro-f1": score_matrix(results, "macro_f1"),
        "table-8-pearson-r": score_matrix(results, "pearson_r"),
        "table-9-numbers": by_split(results, MOMENT),
        "table-10-12-labels": by_split(results, CLASS),
        "table-9-12-splits": by_split(results, ROWS).drop(columns="name"),
    }
    return {name: frame for name, frame in tables.items() if len(frame)}


def ratings_table(results: Results) -> pd.DataFrame:
    """One row per rated task, one column per construct and rater; a gap is undefined."""
    wide = results.ratings.pivot(index="task", columns=["construct", "rater"], values="value")
    order = [pair for name in results.constructs for pair in sorted(wide.columns) if pair[0] == name]
    wide = wide[order].set_axis([f"{name}_{rater}" for name, rater in order], axis=1)
    return results.tasks[["task", "title"]].merge(wide, left_on="task", right_index=True)


def by_split(results: Results, kind: str) -> pd.DataFrame:
    """One row per task and class or moment, one column per split; a class that no row of a split has is at 0 there."""
    rows = results.labels[results.labels.kind == kind]
    wide = rows.pivot(index=["task", "name"], columns="split", values="value").reindex(
        rows[["task", "name"]].drop_duplicates()
    )
    return wide.reindex(columns=["all", "train", "validation", "test"]).rename_axis(columns=None).reset_index()


def kept_agreement(question: Question) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The frames of ``agreement`` and of ``rater_pairs``, read where they were kept."""
    results = question.results
    parts = question.kept.parts(
        "agreement of raters",
        {"ratings": results.ratings},
        lambda: {"panels": agreement(results), "pairs": rater_pairs(results)},
    )
    return parts["panels"], parts["pairs"]


def agreement_table(question: Question) -> pd.DataFrame:
    """One row per construct, and overall, and panel: alphas with intervals, and of a panel of two its correlation."""
    frame, pairs = kept_agreement(question)
    pairs["raters"] = pairs.rater_a + ", " + pairs.rater_b
    pairs = pairs.rename(columns={name: f"{name}_spearman" for name in ("low", "high", "p")})
    return frame.merge(
        pairs[["construct", "raters", "spearman", "low_spearman", "high_spearman", "p_spearman"]], how="left"
    )


def score_matrix(results: Results, metric: str) -> pd.DataFrame:
    """One row per intermediate, one column per target of this metric; a target on itself is the target alone."""
    pairs = results.gains[results.gains.metric == metric]
    wide = pairs.pivot(index="intermediate", columns="target", values="score")
    alone = pairs.groupby("target").baseline.first()
    targets = [task for task in results.tasks.task if task in wide]
    for target in targets:
        wide.loc[target, target] = alone[target]
    rows = [task for task in results.tasks.task if task in wide.index]
    return wide.loc[rows, targets].rename_axis(index="intermediate", columns=None).reset_index()


DECLARED = "Declared questions"
DECLARED_TEXT = (
    "Each has a single test (docs/what-explains-gains.md), of all pairs whose cells the declaration counts, also onto"
    " targets that have not learned. p is corrected for the parts of a question, not for other questions. Seen from:"
    " the smallest effect that four of five such studies would find; a smaller one may be there. Units: the families"
    " that the error comes from, or the tasks where unrelated ones are compared. The p of the pair is one-sided, its"
    " interval two-sided. Beside the answer stands what the estimate would be without the tasks of any one family."
)
DECLARED_COLUMNS = (
    Column("question", lambda row: questions.QUESTIONS[row["question"]]),
    Column("part", "part"),
    Column("estimate", lambda row: "" if row["why_not"] else f"{number(row['estimate'], 2)} {row['unit']}"),
    Column("95 % interval", ("low", "high"), "mean points"),
    Column("p", "p_corrected", "p"),
    Column("seen from", "smallest", "mean points"),
    Column("units", "units", "count"),
    Column("without a family", "range"),
    Column("answer", "answer"),
)


def declared(study: StudyResults, question: Question, slopes: pd.DataFrame | None) -> Section | None:
    """The answers to what a study declared, beside those without each family; nothing where it declared no question.

    ``slopes`` on ratings are those of the mixed model.
    """
    names = question.primary.questions
    if not names:
        return None

    gains, _ = chosen_cells(study.gains, question.primary.specification.cells)

    def compute() -> dict[str, Any]:
        tasks = question.results.tasks
        layout = questions.layout_of(study.store, study.manifest, gains, study.controls, study.similarities, tasks)
        return {
            "answers": questions.answers(layout, names, slopes),
            "without": questions.without_families(layout, names),
        }

    inputs = {"names": list(names), "gains": gains, "controls": study.controls, "slopes": slopes}
    parts = question.kept.parts("declared questions", {**inputs, "alike": study.similarities}, compute)
    answered, without = parts["answers"], parts["without"]
    shown = answered.assign(
        answer=[_answer(row) for row in answered.to_dict("records")],
        range=[_range(without[without.part == part]) for part in answered.part],
    )
    frames = {"declared_questions": answered, "declared_without": without}
    return Section(
        DECLARED, [Text(question.primary.line()), Text(DECLARED_TEXT), Table.of(shown, DECLARED_COLUMNS)], frames
    )


def _answer(row: Mapping[str, Any]) -> str:
    """Yes, the opposite, or that nothing was seen."""
    if row["why_not"]:
        return f"cannot be answered: {row['why_not']}"
    if math.isnan(row["p"]):
        return "an estimate, not tested"
    if row["p_corrected"] <= LEVEL:
        return "yes" if row["estimate"] > 0 else "the opposite"
    return "not seen"


def _range(without: pd.DataFrame) -> str:
    """The least and the largest estimate without a family, with its p."""
    estimates = without.dropna(subset=["estimate", "p_corrected"]).sort_values("estimate", kind="stable")
    ends = [estimates.iloc[0], estimates.iloc[-1]] if len(estimates) else []
    return " to ".join(f"{number(row.estimate, 2)} (p {p_text(row.p_corrected)} without {row.without})" for row in ends)
