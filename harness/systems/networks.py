"""Kinds whose network is trained epoch by epoch: how all of them are fitted and read again, and their settings.

A kind and its settings load no torch. Fields that several kinds have are declared here. A kind's network stands in
``network.py`` of its folder, which knows the kind's settings; the kind does not know it, and it is found by its place.
"""

from __future__ import annotations

from collections.abc import Hashable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from harness.study.systems import Fit, Kind, Place, classes_in
from tasks.fields import Range

if TYPE_CHECKING:
    from harness.systems.epochs import EpochTrained

ADAPTED = ("adapters", "torch", "transformers", "tokenizers", "numpy")  # packages of what stands on a backbone
BEST_KEPT = 8  # weights, best ones and two moments, in the checkpoint before and the new one
BYTES = 4  # of an fp32 number

BatchSize = Annotated[int, Range(1, 4096)]
Dropout = Annotated[float, Range(0.0, 0.9)]
Epochs = Annotated[int, Range(1, 1000)]
Patience = Annotated[
    int, Range(0, 1000), "stop, and keep the best on validation rows, after so many epochs no better; 0: keep the last"
]
Precision = Annotated[
    Literal["fp32", "bf16"], "bf16: products in 16 bits; weights, losses and the optimizer's moments stay in 32"
]
Rank = Annotated[int, Range(0, 1024)]
Rate = Annotated[float, Range(1e-9, 1.0)]

C = TypeVar("C", bound=Hashable)


class NetworkKind(Kind[C]):
    """A kind whose ``fit`` and ``load`` are those of its network: the class of ``network.py`` in the kind's folder."""

    packages = ADAPTED

    @property
    def network(self) -> type[EpochTrained[Any]]:
        """The network's class; torch is loaded here."""
        from harness.systems.epochs import EpochTrained

        network: type[EpochTrained[Any]]
        (network,) = classes_in(import_module(f"{type(self).__module__}.network"), EpochTrained)
        return network

    def fit(self, fit: Fit) -> EpochTrained[Any]:
        """Train the network on the training rows."""
        return self.network.of(fit)

    def load(self, folder: Path, place: Place) -> EpochTrained[Any]:
        """What ``save`` has written."""
        return self.network.load(folder, place, lambda settings: self.configured(settings, str(folder)))
