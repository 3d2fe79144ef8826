"""The training on a closed node: torch, numpy and safetensors, no network, no text, for as long as it is told.

    python part-1/train.py --minutes 10

It goes on from where it was, and leaves outcomes of finished cells in ``out``: predictions and histories, no
weights.

What is carried is a plan and tensors, in parts that are each small enough to be carried by itself. ``part-1`` has
the plan, the encoder's config, this project's own source and ``train.py``; every part has tensors. Rows go as token
ids: no text, no id and no group of a row, and no label of a test row, is among them.
"""

import argparse
import json
import platform
import socket
import sys
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import safetensors
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional

from adapters_store import Store
from adapters_store.disk import atomic
from harness.study.backbone import Backbone
from harness.study.cell import Cell
from harness.study.device import Device, let_torch_use
from harness.training.checkpoint import Checkpoints
from harness.training.inputs import Encoded
from harness.training.lanes.fit import LaneTrainer
from harness.training.lanes.frozen import PRECISIONS, freeze
from harness.training.lanes.state import beginning
from harness.training.lanes.train import LaneAttempt
from harness.training.recipe import Attempt, Part, Recipe, finite
from harness.training.tensors import digest_of, name_of
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
class TrainedCell:
    """One trained cell: its logits by split, and facts as plain JSON (history, proofs, seconds, provenance)."""

    logits: Mapping[str, Tensor]
    facts: Mapping[str, Any]


def write_outcomes(path: Path, outcomes: Mapping[str, TrainedCell]) -> None:
    """Write outcomes by key into one file, which is whole or not there."""
    tensors = {
        f"{key}/{name}": value.contiguous() for key, cell in outcomes.items() for name, value in cell.logits.items()
    }
    facts = json.dumps({key: cell.facts for key, cell in outcomes.items()}, allow_nan=False)
    with atomic(path) as part:
        save_file(tensors, part, {"schema": str(SCHEMA), "facts": facts, "digest": digest(tensors)})


def read_outcomes(paths: Sequence[Path]) -> Iterator[tuple[Path, str, TrainedCell]]:
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
        for key, cell_facts in facts.items():
            start = f"{key}/"
            logits = {name.removeprefix(start): value for name, value in tensors.items() if name.startswith(start)}
            yield path, key, TrainedCell(logits, cell_facts)


# The frozen encoder without the library that has it: BERT and RoBERTa from named tensors, in torch alone, as far as
# ``harness.training.lanes.frozen`` takes them apart, under the library's names.
ACTIVATIONS = {"gelu": functional.gelu, "relu": functional.relu}
FIELDS = (
    *("model_type", "hidden_size", "num_hidden_layers", "num_attention_heads", "max_position_embeddings"),
    *("hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout", "layer_norm_eps"),
    *("hidden_act", "pad_token_id"),
)
PARTS = ("embeddings.", "encoder.")  # what the names of its tensors start with


class Embeddings(nn.Module):
    """Words, positions and segments, added and normed; RoBERTa counts positions from its padding id on."""

    def __init__(self, config: SimpleNamespace, tensors: Mapping[str, Tensor]) -> None:
        """Take the tensors whose names start with ``embeddings.``."""
        super().__init__()
        self.pads_first = config.model_type != "bert"
        self.pad = config.pad_token_id
        for name in ("word_embeddings", "position_embeddings", "token_type_embeddings"):
            self.register_buffer(name, tensors[f"embeddings.{name}.weight"])
        self.LayerNorm = _norm(config, tensors, "embeddings.LayerNorm")

    def forward(self, input_ids: Tensor, token_type_ids: Tensor | None = None) -> Tensor:
        """``[b, t, d]`` of token ids and segments ``[b, t]``; without segments all are 0."""
        if self.pads_first:
            mask = (input_ids != self.pad).int()
            positions = (mask.cumsum(1).type_as(mask) * mask).long() + self.pad
        else:
            positions = torch.arange(input_ids.shape[1], device=input_ids.device).unsqueeze(0)
        segments = torch.zeros_like(input_ids) if token_type_ids is None else token_type_ids
        words = functional.embedding(input_ids, self.word_embeddings)  # type: ignore[arg-type]
        words = words + functional.embedding(segments, self.token_type_embeddings)  # type: ignore[arg-type]
        words = words + functional.embedding(positions, self.position_embeddings)  # type: ignore[arg-type]
        normed: Tensor = self.LayerNorm(words)
        return normed


