"""``data``: which raw files are here, and how to get the rest."""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from harness.cli.options import Leaves, add_options, leaf_of
from harness.cli.terminal import downloads, print_json, print_rows
from tasks.errors import BadInput, UnknownTask
from tasks.plain_text import nearest
from tasks.registry import Registry

if TYPE_CHECKING:
    from harness.raw.holdings import Holding


def add(leaves: Leaves) -> None:
    """Add ``status`` and ``fetch``."""
    status = leaf_of(leaves, "status [NAME ...]", show_status, "data status --data data", "data json")
    fetch = leaf_of(leaves, "fetch [NAME ...]", fetch_data, "data fetch epitome --data data", "data quiet")
    for leaf in (status, fetch):
        leaf.add_argument("id", metavar="NAME", nargs="*", help="datasets or tasks (default: all)")
        add_options(leaf, "registry")


def show_status(options: argparse.Namespace) -> int:
    """Show which raw files are here and verified, their licences, and how to get the rest."""
    wanted = _wanted_holdings(options)
    if options.json:
        names = ("tasks", "files", "fallback", "is_fetchable", "how")
        print_json(
            [
                {"dataset": holding.dataset.id, "title": holding.dataset.title, "licence": holding.dataset.licence}
                | {name: getattr(holding, name) for name in names}
                | {"is_here": not holding.missing}
                for holding in wanted
            ]
        )
        return 0
    print_rows([_row(holding) for holding in wanted])
    for holding in wanted:
        if holding.missing:
            more = f" and {len(holding.missing) - 1} more" if len(holding.missing) > 1 else ""
            print(f"\n{holding.dataset.id}: {holding.missing[0]}{more} missing\n  {holding.how}")
        if holding.fallback:
            print(f"  until then, where the task allows it: {', '.join(holding.fallback)}")
        for path, state in holding.files.items():
            if state == "differs":
                print(
                    f"\n{holding.dataset.id}: {path} is not the file that its entry knows; another version, or damaged"
                )
    return 0


def fetch_data(options: argparse.Namespace) -> int:
    """Download the raw files that may be downloaded; say of the rest whom to ask.

    Exit code 1 when some failed.
    """
    failed = 0
    for holding in _wanted_holdings(options):
        if not holding.downloads:
            if holding.missing:
                print(f"{holding.dataset.id}: cannot be fetched: {holding.how}")
            continue
        print(f"{holding.dataset.id}: {holding.dataset.title}; licence: {holding.dataset.licence or 'unstated'}")
        failed += not _fetch(holding, Path(options.data), quiet=options.quiet)
    return 1 if failed else 0


def _fetch(holding: Holding, data: Path, *, quiet: bool) -> bool:
    """Fetch a dataset's files; whether all were fetched. A failure prints one line and ends this dataset."""
    from harness.raw.fetch import fetch

    count = 0
    try:
        with downloads(quiet) as watch:
            for download, is_new in fetch(holding.downloads, data, watch):
                count += 1
                if is_new:
                    is_verified = download.sha256 or download.git_blob
                    print(f"  {download.path}: fetched, {'verified' if is_verified else 'no checksum known'}")
    except BadInput as problem:
        print(f"  {problem}")
        return False
    print(f"  {count} of {len(holding.downloads)} files are here")
    if holding.left_to_ask:
        print(f"  {', '.join(holding.left_to_ask)}: cannot be fetched: {holding.how}")
    return True


def _wanted_holdings(options: argparse.Namespace) -> list[Holding]:
    """Holdings of the datasets that were named, by their own id or by a task's; all without a name."""
    from harness.raw.holdings import holdings

    everything = holdings(Registry.load([Path(folder) for folder in options.registry]), Path(options.data))
    names = {name: holding for holding in everything for name in holding.tasks} | {
        holding.dataset.id: holding for holding in everything
    }
    for name in options.id:
        if name not in names:
            raise UnknownTask(f"no dataset or task {name!r}{nearest(name, names)}")
    wanted = {names[name].dataset.id for name in options.id}
    return [holding for holding in everything if not wanted or holding.dataset.id in wanted]


def _row(holding: Holding) -> dict[str, object]:
    counts = Counter(state for state in holding.files.values() if state != "missing")
    n_files = len(holding.files)
    return {
        "dataset": holding.dataset.id,
        "tasks": len(holding.tasks),
        "files": f"{n_files - len(holding.missing)}/{n_files}{' (fallback)' if holding.fallback else ''}",
        "checksum": ", ".join(f"{count} {state}" for state, count in sorted(counts.items())) or "-",
        "get it": "fetch" if holding.is_fetchable else "in part" if holding.downloads else "by hand",
        "licence": holding.dataset.licence or "unstated",
    }
