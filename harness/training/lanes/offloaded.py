"""An epoch of lanes on a device of its own: rows put there once, plans sent ahead, and cuts of few shapes.

Work is recorded once for each shape and then repeated at one launch, as CUDA graphs that are checked before use.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor

from harness.study.cell import seed_of
from harness.training.batches import Cut, shaped
from harness.training.lanes.forward import Lanes, forward
from harness.training.lanes.frozen import Frozen
from harness.training.lanes.masks import drawn, words_on
from harness.training.lanes.state import LaneAdamW
from harness.training.memory import is_out_of_memory
from harness.training.objective import Objective, total_weight
from harness.training.recipe import Part, Recipe
from harness.training.tensors import to_device

log = logging.getLogger(__name__)

Body = Callable[[Tensor], None]
Capture = Callable[[Callable[[], None]], Callable[[], None]]  # records work without doing it; what repeats it
TOLERANCE = 1e-3  # relative: the same kernels give the same numbers, but for what they add in no order


def capturing(device: torch.device) -> Capture | None:
    """What records work on this device, None where nothing can."""
    if device.type != "cuda":
        return None
    with torch.cuda.device(device):
        pool, stream = torch.cuda.graph_pool_handle(), torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def capture(body: Callable[[], None]) -> Callable[[], None]:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.device(device), torch.cuda.graph(graph, pool=pool, stream=stream):
            body()
        replay: Callable[[], None] = graph.replay
        return replay

    return capture


@dataclass
class Graphs:
    """The works recorded so far, by key; ``capture`` None means that all is done as it stands."""

    capture: Capture | None
    _kept: dict[Hashable, tuple[Tensor, Callable[[], None]]] = field(default_factory=dict)

    def run(self, key: Hashable, inputs: Tensor, body: Body, written: Sequence[Tensor]) -> None:
        """Do the work of ``key`` on ``inputs``, whose shape and body are the key's; ``written`` is what it changes."""
        if self.capture is None:
            body(inputs)
        elif key in self._kept:
            held, replay = self._kept[key]
            held.copy_(inputs)
            replay()
        else:
            self._record(self.capture, key, inputs.clone(), body, written)

    def _record(self, capture: Capture, key: Hashable, held: Tensor, body: Body, written: Sequence[Tensor]) -> None:
        """Do the work as it stands, which also makes ready what it needs; record it; compare what it does repeated."""
        # The only place at which the host reads something back: once for each shape.
        before = [value.detach().clone() for value in written]
        body(held)
        expected = [value.detach().clone() for value in written]
        try:
            _put(written, before)
            replay = capture(lambda: body(held))
            _put(written, before)
            replay()
            scales = [TOLERANCE * float(value.abs().amax()) for value in expected]
            is_same = all(
                torch.allclose(value, other, rtol=TOLERANCE, atol=scale, equal_nan=True)
                for value, other, scale in zip(written, expected, scales, strict=True)
            )
            reason = "what it repeats differs from what it recorded"
        except RuntimeError as error:
            if is_out_of_memory(error):
                raise
            is_same, reason = False, str(error).splitlines()[0]
        if is_same:
            self._kept[key] = held, replay
            return
        log.warning("no CUDA graphs: %s; training goes on without them, to the same numbers", reason)
        self.capture = None
        _put(written, expected)


@torch.no_grad()
def _put(written: Sequence[Tensor], values: Sequence[Tensor]) -> None:
    for target, value in zip(written, values, strict=True):
        target.copy_(value)


BLOCK = 64  # optimizer steps whose plan is sent at once