def _layer(config: SimpleNamespace, tensors: Mapping[str, Tensor], name: str) -> SimpleNamespace:
    def dense(part: str) -> nn.Linear:
        weight, bias = tensors[f"{name}.{part}.weight"], tensors[f"{name}.{part}.bias"]
        made = nn.Linear(weight.shape[1], weight.shape[0], device="meta")
        made.weight, made.bias = (nn.Parameter(value, requires_grad=False) for value in (weight, bias))
        return made

    attention = SimpleNamespace(
        num_attention_heads=config.num_attention_heads,
        attention_head_size=config.hidden_size // config.num_attention_heads,
        **{part: dense(f"attention.self.{part}") for part in ("query", "key", "value")},
    )
    attended = SimpleNamespace(
        dense=dense("attention.output.dense"), LayerNorm=_norm(config, tensors, f"{name}.attention.output.LayerNorm")
    )
    return SimpleNamespace(
        attention=SimpleNamespace(self=attention, output=attended),
        intermediate=SimpleNamespace(
            dense=dense("intermediate.dense"), intermediate_act_fn=ACTIVATIONS[config.hidden_act]
        ),
        output=SimpleNamespace(
            dense=dense("output.dense"), LayerNorm=_norm(config, tensors, f"{name}.output.LayerNorm")
        ),
    )


def _norm(config: SimpleNamespace, tensors: Mapping[str, Tensor], name: str) -> nn.LayerNorm:
    weight, bias = tensors[f"{name}.weight"], tensors[f"{name}.bias"]
    made = nn.LayerNorm(weight.shape[0], eps=config.layer_norm_eps, device="meta")
    made.weight, made.bias = (nn.Parameter(value, requires_grad=False) for value in (weight, bias))
    return made


MOST = 15 * MEGABYTE  # bytes of one file of outcomes
RUN = "fold-1"  # the name of the first training of a cell, as attempts have it


class TimeIsUp(Exception):
    """The minutes are over; every lane has its checkpoint."""


@dataclass(frozen=True)
class CarriedBackbone(Backbone):
    """The backbone as it is known there: its config lies in part-1, its weights (``size`` bytes) apart."""

    size: int = 0

    @property
    def weight_bytes(self) -> int:
        """The size of the weights' file where it was packed."""
        return self.size


