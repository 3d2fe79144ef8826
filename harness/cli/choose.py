"""``choose``: a good intermediate for a task, for less than its whole column."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness.cli.options import (
    best_option,
    change_options,
    changes,
    device_option,
    leaf_options,
    places,
    print_next,
    set_threads,
    splits_option,
)
from harness.cli.study import study_of
from harness.cli.terminal import Bars, print_json, print_rows, stop_if_asked
from tasks.plain_text import counted

if TYPE_CHECKING:
    from harness.search.choice import Candidate, Choice, Round

AGAIN, FURTHER = 5, 3  # what the next command asks for: so many of the best, so many seeds
SPARE = ("flags", "best", "seeds")


def add_choose(leaf: argparse.ArgumentParser) -> None:
    """Add the options of ``choose``."""
    leaf_options(leaf, "choose epitome_er --study real-small --data data", choose)
    leaf.add_argument("task", metavar="TASK", help="a target of the study")
    leaf.add_argument("--study", metavar="STUDY", required=True, help="whose other tasks are the candidates")
    leaf.add_argument(
        "--rounds",
        metavar="N[,N]",
        type=rounds_of,
        default=(),
        help="epochs after which the worse half leaves (default: 1,2,4, as far as anybody can leave)",
    )
    leaf.add_argument(
        "--again", metavar="N", type=int, help="train the N best with all seeds of the study (--seeds 1,2,3) as well"
    )
    change_options(leaf)
    best_option(leaf)
    splits_option(leaf)
    device_option(leaf)
    leaf.add_argument("--threads", metavar="N", type=int, help="threads of this process (default: all cores)")


def rounds_of(text: str) -> tuple[int, ...]:
    """The epochs of ``1,2,4``; argparse says what is wrong with others."""
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no list of epochs, such as 1,2,4") from None


def choose(options: argparse.Namespace) -> int:
    """Race, and print the ranking, who left when, what it cost and the next command; exit code 1 when a cell failed."""
    set_threads(options.threads)
    study = study_of(options)
    with Bars(quiet=options.quiet) as bars:

        def on_round(ended: Round, going: int) -> None:
            stop_if_asked()
            if not (options.quiet or bars.is_shown):
                sys.stderr.write(f"after epoch {ended.after}: {going} of {len(ended.scores)} go on\n")

        choice = study.choose(
            options.task,
            rounds=options.rounds,
            again=options.again,
            device=options.device,
            on_epoch=lambda what, epoch, epochs: bars.show(what, epoch, epochs, f"{what}: epoch {epoch}/{epochs}"),
            on_round=on_round,
        )
    _write(choice, Path(options.out or f"results/{study.config.name}"))
    if options.json:
        print_json(choice.as_json())
    else:
        _print(choice)
        _print_next(choice, options, study.config.seeds)
    return 1 if choice.failed else 0


def _write(choice: Choice, out: Path) -> None:
    """The ranking as a table of the study."""
    import pandas as pd

    from analysis.tables import TABLES, write_csv

    rows = [dataclasses.asdict(candidate) for candidate in choice.candidates]
    frame = pd.DataFrame(rows).assign(flags=[" ".join(candidate.flags) for candidate in choice.candidates])
    frame.insert(0, "rank", range(1, len(frame) + 1))
    write_csv(frame, out / TABLES / f"choose-{choice.task}")


def _print(choice: Choice) -> None:
    rows = [_row(rank, candidate, choice) for rank, candidate in enumerate(choice.candidates, start=1)]
    print_rows(rows, as_json=False, spare=SPARE)
    seeds = ", ".join(map(str, choice.seeds))
    print(
        f"\nranked for {choice.task} ({choice.setting}, {'seeds' if len(choice.seeds) > 1 else 'seed'} {seeds}) by"
        " validation alone, of equals in the study's order; best: the epoch that is kept; gain: points over the target"
        " alone on test rows, shown after the choice and only of candidates that were trained to their end"
    )
    for after in choice.rounds:
        left = [own.intermediate for own in choice.candidates if own.left_after == after]
        print(f"left after epoch {after}: {', '.join(left) or 'nobody'}")
    stored = sum(own.state == "stored" for own in choice.candidates)
    before = f" ({counted(stored, 'candidate')} stored before, at no cost)" if stored else ""
    print(
        f"cost: {choice.epochs} of the {choice.whole_column} epochs of the whole column{before}, {_seeds_note(choice)}"
    )
    if choice.tied:
        print(f"equal on validation: {', '.join(choice.tied)}; the first in the study's order stands first")
    if choice.chosen and "collapsed" in choice.chosen.flags:
        print(f"{choice.chosen.intermediate} -> {choice.task} collapsed: no candidate may be worth a transfer")
    for label, reason in choice.failed.items():
        print(f"failed: {label}: {reason}")


def _seeds_note(choice: Choice) -> str:
    """Which trainings the cost does not count."""
    return "baselines not counted" if len(choice.seeds) == 1 else "baselines and further seeds not counted"


def _row(rank: int, own: Candidate, choice: Choice) -> dict[str, object]:
    """A line of the ranking; seeds and flags have a column where they tell something."""
    flags = {candidate.key: [flag for flag in candidate.flags if ":" not in flag] for candidate in choice.candidates}
    return {
        "rank": rank,
        "intermediate": own.intermediate,
        "validation": "-" if own.validation is None else f"{own.validation:.3f}",
        "epochs": own.epochs,
        "state": f"left at {own.left_after}" if own.state == "left" else own.state,
        **({"seeds": own.seeds or "-"} if len(choice.seeds) > 1 else {}),
        "best": own.best_epoch or "-",
        "gain": "-" if own.gain is None else f"{own.gain:+.1f}",
        **({"flags": " ".join(flags[own.key]) or "-"} if any(flags.values()) else {}),
    }


def _print_next(choice: Choice, options: argparse.Namespace, seeds: Sequence[int]) -> None:
    """More seeds for the best, those of the study where it has several; after them the report."""
    if len(choice.seeds) > 1:
        print_next("report", options.study, *places(options))
        return
    words = ["--again", str(min(AGAIN, len(choice.candidates)))]
    words += ["--rounds", ",".join(map(str, options.rounds))] if options.rounds else []
    named = list(seeds) if len(seeds) > 1 else [choice.seeds[0] + more for more in range(FURTHER)]
    typed = argparse.Namespace(**{**vars(options), "seed": named})
    print_next("choose", choice.task, "--study", options.study, *words, *changes(typed), *places(options))