@dataclass(frozen=True)
class DeviceRows:
    """All windows of a split on the device: their tokens one after the other, where each begins, how long it is.

    ``first [rows]`` is each row's first window (kept by the host); ``labels`` are as a Part has them.
    """

    ids: Tensor
    segments: Tensor | None
    starts: Tensor
    sizes: Tensor
    labels: Tensor
    first: Sequence[int]
    pad_id: int

    @classmethod
    def of(cls, part: Part, pad_id: int, device: torch.device, *, has_segments: bool) -> DeviceRows:
        """A split, sent once."""
        windows = [window for row in part.rows for window in row]
        sizes = torch.tensor([len(window.ids) for window in windows])
        counts = torch.tensor([len(row) for row in part.rows])
        segments = [number for window in windows for number in window.segments] if has_segments else None
        return cls(
            ids=to_device(torch.tensor([number for window in windows for number in window.ids]), device),
            segments=None if segments is None else to_device(torch.tensor(segments), device),
            starts=to_device(sizes.cumsum(0) - sizes, device),
            sizes=to_device(sizes, device),
            labels=to_device(torch.from_numpy(part.labels), device),
            first=(counts.cumsum(0) - counts).tolist(),
            pad_id=pad_id,
        )

    def batch(self, windows: Tensor, tokens: int) -> dict[str, Tensor]:
        """The windows ``[b]`` padded to ``tokens``, as ``batches.collate`` has them."""
        count = torch.arange(tokens, device=self.ids.device)
        present = count < self.sizes[windows].unsqueeze(1)
        places = (self.starts[windows].unsqueeze(1) + count).clamp_(max=len(self.ids) - 1)
        batch = {
            "input_ids": torch.where(present, self.ids[places], self.pad_id),
            "attention_mask": present.to(torch.int64),
        }
        if self.segments is not None:
            batch["token_type_ids"] = torch.where(present, self.segments[places], 0)
        return batch


class Planned:
    """What the device needs to know of one cut, as one tensor of int64, and how it is taken apart there.

    In this order: windows ``[b]``, rows ``[b]``, which of them count ``[b]``, seeds ``[1 or K, b]``, and two numbers of
    fp64: the weight of the whole batch, and how many of its rows that is.
    """

    @staticmethod
    def inputs(cut: Cut, windows: Mapping[int, int], seeds: Sequence[list[int]], weight: float, count: int) -> Tensor:
        """The tensor of a cut; ``windows`` are the rows' by number, and rows that do not count repeat the first."""
        missing = cut.rows - len(cut.numbers)
        rows = cut.numbers + cut.numbers[:1] * missing
        counted = [1] * len(cut.numbers) + [0] * missing
        filled = [number for part in seeds for number in (*part, *part[:1] * missing)]
        shares = torch.tensor([weight, count / weight], dtype=torch.float64).view(torch.int64)
        return torch.cat([torch.tensor([*(windows[row] for row in rows), *rows, *counted, *filled]), shares])

    def __init__(self, inputs: Tensor, rows: int) -> None:
        """Views of the tensor, on the device."""
        self.windows, self.rows, counted = (inputs[rows * index : rows * (index + 1)] for index in range(3))
        self.counted = counted > 0
        self.keys = inputs[3 * rows : -2].view(-1, rows)
        self.weight, self.share = inputs[-2:].view(torch.float64)


