"""What every command of the command line has: help, an example, common options and a function."""

from __future__ import annotations

import argparse
import importlib
import os
from collections.abc import Callable

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


def _lazy(path: str) -> Command:
    """A function that imports ``module:function`` only when it is called, so that --help stays quick."""
    module, function = path.split(":")

    def call(options: argparse.Namespace) -> int:
        return int(getattr(importlib.import_module(f"harness.cli.{module}"), function)(options))

    return call
