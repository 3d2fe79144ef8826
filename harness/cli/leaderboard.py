"""``leaderboard``: every way to solve a study's tasks on one footing, from stored predictions alone."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from adapters_store import Store
from harness.api import stored_manifest
from harness.cli.options import leaf_options
from harness.cli.study import name_of
from harness.cli.terminal import print_json, print_rows
from tasks.errors import BadInput
from tasks.plain_text import nearest

SPARE = ("macro P", "macro R", "seconds", "parameters", "seeds", "weighted F1", "accuracy")


def add_leaderboard(leaderboard: argparse.ArgumentParser) -> None:
    """Add the options of ``leaderboard``."""
    leaf_options(leaderboard, "leaderboard demo", show_leaderboard)
    leaderboard.add_argument("study", metavar="STUDY", help="a study that the store has")
    leaderboard.add_argument("--target", metavar="TASK", action="append", default=[], help="(repeatable; default: all)")


def show_leaderboard(options: argparse.Namespace) -> int:
    """Write frames and figures of the leaderboard, and print a table for every target and setting."""
    from analysis.figures.planned.boards import write_boards
    from analysis.sections.study import ASKED_HEAD, BOARD_HEAD, RATIONALE_HEAD, asked_rows, board_row, rationale_rows
    from analysis.sections.study_results import Frames
    from analysis.tables import FIGURES, TABLES, write_frames

    name = name_of(options.study)
    store = Store(Path(options.store))
    frames = Frames.of(store, stored_manifest(store, name))
    board, out = frames.board(), Path(options.out or f"results/{name}")
    for target in options.target:
        if target not in (known := list(frames.manifest["tasks"])):
            raise BadInput(f"--target {target}: not a task of study {name!r}{nearest(target, known)}")
    for file, frame in board.frames.items():
        write_frames(frame, out / TABLES / file)
    drawn = write_boards(board.board, frames.manifest, out / FIGURES, frames.kept, prints=True)
    files = [*(f"{out / TABLES / file}.csv" for file in board.frames), *(str(figure.png) for figure in drawn)]
    targets = options.target or list(frames.manifest["tasks"])
    shown, marked = (frame[frame.target.isin(targets)] for frame in (board.board, board.rationales))
    if options.json:
        parts = {"leaderboard": shown, "rationales": marked}
        rows = {part: json.loads(of.to_json(orient="records", double_precision=15)) for part, of in parts.items()}
        print_json({**rows, "files": files})
        return 0
    for (target, setting), rows in shown.groupby(["target", "setting"], sort=False):
        print(f"{frames.manifest['tasks'][target]['title']}, {setting} data, {rows.iloc[0].metric}:")
        entries = [dict(zip(BOARD_HEAD, board_row(row), strict=True)) for row in rows.itertuples()]
        print_rows(entries, as_json=False, spare=SPARE)
        own = marked[(marked.target == target) & (marked.setting == setting)]
        if len(own):
            print("\nRationales, F1 of tokens and of spans in three forms:")
            entries = [dict(zip(RATIONALE_HEAD, row, strict=True)) for row in rationale_rows(own)]
            print_rows(entries, as_json=False)
        print()
    _print_asked([dict(zip(ASKED_HEAD, row, strict=True)) for row in asked_rows(shown)])
    print(*files, sep="\n")
    return 0


def _print_asked(rows: list[dict[str, str]]) -> None:
    """Print price, agreement and gaps of models that were asked, if there are any."""
    if rows:
        print(
            "Models that were asked: price of the test rows in dollars, agreement of repeats, share without an answer:"
        )
        print_rows(rows, as_json=False)
        print()
