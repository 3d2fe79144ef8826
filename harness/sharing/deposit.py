"""The files beside a study's records in an archive for others: who made it, with which packages, from which ratings.

`Deposit` is what only the makers of an archive can say. `zenodo_metadata` turns it into ``.zenodo.json``, in the fields
that Zenodo documents for the metadata of a deposit; `beside` adds the study, the package versions and a README.
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
from tasks.proposal import entry_text
from tasks.ratings import Rating, rating_files, ratings

Manifest = Mapping[str, Any]

ZENODO, STUDY, LOCK, README = ".zenodo.json", "study.toml", "environment.txt", "README.md"
REGISTRY = "registry"  # folder of the ratings that came from the user's own entries
WHOLE = "tables (CSV), figures (PNG, SVG) and the report", "test and validation predictions"
BRIEF = "tables (CSV) and the report", "test predictions, logits of classes rounded to 1/1024"
READ_ME = """# {title}

Results of the study `{name}`, made with empathy-transfer {version}: {records} records of trainings, without weights.

| file | holds |
|---|---|
| `report/` | {report} |
| `objects/`, `measures/`, `studies/` | the records: {predictions}, settings, provenance, checksums |
| `study.toml` | the study with every field written out |
| `environment.txt` | the versions of Python and of every package that was installed |
| `LICENCES.md` | the licences of the data sets; none of their texts is in here |
| `archive.json` | sha256 and size of every file |

`empathy-transfer store verify ARCHIVE` computes every table anew from the records and compares; it needs no data, GPU
or network. `empathy-transfer store restore ARCHIVE --store DIR` puts the records into a store.
"""

ORCID = re.compile(r"(\d{4}-){3}\d{3}[\dX]")
NUMBER = re.compile(r"[\dXx -]+")
ADDRESS = "https://orcid.org/"
LICENCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+-]*")
PLACEHOLDERS = {"todo", "tbd", "tba", "fixme", "family", "name", "lastname", "surname", "author", "anonymous"}
INVENTED = {("doe", "jane"), ("doe", "john")}
HOW = "write: --creator 'Family name, Given names; affiliation; ORCID', the last two as you like"


class BadMetadata(BadInput):
    """A title, creator or licence cannot stand in the metadata of a deposit."""


@dataclass(frozen=True)
class Deposit:
    """What only the makers of an archive can say; an empty ``title`` or ``description`` is taken from the study.

    ``creators`` are texts of the form in HOW, ``licence`` is an SPDX identifier.
    """

    creators: Sequence[str]
    licence: str
    title: str = ""
    description: str = ""


def zenodo_metadata(deposit: Deposit, title: str, description: str) -> dict[str, Any]:
    """The metadata of a deposit; BadMetadata without creators or a licence, or where they are placeholders.

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
        "title": _text(deposit.title or title, "title"),
        "creators": [creator(person) for person in deposit.creators],
        "description": f"<p>{escape(_text(deposit.description or description, 'description'))}</p>",
        "access_right": "open",
        "license": deposit.licence.lower(),
        "keywords": ["empathy", "transfer learning", "adapters", "natural language processing"],
    }


def creator(person: str) -> dict[str, str]:
    """A creator in Zenodo's fields; BadMetadata unless it is a name, with an affiliation or a possible ORCID.

    >>> creator("Doe, Alex; University of X; 0000-0002-1825-0097")
    {'name': 'Doe, Alex', 'affiliation': 'University of X', 'orcid': '0000-0002-1825-0097'}
    """
    name, *rest = (part.strip().removeprefix(ADDRESS) for part in person.split(";"))
    family, comma, first = (part.strip() for part in name.partition(","))
    if not (family and comma and first) or len(rest) > 2:
        raise BadMetadata(f"creator {person!r} is not a name; {HOW}")
    names = family.lower(), first.lower()
    if names in INVENTED or {*names} & PLACEHOLDERS:
        raise BadMetadata(f"creator {person!r} is a placeholder, not a person; {HOW}")
    fields = {"name": f"{family}, {first}"}
    for part in filter(None, rest):
        fields["orcid" if ORCID.fullmatch(part) else "affiliation"] = part
    is_read = len(fields) > len([*filter(None, rest)]) and not NUMBER.fullmatch(fields.get("affiliation", ""))
    if not (is_read and _is_orcid(fields.get("orcid", ""))):
        raise BadMetadata(f"creator {person!r}: its affiliation or ORCID cannot be right; {HOW}")
    return fields


