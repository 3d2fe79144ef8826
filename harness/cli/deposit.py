"""``archive`` and ``verify``: a study's results in one file for others, and every table in it computed anew."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from adapters_store import Store, StoreError
from adapters_store.archive import GZIPPED, KINDS, XZ, archive, keys_of
from adapters_store.measures import measures_of
from adapters_store.restore import BITE_BYTES, Inspection, MemberReader, NotAsListed, inspect_archive, restore
from harness.cli.options import leaf_options, out_option
from harness.cli.study import name_of
from harness.cli.terminal import Steps, print_json
from harness.sharing.deposit import LOCK, REGISTRY, STUDY, Deposit, beside, otherwise, study_file
from harness.sharing.stored import shipped_archive, stored_manifest
from tasks.errors import BadInput

if TYPE_CHECKING:
    from analysis.sharing.recomputed import Difference


def add_archive(archive: argparse.ArgumentParser) -> None:
    """Add the options of ``archive``."""
    leaf_options(archive, "archive demo --creator 'Family name, Given names' --licence cc-by-4.0", archive_results)
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
    brief_option(archive)
    out_option(archive, "the archive to write (default: STUDY-results.tar.gz, with --brief .tar.xz)", "FILE")


def add_verify(verify: argparse.ArgumentParser) -> None:
    """Add the options of ``verify``."""
    leaf_options(verify, "verify demo-results.tar.gz", verify_archive)
    verify.epilog = f"{verify.epilog}; exit codes: 0 all is equal, 1 what differs is named, 2 no such archive"
    verify.add_argument(
        "file", metavar="ARCHIVE", help="what archive has written, or a study whose results come with this package"
    )


Adder: TypeAlias = "argparse.ArgumentParser | argparse._MutuallyExclusiveGroup"


def brief_option(leaf: Adder) -> None:
    """Whether what no table is computed from is left out."""
    leaf.add_argument(
        "--brief",
        action="store_true",
        help="without weights, validation predictions and figures, logits of classes rounded: a tenth of the size",
    )


REPORT, LICENCES = "report", "LICENCES.md"
MOST_SHOWN = 20


class NoResults(BadInput):
    """An archive of a study has no report, so that there is nothing to compare."""


def ending(options: argparse.Namespace) -> str:
    """What an archive's name ends with unless another is given: the packing that is worth its time."""
    return XZ if options.brief else GZIPPED[0]


def archive_results(options: argparse.Namespace) -> int:
    """Write a study's records, report and description into one file, and print what is in it."""
    from analysis.manuscript.licences import licences_page
    from analysis.sharing.recomputed import ENDINGS, recompute
    from harness.sharing.brief import brief_copy

    store, name = Store(Path(options.store)), name_of(options.study)
    manifest = stored_manifest(store, name)
    file = Path(options.out or f"{name}-results{ending(options)}")
    if not file.name.endswith((*GZIPPED, XZ)) or file.exists():  # said before minutes are spent on tables
        raise BadInput(
            f"{file}: an archive is a new {GZIPPED[0]} or {XZ}; give it a name that ends so and is not there yet"
        )
    deposit = Deposit(options.creator, options.licence or "", options.title or "", options.description or "")
    records = sum(key in store for key in keys_of(manifest, f"study {name}"))
    files = beside(manifest, deposit, records, is_brief=options.brief)
    files |= {LICENCES: licences_page(manifest).encode()}
    with tempfile.TemporaryDirectory() as temporary, Steps(quiet=options.quiet) as steps:
        out = Path(temporary) / REPORT
        source = brief_copy(store, name, measures_of(manifest), out.with_name("store")) if options.brief else store
        for path in recompute(source, manifest, out, steps.show):
            if not options.brief or path.suffix in ENDINGS:
                files[f"{REPORT}/{path.relative_to(out).as_posix()}"] = path.read_bytes()
        done = archive(source, name, measures_of(manifest), file, is_light=True, beside=files)
    if options.json:
        summary = {"file": str(file), "bytes": file.stat().st_size, "records": done.records, "measures": done.measures}
        print_json(summary | {"files": len(files), "missing": list(done.missing)})
        return 0
    print(f"{file}: {done.records} records without weights, {done.measures} measures, {len(files)} files beside them")
    print(f"{file.stat().st_size / 1e6:.1f} MB; look at its {LICENCES} before you pass it on (docs/figures.md)")
    if done.missing:
        print(f"{len(done.missing)} cells of the study have no record and are not in it")
    return 0


@dataclass
class Verification:
    """What verifying an archive found: differences that are named, and what was compared."""

    study: str = ""
    records: int = 0
    tables: int = 0
    numbers: int = 0
    differences: list[Difference] = field(default_factory=list)
    declared: str = ""
    versions: list[str] = field(default_factory=list)


