"""What explains gains, answered for a terminal, for a program and as a section of a page, in either mode."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis.importance.features import features_of
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
from analysis.tables import TABLES, number, percent, write_frames
from tasks.errors import BadInput

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
    """The mixed model of the primary specification, with its frames written."""
    primary, (answer, blocks, more) = question.primary, mixed_answer(question, progress)
    chosen = choices(question)
    facts: dict[str, Any] = {"headline": answer.headline, "declared": primary.declared or None, "key": primary.key}
    facts |= {"slopes": rows(answer.slopes), "choices": rows(chosen)}
    section = Section("What explains a gain", [Text(primary.line()), *blocks])
    beside = [*more, *by_choice(question, chosen)]
    further = Section("How that was tested", beside) if beside else None
    return Answer((primary.line(), *answer.lines()), section, facts, further)


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
