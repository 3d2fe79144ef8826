"""What can be typed to take a study from one store to another: ``store archive`` and ``store restore``."""

from __future__ import annotations

import argparse

from harness.cli.options import leaf_of, told_out


def add_archive(store: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the two commands to the noun ``store``."""
    archive = leaf_of(
        store,
        "archive",
        "Write a study's manifest, records and measures into one file.",
        "store archive real-small --out real-small.tar.gz --light",
        "store:archive_study",
    )
    archive.add_argument("study", metavar="STUDY", help="a built-in study, a .toml file, or a name in the store")
    archive.add_argument(
        "--light", action="store_true", help="without weights: enough for reports and figures, not to train on"
    )
    told_out(archive, "the archive to write (default: STUDY.tar.gz)", "FILE")
    restore = leaf_of(
        store,
        "restore",
        "Check an archive and put what the store does not have of it into the store.",
        "store restore real-small.tar.gz --store runs",
        "store:restore_archive",
    )
    restore.add_argument("file", metavar="FILE", help="what store archive, or archive, has written")
