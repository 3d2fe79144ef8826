"""What can be typed about the store itself: ``store ls``, ``verify``, ``gc`` and ``migrate``."""

from __future__ import annotations

import argparse

from adapters_store.garbage import KINDS
from harness.cli.options import leaf_of
from harness.cli.parser_archive import add_archive


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
    migrate = leaf_of(
        store,
        "migrate",
        "Give records with keys of an earlier schema their keys of today, by aliases: nothing is moved or trained.",
        "store migrate --store runs --backbone models/my-roberta",
        "store:migrate",
    )
    migrate.add_argument(
        "--backbone",
        metavar="NAME",
        action="append",
        default=[],
        help="a folder (or id of a hub) whose weights records were trained on, where no study names it (repeatable)",
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
