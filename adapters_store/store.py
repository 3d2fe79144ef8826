"""Where finished work is kept: records and measures by their inputs, manifests by their study's name."""

import dataclasses
import logging
import shutil
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from adapters_store import disk
from adapters_store.key import CorruptRecord, MissingRecord, StoreError, key_of, plain_data
from adapters_store.record import (
    KEY,
    MARKER,
    SCHEMA,
    Record,
    StoredFile,
    check_file_name,
    check_key,
    check_name,
    check_schema,
    read_signed,
    seal,
    sign,
    unseal,
)

log = logging.getLogger(__name__)

MEASURE = "measure.json"
ASIDE = "aside"  # the folder of records that are trained anew
STUDY_NAME = r"[a-z0-9][a-z0-9._-]*"
PACK_ID = r"[A-Za-z0-9][A-Za-z0-9._-]*"
MOST_SHOWN = 200  # letters of a value in a log


@dataclass(frozen=True)
class Measure:
    """A stored result that is no cell, with what it was made from and the seconds it took."""

    kind: str
    inputs: Mapping[str, Any]
    result: Mapping[str, Any]
    cost_seconds: float
    schema: int = SCHEMA


@dataclass(frozen=True)
class Store:
    """A folder of records, measures, manifests and packs; nothing is created before the first write.

    store = Store(Path("runs"))
    for key in store.keys():
        print(key, store.get(key).results)
    """

    root: Path

    def __contains__(self, key: str) -> bool:
        """Whether a finished record has this key; its files are not looked at."""
        return disk.is_file(self._object(key) / MARKER)

    def keys(self) -> set[str]:
        """Keys of all finished records; their files are not looked at."""
        folder = str(self.root / "objects")
        return {key for key in disk.names(folder) if KEY.fullmatch(key) and disk.is_file(f"{folder}/{key}/{MARKER}")}

    def get(self, key: str) -> Record:
        """The record with this key; MissingRecord if there is none, CorruptRecord if it is not as written."""
        return record_in(self.content(key), self._object(key) / MARKER)

    def content(self, key: str) -> bytes:
        """The bytes of the record.json under a key; MissingRecord if there is none."""
        return _read(self._object(key) / MARKER, f"record {key}")

    def open(self, key: str, name: str) -> Path:
        """Path of one file of a record, after its content was checked; CorruptRecord names a file that differs."""
        record, folder = self.get(key), self._object(key)
        if name not in record.files:
            raise StoreError(f"record {key} has no file {name!r}; it has {', '.join(sorted(record.files)) or 'none'}")
        return check_file(folder, name, record.files[name])

    def put(
        self, key: str, spec: Mapping[str, Any], results: Mapping[str, Any], provenance: Mapping[str, Any], folder: Path
    ) -> Record:
        """Keep a finished cell with all files of ``folder``, which is left as it is, and return what is stored.

        The first record of a key wins: a later one that differs is logged and not kept. What was set aside under the
        key is removed, and how its results differ is logged. A StoreError leaves nothing half written, and a crash at
        any moment leaves no record.
        """
        if not folder.is_dir():
            raise StoreError(f"{folder}: not a folder; put takes the folder that holds the files of a cell")
        entries = sorted(folder.rglob("*"))
        for entry in entries:
            if entry.is_symlink() or not (entry.is_dir() or entry.is_file()):
                raise StoreError(f"{entry}: a link or special file; records hold plain files only")
        names = [check_file_name(entry.relative_to(folder).as_posix()) for entry in entries if entry.is_file()]
        with disk.writing(self.root), self.staging() as temporary:
            prepared = temporary / "record"
            prepared.mkdir()
            stamps = {}
            for name in names:
                (prepared / name).parent.mkdir(parents=True, exist_ok=True)
                stamps[name] = StoredFile(*disk.copy(folder / name, prepared / name))
            for inner in {
                parent for name in names for parent in (prepared / name).parents if prepared in parent.parents
            }:
                disk.sync_folder(inner)
            record = Record(key, spec, results, provenance, stamps)
            disk.write(prepared / MARKER, record.to_json())
            disk.sync_folder(prepared)
            if self._publish(prepared, self._object(key), MARKER):
                self._drop_aside(record)
                return record
        kept = self.get(key)
        _log_difference(key, {**kept.results, **_stamps(kept)}, {**plain_data(record.results), **_stamps(record)})
        return kept

    def set_aside(self, key: str) -> None:
        """Move what is stored under a key out of the way, into ``aside``, until another record is put there."""
        with disk.writing(self.root), self.staging() as attic, suppress(FileNotFoundError):  # moved by another run
            aside = self._aside(key)
            aside.parent.mkdir(exist_ok=True)
            disk.publish(self._object(key), aside, (), attic)  # an earlier one there gives way, once this has its place

    def put_back(self, key: str) -> None:
        """Move what was set aside under a key to its place again, where no other record has taken it."""
        with disk.writing(self.root), suppress(OSError):  # nothing is aside, or the place is taken
            if key not in self:
                self._aside(key).rename(self._object(key))

    def _drop_aside(self, record: Record) -> None:
        """Remove what was set aside under the key of a record that is stored now; a difference is logged."""
        folder = self._aside(record.key)
        if disk.is_file(folder / MARKER):
            with suppress(CorruptRecord):
                earlier = Record.from_json(disk.content(folder / MARKER), folder / MARKER)
                _log_difference(record.key, plain_data(record.results), earlier.results)
        shutil.rmtree(folder, ignore_errors=True)

    @contextmanager
    def staging(self) -> Iterator[Path]:
        """A new empty folder inside the store, removed afterwards; one that a crash leaves behind does no harm."""
        with disk.writing(self.root):
            folder = self.root / "staging" / uuid.uuid4().hex
            folder.mkdir(parents=True)  # not tempfile: its folders are closed to the group that shares a store
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def write_manifest(self, name: str, manifest: Mapping[str, Any]) -> None:
        """Write studies/<name>.json in one step, in place of an earlier one; the order of fields is kept.

        StoreError where a version with another schema wrote the earlier one.
        """
        path = self._manifest(name)
        with suppress(MissingRecord, CorruptRecord):
            self.manifest(name)
        content = sign(manifest)
        with disk.writing(self.root), self.staging() as temporary:
            disk.write(temporary / "manifest.json", content)
            path.parent.mkdir(exist_ok=True)
            (temporary / "manifest.json").replace(path)
            disk.sync_folder(path.parent)

    def manifest(self, name: str) -> dict[str, Any]:
        """The manifest of a study; MissingRecord lists those that are there, CorruptRecord names a broken file.

        StoreError where a version with another schema wrote it.
        """
        path = self._manifest(name)
        raw = _read(path, f"study {name!r}; it has {', '.join(self.manifests()) or 'none'}")
        manifest = read_signed(raw)
        if manifest is None:
            raise CorruptRecord(f"{path}: not as it was written; run the study again to write it anew")
        check_schema(manifest.get("schema", SCHEMA), path)
        return manifest

    def manifests(self) -> list[str]:
        """Names of all studies in the store, sorted."""
        return sorted(path.name.removesuffix(".json") for path in (self.root / "studies").glob("[!.]*.json"))

    def put_measure(
        self, kind: str, inputs: Mapping[str, Any], result: Mapping[str, Any], cost_seconds: float
    ) -> Measure:
        """Keep a measure by its kind and inputs and return what is stored; the first wins, a difference is logged."""
        measure = Measure(kind, inputs, result, cost_seconds)
        content = seal(vars(measure))
        with disk.writing(self.root), self.staging() as temporary:
            prepared = temporary / "measure"
            prepared.mkdir()
            disk.write(prepared / MEASURE, content)
            disk.sync_folder(prepared)
            if self._publish(prepared, self._measure(kind, inputs), MEASURE):
                return measure
        kept = self.measure(kind, inputs)
        _log_difference(f"{kind} measure", kept.result, plain_data(result))
        return kept

    def measure(self, kind: str, inputs: Mapping[str, Any]) -> Measure:
        """The measure of this kind with exactly these inputs; MissingRecord if there is none."""
        return stored_measure(self._measure(kind, inputs) / MEASURE, f"{kind} measure of these inputs")

    def find_measure(self, kind: str, inputs: Mapping[str, Any]) -> Measure | None:
        """As ``measure``, but None if there is none."""
        with suppress(MissingRecord):
            return self.measure(kind, inputs)
        return None

    def measure_of(self, key: str) -> Measure:
        """The measure of this key, that of its kind and inputs; MissingRecord if there is none."""
        return stored_measure(self.root / "measures" / check_key(key) / MEASURE, f"measure {key}")

    def drop_measure(self, kind: str, inputs: Mapping[str, Any]) -> None:
        """Remove what lies where the measure of these inputs would be; nothing happens where there is nothing."""
        with disk.writing(self.root), self.staging() as temporary, suppress(FileNotFoundError):
            self._measure(kind, inputs).rename(temporary / "measure")

    def measures(self) -> Iterator[Measure]:
        """Every measure that can be read, by key."""
        for key in disk.names(self.root / "measures"):
            try:
                yield stored_measure(self.root / "measures" / key / MEASURE, "measure of this name")
            except StoreError:
                continue

    def pack_folder(self, pack: str) -> Path:
        """Where a pack, or a cell by its key, keeps what it needs to go on when interrupted; the caller makes it."""
        return self.root / "packs" / check_name(pack, "pack", PACK_ID)

    def drop_pack(self, pack: str) -> None:
        """Remove that folder; nothing happens where there is none, or where it may not be removed."""
        shutil.rmtree(self.pack_folder(pack), ignore_errors=True)

    def _object(self, key: str) -> Path:
        return self.root / "objects" / check_key(key)

    def _aside(self, key: str) -> Path:
        return self.root / ASIDE / check_key(key)

    def _measure(self, kind: str, inputs: Mapping[str, Any]) -> Path:
        return self.root / "measures" / key_of({"kind": kind, "inputs": inputs})

    def _manifest(self, name: str) -> Path:
        return self.root / "studies" / f"{check_name(name, 'study', STUDY_NAME)}.json"

    def _publish(self, prepared: Path, destination: Path, marker: str) -> bool:
        destination.parent.mkdir(exist_ok=True)
        return disk.publish(prepared, destination, (marker,), attic=self.root / "staging")


