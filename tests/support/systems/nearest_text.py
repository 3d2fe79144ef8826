"""The answer of the training text that shares most words: a system of one's own (docs/systems-beside-adapters.md).

Words are kept as numbers of buckets alone, so that no text is stored.
"""

from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

import numpy as np
from safetensors.numpy import load_file, save_file

from harness.study.systems import Fitted, Kind, Predicted, Reads


@dataclass(frozen=True)
class Buckets:
    """How many buckets words fall into, and how many neighbours vote."""

    buckets: int = 512
    neighbours: int = 3


def counts(rows, buckets):
    """Words of every row by bucket ``[rows, buckets]``, each row of length 1."""
    table = np.zeros((len(rows), buckets), dtype=np.float32)
    for place, row in enumerate(rows):
        for word in row.text.lower().split():
            table[place, crc32(word.encode()) % buckets] += 1
    return table / np.maximum(np.linalg.norm(table, axis=1, keepdims=True), 1)


class Neighbours(Fitted):
    """Training rows as buckets, and their classes."""

    def __init__(self, arrays):
        self.arrays = arrays

    def predict(self, rows):
        config = Buckets(*self.arrays["settings"].tolist())
        alike = counts(rows, config.buckets) @ self.arrays["rows"].T
        nearest = np.argsort(-alike, axis=1, kind="stable")[:, : config.neighbours]
        votes = self.arrays["classes"][nearest].sum(axis=1)
        return Predicted(votes.astype(np.float32))

    def save(self, folder: Path):
        folder.mkdir(parents=True, exist_ok=True)
        save_file(self.arrays, folder / "neighbours.safetensors")


class NearestTextKind(Kind):
    """Training rows that vote."""

    reads = Reads(labels=("binary", "multiclass", "ordinal"))
    config = Buckets

    def fit(self, fit):
        """Keep the training rows."""
        classes = np.eye(fit.label.n_outputs, dtype=np.float32)[[row.label for row in fit.train]]
        settings = np.array([fit.config.buckets, fit.config.neighbours])
        return Neighbours({"rows": counts(fit.train, fit.config.buckets), "classes": classes, "settings": settings})

    def load(self, folder, place):
        """What ``save`` has written."""
        return Neighbours(load_file(folder / "neighbours.safetensors"))
