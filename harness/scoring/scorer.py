"""Scores texts by the adapters and heads of tasks over the frozen backbone, which all of them share.

Tasks that read a text in the same format are lanes of a single pass through the backbone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file
from torch import Tensor

from adapters_store import Store
from adapters_store.store import open_weights
from harness.scoring.scoring_tasks import ScoringTask, scoring_tasks
from harness.study.backbones.backbone import Backbone, resolve
from harness.study.device import Device
from harness.study.methods import serves_lanes
from harness.training.inputs import Encoded, InputFormat
from harness.training.lanes.fit import predicted
from harness.training.lanes.forward import Lanes
from harness.training.lanes.frozen import PRECISIONS, Frozen, freeze
from harness.training.lanes.state import LaneState, saved_adapter
from harness.training.model import load_backbone, stored_adapter
from harness.training.tensors import CPU
from harness.training.tokens.tokenizer import load_tokenizer
from tasks import metrics
from tasks.errors import BadInput
from tasks.readers.rows import kept_turns
from tasks.task import Example, Turn

COLUMNS = {
    "id": "str",
    "task": "str",
    "prediction": "str",
    "value": "float64",
    "probability": "float64",
    "probabilities": "str",
    "is_cut": "bool",
}
MOST_LANES = 24  # of a pass: more save little time and need more memory
HEAD_OUT = ("head.4.weight", "head.4.bias")


class NotServed(BadInput):
    """A task was trained with an adapter that lanes cannot compute."""


@dataclass(frozen=True)
class Group:
    """Tasks that read a text as the same tokens, as lanes."""

    form: InputFormat
    turns: slice
    tasks: tuple[ScoringTask, ...]
    lanes: Lanes


class Scorer:
    """Scores texts with the tasks of a study that the store has trained.

    >>> Scorer(store, manifest).score(["That sounds so hard."])                         # doctest: +SKIP
    """

    def __init__(
        self,
        store: Store,
        manifest: Mapping[str, Any],
        *,
        tasks: Sequence[str] = (),
        seed: int | None = None,
        precision: str = "fp32",
        device: str = "auto",
    ) -> None:
        """Load the backbone of a study's ``manifest`` and the adapters of its ``tasks`` (all by default) of a seed.

        BadInput for a task that is unknown, not trained, or trained on a backbone with other weights.
        """
        if precision not in PRECISIONS:
            raise BadInput(f"precision {precision!r} is not one of {', '.join(PRECISIONS)}")
        self.store, self.precision, self.device = store, precision, Device(device).ready()
        self.tasks = scoring_tasks(store, manifest, tasks, seed)
        self.backbone = _backbone(str(manifest["study"]["backbone"]), self.tasks)
        self.pad_id = load_tokenizer(self.backbone).padding

    @cached_property
    def frozen(self) -> Frozen:
        """The encoder that all lanes share."""
        return freeze(load_backbone(self.backbone), PRECISIONS[self.precision], self.device)

    @cached_property
    def groups(self) -> list[Group]:
        """The tasks by what their lanes must have in common: input format, history and adapter shape."""
        alike: dict[str, list[ScoringTask]] = {}
        for task in self.tasks:
            alike.setdefault(json.dumps([task.form, task.record.spec["adapter"]], sort_keys=True), []).append(task)
        packs = [tuple(same[i : i + MOST_LANES]) for same in alike.values() for i in range(0, len(same), MOST_LANES)]
        return [self._group(pack) for pack in packs]

    def _group(self, tasks: tuple[ScoringTask, ...]) -> Group:
        shared = tasks[0].form
        form = InputFormat(
            load_tokenizer(self.backbone),
            shared["input_format"],
            shared["tags"] or "none",
            shared["max_tokens"],
            shared["truncation"],
        )
        return Group(form, kept_turns(shared["history"]), tasks, lanes_of(self.store, tasks, self.device))

    def score(
        self, texts: Sequence[str], contexts: Sequence[str | Sequence[str]] = (), ids: Sequence[str] = ()
    ) -> pd.DataFrame:
        """A row per text and task, sorted by text, with ``COLUMNS``.

        ``contexts`` are the earlier turns, a turn or a list of turns for each text; ``ids`` are by default the numbers
        of the texts from 0. ``prediction`` is a class, several classes joined by ``|``, or a number; ``value`` is a
        number in the label's own scale, ``probability`` that of the predicted class, ``probabilities`` those of all
        classes as JSON. BadInput for a text without words.
        """
        if contexts and len(contexts) != len(texts):
            raise BadInput(f"{len(contexts)} contexts for {len(texts)} texts; give one for each, which may be empty")
        for number, text in enumerate(texts):
            if not text.strip():
                raise BadInput(f"text {number} is empty; leave it out")
        names = ids or [str(number) for number in range(len(texts))]
        rows = [_example(*parts) for parts in zip(names, texts, contexts or [""] * len(texts), strict=True)]
        frames = [self._scores(task, names, logits, cut) for task, logits, cut in self.logits(rows)] if rows else []
        frame = pd.concat(frames).sort_index(kind="stable") if frames else pd.DataFrame(columns=list(COLUMNS))
        return frame.reset_index(drop=True)[list(COLUMNS)].astype(COLUMNS)

    def logits(self, rows: Sequence[Example]) -> list[tuple[ScoringTask, NDArray[np.float32], NDArray[np.bool_]]]:
        """Every task with its logits ``[rows, outputs]`` and ``[rows]``, whether it read only a part of a row."""
        answers = []
        for group in self.groups:
            encoded = group.form.encode_all([row._replace(context=row.context[group.turns]) for row in rows])
            every = predicted(
                self.frozen,
                group.lanes,
                encoded,
                self.pad_id,
                has_segments=self.backbone.model_type == "bert",
            )
            cut = np.array([_is_cut(windows) for windows in encoded])
            answers += [(task, every[lane, :, : task.outputs], cut) for lane, task in enumerate(group.tasks)]
        order = {task.name: position for position, task in enumerate(self.tasks)}
        return sorted(answers, key=lambda answer: order[answer[0].name])

    @staticmethod
    def _scores(
        task: ScoringTask, ids: Sequence[str], logits: NDArray[np.float32], cut: NDArray[np.bool_]
    ) -> pd.DataFrame:
        decisions = metrics.decisions(task.metric, logits)
        answers = [_answer(task, row, decision) for row, decision in zip(logits, decisions, strict=True)]
        frame = pd.DataFrame(answers, columns=["prediction", "value", "probability", "probabilities"])
        return frame.assign(id=list(ids), task=task.name, is_cut=cut)


def lanes_of(store: Store, tasks: Sequence[ScoringTask], device: torch.device = CPU) -> Lanes:
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
    depth = sum(name.endswith("adapter_up.weight") for name in names)
    trained = {name: torch.stack([tensors[name] for tensors in weights]) for name in names}
    return LaneState(trained, {}, depth).to(device).lanes()


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


def _example(id: str, text: str, context: str | Sequence[str]) -> Example:
    earlier = [context] if isinstance(context, str) else context
    turns = tuple(Turn("speaker", turn) for turn in earlier if turn.strip())
    return Example(id, id, id, turns, text, 0)


def _is_cut(windows: Sequence[Encoded]) -> bool:
    return any(window.is_history_cut or window.is_target_cut for window in windows)


def _answer(
    task: ScoringTask,
    logits: NDArray[np.float32],
    decision: Any,  # noqa: ANN401 - a class, a 0 or 1 per class, or a number
) -> tuple[str, float | None, float | None, str]:
    """Prediction, value, probability of what is predicted, and all probabilities as JSON."""
    if task.kind == "continuous":
        return f"{float(decision):.6g}", float(decision), None, ""
    outputs = torch.from_numpy(np.ascontiguousarray(logits, dtype=np.float64))
    shares = (outputs.sigmoid() if task.kind == "multilabel" else outputs.softmax(dim=0)).tolist()
    every = json.dumps(
        {name: round(share, 6) for name, share in zip(task.names, shares, strict=True)}, ensure_ascii=False
    )
    if task.kind == "multilabel":
        return "|".join(name for name, is_on in zip(task.names, decision, strict=True) if is_on), None, None, every
    return task.names[int(decision)], None, shares[int(decision)], every
