"""``store``: list, verify, archive, restore and clean what is stored."""

from __future__ import annotations

import argparse
import dataclasses
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from adapters_store import Store, StoreError
from adapters_store.archive import archive
from adapters_store.garbage import KINDS, YOUNG, Garbage, Leftover, garbage, remove
from adapters_store.listing import listing
from adapters_store.measures import measures_of
from adapters_store.restore import restore
from adapters_store.verify import Verification, verify
from harness.cli.deposit import ending
from harness.cli.options import Leaves, leaf_of
from harness.cli.study import name_of
from harness.cli.terminal import Steps, print_json, print_rows
from harness.sharing.stored import shipped_archive, shipped_store, stored_manifest
from tasks.errors import BadInput


def add(leaves: Leaves) -> None:
    """Add ``list``, ``gc`` and ``restore``."""
    text = "List what the store holds, by study, and what it could do without."
    leaf_of(leaves, "list", text, "store list", list_store, "store json")
    text = "List what nobody needs: leftovers of writers, stale checkpoints and kept results, records of no study."
    gc = leaf_of(leaves, "gc", text, "store gc --remove staging --remove packs", collect, "store json")
    kinds = f"remove what is listed of this kind: {', '.join(KINDS)} (repeatable; records are trained work)"
    gc.add_argument("--remove", metavar="KIND", action="append", default=[], choices=KINDS, help=kinds)
    text = "Check an archive and put what the store does not have of it into the store."
    example = "store restore real-small.tar.gz --store runs"
    restore = leaf_of(leaves, "restore FILE", text, example, restore_archive, "store json")
    restore.add_argument("file", metavar="FILE", help="what store archive has written")


MIB = 1 << 20


def list_store(options: argparse.Namespace) -> int:
    """Print one row per study, then one for each other kind of files."""
    rows = listing(_store(options))
    if options.json:
        print_json([dataclasses.asdict(row) for row in rows])
        return 0
    shown = [{**dataclasses.asdict(row), "planned": _or_dash(row.planned), "bytes": _size(row.bytes)} for row in rows]
    print_rows(shown, as_json=False)
    return 0


def verify_store(options: argparse.Namespace) -> int:
    """Print a line per damaged and per unknown file, then what was looked at; exit code 1 when one is damaged."""
    with Steps(quiet=options.quiet) as steps:
        result = verify(_store(options), lambda done, of: steps.show(done, of, "records"))
    if options.json:
        print_json(dataclasses.asdict(result))
    else:
        _print_verified(result)
    return 1 if result.damaged else 0


def collect(options: argparse.Namespace) -> int:
    """Print what can go and, of the kinds that the options name, remove it."""
    from analysis.kept import version_of_analysis

    store = _store(options)
    leftovers = garbage(store, version=version_of_analysis())
    removed = list(remove(store, [leftover for leftover in leftovers.leftovers if leftover.kind in options.remove]))
    rows = [_row(leftover, removed) for leftover in leftovers.leftovers]
    if options.json:
        print_json({"leftovers": rows, "young": leftovers.young, "unreadable": leftovers.unreadable})
        return 0
    print_rows(
        [{**row, "bytes": _size(leftover.bytes)} for row, leftover in zip(rows, leftovers.leftovers, strict=True)],
        as_json=False,
    )
    _print_rest(leftovers, removed)
    return 0


def _store(options: argparse.Namespace) -> Store:
    store = Store(Path(options.store))
    if not store.root.is_dir():
        raise StoreError(f"store {store.root}: no such folder; name the store with --store DIR")
    return store


def _print_verified(result: Verification) -> None:
    for line in result.damaged:
        print(f"damaged  {line}")
    for line in result.unknown:
        print(f"unknown  {line}")
    for study, keys in result.missing.items():
        if keys:
            print(f"missing  {len(keys)} cells of study {study} (--json names them); run it to train them")
    light = f" ({len(result.light)} of them light: without their weights)" if result.light else ""
    print(f"{result.records} records{light}, {result.measures} measures and {result.manifests} studies read")
    print(f"{len(result.damaged)} damaged, {len(result.unknown)} unknown files")


