"""What lies beside a study's records in an archive for others: who made it, with what, from whose data."""

from __future__ import annotations

import csv
import io
import json
import platform
from collections.abc import Mapping
from importlib import metadata
from typing import Any

from harness.sharing.zenodo import Deposit
from harness.sharing.zenodo import metadata as zenodo
from tasks.errors import BadInput
from tasks.proposal import entry_text
from tasks.ratings import Rating, rating_files, ratings

Manifest = Mapping[str, Any]

ZENODO, STUDY, LOCK, README = ".zenodo.json", "study.toml", "environment.txt", "README.md"
REGISTRY = "registry"  # folder of the ratings that came from the user's own entries
READ_ME = """# {title}

Results of the study `{name}`, made with empathy-transfer {version}: {records} records of trainings, without weights.

| file | holds |
|---|---|
| `report/` | tables (CSV), figures (PNG, SVG) and the report |
| `objects/`, `measures/`, `studies/` | the records: test and validation predictions, settings, provenance, checksums |
| `study.toml` | the study with every field written out |
| `environment.txt` | the versions of Python and of every package that was installed |
| `LICENCES.md` | the licences of the data sets; none of their texts is in here |
| `archive.json` | sha256 and size of every file |

`empathy-transfer verify ARCHIVE` computes every table anew from the records and compares; it needs no data, GPU or
network. `empathy-transfer store restore ARCHIVE --store DIR` puts the records into a store.
"""


class MayNotShare(BadInput):
    """A study has a task whose owner keeps its data private."""


def beside(manifest: Manifest, deposit: Deposit, records: int) -> dict[str, bytes]:
    """The files about a study with so many records, but its report and licences, by name.

    MayNotShare if a task is private, BadMetadata if ``deposit`` does not say who made it.
    """
    if private := [name for name, task in manifest["tasks"].items() if task.get("private", False)]:
        raise MayNotShare(
            f"task {private[0]} is private, and an archive holds its labels and predictions; archive a study without"
            " it: the cells of the others are in the store already"
        )
    title = manifest["study"].get("title") or manifest["name"]
    told = zenodo(deposit, title, _description(manifest, records))
    page = READ_ME.format(title=told["title"], name=manifest["name"], version=_version(), records=records)
    files = {ZENODO: json.dumps(told, indent=1, ensure_ascii=False).encode() + b"\n", README: page.encode()}
    files |= {STUDY: study_file(manifest["study"]).encode(), LOCK: lock().encode()}
    return files | _own_ratings(manifest)


def study_file(study: Mapping[str, Any]) -> str:
    """The TOML of a resolved study. What searches found is left out: it stands in the manifest and in every record."""
    fields = {name: _without_null(value) for name, value in study.items() if value is not None and name != "best"}
    return entry_text(fields)


def lock() -> str:
    """Name and version of everything that is installed, one a line, and of Python, as ``pip install -r`` reads it."""
    found = {one.metadata["Name"].lower(): one.version for one in metadata.distributions()}
    lines = [f"{name}=={version}" for name, version in sorted(found.items()) if name != "empathy-transfer"]
    return "\n".join([f"# python {platform.python_version()}", f"# empathy-transfer {_version()}", *lines]) + "\n"


def otherwise(kept: str) -> list[str]:
    """The packages that have another version here than in a lock file, each with both."""
    here = _versions(lock())
    there = _versions(kept)
    return [f"{name} {one} (here {here.get(name, 'none')})" for name, one in there.items() if here.get(name) != one]


def _versions(text: str) -> dict[str, str]:
    lines = (line.partition("==") for line in text.splitlines() if not line.startswith("#"))
    return {name: version for name, _, version in lines if version}


def _version() -> str:
    return metadata.version("empathy-transfer")


def _description(manifest: Manifest, records: int) -> str:
    made_up = "made-up texts" if manifest["synthetic"] else "real texts"
    return (
        f"Records, predictions, tables and figures of a study of transfer between {len(manifest['tasks'])} tasks of"
        f" empathy in language, trained on {made_up} with the encoder {manifest['study']['backbone']}: {records}"
        " trainings. Every table can be computed anew from the records."
    )


def _own_ratings(manifest: Manifest) -> dict[str, bytes]:
    """The ratings of the study's tasks from files of the user's own, as one file; nothing if there are none."""
    own = ratings(rating_files(manifest["study"].get("registry", ())))[len(ratings()) :]
    rows = [one for one in own if one.task in manifest["tasks"]]
    table = io.StringIO(newline="")
    csv.writer(table, lineterminator="\n").writerows([Rating._fields, *rows])
    return {f"{REGISTRY}/ratings.csv": table.getvalue().encode()} if rows else {}


def _without_null(value: object) -> object:
    if isinstance(value, Mapping):
        return {name: _without_null(one) for name, one in value.items() if one is not None}
    return value
