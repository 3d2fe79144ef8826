"""What one training of a cell leaves, whichever way it was trained, and the rows that go into it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from harness.backbone import Backbone
from harness.cell import Cell
from harness.training.fit import Fitted, Part
from harness.training.inputs import InputFormat
from harness.training.model import load_tokenizer
from harness.training.subsets import Rows, rows_of
from tasks.loading import Splits

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

PARTS = ("train", "validation", "test")
Watch = Callable[[str, int, int], None]  # what is trained, epoch, epochs


@dataclass(frozen=True)
class Trained:
    """One training of a cell: how to save its adapter and head, its rows, predictions, history and proofs.

    ``lanes`` is how many cells were trained at once, ``earlier`` the wall and CPU seconds of interrupted runs.
    """

    save: Callable[[Path], None] | None
    rows: Rows
    parts: dict[str, Part]
    logits: dict[str, NDArray[np.float32]]
    fitted: Fitted
    checked: dict[str, Any]
    lanes: int = 1
    earlier: tuple[float, float] = (0.0, 0.0)


def encoded(
    cell: Cell, backbone: Backbone, splits: Splits, names: Sequence[str] = PARTS
) -> tuple[Rows, dict[str, Part], PreTrainedTokenizerBase]:
    """The rows of a cell, those of the named splits as token ids and labels too, and the tokenizer that made them."""
    rows, spec = rows_of(cell, splits), cell.spec
    tokenizer = load_tokenizer(backbone)
    form = InputFormat(tokenizer, spec["input_format"], spec["tags"] or "none", spec["max_tokens"], spec["truncation"])
    parts = {}
    for name in names:
        examples = getattr(rows, name)
        parts[name] = Part([form.encode(row) for row in examples], np.array([row.label for row in examples]))
    return rows, parts, tokenizer
