"""Several stored adapters made into one, at loading: sums in double precision, rounded once.

An adapter adds ``U relu(D n + d) + u`` to what its layer gives, n being the layer's normed output. Of parents i with
weights w that sum to 1 the rules make

- ``outputs``: the sum over i of w U relu(D n + d) + w u, computed by one wide adapter: all D and d below each other,
  all w U side by side. It is what the parents add on average, exactly, and asks for no common order of units.
- ``weights``: the averages of D, d, U and u, as in AdapterSoup (Chronopoulou et al. 2023).
- ``ties``: what training has changed since the common start, trimmed to the largest share of each parent's values, of
  which only those count that have the sign of the largest sum (Yadav et al. 2023, section 4), added to the start.
- ``gated``: as ``outputs``, with a weight per parent and layer that is learned with the target and begins at w. The
  biases u are units, too, whose relu gives 1, so that a weight is one number for all of a parent's units.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from adapters_store import Store
from harness.study.cell import Cell
from harness.study.intermediates.decision import Undecided, weights_of
from harness.study.intermediates.merged import AVERAGED, GATED, OUTPUTS, TIES, WIDE
from harness.training.lanes.state import saved_adapter
from harness.training.model import stored_adapter

Weights = dict[str, Tensor]  # of an adapter, by our names (state.parameter_names)
UPS, UP_BIASES = "adapter_up.weight", "adapter_up.bias"


@dataclass(frozen=True)
class Merge:
    """A merged intermediate: its weights, and what each parent counted, by task."""

    weights: Weights
    parents: Mapping[str, float]

    @property
    def sha256(self) -> str:
        """Of all names and bytes, in the order of the names."""
        digest = hashlib.sha256()
        for name, value in sorted(self.weights.items()):
            digest.update(name.encode())
            digest.update(value.contiguous().numpy().tobytes())
        return digest.hexdigest()

    def facts(self) -> dict[str, Any]:
        """What the record of a cell on it says."""
        return {"merge": {"sha256": self.sha256, "weights": dict(self.parents)}}


def merge_of(cell: Cell, store: Store, start: Weights) -> Merge:
    """The merged intermediate of a cell from its parents' stored adapters; ``start`` is a fresh adapter of its seed.

    NoWeights for a parent whose weights were left out of its record, Undecided where nothing decides about them.
    """
    recipe = cell.merge or {}
    parents = weights_of(recipe, store)
    adapters = [parent_adapter(store, recipe["parents"][name], name) for name in parents]
    check_shapes(recipe["rule"], adapters)
    return Merge(merged(recipe["rule"], adapters, list(parents.values()), start, recipe.get("keep", 1.0)), parents)


def parent_adapter(store: Store, key: str, task: str) -> Weights:
    """The adapter in the record of a task."""
    return saved_adapter(load_file(stored_adapter(store, key) / "adapter.safetensors"), task)


def check_shapes(rule: str, adapters: Sequence[Weights]) -> None:
    """Undecided where ``weights`` or ``ties`` are asked of adapters of several shapes."""
    shapes = [{name: tuple(value.shape) for name, value in weights.items()} for weights in adapters]
    if rule not in WIDE and any(other != shapes[0] for other in shapes):
        raise Undecided(f"the adapters have several shapes, which rule {rule!r} cannot merge; say 'outputs'")


def merged(rule: str, adapters: Sequence[Weights], weights: Sequence[float], start: Weights, keep: float) -> Weights:
    """The adapters by a rule, with ``weights`` that sum to 1; ``keep`` is the share of changes that ``ties`` keeps."""
    double = [{name: value.double() for name, value in own.items()} for own in adapters]
    return {name: value.float().contiguous() for name, value in RULES[rule](double, weights, start, keep).items()}


def _outputs(adapters: Sequence[Weights], weights: Sequence[float], _: Weights, __: float) -> Weights:
    """One wide adapter: units of all parents in their order."""
    return {name: _side_by_side(name, [own[name] for own in adapters], weights) for name in adapters[0]}


def _gated(adapters: Sequence[Weights], _: Sequence[float], __: Weights, ___: float) -> Weights:
    """One wide adapter, not weighed yet: of every parent its units, and one more for its bias of the up-projection."""
    return _outputs([_with_bias_as_unit(own) for own in adapters], [1.0] * len(adapters), {}, 1.0)


def _with_bias_as_unit(own: Weights) -> Weights:
    further = {}
    for name, value in own.items():
        if name.endswith(UP_BIASES):
            further[name] = torch.zeros_like(value)
        elif name.endswith(UPS):
            further[name] = torch.cat([value, own[name.replace(UPS, UP_BIASES)].unsqueeze(1)], dim=1)
        else:  # a unit that looks at nothing, and whose bias is 1
            last = value.new_zeros(1, *value.shape[1:]) if value.dim() == 2 else value.new_ones(1)
            further[name] = torch.cat([value, last])
    return further


def _side_by_side(name: str, values: Sequence[Tensor], weights: Sequence[float]) -> Tensor:
    if name.endswith(UP_BIASES):
        return _sum(values, weights)
    if name.endswith(UPS):  # [d, r] of every parent: their units are columns
        return torch.cat([value * weight for value, weight in zip(values, weights, strict=True)], dim=1)
    return torch.cat(list(values))


def _averaged(adapters: Sequence[Weights], weights: Sequence[float], _: Weights, __: float) -> Weights:
    return {name: _sum([own[name] for own in adapters], weights) for name in adapters[0]}


def _ties(adapters: Sequence[Weights], weights: Sequence[float], start: Weights, keep: float) -> Weights:
    """Trim, elect signs, and average what agrees; over all values of an adapter at once, as the paper does."""
    names = sorted(adapters[0])
    common = torch.cat([start[name].double().flatten() for name in names])
    changes = torch.stack([torch.cat([own[name].flatten() for name in names]) for own in adapters]) - common
    kept = max(1, round(keep * changes.shape[1]))
    limit = changes.abs().topk(kept, dim=1).values[:, -1:]
    trimmed = torch.where(changes.abs() >= limit, changes, 0.0)
    share = torch.tensor(weights, dtype=torch.float64).unsqueeze(1)
    elected = (share * trimmed).sum(0).sign()
    agrees = (trimmed.sign() == elected) & (trimmed != 0)
    total = (share * agrees).sum(0)
    mean = torch.where(total > 0, (share * trimmed * agrees).sum(0) / total.clamp(min=1e-300), 0.0)
    sizes = [adapters[0][name].shape for name in names]
    parts = torch.split(common + mean, [size.numel() for size in sizes])
    return {name: part.view(size) for name, part, size in zip(names, parts, sizes, strict=True)}


def _sum(values: Sequence[Tensor], weights: Sequence[float]) -> Tensor:
    return torch.stack([value * weight for value, weight in zip(values, weights, strict=True)]).sum(0)


RULES: Mapping[str, Callable[[Sequence[Weights], Sequence[float], Weights, float], Weights]] = {
    OUTPUTS: _outputs,
    AVERAGED: _averaged,
    TIES: _ties,
    GATED: _gated,
}
