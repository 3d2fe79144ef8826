"""What those who run and cost cells ask of whatever trains them: one way from the rows of a task to trained cells.

Three exist: ``Lanes`` trains all cells of a pack in one loop, ``Library`` one cell at a time through the adapters
library, and harness.systems.fitted a system that is no adapter. Whoever runs, costs or reports cells knows none of
them; it asks the one that a cell's spec names.

``System`` is not the contract of harness.study.systems, ``Kind``, and cannot be: a kind is asked while a study is
planned, below everything that trains, about settings of its own; a system is asked about specs of cells and handed a
pack's attempt, with its store and its lanes. ``FittedSystem`` is all that lies between the two.

Nothing heavy is imported at the top: planning, costs and status load this without torch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from harness.study.backbone import Backbone
from harness.study.cell import Cell
from harness.study.intermediates import FUSED, JOINT, most_parents
from harness.study.methods import fusion_parameters, layers_of

if TYPE_CHECKING:
    from harness.training.recipe import Attempt, Trained

ADAPTER_PACKAGES = ("adapters", "torch", "transformers", "tokenizers", "numpy")
ADAPTER_PASSES = 2.0  # forward passes that a training token costs: a frozen encoder's backward pass costs one
LANE_COPIES = 8  # weights, best ones and two moments, in the stage before and the new one
WHOLE_MODEL_PASSES = 3.0  # the same where a gradient is computed for every weight, too
WHOLE_MODEL = "whole model"  # the way of training without adapters, whose backward pass goes through all weights


class System(ABC):
    """One way to solve a task. Specs are those of its own cells, planned or stored.

    ``packages`` are those that it needs and whose versions decide its numbers: a record names them. Its checkpoints
    take its kept bytes so many times as ``checkpoint_copies`` says, while one replaces another.
    """

    packages: tuple[str, ...] = ADAPTER_PACKAGES
    checkpoint_copies: int = LANE_COPIES

    def groups(self, cells: Sequence[Cell]) -> list[tuple[Cell, ...]]:
        """The cells of a pack that are trained together, in one attempt; a failure stops no other group."""
        return [(cell,) for cell in cells]

    def steps(self, spec: Mapping[str, Any]) -> int:
        """How many steps of progress a training has, each reported once it is over: epochs, for adapters."""
        return int(spec["training"]["epochs"])

    @abstractmethod
    def way(self, spec: Mapping[str, Any], lanes: int) -> str:
        """How a cell is trained beside ``lanes - 1`` others, in words, as far as that decides its costs."""

    @abstractmethod
    def passes(self, spec: Mapping[str, Any]) -> float | None:
        """Forward passes of the backbone that a training token costs; None where only its own records tell."""

    @abstractmethod
    def kept_bytes(self, spec: Mapping[str, Any], backbone: Backbone) -> int:
        """How many bytes of weights a record keeps; 0 where that is not known beforehand."""

    @abstractmethod
    def train(self, attempt: Attempt) -> list[Trained]:
        """Train every cell of an attempt and predict its validation and test rows, in the order of the cells.

        It tells ``attempt.watch`` of every step, and goes on from checkpoints where it keeps any. BadInput for what the
        user can mend; anything else that is raised is kept as the reason why the cells failed.
        """


def bottleneck_bytes(spec: Mapping[str, Any], backbone: Backbone) -> int:
    """Bytes in fp32 of adapter and head of a bottleneck cell; 0 where the adapter has no reduction factor."""
    if not spec["adapter"] or "reduction_factor" not in spec["adapter"]:
        return 0
    layers, width, _ = backbone.shape
    inner = max(1, width // int(spec["adapter"]["reduction_factor"]))
    outputs = len(spec["label"]["classes"]) or 1
    adapters = layers_of(spec["adapter"], layers) * (2 * width * inner + inner + width)
    return 4 * (adapters + (width + 1) * (width + outputs))


class Lanes(System):
    """All cells of a pack in one loop over the frozen backbone (harness.training.lanes): the default, the fast way."""

    def groups(self, cells: Sequence[Cell]) -> list[tuple[Cell, ...]]:
        """All cells of a pack at once."""
        return [tuple(cells)]

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


class Library(System):
    """One cell at a time through the adapters library's own forward pass: what lanes are held against.

    It trains what lanes do not serve, too: other methods than their bottleneck, and whole models.
    """

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
        parents = most_parents(spec["merge"]) if "merge" in spec else 0
        further = {FUSED: 3 * (1 + 2 * parents) / 12, JOINT: ADAPTER_PASSES * parents}
        return ADAPTER_PASSES + further.get(_rule(spec), 0)

    def kept_bytes(self, spec: Mapping[str, Any], backbone: Backbone) -> int:
        """Those of the target's adapter and head, and of a fusion; nothing is kept of a whole model."""
        layers, width, _ = backbone.shape
        return bottleneck_bytes(spec, backbone) + (4 * fusion_parameters(layers, width) if _rule(spec) == FUSED else 0)

    def train(self, attempt: Attempt) -> list[Trained]:
        """Train the only cell of the attempt; torch is loaded here."""
        from harness.training.library import train_alone, train_on_joint

        return [train_on_joint(attempt) if attempt.recipe.rule == JOINT else train_alone(attempt)]


def _rule(spec: Mapping[str, Any]) -> str:
    return str(spec.get("merge", {}).get("rule", ""))
