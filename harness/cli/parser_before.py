"""What can be typed before a launch: ``doctor``, and what ``plan`` and ``run`` take for it."""

from __future__ import annotations

import argparse

from harness.cli.parser_leaf import best_option, change_options, leaf_of, splits_option


def add_before(nouns: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands that look at a machine before anything is trained on it."""
    doctor = leaf_of(
        nouns,
        "doctor",
        "Say what is here for a run, and the cure of what is not: packages, device, backbone, data, store, scheduler.",
        "doctor demo",
        "doctor:show_doctor",
    )
    doctor.add_argument("study", metavar="STUDY", nargs="?", help="also look at what this study needs")
    change_options(doctor)
    best_option(doctor)
    splits_option(doctor)


def why_option(plan: argparse.ArgumentParser) -> None:
    """What has changed since a study was run."""
    plan.add_argument("--why", action="store_true", help="print instead why cells must be trained, a line for a cause")


def smoke_option(run: argparse.ArgumentParser) -> None:
    """The whole study in small."""
    run.add_argument(
        "--smoke",
        action="store_true",
        help="every cell with 32 rows and one epoch, as the study STUDY-smoke: to see that all of it trains",
    )
