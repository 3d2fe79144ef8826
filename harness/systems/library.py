"""Adapters through the adapters library's own forward pass, one cell at a time: what lanes are held against.

It trains what lanes do not serve, too: other methods than their bottleneck, and whole models.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from harness.study.backbones.backbone import Backbone
from harness.study.cell import Cell
from harness.study.intermediates.merged import FUSED, JOINT, most_parents
from harness.study.methods import fusion_parameters
from harness.systems.system import (
    ADAPTER_PACKAGES,
    ADAPTER_PASSES,
    LANE_COPIES,
    WHOLE_MODEL,
    WHOLE_MODEL_PASSES,
    bottleneck_bytes,
)

if TYPE_CHECKING:
    from harness.training.recipe import Attempt
    from harness.training.trained import Trained


class Library:
    """Trains each cell of a pack by itself; harness.training.library.alone says how."""

    packages = ADAPTER_PACKAGES
    checkpoint_copies = LANE_COPIES

    def groups(self, cells: Sequence[Cell]) -> list[tuple[Cell, ...]]:
        """Each cell alone."""
        return [(cell,) for cell in cells]

    def steps(self, spec: Mapping[str, Any]) -> int:
        """The epochs."""
        return int(spec["training"]["epochs"])

    def way(self, spec: Mapping[str, Any], lanes: int) -> str:
        """A whole model costs more than an adapter, and so does a trained peer of merges."""
        return WHOLE_MODEL if spec["adapter"] is None else _rule(spec) or "library"

    def passes(self, spec: Mapping[str, Any]) -> float | None:
        """A whole model's backward pass costs two; an adapter's as ADAPTER_PASSES says.

        A fusion has a matrix for the query and two for each parent, of twelve in a layer, and trains them all. A joint
        adapter is trained on the rows of all parents before, taken to be as many as the target's.
        """
        if spec["adapter"] is None:
            return WHOLE_MODEL_PASSES
        parents, rule = most_parents(spec["merge"]) if "merge" in spec else 0, _rule(spec)
        further = {FUSED: 3 * (1 + 2 * parents) / 12, JOINT: ADAPTER_PASSES * parents}
        return ADAPTER_PASSES + further.get(rule, 0)

    def kept_bytes(self, spec: Mapping[str, Any], backbone: Backbone) -> int:
        """Those of the target's adapter and head, and of a fusion; nothing is kept of a whole model."""
        layers, width, _ = backbone.shape
        return bottleneck_bytes(spec, backbone) + (4 * fusion_parameters(layers, width) if _rule(spec) == FUSED else 0)

    def train(self, attempt: Attempt) -> list[Trained]:
        """Train the only cell of the attempt; torch is loaded here."""
        if attempt.recipe.rule == JOINT:
            from harness.training.library.joint import train_on_joint

            return [train_on_joint(attempt)]
        from harness.training.library.alone import train_alone

        return [train_alone(attempt)]


def _rule(spec: Mapping[str, Any]) -> str:
    return str(spec.get("merge", {}).get("rule", ""))


SYSTEM = Library()
