"""The weights of K lanes: stacked from adapters-library models, trained as one tensor, and put back lane by lane."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from harness.training.lanes.forward import Bottleneck, Heads, Lanes
from harness.training.model import INTERMEDIATE
from harness.training.tensors import lanes_of

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
        own = self.trained if trained is None else trained
        is_trained = any(name.startswith(INNER) for name in own)
        return Lanes(
            intermediates=self._banks(own, INNER) if is_trained else self._weighed(own, dtype),
            targets=self._banks(own),
            heads=Heads(*(self._shaped(own[f"head.{name}"]) for name in HEAD)),
        )

    @cached_property
    def _frozen(self) -> dict[int, Bottleneck] | None:
        """They never change, so whether any lane has one is asked once and not at every cut of every batch."""
        if not any(bool(value.any()) for value in self.frozen.values()):
            return None
        return self._banks(self.frozen)

    def _frozen_in(self, dtype: torch.dtype) -> dict[int, Bottleneck]:
        """They never change, so they are cast once, too."""
        if dtype not in self._cast:
            self._cast[dtype] = {layer: bank.to(dtype) for layer, bank in (self._frozen or {}).items()}
        return self._cast[dtype]

    @cached_property
    def _cast(self) -> dict[torch.dtype, dict[int, Bottleneck]]:
        return {}

    def facts_of(self, lane: int) -> dict[str, Any]:
        """What a record says of the lane's intermediate, and what its parents count by layer where that is learned."""
        facts = dict(self.facts[lane]) if self.facts else {}
        if learned := [gate[lane].tolist() for name, gate in self.trained.items() if name.startswith(GATE)]:
            by_parent = zip(facts["merge"]["weights"], zip(*learned, strict=True), strict=True)
            facts["merge"] = {**facts["merge"], "learned": {parent: list(own) for parent, own in by_parent}}
        return facts

    def _weighed(self, trained: Mapping[str, Tensor], dtype: torch.dtype | None) -> dict[int, Bottleneck] | None:
        """The frozen intermediates, each parent's units times its weight where that is learned."""
        gates = {int(name.removeprefix(GATE)): gate for name, gate in trained.items() if name.startswith(GATE)}
        if self._frozen is None:
            return None
        if not gates:
            return self._frozen if dtype is None else self._frozen_in(dtype)
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
        own = (name.removeprefix(prefix).partition(".")[0] for name in weights if name.startswith(prefix))
        return {
            layer: Bottleneck(*(self._shaped(weights[f"{prefix}{layer}.{name}"]) for name in ADAPTER))
            for layer in sorted({int(number) for number in own if number.isdigit()})
        }

    @staticmethod
    def _shaped(value: Tensor) -> Tensor:
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
    own = {f"{GATE}{layer}": torch.tensor([list(weights)]) for layer in layers}
    return replace(state, trained=state.trained | own)


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


def put_back(model: Any, target: str, state: LaneState, lane: int) -> None:  # noqa: ANN401
    """Copy one lane's trained weights into the model's adapters and head, from where the library saves them."""
    parameters = dict(model.named_parameters())
    names = parameter_names(model, target)
    names |= {f"{INNER}{ours}": theirs for ours, theirs in parameter_names(model, INTERMEDIATE).items()}
    with torch.no_grad():
        for ours, value in state.trained.items():
            if not ours.startswith(GATE):
                parameters[names[ours]].copy_(value[lane])


def lane_norms(tensors: Iterator[Tensor] | Sequence[Tensor]) -> Tensor:
    """The norm of each lane over all its tensors, ``[K]``."""
    return torch.stack([value.flatten(1).square().sum(dim=1) for value in tensors]).sum(dim=0).sqrt()
