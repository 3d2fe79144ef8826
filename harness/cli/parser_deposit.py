"""What can be typed to hand results on: ``archive`` and ``verify``."""

from __future__ import annotations

import argparse

from harness.cli.options import leaf_of, told_out


def add_deposit(nouns: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands that pack a study's results for others, and check such a pack."""
    archive = leaf_of(
        nouns,
        "archive",
        "Write a study's records without weights, tables, figures, licences and metadata into one file for others.",
        "archive demo --creator 'Family name, Given names' --licence cc-by-4.0",
        "deposit:archive_results",
    )
    archive.add_argument("study", metavar="STUDY", help="a built-in study, a .toml file, or a name in the store")
    archive.add_argument(
        "--creator",
        metavar="WHO",
        action="append",
        default=[],
        help="'Family name, Given names; affiliation; ORCID', the last two as you like (repeatable)",
    )
    archive.add_argument("--licence", metavar="ID", help="SPDX identifier of the archive's licence, e.g. cc-by-4.0")
    archive.add_argument("--title", help="default: the study's")
    archive.add_argument("--description", help="default: what the study is, in two sentences")
    told_out(archive, "the archive to write (default: STUDY-results.tar.gz)", "FILE")
    verify = leaf_of(
        nouns,
        "verify",
        "Check every byte of an archive of results, and compute all its tables anew from its records.",
        "verify demo-results.tar.gz",
        "deposit:verify_archive",
    )
    verify.epilog = f"{verify.epilog}; exit codes: 0 all is equal, 1 what differs is named, 2 no such archive"
    verify.add_argument("file", metavar="ARCHIVE", help="what archive has written")
