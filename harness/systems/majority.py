"""The answer of somebody who has read no text: how frequent each class is among the training rows, or their mean.

A floor that every other system has to leave below it. It scores what a record calls the cell's floor.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from harness.study.systems import Fit, Fitted, Kind, Place, Predicted, Settings
from tasks.task import Example

SMOOTHING = 0.5  # rows added to every count, so that a class without a row has a logarithm


@dataclass(frozen=True)
class Frequencies(Fitted):
    """The same logits ``[outputs]`` for every row."""

    logits: NDArray[np.float32]

    def predict(self, rows: Sequence[Example]) -> Predicted:
        """The logits, once per row."""
        return Predicted(np.tile(self.logits, (len(rows), 1)))

    def save(self, folder: Path) -> None:
        """Write the logits."""
        folder.mkdir(parents=True, exist_ok=True)
        save_file({"logits": self.logits}, folder / "frequencies.safetensors")


class MajorityKind(Kind[Settings]):
    """Frequencies of the training rows; nothing can be set."""

    config = Settings

    def fit(self, fit: Fit) -> Frequencies:
        """Logarithms of the classes' shares, log odds of each of several labels, or the mean of a continuous label."""
        labels = np.array([row.label for row in fit.train])
        if fit.label.kind == "continuous":
            return Frequencies(np.array([labels.mean()], dtype=np.float32))
        if fit.label.kind == "multilabel":
            held = labels.sum(axis=0) + SMOOTHING
            return Frequencies(np.log(held / (len(labels) + 2 * SMOOTHING - held)).astype(np.float32))
        counts = np.bincount(labels, minlength=fit.label.n_outputs) + SMOOTHING
        return Frequencies(np.log(counts / counts.sum()).astype(np.float32))

    def load(self, folder: Path, place: Place) -> Frequencies:
        """What ``save`` has written."""
        return Frequencies(load_file(folder / "frequencies.safetensors")["logits"])
