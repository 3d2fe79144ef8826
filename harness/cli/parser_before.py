"""What can be typed before a launch: ``doctor``, ``prefetch``, and what ``plan`` and ``run`` take for it."""

from __future__ import annotations

import argparse

from harness.cli.options import best_option, change_options, leaf_of, splits_option


def add_before(nouns: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands that make a machine ready before anything is trained on it."""
    doctor = leaf_of(
        nouns,
        "doctor",
        "Say what is here for a run, and the cure of what is not: packages, device, backbone, data, store, scheduler.",
        "doctor demo",
        "preflight:show_doctor",
    )
    doctor.add_argument("study", metavar="STUDY", nargs="?", help="also look at what this study needs")
    prefetch = leaf_of(
        nouns,
        "prefetch",
        "Bring what a study needs from the internet, so that its jobs can run without: backbone and raw files.",
        "prefetch muddy-waters --data data",
        "preflight:fetch_study",
    )
    prefetch.add_argument("study", metavar="STUDY", help="a built-in study or a .toml file")
    for leaf in (doctor, prefetch):
        change_options(leaf)
        best_option(leaf)
        splits_option(leaf)


def why_option(plan: argparse.ArgumentParser) -> None:
    """What has changed since a study was run."""
    plan.add_argument("--why", action="store_true", help="print also why cells must be trained, a line for a cause")


def smoke_option(run: argparse.ArgumentParser) -> None:
    """The whole study in small."""
    run.add_argument(
        "--smoke",
        action="store_true",
        help="every cell with 32 rows and one epoch, as the study STUDY-smoke: to see that all of it trains",
    )


def dry_run_option(run: argparse.ArgumentParser) -> None:
    """What would be submitted."""
    run.add_argument("--dry-run", action="store_true", help="print the job scripts of --engine slurm; submit nothing")
