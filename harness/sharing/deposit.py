"""A study's results in one file, with all that follows from its records, and such a file held against its records.

Beside the records lie the files that say what they are: who made them (`Deposit`, which becomes ``.zenodo.json`` in the
fields that Zenodo documents for a deposit), with which packages, from which ratings; and the study, its licences and
its report, which ``verify_archive`` computes anew.
"""

from __future__ import annotations

import csv
import io
import json
import platform
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adapters_store import Store, StoreError
from adapters_store.archive import GZIPPED, XZ, ArchiveSummary, archive, keys_of
from adapters_store.measures import measures_of
from adapters_store.restore import MemberReader, NotAsListed, unpack
from tasks.errors import BadInput
from tasks.ratings import Rating, rating_files, ratings

if TYPE_CHECKING:
    from analysis.sections.importance import Progress
    from analysis.sharing.recomputed import Difference

Manifest = Mapping[str, Any]

ZENODO, LOCK, README = ".zenodo.json", "environment.txt", "README.md"
REGISTRY = "registry"  # folder of the ratings that came from the user's own entries
READ_ME = """# {title}

Results of the study `{name}`, made with empathy-transfer {version}: {records} records of trainings, {weights} weights.

| file | holds |
|---|---|
| `report/` | tables (CSV), figures (PNG, SVG) and the report |
| `objects/`, `measures/`, `studies/` | the records: test predictions, settings, provenance, checksums |
| `study.toml` | the study with every field written out |
| `environment.txt` | the versions of Python and of every package that was installed |
| `LICENCES.md` | the licences of the data sets; none of their texts is in here |
| `archive.json` | sha256 and size of every file |

`empathy-transfer store verify ARCHIVE` computes every table anew from the records and compares; it needs no data, GPU
or network. `empathy-transfer store restore ARCHIVE --store DIR` puts the records into a store.
"""

ORCID = re.compile(r"(\d{4}-){3}\d{3}[\dX]")
ADDRESS = "https://orcid.org/"
LICENCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+-]*")
HOW = "write: --creator 'Family name, Given names; affiliation; ORCID', the last two as you like"


class BadMetadata(BadInput):
    """A creator or licence cannot stand in the metadata of a deposit."""


class MayNotShare(BadInput):
    """A task of the study has private data."""


@dataclass(frozen=True)
class Deposit:
    """What only the makers of an archive can say; an empty ``title`` or ``description`` is taken from the study.

    ``creators`` are texts of the form in HOW, ``licence`` is an SPDX identifier.
    """

    creators: Sequence[str]
    licence: str
    title: str = ""
    description: str = ""


def write_archive(
    store: Store,
    manifest: Manifest,
    file: Path,
    progress: Progress,
    *,
    deposit: Deposit | None = None,
    has_weights: bool = False,
) -> ArchiveSummary:
    """Write a study's records, with its report and description, into one new file.

    BadInput for a file that is there or has another ending, before anything is computed; BadMetadata and MayNotShare
    as ``beside``.
    """
    from analysis.sharing.recomputed import recompute

    if not file.name.endswith((*GZIPPED, XZ)) or file.exists():
        raise BadInput(
            f"{file}: an archive is a new {GZIPPED[0]} or {XZ}; give it a name that ends so and is not there yet"
        )
    name, measures = manifest["name"], list(measures_of(manifest))
    records = sum(key in store for key in keys_of(manifest, f"study {name}"))
    files = beside(manifest, records, deposit, has_weights=has_weights)
    with tempfile.TemporaryDirectory() as temporary:
        out = Path(temporary) / "made"
        recompute(store, manifest, out, progress, has_weights=has_weights)
        for path in sorted(out.rglob("*")):
            # Parquet is left out: the CSV beside has the same numbers, and bytes that depend on no library.
            if path.is_file() and path.suffix != ".parquet":
                files[path.relative_to(out).as_posix()] = path.read_bytes()
        return archive(store, name, measures, file, is_light=not has_weights, beside=files)


# What the makers say of it.