def main(folder: Path, arguments: Sequence[str] | None = None) -> int:
    """Train what has no outcome yet; exit code 0 when all is trained, 3 when time was up before, 2 for bad input."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop after the epoch in which they end")
    parser.add_argument("--device", default="auto", help="cpu, cuda or cuda:N (default: the first GPU that there is)")
    parser.add_argument("--threads", type=int, help="of torch (default: as many as it takes)")
    parser.add_argument("--out", type=Path, default=folder / "out", help="folder of outcomes (default: out)")
    options = parser.parse_args(arguments)
    if options.threads:
        let_torch_use(options.threads)
        torch.set_num_threads(options.threads)
    started = time.monotonic()
    try:
        job = TimedCall(
            Parcel(folder), folder / "state", options.out, Device(options.device), started + 60 * options.minutes
        )
        left = job.train()
    except BadInput as problem:
        print(problem, file=sys.stderr)
        return 2
    minutes = (time.monotonic() - started) / 60
    print(f"{job.trained} cells trained in {minutes:.1f} minutes, {left} left; outcomes in {options.out}")
    return 3 if left else 0


@dataclass
class TimedCall:
    """One call: what is trained before the clock reads ``until``. ``state`` has checkpoints and adapters that stay."""

    parcel: Parcel
    state: Path
    out: Path
    device: Device
    until: float
    trained: int = 0
    _new: dict[str, TrainedCell] = field(default_factory=dict)  # of the file that is being filled
    _begun: dict[str, int] = field(default_factory=dict)  # the epoch at which each training was taken up
    _name: str = field(default_factory=lambda: uuid.uuid4().hex[:8])

    def train(self) -> int:
        """Train pack by pack; how many cells are left."""
        packs = [(pack, self._missing(pack)) for pack in self.parcel.plan["packs"]]
        left = sum(len(cells) for _, cells in packs)
        for pack, cells in packs:
            if self.trained and time.monotonic() > self.until:
                break
            try:
                if cells:
                    self._train(pack, cells)
            except TimeIsUp:
                break
            left -= len(cells)
        return left

    @cached_property
    def _network(self) -> Any:  # noqa: ANN401
        config = json.loads((part_of(self.parcel.folder, 1) / CONFIG).read_text(encoding="utf-8"))
        # what ``freeze`` takes apart, from FIELDS of a config and tensors whose names start with PARTS
        tensors = self.parcel.group("backbone")
        settings = SimpleNamespace(**config)
        layers = [_layer(settings, tensors, f"encoder.layer.{depth}") for depth in range(settings.num_hidden_layers)]
        embeddings = Embeddings(settings, tensors)
        base = SimpleNamespace(embeddings=embeddings, encoder=SimpleNamespace(layer=layers), parameters=list)
        return SimpleNamespace(base_model=base, config=settings)

    def _missing(self, pack: Mapping[str, Any]) -> list[Cell]:
        """The cells of a pack that have no outcome, or whose adapter has gone that others need."""
        cells = [Cell(**fields) for fields in pack["cells"]]
        gone = {key for key in self._needed if not self._adapter(key).exists()}
        return [cell for cell in cells if cell.key not in self._outcomes or cell.key in gone]

    @cached_property
    def _outcomes(self) -> set[str]:
        """Cells that had an outcome when this call began."""
        return {key for _, key, _ in read_outcomes(sorted(self.out.glob("*.safetensors")))}

    @cached_property
    def _needed(self) -> set[str]:
        """Cells on which others stand that had no outcome when this call began."""
        grounds = [(key, ground) for pack in self.parcel.plan["packs"] for key, ground in pack["stands_on"].items()]
        return {ground["cell"] for key, ground in grounds if "cell" in ground and key not in self._outcomes}

    def _adapter(self, key: str) -> Path:
        """Where the adapter of a cell is kept on which others stand."""
        return self.state / "adapters" / f"{key}.safetensors"

    def _train(self, pack: Mapping[str, Any], cells: Sequence[Cell]) -> None:
        """Train the cells of a pack as lanes, from their checkpoints where there are any."""
        clocks = _clocks()
        device = self.device.ready()
        parts = {name: part_from(self.parcel.group(rows)) for name, rows in pack["rows"].items()}
        plan = self.parcel.plan
        backbone = CarriedBackbone(**plan["backbone"], folder=part_of(self.parcel.folder, 1), size=plan["weight_bytes"])
        no_texts: Any = None  # rows are carried as they are encoded
        attempt = Attempt(cells, Recipe.of(cells), backbone, no_texts, Store(self.state), self._watch, self.device, RUN)
        points = Checkpoints(attempt.store, RUN, len(cells), device)

        def begin(attempt: Attempt, padding: int, device: torch.device) -> LaneTrainer:
            recipe, below = attempt.recipe, [self._below(pack, cell) for cell in attempt.cells]
            state = beginning(self._start(pack["start"]), below, recipe.composition or "stack").to(device)
            frozen = freeze(self._network, PRECISIONS[recipe.precision], device)
            return LaneTrainer(frozen, state, recipe, padding, has_segments=backbone.model_type == "bert")

        finished = LaneAttempt(attempt, parts, pack["padding"], points, device, begin).train()
        for cell, lane in zip(cells, finished, strict=True):
            if cell.key in self._needed:  # cells without an outcome stand on this adapter
                weights = {name: value for name, value in lane.weights.items() if not name.startswith("head.")}
                with atomic(self._adapter(cell.key)) as part:
                    save_file(weights, part)
        spent = [(now - then) / len(cells) for now, then in zip(_clocks(), clocks, strict=True)]
        for cell, lane in zip(cells, finished, strict=True):
            seconds = [now + before for now, before in zip(spent, points.earlier(cell.key), strict=True)]
            origin = self._provenance(len(cells), lane.lanes, seconds, device)
            facts = {  # what goes home of a lane: everything but its weights
                "rows": pack["rows"],
                "best_epoch": lane.fitted.best_epoch,
                "validation": finite(lane.fitted.validation),
                "history": lane.fitted.history,
                "proofs": lane.proofs,
                "provenance": origin,
            }
            logits = {name: torch.from_numpy(values.copy()) for name, values in lane.logits.items()}
            self._new[cell.key] = TrainedCell(logits, facts)
        self.trained += len(cells)
        # write the outcomes of this call; a file that has become large is left behind, and another begun
        path = self.out / f"outcomes-{self._name}.safetensors"
        write_outcomes(path, self._new)
        if path.stat().st_size > MOST / 2:
            self._new, self._name = {}, uuid.uuid4().hex[:8]
        for cell in cells:
            attempt.store.drop_pack(cell.key)

    def _start(self, about: Mapping[str, Any]) -> dict[str, Tensor]:
        tensors = self.parcel.group(about["tensors"])
        return {name: tensors[name] for name in about["names"]}

    def _below(self, pack: Mapping[str, Any], cell: Cell) -> dict[str, Tensor] | None:
        """What a cell stands on: trained here before, or carried; None for a baseline."""
        if cell.intermediate is None:
            return None
        ground = pack["stands_on"][cell.key]
        return load_file(self._adapter(ground["cell"])) if "cell" in ground else self._start(ground)

    def _watch(self, label: str, epoch: int, epochs: int) -> None:
        """Hear of the epoch at which a training is taken up, and of each that ends; TimeIsUp after one of those."""
        print(f"{datetime.now(UTC):%H:%M:%S} {label}: epoch {epoch} of {epochs}", flush=True)
        begun = self._begun.setdefault(label, epoch)
        if begun < epoch < epochs and time.monotonic() > self.until:
            raise TimeIsUp

    def _provenance(self, lanes: int, chunk: int, spent: Sequence[float], device: torch.device) -> dict[str, Any]:
        plan = self.parcel.plan
        here = {"python": platform.python_version(), "torch": torch.__version__, "numpy": np.__version__}
        return {
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "host": socket.gethostname(),
            "device": name_of(device),
            "threads": torch.get_num_threads(),
            "lanes": lanes,
            "chunk": chunk,
            "wall_seconds": round(spent[0], 3),
            "cpu_seconds": round(spent[1], 3),
            "versions": plan["versions"] | here | {"safetensors": safetensors.__version__},
            "code": plan["code"],
        }


def _clocks() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()
