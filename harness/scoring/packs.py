"""Tasks as lanes over texts: every different sequence of tokens is computed once, for all tasks that read it.

Tasks differ in how they read a text: with all earlier turns, with the last or with none. Of a text that has no earlier
turn, or a single one, most of them make the same tokens, and a corpus says some things many times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from harness.scoring.passes import scored
from harness.scoring.scoring_tasks import ScoringTask
from harness.training.inputs import Encoded, InputFormat
from harness.training.lanes.fit import predicted
from harness.training.lanes.forward import Lanes
from harness.training.lanes.frozen import Frozen
from harness.training.lanes.state import LaneState
from tasks.readers.rows import kept_turns
from tasks.task import Example


@dataclass(frozen=True)
class Reading:
    """How some tasks read a text: the format, and which earlier turns."""

    form: InputFormat
    turns: slice

    def encode(self, rows: Sequence[Example]) -> list[tuple[Encoded, ...]]:
        """The token ids of every row, by window."""
        return self.form.encode_all([row._replace(context=row.context[self.turns]) for row in rows])

    @classmethod
    def of(cls, form: InputFormat, history: str) -> Reading:
        """That of a task with this ``history``."""
        return cls(form, kept_turns(history))


@dataclass(frozen=True)
class Pack:
    """Tasks with adapters of one shape as lanes; ``readings`` names how each reads a text."""

    tasks: tuple[ScoringTask, ...]
    readings: tuple[str, ...]
    state: LaneState
    _chosen: dict[tuple[int, ...], Lanes] = field(default_factory=dict)

    def lanes(self, chosen: tuple[int, ...], dtype: torch.dtype) -> Lanes:
        """These lanes alone, in the encoder's precision; they are kept for the next texts."""
        if chosen not in self._chosen:
            self._chosen[chosen] = self.state.only(chosen).lanes().to(dtype)
        return self._chosen[chosen]

    def logits(
        self, frozen: Frozen, encoded: Mapping[str, Sequence[tuple[Encoded, ...]]], pad_id: int, *, has_segments: bool
    ) -> NDArray[np.float32]:
        """``[K, rows, outputs]`` of the rows as every reading has ``encoded`` them, each the mean over its windows."""
        numbers, windows = _numbered({name: encoded[name] for name in self.readings})
        outputs = self.state.trained["head.4.weight"].shape[1]
        every = np.zeros((len(self.tasks), len(windows), outputs), np.float32)
        for chosen, places in self._passes(numbers, len(windows)).items():
            lanes, own = self.lanes(chosen, frozen.dtype), [windows[place] for place in places]
            every[np.ix_(chosen, places)] = _computed(frozen, lanes, own, pad_id, has_segments=has_segments)
        return np.stack([_means(every[lane], numbers[name]) for lane, name in enumerate(self.readings)])

    def _passes(self, numbers: Mapping[str, Sequence[list[int]]], count: int) -> dict[tuple[int, ...], list[int]]:
        """The sequences that the same lanes read, by their lanes."""
        readers: list[list[int]] = [[] for _ in range(count)]
        for lane, name in enumerate(self.readings):
            for number in {number for row in numbers[name] for number in row}:
                readers[number].append(lane)
        passes: dict[tuple[int, ...], list[int]] = {}
        for number, lanes in enumerate(readers):
            passes.setdefault(tuple(lanes), []).append(number)
        return passes


def _numbered(
    encoded: Mapping[str, Sequence[tuple[Encoded, ...]]],
) -> tuple[dict[str, list[list[int]]], list[Encoded]]:
    """The different sequences of tokens, and by reading which of them are the windows of every row."""
    known: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = {}
    windows: list[Encoded] = []
    numbers: dict[str, list[list[int]]] = {}
    for name, rows in encoded.items():
        numbers[name] = [[known.setdefault((own.ids, own.segments), len(known)) for own in row] for row in rows]
        new = {
            number: own
            for row, made in zip(rows, numbers[name], strict=True)
            for own, number in zip(row, made, strict=True)
        }
        windows += [new[number] for number in range(len(windows), len(known))]
    return numbers, windows


def _computed(
    frozen: Frozen, lanes: Lanes, rows: Sequence[Encoded], pad_id: int, *, has_segments: bool
) -> NDArray[np.float32]:
    """Logits ``[K, rows, outputs]``: without padding on a processor, in few large passes on a GPU."""
    if frozen.device.type == "cpu":
        return scored(frozen, lanes, rows, pad_id, has_segments=has_segments).numpy()
    return predicted(frozen, lanes, [(row,) for row in rows], pad_id, has_segments=has_segments)


def _means(logits: NDArray[np.float32], rows: Sequence[list[int]]) -> NDArray[np.float32]:
    """``[rows, outputs]`` of ``[sequences, outputs]``."""
    return np.stack([logits[row].mean(axis=0) for row in rows])
