"""Scores texts by the adapters and heads of tasks over the frozen backbone, which all of them share.

Tasks that make the same tokens of a text are lanes of a single pass through the backbone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor

from adapters_store import Store
from adapters_store.store import open_weights
from harness.scoring.answers import Answers, TextScorer
from harness.scoring.packs import Pack, Reading
from harness.scoring.scoring_tasks import ScoringTask, scoring_tasks, task_of_cell
from harness.study.backbones.backbone import Backbone, resolve
from harness.study.device import Device
from harness.study.methods import serves_lanes
from harness.training.inputs import Encoded, InputFormat
from harness.training.lanes.frozen import PRECISIONS, Frozen, freeze
from harness.training.lanes.state import LaneState, saved_adapter
from harness.training.model import load_backbone, stored_adapter
from harness.training.tokens.tokenizer import load_tokenizer
from tasks.errors import BadInput
from tasks.task import Example

MOST_LANES = 24  # of a pass: more save little time and need more memory
ALONE = (None, "sequential")  # compositions of cells whose own adapter is all that there is
HEAD_OUT = ("head.4.weight", "head.4.bias")


class NotServed(BadInput):
    """A task was trained with an adapter that lanes cannot compute."""


class Scorer(TextScorer):
    """Scores texts with the adapters of a study that the store has trained.

    >>> Scorer(store, manifest).score(["That sounds so hard."])                         # doctest: +SKIP
    """

    def __init__(
        self,
        store: Store,
        manifest: Mapping[str, Any],
        *,
        tasks: Sequence[str] = (),
        seed: int | None = None,
        cells: Sequence[str] = (),
        precision: str = "fp32",
        device: str = "auto",
    ) -> None:
        """Load the backbone of a study's ``manifest`` and the adapters of its ``tasks`` (all by default) of a seed.

        ``cells`` are keys of baselines and transfers that score instead, several of a task if need be. BadInput for a
        task that is unknown, not trained, or trained on a backbone with other weights.
        """
        if precision not in PRECISIONS:
            raise BadInput(f"precision {precision!r} is not one of {', '.join(PRECISIONS)}")
        self.store, self.precision, self.device = store, precision, Device(device).ready()
        chosen = [task_of_cell(store, manifest, key) for key in cells]
        self.tasks = chosen or scoring_tasks(store, manifest, tasks, seed)
        self.backbone = _backbone(str(manifest["study"]["backbone"]), self.tasks)
        self.pad_id = load_tokenizer(self.backbone).padding

    @cached_property
    def frozen(self) -> Frozen:
        """The encoder that all lanes share."""
        return freeze(load_backbone(self.backbone), PRECISIONS[self.precision], self.device)

    @cached_property
    def packs(self) -> list[Pack]:
        """The tasks by the shape of their adapters, which lanes must have in common."""
        alike: dict[str, list[ScoringTask]] = {}
        for task in self.tasks:
            alike.setdefault(json.dumps(task.record.spec["adapter"], sort_keys=True), []).append(task)
        chosen = [tuple(same[i : i + MOST_LANES]) for same in alike.values() for i in range(0, len(same), MOST_LANES)]
        return [
            Pack(tasks, tuple(map(_reading, tasks)), state_of(self.store, tasks).to(self.device)) for tasks in chosen
        ]

    @cached_property
    def readings(self) -> dict[str, Reading]:
        """How tasks read a text, by the name of the reading."""
        return {_reading(task): self._read_by(task) for task in self.tasks}

    def _read_by(self, task: ScoringTask) -> Reading:
        own, tokenizer = task.form, load_tokenizer(self.backbone)
        form = InputFormat(tokenizer, own["input_format"], own["tags"] or "none", own["max_tokens"], own["truncation"])
        return Reading.of(form, own["history"])

    def answers(self, rows: Sequence[Example]) -> list[Answers]:
        """Of every task logits ``[rows, outputs]`` and ``[rows]``, whether it read only a part of a row."""
        encoded = {name: reading.encode(rows) for name, reading in self.readings.items()}
        cut = {name: np.array([_is_cut(windows) for windows in own]) for name, own in encoded.items()}
        has_segments = self.backbone.model_type == "bert"
        answers = []
        for pack in self.packs:
            every = pack.logits(self.frozen, encoded, self.pad_id, has_segments=has_segments)
            answers += [
                Answers(task, logits[:, : task.outputs], cut[name])
                for task, name, logits in zip(pack.tasks, pack.readings, every, strict=True)
            ]
        order = {task.record.key: position for position, task in enumerate(self.tasks)}
        return sorted(answers, key=lambda answer: order[answer.task.record.key])


def _reading(task: ScoringTask) -> str:
    """The name of how a task reads a text: tasks with one name read alike."""
    return json.dumps(task.form, sort_keys=True)


def state_of(store: Store, tasks: Sequence[ScoringTask]) -> LaneState:
    """The stored adapters and heads of tasks as lanes; heads of fewer outputs are padded with zeros.

    NotServed for an adapter that lanes cannot compute.
    """
    weights = [_weights(store, task) for task in tasks]
    most = max(task.outputs for task in tasks)
    for tensors in weights:
        for name in HEAD_OUT:
            tensor = tensors[name]
            tensors[name] = torch.cat([tensor, tensor.new_zeros(most - len(tensor), *tensor.shape[1:])])
    names = list(weights[0])
    trained = {name: torch.stack([tensors[name] for tensors in weights]) for name in names}
    return LaneState(trained, _below(store, tasks, trained))


def _below(store: Store, tasks: Sequence[ScoringTask], trained: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The frozen adapters that cells of tasks stand on, zeros for those that stand alone; empty where all do.

    NotServed for a cell that stands on its intermediate in another way.
    """
    if all(task.record.spec.get("composition") in ALONE for task in tasks):
        return {}
    none = {name: torch.zeros(value.shape[1:]) for name, value in trained.items() if not name.startswith("head.")}
    banks = [_intermediate(store, task, none) for task in tasks]
    return {name: torch.stack([bank[name] for bank in banks]) for name in none}