def beside(
    manifest: Manifest, records: int, deposit: Deposit | None = None, *, has_weights: bool = False
) -> dict[str, bytes]:
    """The files about a study with this number of records that do not follow from these, by name.

    With a ``deposit`` it is for others: MayNotShare if a task is private, BadMetadata if it does not say who made it.
    """
    facts = {"title": manifest["study"].get("title") or manifest["name"], "description": _said(manifest, records)}
    files = {LOCK: lock().encode(), **_own_ratings(manifest)}
    if deposit:
        if private := private_tasks(manifest):
            raise MayNotShare(
                f"task {private[0]} is private, and an archive holds its labels and predictions; archive a study"
                " without it: the cells of the others are in the store already"
            )
        facts = zenodo_metadata(deposit, **facts)
        files[ZENODO] = json.dumps(facts, indent=1, ensure_ascii=False).encode() + b"\n"
    said = {"title": facts["title"], "name": manifest["name"], "version": _version(), "records": records}
    return {**files, README: READ_ME.format(**said, weights="with" if has_weights else "without").encode()}


def private_tasks(manifest: Manifest) -> list[str]:
    """The tasks of a study whose data are private."""
    return [name for name, task in manifest["tasks"].items() if task.get("private", False)]


def zenodo_metadata(deposit: Deposit, title: str, description: str) -> dict[str, Any]:
    """The metadata of a deposit; BadMetadata without creators or a licence.

    It has no date: Zenodo takes that of the upload.
    """
    if not deposit.creators:
        raise BadMetadata(f"an archive is somebody's work, and nobody is named; {HOW}")
    if not LICENCE.fullmatch(deposit.licence):
        raise BadMetadata(
            f"licence {deposit.licence!r} of the archive is no SPDX identifier; choose one your data allow, for"
            " instance --licence cc-by-4.0"
        )
    return {
        "upload_type": "dataset",
        "title": deposit.title.strip() or title,
        "creators": [creator(person) for person in deposit.creators],
        "description": f"<p>{escape(deposit.description.strip() or description)}</p>",
        "access_right": "open",
        "license": deposit.licence.lower(),
        "keywords": ["empathy", "transfer learning", "adapters", "natural language processing"],
    }


def creator(person: str) -> dict[str, str]:
    """A creator in Zenodo's fields; BadMetadata unless it is a name, with an affiliation or an ORCID.

    >>> creator("Doe, Alex; University of X; 0000-0002-1825-0097")
    {'name': 'Doe, Alex', 'affiliation': 'University of X', 'orcid': '0000-0002-1825-0097'}
    """
    name, *rest = (part.strip().removeprefix(ADDRESS) for part in person.split(";"))
    family, _, first = (part.strip() for part in name.partition(","))
    about = {"orcid" if ORCID.fullmatch(part) else "affiliation": part for part in rest}
    if not (family and first) or len(about) < len(rest):
        raise BadMetadata(f"creator {person!r} is not a name with at most an affiliation and an ORCID; {HOW}")
    return {"name": f"{family}, {first}", **about}


def lock() -> str:
    """Names and versions of all installed packages, a line each, and of Python, in the format of ``pip install -r``."""
    versions = {package.metadata["Name"].lower(): package.version for package in metadata.distributions()}
    lines = [f"{name}=={version}" for name, version in sorted(versions.items()) if name != "empathy-transfer"]
    return "\n".join([f"# python {platform.python_version()}", f"# empathy-transfer {_version()}", *lines]) + "\n"


def otherwise(locked: str) -> list[str]:
    """The packages of a lock file, with their versions, that are not installed here in the same one."""
    here = set(lock().splitlines())
    return [line for line in locked.splitlines() if line not in here and not line.startswith("#")]


def _version() -> str:
    return metadata.version("empathy-transfer")


def _said(manifest: Manifest, records: int) -> str:
    texts = "made-up texts" if manifest["synthetic"] else "real texts"
    return (
        f"Records, predictions, tables and figures of a study of transfer between {len(manifest['tasks'])} tasks of"
        f" empathy in language, trained on {texts} with the encoder {manifest['study']['backbone']}: {records}"
        " trainings. Every table can be computed anew from the records."
    )


