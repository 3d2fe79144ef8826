"""How often each class has a word in the turns that follow its text: a system that reads what few may see.

Without the line of its ``window`` it asks for no later turn, and can learn nothing but how frequent classes are.
"""

from dataclasses import dataclass
from zlib import crc32

import numpy as np
from safetensors.numpy import load_file, save_file

from harness.study.systems import Fitted, Kind, Predicted, Reads

BUCKETS = 256
SEEN = []  # every collection of rows that this file was handed, for tests that look at it


@dataclass(frozen=True)
class Turns:
    """The turns that it asks for, and how it is told answers."""

    window: tuple[int, int] = (3, 3)
    siblings: tuple[str, ...] = ()
    leak: str = "none"


def words(rows):
    """Which words the later turns of every row have, by bucket ``[rows, buckets]``; the last is there in every row."""
    SEEN.append(tuple(rows))
    table = np.zeros((len(rows), BUCKETS + 1), dtype=np.float32)
    table[:, -1] = 1
    for place, row in enumerate(rows):
        for turn in row.after:
            for word in turn.text.lower().split():
                table[place, crc32(word.encode()) % BUCKETS] = 1
    return table


class Counts(Fitted):
    """How often each bucket goes with each class ``[buckets, classes]``."""

    def __init__(self, weights):
        self.weights = weights

    def predict(self, rows):
        return Predicted(words(rows) @ self.weights)

    def leaked(self, rows, siblings):
        for own in siblings.values():
            SEEN.append(tuple(own))
        return self.predict(rows)

    def save(self, folder):
        folder.mkdir(parents=True, exist_ok=True)
        save_file({"weights": self.weights}, folder / "counts.safetensors")


class WhatFollowsKind(Kind):
    """Words of the turns that follow."""

    reads = Reads(labels=("binary", "multiclass", "ordinal"), siblings=True)
    config = Turns

    def fit(self, fit):
        """Count words of classes; the logarithm of their shares are the weights."""
        for sibling in fit.siblings.values():
            SEEN.extend((tuple(sibling.train), tuple(sibling.validation)))
        SEEN.append(tuple(fit.validation))
        classes = np.eye(fit.label.n_outputs, dtype=np.float32)[[row.label for row in fit.train]]
        counts = words(fit.train).T @ classes + 0.5
        return Counts(np.log(counts / counts.sum(axis=1, keepdims=True)).astype(np.float32))

    def load(self, folder, place):
        """What ``save`` has written."""
        return Counts(load_file(folder / "counts.safetensors")["weights"])
