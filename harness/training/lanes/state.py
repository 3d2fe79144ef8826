"""The weights of K lanes: stacked from adapters-library models, trained as one tensor, and put back lane by lane.

All of them lie side by side in one tensor, which the optimizer moves in a dozen operations. A lane is a row ``[N]``
of every tensor here, so that what is of a lane's own (rate, decay, clip) is a column beside it. Each name's weights
``[K, ...]`` are a view of the row's part: whoever reads or writes them by name does so here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from harness.training.lanes.forward import Bottleneck, Heads, Lanes
from harness.training.model import INTERMEDIATE
from harness.training.tensors import lanes_of, to_device

ADAPTER = ("adapter_down.0.weight", "adapter_down.0.bias", "adapter_up.weight", "adapter_up.bias")
HEAD = ("1.weight", "1.bias", "4.weight", "4.bias")  # dropout, dense, tanh, dropout, out
GATE = "gate."  # starts the names, which a layer ends, of what parents count in a merge that learns it
INNER = "below."  # starts the names of an intermediate that is trained, too; checkpoints have them


@dataclass
class LaneState:
    """Trainable weights of K lanes by name, each ``[K, ...]``, and the frozen intermediates' (zeros: none).

    Intermediates are frozen, or trainable under names of their own (``INNER``), or there are none at all. ``facts`` are
    what a record says of each lane's intermediate, where any is merged.
    """

    trained: dict[str, Tensor]
    frozen: dict[str, Tensor]
    facts: tuple[Mapping[str, Any], ...] = ()

    def lanes(self, trained: Mapping[str, Tensor] | None = None, dtype: torch.dtype | None = None) -> Lanes:
        """The weights in the shape that the forward pass takes; ``trained`` stand for the state's own of these names.

        Gradients reach what stands there. Intermediates that nothing changes are in precision ``dtype`` already.
        """
        weights = self.trained if trained is None else trained
        is_trained = any(name.startswith(INNER) for name in weights)
        return Lanes(
            intermediates=self._banks(weights, INNER) if is_trained else self._weigh(weights, dtype),
            targets=self._banks(weights),
            heads=Heads(*(self._shape(weights[f"head.{name}"]) for name in HEAD)),
        )

    @cached_property
    def _frozen(self) -> dict[int, Bottleneck] | None:
        """They never change, so whether any lane has one is asked once and not at every cut of every batch."""
        if not any(bool(value.any()) for value in self.frozen.values()):
            return None
        return self._banks(self.frozen)

    @cached_property
    def _cast(self) -> dict[torch.dtype, dict[int, Bottleneck]]:
        return {}

    def facts_of(self, lane: int) -> dict[str, Any]:
        """What a record says of the lane's intermediate, and what its parents count by layer where that is learned."""
        facts = dict(self.facts[lane]) if self.facts else {}
        if learned := [gate[lane].tolist() for name, gate in self.trained.items() if name.startswith(GATE)]:
            by_parent = zip(facts["merge"]["weights"], zip(*learned, strict=True), strict=True)
            facts["merge"] = {**facts["merge"], "learned": {parent: list(shares) for parent, shares in by_parent}}
        return facts

    def _weigh(self, trained: Mapping[str, Tensor], dtype: torch.dtype | None) -> dict[int, Bottleneck] | None:
        """The frozen intermediates, each parent's units times its weight where that is learned."""
        gates = {int(name.removeprefix(GATE)): gate for name, gate in trained.items() if name.startswith(GATE)}
        if self._frozen is None:
            return None
        if not gates:
            if dtype is None:
                return self._frozen
            if dtype not in self._cast:  # they never change, so they are cast once, too
                self._cast[dtype] = {layer: bank.to(dtype) for layer, bank in self._frozen.items()}
            return self._cast[dtype]
        return {
            layer: replace(bank, up=_Weighed.apply(gates[layer], bank.up))  # type: ignore[no-untyped-call]
            for layer, bank in self._frozen.items()
        }

    @property
    def intermediates(self) -> dict[str, Tensor]:
        """The intermediates' weights by name, frozen or trained; empty where lanes have none."""
        return self.frozen or {name: value.detach() for name, value in self.trained.items() if name.startswith(INNER)}

    def to(self, device: torch.device) -> LaneState:
        """The same weights on this device."""
        trained = {name: value.detach().to(device) for name, value in self.trained.items()}
        return replace(self, trained=trained, frozen={name: value.to(device) for name, value in self.frozen.items()})

    def only(self, lanes: Sequence[int]) -> LaneState:
        """These lanes alone, their weights copied."""
        trained = {name: lanes_of(value.detach(), lanes) for name, value in self.trained.items()}
        return replace(
            self,
            trained=trained,
            frozen={name: lanes_of(value, lanes) for name, value in self.frozen.items()},
            facts=tuple(self.facts[lane] for lane in lanes) if self.facts else (),
        )

    def _banks(self, weights: Mapping[str, Tensor], prefix: str = "") -> dict[int, Bottleneck]:
        layers = (name.removeprefix(prefix).partition(".")[0] for name in weights if name.startswith(prefix))
        return {
            layer: Bottleneck(*(self._shape(weights[f"{prefix}{layer}.{name}"]) for name in ADAPTER))
            for layer in sorted({int(number) for number in layers if number.isdigit()})
        }

    @staticmethod
    def _shape(value: Tensor) -> Tensor:
        """Biases ``[K, n]`` become ``[K, 1, n]``."""
        return value.unsqueeze(1) if value.dim() == 2 else value