def _own_ratings(manifest: Manifest) -> dict[str, bytes]:
    """The ratings of the study's tasks from the user's own files, as one file; nothing if there are none."""
    own = ratings(rating_files(manifest["study"].get("registry", ())))[len(ratings()) :]
    rows = [rating for rating in own if rating.task in manifest["tasks"]]
    table = io.StringIO(newline="")
    csv.writer(table, lineterminator="\n").writerows([Rating._fields, *rows])
    return {f"{REGISTRY}/ratings.csv": table.getvalue().encode()} if rows else {}


# Verifying: every byte first, then all that follows from the records.


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


def verify_archive(file: Path, progress: Progress) -> VerifiedArchive:
    """Check every byte of an archive and, where it has a report, compute all that follows from its records anew.

    BadArchive if it is no archive of a study; nothing is unpacked but into a folder that is gone afterwards.
    """
    from analysis.sharing.recomputed import REPORT, Difference

    altered: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        try:
            listing, manifest = unpack(file, folder / "store", lambda member: _keep(folder, member), altered)
        except NotAsListed as problem:
            return VerifiedArchive(differences=[Difference(str(problem), "", "")])
        named = [Difference(line + _cell(name, manifest), "", "") for name, line in altered.items()]
        outcome = VerifiedArchive(listing.study, differences=named)
        if altered:
            return outcome  # tables from damaged records would say nothing
        outcome.records = len(Store(folder / "store").keys())
        if (folder / "kept" / REPORT).is_dir():
            try:
                _compare(outcome, folder, manifest, progress, has_weights=not listing.is_light)
            except (BadInput, StoreError) as problem:  # records that fit the list and not each other
                what = str(problem).replace(f"{folder / 'store'}/", "").partition(";")[0]
                outcome.differences.append(Difference(what, "", ""))
        return outcome


def _keep(folder: Path, member: MemberReader) -> None:
    """Put a file that goes into no store under the folder, apart from the others what follows from records."""
    from analysis.sharing.recomputed import LICENCES, REPORT, STUDY

    follows = member.name.partition("/")[0] in (LICENCES, REPORT, STUDY)
    path = folder / ("kept" if follows else "beside") / member.name
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("xb") as out:
        out.writelines(member.chunks())


def _cell(member: str, manifest: Manifest) -> str:
    """Which cell of the study a member belongs to, in brackets; empty if none."""
    kind, _, rest = member.partition("/")
    cell = next((cell for cell in manifest.get("cells", ()) if cell["key"] == rest.partition("/")[0]), None)
    if kind != "objects" or cell is None:
        return ""
    on = f"{cell['intermediate']} -> " if cell.get("intermediate") else ""
    return f" ({on}{cell.get('target')}, seed {cell.get('seed')}, {cell.get('setting')})"


def _compare(
    outcome: VerifiedArchive, folder: Path, manifest: dict[str, Any], progress: Progress, *, has_weights: bool
) -> None:
    """Compute everything anew from the unpacked store, and add what is other than what was kept."""
    from analysis.importance.specification import Primary
    from analysis.sections.study_results import Snapshot
    from analysis.sharing.recomputed import compared, recompute
    from harness.study.manifest import check_manifest

    check_manifest(manifest, "the archive")
    own, lock_file = folder / "beside" / REGISTRY, folder / "beside" / LOCK
    registry, store = [str(own)] if own.is_dir() else [], Store(folder / "store")
    from_records = Snapshot(store.root, keeps=False)
    recompute(from_records, manifest, folder / "made", progress, registry=registry, has_weights=has_weights)
    comparison = compared(folder / "kept", folder / "made")
    outcome.tables, outcome.numbers = comparison.tables, comparison.numbers
    outcome.differences += comparison.differences
    outcome.declared = Primary.of(manifest, store).line()
    if lock_file.is_file():
        outcome.versions = otherwise(lock_file.read_text(encoding="utf-8", errors="replace"))