@dataclass
class Offloaded:
    """The training of lanes on a device of its own; ``lanes`` gives their weights on the way of gradients."""

    frozen: Frozen
    recipe: Recipe
    optimizer: LaneAdamW
    lanes: Callable[[], Lanes]
    pad_id: int
    has_segments: bool
    _rows: dict[int, tuple[Part, DeviceRows]] = field(default_factory=dict)
    _objectives: dict[tuple[int, bool], tuple[Objective, Objective]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Nothing is recorded yet."""
        device = self.frozen.device
        self._graphs = Graphs(capturing(device))
        self._words = words_on(device)
        self._losses = torch.zeros(len(self.recipe.learning_rates), dtype=torch.float64, device=device)
        self.optimizer.keep_gradient()

    def epoch(
        self, part: Part, places: Sequence[int], order: Sequence[list[int]], step: int, planned: Tensor, epoch: int
    ) -> Tensor:
        """Train on the batches ``order`` of a split, of whose rows the windows ``places`` are read.

        ``step`` is the number of the first, ``planned [batches, 3, K]`` what the optimizer takes; each lane's loss
        ``[K]``, summed over all rows.
        """
        rows, (key, objective, there) = self._send(part), self._objective(part, epoch)
        self._losses.zero_()
        gradient = self.optimizer.gradient
        written = [self.optimizer.weights.values, self.optimizer.first, self.optimizer.second, gradient]
        for number, cuts in enumerate(self._plans(part, rows, places, order, step, objective.weights)):
            for cut, inputs in cuts:
                body = partial(self._cut, rows, there, cut.rows, cut.tokens)
                self._graphs.run((*key, cut.rows, cut.tokens), inputs, body, [gradient, self._losses])
            self.optimizer.steps += 1
            update = partial(self.optimizer.update, clip=self.recipe.clip)
            self._graphs.run("step", planned[number], update, written)
        return self._losses.clone()

    def _cut(self, rows: DeviceRows, objective: Objective, count: int, tokens: int, inputs: Tensor) -> None:
        """Add the gradients and losses of a cut of ``count`` rows to those of its batch, as ``fit`` explains it."""
        cut = Planned(inputs, count)
        sizes, is_own = rows.sizes[cut.windows], bool(self.recipe.noise)
        masks = drawn(self.frozen, sizes, tokens, cut.keys, is_own=is_own, by=self._words)
        logits = forward(self.frozen, self.lanes(), rows.batch(cut.windows, tokens), masks)
        losses = objective.summed(logits, rows.labels[cut.rows], cut.counted)
        torch.autograd.backward(losses.sum() / cut.weight)
        self._losses += losses.detach() * cut.share

    def _plans(
        self,
        part: Part,
        rows: DeviceRows,
        places: Sequence[int],
        order: Sequence[list[int]],
        step: int,
        weights: Tensor | None,
    ) -> Iterator[list[tuple[Cut, Tensor]]]:
        """The cuts of every batch with their inputs on the device, sent for many batches at once."""
        recipe, is_bf16 = self.recipe, self.frozen.dtype == torch.bfloat16
        lanes: Sequence[tuple[str, ...]] = [(name,) for name in recipe.noise] or [()]
        for start in range(0, len(order), BLOCK):
            cuts: list[list[Cut]] = []
            inputs: list[Tensor] = []
            for number, batch in enumerate(order[start : start + BLOCK], step + start):
                lengths = {row: len(part.rows[row][places[row]].ids) for row in batch}
                cuts.append(shaped(batch, lengths, self.frozen.device.type, self.frozen.positions, is_bf16=is_bf16))
                weight = total_weight(torch.from_numpy(part.labels[batch]), weights)
                for cut in cuts[-1]:
                    seeds = [
                        [seed_of(recipe.seed, recipe.target, "dropout", number, row, *lane) for row in cut.numbers]
                        for lane in lanes
                    ]
                    windows = {row: rows.first[row] + places[row] for row in cut.numbers}
                    inputs.append(Planned.inputs(cut, windows, seeds, weight, len(batch)))
            sent = iter(torch.split(to_device(torch.cat(inputs), self.frozen.device), [len(item) for item in inputs]))
            yield from ([(cut, next(sent)) for cut in batch] for batch in cuts)

    def _send(self, part: Part) -> DeviceRows:
        if id(part) not in self._rows:
            rows = DeviceRows.of(part, self.pad_id, self.frozen.device, has_segments=self.has_segments)
            self._rows[id(part)] = part, rows  # the part is held, so that its id stays its own
        return self._rows[id(part)][1]

    def _objective(self, part: Part, epoch: int) -> tuple[tuple[int, bool], Objective, Objective]:
        """What an epoch minimises, here and on the device, and a key of it that epochs have in common."""
        loss = self.recipe.loss
        key = id(part), bool(loss.deferred_from) and epoch >= loss.deferred_from
        if key not in self._objectives:
            objective = self.recipe.objective(part.labels, epoch)
            self._objectives[key] = objective, objective.on(self.frozen.device)
        return key, *self._objectives[key]
