"""What can be typed to see which items a transfer changed: ``flips``."""

from __future__ import annotations

import argparse

from harness.cli.options import leaf_of, registry_option, splits_option, told_out


def add_flips(nouns: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command that compares a transfer with its baseline item by item."""
    flips = leaf_of(
        nouns,
        "flips",
        "Show which test items an intermediate turned right or wrong: by seed, class, length, dialogue, one by one.",
        "flips epitome_er news_empathy --study demo --show 5",
        "flips:show_flips",
    )
    flips.add_argument("intermediate", metavar="INTERMEDIATE", help="task, or imported adapter, that is below")
    flips.add_argument("target", metavar="TARGET", help="task that was trained on top of it, and tested")
    flips.add_argument("--study", metavar="STUDY", required=True, help="a study that the store has")
    flips.add_argument("--setting", metavar="NAME", default="full", help="share of the training data (default: full)")
    flips.add_argument("--seed", metavar="N", type=int, action="append", default=[], help="(repeatable; default: all)")
    flips.add_argument(
        "--show", metavar="N", type=int, help="print the texts of so many items of each kind, from the raw files"
    )
    told_out(flips, "also write the tables there as flips-*.csv, whole, with ids and without texts")
    registry_option(flips)
    splits_option(flips)
