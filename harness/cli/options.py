"""What every command of the command line has (help, an example, common options, a function) and what several have."""

from __future__ import annotations

import argparse
import importlib
import os
from collections.abc import Callable

from harness.study.device import let_torch_use
from tasks.errors import BadInput


def set_threads(threads: int | None) -> None:
    """Let torch, once it is loaded, use this many threads; BadInput for less than one."""
    if threads is None:
        return
    if threads < 1:
        raise BadInput(f"--threads {threads} is not a whole number from 1")
    let_torch_use(threads)  # it is loaded only if a cell must be trained


Command = Callable[[argparse.Namespace], int]


def leaf_of(
    nouns: argparse._SubParsersAction[argparse.ArgumentParser], name: str, text: str, example: str, command: str
) -> argparse.ArgumentParser:
    """A command with help, an example and the options that every command has."""
    leaf = nouns.add_parser(name, help=text, description=text, epilog=f"example: empathy-transfer {example}")
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
    leaf.set_defaults(command=_lazy(command))
    return leaf


def told_out(leaf: argparse.ArgumentParser, text: str, metavar: str = "DIR") -> None:
    """Say what --out of a command is that writes something else than a study's tables."""
    out = next(action for action in leaf._actions if action.dest == "out")
    out.metavar, out.help = metavar, text


def registry_option(leaf: argparse.ArgumentParser) -> None:
    """Folders with entries of one's own."""
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
        "--seed", metavar="N", type=int, action="append", default=[], help="instead of the study's seeds (repeatable)"
    )


def _lazy(path: str) -> Command:
    """A function that imports ``module:function`` only when it is called, so that --help stays quick."""
    module, function = path.split(":")

    def call(options: argparse.Namespace) -> int:
        return int(getattr(importlib.import_module(f"harness.cli.{module}"), function)(options))

    return call