def check_file(folder: Path, name: str, stamp: StoredFile) -> Path:
    """Path of a record's file after its content was compared; CorruptRecord names one that is gone or differs."""
    path = folder / name
    if not disk.is_file(path) or not path.resolve().is_relative_to(folder.resolve()):
        raise CorruptRecord(f"{path}: the file is gone; restore it, or move the folder away and run again")
    with disk.reading(path):
        actual = StoredFile(disk.sha256_of(path), path.stat().st_size)
    if actual != stamp:
        raise CorruptRecord(
            f"{path}: sha256 is {actual.sha256} of {actual.bytes} bytes, the record says {stamp.sha256} of"
            f" {stamp.bytes}; restore the file, or move the folder away and run again"
        )
    return path


def record_in(raw: bytes, path: Path) -> Record:
    """The record in the bytes of a record.json; CorruptRecord unless its folder is named by its key."""
    record = Record.from_json(raw, path)
    if record.key != path.parent.name:
        raise CorruptRecord(f"{path}: holds the record {record.key}; move its folder away and run again")
    return record


def measure_in(raw: bytes, path: Path) -> Measure:
    """The measure in the bytes of a measure.json; CorruptRecord unless its folder is named by its kind and inputs."""
    try:
        measure = Measure(**unseal(raw, path))
        is_whole = (type(measure.kind), type(measure.inputs), type(measure.result)) == (str, dict, dict)
    except TypeError:
        is_whole = False
    if not is_whole or key_of({"kind": measure.kind, "inputs": measure.inputs}) != path.parent.name:
        raise CorruptRecord(f"{path}: holds another measure; move its folder away and run again")
    return measure


