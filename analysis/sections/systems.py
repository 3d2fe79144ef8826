"""The sections on systems beside adapters: how all of them score, and whether they read the context.

Each is made from finished frames; nothing here reads a store.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from adapters_store.measures import SWAPPED
from analysis.figures.drawing import FigureFiles
from analysis.figures.heatmaps import METRIC_NAMES
from analysis.gains.significance import p_text
from analysis.results.leaderboard import Leaderboard
from analysis.sections.blocks import Block, Picture, Section, Table, Text
from analysis.sections.study_results import StudyResults
from analysis.tables import count, interval, number, signed, yes_no
from tasks.rationales import FORMS

BOARD_TEXT = (
    "Every way to solve a target that was run, on the same test rows: systems, the adapter alone, and the transfer that"
    " has the highest validation score. A tie: no more than chance apart from the highest score, by paired tests of all"
    " against all on resampled groups, or over repeated splits with the variance of Nadeau and Bengio, corrected by the"
    " step-down maximum within the target. What leaks was predicted from the test rows' own answers, as published code"
    " does: it has no rank. Macro averages are over"
    " the classes that occur in the test labels, weighted ones count each as often as it does. Parameters: numbers"
    " that a record keeps of what was learned."
    " leaderboard_pairs.csv has every test, leaderboard_classes.csv every class, leaderboard_rationales.csv how well"
    " rationales are marked, where a system marks any."
)
BOARD_HEAD = (
    *("system", "score", "95 % interval", "tied with the best", "accuracy", "macro P", "macro R", "macro F1"),
    *("weighted F1", "parameters", "seconds", "seeds"),
)


ASKED_HEAD = ("target", "setting", "system", "score", "dollars", "agreement", "unanswered")
ASKED_TEXT = (
    "Dollars: the price of the answers to the test rows of one seed. Agreement: the share of pairs of answers to the"
    " same row that name the same class. Unanswered: the share of test rows whose answer names no class, or two, which"
    " count as wrong."
)
RATIONALE_TEXT = (
    "How well systems mark the words that are the reason of a label: F1 of the backbone's tokens, and IOU F1 of spans,"
    " half of whose union is shared, in the forms of two papers and corrected (docs/systems-beside-adapters.md). A form"
    " gives texts without a rationale its own way, so that scores of two forms cannot be compared, and none means"
    " anything without the two constants below: every word marked, and none."
)
RATIONALE_HEAD = ("system", *(f"{form} {score}" for form in FORMS for score in ("token F1", "IOU F1")))


PEOPLE_TEXT = (
    "How well people do, where several annotators have marked the test rows: each annotator against the others, by the"
    " target's own metric, and every system against the same others. The difference is in points, that of a system less"
    " one annotator; a system that is not below 0 agrees with people as well as they do with each other. These scores"
    " are not those above, which are held against the label that all annotators make together."
)
PEOPLE_HEAD = ("answers by", "score", "95 % interval", "difference", "its interval", "p", "rows", "annotators")
CALIBRATION_TEXT = (
    "What probabilities are worth. Calibration error: how far the share of right answers lies from the mean probability"
    " of what was decided, mean over ten bins of equal mass. It is above 0 for every finite test set: if calibrated is"
    " its mean where the same probabilities are exactly right, and p how often it is then as large. Overconfidence:"
    " mean probability less the share that is right. Brier score: squared distance of probabilities and truth, summed"
    " over classes. leaderboard_reliability.csv has the bins, and the figure draws them."
)
CALIBRATION_HEAD = (
    *("system", "calibration error", "95 % interval", "if calibrated", "p", "overconfidence"),
    *("Brier score", "its interval"),
)


def leaderboard(study: StudyResults, board: Leaderboard, drawn: Sequence[FigureFiles]) -> Section:
    """Its figures, a table for every target and setting, how people do, and what probabilities and rationales are."""
    blocks: list[Block] = [Text(BOARD_TEXT), *map(Picture.of, drawn)]
    for (target, setting), rows in board.board.groupby(["target", "setting"], sort=False):
        first = rows.iloc[0]
        facts = f"{METRIC_NAMES[first.metric]}, {count(first.n_test)} rows in {count(first.n_groups)} groups"
        blocks.append(Text(f"{setting} data, {facts}:", lead=study.title(target)))
        blocks.append(Table(BOARD_HEAD, [board_row(row) for row in rows.itertuples()]))
    if len(asked := asked_rows(board.board)):
        blocks += [Text(ASKED_TEXT, lead="Models that were asked."), Table(ASKED_HEAD, asked)]
    for frame, text, lead, head, in_words in (
        (board.people, PEOPLE_TEXT, "People.", PEOPLE_HEAD, people_row),
        (board.calibration, CALIBRATION_TEXT, "Calibration.", CALIBRATION_HEAD, calibration_row),
    ):
        blocks += [Text(text, lead=lead)] if len(frame) else []
        for (target, setting), rows in frame.groupby(["target", "setting"], sort=False):
            blocks.append(Text(f"{setting} data:", lead=study.title(target)))
            blocks.append(Table(head, [in_words(row) for row in rows.itertuples()]))
    if len(board.rationales):
        blocks += [Text(RATIONALE_TEXT, lead="Rationales."), *_rationales(study, board.rationales)]
    return Section("Leaderboard", blocks)


def people_row(row: Any) -> tuple[str, ...]:  # noqa: ANN401 - a row of the frame of people
    """One annotator, or a contestant, against the other annotators in words."""
    apart = ("", "", "")
    if pd.notna(row.difference):
        apart = (signed(row.difference, 1), interval(row.difference_low, row.difference_high, 1), p_text(row.p))
    shown = (row.system, number(row.score), interval(row.low, row.high, 2))
    return (*shown, *apart, count(row.n_rows), str(row.n_annotators))


def calibration_row(row: Any) -> tuple[str, ...]:  # noqa: ANN401 - a row of the frame of calibration
    """What a contestant's probabilities are worth in words."""
    return (
        *(row.system, number(row.error, 3), interval(row.low, row.high, 2), number(row.if_calibrated, 3)),
        *(p_text(row.p), signed(row.overconfidence, 3)),
        *(number(row.brier, 3), interval(row.brier_low, row.brier_high, 2)),
    )


