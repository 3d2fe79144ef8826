"""What explains gains, answered for a terminal, for a program and as a section of the page, in either mode."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis.answers import Question
from analysis.curve_figure import CHOICES, specification_curve
from analysis.drawing import write_drawn
from analysis.frames import write_frames
from analysis.guarded import Guarded, guarded
from analysis.guarded_verdicts import NOT_TESTED
from analysis.markdown import interval, number, signed, table, yes_no
from tasks.plain_text import counted

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