def stored_measure(path: Path, noun: str) -> Measure:
    """The measure in a measure.json; MissingRecord if there is none, CorruptRecord as ``measure_in`` says."""
    return measure_in(_read(path, noun), path)


def _read(path: Path, noun: str) -> bytes:
    with disk.reading(path):
        try:
            return disk.content(path)
        except (FileNotFoundError, NotADirectoryError):
            raise MissingRecord(f"{path}: the store has no {noun}; run the study that makes it") from None


def _stamps(record: Record) -> dict[str, str]:
    return {f"file {name}": stamp.sha256 for name, stamp in record.files.items()}


def differing(kept: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """The names of all fields in which two results differ, sorted."""
    return [name for name in sorted({*kept, *other}) if kept.get(name) != other.get(name)]


def _log_difference(subject: str, kept: Mapping[str, Any], dropped: Mapping[str, Any]) -> None:
    """Warn of every field in which a result that was not kept differs from the one that was."""

    def short(value: object) -> str:
        text = repr(value)
        return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."

    if names := differing(kept, dropped):
        pairs = "; ".join(f"{name}: {short(kept.get(name))} kept, {short(dropped.get(name))} dropped" for name in names)
        log.warning("%s was stored before and its repetition differs: %s", subject, pairs)


# Records without weights: their numbers and predictions are all there, their adapters are not.

WEIGHTS_ENDING = ".safetensors"
VALIDATION = "validation.parquet"
LEFT_OUT = "left_out"  # the field of a record's provenance that says what its left out files were


class NoWeights(StoreError):
    """A record is there, but its weights are not: they were not kept, or left out of the archive that it came from."""


def without_weights(record: Record) -> Record:
    """The record without adapters, heads and saved systems, and without validation predictions, which nothing reads.

    Which files these were, with hash and size, stays in its provenance.
    """
    is_gone = {name: "/" in name or name == VALIDATION for name in record.files}
    gone = {**left_out(record), **{name: stamp for name, stamp in record.files.items() if is_gone[name]}}
    if not gone:
        return record
    stamps = {name: vars(stamp) for name, stamp in sorted(gone.items())}
    files = {name: stamp for name, stamp in record.files.items() if name not in gone}
    return dataclasses.replace(record, files=files, provenance={**record.provenance, LEFT_OUT: stamps})


def left_out(record: Record) -> dict[str, StoredFile]:
    """The files that the record was stored with and has no more; StoreError if its note of them is malformed."""
    try:
        return {name: StoredFile(**stamp) for name, stamp in record.provenance.get(LEFT_OUT, {}).items()}
    except (TypeError, AttributeError):
        raise StoreError(f"record {record.key}: its provenance has a field {LEFT_OUT!r} that is not ours") from None


REWRITTEN = "rewritten"  # the field of a record's provenance, in archives with rounded logits such as that of
# ``reference``, that says which files its shorter ones were made from


def original_files(record: Record) -> dict[str, StoredFile]:
    """The files that the record was first stored with, by which its copies in archives are told to be equal.

    Those that it has, those left out, and for a rewritten file the one that it was made from; StoreError if its note
    of them is malformed.
    """
    try:
        notes = record.provenance.get(REWRITTEN, {}).items()
        origins = {name: StoredFile(note["sha256"], note["bytes"]) for name, note in notes}
    except (TypeError, AttributeError, KeyError):
        raise StoreError(f"record {record.key}: its provenance has a field {REWRITTEN!r} that is not ours") from None
    return {**record.files, **left_out(record), **origins}


def has_weights(record: Record) -> bool:
    """Whether a record names files of weights, and nothing was left out of it."""
    return not left_out(record) and any(name.endswith(WEIGHTS_ENDING) for name in record.files)


def open_weights(store: Store, key: str, name: str) -> Path:
    """``Store.open`` for a file of an adapter that is needed for computing; NoWeights if the record has none."""
    if not has_weights(store.get(key)):
        raise NoWeights(
            f"record {key} has no weights (`store archive` leaves them out without `--weights`, and a study may keep "
            "baselines' adapters alone), so nothing can be computed with it; `store restore` a full archive into a "
            "store of its own, or move its folder away and `run` its study again"
        )
    return store.open(key, name)
