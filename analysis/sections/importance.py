"""What explains gains, answered for a terminal, for a program and as a section of a page, in either mode."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis.figures.drawing import write_figure_files
from analysis.figures.specification_curve import CHOICES, specification_curve
from analysis.gains.significance import p_text
from analysis.importance.features import features_of
from analysis.importance.guarded import NOT_TESTED, Guarded, guarded
from analysis.importance.paper_mode import (
    SETTINGS,
    PaperImportances,
    against_table6,
    paper_importances,
    printed_importances,
    shuffled_ratings,
    unseen_tasks,
)
from analysis.sections.blocks import Block, Bullets, Section, Table, Text
from analysis.sections.mixed import by_choice, choices, mixed_answer
from analysis.sections.question import PUBLISHED, Question
from analysis.tables import FIGURES, TABLES, interval, number, percent, signed, write_frames, yes_no
from tasks.errors import BadInput
from tasks.plain_text import counted

Progress = Callable[[int, int, str], None]
BySetting = dict[str, PaperImportances]


@dataclass(frozen=True)
class Answer:
    """``lines`` for a terminal, a ``section`` of a page, and ``facts`` for programs, undefined numbers as None.

    ``further`` is what stands beside the answer, for who asks more.
    """

    lines: tuple[str, ...]
    section: Section
    facts: dict[str, Any]
    further: Section | None = None


def guarded_answer(question: Question, progress: Progress) -> Answer:
    """The mixed model and the ridge regression of the primary specification, with their frames written."""
    primary, (answer, blocks, more) = question.primary, mixed_answer(question, progress)
    analysis = _guarded(question, progress)
    frames = {"features": analysis.features, "models": analysis.models, "curve": analysis.curve}
    for name, frame in frames.items():
        write_frames(frame, question.out / TABLES / f"guarded_{name}")
    if len(analysis.curve):
        title = f"{question.results.banner}Specification curve of the guarded analysis, {question.results.name}"
        stem = question.out / FIGURES / "guarded_curve"
        write_figure_files(analysis.curve, stem, title, specification_curve, kept=question.kept)
    facts: dict[str, Any] = {"headline": answer.headline, "declared": primary.declared or None, "key": primary.key}
    facts |= {"slopes": rows(answer.slopes), "ridge": analysis.headline}
    chosen = choices(question)
    facts |= {name: rows(frame) for name, frame in {**frames, "choices": chosen}.items()}
    section = Section("What explains a gain", [Text(primary.line()), *blocks])
    beside = [*more, *by_choice(question, chosen), *_guarded_blocks(question, analysis)]
    further = Section("How that was tested, and a ridge regression beside it", beside)
    ridge = [f"ridge regression: {line}" if place == 0 else line for place, line in enumerate(analysis.lines())]
    return Answer((primary.line(), *answer.lines(), *ridge), section, facts, further)


def _guarded(question: Question, progress: Progress) -> Guarded:
    """The guarded analysis of the primary specification, read where it was kept."""
    primary = question.primary
    asked = (question.results, primary.specification, question.similarities, primary.draws)

    def compute() -> dict[str, Any]:
        analysis = guarded(asked[0], asked[1], similarities=asked[2], draws=asked[3], progress=progress)
        parts = {name: getattr(analysis, name) for name in ("headline", "features", "models", "curve")}
        return parts | {"notes": list(analysis.notes)}

    parts = question.kept.parts("guarded analysis", {"asked": asked}, compute)
    return Guarded(primary.specification, **{**parts, "notes": tuple(parts["notes"])})


def rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a frame for JSON: what is undefined is None."""
    kept = frame.astype(object).where(frame.notna(), None)
    records: list[dict[str, Any]] = kept.to_dict("records")
    return records


