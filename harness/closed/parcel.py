"""What is carried to a closed node: a plan and tensors, in parts that are each small enough to be carried by itself.

``part-1`` has the plan, the encoder's config, this project's own source and ``train.py``; every part has tensors. Rows
go as token ids: no text, no id and no group of a row, and no label of a test row, is among them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from adapters_store.disk import atomic
from harness.training.inputs import Encoded
from harness.training.tensors import digest_of
from harness.training.trained import Part
from tasks.errors import BadInput

SCHEMA = 1
PLAN, CONFIG, SOURCE, TENSORS = "plan.json", "config.json", "source.zip", "tensors.safetensors"
MEGABYTE = 1 << 20


def part_of(folder: Path, number: int) -> Path:
    """The folder of a part, numbered from 1."""
    return folder / f"part-{number}"


# Rows as tensors.


def tensors_of(part: Part, *, has_labels: bool) -> dict[str, Tensor]:
    """The windows of all rows, one after the other, and the rows' labels where they are to be known there."""
    windows = [window for windows in part.rows for window in windows]
    labels = part.labels if has_labels else part.labels[:0]
    return {
        "ids": torch.tensor([id for window in windows for id in window.ids], dtype=torch.int32),
        "segments": torch.tensor([segment for window in windows for segment in window.segments], dtype=torch.uint8),
        "lengths": torch.tensor([len(window.ids) for window in windows], dtype=torch.int32),
        "windows": torch.tensor([len(windows) for windows in part.rows], dtype=torch.int32),
        "labels": torch.from_numpy(np.ascontiguousarray(labels)),
    }


def part_from(tensors: Mapping[str, Tensor]) -> Part:
    """The rows again; what was cut of them is known at home."""
    ends = tensors["lengths"].cumsum(0).tolist()
    ids, segments = tensors["ids"].tolist(), tensors["segments"].tolist()
    windows = [
        Encoded(tuple(ids[start:end]), tuple(segments[start:end]), is_history_cut=False, is_target_cut=False)
        for start, end in zip([0, *ends], ends, strict=False)
    ]
    counts = iter(windows)
    rows = [tuple(next(counts) for _ in range(count)) for count in tensors["windows"].tolist()]
    return Part(rows, tensors["labels"].numpy())


def digest(tensors: Mapping[str, Tensor]) -> str:
    """16 digits of the tensors' sha256: what is the same is carried once."""
    return digest_of(tensors)[:16]


# Tensors in parts.


def write_tensors(folder: Path, tensors: Mapping[str, Tensor], limit: int) -> int:
    """Write tensors into ``part-1``, ``part-2`` and on, at most ``limit`` bytes each where no tensor is larger.

    The number of parts.
    """
    shelves: list[dict[str, Tensor]] = [{}]
    room = limit
    for name, value in tensors.items():
        size = value.numel() * value.element_size() + 200  # and its place in the header
        if shelves[-1] and size > room:
            shelves.append({})
            room = limit
        shelves[-1][name] = value.contiguous()
        room -= size
    for number, shelf in enumerate(shelves, start=1):
        part_of(folder, number).mkdir(parents=True, exist_ok=True)
        save_file(shelf, part_of(folder, number) / TENSORS)
    return len(shelves)


@dataclass(frozen=True)
class Parcel:
    """A folder that was carried, with all its parts; BadInput for one that lacks a part."""

    folder: Path

    @cached_property
    def plan(self) -> dict[str, Any]:
        """The plan as plain JSON: packs in the order in which they may be trained."""
        path = part_of(self.folder, 1) / PLAN
        try:
            plan: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as problem:
            raise BadInput(f"{path}: no plan can be read there ({problem}); carry part-1 here again") from None
        if plan.get("schema") != SCHEMA:
            raise BadInput(f"{path}: schema {plan.get('schema')!r}, not {SCHEMA}; pack it with this version")
        return plan

    def group(self, prefix: str) -> dict[str, Tensor]:
        """The tensors whose names start with ``prefix/``, without it."""
        start = f"{prefix}/"
        by_path: dict[Path, list[str]] = {}
        for name, path in self._places.items():
            if name.startswith(start):
                by_path.setdefault(path, []).append(name)
        if not by_path:
            raise BadInput(f"{self.folder}: no tensors {prefix!r}; pack it again")
        tensors: dict[str, Tensor] = {}
        for path, names in by_path.items():
            with safe_open(path, "pt") as file:
                tensors |= {name.removeprefix(start): file.get_tensor(name) for name in names}
        return tensors

    @cached_property
    def _places(self) -> dict[str, Path]:
        places = {}
        for number in range(1, self.plan["parts"] + 1):
            path = part_of(self.folder, number) / TENSORS
            try:
                with safe_open(path, "pt") as file:
                    places.update(dict.fromkeys(file.keys(), path))
            except (OSError, SafetensorError) as problem:
                raise BadInput(f"{path}: cannot be read ({problem}); carry part-{number} here again") from None
        return places


# What comes back: outcomes of many cells in one file, weights left out.


@dataclass(frozen=True)
class Outcome:
    """One trained cell: its logits by split, and facts as plain JSON (history, proofs, seconds, provenance)."""

    logits: Mapping[str, Tensor]
    facts: Mapping[str, Any]


def write_outcomes(path: Path, outcomes: Mapping[str, Outcome]) -> None:
    """Write outcomes by key into one file, which is whole or not there."""
    tensors = {
        f"{key}/{name}": value.contiguous() for key, own in outcomes.items() for name, value in own.logits.items()
    }
    facts = json.dumps({key: own.facts for key, own in outcomes.items()}, allow_nan=False)
    with atomic(path) as part:
        save_file(tensors, part, {"schema": str(SCHEMA), "facts": facts, "digest": digest(tensors)})


def read_outcomes(paths: Sequence[Path]) -> Iterator[tuple[Path, str, Outcome]]:
    """Every outcome of these files with its file and key; BadInput for a file that is none or was altered."""
    for path in paths:
        try:
            with safe_open(path, "pt") as file:
                about = file.metadata() or {}
                tensors = {name: file.get_tensor(name) for name in file.keys()}
            facts = json.loads(about["facts"])
            is_whole = about["digest"] == digest(tensors)
        except (OSError, SafetensorError, ValueError, KeyError) as problem:
            raise BadInput(f"{path}: no outcomes of a closed node ({type(problem).__name__}); copy it again") from None
        if not is_whole:
            raise BadInput(f"{path}: differs from what was written there; copy it again")
        for key, own in facts.items():
            start = f"{key}/"
            logits = {name.removeprefix(start): value for name, value in tensors.items() if name.startswith(start)}
            yield path, key, Outcome(logits, own)
