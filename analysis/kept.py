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
import io
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
    hashes = {
        path.relative_to(house).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
        if "__pycache__" not in path.parts
    }
    return key_of({"own": hashes, **versions(), "machine": machine()}) if hashes else ""


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

    def frame(self, name: str, options: Mapping[str, Any], compute: Callable[[], pd.DataFrame]) -> pd.DataFrame:
        """The frame that ``compute`` returns for these options, read or computed; equal in every value and type."""
        frame: pd.DataFrame = self.parts(name, options, lambda: {"frame": compute()})["frame"]
        return frame

    def parts(self, name: str, options: Mapping[str, Any], compute: Callable[[], Parts]) -> Parts:
        """The parts that ``compute`` returns for these options beside the study, read or computed.

        ``options`` may hold frames, mappings, sequences, dataclasses and what JSON holds; it has to name all that the
        result follows from but the code and the study's records.
        """
        if self.store is None:
            return compute()
        try:
            inputs = kept_inputs(version_of_analysis(), self.content, name, key_of({"asked": plain(options)}))
        except Unkept as reason:
            log.debug("%s is computed each time: %s", name, reason)
            return compute()
        stored = _read(self.store, inputs)
        return _keep(self.store, inputs, compute) if stored is None else stored


NOWHERE = Kept()


def _read(store: Store, inputs: Mapping[str, Any]) -> Parts | None:
    """The parts kept for these inputs; None where there are none, or none that are as they were written."""
    try:
        return {name: _unpack(part) for name, part in store.measure(KEPT, inputs).result.items()}
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
        packed = {name: _pack(part) for name, part in parts.items()}
        store.put_measure(KEPT, inputs, packed, time.process_time() - began)
    except (StoreError, Unkept) as reason:
        log.info("a result of the analysis is not kept: %s", reason)
    return parts


# Results as JSON: a frame as the Parquet file that pandas reads the same frame of, whatever else as JSON gives it back.


class Unkept(Exception):
    """Something that cannot be kept exactly, and so is not."""


FRAME, BYTES, PLAIN = "frame", "bytes", "plain"


def plain(value: Any) -> Any:  # noqa: ANN401 - whatever a result hangs on
    """The value as what JSON holds, equal for equal ones; Unkept for what has no such form."""
    if isinstance(value, pd.DataFrame):
        return {FRAME: hashlib.sha256(_parquet(value)).hexdigest()}
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return [[plain(name), plain(part)] for name, part in value.items()]  # in its order, with names of any type
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    value = value.item() if isinstance(value, np.generic) else value
    if type(value) is float:
        return {"float": value.hex()}
    if value is None or type(value) in (str, int, bool):
        return value
    raise Unkept(f"a {type(value).__name__}")


def _pack(part: Any) -> dict[str, Any]:  # noqa: ANN401 - a part of a result
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


def _unpack(packed: Mapping[str, Any]) -> Any:  # noqa: ANN401 - a part of a result
    ((kind, content),) = packed.items()
    if kind == FRAME:
        return unpacked_frame(content)
    if kind == BYTES:
        return b64decode(content, validate=True)
    if kind == PLAIN:
        return json.loads(content)
    raise ValueError(f"{kind!r} is no kind of part")


def packed_frame(frame: pd.DataFrame) -> str:
    """The frame as a text that ``unpacked_frame`` makes the same frame of; Unkept where it could not."""
    packed = b64encode(_parquet(frame)).decode("ascii")
    back = unpacked_frame(packed)
    objects = [name for name, kind in frame.dtypes.items() if kind == "object"]  # None may equal NaN
    is_same = back.equals(frame) and back.dtypes.equals(frame.dtypes)
    if not (is_same and back[objects].map(type).equals(frame[objects].map(type))):
        raise Unkept("a frame that Parquet would not give back")
    return packed


def unpacked_frame(packed: str) -> pd.DataFrame:
    """The frame that ``packed_frame`` was given."""
    return pd.read_parquet(io.BytesIO(b64decode(packed, validate=True)))


def _parquet(frame: pd.DataFrame) -> bytes:
    content = io.BytesIO()
    try:
        frame.to_parquet(content, index=False)
    except (TypeError, ValueError, OverflowError) as problem:  # of pyarrow, too
        raise Unkept(f"a frame with {problem}") from problem
    return content.getvalue()
