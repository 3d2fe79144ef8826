"""What the lanes of a pack are made of, and the proof that their intermediates came out of training as they should."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from safetensors.torch import load_file
from torch import Tensor

from adapters_store import Store
from harness.backbone import Backbone
from harness.cell import Cell
from harness.training import checks, model
from harness.training.lane_state import LaneState, parameter_names, saved_adapter, stacked
from harness.training.untrained import untrained


def with_target(cell: Cell, backbone: Backbone) -> Any:  # noqa: ANN401
    """The backbone with all adapters and the head that a lane trains: lanes start here and are saved from here."""
    network = model.load_backbone(backbone)
    model.add_target(network, cell)
    composition = cell.spec["composition"]
    if composition == "sequential":
        model.add_fresh(network, cell, cell.target, "adapter")
    if composition == "stack-trainable":
        model.add_fresh(network, cell, model.INTERMEDIATE, "adapter")
    return network


def state_of(network: Any, cells: Sequence[Cell], store: Store) -> LaneState:  # noqa: ANN401
    """A lane for each cell, as they are before training."""
    below = [_intermediate(network, cell, store) for cell in cells]
    return stacked(network, cells[0].target, below, cells[0].spec["composition"] or "stack")


def _intermediate(network: Any, cell: Cell, store: Store) -> dict[str, Tensor] | None:  # noqa: ANN401
    if cell.intermediate is None:
        return None
    if cell.spec["intermediate_key"] is None:
        drawn, names = untrained(network, cell.target, cell), parameter_names(network, cell.target)
        return {ours: drawn[theirs] for ours, theirs in names.items() if theirs in drawn}
    folder = model.stored_adapter(store, cell.spec["intermediate_key"])
    return saved_adapter(load_file(folder / "adapter.safetensors"), cell.intermediate)


def digests(state: LaneState, lanes: int) -> list[str]:
    """The sha256 of each lane's intermediate, frozen or trained."""
    values = [value.cpu() for _, value in sorted(state.below.items())]
    return [
        hashlib.sha256(b"".join(value[lane].numpy().tobytes() for value in values)).hexdigest() for lane in range(lanes)
    ]


def check_below(cells: Sequence[Cell], state: LaneState, before: Sequence[str]) -> None:
    """WrongComposition unless frozen intermediates are as ``before`` any training, and trained ones are not."""
    for cell, old, new in zip(cells, before, digests(state, len(cells)), strict=True):
        if cell.is_stacked:
            checks.check_intermediate(cell, unchanged=old == new)
    if any(value.requires_grad for value in state.frozen.values()):
        raise checks.WrongComposition(f"{cells[0].label}: an intermediate of this pack is trained")
    if not all(value.requires_grad for value in state.trained.values()):
        raise checks.WrongComposition(f"{cells[0].label}: a part of this pack is not trained")


def checked(cell: Cell, state: LaneState, alive: float | None) -> dict[str, Any]:
    """What a lane's record says of its training, once ``check_below`` has passed."""
    return {
        "trainable_parameters": sum(value[0].numel() for value in state.trained.values()),
        "liveness": alive if cell.is_stacked else None,
        "intermediate_unchanged": cell.spec["composition"] == "stack" if cell.is_stacked else None,
    }
