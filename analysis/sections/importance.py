"""What explains gains, answered for a terminal, for a program and as a section of the page, in either mode."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis.figures.drawing import write_drawn
from analysis.figures.specification_curve import CHOICES, specification_curve
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
from analysis.sections.question import PUBLISHED, Question
from analysis.tables import interval, number, percent, signed, table, write_frames, yes_no
from tasks.errors import BadInput, counted

Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Answer:
    """``lines`` for a terminal, ``page`` paragraphs, and what is ``told`` to programs, undefined numbers as None."""

    lines: tuple[str, ...]
    page: tuple[str, ...]
    told: dict[str, Any]


def guarded_answer(question: Question, progress: Progress) -> Answer:
    """The guarded analysis of the primary specification, with its frames written."""
    asked = question.primary
    found = guarded(
        question.results,
        asked.specification,
        similarities=question.similarities,
        draws=asked.draws,
        progress=progress,
    )
    frames = {"guarded_features": found.features, "guarded_models": found.models, "guarded_curve": found.curve}
    for name, frame in frames.items():
        write_frames(frame, question.out / name)
    if len(found.curve):
        title = f"{question.results.banner}Specification curve of the guarded analysis, {question.results.name}"
        write_drawn(found.curve, question.out / "guarded_curve", title, specification_curve)
    declared = {"declared": asked.declared or None, "key": asked.key}
    told = {name.removeprefix("guarded_"): rows(frame) for name, frame in frames.items()}
    lines = (asked.line(), *found.lines())
    return Answer(lines, tuple(_guarded_page(question, found)), {"headline": found.headline, **declared, **told})


def rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a frame for JSON: what is undefined is None."""
    kept = frame.astype(object).where(frame.notna(), None)
    found: list[dict[str, Any]] = kept.to_dict("records")
    return found


def listed(lines: Iterable[str]) -> str:
    """A list in Markdown."""
    return "\n".join(f"- {one}" for one in lines)


def _guarded_page(question: Question, found: Guarded) -> list[str]:
    text = (
        "The guarded way: gains are centred by target, weighted by how sure they are, and predicted for families of"
        " tasks that were left out. Q2 is the share of squares that a prediction saves there; a feature adds what is"
        " lost when it alone is dropped. Supported means that it adds something, that all features together beat the"
        " mean, that it adds more than when facts are handed round among tasks, and among families (the larger p,"
        " corrected for the largest of all features, at most .05), and, for a construct, that the constructs together"
        f" do so. From {counted(len(question.results.tasks), 'task')}"
        " many true effects are missed: not supported is not refuted."
    )
    lines = ["## What explains a gain", question.primary.line(), f"**{_sentence(found.headline)}**"]
    tested = found.features[found.features.verdict != NOT_TESTED]
    untested = found.features[found.features.verdict == NOT_TESTED]
    if tested.empty:
        return [*lines, listed(found.notes)] if found.notes else lines
    lines += [
        text,
        _features(tested),
        "Models, and what they explain of the pairs they were trained on and left without:",
    ]
    lines += [_models(found.models), *_curve(question, found.curve)]
    not_tested = [f"{row.title} is not tested: {row.why}" for row in untested.itertuples()]
    known = set(untested.feature)
    notes = [one for one in found.notes if not any(one.startswith(f"{name} is left out") for name in known)]
    return [*lines, listed([*not_tested, *notes])]


def _features(tested: pd.DataFrame) -> str:
    head = ["feature", "adds to Q2", "95 % interval", "by chance", "p (tasks)", "p (families)", "p (corrected)"]
    body = [
        (
            *(row.title, signed(row.added, 4), interval(row.low, row.high, 3), signed(row.null_mean, 4)),
            *(
                number(row.p_tasks),
                number(row.p_families),
                number(row.p_corrected),
                row.verdict,
                row.against or "nothing",
            ),
        )
        for row in tested.itertuples()
    ]
    return table([*head, "verdict", "what speaks against it"], body)


