"""What can be typed about a study that runs or has run: ``status``."""

from __future__ import annotations

import argparse

from harness.cli.parser_leaf import leaf_of


def add_watching(nouns: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands that look at a study's run and act on it."""
    status = leaf_of(
        nouns,
        "status",
        "Show what of the studies is stored; of one study also what runs, waits and failed, and for how long still.",
        "status demo --watch",
        "status:show_status",
    )
    status.add_argument("study", metavar="STUDY", nargs="?", help="default: every study in the store")
    status.add_argument("--watch", action="store_true", help="go on showing it until nothing runs or is queued")
