"""``leaderboard``: every way to solve a study's tasks on one footing, from stored predictions alone."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from adapters_store import Store
from harness.cli.options import leaf_options
from harness.cli.study import name_of
from harness.cli.terminal import print_json, print_rows, records
from harness.sharing.stored import open_study
from tasks.errors import BadInput
from tasks.plain_text import nearest

if TYPE_CHECKING:
    import pandas as pd

RATIONALES = "Rationales, F1 of tokens and of spans in three forms:"
PEOPLE = "One annotator against the others, and systems against the same; difference to one annotator in points:"
CALIBRATION = "Probabilities: calibration error over ten bins, its mean if they were exactly right, and Brier score:"
SPARE_OF_PEOPLE = ("annotators", "rows", "its interval")
SPARE_OF_CALIBRATION = ("its interval", "overconfidence", "if calibrated")
SPARE = ("macro P", "macro R", "seconds", "parameters", "seeds", "weighted F1", "accuracy")


def add_leaderboard(leaderboard: argparse.ArgumentParser) -> None:
    """Add the options of ``leaderboard``."""
    leaf_options(leaderboard, "leaderboard demo", show_leaderboard)
    leaderboard.add_argument("study", metavar="STUDY", help="a study that the store has")
    leaderboard.add_argument("--target", metavar="TASK", action="append", default=[], help="(repeatable; default: all)")


def show_leaderboard(options: argparse.Namespace) -> int:
    """Write frames and figures of the leaderboard, and print a table for every target and setting."""
    from analysis.figures.planned.boards import write_boards
    from analysis.figures.planned.reliability import write_reliability
    from analysis.sections.study_results import Frames
    from analysis.sections.systems import ASKED_HEAD, BOARD_HEAD, asked_rows, board_row
    from analysis.tables import FIGURES, TABLES, write_frames

    name = name_of(options.study)
    frames = Frames.of(*open_study(Store(Path(options.store)), name))
    board, out = frames.board(), Path(options.out or f"results/{name}")
    for target in options.target:
        if target not in (known := list(frames.manifest["tasks"])):
            raise BadInput(f"--target {target}: not a task of study {name!r}{nearest(target, known)}")
    for file, frame in board.frames.items():
        write_frames(frame, out / TABLES / file)
    drawn = write_boards(board.board, frames.manifest, out / FIGURES, frames.kept, prints=True)
    drawn += write_reliability(board, frames.manifest, out / FIGURES, frames.kept, prints=True)
    files = [*(f"{out / TABLES / file}.csv" for file in board.frames), *(str(figure.png) for figure in drawn)]
    targets = options.target or list(frames.manifest["tasks"])
    names = ("board", "rationales", "people", "calibration")
    shown, *beside = ((frame := getattr(board, name))[frame.target.isin(targets)] for name in names)
    if options.json:
        parts = dict(zip(("leaderboard", *names[1:]), (shown, *beside), strict=True))
        rows = {part: records(frame) for part, frame in parts.items()}
        print_json({**rows, "files": files})
        return 0
    for (target, setting), rows in shown.groupby(["target", "setting"], sort=False):
        print(f"{frames.manifest['tasks'][target]['title']}, {setting} data, {rows.iloc[0].metric}:")
        entries = [dict(zip(BOARD_HEAD, board_row(row), strict=True)) for row in rows.itertuples()]
        print_rows(entries, as_json=False, spare=SPARE)
        _print_beside([of[(of.target == target) & (of.setting == setting)] for of in beside])
        print()
    _print_asked([dict(zip(ASKED_HEAD, row, strict=True)) for row in asked_rows(shown)])
    print(*files, sep="\n")
    return 0


def _print_beside(frames: Sequence[pd.DataFrame]) -> None:
    """Print how rationales are marked, how people do, and what probabilities are worth, of a target that has any."""
    from analysis.sections.systems import CALIBRATION_HEAD, PEOPLE_HEAD, RATIONALE_HEAD
    from analysis.sections.systems import calibration_row as calibrated
    from analysis.sections.systems import people_row as person
    from analysis.sections.systems import rationale_rows as marked

    rationales, people, calibration = frames
    parts = (
        (RATIONALES, RATIONALE_HEAD, marked(rationales), ()),
        (PEOPLE, PEOPLE_HEAD, [person(row) for row in people.itertuples()], SPARE_OF_PEOPLE),
        (CALIBRATION, CALIBRATION_HEAD, [calibrated(row) for row in calibration.itertuples()], SPARE_OF_CALIBRATION),
    )
    for title, head, rows, spare in parts:
        if rows:
            print(f"\n{title}")
            print_rows([dict(zip(head, row, strict=True)) for row in rows], as_json=False, spare=spare)


def _print_asked(rows: list[dict[str, str]]) -> None:
    """Print price, agreement and gaps of models that were asked, if there are any."""
    if rows:
        print(
            "Models that were asked: price of the test rows in dollars, agreement of repeats, share without an answer:"
        )
        print_rows(rows, as_json=False)
        print()
