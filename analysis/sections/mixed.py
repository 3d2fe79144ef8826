"""What explains a gain, answered by the mixed model: slopes, verdicts and the profile of the likelihood."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pandas as pd

from analysis.figures.drawing import write_figure_files
from analysis.figures.likelihood_profile import likelihood_profile
from analysis.figures.specification_curve import changed, choices_of_slopes
from analysis.gains.significance import p_text
from analysis.importance.mixed.answer import NOT_TESTED, Mixed, ends, mixed, slopes_by_choice
from analysis.importance.mixed.tested import DISTANCE, SIGNED
from analysis.sections.blocks import Block, Bullets, Picture, Table, Text
from analysis.sections.question import Question
from analysis.tables import FIGURES, TABLES, percent, signed, write_frames

CHOSEN = (
    "The same slopes (and p, corrected for all ratings) under each choice that could have been made instead, which are"
    " not corrected for the number of choices:"
)
Progress = Callable[[int, int, str], None]


def mixed_answer(question: Question, progress: Progress) -> tuple[Mixed, list[Block], list[Block]]:
    """The answer, read where it was kept, with its frames and its figure written; the blocks that tell it, and more.

    What is more is how it was tested, the same for distances, and each verdict in a sentence.
    """
    answer = computed(question, progress)
    write_frames(answer.slopes, question.out / TABLES / "mixed_slopes")
    blocks: list[Block] = [Text("", lead=f"{answer.headline[0].upper()}{answer.headline[1:]}.")]
    tested = answer.slopes[answer.slopes.verdict != NOT_TESTED]
    if tested.empty:
        return answer, blocks, [Bullets(answer.notes)] if answer.notes else []
    blocks.append(slopes_table(tested[tested.question == SIGNED]))
    write_frames(answer.profile, question.out / TABLES / "mixed_profile")
    title = f"{question.results.banner}Likelihood of slopes on ratings, {question.results.name}"
    stem = question.out / FIGURES / "mixed_profile"
    drawn = write_figure_files(answer.profile, stem, title, likelihood_profile, kept=question.kept)
    blocks.append(Picture.of(drawn))
    more: list[Block] = [
        Text(_method()),
        Text("The same for distances, whether tasks whose ratings are further apart teach each other less:"),
        slopes_table(tested[tested.question == DISTANCE]),
    ]
    untested = answer.slopes[answer.slopes.verdict == NOT_TESTED]
    points = [f"{row.title} is not tested: {row.why}" for row in untested.itertuples()]
    points += [f"{row.title}: {row.why}" for row in tested[tested.question == SIGNED].itertuples()]
    return answer, blocks, [*more, Bullets([*points, *answer.notes])]


def choices(question: Question) -> pd.DataFrame:
    """Slopes under every choice that could have been made, read where they were kept, and written."""
    asked = (question.results, question.primary.specification, question.similarities)
    frame = question.kept.frame(
        "mixed choices", {"asked": asked}, lambda: slopes_by_choice(asked[0], asked[1], similarities=asked[2])
    )
    write_frames(frame, question.out / TABLES / "mixed_choices")
    return frame


def by_choice(question: Question, frame: pd.DataFrame) -> list[Block]:
    """A line per choice with slope and p of every rating, and their picture; nothing where none could be tested."""
    if frame.p.isna().all():
        return []
    title = f"{question.results.banner}Slopes under each choice that could have been made, {question.results.name}"
    drawn = write_figure_files(
        frame, question.out / FIGURES / "mixed_choices", title, choices_of_slopes, kept=question.kept
    )
    titles = list(dict.fromkeys(frame.title))
    body = []
    for _, own in frame.groupby(["outcome", "weights", "cells", "without_rater"], sort=False):
        said = {row.title: row.why or f"{signed(row.slope, 2)} ({p_text(row.p)})" for row in own.itertuples()}
        body.append((changed(own.iloc[0], frame.iloc[0]), *(said.get(name, "") for name in titles)))
    return [Text(CHOSEN), Table(["changed", *titles], body), Picture.of(drawn)]


def computed(question: Question, progress: Progress) -> Mixed:
    """The answer, read where it was kept; nothing is written beside it."""
    asked = (question.results, question.primary.specification, question.similarities)

    def compute() -> dict[str, Any]:
        answer = mixed(asked[0], asked[1], similarities=asked[2], progress=progress)
        parts = {field.name: getattr(answer, field.name) for field in fields(answer)}
        return parts | {"notes": list(answer.notes)}

    parts = question.kept.parts("mixed model", {"asked": asked}, compute)
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
    head = ["rating", "per step", "95 % interval", "share of squares", "p (ratio)", "p (families)", "p", "verdict"]
    body = [
        (
            *(row.title, signed(row.slope, 2), ends(row.low, row.high), percent(row.share)),
            *(p_text(row.p_ratio), f"{p_text(row.p_families)} ({row.df} df)", p_text(row.p), row.verdict),
        )
        for row in tested.itertuples()
    ]
    return Table(head, body)