def _models(models: pd.DataFrame) -> str:
    body = [(one.left_out, one.model, number(one.r2_train), number(one.q2)) for one in models.itertuples()]
    return table(["families left out as", "model", "R2 (training pairs)", "Q2 (families left out)"], body)


def _curve(question: Question, curve: pd.DataFrame) -> list[str]:
    text = (
        f"The primary specification (first row) and each that differs from it in one respect, all with"
        f" {question.primary.draws} arrangements of tasks. Only the first is a test; the others show how much it all"
        " hangs on it. Adds: what the constructs together add to Q2; by chance: what 95 % of arrangements stay below,"
        " of tasks or of families, whichever is more. Drawn in guarded_curve.png."
    )
    body = [
        (
            *(getattr(one, name) or "none" for name in CHOICES),
            *(one.n_pairs, number(one.added, 4), number(one.chance_95, 4)),
            *(number(one.p_tasks), number(one.p_families)),
            *(yes_no(one.passes), one.notes),
        )
        for one in curve.itertuples()
    ]
    head = ["left out as", "outcome", "weights", "cells", "without rater", "pairs", "adds", "by chance"]
    return [text, table([*head, "p (tasks)", "p (families)", "passes", "notes"], body)]


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


# What explains gains, answered in the paper's way, with what its model is worth where it was not fitted beside it.

SEEDS = 20
PERMUTATIONS = 99  # of ratings over tasks
CAVEAT = (
    "The paper's way: an SVR on ten random splits, and how far R2 on the training pairs falls when a feature is"
    " shuffled there. It describes a fit in the sample. Inputs have their raw units, and importance follows the unit;"
    " ratings handed round among tasks look important too. What holds for tasks that were not seen is said by"
    " --mode guarded."
)
HEAD = "## What explains a gain, the paper's way"


def paper_answer(question: Question, progress: Progress) -> Answer:
    """The paper's importances under both settings, with their frames written; a grid too small gets the reason."""
    try:
        found = {name: _importances(question, name, progress) for name in SETTINGS}
    except BadInput as problem:
        reason = f"nothing can be said: {problem}"
        return Answer((reason,), (HEAD, reason), {"reason": reason})
    frames = {
        "importances": _joined({name: one.importances for name, one in found.items()}),
        "fits": _joined({name: one.fits for name, one in found.items()}),
        "unseen": _joined(
            {
                name: unseen_tasks(question.results, one, similarities=question.similarities)
                for name, one in SETTINGS.items()
            }
        ),
        "null": _null(question, progress),
    }
    if question.results.name == PUBLISHED:
        frames["table6"] = _joined({name: against_table6(one.importances) for name, one in found.items()})
    for name, frame in frames.items():
        write_frames(frame, question.out / f"paper_{name}")
    page = [HEAD, CAVEAT, _ranking(question, found), *_worth(frames), listed(_notes(found))]
    told = {name: rows(frame) for name, frame in frames.items() if name not in ("importances", "fits")}
    means = {name: rows(one.mean()) for name, one in found.items()}
    return Answer(tuple(_lines(question, found, frames)), tuple(page), {"importances": means, **told})


def _importances(question: Question, name: str, progress: Progress) -> PaperImportances:
    before = list(SETTINGS).index(name) * SEEDS
    return paper_importances(
        question.results,
        SETTINGS[name],
        range(SEEDS),
        similarities=question.similarities,
        progress=lambda done, of: progress(before + done, _steps(), f"seeds of {name}"),
    )


def _null(question: Question, progress: Progress) -> pd.DataFrame:
    before = len(SETTINGS) * SEEDS
    return shuffled_ratings(
        question.results,
        SETTINGS["V1"],
        permutations=PERMUTATIONS,
        seed=0,
        similarities=question.similarities,
        progress=lambda done, of: progress(before + done, _steps(), "ratings handed round"),
    )


def _steps() -> int:
    return len(SETTINGS) * SEEDS + PERMUTATIONS


