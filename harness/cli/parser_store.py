"""What can be typed about the store itself: ``store ls``, ``store verify`` and ``store gc``."""

from __future__ import annotations

import argparse

from adapters_store.garbage import KINDS
from harness.cli.parser_archive import add_archive
from harness.cli.parser_leaf import leaf_of


def add_store(nouns: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands that look after what is stored."""
    store = nouns.add_parser("store", help="what is stored").add_subparsers(required=True, metavar="COMMAND")
    leaf_of(store, "ls", "List what the store holds, by study, and what it could do without.", "store ls", "store:ls")
    leaf_of(
        store,
        "verify",
        "Read every stored byte and name each file that is not as it was written; exit code 1 if there is one.",
        "store verify --store runs",
        "store:verify_store",
    )
    add_archive(store)
    gc = leaf_of(
        store,
        "gc",
        "List what nobody needs: leftovers of writers that are gone, stale checkpoints, records of no study.",
        "store gc --remove staging --remove packs",
        "store:collect",
    )
    gc.add_argument(
        "--remove",
        metavar="KIND",
        action="append",
        default=[],
        choices=KINDS,
        help=f"remove what is listed of this kind: {', '.join(KINDS)} (repeatable; records are trained work)",
    )