class _Weighed(torch.autograd.Function):
    """Frozen ups ``[K, d, units]`` of P parents in their order, each times its parent's ``gate [K, P]``.

    The ups are kept apart from what a backward pass frees: the gradients of all cuts of a batch go through here.
    """

    @staticmethod
    def forward(ctx: Any, gate: Tensor, up: Tensor) -> Tensor:  # noqa: ANN401
        ctx.up, ctx.parents = up, gate.shape[1]
        return up * gate.repeat_interleave(up.shape[2] // gate.shape[1], dim=1).unsqueeze(1)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:  # noqa: ANN401
        return (gradient * ctx.up).sum(1).unflatten(1, (ctx.parents, -1)).sum(2), None


def gates(state: LaneState, weights: Sequence[float]) -> LaneState:
    """The state of one lane with what its parents count as weights that are trained, a row in every layer."""
    layers = sorted({int(name.partition(".")[0]) for name in state.frozen})
    rows = {f"{GATE}{layer}": torch.tensor([list(weights)]) for layer in layers}
    return replace(state, trained=state.trained | rows)


def stacked(
    model: Any,  # noqa: ANN401
    target: str,
    intermediates: Sequence[dict[str, Tensor] | None],
    composition: str = "stack",
) -> LaneState:
    """One lane per intermediate, all starting from the model's fresh target adapter and head (``beginning``)."""
    return beginning(fresh(model, target), intermediates, composition)


def fresh(model: Any, target: str) -> dict[str, Tensor]:  # noqa: ANN401
    """The weights of a target's adapter and head in a model, by our names and in the model's order."""
    parameters = dict(model.named_parameters())
    return {ours: parameters[theirs].detach() for ours, theirs in parameter_names(model, target).items()}


def beginning(
    fresh: Mapping[str, Tensor], intermediates: Sequence[Mapping[str, Tensor] | None], composition: str
) -> LaneState:
    """One lane per intermediate, all starting from the same ``fresh`` adapter and head of the target.

    In a ``stack`` intermediates are frozen and None is a baseline; with ``stack-trainable`` each lane trains a copy of
    its own; with ``sequential`` they are where the lanes' own adapters start. ValueError for a baseline among those.
    """
    if composition != "stack" and any(weights is None for weights in intermediates):
        raise ValueError(f"a baseline among lanes of composition {composition!r} would train or keep an empty adapter")
    lanes = len(intermediates)
    trained = {ours: value.expand(lanes, *value.shape).clone() for ours, value in fresh.items()}
    shapes = {ours: value.shape[1:] for ours, value in trained.items() if not ours.startswith("head.")}
    inner = {
        ours: as_wide([torch.zeros(shape) if weights is None else weights[ours] for weights in intermediates])
        for ours, shape in shapes.items()
    }
    if composition == "sequential":
        return LaneState(trained | inner, {})
    if composition == "stack-trainable":
        return LaneState(trained | {f"{INNER}{ours}": value for ours, value in inner.items()}, {})
    return LaneState(trained, inner)


def as_wide(values: Sequence[Tensor]) -> Tensor:
    """The lanes' values of one name, ``[K, ...]``, with zeros for the units that some have not: they add nothing."""
    sizes = [max(lengths) for lengths in zip(*(value.shape for value in values), strict=True)]
    wide = values[0].new_zeros(len(values), *sizes)
    for lane, value in zip(wide, values, strict=True):
        lane[tuple(slice(length) for length in value.shape)] = value
    return wide


def parameter_names(model: Any, adapter: str) -> dict[str, str]:  # noqa: ANN401
    """Our names (``LAYER.suffix``, ``head.suffix``) of an adapter's and its head's parameters, and the library's."""
    names = {}
    for theirs, _ in model.named_parameters():
        layer, is_own, suffix = theirs.partition(f".output.adapters.{adapter}.")
        if is_own:
            names[f"{layer.rpartition('.layer.')[2]}.{suffix}"] = theirs
        elif theirs.startswith(f"heads.{adapter}."):
            names[f"head.{theirs.removeprefix(f'heads.{adapter}.')}"] = theirs
    return names


def saved_adapter(tensors: dict[str, Tensor], adapter: str) -> dict[str, Tensor]:
    """An adapter's weights under our names, from the tensors of a stored ``adapter.safetensors``."""
    ours = {}
    for theirs, value in tensors.items():
        layer, is_own, suffix = theirs.partition(f".output.adapters.{adapter}.")
        if is_own:
            ours[f"{layer.rpartition('.layer.')[2]}.{suffix}"] = value
    return ours


def put_back(model: Any, target: str, weights: Mapping[str, Tensor]) -> None:  # noqa: ANN401
    """Copy one lane's trained weights into the model's adapters and head, from where the library saves them."""
    parameters = dict(model.named_parameters())
    names = parameter_names(model, target)
    names |= {f"{INNER}{ours}": theirs for ours, theirs in parameter_names(model, INTERMEDIATE).items()}
    with torch.no_grad():
        for ours, value in weights.items():
            if not ours.startswith(GATE):
                parameters[names[ours]].copy_(value)


ALIGNED = 16  # values: parts and rows begin at multiples of it, as tensors of their own would
BETAS, EPSILON = (0.9, 0.999), 1e-8  # AdamW's own defaults


def rate_factor(step: int | Tensor, steps: int | Tensor, warmup: float) -> Tensor:
    """What step ``step`` (from 0) multiplies the rate by: up over the share ``warmup`` of ``steps``, then down to 0.

    ``steps`` is one number, or ``[K]`` for lanes that train for different times; ``step`` one, or ``[n, 1]`` for many.
    """
    # With warmup share u of n steps: r = round(u n); step s < r has the factor s / r, a later one (n - s) / (n - r),
    # as in the linear schedule of transformers. A lane that is through (s > n) has 0; no divisor is less than 1.
    total = torch.as_tensor(steps, dtype=torch.float64)
    rise = (warmup * total).round()
    fall = ((total - step) / (total - rise).clamp(min=1)).clamp(min=0)
    return torch.where(step < rise, step / rise.clamp(min=1), fall)


class FlatWeights:
    """All that lanes train, ``values [K, N]``, which is the one tensor that gradients are of; and its parts by name.

    What the forward pass takes in the encoder's precision stands first, so that one cast serves all of it. After it,
    and at the end, rows are filled up to a multiple of ``ALIGNED`` with zeros, which have no gradient and stay zeros.
    """

    def __init__(self, named: Mapping[str, Tensor]) -> None:
        """Copy tensors ``[K, ...]`` of one type and device."""
        self.shapes = {name: value.shape[1:] for name, value in named.items()}
        coarse = [name for name in named if not name.startswith(("head.", GATE))]
        groups = coarse, [name for name in named if name not in coarse]
        # what fills whole multiples of ALIGNED comes first, so that it begins at such, too
        self._groups = [sorted(group, key=lambda name: self.shapes[name].numel() % ALIGNED > 0) for group in groups]
        rows, self._widths = list[Tensor](), list[int]()
        for group in self._groups:
            pieces = [named[name].detach().flatten(1) for name in group]
            width = sum(piece.shape[1] for piece in pieces)
            missing = -width % ALIGNED
            self._widths.append(width + missing)
            rows += [*pieces, pieces[0].new_zeros(len(pieces[0]), missing)] if pieces else []
        self.values = torch.cat(rows, dim=1).requires_grad_(True)

    def parts(self, values: Tensor, dtype: torch.dtype | None = None) -> dict[str, Tensor]:
        """What ``values [K, N]`` holds for each name, in the order in which names were given, as views.

        With a ``dtype`` what the forward pass takes in the encoder's precision is cast to it.
        """
        first, second = torch.split(values, self._widths, dim=1)
        parts: dict[str, Tensor] = {}
        for group, whole in zip(self._groups, (first.to(dtype or values.dtype), second), strict=True):
            sizes = [self.shapes[name].numel() for name in group]
            fill = whole.shape[1] - sum(sizes)
            pieces = torch.split(whole, [*sizes, fill] if fill else sizes, dim=1)
            named = zip(group, pieces, strict=False)
            parts |= {name: piece.view(len(piece), *self.shapes[name]) for name, piece in named}
        return {name: parts[name] for name in self.shapes}

    def named(self) -> dict[str, Tensor]:
        """The weights by name: views that say that they are trained, and are apart from any gradient."""
        return {name: part.requires_grad_(True) for name, part in self.parts(self.values.detach()).items()}

    def cast(self, dtype: torch.dtype) -> dict[str, Tensor]:
        """The weights by name, on the way of gradients: adapters in this precision, the others as they are trained."""
        return self.parts(self.values, dtype)


class LaneAdamW:
    """AdamW (Loshchilov and Hutter 2019, Algorithm 2) with a learning rate, a weight decay and a clip per lane."""

    def __init__(self, weights: FlatWeights, rates: Sequence[float], decays: Sequence[float]) -> None:
        """Optimise ``weights``; their moments begin at 0."""
        self.weights, self.steps, self.keeps_gradient = weights, 0, False
        device = weights.values.device
        self.rates = torch.tensor(rates, dtype=torch.float64, device=device)
        self.decays = torch.tensor(decays, dtype=torch.float64, device=device)
        self.first, self.second = (torch.zeros_like(weights.values, requires_grad=False) for _ in range(2))

    def moments(self) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """The first and the second moments by the weights' names, as views."""
        return self.weights.parts(self.first), self.weights.parts(self.second)

    def only(self, lanes: Sequence[int], weights: FlatWeights) -> None:
        """Go on with these lanes alone, whose weights are now these."""
        self.weights, self.rates, self.decays = weights, lanes_of(self.rates, lanes), lanes_of(self.decays, lanes)
        self.first, self.second = lanes_of(self.first, lanes), lanes_of(self.second, lanes)

    def plan(self, factors: Tensor) -> Tensor:
        """What the next n steps take, ``[n, 3, K]``, at ``factors`` times each lane's rate, ``[n, 1]`` or ``[n, K]``.

        Computed in fp64 and rounded once, to the precision of the weights; see ``step`` for the three.
        """
        (beta_1, beta_2), numbers = BETAS, range(self.steps + 1, self.steps + 1 + len(factors))
        corrections = [[1 - beta_1**number, math.sqrt(1 - beta_2**number)] for number in numbers]
        sent = to_device(torch.tensor(corrections, dtype=torch.float64), self.rates.device)
        of_first, root = torch.split(sent, [1, 1], dim=1)
        rate = self.rates * to_device(factors, self.rates.device)
        planned = torch.stack([rate / of_first, 1 - rate * self.decays, root.expand_as(rate)], dim=1)
        return planned.to(self.first.dtype)

    def step(self, planned: Tensor, clip: float) -> None:
        """One step as ``planned [3, K]``, each lane's gradient clipped to the norm ``clip``."""
        self.steps += 1
        self.update(planned, clip)

    @torch.no_grad()
    def update(self, planned: Tensor, clip: float) -> None:
        """The work of a step, for which no number of the host's counts: it may be recorded once and repeated."""
        # With rate r, decay w, gradient g, moments m and v, and both corrected for their start at 0 by 1 - b**t:
        #   x <- (1 - r w) x,  m <- b1 m + (1 - b1) g,  v <- b2 v + (1 - b2) g g,
        #   x <- x - r / (1 - b1**t) * m / (sqrt(v) / sqrt(1 - b2**t) + epsilon);
        # planned are r / (1 - b1**t), 1 - r w and sqrt(1 - b2**t).
        values, gradient, (beta_1, beta_2) = self.weights.values, self.gradient, BETAS
        size, kept, root = planned.unsqueeze(2)
        # A lane whose gradient over all its tensors is longer than ``clip`` gets it shortened to that length. Sums
        # depend in their last digits on how they are grouped, and a processor's numbers stay as they have been: its
        # norms are summed name by name, others at once.
        if sums_by_name(gradient.device.type):
            squares = [part.flatten(1).square().sum(dim=1) for part in self.weights.parts(gradient).values()]
            norms: Tensor = torch.stack(squares).sum(dim=0).sqrt()
        else:
            norms = torch.linalg.vector_norm(gradient, dim=1)
        gradient.mul_((clip / (norms + 1e-6)).clamp(max=1.0).unsqueeze(1))
        values.mul_(kept)
        self.first.lerp_(gradient, 1 - beta_1)
        self.second.mul_(beta_2).addcmul_(gradient, gradient, value=1 - beta_2)
        change = self.second.sqrt().div_(root).add_(EPSILON)
        values.sub_((self.first / change).mul_(size))
        if self.keeps_gradient:
            gradient.zero_()
        else:
            values.grad = None

    @property
    def gradient(self) -> Tensor:
        """What backward passes have added up ``[K, N]``, zeros before the first."""
        values = self.weights.values
        return torch.zeros_like(values, requires_grad=False) if values.grad is None else values.grad

    def keep_gradient(self) -> None:
        """From now on gradients add up in one tensor that stays where it is, as what is recorded needs it."""
        self.keeps_gradient, self.weights.values.grad = True, self.gradient


def sums_by_name(family: str) -> bool:
    """Whether norms on this family of devices are summed name by name."""
    return family == "cpu"
