"""The files beside a study's records in an archive: who made it, with which packages, from which ratings.

`Deposit` is what only the makers of an archive can say. `zenodo_metadata` turns it into ``.zenodo.json``, in the fields
that Zenodo documents for the metadata of a deposit; `beside` adds the package versions, ratings and a README.
"""

from __future__ import annotations

import csv
import io
import json
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib import metadata
from typing import Any

from tasks.errors import BadInput
from tasks.ratings import Rating, rating_files, ratings

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