def _intermediate(store: Store, task: ScoringTask, none: dict[str, Tensor]) -> dict[str, Tensor]:
    """The frozen adapter below a task's own, or ``none``."""
    spec = task.record.spec
    if spec.get("composition") in ALONE:
        return none
    key = spec["intermediate_key"]
    if spec["composition"] != "stack" or key is None:
        raise NotServed(f"task {task.name}: stands on {spec['intermediate']} as {spec['composition']}; leave it out")
    weights = load_file(stored_adapter(store, key) / "adapter.safetensors")
    bank = saved_adapter(weights, str(store.get(key).spec["target"]))
    if {name: value.shape for name, value in bank.items()} != {name: value.shape for name, value in none.items()}:
        raise NotServed(f"task {task.name}: stands on an adapter of another shape than its own; leave it out")
    return bank


def _weights(store: Store, task: ScoringTask) -> dict[str, Tensor]:
    """A task's adapter and head under the lanes' names."""
    settings = task.record.spec["adapter"]
    if settings is None or not serves_lanes(settings):
        what = settings["method"] if settings else "a whole model"
        raise NotServed(
            f"task {task.name}: trained with {what}, but texts are scored through seq_bn adapters; leave it out"
        )
    folder = stored_adapter(store, task.record.key)
    head = load_file(open_weights(store, task.record.key, "adapter/model_head.safetensors"))
    own = f"heads.{task.name}."
    adapter = saved_adapter(load_file(folder / "adapter.safetensors"), task.name)
    return adapter | {f"head.{name.removeprefix(own)}": tensor for name, tensor in head.items()}


def _backbone(name: str, tasks: Sequence[ScoringTask]) -> Backbone:
    backbone = resolve(name)
    for task in tasks:
        if (most := int(task.form["max_tokens"])) > backbone.max_tokens:
            raise BadInput(f"task {task.name}: reads {most} tokens, but backbone {name!r} takes {backbone.max_tokens}")
        if unlike := backbone.unlike(task.record.spec["backbone"]):
            how = "imported" if task.is_imported else "trained"
            raise BadInput(f"task {task.name}: {how} on another backbone than {name!r} is here ({unlike})")
    return backbone


def _is_cut(windows: Sequence[Encoded]) -> bool:
    return any(window.is_history_cut or window.is_target_cut for window in windows)
