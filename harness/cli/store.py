"""``store``: list, verify, archive, restore and clean what is stored."""

from __future__ import annotations

import argparse
import dataclasses
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adapters_store import Store, StoreError
from adapters_store.archive import GZIPPED, XZ, ArchiveSummary, archive
from adapters_store.listing import KINDS, YOUNG, garbage, keys_of, listing, remove, verify
from adapters_store.measures import measures_of
from adapters_store.restore import MemberReader, NotAsListed, restore, unpack
from harness.cli.options import Leaves, leaf_of, out_option, repeatable
from harness.cli.study import name_of
from harness.cli.terminal import Steps, print_json, print_rows
from harness.sharing.stored import shipped_archive, stored_manifest
from tasks.errors import BadInput

if TYPE_CHECKING:
    from analysis.sharing import Difference


def add(leaves: Leaves) -> None:
    """Add ``list``, ``gc``, ``archive``, ``verify`` and ``restore``."""
    leaf_of(leaves, "list", list_store, "store list", "store json")
    gc = leaf_of(leaves, "gc", collect, "store gc --remove staging --remove packs", "store json")
    kinds = f"remove what is listed of this kind: {', '.join(KINDS)} (repeatable; records are trained work)"
    gc.add_argument("--remove", metavar="KIND", action="append", default=[], choices=KINDS, help=kinds)
    example = "store archive demo --creator 'Family name, Given names' --licence cc-by-4.0"
    study = "a built-in study, a .toml file, or a name in the store"
    archive = leaf_of(leaves, "archive STUDY", archive_study, example, "store json quiet", study)
    archive.add_argument("--weights", action="store_true", help="with adapters and heads, to train further cells on")
    repeatable(archive, "--creator", "WHO", "'Family name, Given names; affiliation; ORCID', the last two as you like")
    archive.add_argument("--licence", metavar="ID", help="SPDX identifier of the archive's licence, e.g. cc-by-4.0")
    archive.add_argument("--title", help="default: the study's")
    archive.add_argument("--description", help="default: what the study is, in two sentences")
    out_option(archive, "the archive to write (default: STUDY-results.tar.xz, with --weights .tar.gz)", "FILE")
    example = "store verify demo-results.tar.xz; exit codes: 0 all is well, 1 what is not is named, 2 nothing to verify"
    verify = leaf_of(leaves, "verify [ARCHIVE]", verify_stored, example, "store json quiet")
    file = "what store archive has written, or a study whose results come with this package (default: the store)"
    verify.add_argument("archive", metavar="ARCHIVE", nargs="?", help=file)
    example = "store restore real-small-results.tar.xz --store runs"
    restore = leaf_of(leaves, "restore FILE", restore_archive, example, "store json")
    restore.add_argument("file", metavar="FILE", help="what store archive has written")


MIB = 1 << 20
MOST_SHOWN = 20  # differences of an archive


def list_store(options: argparse.Namespace) -> int:
    """List what the store holds, by study, and what it could do without."""
    rows = listing(_store(options))
    if options.json:
        print_json([dataclasses.asdict(row) for row in rows])
        return 0
    shown = [
        {**dataclasses.asdict(row), "planned": "-" if row.planned is None else row.planned, "bytes": _size(row.bytes)}
        for row in rows
    ]
    print_rows(shown)
    return 0


def verify_stored(options: argparse.Namespace) -> int:
    """Check every byte of the store, or of an archive and then compute its tables anew from its records.

    Exit code 1 if anything is damaged or differs.
    """
    if options.archive:
        return _verify_archive(options)
    with Steps(quiet=options.quiet) as steps:
        result = verify(_store(options), lambda done, of: steps.step(done, of, "records"))
    if options.json:
        print_json(dataclasses.asdict(result))
    else:
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
    return 1 if result.damaged else 0


def collect(options: argparse.Namespace) -> int:
    """List what nobody needs: leftovers of writers, stale checkpoints and kept results, records of no study."""
    from analysis.kept import version_of_analysis

    store = _store(options)
    leftovers = garbage(store, version=version_of_analysis())
    removed = list(remove(store, [leftover for leftover in leftovers.leftovers if leftover.kind in options.remove]))
    rows: list[dict[str, Any]] = [
        {
            **{"kind": leftover.kind, "path": str(leftover.path), "why": leftover.why, "bytes": leftover.bytes},
            **{"hours": round(leftover.age / 3600, 1), "removed": leftover in removed},
        }
        for leftover in leftovers.leftovers
    ]
    if options.json:
        print_json({"leftovers": rows, "young": leftovers.young, "unreadable": leftovers.unreadable})
        return 0
    print_rows([{**row, "bytes": _size(row["bytes"])} for row in rows])
    if leftovers.young:
        print(f"{leftovers.young} more are younger than {YOUNG / 3600:.0f} hours: somebody may be at work on them")
    for line in leftovers.unreadable:
        print(f"no record is listed, because a study's cells are not known: {line}")
    kept = sorted({leftover.kind for leftover in leftovers.leftovers if leftover not in removed})
    if kept:
        print(f"remove them with: store gc {' '.join(f'--remove {kind}' for kind in kept)}")
    return 0