def _joined(frames: dict[str, pd.DataFrame]) -> pd.DataFrame:
    return pd.concat([frame.assign(variant=name) for name, frame in frames.items()], ignore_index=True)


def _ranking(question: Question, found: dict[str, PaperImportances]) -> str:
    """Mean importances over the seeds, and those of the paper's Table 6 if these are its own results."""
    means = {name: one.mean().set_index("feature") for name, one in found.items()}
    titles = {name: one.title for name, one in features_of(question.results).items()}
    printed = printed_importances() if question.results.name == PUBLISHED else None
    body = []
    for feature in next(iter(means.values())).index:
        row: list[str] = [titles[feature]]
        row += [f"{number(one.importance[feature])} ({number(one.sd[feature])})" for one in means.values()]
        body.append(row + ([] if printed is None else [number(printed[feature])]))
    head = ["feature", *(f"{name} (sd)" for name in means), *([] if printed is None else ["Table 6"])]
    return table(head, body)


def _worth(frames: dict[str, pd.DataFrame]) -> list[str]:
    """What the fit is worth: on splits, for unseen tasks, against Table 6, and with ratings handed round."""
    body = []
    for name, fits in frames["fits"].groupby("variant", sort=False):
        q2 = frames["unseen"][frames["unseen"].variant == name].set_index("left_out").q2
        r2 = (number(fits.r2_train.mean(), 2), number(fits.r2_test.mean(), 2), percent((fits.r2_test < 0).mean()))
        body.append((name, *r2, *(number(q2[role], 2) for role in ("target", "intermediate", "both"))))
    head = ["setting", "R2 (training)", "R2 (test)", "test R2 below 0", "Q2 target out", "intermediate out", "both out"]
    lines = [f"Means over {SEEDS} seeds of ten splits; Q2 of pairs whose tasks were left out:", table(head, body)]
    if "table6" in frames:
        near = frames["table6"].groupby("variant", sort=False)[["rho", "rmse"]].mean()
        said = "; ".join(f"{name} {number(one.rho, 2)} ({number(one.rmse)})" for name, one in near.iterrows())
        lines.append(f"Rank correlation with Table 6 (and root mean square difference), means over seeds: {said}.")
    if len(frames["null"]):
        body = [
            (
                one.feature,
                *(number(getattr(one, name)) for name in ("importance", "null_mean", "null_95", "p", "p_largest")),
            )
            for one in frames["null"].itertuples()
        ]
        head = ["construct", "importance", "handed round: mean", "95 %", "p", "p (largest)"]
        lines += [
            f"V1, seed 0, without stand-ins, and {PERMUTATIONS} times with ratings handed round:",
            table(head, body),
        ]
    return lines


def _notes(found: dict[str, PaperImportances]) -> list[str]:
    kinds = "; ".join(
        f"{name}: C {one.setting.penalty:g}, epsilon {one.setting.epsilon:g}" for name, one in found.items()
    )
    return [
        f"{kinds}. V1 follows the text of the paper, V3 was picked because it comes close to its Table 6.",
        *_said(found),
    ]


def _said(found: dict[str, PaperImportances]) -> list[str]:
    return list(dict.fromkeys(note for one in found.values() for note in one.notes))


def _lines(question: Question, found: dict[str, PaperImportances], frames: dict[str, pd.DataFrame]) -> list[str]:
    lines = ["the paper's way: a fit in the sample, which --mode guarded puts to the test"]
    for name, one in found.items():
        ranked: list[Any] = list(one.mean().itertuples())
        unseen = frames["unseen"][frames["unseen"].variant == name].set_index("left_out").q2["target"]
        lines.append(
            f"{name}: {', '.join(f'{row.feature} {number(row.importance)}' for row in ranked)}; R2 of training pairs"
            f" {number(one.fits.r2_train.mean(), 2)}, of test pairs {number(one.fits.r2_test.mean(), 2)}, Q2 of unseen"
            f" targets {number(unseen, 2)}"
        )
    return lines + _said(found)
