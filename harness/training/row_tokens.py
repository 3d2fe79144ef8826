"""How long a task's rows are in a backbone's tokens, from a few of them, before anything is trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.backbone import Backbone
from harness.study import StudyConfig
from harness.training.inputs import Encoded, InputFormat
from harness.training.model import load_tokenizer
from tasks.task import Example, Task

MOST_TOKENISED = 100
LONGEST = 3  # rows with the most bytes: among them is the one with the most tokens, or nearly


@dataclass(frozen=True)
class RowTokens:
    """The mean length of a row (or of a window of one), and the windows of the longest rows."""

    mean: float
    longest: tuple[tuple[Encoded, ...], ...]


def row_tokens(task: Task, rows: Sequence[Example], study: StudyConfig, backbone: Backbone) -> RowTokens:
    """Lengths of ``rows`` as the study cuts them, special tokens included; at most 103 rows are looked at."""
    tags = task.tags if study.input_format == "tags" else "none"
    form = InputFormat(load_tokenizer(backbone), study.input_format, tags, study.max_tokens, task.truncation)
    seen = [form.encode(row) for row in rows[:: -(-len(rows) // MOST_TOKENISED)]]
    lengths = [len(window.ids) for windows in seen for window in windows]
    longest = tuple(form.encode(row) for row in sorted(rows, key=_bytes)[-LONGEST:])
    return RowTokens(sum(lengths) / len(lengths), longest)


def _bytes(row: Example) -> int:
    return sum(len(text.encode()) for text in (row.text, *(turn.text for turn in row.context)))
