"""What can be typed about a study that runs or has run: ``status``."""

from __future__ import annotations

import argparse

from harness.cli.parser_leaf import leaf_of


def add_watching(nouns: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands that look at a study's run and act on it."""
    status = leaf_of(nouns, "status", "Show what of a study is stored.", "status demo", "status:show_status")
    status.add_argument("study", metavar="STUDY", nargs="?", help="default: every study in the store")
