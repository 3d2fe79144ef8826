"""What a system is: one way from the rows of a task to trained cells, behind one small contract.

Two exist: ``lanes`` trains all cells of a pack in one loop, ``library`` one cell at a time through the adapters
library. Whoever runs, costs or reports cells knows none of them; it asks the system that a cell's spec names.

A system that is no adapter (a bi-encoder, micromodels, a sequence-to-sequence or a prompted model) is one more file:

- a frozen configuration with its paper's values as defaults, which enters the cell's spec under a new field, so that
  the keys of all other cells stay what they are; its spec says ``system = NAME`` and ``intermediate_key = None``,
- ``train``, which fits on the training and validation rows of the attempt alone, and only then predicts: no test row is
  read before the last parameter is chosen,
- ``save`` of each Trained, which writes safetensors and JSON, never a pickle, and what reads them again.

Nothing heavy is imported at the top of a system's file: planning, costs and status load it without torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from harness.study.cell import Cell

if TYPE_CHECKING:
    from harness.training.recipe import Attempt
    from harness.training.trained import Trained

ADAPTER_PACKAGES = ("adapters", "torch", "transformers", "tokenizers", "numpy")
WHOLE_MODEL = "whole model"  # the way of training without adapters, whose backward pass goes through all weights


@runtime_checkable
class System(Protocol):
    """One way to solve a task. Specs are those of its own cells, planned or stored."""

    @property
    def packages(self) -> tuple[str, ...]:
        """The packages that it needs and whose versions decide its numbers: a record names them."""
        ...

    def groups(self, cells: Sequence[Cell]) -> list[tuple[Cell, ...]]:
        """The cells of a pack that are trained together, in one attempt; a failure stops no other group."""
        ...

    def steps(self, spec: Mapping[str, Any]) -> int:
        """How many steps of progress a training has, each reported once it is over: epochs, for adapters."""
        ...

    def way(self, spec: Mapping[str, Any], lanes: int) -> str:
        """How a cell is trained beside ``lanes - 1`` others, in words, as far as that decides its costs."""
        ...

    def weights(self, spec: Mapping[str, Any], layers: int, width: int) -> int:
        """How many fp32 numbers a record keeps, on a backbone of this shape; 0 where that is not known beforehand."""
        ...

    def train(self, attempt: Attempt) -> list[Trained]:
        """Train every cell of an attempt and predict its validation and test rows, in the order of the cells.

        It tells ``attempt.watch`` of every step, and goes on from checkpoints where it keeps any. BadInput for what the
        user can mend; anything else that is raised is kept as the reason why the cells failed.
        """
        ...


def bottleneck_weights(spec: Mapping[str, Any], layers: int, width: int) -> int:
    """Numbers in the adapter and head of a bottleneck cell; 0 where the adapter has no reduction factor."""
    if not spec["adapter"] or "reduction_factor" not in spec["adapter"]:
        return 0
    inner = max(1, width // int(spec["adapter"]["reduction_factor"]))
    outputs = len(spec["label"]["classes"]) or 1
    return layers * (2 * width * inner + inner + width) + (width + 1) * (width + outputs)