def _guarded_blocks(question: Question, analysis: Guarded) -> list[Block]:
    text = (
        "Beside the mixed model, a ridge regression: gains are centred by target, weighted by how sure they are, and"
        " predicted for families of tasks that were left out. Q2 is the share of squares that a prediction saves"
        " there; a feature adds what is lost when it alone is dropped. Supported means that it adds something, that"
        " all features together beat the mean, that it adds more than when facts are permuted over tasks, and"
        " among families (the larger p, corrected for the largest of all features, at most .05), and, for a construct,"
        " that the constructs together"
        f" do so. From {counted(len(question.results.tasks), 'task')}"
        " many true effects are missed: not supported is not refuted."
    )
    headline = f"{analysis.headline}."
    blocks: list[Block] = [Text("", lead=f"Ridge regression: {headline}")]
    tested = analysis.features[analysis.features.verdict != NOT_TESTED]
    untested = analysis.features[analysis.features.verdict == NOT_TESTED]
    if tested.empty:
        return [*blocks, Bullets(analysis.notes)] if analysis.notes else blocks
    blocks += [
        *(Text(text), _features(tested)),
        Text("Models, and what they explain of the pairs they were trained on and left without:"),
        *(_models(analysis.models), *_curve(question, analysis.curve)),
    ]
    not_tested = [f"{row.title} is not tested: {row.why}" for row in untested.itertuples()]
    known = set(untested.feature)
    notes = [note for note in analysis.notes if not any(note.startswith(f"{name} is left out") for name in known)]
    return [*blocks, Bullets([*not_tested, *notes])]


def _features(tested: pd.DataFrame) -> Table:
    head = ["feature", "adds to Q2", "95 % interval", "permuted: mean", "p (tasks)", "p (families)", "p (corrected)"]
    body = [
        (
            *(row.title, signed(row.added, 4), interval(row.low, row.high, 3), signed(row.null_mean, 4)),
            *(
                p_text(row.p_tasks),
                p_text(row.p_families),
                p_text(row.p_corrected),
                row.verdict,
                row.against or "nothing",
            ),
        )
        for row in tested.itertuples()
    ]
    return Table([*head, "verdict", "reason"], body)


def _models(models: pd.DataFrame) -> Table:
    body = [(row.left_out, row.model, number(row.r2_train), number(row.q2)) for row in models.itertuples()]
    return Table(["families left out as", "model", "R2 (training pairs)", "Q2 (families left out)"], body)


def _curve(question: Question, curve: pd.DataFrame) -> list[Block]:
    text = (
        f"The primary specification (first row) and each that differs from it in one respect, all with"
        f" {question.primary.draws} arrangements of tasks. Only the first is a test; the others show how much it all"
        " depends on it. Adds: what the constructs together add to Q2; under permutation: what 95 % stay below,"
        " of tasks or of families, whichever is more. Drawn in figures/guarded_curve.png."
    )
    body = [
        (
            *(getattr(row, name) or "none" for name in CHOICES),
            *(row.n_pairs, number(row.added, 4), number(row.chance_95, 4)),
            *(p_text(row.p_tasks), p_text(row.p_families)),
            *(yes_no(row.passes), row.notes),
        )
        for row in curve.itertuples()
    ]
    head = ["left out as", "outcome", "weights", "cells", "without rater", "pairs", "adds", "permuted: 95 %"]
    return [Text(text), Table([*head, "p (tasks)", "p (families)", "passes", "notes"], body)]


# What explains gains, answered by the paper's procedure, beside what its model is worth where it was not fitted.

SEEDS = 20
PERMUTATIONS = 99  # of ratings over tasks
CAVEAT = (
    "The paper's procedure: an SVR on ten random splits, and how far R2 on the training pairs falls when a feature is"
    " shuffled there. It describes a fit in the sample. Inputs have their raw units, and importance follows the unit;"
    " ratings permuted over tasks look important too. What holds for tasks that were not seen is said by"
    " --mode guarded."
)
TITLE = "What explains a gain, the paper's procedure"


