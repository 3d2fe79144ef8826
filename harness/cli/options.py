"""What several commands have in common: help, an example, a function, and options with one meaning everywhere."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Callable
from typing import TypeAlias

from tasks.errors import BadInput

Command = Callable[[argparse.Namespace], int]
Leaves: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def leaf_of(leaves: Leaves, name: str, text: str, example: str, command: Command) -> argparse.ArgumentParser:
    """A command of a noun, such as ``list`` of ``tasks``, with help, an example and the options that all have."""
    leaf = leaves.add_parser(name, help=text, description=text)
    leaf_options(leaf, example, command)
    return leaf


def leaf_options(leaf: argparse.ArgumentParser, example: str, command: Command) -> None:
    """Give a command its example, the options that every command has, and ``command``, which returns an exit code."""
    leaf.epilog = f"example: empathy-transfer {example}"
    leaf.set_defaults(command=command)
    leaf.add_argument(
        "--data",
        metavar="DIR",
        default=os.environ.get("EMPATHY_DATA", "data"),
        help="folder of the raw files (default: EMPATHY_DATA or ./data)",
    )
    leaf.add_argument(
        "--store",
        metavar="DIR",
        default=os.environ.get("EMPATHY_STORE", "runs"),
        help="folder of the records (default: EMPATHY_STORE or ./runs)",
    )
    leaf.add_argument("--out", metavar="DIR", help="folder for tables, figures and reports (default: results/STUDY)")
    leaf.add_argument("--json", action="store_true", help="print JSON instead of a table")
    leaf.add_argument("--quiet", action="store_true", help="no progress display")


def out_option(leaf: argparse.ArgumentParser, text: str, metavar: str = "DIR") -> None:
    """Say in the help what ``--out`` is of a command that writes something else than a study's tables."""
    out = next(action for action in leaf._actions if action.dest == "out")
    out.metavar, out.help = metavar, text


def exact_option(leaf: argparse.ArgumentParser) -> None:
    """Whether more draws decide every correction of a gain."""
    leaf.add_argument(
        "--exact",
        action="store_true",
        help="draw the whole grid ten times as often where any correction of a gain is undecided",
    )


def registry_option(leaf: argparse.ArgumentParser) -> None:
    """Folders with the user's own entries."""
    leaf.add_argument(
        "--registry",
        metavar="DIR",
        action="append",
        default=[],
        help="folder with entries of your own (repeatable)",
    )


def best_option(leaf: argparse.ArgumentParser) -> None:
    """Whether searches decide training settings."""
    leaf.add_argument("--best", action="store_true", help="training settings as the searches in the store found best")


def splits_option(leaf: argparse.ArgumentParser) -> None:
    """Where published split ids are."""
    leaf.add_argument("--splits", metavar="DIR", help="folder of published split ids (default: splits in --data)")


def device_option(leaf: argparse.ArgumentParser) -> None:
    """Where torch computes."""
    leaf.add_argument("--device", default="auto", help="cpu, cuda or cuda:N (default: the first GPU that there is)")


def change_options(leaf: argparse.ArgumentParser) -> None:
    """What changes a study; given to its run, it decides which cells are the study's."""
    registry_option(leaf)
    leaf.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="change a field, e.g. training.epochs=3 (repeatable)",
    )
    leaf.add_argument("--limit", metavar="N", type=int, help="at most N rows of every split")
    leaf.add_argument(
        "--seeds",
        "--seed",
        dest="seed",
        metavar="N[,N]",
        type=seeds_of,
        action="extend",
        default=[],
        help="instead of the study's seeds, e.g. 1 for the impatient, or 1,2,3 (repeatable)",
    )


def seeds_of(text: str) -> list[int]:
    """The seeds of ``1`` or ``1,2,3``; argparse says what is wrong with others."""
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no seed, nor several as 1,2,3") from None


def study_options(leaf: argparse.ArgumentParser) -> None:
    """Which study, and what changes it."""
    leaf.add_argument("study", metavar="STUDY", help="a built-in study or a .toml file")
    change_options(leaf)


def run_options(leaf: argparse.ArgumentParser) -> None:
    """Which columns, and how much of this machine."""
    leaf.add_argument(
        "--only-target", metavar="ID", action="append", default=[], help="only this target's column (repeatable)"
    )
    leaf.add_argument("--workers", metavar="N", type=int, help="packs at a time, each in its own process (default: 1)")
    leaf.add_argument("--threads", metavar="N", type=int, help="threads of each process (default: its share of cores)")


def plan_options(leaf: argparse.ArgumentParser) -> None:
    """What decides which cells a run has."""
    study_options(leaf)
    best_option(leaf)
    run_options(leaf)
    splits_option(leaf)
    system_option(leaf)


def system_option(leaf: argparse.ArgumentParser) -> None:
    """Files of systems that run with the user's rights."""
    leaf.add_argument(
        "--system",
        metavar="FILE",
        action="append",
        default=[],
        help="run this Python file, a system that the study names (repeatable; docs/systems-beside-adapters.md)",
    )


def train_options(leaf: argparse.ArgumentParser) -> None:
    """How cells are trained, and by what."""
    from harness.engines.cluster import ENGINES

    leaf.add_argument(
        "--smoke",
        action="store_true",
        help="every cell with 32 rows and one epoch, as the study STUDY-smoke: to see that all of it trains",
    )
    device_option(leaf)
    leaf.add_argument(
        "--engine",
        choices=ENGINES,
        default="local",
        help="what runs packs: this machine, or jobs of Slurm or Ray (default: local)",
    )


def places(options: argparse.Namespace) -> list[str]:
    """The places that were typed, for the next command: those that are not where they are looked for anyway."""
    usual = {"data": os.environ.get("EMPATHY_DATA", "data"), "store": os.environ.get("EMPATHY_STORE", "runs")}
    typed = {name: getattr(options, name) for name in usual}
    return [word for name, place in typed.items() if place != usual[name] for word in (f"--{name}", place)]


def changes(options: argparse.Namespace) -> list[str]:
    """What was typed to change a study, for the next command about it."""
    words = [word for name in ("registry", "set") for value in getattr(options, name) for word in (f"--{name}", value)]
    if options.limit is not None:
        words += ["--limit", str(options.limit)]
    if options.seed:
        words += ["--seeds", ",".join(map(str, options.seed))]
    return [*words, *(["--best"] if getattr(options, "best", False) else [])]


def print_next(*words: str) -> None:
    """Print the command that is likely to be wanted next, ready to be copied."""
    print(f"\nnext: empathy-transfer {shlex.join(words)}")


def set_threads(threads: int | None) -> None:
    """Let torch, once it is loaded, use this many threads; BadInput for less than one."""
    from harness.study.device import let_torch_use

    if threads is None:
        return
    if threads < 1:
        raise BadInput(f"--threads {threads} is not a whole number from 1")
    let_torch_use(threads)  # it is loaded only if a cell must be trained
