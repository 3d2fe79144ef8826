"""Checkpoints: what a lane needs to go on after an interruption; a file per cell, training and stage.

A stage is the number of finished epochs; one more than all of them means evaluated. Lanes that train together write a
stage for all of them before the stage before is removed: whenever the process dies, they can go on together.
"""

import json
import logging
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from adapters_store import Store, disk
from adapters_store.disk import write
from harness.training.tensors import CPU, digest_of, name_of

log = logging.getLogger(__name__)

SCHEMA = 1


def put(path: Path, content: bytes) -> bool:
    """Replace a checkpoint by a whole one; a warning, and false, where the disk refuses."""
    half = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(half, content)
        half.replace(path)
    except OSError as error:
        half.unlink(missing_ok=True)
        log.warning("%s: not written (%s); an interrupted run would go on from further back", path, error)
        return False
    return True


@dataclass(frozen=True)
class Checkpoint:
    """Tensors by name, and facts as plain JSON data, of one lane at one stage."""

    tensors: dict[str, Tensor] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Checkpoints:
    """The checkpoints of one training (``run``: which fold, first time or repeated) of ``lanes`` cells in a store.

    What one device has begun, only such a device goes on with.
    """

    store: Store
    run: str
    lanes: int
    device: torch.device = CPU
    _started: tuple[float, float] = field(default_factory=lambda: (time.perf_counter(), time.process_time()))
    _earlier: dict[str, list[float]] = field(default_factory=dict)

    def stages(self, key: str) -> list[int]:
        """Stages of a cell that can be gone on from; a file that is damaged or another's is passed over, and named."""
        seconds = {}
        for path in self.store.pack_folder(key).glob(f"{self.run}.*.safetensors"):
            number = path.name.split(".")[1]
            checkpoint = self._load(path, key, int(number)) if number.isdecimal() else None
            if checkpoint is not None:
                seconds[int(number)] = checkpoint.facts["seconds"]
        self._earlier.setdefault(key, seconds[max(seconds)] if seconds else [0.0, 0.0])
        return sorted(seconds)

    def earlier(self, key: str) -> tuple[float, float]:
        """Wall and CPU seconds that interrupted runs had spent on a cell when it was first looked up here."""
        wall, cpu = self._earlier.get(key, (0.0, 0.0))
        return wall, cpu

    def read(self, key: str, stage: int) -> Checkpoint:
        """The checkpoint of a stage that ``stages`` has named; OSError if another run has taken it away meanwhile."""
        path = self._path(key, stage)
        checkpoint = self._load(path, key, stage)
        if checkpoint is None:
            raise OSError(f"{path}: changed while it was read")
        return checkpoint

    def write(self, stage: int, lanes: Mapping[str, Checkpoint]) -> None:
        """Keep the checkpoints of lanes that train together, by key; then remove their earlier stages.

        Later ones are of another run of the study, which has come further. Where a checkpoint cannot be written,
        training goes on, and a warning says so.
        """
        for key, checkpoint in lanes.items():
            if not put(self._path(key, stage), self._seal(key, stage, checkpoint)):
                return
        for key in lanes:
            for path in self.store.pack_folder(key).glob(f"{self.run}.*.safetensors"):
                number = path.name.split(".")[1]
                if not number.isdecimal() or int(number) < stage:
                    with suppress(OSError):
                        path.unlink()

    def _path(self, key: str, stage: int) -> Path:
        return self.store.pack_folder(key) / f"{self.run}.{stage}.safetensors"

    def _identity(self, key: str, stage: int) -> dict[str, Any]:
        """What must agree; another torch or another device may round otherwise, and a record names one."""
        device = None if self.device.type == "cpu" else name_of(self.device)
        facts = {"schema": SCHEMA, "key": key, "run": self.run, "stage": stage}
        return facts | {"torch": torch.__version__, "device": device}

    def _seal(self, key: str, stage: int, checkpoint: Checkpoint) -> bytes:
        """The bytes of a checkpoint with its identity, its checksum and the seconds that were spent on it so far."""
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in checkpoint.tensors.items()}
        now = time.perf_counter(), time.process_time()
        seconds = [(new - old) / self.lanes for new, old in zip(now, self._started, strict=True)]
        spent = [earlier + more for earlier, more in zip(self.earlier(key), seconds, strict=True)]
        text = json.dumps({**self._identity(key, stage), **checkpoint.facts, "seconds": spent}, allow_nan=False)
        return save(tensors, {"facts": text, "sha256": digest_of(tensors, text)})

    def _load(self, path: Path, key: str, stage: int) -> Checkpoint | None:
        """The content of a file, None with a warning when it is not what was written here."""
        try:
            disk.must_be_plain(path)
            with safe_open(path, "pt") as file:
                tensors = {name: file.get_tensor(name).clone() for name in file.keys()}
                text = file.metadata()["facts"]
                problem = "" if file.metadata()["sha256"] == digest_of(tensors, text) else "its checksum differs"
                facts = json.loads(text)
        except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
            problem, tensors, facts = f"{type(error).__name__}", {}, {}
        if not problem and (odd := [n for n, value in self._identity(key, stage).items() if facts.get(n) != value]):
            problem = f"another {odd[0]}"
        if problem:
            log.warning("%s: not a checkpoint of this cell (%s); it is ignored", path, problem)
            return None
        return Checkpoint(tensors, facts)
