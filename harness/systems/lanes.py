"""Adapters as lanes: all cells of a pack in one loop over the frozen backbone. The default, and the fast way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from harness.study.backbones.backbone import Backbone
from harness.study.cell import Cell
from harness.systems.system import ADAPTER_PACKAGES, ADAPTER_PASSES, LANE_COPIES, bottleneck_bytes

if TYPE_CHECKING:
    from harness.training.recipe import Attempt
    from harness.training.trained import Trained


class Lanes:
    """Trains the cells of a pack together; harness.training.lanes says how."""

    packages = ADAPTER_PACKAGES
    checkpoint_copies = LANE_COPIES

    def groups(self, cells: Sequence[Cell]) -> list[tuple[Cell, ...]]:
        """All cells of a pack at once."""
        return [tuple(cells)]

    def steps(self, spec: Mapping[str, Any]) -> int:
        """The epochs."""
        return int(spec["training"]["epochs"])

    def way(self, spec: Mapping[str, Any], lanes: int) -> str:
        """One lane costs more than a share of many."""
        return "lanes together" if lanes > 1 else "one lane"

    def passes(self, spec: Mapping[str, Any]) -> float | None:
        """As ADAPTER_PASSES says."""
        return ADAPTER_PASSES

    def kept_bytes(self, spec: Mapping[str, Any], backbone: Backbone) -> int:
        """Those of the target's adapter and head."""
        return bottleneck_bytes(spec, backbone)

    def train(self, attempt: Attempt) -> list[Trained]:
        """Train the cells as lanes; torch is loaded here."""
        from harness.training.lanes.train import train_lanes

        return train_lanes(attempt)


SYSTEM = Lanes()
