"""A study in one file: a .tar.gz with a list of what is in it first, the same bytes for the same content."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from adapters_store.disk import atomic
from adapters_store.errors import CorruptRecord, MissingRecord, StoreError
from adapters_store.key import key_of, plain_data
from adapters_store.listing import keys_in
from adapters_store.record import ALIAS, MARKER, Record, check_file_name, seal
from adapters_store.store import MEASURE, Store, without_weights

LIST = "archive.json"
FORMAT = "empathy-transfer study"
SCHEMA = 1  # of the list
KINDS = ("measures", "objects", "studies")  # folders of a store
BESIDE = ("registry", "report")  # folders about a study that no store takes; nor does it take files without a folder
HIDDEN = ".zenodo.json"  # the only name with a dot in front: where those who deposit an archive look for its metadata


class Member(NamedTuple):
    """One file of an archive: its name in it, sha256, size in bytes, and its content or the path of it."""

    name: str
    sha256: str
    size: int
    content: bytes | Path


@dataclass(frozen=True)
class ArchiveSummary:
    """What went into an archive: numbers of records and measures, and the keys of cells that have no record yet."""

    records: int
    measures: int
    missing: tuple[str, ...]


def archive(
    store: Store,
    study: str,
    measures: Iterable[tuple[str, Mapping[str, Any]]],
    file: Path,
    *,
    is_light: bool = False,
    beside: Mapping[str, bytes] = MappingProxyType({}),
) -> ArchiveSummary:
    """Write a study's manifest, its cells' records and those of the ``measures`` (kind, inputs) that are stored.

    ``is_light`` leaves the weights out; ``beside`` are files about the study, by name, which no store takes. Every file
    is compared with its checksum first: CorruptRecord names one that differs. StoreError if ``file`` exists or cannot
    be written; nothing is left there then.
    """
    if file.exists():
        raise StoreError(f"{file} exists and is not overwritten; move it away, or give another name")
    manifest = plain_data(store.manifest(study), f"study {study}")
    keys = keys_of(manifest, f"study {study}")
    stored = [key for key in keys if key in store]
    own = dict.fromkeys(store.stored_as(key) for key in stored)
    records = [without_weights(record) if is_light else record for record in map(store.get, own)]
    measured = list(_measures(store, measures))
    members = [_member(f"studies/{study}.json", json.dumps(manifest, indent=1, ensure_ascii=False).encode() + b"\n")]
    members += [member for record in records for member in _of_record(store, record)] + measured
    members += [
        _member(f"objects/{alias.key}/{ALIAS}", alias.to_json())
        for alias in store.aliases().values()
        if alias.of in own
    ]
    members += [_member(check_beside(name), content) for name, content in beside.items()]
    members.sort(key=lambda member: member.name)
    _write(file, [_list_of(members, study, is_light=is_light), *members])
    return ArchiveSummary(len(own), len(measured), tuple(key for key in keys if key not in store))


def _list_of(members: Iterable[Member], study: str, *, is_light: bool) -> Member:
    """The archive's list of what is in it, which is its first member."""
    head = {"format": FORMAT, "schema": SCHEMA, "study": study, "is_light": is_light}
    listed = {member.name: {"sha256": member.sha256, "bytes": member.size} for member in members}
    return _member(LIST, json.dumps({**head, "members": listed}, indent=1).encode() + b"\n")


def keys_of(manifest: Mapping[str, Any], where: str) -> list[str]:
    """The keys of a study's cells and imports, each once; CorruptRecord naming ``where`` if the manifest has none."""
    if (keys := keys_in(manifest)) is None:
        raise CorruptRecord(f"{where}: its manifest does not name its cells; run the study again")
    return keys


def _member(name: str, content: bytes) -> Member:
    return Member(name, hashlib.sha256(content).hexdigest(), len(content), content)


def check_beside(name: str) -> str:
    """The name itself; StoreError unless a file about a study may have it in an archive."""
    folder, slash, _ = name.partition("/")
    if name == LIST or (slash and folder not in BESIDE):
        raise StoreError("it is neither a store's nor about a study")
    return name if name == HIDDEN else check_file_name(name)


def _of_record(store: Store, record: Record) -> Iterator[Member]:
    folder = f"objects/{record.key}"
    yield _member(f"{folder}/{MARKER}", record.to_json())
    for name, stamp in record.files.items():
        yield Member(f"{folder}/{name}", stamp.sha256, stamp.bytes, store.open(record.key, name))


def _measures(store: Store, asked: Iterable[tuple[str, Mapping[str, Any]]]) -> Iterator[Member]:
    """Those of the measures that the store has, each once; the others are left out."""
    wanted = {key_of({"kind": kind, "inputs": inputs}): (kind, inputs) for kind, inputs in asked}
    for key, (kind, inputs) in wanted.items():
        try:
            measure = store.measure(kind, inputs)
        except MissingRecord:
            continue
        yield _member(f"measures/{key}/{MEASURE}", seal(vars(measure)))


def _write(file: Path, members: Iterable[Member]) -> None:
    """Write the archive in one step; StoreError if it cannot be written."""
    try:
        with atomic(file) as part:
            _pack(members, part)
    except ValueError as error:  # tarfile refuses names and sizes that the format cannot hold
        raise StoreError(f"{file}: cannot be written ({error}); mend this, or give another place") from error


def _pack(members: Iterable[Member], file: Path) -> None:
    """Write a .tar.gz of names, sizes and contents alone: no clock, no owner, no name of a person or machine."""
    with (
        file.open("wb") as raw,
        gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=raw, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar,
    ):
        for member in members:
            info = tarfile.TarInfo(member.name)
            info.size = member.size
            with (
                io.BytesIO(member.content)
                if isinstance(member.content, bytes)
                else member.content.open("rb") as content
            ):
                tar.addfile(info, content)