def _store(options: argparse.Namespace) -> Store:
    store = Store(Path(options.store))
    if not store.root.is_dir():
        raise StoreError(f"store {store.root}: no such folder; name the store with --store DIR")
    return store


def _size(count: int) -> str:
    return f"{count / MIB:.1f} MiB"


# A study in one file, and back.


def archive_study(options: argparse.Namespace) -> int:
    """Write a study's records, tables, figures, licences and, with --creator, metadata into one file."""
    from harness.sharing.outgoing import private_tasks

    store, name = Store(Path(options.store)), name_of(options.study)
    manifest = stored_manifest(store, name)
    file = Path(options.out or f"{name}-results{'.tar.gz' if options.weights else '.tar.xz'}")
    done = _write_archive(options, store, manifest, file)
    size = file.stat().st_size
    if options.json:
        facts = {"file": str(file), "bytes": size, "is_light": not options.weights}
        print_json(facts | dataclasses.asdict(done))
        return 0
    weights = "with" if options.weights else "without"
    print(
        f"{file}: {done.records} records {weights} weights, {done.measures} measures, {done.beside} files beside them"
    )
    print(f"{size / 1e6:.1f} MB; look at its LICENCES.md before you pass it on (docs/figures.md)")
    if done.missing:
        print(f"{len(done.missing)} cells of the study have no record and are not in it")
    if private := private_tasks(manifest):
        print(f"not for others: the data of {', '.join(private)} are private, and their labels and predictions in it")
    return 0


def _write_archive(options: argparse.Namespace, store: Store, manifest: dict[str, Any], file: Path) -> ArchiveSummary:
    """Write a study's records, with all that follows from them, into a new file; BadInput before minutes are spent."""
    from analysis.sharing import ENDINGS, recompute
    from harness.sharing.outgoing import Deposit, extra_files

    if file.exists():
        raise BadInput(f"{file} is there already and is not replaced; move it away, or name another by --out")
    if not file.name.endswith((*GZIPPED, XZ)):
        raise BadInput(f"{file}: the name of an archive ends in {GZIPPED[0]} or {XZ}; name such a file by --out")
    name, has_weights = manifest["name"], options.weights
    metadata = options.creator, options.licence or "", options.title or "", options.description or ""
    records = sum(key in store for key in keys_of(manifest, f"study {name}"))
    files = extra_files(manifest, records, Deposit(*metadata) if any(metadata) else None, has_weights=has_weights)
    with tempfile.TemporaryDirectory() as temporary, Steps(quiet=options.quiet) as steps:
        out = Path(temporary) / "made"
        shown = store
        if not has_weights:  # tables are those of the records as the archive has them: some say what weights alone tell
            shown, light = Store(Path(temporary) / "light"), Path(temporary) / f"light{GZIPPED[0]}"
            archive(store, name, measures_of(manifest), light, is_light=True)
            restore(light, shown)
        recompute(shown, manifest, out, steps.step, has_weights=has_weights)
        for path in sorted(out.rglob("*")):
            # Parquet is left out: the CSV beside has the same numbers, and bytes that depend on no library. Without
            # weights pictures and the page are, too: figures and report draw them from the records.
            if path.is_file() and path.suffix != ".parquet" and (has_weights or path.suffix in ENDINGS):
                files[path.relative_to(out).as_posix()] = path.read_bytes()
        return archive(shown, name, measures_of(manifest), file, is_light=not has_weights, extras=files)


def _verify_archive(options: argparse.Namespace) -> int:
    """Check an archive, by the name of its file or of a shipped study, and print what differs."""
    file = Path(options.archive)
    if not file.exists():
        file = shipped_archive(options.archive) or file
        if not file.exists() and options.archive in Store(Path(options.store)).manifests():
            raise BadInput(
                f"{file} is a study of {options.store}, not an archive; without a name `store verify` checks the whole"
                f" store, and `store archive {file}` writes the study's archive"
            )
    with Steps(quiet=options.quiet) as steps:
        outcome = _verify(file, steps)
    if options.json:
        apart = [difference._asdict() for difference in outcome.differences]
        print_json({"file": str(file), **vars(outcome), "differences": apart})
    else:
        for where, kept, rebuilt in outcome.differences[:MOST_SHOWN]:
            print(f"differs  {where}" + (f": archive {kept!r}, found {rebuilt!r}" if kept != rebuilt else ""))
        if (rest := len(outcome.differences) - MOST_SHOWN) > 0:
            print(f"and {rest} more differences (--json lists all)")
        if outcome.tables:
            counted = f"{outcome.tables} tables with {outcome.numbers:,} numbers"
            print(f"{file}: study {outcome.study}, {counted} computed anew from {outcome.records} records")
            print("all equal after their printed rounding" if not outcome.differences else "not equal")
            print(outcome.declared)
        elif outcome.differences:
            print("no table was computed anew: what is in it is not whole")
        else:
            print(f"{file}: study {outcome.study}, every byte of {outcome.records} records as listed; it has no tables")
        if outcome.versions:
            print(f"made with other versions: {', '.join(outcome.versions)}")
    return 1 if outcome.differences else 0