def _is_orcid(number: str) -> bool:
    """Whether the last character is the check character of the others (ISO 7064, mod 11-2); an empty text passes."""
    # Each digit is added and the sum doubled; the check character completes 12 - sum to a multiple of 11, X means 10.
    total = 0
    for digit in number.replace("-", "")[:-1]:
        total = (total + int(digit)) * 2
    return not number or number[-1] == "0123456789X"[(12 - total % 11) % 11]


def _text(text: str, what: str) -> str:
    if not text.strip() or text.strip().lower() in PLACEHOLDERS:
        raise BadMetadata(f"{what} {text!r} of the archive says nothing; give one with --{what}")
    return " ".join(text.split())


class MayNotShare(BadInput):
    """A task of the study has private data."""


def beside(manifest: Manifest, deposit: Deposit, records: int, *, is_brief: bool = False) -> dict[str, bytes]:
    """The files about a study with this number of records, except its report and licences, by name.

    MayNotShare if a task is private, BadMetadata if ``deposit`` does not say who made it.
    """
    if private := [name for name, task in manifest["tasks"].items() if task.get("private", False)]:
        raise MayNotShare(
            f"task {private[0]} is private, and an archive holds its labels and predictions; archive a study without"
            " it: the cells of the others are in the store already"
        )
    title = manifest["study"].get("title") or manifest["name"]
    facts = zenodo_metadata(deposit, title, _description(manifest, records))
    report, predictions = BRIEF if is_brief else WHOLE
    said = {"version": _version(), "records": records, "report": report, "predictions": predictions}
    page = READ_ME.format(title=facts["title"], name=manifest["name"], **said)
    files = {ZENODO: json.dumps(facts, indent=1, ensure_ascii=False).encode() + b"\n", README: page.encode()}
    files |= {STUDY: study_file(manifest["study"]).encode(), LOCK: lock().encode()}
    return files | _own_ratings(manifest)


def study_file(study: Mapping[str, Any]) -> str:
    """The TOML of a resolved study without the results of searches, which are in the manifest and in every record."""
    fields = {name: _without_null(field) for name, field in study.items() if field is not None and name != "best"}
    return entry_text(fields)


def lock() -> str:
    """Names and versions of all installed packages, a line each, and of Python, in the format of ``pip install -r``."""
    versions = {package.metadata["Name"].lower(): package.version for package in metadata.distributions()}
    lines = [f"{name}=={version}" for name, version in sorted(versions.items()) if name != "empathy-transfer"]
    return "\n".join([f"# python {platform.python_version()}", f"# empathy-transfer {_version()}", *lines]) + "\n"


def otherwise(locked: str) -> list[str]:
    """The packages whose version here differs from that in a lock file, each with both versions."""
    here = _versions(lock())
    there = _versions(locked)
    return [
        f"{name} {version} (here {here.get(name, 'none')})"
        for name, version in there.items()
        if here.get(name) != version
    ]


def _versions(text: str) -> dict[str, str]:
    lines = (line.partition("==") for line in text.splitlines() if not line.startswith("#"))
    return {name: version for name, _, version in lines if version}


def _version() -> str:
    return metadata.version("empathy-transfer")


def _description(manifest: Manifest, records: int) -> str:
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


def _without_null(setting: object) -> object:
    if isinstance(setting, Mapping):
        return {name: _without_null(part) for name, part in setting.items() if part is not None}
    return setting
