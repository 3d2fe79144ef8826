"""How many rows of a task a backbone has to cut, found before anything is trained."""

from __future__ import annotations

from collections.abc import Sequence

from harness.backbone import Backbone
from harness.study import StudyConfig
from harness.training.inputs import InputFormat, cut_counts
from harness.training.model import load_tokenizer
from tasks.task import Example, Task

MOST_TOKENISED = 300
ROOM_FOR_TAGS = 40  # bytes that an input format may add to a turn


def cut_shares(task: Task, rows: Sequence[Example], study: StudyConfig, backbone: Backbone) -> dict[str, float]:
    """Shares of ``rows`` that lose some of their ``history`` or ``target``; of many long rows only some are looked at.

    A tokenizer makes at most one token of a byte, so most rows need no look.
    """
    long = [row for row in rows if _bytes(row) > study.max_tokens]
    if not long:
        return {"history": 0.0, "target": 0.0}
    looked_at = long[:: -(-len(long) // MOST_TOKENISED)]
    tags = task.tags if study.input_format == "tags" else "none"
    form = InputFormat(load_tokenizer(backbone), study.input_format, tags, study.max_tokens, task.truncation)
    counts = cut_counts([form.encode(row) for row in looked_at])
    return {part: counts[part] / len(looked_at) * len(long) / len(rows) for part in ("history", "target")}


def _bytes(row: Example) -> int:
    return sum(len(text.encode()) + ROOM_FOR_TAGS for text in (row.text, *(turn.text for turn in row.context)))
