"""All chosen tasks' adapters and heads over the frozen backbone: tasks of one input format are lanes of one pass."""

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
from harness.scoring.chosen import Chosen, chosen
from harness.study.backbones.backbone import Backbone, resolve
from harness.study.device import Device
from harness.study.methods import serves_lanes
from harness.training.inputs import Encoded, InputFormat
from harness.training.lanes.fit import predicted
from harness.training.lanes.forward import Lanes
from harness.training.lanes.frozen import PRECISIONS, Frozen, freeze
from harness.training.lanes.state import LaneState, saved_adapter
from harness.training.model import load_backbone, load_tokenizer, stored_adapter
from harness.training.tensors import CPU
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
MOST_LANES = 24  # of one pass: more save little and need more memory
HEAD_OUT = ("head.4.weight", "head.4.bias")


class NotServed(BadInput):
    """A task was trained in a way that cannot score new texts here."""


@dataclass(frozen=True)
class Group:
    """Tasks whose texts become the same tokens, as lanes."""

    form: InputFormat
    turns: slice
    tasks: tuple[Chosen, ...]
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

        BadInput for what is unknown, not trained, or trained on another backbone than is here.
        """
        if precision not in PRECISIONS:
            raise BadInput(f"precision {precision!r} is not one of {', '.join(PRECISIONS)}")
        self.store, self.precision, self.device = store, precision, Device(device).ready()
        self.tasks = chosen(store, manifest, tasks, seed)
        self.backbone = _backbone(str(manifest["study"]["backbone"]), self.tasks)
        self.pad_id = int(load_tokenizer(self.backbone).pad_token_id)

    @cached_property
    def frozen(self) -> Frozen:
        """The encoder that all lanes share."""
        return freeze(load_backbone(self.backbone), PRECISIONS[self.precision], self.device)

    @cached_property
    def groups(self) -> list[Group]:
        """The tasks by what makes their lanes alike: input format, history and adapter shape."""
        alike: dict[str, list[Chosen]] = {}
        for one in self.tasks:
            alike.setdefault(json.dumps([one.form, one.record.spec["adapter"]], sort_keys=True), []).append(one)
        packs = [tuple(same[i : i + MOST_LANES]) for same in alike.values() for i in range(0, len(same), MOST_LANES)]
        return [self._group(pack) for pack in packs]

    def _group(self, tasks: tuple[Chosen, ...]) -> Group:
        said = tasks[0].form
        form = InputFormat(
            load_tokenizer(self.backbone),
            said["input_format"],
            said["tags"] or "none",
            said["max_tokens"],
            said["truncation"],
        )
        return Group(form, kept_turns(said["history"]), tasks, lanes_of(self.store, tasks, self.device))

    def score(
        self, texts: Sequence[str], contexts: Sequence[str | Sequence[str]] = (), ids: Sequence[str] = ()
    ) -> pd.DataFrame:
        """One row per text and task, by text: ``COLUMNS``.

        ``contexts`` are what was said before, one turn or a list of turns for each text; ``ids`` are by default the
        numbers of the texts from 0. ``prediction`` is a class, several joined by ``|``, or a number; ``value`` is a
        number in the label's own scale, ``probability`` that of the predicted class, ``probabilities`` those of all as
        JSON. BadInput for a text without words.
        """
        if contexts and len(contexts) != len(texts):
            raise BadInput(f"{len(contexts)} contexts for {len(texts)} texts; give one for each, which may be empty")
        for number, text in enumerate(texts):
            if not text.strip():
                raise BadInput(f"text {number} is empty; leave it out")
        names = ids or [str(number) for number in range(len(texts))]
        rows = [_example(*one) for one in zip(names, texts, contexts or [""] * len(texts), strict=True)]
        frames = [self._told(one, names, logits, cut) for one, logits, cut in self.logits(rows)] if rows else []
        frame = pd.concat(frames).sort_index(kind="stable") if frames else pd.DataFrame(columns=list(COLUMNS))
        return frame.reset_index(drop=True)[list(COLUMNS)].astype(COLUMNS)

    def logits(self, rows: Sequence[Example]) -> list[tuple[Chosen, NDArray[np.float32], NDArray[np.bool_]]]:
        """Every task with its logits ``[rows, outputs]`` and which rows it read only a part of."""
        found = []
        for group in self.groups:
            encoded = [group.form.encode(row._replace(context=row.context[group.turns])) for row in rows]
            every = predicted(
                self.frozen,
                group.lanes,
                encoded,
                self.pad_id,
                has_segments=self.backbone.model_type == "bert",
            )
            cut = np.array([_is_cut(windows) for windows in encoded])
            found += [(one, every[lane, :, : one.outputs], cut) for lane, one in enumerate(group.tasks)]
        order = {one.task: place for place, one in enumerate(self.tasks)}
        return sorted(found, key=lambda one: order[one[0].task])

    @staticmethod
    def _told(one: Chosen, ids: Sequence[str], logits: NDArray[np.float32], cut: NDArray[np.bool_]) -> pd.DataFrame:
        answers = [_answer(one, row, decided) for row, decided in zip(logits, _decided(one, logits), strict=True)]
        frame = pd.DataFrame(answers, columns=["prediction", "value", "probability", "probabilities"])
        return frame.assign(id=list(ids), task=one.task, is_cut=cut)


def lanes_of(store: Store, tasks: Sequence[Chosen], device: torch.device = CPU) -> Lanes:
    """The stored adapters and heads of tasks as lanes; heads of fewer outputs are filled up with zeros.

    NotServed for an adapter whose mathematics the lanes have not.
    """
    weights = [_weights(store, one) for one in tasks]
    most = max(one.outputs for one in tasks)
    for one in weights:
        for name in HEAD_OUT:
            value = one[name]
            one[name] = torch.cat([value, value.new_zeros(most - len(value), *value.shape[1:])])
    names = list(weights[0])
    depth = sum(name.endswith("adapter_up.weight") for name in names)
    trained = {name: torch.stack([one[name] for one in weights]) for name in names}
    return LaneState(trained, {}, depth).to(device).lanes()


def _weights(store: Store, one: Chosen) -> dict[str, Tensor]:
    """A task's adapter and head under the lanes' names."""
    settings = one.record.spec["adapter"]
    if settings is None or not serves_lanes(settings):
        what = settings["method"] if settings else "a whole model"
        raise NotServed(
            f"task {one.task}: trained with {what}, but texts are scored through seq_bn adapters; leave it out"
        )
    folder = stored_adapter(store, one.record.key)
    head = load_file(open_weights(store, one.record.key, "adapter/model_head.safetensors"))
    own = f"heads.{one.task}."
    adapter = saved_adapter(load_file(folder / "adapter.safetensors"), one.task)
    return adapter | {f"head.{name.removeprefix(own)}": value for name, value in head.items()}


def _backbone(name: str, tasks: Sequence[Chosen]) -> Backbone:
    backbone = resolve(name)
    for one in tasks:
        if (most := int(one.form["max_tokens"])) > backbone.max_tokens:
            raise BadInput(f"task {one.task}: reads {most} tokens, but backbone {name!r} takes {backbone.max_tokens}")
        if unlike := backbone.unlike(one.record.spec["backbone"]):
            made = "imported" if one.is_imported else "trained"
            raise BadInput(f"task {one.task}: {made} on another backbone than {name!r} is here ({unlike})")
    return backbone


def _example(id: str, text: str, context: str | Sequence[str]) -> Example:
    said = [context] if isinstance(context, str) else context
    turns = tuple(Turn("speaker", one) for one in said if one.strip())
    return Example(id, id, id, turns, text, 0)


def _is_cut(windows: Sequence[Encoded]) -> bool:
    return any(window.is_history_cut or window.is_target_cut for window in windows)


def _decided(one: Chosen, logits: NDArray[np.float32]) -> NDArray[Any]:
    return metrics.decisions(one.metric, logits)


def _answer(one: Chosen, logits: NDArray[np.float32], decided: Any) -> tuple[str, float | None, float | None, str]:  # noqa: ANN401
    """Prediction, value, probability of what is predicted, and all probabilities as JSON."""
    if one.kind == "continuous":
        return f"{float(decided):.6g}", float(decided), None, ""
    values = torch.from_numpy(np.ascontiguousarray(logits, dtype=np.float64))
    shares = (values.sigmoid() if one.kind == "multilabel" else values.softmax(dim=0)).tolist()
    every = json.dumps(
        {name: round(share, 6) for name, share in zip(one.names, shares, strict=True)}, ensure_ascii=False
    )
    if one.kind == "multilabel":
        return "|".join(name for name, is_on in zip(one.names, decided, strict=True) if is_on), None, None, every
    return one.names[int(decided)], None, shares[int(decided)], every