def paper_answer(question: Question, progress: Progress) -> Answer:
    """The paper's importances under both settings, with their frames written; a grid too small gets the reason."""
    try:
        by_setting = {name: _importances(question, name, progress) for name in SETTINGS}
    except BadInput as problem:
        reason = f"nothing can be said: {problem}"
        return Answer((reason,), Section(TITLE, [Text(reason)]), {"reason": reason})
    unseen = {
        name: unseen_tasks(question.results, setting, similarities=question.similarities)
        for name, setting in SETTINGS.items()
    }
    frames = {
        "importances": _joined({name: result.importances for name, result in by_setting.items()}),
        "fits": _joined({name: result.fits for name, result in by_setting.items()}),
        "unseen": _joined(unseen),
        "null": _null(question, progress),
    }
    if question.results.name == PUBLISHED:
        near = {name: against_table6(result.importances) for name, result in by_setting.items()}
        frames["table6"] = _joined(near)
    for name, frame in frames.items():
        write_frames(frame, question.out / TABLES / f"paper_{name}")
    blocks = [Text(CAVEAT), _ranking(question, by_setting), *_worth(frames), Bullets(_notes(by_setting))]
    means = {name: rows(result.mean()) for name, result in by_setting.items()}
    facts = {name: rows(frame) for name, frame in frames.items() if name not in ("importances", "fits")}
    return Answer(tuple(_lines(by_setting, frames)), Section(TITLE, blocks), {"importances": means, **facts})


def _importances(question: Question, name: str, progress: Progress) -> PaperImportances:
    steps_done = list(SETTINGS).index(name) * SEEDS
    return paper_importances(
        question.results,
        SETTINGS[name],
        range(SEEDS),
        similarities=question.similarities,
        progress=lambda done, of: progress(steps_done + done, _steps(), f"seeds of {name}"),
    )


def _null(question: Question, progress: Progress) -> pd.DataFrame:
    steps_done = len(SETTINGS) * SEEDS
    return shuffled_ratings(
        question.results,
        SETTINGS["V1"],
        permutations=PERMUTATIONS,
        seed=0,
        similarities=question.similarities,
        progress=lambda done, of: progress(steps_done + done, _steps(), "permuted ratings"),
    )


def _steps() -> int:
    return len(SETTINGS) * SEEDS + PERMUTATIONS


def _joined(frames: dict[str, pd.DataFrame]) -> pd.DataFrame:
    return pd.concat([frame.assign(variant=name) for name, frame in frames.items()], ignore_index=True)


def _ranking(question: Question, by_setting: BySetting) -> Table:
    """Mean importances over the seeds, and those of the paper's Table 6 if these are its own results."""
    means = {name: result.mean().set_index("feature") for name, result in by_setting.items()}
    titles = {name: feature.title for name, feature in features_of(question.results).items()}
    printed = printed_importances() if question.results.name == PUBLISHED else None
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
    return [*blocks, *_permuted(frames["null"])]


def _permuted(null: pd.DataFrame) -> list[Block]:
    """Importances beside those with permuted ratings; nothing where there are none."""
    if null.empty:
        return []
    numbers = ("importance", "null_mean", "null_95", "p", "p_largest")
    body = [(row.feature, *(number(getattr(row, name)) for name in numbers)) for row in null.itertuples()]
    head = ["construct", "importance", "permuted: mean", "95 %", "p", "p (max-corrected)"]
    text = f"V1, seed 0, without stand-ins, and {PERMUTATIONS} times with permuted ratings:"
    return [Text(text), Table(head, body)]


def _notes(by_setting: BySetting) -> list[str]:
    """How each setting was fitted, and what each fit has to say of itself."""
    penalties = "; ".join(
        f"{name}: C {result.setting.penalty:g}, epsilon {result.setting.epsilon:g}"
        for name, result in by_setting.items()
    )
    text = f"{penalties}. V1 follows the text of the paper, V3 was picked because it comes close to its Table 6."
    return [text, *_fit_notes(by_setting)]


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
