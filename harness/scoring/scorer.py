"""Scores texts by the adapters and heads of tasks over the frozen backbone, which all of them share.

Tasks that make the same tokens of a text are lanes of a single pass through the backbone.

Rows stand one behind the other as the tokens of a single long row: a dense layer, a norm or an adapter does not care
whose token it computes. Attention alone does; it is computed of rows of the same length together, so that nobody
needs a mask. The mathematics is that of ``harness/training/lanes/forward.py``. Every different sequence of tokens is
computed once: of a text without earlier turns most tasks make the same, and a corpus says some things many times.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional

from adapters_store import Store
from adapters_store.store import open_weights
from harness.scoring.answers import ScoringTask, TaskAnswers, TextScorer, scoring_tasks, task_of_cell
from harness.study.backbone import resolve
from harness.study.device import Device
from harness.study.methods import serves_lanes
from harness.training.batches import GRID, collate
from harness.training.inputs import Encoded, InputFormat
from harness.training.lanes.fit import predicted
from harness.training.lanes.forward import Lanes
from harness.training.lanes.frozen import PRECISIONS, AllTokens, Frozen, Layer, freeze, multiplied
from harness.training.lanes.state import LaneState, saved_adapter
from harness.training.model import load_backbone, stored_adapter
from harness.training.tokenizer import load_tokenizer
from tasks.errors import BadInput
from tasks.readers.rows import kept_turns
from tasks.task import Example

TOKENS = 3072  # of all lanes in one pass: what a layer makes of more no longer fits into a processor's nearer memory
FEWEST = 128  # of one lane, however many there are: products of fewer rows are slower


@dataclass(frozen=True)
class Run:
    """``rows`` rows of ``length`` tokens each, one behind the other from token ``start``."""

    start: int
    rows: int
    length: int

    @property
    def tokens(self) -> slice:
        """Where its tokens stand."""
        return slice(self.start, self.start + self.rows * self.length)


def scored(frozen: Frozen, lanes: Lanes, rows: Sequence[Encoded], pad_id: int, *, has_segments: bool) -> Tensor:
    """Logits ``[K, rows, outputs]`` of lanes in the encoder's precision, in the order of ``rows``."""
    lengths = [len(row.ids) for row in rows]
    out = torch.empty(lanes.count, len(rows), lanes.heads.out.shape[1])
    with torch.inference_mode():
        for numbers in passes(lengths, max(FEWEST, TOKENS // lanes.count)):
            batch = collate([rows[i] for i in numbers], pad_id, has_segments=has_segments)
            out[:, numbers] = _pass(frozen, lanes, batch, runs([lengths[i] for i in numbers])).float()
    return out


def passes(lengths: Sequence[int], tokens: int) -> Iterator[list[int]]:
    """Row numbers from long to short, as many a pass as have at most ``tokens`` tokens together, and at least one."""
    numbers: list[int] = []
    used = 0
    for row in sorted(range(len(lengths)), key=lambda number: -lengths[number]):
        if numbers and used + lengths[row] > tokens:
            yield numbers
            numbers, used = [], 0
        numbers.append(row)
        used += lengths[row]
    if numbers:
        yield numbers


def runs(lengths: Sequence[int]) -> list[Run]:
    """Rows that stand in this order, by length, which never rises."""
    made: list[Run] = []
    start = 0
    for length, rows in groupby(lengths):
        made.append(Run(start, len(list(rows)), length))
        start = made[-1].tokens.stop
    return made


def _pass(frozen: Frozen, lanes: Lanes, batch: dict[str, Tensor], rows: Sequence[Run]) -> Tensor:
    """Logits ``[K, rows, outputs]`` of one padded batch, whose rows are those of the runs."""
    kept = batch.pop("attention_mask").bool()
    embedded = frozen.embed(**batch)[kept]
    # oneDNN makes and keeps a kernel for every number of rows there is: rows of zeros fill up to a few numbers.
    hidden = functional.pad(embedded, (0, 0, 0, -len(embedded) % (4 * GRID)))[None, None]
    for depth, layer in enumerate(frozen.layers):
        hidden = _block(frozen, layer, lanes, depth, hidden, rows)
    return lanes.heads(hidden[:, 0].to(lanes.heads.dense.dtype), None)


def _block(frozen: Frozen, layer: Layer, lanes: Lanes, depth: int, hidden: Tensor, rows: Sequence[Run]) -> Tensor:
    """One layer, ``[K or 1, 1, tokens, d]`` to ``[K, 1, tokens, d]``, of the last ``[K, 1, rows, d]``: first tokens."""
    if isinstance(layer.attention, AllTokens):
        context = _attend(layer.attention, hidden, rows)
    else:
        exact = torch.zeros(1, 1, 1, 1, dtype=torch.promote_types(hidden.dtype, torch.float32))
        parts = [layer.attention(_rows_of(hidden, run), exact, None) for run in rows]
        context = torch.cat(parts, dim=1).transpose(1, 2)
        hidden = hidden[:, :, [token for run in rows for token in range(run.start, run.tokens.stop, run.length)]]
    hidden = layer.attention_norm(layer.attended(context).add_(hidden))
    # what the activation makes of a dense layer
    is_gelu = type(frozen.activation).__name__ == "GELUActivation"
    total = layer.down(layer.up.gelu(hidden) if is_gelu else frozen.activation(layer.up(hidden))).add_(hidden)
    for banks in (lanes.intermediates, lanes.targets):
        if banks and depth in banks:
            total = banks[depth](total, layer.output_norm)
    return layer.output_norm(total)


def _rows_of(values: Tensor, run: Run) -> Tensor:
    """The tokens of a run, ``[K, rows, length, d]``."""
    return values[:, 0, run.tokens].view(len(values), run.rows, run.length, -1)


def _attend(attention: AllTokens, hidden: Tensor, rows: Sequence[Run]) -> Tensor:
    """Context vectors ``[K or 1, 1, tokens, d]``, of the rows that fill up zeros."""
    projected = attention.projections(hidden)
    context = torch.zeros_like(hidden)
    of_run = _by_kernel if hidden.dtype == torch.float32 else _by_products
    for run in rows:
        by_head, of_rows = _rows_of(projected, run), _rows_of(context, run)
        shape = (*by_head.shape[:3], 3, attention.heads, -1)
        of_rows.copy_(of_run(by_head.view(shape)).reshape(of_rows.shape))
    return context


def _by_kernel(by_head: Tensor) -> Tensor:
    """Attention of ``[K, rows, t, 3, heads, size]`` to ``[K, rows, t, heads, size]`` by torch's kernel, uncopied."""
    axis = 0 if by_head.shape[0] <= by_head.shape[1] else 1  # fewer calls
    made = []
    for of_rows in by_head.unbind(axis):
        queries, keys, values = of_rows.permute(2, 0, 3, 1, 4)
        made.append(functional.scaled_dot_product_attention(queries, keys, values, scale=1.0).transpose(1, 2))
    return torch.stack(made, axis)


def _by_products(by_head: Tensor) -> Tensor:
    """The same by two products, with the weights in fp32 between them: faster in bf16, and nearer to training."""
    lanes, rows, tokens, _, heads, size = by_head.shape
    queries, keys, values = by_head.permute(3, 0, 1, 4, 2, 5).reshape(3, lanes * rows * heads, tokens, size)
    weights = multiplied(queries, keys.transpose(1, 2)).softmax(dim=-1, dtype=torch.float32)
    context = multiplied(weights.to(values.dtype), values)
    return context.view(lanes, rows, heads, tokens, size).transpose(2, 3)


@dataclass(frozen=True)
class TextReading:
    """How some tasks read a text: the format, and which earlier turns."""

    form: InputFormat
    turns: slice

    def encode(self, rows: Sequence[Example]) -> list[tuple[Encoded, ...]]:
        """The token ids of every row, by window."""
        return self.form.encode_all([row._replace(context=row.context[self.turns]) for row in rows])


@dataclass(frozen=True)
class ScoringPack:
    """Tasks with adapters of one shape as lanes; ``readings`` names how each reads a text."""

    tasks: tuple[ScoringTask, ...]
    readings: tuple[str, ...]
    state: LaneState
    _chosen: dict[tuple[int, ...], Lanes] = field(default_factory=dict)

    def lanes(self, chosen: tuple[int, ...], dtype: torch.dtype) -> Lanes:
        """These lanes alone, in the encoder's precision; they are kept for the next texts."""
        if chosen not in self._chosen:
            self._chosen[chosen] = self.state.only(chosen).lanes().to(dtype)
        return self._chosen[chosen]

    def logits(
        self, frozen: Frozen, encoded: Mapping[str, Sequence[tuple[Encoded, ...]]], pad_id: int, *, has_segments: bool
    ) -> NDArray[np.float32]:
        """``[K, rows, outputs]`` of the rows as every reading has ``encoded`` them, each the mean over its windows."""
        numbers, windows = _number({name: encoded[name] for name in self.readings})
        outputs = self.state.trained["head.4.weight"].shape[1]
        every = np.zeros((len(self.tasks), len(windows), outputs), np.float32)
        readers: list[list[int]] = [[] for _ in windows]
        for lane, name in enumerate(self.readings):
            for number in {number for row in numbers[name] for number in row}:
                readers[number].append(lane)
        passes: dict[tuple[int, ...], list[int]] = {}  # the sequences that the same lanes read, by their lanes
        for number, reading in enumerate(readers):
            passes.setdefault(tuple(reading), []).append(number)
        for chosen, places in passes.items():
            lanes, part = self.lanes(chosen, frozen.dtype), [windows[index] for index in places]
            if frozen.device.type == "cpu":  # without padding; on a GPU in few large passes
                logits = scored(frozen, lanes, part, pad_id, has_segments=has_segments).numpy()
            else:
                logits = predicted(frozen, lanes, [(row,) for row in part], pad_id, has_segments=has_segments)
            every[np.ix_(chosen, places)] = logits
        return np.stack([_means(every[lane], numbers[name]) for lane, name in enumerate(self.readings)])


def _number(encoded: Mapping[str, Sequence[tuple[Encoded, ...]]]) -> tuple[dict[str, list[list[int]]], list[Encoded]]:
    """The different sequences of tokens, and by reading which of them are the windows of every row."""
    index: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = {}
    windows: list[Encoded] = []
    numbers: dict[str, list[list[int]]] = {}
    for name, rows in encoded.items():
        numbers[name] = [[index.setdefault((item.ids, item.segments), len(index)) for item in row] for row in rows]
        new = {
            number: item
            for row, made in zip(rows, numbers[name], strict=True)
            for item, number in zip(row, made, strict=True)
        }
        windows += [new[number] for number in range(len(windows), len(index))]
    return numbers, windows


def _means(logits: NDArray[np.float32], rows: Sequence[list[int]]) -> NDArray[np.float32]:
    """``[rows, outputs]`` of ``[sequences, outputs]``."""
    return np.stack([logits[row].mean(axis=0) for row in rows])


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
        name = str(manifest["study"]["backbone"])
        self.backbone = resolve(name)
        for task in self.tasks:
            if (most := int(task.form["max_tokens"])) > self.backbone.max_tokens:
                raise BadInput(
                    f"task {task.name}: reads {most} tokens, but backbone {name!r} takes {self.backbone.max_tokens}"
                )
            if unlike := self.backbone.unlike(task.record.spec["backbone"]):
                how = "imported" if task.is_imported else "trained"
                raise BadInput(f"task {task.name}: {how} on another backbone than {name!r} is here ({unlike})")
        self.pad_id = load_tokenizer(self.backbone).padding

    @cached_property
    def frozen(self) -> Frozen:
        """The encoder that all lanes share."""
        return freeze(load_backbone(self.backbone), PRECISIONS[self.precision], self.device)

    @cached_property
    def packs(self) -> list[ScoringPack]:
        """The tasks by the shape of their adapters, which lanes must have in common."""
        alike: dict[str, list[ScoringTask]] = {}
        for task in self.tasks:
            alike.setdefault(json.dumps(task.record.spec["adapter"], sort_keys=True), []).append(task)
        chosen = [tuple(same[i : i + MOST_LANES]) for same in alike.values() for i in range(0, len(same), MOST_LANES)]
        return [
            ScoringPack(tasks, tuple(map(_reading, tasks)), state_of(self.store, tasks).to(self.device))
            for tasks in chosen
        ]

    @cached_property
    def readings(self) -> dict[str, TextReading]:
        """How tasks read a text, by the name of the reading."""
        readings, tokenizer = {}, load_tokenizer(self.backbone)
        for task in self.tasks:
            facts, kind = task.form, task.form["input_format"]
            form = InputFormat(tokenizer, kind, facts["tags"] or "none", facts["max_tokens"], facts["truncation"])
            readings[_reading(task)] = TextReading(form, kept_turns(facts["history"]))
        return readings

    def answers(self, rows: Sequence[Example]) -> list[TaskAnswers]:
        """Of every task logits ``[rows, outputs]`` and ``[rows]``, whether it read only a part of a row."""
        encoded = {name: reading.encode(rows) for name, reading in self.readings.items()}
        cut = {
            name: np.array([any(part.is_history_cut or part.is_target_cut for part in row) for row in windows])
            for name, windows in encoded.items()
        }
        has_segments = self.backbone.model_type == "bert"
        answers = []
        for pack in self.packs:
            every = pack.logits(self.frozen, encoded, self.pad_id, has_segments=has_segments)
            answers += [
                TaskAnswers(task, logits[:, : task.outputs], cut[name])
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
        method = settings["method"] if settings else "a whole model"
        raise NotServed(
            f"task {task.name}: trained with {method}, but texts are scored through seq_bn adapters; leave it out"
        )
    folder = stored_adapter(store, task.record.key)
    head = load_file(open_weights(store, task.record.key, "adapter/model_head.safetensors"))
    prefix = f"heads.{task.name}."
    adapter = saved_adapter(load_file(folder / "adapter.safetensors"), task.name)
    return adapter | {f"head.{name.removeprefix(prefix)}": tensor for name, tensor in head.items()}
