"""What can be typed about a study that runs or has run: ``status``, ``cancel`` and ``logs``."""

from __future__ import annotations

import argparse

from harness.cli.options import leaf_of


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
    cancel = leaf_of(
        nouns,
        "cancel",
        "End what runs or is queued for a study; what is finished stays, and run goes on from the checkpoints.",
        "cancel demo",
        "jobs:cancel_study",
    )
    cancel.add_argument("study", metavar="STUDY", help="a study that the store has")
    logs = leaf_of(
        nouns,
        "logs",
        "Show what the store knows of one cell: why it failed and where, its epochs, how it was made, its log's end.",
        'logs "epitome_er->news_emotion" --study demo',
        "logs:show_logs",
    )
    logs.add_argument("cell", metavar="CELL", help="TARGET, 'INTERMEDIATE->TARGET', or the beginning of a key")
    logs.add_argument("--study", metavar="STUDY", help="default: any in the store")
    logs.add_argument("--seed", metavar="N", type=int, help="default: any")