def _row(leftover: Leftover, removed: list[Leftover]) -> dict[str, object]:
    facts = {"kind": leftover.kind, "path": str(leftover.path), "why": leftover.why, "bytes": leftover.bytes}
    return {**facts, "hours": round(leftover.age / 3600, 1), "removed": leftover in removed}


def _print_rest(leftovers: Garbage, removed: list[Leftover]) -> None:
    if leftovers.young:
        print(f"{leftovers.young} more are younger than {YOUNG / 3600:.0f} hours: somebody may be at work on them")
    for line in leftovers.unreadable:
        print(f"no record is listed, because a study's cells are not known: {line}")
    kept = sorted({leftover.kind for leftover in leftovers.leftovers if leftover not in removed})
    if kept:
        print(f"remove them with: store gc {' '.join(f'--remove {kind}' for kind in kept)}")


def _or_dash(value: int | None) -> object:
    return "-" if value is None else value


def _size(count: int) -> str:
    return f"{count / MIB:.1f} MiB"


# ``store archive`` and ``store restore``: a study in one file, and back.


def archive_study(options: argparse.Namespace) -> int:
    """Write a study's archive, and print what is in it and what is not."""
    from harness.sharing.brief import brief_copy

    store, name = Store(Path(options.store)), name_of(options.study)
    manifest = stored_manifest(store, name)
    file = Path(options.out or f"{name}{ending(options)}")
    is_light = options.light or options.brief
    with tempfile.TemporaryDirectory() as temporary:
        if options.brief:
            store = brief_copy(store, name, measures_of(manifest), Path(temporary) / "store")
        done = archive(store, name, measures_of(manifest), file, is_light=is_light)
    size = file.stat().st_size
    if options.json:
        counts = {"records": done.records, "measures": done.measures, "missing": list(done.missing)}
        print_json({"file": str(file), "bytes": size, "is_light": is_light, **counts})
        return 0
    weights = " without weights" if is_light else ""
    print(f"{file}: {done.records} records{weights}, {done.measures} measures, {size / 1e6:.1f} MB")
    if done.missing:
        print(f"{len(done.missing)} cells of the study have no record and are not in it")
    return 0


def restore_archive(options: argparse.Namespace) -> int:
    """Put an archive into the store; exit code 1 when the store has other results for some of it."""
    store = Store(Path(options.store))
    done = restore(Path(options.file), store)
    if options.json:
        counts = {"new": done.new, "kept": done.kept, "lacking": done.lacking, "differing": done.differing}
        print_json({"study": done.study, "store": str(store.root), "is_light": done.is_light, **counts})
        return 1 if done.differing else 0
    print(f"study {done.study}: {done.new} records and measures restored, {done.kept} were in {store.root} before")
    if done.is_light:
        print(
            "its records have no weights: it can be read and drawn; cells that new ones stand on will be trained again"
        )
    if done.lacking:
        print(f"{done.lacking} records there have no weights and stay so; for those, restore into a store of its own")
    for what, fields in done.differing.items():
        print(f"differs  {what}: {', '.join(fields)}; what was there stays")
    return 1 if done.differing else 0


def compare_repetition(options: argparse.Namespace) -> int:
    """Print a row per metric of how far both trainings' scores and predictions are apart; with --json every cell."""
    from harness.sharing.repetition import by_metric, repetitions

    store = _store(options)
    with _other_store(options.other) as other:
        cells = list(repetitions(other, store))
    if not cells:
        raise BadInput(f"{options.other} has no cell that {store.root} has too; see: empathy-transfer store list")
    if options.json:
        print_json([dataclasses.asdict(cell) | {"difference": cell.difference} for cell in cells])
    else:
        print_rows(by_metric(cells), as_json=False)
    return 0


@contextmanager
def _other_store(name: str) -> Iterator[Store]:
    """The store in a folder, or one of an archive or of a shipped study."""
    path = Path(name)
    if path.is_dir():
        yield Store(path)
    elif file := shipped_archive(name):
        yield shipped_store(file, name)
    elif path.is_file():
        with tempfile.TemporaryDirectory() as folder:
            restore(path, other := Store(Path(folder) / "store"))
            yield other
    else:
        raise BadInput(f"{name}: no folder of a store, no archive, and no study whose results come with the package")
