"""What can be typed to weigh studies: ``power`` and ``compare``."""

from __future__ import annotations

import argparse

from harness.cli.options import leaf_of


def add_weighing(nouns: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands that ask what a study could have seen, and what another one says."""
    power = leaf_of(
        nouns,
        "power",
        "Say how small a gain, and an effect of ratings, a study could have seen, and what more seeds would show.",
        "power published --grids 100",
        "compare:show_power",
    )
    power.add_argument("study", metavar="STUDY", help="a stored study, or published: the paper's own tables")
    power.add_argument("--grids", metavar="N", type=int, default=100, help="to simulate of each kind (default: 100)")
    power.add_argument("--seed", metavar="N", type=int, default=20_240_908, help="of the simulation")
    compare = leaf_of(
        nouns,
        "compare",
        "Hold two studies against each other: scores, gains, and the conclusions that differ, from the store alone.",
        "compare demo demo-seed2",
        "compare:compare_studies",
    )
    for name in ("a", "b"):
        compare.add_argument(name, metavar=name.upper(), help="a stored study, or published: the paper's own tables")