@dataclass
class VerifiedArchive:
    """What verifying an archive came to: differences that are named, and what was compared."""

    study: str = ""
    records: int = 0
    tables: int = 0
    numbers: int = 0
    differences: list[Difference] = field(default_factory=list)
    declared: str = ""
    versions: list[str] = field(default_factory=list)


def _verify(file: Path, steps: Steps) -> VerifiedArchive:
    """Check every byte of an archive and, where it has a report, compute all that follows from its records anew.

    BadArchive if it is no archive of a study; nothing is unpacked but into a folder that is gone afterwards.
    """
    from analysis.sharing import LICENCES, REPORT, STUDY, Difference

    altered: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)

        def keep(member: MemberReader) -> None:  # which goes into no store; what follows from records lies apart
            follows = member.name.partition("/")[0] in (LICENCES, REPORT, STUDY)
            path = folder / ("kept" if follows else "beside") / member.name
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("xb") as out:
                out.writelines(member.chunks())

        try:
            listing, manifest = unpack(file, folder / "store", keep, altered)
        except NotAsListed as problem:
            return VerifiedArchive(differences=[Difference(str(problem), "", "")])
        named = [Difference(line + _cell(name, manifest), "", "") for name, line in altered.items()]
        outcome = VerifiedArchive(listing.study, differences=named)
        if altered:
            return outcome  # tables from damaged records would say nothing
        outcome.records = len(Store(folder / "store").keys())
        if (folder / "kept" / REPORT).is_dir():
            try:
                _compare(outcome, folder, manifest, steps, has_weights=not listing.is_light)
            except (BadInput, StoreError) as problem:  # records that fit the list and not each other
                reason = str(problem).replace(f"{folder / 'store'}/", "").partition(";")[0]
                outcome.differences.append(Difference(reason, "", ""))
        return outcome


def _cell(member: str, manifest: dict[str, Any]) -> str:
    """Which cell of the study a member belongs to, in brackets; empty if none."""
    kind, _, rest = member.partition("/")
    cell = next((cell for cell in manifest.get("cells", ()) if cell["key"] == rest.partition("/")[0]), None)
    if kind != "objects" or cell is None:
        return ""
    on = f"{cell['intermediate']} -> " if cell.get("intermediate") else ""
    return f" ({on}{cell.get('target')}, seed {cell.get('seed')}, {cell.get('setting')})"


def _compare(
    outcome: VerifiedArchive, folder: Path, manifest: dict[str, Any], steps: Steps, *, has_weights: bool
) -> None:
    """Compute everything anew from the unpacked store, and add what is other than what was kept."""
    from analysis.gains.cells import Snapshot
    from analysis.importance.grid import Primary
    from analysis.sharing import compared, recompute
    from harness.sharing.outgoing import LOCK, REGISTRY, otherwise
    from harness.study.manifest import check_manifest

    check_manifest(manifest, "the archive")
    entries, lock_file = folder / "beside" / REGISTRY, folder / "beside" / LOCK
    registry, store = [str(entries)] if entries.is_dir() else [], Store(folder / "store")
    from_records = Snapshot(store.root, keeps=False)
    recompute(from_records, manifest, folder / "made", steps.step, registry=registry, has_weights=has_weights)
    comparison = compared(folder / "kept", folder / "made")
    outcome.tables, outcome.numbers = comparison.tables, comparison.numbers
    outcome.differences += comparison.differences
    outcome.declared = Primary.of(manifest, store).line()
    if lock_file.is_file():
        outcome.versions = otherwise(lock_file.read_text(encoding="utf-8", errors="replace"))


def restore_archive(options: argparse.Namespace) -> int:
    """Check an archive and put what the store does not have of it into the store.

    Exit code 1 when the store has other results for some of it.
    """
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
    for name, fields in done.differing.items():
        print(f"differs  {name}: {', '.join(fields)}; what was there stays")
    return 1 if done.differing else 0
