"""A folder that the adapters library, of any version, has saved: facts and tensors, and nothing of it is run."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor

from tasks.errors import BadInput
from tasks.toml_file import is_inside

ADAPTER = ("adapter_config.json", "adapter.safetensors", "pytorch_adapter.bin")
HEAD = ("head_config.json", "model_head.safetensors", "pytorch_model_head.bin")
FILES = (*ADAPTER, *HEAD)
LARGEST_BYTES = 512 * 2**20  # of weights: 24 layers of width 1024 with a reduction factor of 2 have 100 MB
LARGEST_JSON = 2**20
LONGEST_NAME = 200
LONGEST_SHOWN = 120


class BadAdapter(BadInput):
    """A folder holds no adapter that can be used; the message starts with the file."""


def shown(value: object) -> str:
    """A value of a folder in so few characters that a line can hold it."""
    text = repr(value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."


@dataclass(frozen=True)
class Part:
    """A configuration with the tensors beside it, float32 by the names that the folder gives them.

    ``where`` is the configuration's file.
    """

    where: Path
    config: Mapping[str, Any]
    tensors: Mapping[str, Tensor]

    @property
    def name(self) -> str:
        """What the adapter or head was called where it was trained; a path that leads elsewhere is refused."""
        name = self.text("name")
        if not (0 < len(name) <= LONGEST_NAME and is_inside(name)):
            raise BadAdapter(f"{self.where}: name {shown(name)} is empty, too long, or a path that leads elsewhere")
        return name

    def text(self, name: str, default: str | None = None) -> str:
        """A field that is a text; BadAdapter if it is not, or not there and without a ``default``."""
        value = default if self.config.get(name) is None else self.config[name]
        if not isinstance(value, str) or not value.isprintable():
            raise BadAdapter(
                f"{self.where}: {name} {shown(value)} is not a text; is this a folder of the adapters library?"
            )
        return value

    @property
    def width(self) -> int:
        """Values of one token's vector, as the configuration says."""
        value = self.config.get("hidden_size")
        if type(value) is not int:
            raise BadAdapter(f"{self.where}: hidden_size {shown(value)} is not a whole number; save the adapter again")
        return value


@dataclass(frozen=True)
class Incoming:
    """An adapter, its head if it has one, and the sha256 of every file that was read, by name."""

    adapter: Part
    head: Part | None
    files: Mapping[str, str]


def read_incoming(folder: Path, root: Path) -> Incoming:
    """What is in a folder; nothing in it may be a link that leads out of ``root``.

    BadAdapter, one line that names the file, if something is missing, damaged, over-large or not finite.
    """
    source = _Source(folder, root)
    adapter = _part(source, ADAPTER)
    if adapter is None:
        raise BadAdapter(f"{folder / ADAPTER[0]}: is missing; give a folder in which the adapters library saved one")
    return Incoming(adapter, _part(source, HEAD), source.hashes)


@dataclass(frozen=True)
class _Source:
    """A folder whose files are read once each, and what they were."""

    folder: Path
    root: Path
    hashes: dict[str, str] = field(default_factory=dict)

    def read(self, name: str, most: int) -> bytes | None:
        """The bytes of a file of at most so many; None if it is not there."""
        path = self.folder / name
        try:
            if not path.is_file():
                return None
            if not path.resolve().is_relative_to(self.root.resolve()):
                raise BadAdapter(f"{path}: a link that leads out of its folder; put the file itself there")
            if (size := path.stat().st_size) > most:
                raise BadAdapter(f"{path}: {size:,} bytes, more than the {most:,} that are read")
            raw = path.read_bytes()
        except OSError as problem:
            raise BadAdapter(f"{path}: cannot be read ({problem.strerror}); mend its rights") from None
        self.hashes[name] = hashlib.sha256(raw).hexdigest()
        return raw


def _part(source: _Source, names: tuple[str, str, str]) -> Part | None:
    """A configuration and its tensors; None where neither is there."""
    configuration, *weights = names
    raw = source.read(configuration, LARGEST_JSON)
    found = next(((name, one) for name in weights if (one := source.read(name, LARGEST_BYTES)) is not None), None)
    if raw is None and found is None:
        return None
    where = source.folder / configuration
    if raw is None or found is None:
        missing = configuration if raw is None else f"{weights[0]} or {weights[1]}"
        raise BadAdapter(
            f"{source.folder / missing}: is missing, though {'weights' if raw is None else where.name} is there"
        )
    name, content = found
    path = source.folder / name
    tensors = _safe(content, path) if name == weights[0] else _pickled(content, path)
    return Part(where, _table(raw, where), _checked(tensors, path))


def _table(raw: bytes, where: Path) -> dict[str, Any]:
    try:
        found = json.loads(raw.decode())
    except json.JSONDecodeError as problem:
        raise BadAdapter(f"{where}:{problem.lineno}: no JSON ({problem.msg}); get the folder again") from None
    except (ValueError, RecursionError):
        raise BadAdapter(f"{where}: no JSON; get the folder again") from None
    if not isinstance(found, dict):
        raise BadAdapter(f"{where}:1: JSON, but no table of fields; get the folder again")
    return found


def _safe(raw: bytes, where: Path) -> dict[str, Tensor]:
    try:
        return load(raw)
    except (SafetensorError, ValueError, KeyError):
        raise BadAdapter(f"{where}: damaged, or no safetensors; get the folder again") from None


def _pickled(raw: bytes, where: Path) -> dict[str, Tensor]:
    """The tensors of a file of ``torch.save``, read as tensors only: code in it is refused and never run."""
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
    except zipfile.BadZipFile:
        size = len(raw)  # the format before torch 1.6 is no archive
    except (ValueError, NotImplementedError) as problem:  # names that are no text, a version that is none
        raise BadAdapter(f"{where}: damaged ({type(problem).__name__}); get the folder again") from None
    if size > LARGEST_BYTES:
        raise BadAdapter(f"{where}: unpacks to {size:,} bytes, more than the {LARGEST_BYTES:,} that are read")
    try:
        found = torch.load(io.BytesIO(raw), map_location="cpu", weights_only=True)
    except Exception as problem:  # what torch raises of a damaged file, it does not say
        kind = type(problem).__name__
        raise BadAdapter(f"{where}: damaged, or more than plain tensors ({kind}); nothing of it was run") from None
    if not (isinstance(found, dict) and all(isinstance(name, str) for name in found)):
        raise BadAdapter(f"{where}: no table of tensors; get the folder again")
    return found


def _checked(tensors: Mapping[str, Any], where: Path) -> dict[str, Tensor]:
    """The tensors as float32, every one of them dense and finite, no larger in all than a file may be."""
    values = {}
    for name, value in tensors.items():
        if not (isinstance(value, Tensor) and value.layout == torch.strided and value.is_floating_point()):
            raise BadAdapter(f"{where}: {shown(name)} is no tensor of real numbers; get the folder again")
        values[name] = value
    if (size := 4 * sum(value.numel() for value in values.values())) > LARGEST_BYTES:
        raise BadAdapter(f"{where}: its tensors take {size:,} bytes, more than the {LARGEST_BYTES:,} that are read")
    plain = {name: value.detach().to(torch.float32).contiguous() for name, value in values.items()}
    for name, value in plain.items():
        if not bool(value.isfinite().all()):
            raise BadAdapter(
                f"{where}: tensor {shown(name)} holds values that are no finite numbers; get the folder again"
            )
    return plain