def verify_archive(options: argparse.Namespace) -> int:
    """Check every byte of an archive and compute its tables anew; 0 if all is equal, 1 if anything differs."""
    from analysis.sharing.recomputed import Difference

    file = Path(options.file)
    if not file.exists():
        file = shipped_archive(options.file) or file
    with Steps(quiet=options.quiet) as steps, tempfile.TemporaryDirectory() as temporary:
        try:
            outcome = _verify(file, Path(temporary), steps)
        except NotAsListed as problem:
            outcome = Verification(differences=[Difference(str(problem), "", "")])
    if options.json:
        print_json(_as_json(file, outcome))
    else:
        _print(file, outcome)
    return 1 if outcome.differences else 0


def _verify(file: Path, folder: Path, steps: Steps) -> Verification:
    from analysis.sharing.recomputed import Difference

    inspection = inspect_archive(file)
    if not any(name.startswith(f"{REPORT}/") for name in inspection.listing.members):
        raise NoResults(f"{file}: an archive without a report; `store restore` checks it, `report` makes its tables")
    outcome = Verification(inspection.listing.study, differences=list(_altered_members(inspection)))
    if any(member.name.partition("/")[0] in KINDS for member in inspection.altered):
        return outcome  # tables from damaged records would say nothing
    kept = folder / "kept"
    try:
        restore(file, Store(folder / "store"), lambda member: _keep(kept, member))
        _compare(outcome, folder, steps)
    except (BadInput, StoreError) as problem:  # records that fit the list and not each other
        what = str(problem).replace(f"{folder / 'store'}/", "").partition(";")[0]
        outcome.differences.append(Difference(what, "", ""))
    return outcome


def _compare(outcome: Verification, folder: Path, steps: Steps) -> None:
    """Compute everything anew from the restored store, and add what is other than what was kept."""
    from analysis.importance.specification import Primary
    from analysis.sections.study_results import Snapshot
    from analysis.sharing.recomputed import compared, recompute
    from harness.study.manifest import check_manifest

    store, kept = Store(folder / "store"), folder / "kept"
    manifest = store.manifest(outcome.study)
    check_manifest(manifest, "the archive")
    outcome.differences += _descriptions_apart(manifest, kept)
    manifest["study"]["registry"] = [str(kept / REGISTRY)] if (kept / REGISTRY).is_dir() else []
    recompute(Snapshot(store.root, keeps=False), manifest, folder / "made", steps.show)  # from records alone
    comparison = compared(kept / REPORT, folder / "made")
    outcome.records, outcome.tables, outcome.numbers = len(store.keys()), comparison.tables, comparison.numbers
    outcome.differences += comparison.differences
    outcome.declared = Primary.of(manifest, store).line()
    lock = kept / LOCK
    outcome.versions = otherwise(lock.read_text(encoding="utf-8", errors="replace")) if lock.is_file() else []


def _altered_members(inspection: Inspection) -> Iterator[Difference]:
    from analysis.sharing.recomputed import Difference

    for member in inspection.altered:
        yield Difference(inspection.describe(member.name), f"sha256 {member.listed}", f"sha256 {member.actual}")


def _keep(folder: Path, member: MemberReader) -> None:
    """Put a file that goes into no store under the folder, altered or not; its name was checked."""
    path = folder / member.name
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("xb") as out:
        while chunk := member.content.read(BITE_BYTES):
            out.write(chunk)


def _descriptions_apart(manifest: Mapping[str, Any], kept: Path) -> Iterator[Difference]:
    """What differs in the files that follow from the manifest alone."""
    from analysis.manuscript.licences import licences_page
    from analysis.sharing.recomputed import Difference, lines_apart

    for name, made in ((STUDY, study_file(manifest["study"])), (LICENCES, licences_page(manifest))):
        there = (kept / name).read_text(encoding="utf-8", errors="replace") if (kept / name).is_file() else ""
        for where, kept_line, made_line in lines_apart(there, made):
            yield Difference(f"{name}, {where}", kept_line, made_line)


def _as_json(file: Path, outcome: Verification) -> dict[str, Any]:
    counts = {"records": outcome.records, "tables": outcome.tables, "numbers": outcome.numbers}
    apart = [difference._asdict() for difference in outcome.differences]
    facts = {"differences": apart, "declared": outcome.declared, "versions": outcome.versions}
    return {"file": str(file), "study": outcome.study, **counts, **facts}


def _print(file: Path, outcome: Verification) -> None:
    for difference in outcome.differences[:MOST_SHOWN]:
        values = (
            f": archive {difference.kept!r}, found {difference.rebuilt!r}"
            if difference.kept != difference.rebuilt
            else ""
        )
        print(f"differs  {difference.where}{values}")
    if (rest := len(outcome.differences) - MOST_SHOWN) > 0:
        print(f"and {rest} more differences (--json lists all)")
    if not outcome.records:
        print("no table was computed anew: the records are not whole")
        return
    counted = f"{outcome.tables} tables with {outcome.numbers:,} numbers"
    print(f"{file}: study {outcome.study}, {counted} computed anew from {outcome.records} records")
    print("all equal after their printed rounding" if not outcome.differences else "not equal")
    print(outcome.declared)
    if outcome.versions:
        print(f"made with other versions: {', '.join(outcome.versions)}")