def asked_rows(board: pd.DataFrame) -> list[tuple[str, ...]]:
    """Contestants in words whose answers had a price, were asked for several times, or did not always come."""
    shown = board[board.dollars.notna() | board.agreement.notna() | (board.unanswered > 0)]
    return [
        (
            *(row.target, row.setting, row.system, number(row.score)),
            *(number(row.dollars, 4), number(row.agreement), number(row.unanswered)),
        )
        for row in shown.itertuples()
    ]


def _rationales(study: StudyResults, rationales: pd.DataFrame) -> list[Block]:
    blocks: list[Block] = []
    for (target, setting), rows in rationales.groupby(["target", "setting"], sort=False):
        first = rows.iloc[0]
        facts = f"{count(first.n_marked)} of {count(first.n_test)} test rows have a rationale"
        blocks.append(Text(f"{setting} data, {facts}:", lead=study.title(target)))
        blocks.append(Table(RATIONALE_HEAD, rationale_rows(rows)))
    return blocks


def rationale_rows(rows: pd.DataFrame) -> list[tuple[str, ...]]:
    """The systems of a target and setting in words, their scores in every form."""
    return [
        (str(name), *(number(score) for form in own.itertuples() for score in (form.token_f1, form.iou_f1)))
        for name, own in rows.groupby("system", sort=False)
    ]


def board_row(row: Any) -> tuple[str, ...]:  # noqa: ANN401 - a row of the leaderboard
    """A contestant in words, with a note where it leaks."""
    name = f"{row.system} (leaks)" if row.is_leaking else row.system
    shares = (row.accuracy, row.macro_precision, row.macro_recall, row.macro_f1, row.weighted_f1)
    return (
        *(name, number(row.score), interval(row.low, row.high, 2), yes_no(row.is_tied)),
        *("" if pd.isna(share) else number(share) for share in shares),
        *(count(row.parameters), number(row.seconds, 1), str(row.n_seeds)),
    )


CONTEXT_TEXT = (
    "Every test row gets the context of a row of another group, its own text and label unchanged. Changed: the share of"
    " decisions that differ then (of numbers those that move by a tenth of the labels' standard deviation). By the"
    " context alone: the share that would change if the same decisions followed from the context and nothing else."
    " Lost: points of the target's metric, on the same rows. A loss says that what is read there tells of the label; a"
    " change without a loss, that the context moves answers in no useful direction. No p is corrected for the number of"
    " rows here. probes.csv has all operations (docs/systems-beside-adapters.md); rows without a context take no part."
)
CONTEXT_HEAD = (
    "target",
    "answers by",
    "changed",
    "its interval",
    "by the context alone",
    "lost",
    "its interval",
    "p",
    "rows",
)


def context(study: StudyResults, probed: pd.DataFrame, drawn: Sequence[FigureFiles]) -> Section:
    """What swapped contexts change, of every target and whoever was asked, below the figure of tasks."""
    swapped = probed[probed.operation == SWAPPED]
    rows = [
        (
            *(study.title(row.target), row.system, number(row.changed), interval(row.changed_low, row.changed_high, 2)),
            *(
                number(row.context_alone),
                signed(100 * row.drop, 1),
                interval(100 * row.drop_low, 100 * row.drop_high, 1),
            ),
            *(p_text(row.p), count(row.n)),
        )
        for row in swapped.itertuples()
    ]
    return Section(
        "Do they read the context?", [*map(Picture.of, drawn), Text(CONTEXT_TEXT), Table(CONTEXT_HEAD, rows)]
    )
