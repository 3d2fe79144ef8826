"""Results that are computed once: kept in the store with everything that they follow from, for the commands after it.

    kept = Kept.of(store, manifest)
    frame = kept.frame("gains", {"draws": draws, "seed": seed}, lambda: gains(store, manifest, draws=draws, seed=seed))

A kept result is a measure whose inputs name the version of the analysis (``version_of_analysis``), the content of the
study (``adapters_store.listing.content_of``: its manifest and every byte of its records) and what else was asked. What
is damaged is computed anew; a store that cannot be written to does without. Archives carry none of it, and ``verify``
asks for none of it.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from platform import machine, python_version
from typing import Any

import numpy as np
import pandas as pd

from adapters_store.key import CorruptRecord, MissingRecord, StoreError, key_of
from adapters_store.listing import content_of
from adapters_store.measures import KEPT, kept_inputs
from adapters_store.store import Store

log = logging.getLogger(__name__)

Parts = dict[str, Any]  # of a result, by name: frames, bytes, and what JSON holds
OURS = ("adapters_store", "analysis", "tasks")  # all that the analysis is made of; a test holds it to them
LIBRARIES = ("numpy", "scipy", "pandas", "scikit-learn", "pyarrow", "matplotlib", "seaborn")


@cache
def version_of_analysis() -> str:
    """Sha256 of every file of ours that a result may hang on, and of the versions of the libraries below.

    Empty where the files cannot be read, as in a zip: nothing is kept then.
    """
    return version_of(Path(__file__).resolve().parent.parent)


def version_of(house: Path) -> str:
    """The same of the packages that lie in this folder."""
    files = [path for name in OURS for path in sorted((house / name).rglob("*")) if path.is_file()]
    own = {
        path.relative_to(house).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
        if "__pycache__" not in path.parts
    }
    return key_of({"own": own, **versions(), "machine": machine()}) if own else ""


def versions() -> dict[str, Any]:
    """The versions of Python and of the libraries that results may hang on."""
    return {"libraries": {name: _version(name) for name in LIBRARIES}, "python": python_version()}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "absent"


@dataclass(frozen=True)
class Kept:
    """Where the results of a study are kept, and the content of the study; without a ``store`` all is computed."""

    store: Store | None = None
    content: str = ""

    @classmethod
    def of(cls, store: Store, manifest: Mapping[str, Any]) -> Kept:
        """The kept results of a study as its store has it now; none where a record cannot be read."""
        try:
            return cls(store, content_of(store, manifest)) if version_of_analysis() else cls()
        except StoreError:  # said in full by whatever asks for the record itself
            return cls()

    def frame(self, what: str, asked: Mapping[str, Any], compute: Callable[[], pd.DataFrame]) -> pd.DataFrame:
        """The frame that ``compute`` returns for what is ``asked``, read or computed; equal in every value and type."""
        frame: pd.DataFrame = self.parts(what, asked, lambda: {"frame": compute()})["frame"]
        return frame

    def parts(self, what: str, asked: Mapping[str, Any], compute: Callable[[], Parts]) -> Parts:
        """The parts that ``compute`` returns for what is ``asked`` beside the study, read or computed.

        ``asked`` may hold frames, mappings, sequences, dataclasses and what JSON holds; it has to name all that the
        result follows from but the code and the study's records.
        """
        if self.store is None:
            return compute()
        try:
            inputs = kept_inputs(version_of_analysis(), self.content, what, key_of({"asked": plain(asked)}))
        except Unkept as reason:
            log.debug("%s is computed each time: %s", what, reason)
            return compute()
        stored = _read(self.store, inputs)
        return _keep(self.store, inputs, compute) if stored is None else stored


NOWHERE = Kept()


def _read(store: Store, inputs: Mapping[str, Any]) -> Parts | None:
    """The parts kept for these inputs; None where there are none, or none that are as they were written."""
    try:
        return {name: _unpacked(part) for name, part in store.measure(KEPT, inputs).result.items()}
    except MissingRecord:
        return None
    except (CorruptRecord, KeyError, ValueError, TypeError, AttributeError):
        log.warning("a kept result of the analysis is damaged; it is computed anew")
        try:
            store.drop_measure(KEPT, inputs)
        except StoreError as reason:
            log.info("and cannot be replaced: %s", reason)
    except StoreError as reason:
        log.info("a kept result of the analysis cannot be read: %s", reason)
    return None


def _keep(store: Store, inputs: Mapping[str, Any], compute: Callable[[], Parts]) -> Parts:
    """Compute the parts and keep them, where that can be done."""
    began = time.process_time()
    parts = compute()
    try:
        packed = {name: _packed(part) for name, part in parts.items()}
        store.put_measure(KEPT, inputs, packed, time.process_time() - began)
    except (StoreError, Unkept) as reason:
        log.info("a result of the analysis is not kept: %s", reason)
    return parts


# Results as JSON, exactly: numbers of a frame as their bytes, its texts by number, whatever their types.


class Unkept(Exception):
    """Something that cannot be kept exactly, and so is not."""


NUMPY = ("float64", "float32", "int64", "int32", "bool")
NULLABLE = {"Int64": "int64", "boolean": "bool", "Float64": "float64"}
TEXTS = ("str", "string", "object")
FRAME, BYTES, PLAIN = "frame", "bytes", "plain"
EMPTY = "none"  # instead of the type of names, of a frame without rows and columns


def plain(value: Any) -> Any:  # noqa: ANN401 - whatever a result hangs on
    """The value as what JSON holds, equal for equal ones; Unkept for what has no such form."""
    if isinstance(value, pd.DataFrame):
        return {FRAME: packed_frame(value)}
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return [[plain(name), plain(part)] for name, part in value.items()]  # in its order, with names of any type
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return _cell(value.item() if isinstance(value, np.generic) else value)


def _packed(part: Any) -> dict[str, Any]:  # noqa: ANN401 - a part of a result
    if isinstance(part, pd.DataFrame):
        return {FRAME: packed_frame(part)}
    if isinstance(part, bytes):
        return {BYTES: b64encode(part).decode("ascii")}
    try:
        text = json.dumps(part)  # a text, because a measure would sort the names in it
        is_plain = json.loads(text) == part
    except (TypeError, ValueError):
        is_plain = False
    if not is_plain:
        raise Unkept(f"a {type(part).__name__} that JSON would not give back")
    return {PLAIN: text}


def _unpacked(packed: Mapping[str, Any]) -> Any:  # noqa: ANN401 - a part of a result
    ((kind, content),) = packed.items()
    if kind == FRAME:
        return unpacked_frame(content)
    if kind == BYTES:
        return b64decode(content, validate=True)
    if kind == PLAIN:
        return json.loads(content)
    raise ValueError(f"{kind!r} is no kind of part")


def packed_frame(frame: pd.DataFrame) -> dict[str, Any]:
    """The frame as JSON that ``unpacked_frame`` makes the same frame of; Unkept where it could not."""
    if not (isinstance(frame.index, pd.RangeIndex) and frame.index.equals(pd.RangeIndex(len(frame)))):
        raise Unkept("a frame whose rows have names")
    if frame.equals(pd.DataFrame()):
        return {"rows": 0, "names": EMPTY, "columns": []}
    if str(frame.columns.dtype) not in TEXTS or not frame.columns.is_unique or frame.columns.name is not None:
        raise Unkept("a frame whose columns share names, or have none")
    columns = [[_cell(name), *_packed_column(frame[name])] for name in frame.columns]
    return {"rows": len(frame), "names": str(frame.columns.dtype), "columns": columns}


def unpacked_frame(packed: Mapping[str, Any]) -> pd.DataFrame:
    """The frame that ``packed_frame`` was given."""
    if packed["names"] == EMPTY:
        return pd.DataFrame()
    rows = packed["rows"]
    columns = {name: _unpacked_column(kind, parts, rows) for name, kind, *parts in packed["columns"]}
    return pd.DataFrame(columns, index=pd.RangeIndex(rows), columns=pd.Index(list(columns), dtype=packed["names"]))


def _packed_column(column: pd.Series) -> list[Any]:
    kind = str(column.dtype)
    if kind in NUMPY:
        return [kind, _bits(column.to_numpy())]
    if kind in NULLABLE:
        is_missing = column.isna().to_numpy(bool)
        values = column.to_numpy(NULLABLE[kind], na_value=0)
        return [kind, _bits(values), _bits(is_missing)]
    if kind not in TEXTS:
        raise Unkept(f"a column of type {kind}")
    cells = [json.dumps(_cell(value)) for value in column.tolist()]
    numbers = {cell: number for number, cell in enumerate(dict.fromkeys(cells))}
    return [kind, _bits(np.array([numbers[cell] for cell in cells], dtype="int32")), list(map(json.loads, numbers))]


def _unpacked_column(kind: str, parts: list[Any], rows: int) -> pd.Series:
    if kind in NUMPY:
        return pd.Series(_values(parts[0], kind, rows))
    if kind in NULLABLE:
        values = pd.Series(_values(parts[0], NULLABLE[kind], rows), dtype=kind)
        return values.mask(_values(parts[1], "bool", rows))
    if kind not in TEXTS:
        raise ValueError(f"{kind!r} is no type of column")
    cells = [_uncell(cell) for cell in parts[1]]
    return pd.Series([cells[number] for number in _values(parts[0], "int32", rows)], dtype=kind)


def _bits(values: np.ndarray) -> str:
    """The bytes of numbers, the lowest first whatever the machine."""
    return b64encode(values.astype(values.dtype.newbyteorder("<")).tobytes()).decode("ascii")


def _values(bits: str, kind: str, rows: int) -> np.ndarray:
    values = np.frombuffer(b64decode(bits, validate=True), np.dtype(kind).newbyteorder("<")).astype(kind)
    if len(values) != rows:
        raise ValueError(f"{len(values)} values for {rows} rows")
    return values


def _cell(value: Any) -> Any:  # noqa: ANN401 - a cell of any type
    """A cell as JSON that ``_uncell`` makes the same of: texts and whole numbers as they are, others by their name."""
    if value is None or type(value) in (str, int, bool):
        return value
    if type(value) is float:
        return {"float": value.hex()}
    if value is pd.NA:
        return {"missing": "NA"}
    raise Unkept(f"a {type(value).__name__} among texts")


def _uncell(cell: Any) -> Any:  # noqa: ANN401
    if isinstance(cell, dict):
        return float.fromhex(cell["float"]) if "float" in cell else pd.NA
    return cell
