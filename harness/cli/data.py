"""``data``: which raw files are here, and how to get the rest."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tqdm import tqdm

from harness.cli.options import leaf_of, registry_option
from harness.cli.terminal import print_json, print_rows
from harness.raw.fetch import Watch, fetch
from harness.raw.holdings import Holding, holdings
from tasks.errors import BadInput, UnknownTask
from tasks.registry import Registry
from tasks.toml_file import nearest


def add_data(data: argparse.ArgumentParser) -> None:
    """Add ``status`` and ``fetch``."""
    leaves = data.add_subparsers(required=True, metavar="COMMAND")
    status = leaf_of(
        leaves,
        "status",
        "Show which raw files are here and verified, their licences, and how to get the rest.",
        "data status --data data",
        show_status,
    )
    fetch = leaf_of(
        leaves,
        "fetch",
        "Download the raw files that may be downloaded; say of the rest whom to ask.",
        "data fetch epitome --data data",
        fetch_data,
    )
    for leaf in (status, fetch):
        leaf.add_argument("id", metavar="ID", nargs="*", help="datasets or tasks (default: all)")
        registry_option(leaf)


def show_status(options: argparse.Namespace) -> int:
    """Print per dataset which files are here, whether they are the right ones, the licence, and how to get the rest."""
    found = _asked(options)
    if options.json:
        print_json([_as_json(one) for one in found])
        return 0
    print_rows([_row(one) for one in found], as_json=False)
    for one in found:
        _print_notes(one)
    return 0


def _print_notes(one: Holding) -> None:
    if one.missing:
        more = f" and {len(one.missing) - 1} more" if len(one.missing) > 1 else ""
        print(f"\n{one.dataset.id}: {one.missing[0]}{more} missing\n  {one.how}")
    if one.fallback:
        print(f"  until then, where the task allows it: {', '.join(one.fallback)}")
    for path, state in one.files.items():
        if state == "differs":
            print(f"\n{one.dataset.id}: {path} is not the file that its entry knows; another version, or damaged")


def fetch_data(options: argparse.Namespace) -> int:
    """Download what may be downloaded and is not here; say of the rest whom to ask. Exit code 1 when some failed."""
    failed = 0
    for one in _asked(options):
        if not one.downloads:
            if one.missing:
                print(f"{one.dataset.id}: cannot be fetched: {one.how}")
            continue
        print(f"{one.dataset.id}: {one.dataset.title}; licence: {one.dataset.licence or 'unstated'}")
        failed += not _fetch(one, Path(options.data), quiet=options.quiet)
    return 1 if failed else 0


def _fetch(holding: Holding, data: Path, *, quiet: bool) -> bool:
    """Fetch one dataset's files; a failure ends this dataset and is one line."""
    count = 0
    try:
        with progress(quiet) as watch:
            for download, is_new in fetch(holding.downloads, data, watch):
                count += 1
                if is_new:
                    print(
                        f"  {download.path}: fetched, {'verified' if _has_checksum(download) else 'no checksum known'}"
                    )
    except BadInput as problem:
        print(f"  {problem}")
        return False
    print(f"  {count} of {len(holding.downloads)} files are here")
    if holding.left_to_ask:
        print(f"  {', '.join(holding.left_to_ask)}: cannot be fetched: {holding.how}")
    return True


def _has_checksum(download: object) -> bool:
    return bool(getattr(download, "sha256", "") or getattr(download, "git_blob", ""))


@contextmanager
def progress(quiet: bool) -> Iterator[Watch]:
    """A bar on a terminal, nothing elsewhere."""
    if quiet or not sys.stderr.isatty():
        yield lambda path, received, total: None
        return
    with tqdm(unit="B", unit_scale=True, file=sys.stderr, leave=False) as bar:

        def watch(path: str, received: int, total: int) -> None:
            bar.set_description_str(Path(path).name)
            bar.total, bar.n = total or None, received
            bar.refresh()

        yield watch


def _asked(options: argparse.Namespace) -> list[Holding]:
    """Holdings of the datasets that were named, by their own id or by a task's; all without a name."""
    found = holdings(Registry.load([Path(folder) for folder in options.registry]), Path(options.data))
    names = {name: one for one in found for name in one.tasks} | {one.dataset.id: one for one in found}
    for name in options.id:
        if name not in names:
            raise UnknownTask(f"no dataset or task {name!r}{nearest(name, names)}")
    wanted = {names[name].dataset.id for name in options.id}
    return [one for one in found if not wanted or one.dataset.id in wanted]


def _row(one: Holding) -> dict[str, object]:
    counts = Counter(state for state in one.files.values() if state != "missing")
    return {
        "dataset": one.dataset.id,
        "tasks": len(one.tasks),
        "files": f"{len(one.files) - len(one.missing)}/{len(one.files)}{' (fallback)' if one.fallback else ''}",
        "checksum": ", ".join(f"{count} {state}" for state, count in sorted(counts.items())) or "-",
        "get it": "fetch" if one.is_fetchable else "in part" if one.downloads else "by hand",
        "licence": one.dataset.licence or "unstated",
    }


def _as_json(one: Holding) -> dict[str, object]:
    return {
        "dataset": one.dataset.id,
        "title": one.dataset.title,
        "tasks": list(one.tasks),
        "licence": one.dataset.licence,
        "files": dict(one.files),
        "is_here": not one.missing,
        "fallback": list(one.fallback),
        "is_fetchable": one.is_fetchable,
        "how": one.how,
    }
